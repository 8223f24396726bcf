package format

import (
	"context"
	"fmt"
	"io"

	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// ReadBlob reads all of b in pieces of len(buf). If d is Bool, it checks that each byte
// is 0 or 1. It stops at the first error, or when ctx ends, and returns how many bytes
// precede the error. progress is called with the number of bytes of each piece.
func ReadBlob(ctx context.Context, b tensor.Blob, d tensor.DType, buf []byte,
	progress func(n int64)) (at int64, err error) {
	in, err := b.Open()
	if err != nil {
		return 0, err
	}
	defer in.Close()
	for {
		if err := ctx.Err(); err != nil {
			return at, err
		}
		n, err := source.ReadPiece(in, buf)
		if d == tensor.Bool {
			if k := le.NotBool(buf[:n]); k >= 0 {
				at += int64(k)
				return at, fmt.Errorf("%w: element %d is the bool %#02x",
					tensor.ErrMalformed, at, buf[k])
			}
		}
		at += int64(n)
		progress(int64(n))
		if err == io.EOF {
			return at, nil
		}
		if err != nil {
			return at, err
		}
	}
}
