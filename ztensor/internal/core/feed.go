package core

import (
	"bytes"
	"context"
	"hash"
	"io"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
)

// PieceSize is how much is read, hashed and compared at a time.
const PieceSize = 1 << 20

// A Sink writes the bytes of a piece. Close gives the piece the digest of them, unless it
// has one.
type Sink struct {
	w    *Writer
	p    *Piece
	alg  Digest
	hash hash.Hash // nil: none
}

// Sink returns a Sink of what w writes.
func (w *Writer) Sink(p *Piece, alg Digest) *Sink {
	s := &Sink{w: w, p: p, alg: alg}
	if p.Digest == "" {
		s.hash = NewHash(alg)
	}
	return s
}

func (s *Sink) Write(b []byte) (int, error) {
	if s.hash != nil {
		s.hash.Write(b)
	}
	return len(b), s.w.Write(b)
}

func (s *Sink) Close() error {
	if s.hash != nil {
		s.p.Digest = DigestText(s.alg, s.hash)
	}
	return nil
}

// A Check finds values that their type does not have in the bytes of a payload.
type Check struct {
	DType tensor.DType
	Odd   bool // half of the last byte means nothing and must be zero
	n     int64
	last  byte
}

// OddHalf reports whether half a byte of a tensor's data means nothing.
func OddHalf(t *tensor.Tensor) bool {
	n, _ := t.Shape.Elements()
	return t.Dense() && t.DType == tensor.F4E2M1FN && n%2 == 1
}

// Next checks the next bytes.
func (c *Check) Next(b []byte) error {
	if c.DType == tensor.Bool {
		if i := le.NotBool(b); i >= 0 {
			return Malformed("element %d is the bool 0x%02x", c.n+int64(i), b[i])
		}
	}
	if c.n += int64(len(b)); len(b) > 0 {
		c.last = b[len(b)-1]
	}
	return nil
}

// End checks what shows when all bytes were there.
func (c *Check) End() error {
	if c.Odd && c.last > 0xf {
		return rule.Broken(rule.LayoutData, "the unused half of the last byte is 0x%x", c.last>>4)
	}
	return nil
}

// A feed checks the bytes of a piece on their way to where they are stored.
type feed struct {
	Check
	out io.Writer
}

func (f *feed) Write(b []byte) (int, error) {
	if err := f.Next(b); err != nil {
		return 0, err
	}
	return f.out.Write(b)
}

// Feed writes the data of a piece to out, and checks it.
func (p *Piece) Feed(ctx context.Context, out io.Writer) error {
	f := feed{Check{DType: p.DType, Odd: p.Odd}, out}
	n, err := format.CopyBlob(format.Until(ctx, &f), p.Data, p.Data.Size())
	if p.Size = n; err != nil {
		return err
	}
	return f.End()
}

// Load returns the data of a piece, which it checks.
func (p *Piece) Load(ctx context.Context) ([]byte, error) {
	if all, ok := p.Data.Memory(); ok {
		return all, p.Feed(ctx, io.Discard)
	}
	var read bytes.Buffer
	read.Grow(int(p.Data.Size()))
	err := p.Feed(ctx, &read)
	return read.Bytes(), err
}
