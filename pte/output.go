package pte

import (
	"cmp"
	"errors"
	"io/fs"
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
	// NoReplace makes WriteFile fail with fs.ErrExist if the file exists.
	NoReplace bool
	// Progress, if not nil, is called with the bytes written so far and the size of the
	// file.
	Progress func(done, total int64)
}

// alignments checks the options and fills in ExecuTorch's values.
func (o *WriterOptions) alignments() (segment, data int64, err error) {
	segment = cmp.Or(o.SegmentAlignment, defaultSegmentAlignment)
	data = cmp.Or(o.Alignment, defaultTensorAlignment)
	if min(segment, data) < 1 || max(segment, data) > maxAlignment || data&(data-1) != 0 {
		err = errs.New(fs.ErrInvalid, "segment alignment %d, tensor alignment %d", segment, data)
	}
	return segment, data, err
}

// encoding is how a file is written, of which assemble makes the output.
func (o *WriterOptions) encoding(
	assemble func(o WriterOptions) (*output, error)) *format.Encoding[*tensor.Tensor] {
	var given WriterOptions
	if o != nil {
		given = *o
	}
	_, _, err := given.alignments()
	return &format.Encoding[*tensor.Tensor]{Format: errs, Err: err, NoReplace: given.NoReplace,
		Progress: given.Progress,
		Encode: func(out *format.Output, _ []*tensor.Tensor) error {
			x, err := assemble(given)
			if err == nil {
				err = errs.Wrap(-1, "", x.writeTo(out))
			}
			return err
		}}
}

// An output is a file that is ready to be written: nothing of it has to be gone back to.
type output struct {
	head     []byte // flatbuffer with its header
	sections []format.Section
	size     int64
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
func (o *output) writeTo(out *format.Output) error {
	all := append(whole("flatbuffer", tensor.BlobOf(o.head)), o.sections...)
	return format.WriteSections(out, nil, all, o.size)
}

// tooLarge makes a flatbuffer of more than 2 GiB a limit.
func tooLarge(err error) error {
	if errors.Is(err, fb.ErrTooLarge) {
		return errs.New(tensor.ErrLimit, "%w", err)
	}
	return err
}
