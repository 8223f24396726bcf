package gguf

import (
	"bytes"
	"io"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// ReadHeader reads the header of a file of size bytes from a stream, a few bytes at a
// time: pass a buffered r. It leaves the stream at the first byte of data. The data
// follows in the order of the Reader's tensors, each at the offset that Stored reports.
// Reading data through the Reader fails with errors.ErrUnsupported.
func ReadHeader(r io.Reader, size int64, opts *ReaderOptions) (*Reader, error) {
	var limits tensor.Limits
	if opts != nil {
		limits = opts.Limits
	}
	limits, err := format.CompleteLimits(limits)
	if err != nil {
		return nil, err
	}
	grow := func(b []byte, n int64) ([]byte, error) {
		if err := available(int64(len(b)), n, size, limits); err != nil {
			return b, err
		}
		// The buffer grows as bytes arrive: n is a declared number.
		head := bytes.NewBuffer(b)
		if _, err := io.CopyN(head, r, n); err != nil {
			return b, readError(int64(len(b)), err)
		}
		return head.Bytes(), nil
	}
	h, err := parse(grow, limits)
	if err != nil {
		return nil, err
	}
	x, err := format.NewReader(source.Header(nil), size, opts,
		func(in *format.Input) (*Reader, error) { return build(in, h) })
	if err != nil || len(h.entries) == 0 {
		return x, err
	}
	if _, err := io.CopyN(io.Discard, r, x.dataAt-h.end); err != nil {
		return nil, readError(h.end, err)
	}
	return x, nil
}

func readError(off int64, err error) error {
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return errs.Wrap(off, "header", err)
}
