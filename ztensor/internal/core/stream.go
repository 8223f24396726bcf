package core

import (
	"errors"
	"hash"
	"io"
)

// A Stream reads the bytes of a payload.
type Stream struct {
	p    *Payload
	in   io.Reader
	h    hash.Hash
	want Stated
	Err  error // of the last Read, to be told from that of a decoder
}

// OpenStored streams the stored bytes. A digest that does not fit is the error in place
// of io.EOF.
func (p *Payload) OpenStored() *Stream {
	src, err := p.Source()
	if err != nil {
		return &Stream{Err: p.Failed(err)}
	}
	return p.Stream(io.NewSectionReader(src, p.Offset, p.Length))
}

// Stream reads in, the bytes that the digest covers, and checks that.
func (p *Payload) Stream(in io.Reader) *Stream {
	s := &Stream{p: p, in: in}
	var err error
	if s.want, s.h, err = p.Wanted(); err != nil && !errors.Is(err, errNoAlgorithm) {
		s.Err = p.FailedDigest(err)
	}
	return s
}

func (s *Stream) Read(b []byte) (int, error) {
	if s.Err != nil {
		return 0, s.Err
	}
	n, err := s.in.Read(b)
	if s.h != nil {
		s.h.Write(b[:n])
	}
	switch {
	case err == io.EOF && s.h != nil:
		if e := s.p.Compare(s.want, s.h); e != nil {
			err = s.p.FailedDigest(e)
		}
	case err != io.EOF:
		err = s.p.Failed(err)
	}
	s.Err = err
	return n, err
}

// Close gives up what is read from.
func (s *Stream) Close() error {
	if s.in = nil; s.Err == nil {
		s.Err = ErrClosedStream
	}
	return nil
}

// ErrClosedStream is the error of reading a stream that was closed.
var ErrClosedStream = errors.New("ztensor: read after Close")
