package pte

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/tensor"
)

// Defaults of ExecuTorch's serializer.
const (
	defaultSegmentAlignment = 128
	defaultTensorAlignment  = 16
	headerLength            = 32
	maxAlignment            = 1 << 30
)

// WriterOptions control how a program is written. nil is the zero value.
type WriterOptions struct {
	// SegmentAlignment aligns the segments, in bytes; 0 for ExecuTorch's 128. Unlike
	// ExecuTorch's, our alignments hold in the file.
	SegmentAlignment int64
	// Alignment aligns constants and initial values; a power of two, 0 for
	// ExecuTorch's 16. A type that needs more gets more.
	Alignment int64
}

// alignments checks the options and fills in ExecuTorch's values.
func (o *WriterOptions) alignments() (segment, data int64, err error) {
	segment = cmp.Or(o.SegmentAlignment, defaultSegmentAlignment)
	data = cmp.Or(o.Alignment, defaultTensorAlignment)
	if min(segment, data) < 1 || max(segment, data) > maxAlignment || data&(data-1) != 0 {
		return 0, 0, fmt.Errorf("pte: bad options: segment alignment %d, tensor alignment %d",
			segment, data)
	}
	return segment, data, nil
}

// An output is a file that is ready to be written: nothing of it has to be gone back to.
type output struct {
	head   []byte // flatbuffer with its header
	pieces []format.Section
	size   int64
}

// check opens what is about to be written, and returns what Verify would report of its
// structure, warnings too.
func (o *output) check() error {
	r, err := NewReader(padded(o.head), o.size, &ReaderOptions{Strict: true,
		Limits: tensor.Limits{MaxMetadata: math.MaxInt32, MaxTensors: math.MaxInt32}})
	if err != nil {
		return err
	}
	return r.checked.Err()
}

// padded is bytes with any number of zeros after them.
type padded []byte

func (b padded) ReadAt(p []byte, off int64) (int, error) {
	n := 0
	if off < int64(len(b)) {
		n = copy(p, b[off:])
	}
	clear(p[n:])
	return len(p), nil
}

// writeTo writes the file.
func (o *output) writeTo(ctx context.Context, w io.Writer) error {
	all := append(whole("flatbuffer", tensor.BlobOf(o.head)), o.pieces...)
	if err := format.WriteTo(ctx, w, func(out *format.Output) error {
		return format.WriteSections(out, nil, all, o.size)
	}); err != nil {
		return fmt.Errorf("pte: %w", err)
	}
	return nil
}

// tooLarge makes a flatbuffer of more than 2 GiB a limit.
func tooLarge(err error) error {
	if errors.Is(err, fb.ErrTooLarge) {
		return fmt.Errorf("pte: %w: %w", tensor.ErrLimit, err)
	}
	return err
}
