package tensor

import (
	"context"
	"io"

	"github.com/tensorfile/tensorfile/internal/parallel"
)

// A converter streams the elements of a tensor as another dtype, little-endian. Reading
// is serial, converting uses all cores.
type converter struct {
	in    *pieceReader
	line  *parallel.Line[*conversion]
	ready []*conversion // converted, in order
	free  []*conversion // whose buffers can be used again
	out   []byte        // of the first of ready, not yet read
	err   error         // once ready is empty
}

// A conversion is one piece.
type conversion struct {
	first    int64
	n        int
	in       []byte // in buf, or memory of the tensor
	buf, out []byte
}

// converterBudget bounds the bytes of pieces under way.
const converterBudget = 4 << 20

func newConverter(t *Tensor, to DType, finite bool) (io.ReadCloser, error) {
	in, err := newPieceReader(t)
	if err != nil {
		return nil, err
	}
	c := &converter{in: in}
	work := func(_ context.Context, j *conversion) error {
		if size := (j.n*to.Bits() + 7) / 8; cap(j.out) < size {
			j.out = alignedBytes(size)
		} else {
			j.out = j.out[:size]
		}
		err := convertPiece(t, j.first, j.out, to, j.in, j.n)
		if bad := -1; finite && err == nil {
			if bad = overflowed(j.out, to, j.in, t.DType, j.n); bad >= 0 {
				err = t.misfit(ErrOverflow, j.first, bad, j.in, to)
			}
		}
		toHost(j.out, to)
		return err
	}
	c.line = parallel.New(context.Background(), converterBudget, work, func(j *conversion) error {
		c.ready = append(c.ready, j)
		return nil
	})
	return c, nil
}

func (c *converter) Read(p []byte) (int, error) {
	for len(c.out) == 0 {
		if len(p) == 0 {
			return 0, nil
		}
		if len(c.ready) > 0 {
			j := c.ready[0]
			c.ready = c.ready[1:]
			c.out = j.out
			c.free = append(c.free, j) // its out is read before the next piece is
			continue
		}
		if c.err != nil {
			return 0, c.err
		}
		c.err = c.advance()
	}
	n := copy(p, c.out)
	c.out = c.out[n:]
	return n, nil
}

// advance reads one piece, or at the end waits for all that are under way: io.EOF.
func (c *converter) advance() error {
	j := new(conversion)
	if k := len(c.free); k > 0 {
		j, c.free = c.free[k-1], c.free[:k-1]
	}
	var err error
	j.first = c.in.at
	if j.in, j.n, err = c.in.next(&j.buf); err != nil {
		return err
	}
	if j.n == 0 {
		if err := c.line.Flush(); err != nil {
			return err
		}
		return io.EOF
	}
	return c.line.Put(j, int64(len(j.in)+j.n*8))
}

func (c *converter) Close() error {
	c.line.Close()
	c.in.close()
	return nil
}
