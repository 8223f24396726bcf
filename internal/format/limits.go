package format

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math"

	"github.com/tensorfile/tensorfile/tensor"
)

// CompleteLimits returns l with the default for every zero. A negative limit is an error.
func CompleteLimits(l tensor.Limits) (tensor.Limits, error) {
	for _, f := range []struct {
		name         string
		v            *int64
		defaultValue int64
	}{
		{"MaxMetadata", &l.MaxMetadata, 1 << 30},
		{"MaxTensors", &l.MaxTensors, 1 << 24},
		{"MaxName", &l.MaxName, 1 << 20},
		{"MaxRank", &l.MaxRank, 255},
		{"MaxDecoded", &l.MaxDecoded, 64 << 30},
		{"MaxDepth", &l.MaxDepth, 64},
		{"MaxDecodedTotal", &l.MaxDecodedTotal, 0},
	} {
		switch {
		case *f.v < 0:
			return l, fmt.Errorf("tensor: %w: Limits.%s is negative: %d", fs.ErrInvalid, f.name,
				*f.v)
		case *f.v == 0:
			*f.v = f.defaultValue
		}
	}
	return l, nil
}

// DefaultLimits returns the default limits.
func DefaultLimits() tensor.Limits {
	l, _ := CompleteLimits(tensor.Limits{})
	return l
}

// CheckWritten returns errors.ErrUnsupported for a tensor that no Reader opens unless its
// Limits are raised.
func CheckWritten(name string, rank int) error {
	switch l := DefaultLimits(); {
	case int64(len(name)) > l.MaxName:
		return fmt.Errorf("%w: a name of %d bytes, readers take %d", errors.ErrUnsupported,
			len(name), l.MaxName)
	case int64(rank) > l.MaxRank:
		return fmt.Errorf("%w: %d dimensions, readers take %d", errors.ErrUnsupported, rank,
			l.MaxRank)
	}
	return nil
}

// DecodedTotal returns MaxDecodedTotal or its default, which depends on the size of
// the file.
func DecodedTotal(l tensor.Limits, fileSize int64) int64 {
	switch {
	case l.MaxDecodedTotal > 0:
		return l.MaxDecodedTotal
	case fileSize > math.MaxInt64/1100:
		return math.MaxInt64
	}
	return max(64<<30, 1100*fileSize)
}

// CheckDecoded returns tensor.ErrLimit if what is encoded of the blobs, of files of
// that size together, decodes to more than DecodedTotal.
func CheckDecoded(l tensor.Limits, fileSize int64, blobs iter.Seq[tensor.Blob]) error {
	total, stored, fits := int64(0), int64(0), true
	seen := map[tensor.Stored]bool{}
	for b := range blobs {
		st, ok := b.Stored()
		if !ok || st.Encoding == "" || st.Encoding == "raw" {
			continue
		}
		if n := max(b.Size(), 0); n > math.MaxInt64-total {
			fits = false
		} else {
			total += n
		}
		if !seen[st] { // what an index refers to is in its shards
			seen[st] = true
			stored += st.Size
		}
	}
	if most := DecodedTotal(l, max(fileSize, stored)); !fits || total > most {
		return fmt.Errorf("%w: %d bytes to decode, and the limit is %d", tensor.ErrLimit, total,
			most)
	}
	return nil
}

// Blobs yields the data of a tensor and the data of its parts.
func Blobs(t *tensor.Tensor) iter.Seq[tensor.Blob] {
	return func(yield func(tensor.Blob) bool) {
		if !yield(t.Data) {
			return
		}
		for i := range t.Parts {
			if !yield(t.Parts[i].Data) {
				return
			}
		}
	}
}
