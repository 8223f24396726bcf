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
	// SegmentAlignment is the alignment of the segments in the file, in bytes; 0 means
	// ExecuTorch's 128.
	SegmentAlignment int64
	// Alignment is the alignment of constants and initial values in the file, in bytes: a
	// power of two; 0 means ExecuTorch's 16. A dtype that needs more gets more.
	Alignment int64
	// NoReplace makes WriteFile fail with fs.ErrExist if the file exists.
	NoReplace bool
	// Progress, if not nil, is called with the bytes written so far and the size of the
	// file.
	Progress func(done, total int64)
}

// alignments returns the alignments, with ExecuTorch's values for zeros. It fails with
// fs.ErrInvalid if they are not valid.
func (o *WriterOptions) alignments() (segment, data int64, err error) {
	segment = cmp.Or(o.SegmentAlignment, defaultSegmentAlignment)
	data = cmp.Or(o.Alignment, defaultTensorAlignment)
	if min(segment, data) < 1 || max(segment, data) > maxAlignment || data&(data-1) != 0 {
		err = errs.New(fs.ErrInvalid, "segment alignment %d, tensor alignment %d", segment, data)
	}
	return segment, data, err
}

// encoding returns how a file is written. assemble makes the output.
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

// An output is a file that is ready to be written, from its first byte to its last.
type output struct {
	head     []byte // the flatbuffer, extended header included
	sections []format.Section
	size     int64
}

// check opens the file that is about to be written, with zeros for its payloads, and
// returns the errors and warnings that Verify would report.
func (o *output) check() error {
	r, err := NewReader(padded(o.head), o.size, &ReaderOptions{Strict: true,
		Limits: tensor.Limits{MaxMetadata: math.MaxInt32, MaxTensors: math.MaxInt32}})
	if err != nil {
		return err
	}
	return r.checked.Err()
}

// padded reads as its bytes, followed by zeros without end.
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
	all := append(blobSections("flatbuffer", tensor.BlobOf(o.head)), o.sections...)
	return format.WriteSections(out, nil, all, o.size)
}

// tooLarge makes the error of a flatbuffer of more than 2 GiB a tensor.ErrLimit.
func tooLarge(err error) error {
	if errors.Is(err, fb.ErrTooLarge) {
		return errs.New(tensor.ErrLimit, "%w", err)
	}
	return err
}
