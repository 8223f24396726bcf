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

// pieceSize is how much is read, hashed and compared at a time.
const pieceSize = 1 << 20

// expected returns the digest that the payload should have, and what computes it: nil
// where there is none, or none that can be checked.
func (p *Payload) expected() (w digest.Expected, h hash.Hash, err error) {
	if w, err = digest.Parse(p.Digest, p.R.IsVersion2); err == nil {
		h = digest.New(w.Algorithm)
	}
	return w, h, err
}

// checkView is called by tensor.View. Strict readers check the digest the first
// time that bytes are borrowed.
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
	var in io.ReadCloser = p.OpenStored() // of which version 1 has the digest
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

// check shows look all that can be read of the payload, decoded if possible, and
// compares it with the digest. It leaves out what Stated reports.
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
		var wrong *tensor.FormatError // which may be why it cannot be decoded
		if errors.Is(sum, tensor.ErrChecksum) && errors.As(sum, &wrong) {
			both := *wrong
			both.Err = fmt.Errorf("%w; %w", wrong.Err, err)
			err = &both
		}
	}
	return p.ReadError(err)
}

// checkStored is check for the bytes as they are stored.
func (p *Payload) checkStored(want digest.Expected, h hash.Hash, out io.Writer) (err error) {
	known := h != nil
	if !known {
		h = digest.New(digest.XXH3) // so that every byte is looked at
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
