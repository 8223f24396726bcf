package core

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/digest"
)

// pieceSize is how many stored bytes are read and hashed at a time.
const pieceSize = 1 << 20

// expected returns the digest that the file gives for the payload, and a hash that
// computes it, which is nil if the file gives none. It fails with digest.ErrUnknown for
// an unknown algorithm.
func (p *Payload) expected() (want digest.Expected, h hash.Hash, err error) {
	if want, err = digest.Parse(p.Digest, p.R.IsVersion2); err == nil {
		h = digest.New(want.Algorithm)
	}
	return want, h, err
}

// checkView fails if the bytes cannot be borrowed or read at random. A strict reader
// checks the digest, the first time.
func (p *Payload) checkView() error {
	if err := p.decodeError(); err != nil {
		return p.ReadError(err)
	}
	if _, err := p.Source(); err != nil {
		return p.ReadError(err)
	}
	return p.checkStrict()
}

// checkStrict checks the digest once, if the reader is strict.
func (p *Payload) checkStrict() error {
	if !p.R.Options.Strict || p.Digest == "" {
		return nil
	}
	if _, ok := p.R.checked.Load(p); ok {
		return nil
	}
	_, _, err := p.expected()
	if err != nil {
		return p.digestError(err)
	}
	var in io.ReadCloser = p.OpenStored() // version 1: the digest is of stored bytes
	if p.R.IsVersion2 {
		in, err = p.open()
	}
	if err == nil {
		_, err = io.Copy(io.Discard, in)
		in.Close()
	}
	if err != nil {
		return p.ReadError(err)
	}
	p.R.checked.Store(p, nil)
	return nil
}

// check writes the bytes of the payload to out, decoded if possible, and checks their
// digest. It does not report what Worker.checkFields reports.
func (p *Payload) check(ctx context.Context, out io.Writer) error {
	want, h, err := p.expected()
	decode := p.codec() != nil && p.decodeError() == nil
	switch {
	case p.decodeError() != nil && p.R.IsVersion2,
		decode && err != nil && !errors.Is(err, digest.ErrUnknown):
		return nil
	case !decode:
		return p.ReadError(p.checkStored(want, h, out))
	}
	in, err := p.open()
	if err == nil {
		_, err = io.Copy(out, struct{ io.Reader }{in})
		in.Close()
	}
	if err != nil && !p.R.IsVersion2 && !errors.Is(err, tensor.ErrChecksum) {
		_, sum := io.Copy(format.Until(ctx, io.Discard), p.OpenStored())
		// Changed bytes may be why it cannot be decoded.
		var wrong *tensor.FormatError
		if errors.Is(sum, tensor.ErrChecksum) && errors.As(sum, &wrong) {
			both := *wrong
			both.Err = fmt.Errorf("%w; %w", wrong.Err, err)
			err = &both
		}
	}
	return p.ReadError(err)
}

// checkStored is check for stored bytes, which are not decoded.
func (p *Payload) checkStored(want digest.Expected, h hash.Hash, out io.Writer) (err error) {
	known := h != nil
	if !known {
		h = digest.New(digest.XXH3) // reads every byte, so that a failing read is found
	}
	for off := int64(0); off < p.Length && err == nil; off += pieceSize {
		err = p.UseStored(off, min(p.Length-off, pieceSize), func(b []byte) error {
			h.Write(b)
			_, err := out.Write(b)
			return err
		})
	}
	if err == nil && known {
		err = p.digestError(want.Compare(h))
	}
	return err
}
