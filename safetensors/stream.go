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

// ReadHeader reads the header of a file of size bytes from a stream that cannot
// seek, and leaves it at the first byte of data. The Reader lists everything, in
// the order in which the data follow, but its tensors cannot be read: that is
// errors.ErrUnsupported. An index of shards is refused.
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
	// The buffer grows as bytes arrive: n is only a promise.
	if _, err := io.CopyN(&head, r, n); err != nil {
		return nil, errs.Wrap(jsonheader.Start, "header", unexpected(err))
	}
	return NewReader(source.Header(head.Bytes()), size, opts)
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Stream returns the bytes of a file with these tensors, for a request or a pipe, and
// their number. The data of a tensor is read when the stream gets to it, and must stay
// readable and unchanged until then. Close the stream, also after an error.
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
	head    []byte
	tensors []*tensor.Tensor // not read yet; the first may be open
	open    io.ReadCloser
	left    int64 // of the open one
	err     error // final
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
		// One byte more than there should be shows a tensor that is longer.
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
