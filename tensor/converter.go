package tensor

import (
	"io"

	"github.com/tensorfile/tensorfile/internal/parallel"
)

// A conversion is one piece of a tensor that becomes another dtype.
type conversion struct {
	first    int64
	n        int
	in       []byte // in buf, or memory of the tensor
	buf, out []byte
}

// converterBudget bounds the bytes of pieces under way.
const converterBudget = 4 << 20

// newConverter streams the elements of a tensor as another dtype, little-endian. Reading
// is serial, converting uses all cores.
func newConverter(t *Tensor, to DType, finite bool) (io.ReadCloser, error) {
	in, err := newPieceReader(t)
	if err != nil {
		return nil, err
	}
	next := func(j *conversion) (cost int64, err error) {
		j.first = in.at
		if j.in, j.n, err = in.next(&j.buf); err == nil && j.n == 0 {
			err = io.EOF
		}
		return int64(len(j.in) + j.n*8), err
	}
	work := func(j *conversion) error {
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
	return parallel.NewStream(converterBudget, next, work,
		func(j *conversion) []byte { return j.out },
		func() error {
			in.close()
			return nil
		}), nil
}
