package sparse

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// An indexReader streams the integers of an index part.
type indexReader struct {
	ctx    context.Context
	in     io.ReadCloser
	width  int
	signed bool
	buf    []byte
	values []uint64 // of buf
	have   []uint64 // of values, not returned yet
}

// indexWidth is the size of an index in bytes; 0 for other types. An unknown type is uint64,
// the only one of zTensor 1.0, which does not name it.
func indexWidth(d tensor.DType) (width int, signed bool) {
	switch d {
	case tensor.Unknown, tensor.U64:
		return 8, false
	case tensor.U8, tensor.U16, tensor.U32:
		return d.Size(), false
	case tensor.I8, tensor.I16, tensor.I32, tensor.I64:
		return d.Size(), true
	}
	return 0, false
}

func newIndexReader(ctx context.Context, p *tensor.Part) (*indexReader, error) {
	width, signed := indexWidth(p.DType)
	in, err := p.Data.Open()
	if err != nil {
		return nil, err
	}
	n := int64(4 << 10)
	if size := p.Data.Size(); size >= 0 {
		n = max(1, min(n, size/int64(width)))
	}
	return &indexReader{ctx: ctx, in: in, width: width, signed: signed, buf: make([]byte, int(n)*width), values: make([]uint64, n)}, nil
}

func (r *indexReader) close() { r.in.Close() }

func (r *indexReader) next() (uint64, error) {
	one, err := r.some(1)
	if err != nil {
		return 0, err
	}
	return one[0], nil
}

// some returns the next few, from one to limit; io.EOF after the last, once a digest was checked.
func (r *indexReader) some(limit uint64) ([]uint64, error) {
	if len(r.have) == 0 {
		if err := r.fill(); err != nil {
			return nil, err
		}
	}
	n := min(limit, uint64(len(r.have)))
	some := r.have[:n]
	r.have = r.have[n:]
	return some, nil
}

func (r *indexReader) fill() error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	n, err := source.ReadPiece(r.in, r.buf)
	if err == io.EOF && n%r.width != 0 {
		return fmt.Errorf("%w: indices that are no multiple of %d bytes", tensor.ErrMalformed, r.width)
	}
	if n == 0 || err != nil && err != io.EOF {
		return err
	}
	b, values := r.buf[:n], r.values[:n/r.width]
	switch r.width {
	case 1:
		for i, v := range b {
			values[i] = uint64(v)
		}
	case 2:
		for i := range values {
			values[i] = uint64(binary.LittleEndian.Uint16(b[2*i:]))
		}
	case 4:
		for i := range values {
			values[i] = uint64(binary.LittleEndian.Uint32(b[4*i:]))
		}
	case 8:
		for i := range values {
			values[i] = binary.LittleEndian.Uint64(b[8*i:])
		}
	}
	if r.signed {
		all := uint64(0)
		for _, v := range values {
			all |= v
		}
		if all>>(8*r.width-1) != 0 {
			return fmt.Errorf("%w: a negative index", tensor.ErrMalformed)
		}
	}
	r.have = values
	return nil
}
