package command

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// A listPart is one of several parts of a list. The zero value is the whole list.
type listPart struct {
	index int // from 0
	of    int // number of parts; 0 for the whole list
}

// The variables in which schedulers give a job its index among equal jobs, from 0.
const (
	kubernetesIndex = "JOB_COMPLETION_INDEX"
	awsIndex        = "AWS_BATCH_JOB_ARRAY_INDEX"
	awsSize         = "AWS_BATCH_JOB_ARRAY_SIZE"
)

// parsePart parses I/N, where I counts from 1; auto/N, where the index is the index of a
// Kubernetes Indexed Job or of an AWS Batch array; or auto, where the size is AWS's too.
func parsePart(text string, getenv func(string) string) (listPart, error) {
	first, last, hasSize := strings.Cut(text, "/")
	isAuto := first == "auto"
	if isAuto && !hasSize {
		if last = getenv(awsSize); last == "" {
			return listPart{}, fmt.Errorf("auto needs %s, which is not set: auto/N", awsSize)
		}
	}
	of, err := strconv.Atoi(last)
	if err != nil || of < 1 {
		return listPart{}, fmt.Errorf("%q is not I/N, auto/N or auto", text)
	}
	if !isAuto {
		i, err := strconv.Atoi(first)
		if err != nil || i < 1 || i > of {
			return listPart{}, fmt.Errorf("part %q of %d: parts count from 1", first, of)
		}
		return listPart{i - 1, of}, nil
	}
	index, other := getenv(kubernetesIndex), getenv(awsIndex)
	switch {
	case index == "":
		index = other
	case other != "" && other != index:
		return listPart{}, fmt.Errorf("%s is %q and %s is %q", kubernetesIndex, index,
			awsIndex, other)
	}
	if index == "" {
		return listPart{}, fmt.Errorf("auto needs %s or %s, and neither is set", kubernetesIndex,
			awsIndex)
	}
	i, err := strconv.Atoi(index)
	if err != nil || i < 0 || i >= of {
		return listPart{}, fmt.Errorf("the index %q of the job is not below %d", index, of)
	}
	return listPart{i, of}, nil
}

// has reports whether a file belongs to the part. That depends on its name alone, and so
// stays the same when the list grows.
func (p listPart) has(file string) bool {
	if p.of == 0 {
		return true
	}
	sum := sha256.Sum256([]byte(file))
	return binary.BigEndian.Uint64(sum[:])%uint64(p.of) == uint64(p.index)
}
