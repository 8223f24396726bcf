package safetensors

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/jsonheader"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// ReadHeader reads the header of a file of size bytes from a stream, and leaves the
// stream at the first byte of data. The Reader lists the tensors in the order in which
// their data follow. Reading them by the Reader fails with errors.ErrUnsupported.
// ReadHeader fails as NewReader does, and for an index of shards.
func ReadHeader(r io.Reader, size int64, opts *ReaderOptions) (*Reader, error) {
	var limits tensor.Limits
	if opts != nil {
		limits = opts.Limits
	}
	limits, err := format.CompleteLimits(limits)
	if err != nil {
		return nil, err
	}
	var head bytes.Buffer
	if _, err := io.CopyN(&head, r, jsonheader.Start); err != nil {
		return nil, errs.Wrap(0, "header size", unexpected(err))
	}
	n, err := jsonheader.Size(string(errs), head.Bytes(), 0, size, limits)
	switch {
	case err != nil:
		return nil, err
	case n == 0:
		return nil, errs.Malformed(jsonheader.Start, "header", "it does not begin with {")
	}
	// The buffer grows as bytes arrive: n may be wrong.
	if _, err := io.CopyN(&head, r, n); err != nil {
		return nil, errs.Wrap(jsonheader.Start, "header", unexpected(err))
	}
	return NewReader(source.Header(head.Bytes()), size, opts)
}

// unexpected returns err, or io.ErrUnexpectedEOF for io.EOF.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Stream returns a reader of the bytes of a file with these tensors, and their number. It
// fails as Add of a [Writer] does. The data of a tensor is read when the stream gets to
// it, and must stay readable and unchanged until then; data of another size is an error
// of Read. The caller closes the stream.
func Stream(ts iter.Seq2[*tensor.Tensor, error],
	opts *WriterOptions) (io.ReadCloser, int64, error) {
	var o WriterOptions
	if opts != nil {
		o = *opts
	}
	s, size := new(stream), int64(0)
	enc := o.encoding()
	enc.Encode = func(_ *format.Output, ts []*tensor.Tensor) (err error) {
		s.tensors = ts
		s.head, size, err = o.header(ts)
		return err
	}
	w := format.NewWriter(io.Discard, enc)
	if err := format.WriteAll(context.Background(), &w, ts); err != nil {
		return nil, 0, err
	}
	return s, size, nil
}

type stream struct {
	head    []byte           // not read yet
	tensors []*tensor.Tensor // not read yet, or in part
	open    io.ReadCloser    // data of the first of tensors; nil before it is opened
	left    int64            // bytes of it that were not read yet
	err     error            // of every further Read
}

func (s *stream) Read(p []byte) (int, error) {
	if len(s.head) > 0 {
		n := copy(p, s.head)
		s.head = s.head[n:]
		return n, nil
	}
	if len(p) == 0 {
		return 0, s.err
	}
	for empty := 0; s.err == nil; empty++ {
		if s.open == nil {
			if len(s.tensors) == 0 {
				return 0, io.EOF
			}
			s.left = s.tensors[0].Data.Size()
			if s.open, s.err = s.tensors[0].Data.Open(); s.err != nil {
				break
			}
		}
		// A byte more than is left shows that the data is longer than its size.
		n, err := s.open.Read(p[:min(int64(len(p)), s.left+1)])
		if s.left -= int64(n); s.left < 0 {
			n, err = 0, fmt.Errorf("%w: more data than its size", tensor.ErrMalformed)
		}
		switch {
		case err == io.EOF && s.left > 0:
			s.err = io.ErrUnexpectedEOF
		case err == io.EOF:
			s.err = s.open.Close()
			s.open = nil
			s.tensors = s.tensors[1:]
			empty = 0
		case err != nil:
			s.err = err
		case n == 0 && empty > 100:
			s.err = io.ErrNoProgress
		}
		if n > 0 {
			return n, nil
		}
	}
	if len(s.tensors) > 0 {
		return 0, errs.Tensor(s.tensors[0].Name, s.err, "reading its data")
	}
	return 0, s.err
}

// Close ends the stream.
func (s *stream) Close() error {
	var err error
	if s.open != nil {
		err = s.open.Close()
	}
	*s = stream{err: errors.New("safetensors: the stream is closed")}
	return err
}
