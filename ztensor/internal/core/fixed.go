package core

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/tensorfile/tensorfile/tensor"
)

// A Fixed is memory of the caller that is read after the call that was given it:
// a change in between is an error and never a wrong value.
type Fixed struct {
	tensor.Source
	hash uint64
}

// Memory returns the bytes, which are the caller's.
func (f *Fixed) Memory() ([]byte, bool) { return f.Bytes() }

var ErrChanged = errors.New("the bytes have changed since the tensor was added")

// Fix returns t with its memory hashed. What lies in a file is not.
func Fix(t *tensor.Tensor) *tensor.Tensor {
	as := *t
	as.Data = FixBlob(t.Data)
	as.Parts = slices.Clone(t.Parts)
	for i := range as.Parts {
		as.Parts[i].Data = FixBlob(as.Parts[i].Data)
	}
	return &as
}

func FixBlob(b tensor.Blob) tensor.Blob {
	if _, stored := b.Stored(); stored {
		return b
	}
	p, ok := b.Memory()
	if !ok || len(p) == 0 {
		return b
	}
	return tensor.NewBlob(&Fixed{b.Source(), xxh3.Hash(p)})
}

// Unchanged compares the bytes with what they were. It is nil for any other blob.
func Unchanged(b tensor.Blob) error {
	f, ok := b.Source().(*Fixed)
	if !ok {
		return nil
	}
	p, _ := f.Bytes()
	return f.Check(xxh3.Hash(p))
}

func (f *Fixed) Check(hash uint64) error {
	if hash != f.hash {
		return fmt.Errorf("%w: %w", tensor.ErrChecksum, ErrChanged)
	}
	return nil
}

// Open checks the hash before it returns io.EOF.
func (f *Fixed) Open() (io.ReadCloser, error) {
	p, _ := f.Bytes()
	h := xxh3.New()
	return &fixedStream{f: f, in: io.TeeReader(bytes.NewReader(p), h), hash: h}, nil
}

type fixedStream struct {
	f    *Fixed
	in   io.Reader
	hash *xxh3.Hasher
}

func (s *fixedStream) Read(p []byte) (int, error) {
	n, err := s.in.Read(p)
	if err == io.EOF {
		if e := s.f.Check(s.hash.Sum64()); e != nil {
			err = e
		}
	}
	return n, err
}

func (s *fixedStream) Close() error { return nil }
