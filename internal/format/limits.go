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
	return total(l, fileSize, 64<<30)
}

func total(l tensor.Limits, fileSize, least int64) int64 {
	switch {
	case l.MaxDecodedTotal > 0:
		return l.MaxDecodedTotal
	case fileSize > math.MaxInt64/1100:
		return math.MaxInt64
	}
	return max(least, 1100*fileSize)
}

// A Budget counts the bytes that an operation makes of a file, under
// Limits.MaxDecodedTotal. Plain bytes are counted too: tensors may share them, or repeat
// them by their strides, so that a small file has many.
type Budget struct {
	limits   tensor.Limits
	fileSize int64 // 0 if it is not known
	encoded  int64 // bytes that what is encoded decodes to, each payload once
	plain    int64 // all other bytes
	stored   int64 // bytes of the file that the blobs counted are in, each once
	seen     map[tensor.Stored]bool
}

// NewBudget returns the budget of one operation on files of that size together; 0 if the
// size is not known.
func NewBudget(l tensor.Limits, fileSize int64) *Budget {
	return &Budget{limits: l, fileSize: fileSize, seen: map[tensor.Stored]bool{}}
}

// Add counts all bytes of a blob. Bytes that are in no file count nothing. It returns
// tensor.ErrLimit if there are more than the limit allows.
func (b *Budget) Add(blob tensor.Blob) error {
	st, ok := blob.Stored()
	if !ok {
		return nil
	}
	plain := st.Encoding == "raw" || st.Encoding == "" || st.Offset < 0
	again := false
	if !plain || b.fileSize <= 0 {
		again = b.seen[st]
		b.seen[st] = true
	}
	if !again {
		b.stored = sum(b.stored, st.Size)
	}
	n := max(blob.Size(), 0)
	size := b.fileSize
	if size <= 0 || !plain && !again {
		size = max(size, b.stored) // what an index refers to is in its shards
	}
	if plain || again {
		b.plain = sum(b.plain, n)
		most := total(b.limits, size, 1<<30)
		if b.limits.MaxDecodedTotal > 0 {
			most = sum(most, size) // what is read as it is stored is not decoded
		}
		return within(b.plain, most)
	}
	b.encoded = sum(b.encoded, n)
	return within(b.encoded, DecodedTotal(b.limits, size))
}

func within(n, most int64) error {
	if n <= most {
		return nil
	}
	return fmt.Errorf("%w: %d bytes to decode, and the limit is %d", tensor.ErrLimit, n, most)
}

// sum is a+b, or the largest number if that is less.
func sum(a, b int64) int64 {
	if b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}

// CheckDecoded returns tensor.ErrLimit if reading all blobs, of files of that size
// together, exceeds their Budget.
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
