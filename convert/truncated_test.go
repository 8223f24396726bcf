package convert

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/tensorfile/tensorfile/tensor"
)

func TestConvertedStreamOfATruncatedSourceEndsInAnError(t *testing.T) {
	for _, n := range []int{0, 2, 3, 6} {
		b := tensor.BlobFunc(8, func() (io.ReadCloser, error) {
			in := io.MultiReader(strings.NewReader("abcdefgh"[:n]),
				iotest.ErrReader(io.ErrUnexpectedEOF))
			return io.NopCloser(in), nil
		})
		c, err := tensor.As(&tensor.Tensor{DType: tensor.U16, Shape: tensor.Shape{4}, Data: b},
			tensor.I32)
		if err != nil {
			t.Fatal(err)
		}
		in, err := c.Data.Open()
		if err != nil {
			t.Fatal(err)
		}
		p := make([]byte, 5)
		for empty := 0; empty < 2 && err == nil; {
			var m int
			if m, err = in.Read(p); m == 0 {
				empty++
			}
		}
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}
