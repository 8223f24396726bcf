package core

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
)

// pieceSize is how much is read, hashed and compared at a time.
const pieceSize = 1 << 20

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

// next checks the next bytes.
func (c *Check) next(b []byte) error {
	if c.DType == tensor.Bool {
		if i := le.NotBool(b); i >= 0 {
			return fmt.Errorf("%w: element %d is the bool 0x%02x", tensor.ErrMalformed,
				c.n+int64(i), b[i])
		}
	}
	if c.n += int64(len(b)); len(b) > 0 {
		c.last = b[len(b)-1]
	}
	return nil
}

// end checks what shows when all bytes were there.
func (c *Check) end() error {
	if c.Odd && c.last > 0xf {
		return rule.Broken(rule.LayoutData, "the unused half of the last byte is 0x%x", c.last>>4)
	}
	return nil
}

// A feed checks bytes on their way to where they are stored.
type feed struct {
	Check
	out io.Writer
}

func (f *feed) Write(b []byte) (int, error) {
	if err := f.next(b); err != nil {
		return 0, err
	}
	return f.out.Write(b)
}

// Feed writes data to out, checks it, and returns its size.
func (c Check) Feed(ctx context.Context, data tensor.Blob, out io.Writer) (int64, error) {
	f := feed{c, out}
	n, err := format.CopyBlob(format.Until(ctx, &f), data, data.Size())
	if err == nil {
		err = f.end()
	}
	return n, err
}

// Load returns data, which it checks.
func (c Check) Load(ctx context.Context, data tensor.Blob) ([]byte, error) {
	if all, ok := data.Memory(); ok {
		_, err := c.Feed(ctx, data, io.Discard)
		return all, err
	}
	var read bytes.Buffer
	read.Grow(int(data.Size()))
	_, err := c.Feed(ctx, data, &read)
	return read.Bytes(), err
}

// Planned decides whether data is prepared: what is in memory as it is stored, and what
// has at most limit bytes. memory is what that takes.
func Planned(data tensor.Blob, compress bool, limit int64) (early bool, memory int64) {
	size := data.Size()
	if _, ok := data.Memory(); ok && !compress {
		return true, 0
	}
	if size >= 0 && size <= limit && !IsPart(data) {
		return true, 2 * size
	}
	return false, 0
}
