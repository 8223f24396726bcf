package sparse

import (
	"context"
	"encoding/binary"
	"io"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/tensor"
)

// Widen returns an index part as uint64, which it converts while it is read. A part of another
// type stays as it is.
func Widen(ctx context.Context, p tensor.Part) tensor.Part {
	wide := p
	switch width, _ := indexWidth(p.DType); width {
	case 0:
	case 8: // a negative one is an error of Check
		wide.DType = tensor.U64
	default:
		size := int64(-1)
		if n, ok := align.Mul(p.Data.Size()/int64(width), 8); ok && p.Data.Size() >= 0 {
			size = n
		}
		wide.DType = tensor.U64
		wide.Data = tensor.BlobFunc(size, func() (io.ReadCloser, error) {
			in, err := newIndexReader(ctx, &p)
			if err != nil {
				return nil, err
			}
			return &widening{in: in}, nil
		})
	}
	return wide
}

type widening struct {
	in   *indexReader
	rest []byte
	buf  []byte
}

func (w *widening) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if len(w.rest) == 0 {
		some, err := w.in.some(8 << 10)
		if err != nil {
			return 0, err
		}
		w.buf = w.buf[:0]
		for _, v := range some {
			w.buf = binary.LittleEndian.AppendUint64(w.buf, v)
		}
		w.rest = w.buf
	}
	n := copy(p, w.rest)
	w.rest = w.rest[n:]
	return n, nil
}

func (w *widening) Close() error {
	w.in.close()
	return nil
}
