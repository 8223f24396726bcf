package batch

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// A Part is one of several shares of a list. The zero value has everything.
type Part struct {
	Index int // from 0
	Of    int // 0: there are no other parts
}

// The variables in which schedulers say which of several equal jobs one is, from 0.
const (
	kubernetesIndex = "JOB_COMPLETION_INDEX"
	awsIndex        = "AWS_BATCH_JOB_ARRAY_INDEX"
	awsSize         = "AWS_BATCH_JOB_ARRAY_SIZE"
)

// ParsePart parses I/N, where I counts from 1; auto/N, where the index is that of a
// Kubernetes Indexed Job or of an AWS Batch array; or auto, where the size is AWS's too.
func ParsePart(text string, getenv func(string) string) (Part, error) {
	first, last, hasSize := strings.Cut(text, "/")
	isAuto := first == "auto"
	if isAuto && !hasSize {
		if last = getenv(awsSize); last == "" {
			return Part{}, fmt.Errorf("auto needs %s, which is not set: auto/N", awsSize)
		}
	}
	of, err := strconv.Atoi(last)
	if err != nil || of < 1 {
		return Part{}, fmt.Errorf("%q is not I/N, auto/N or auto", text)
	}
	if !isAuto {
		i, err := strconv.Atoi(first)
		if err != nil || i < 1 || i > of {
			return Part{}, fmt.Errorf("part %q of %d: parts count from 1", first, of)
		}
		return Part{i - 1, of}, nil
	}
	index, other := getenv(kubernetesIndex), getenv(awsIndex)
	switch {
	case index == "":
		index = other
	case other != "" && other != index:
		return Part{}, fmt.Errorf("%s is %q and %s is %q", kubernetesIndex, index, awsIndex, other)
	}
	if index == "" {
		return Part{}, fmt.Errorf("auto needs %s or %s, and neither is set", kubernetesIndex,
			awsIndex)
	}
	i, err := strconv.Atoi(index)
	if err != nil || i < 0 || i >= of {
		return Part{}, fmt.Errorf("the index %q of the job is not below %d", index, of)
	}
	return Part{i, of}, nil
}

// Has reports whether a file belongs to the part. That depends on its name alone, and so
// stays the same when the list grows.
func (p Part) Has(file string) bool {
	if p.Of == 0 {
		return true
	}
	sum := sha256.Sum256([]byte(file))
	return binary.BigEndian.Uint64(sum[:])%uint64(p.Of) == uint64(p.Index)
}
