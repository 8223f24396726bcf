package core

import (
	"context"
	"fmt"
	"hash"
	"io"

	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
)

// PieceSize is how much is read, hashed and written at a time.
const PieceSize = 1 << 20

// A Sink writes the stored bytes of one component and computes their digest on the way.
type Sink struct {
	w    *Writer
	Hash hash.Hash // nil: none
	Size int64
}

// Sink returns a Sink of what w writes.
func (w *Writer) Sink(alg Digest) *Sink { return &Sink{w: w, Hash: NewHash(alg)} }

func (s *Sink) Write(p []byte) (int, error) {
	if s.Hash != nil {
		s.Hash.Write(p)
	}
	s.Size += int64(len(p))
	return len(p), s.w.Write(p)
}

// A Feed brings the decoded bytes of a component to where they are stored.
type Feed struct {
	Out   io.Writer
	Zstd  *Encoder // nil: as they are
	Dtype tensor.DType
	N     int64 // decoded bytes so far
	Odd   bool  // half of the last byte must be zero
	last  byte
}

// Begin starts a component; size is that of the decoded bytes, or -1.
func (f *Feed) Begin(size int64) {
	if f.Zstd != nil {
		f.Zstd.ResetContentSize(f.Out, size)
	}
}

func (f *Feed) Write(p []byte) (int, error) {
	if f.Dtype == tensor.Bool {
		if err := CheckBools(p, f.N); err != nil {
			return 0, err
		}
	}
	f.N += int64(len(p))
	if len(p) > 0 {
		f.last = p[len(p)-1]
	}
	if f.Zstd != nil {
		return f.Zstd.Write(p)
	}
	return f.Out.Write(p)
}

// CheckBools looks for bools that are none; at is how many come before p.
func CheckBools(p []byte, at int64) error {
	if i := le.NotBool(p); i >= 0 {
		return fmt.Errorf("%w: element %d is the bool 0x%02x", tensor.ErrMalformed, at+int64(i),
			p[i])
	}
	return nil
}

func (f *Feed) end() error {
	if f.Odd {
		if err := OddNibble(f.last, 1); err != nil {
			return err
		}
	}
	if f.Zstd != nil {
		return f.Zstd.Close()
	}
	return nil
}

// From feeds all of a blob, in pieces of *buf where it is not in memory.
func (f *Feed) From(ctx context.Context, b tensor.Blob, buf *[]byte) error {
	f.Begin(b.Size())
	if p, ok := b.Memory(); ok {
		for len(p) > 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			n := min(len(p), PieceSize)
			if _, err := f.Write(p[:n]); err != nil {
				return err
			}
			p = p[n:]
		}
		return f.end()
	}
	in, err := b.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	if *buf == nil {
		*buf = make([]byte, PieceSize)
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := source.ReadPiece(in, *buf)
		if n > 0 {
			if _, err := f.Write((*buf)[:n]); err != nil {
				return err
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	if size := b.Size(); size >= 0 && f.N != size {
		return fmt.Errorf("%w: %d bytes came where %d were promised", tensor.ErrMalformed, f.N,
			size)
	}
	return f.end()
}

// OddNibble reports whether the half byte that n elements of four bits leave
// unused is not zero.
func OddNibble(last byte, n int64) error {
	if n%2 == 1 && last > 0xf {
		return rule.Broken(rule.LayoutData, "the unused half of the last byte is 0x%x", last>>4)
	}
	return nil
}

// HalfByte reports whether half a byte of a tensor's data means nothing, and must be
// zero.
func HalfByte(t *tensor.Tensor) bool {
	n, _ := t.Shape.Elements()
	return t.Dense() && t.DType == tensor.F4E2M1FN && n%2 == 1
}

// IsBools looks for bools that are none.
func IsBools(p []byte) error {
	if i := le.NotBool(p); i >= 0 {
		return rule.Broken(rule.LayoutData, "the bool 0x%02x", p[i])
	}
	return nil
}
