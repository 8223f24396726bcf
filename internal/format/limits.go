package format

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math"

	"github.com/tensorfile/tensorfile/tensor"
)

// CompleteLimits returns l with the default in place of every zero. It fails with
// fs.ErrInvalid for a negative limit.
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

// CheckWritten fails with errors.ErrUnsupported for a tensor that Readers with the
// default Limits refuse.
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

// maxExpansion is how much a file may expand by default: deflate expands at most by 1032.
const maxExpansion = 1100

// DecodedTotal returns MaxDecodedTotal or its default, which depends on the size of
// the file.
func DecodedTotal(l tensor.Limits, fileSize int64) int64 {
	return total(l, fileSize, 64<<30)
}

// total returns MaxDecodedTotal, or else the larger of minimum and what a file of that
// size can decode to.
func total(l tensor.Limits, fileSize, minimum int64) int64 {
	switch {
	case l.MaxDecodedTotal > 0:
		return l.MaxDecodedTotal
	case fileSize > math.MaxInt64/maxExpansion:
		return math.MaxInt64
	}
	return max(minimum, maxExpansion*fileSize)
}

// A Budget counts the bytes that an operation reads or decodes, under
// Limits.MaxDecodedTotal. Bytes that are not encoded are counted too: tensors may share
// them, or repeat them by their strides, so that a small file has many.
type Budget struct {
	limits   tensor.Limits
	fileSize int64 // 0 if it is not known
	encoded  int64 // decoded bytes of encoded payloads, each payload once
	plain    int64 // all other bytes
	stored   int64 // bytes of the file that the counted blobs are made of, each blob once
	seen     map[tensor.Stored]bool
}

// NewBudget returns the budget of one operation on files of that size together; 0 if the
// size is not known.
func NewBudget(l tensor.Limits, fileSize int64) *Budget {
	return &Budget{limits: l, fileSize: fileSize, seen: map[tensor.Stored]bool{}}
}

// Add counts all bytes of a blob. Bytes that are in no file are not counted. It fails
// with tensor.ErrLimit if there are more than the limit allows.
func (b *Budget) Add(blob tensor.Blob) error {
	st, ok := blob.Stored()
	if !ok {
		return nil
	}
	isPlain := st.Encoding == "raw" || st.Encoding == "" || st.Offset < 0
	isSeen := false
	if !isPlain || b.fileSize <= 0 {
		isSeen = b.seen[st]
		b.seen[st] = true
	}
	if !isSeen {
		b.stored = sum(b.stored, st.Size)
	}
	n := max(blob.Size(), 0)
	size := b.fileSize
	if size <= 0 || !isPlain && !isSeen {
		size = max(size, b.stored) // payloads of an index are in its shards
	}
	if isPlain || isSeen {
		b.plain = sum(b.plain, n)
		limit := total(b.limits, size, 1<<30)
		if b.limits.MaxDecodedTotal > 0 {
			limit = sum(limit, size) // the limit is for decoded bytes only
		}
		return checkTotal(b.plain, limit)
	}
	b.encoded = sum(b.encoded, n)
	return checkTotal(b.encoded, DecodedTotal(b.limits, size))
}

func checkTotal(n, limit int64) error {
	if n <= limit {
		return nil
	}
	return fmt.Errorf("%w: %d bytes to decode, and the limit is %d", tensor.ErrLimit, n, limit)
}

// sum returns a+b, or math.MaxInt64 if that overflows.
func sum(a, b int64) int64 {
	if b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}

// CheckDecoded fails with tensor.ErrLimit if reading all blobs exceeds the Budget of
// files that have fileSize bytes together.
func CheckDecoded(l tensor.Limits, fileSize int64, blobs iter.Seq[tensor.Blob]) error {
	b := NewBudget(l, fileSize)
	for blob := range blobs {
		if err := b.Add(blob); err != nil {
			return err
		}
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
