package torch

import (
	"context"
	"errors"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

// TestVerifyReadsInProportionToTheFile: a storage of 16 bytes that is repeated by
// strides, or by many tensors, is not read without an end.
func TestVerifyReadsInProportionToTheFile(t *testing.T) {
	one := storageOf("FloatStorage", "0", 4)
	for _, c := range []struct {
		name    string
		n       int64 // elements of each tensor
		tensors int
		limits  tensor.Limits
		refused bool
	}{
		{"2 GiB of one element", 1 << 29, 1, tensor.Limits{}, true},
		{"eight times 256 MiB", 1 << 26, 8, tensor.Limits{}, true},
		{"4 KiB of one element", 1 << 10, 1, tensor.Limits{}, false},
		{"a lower limit", 1 << 20, 1, tensor.Limits{MaxDecodedTotal: 1 << 20}, true},
		{"a higher limit", 1 << 18, 5, tensor.Limits{MaxDecodedTotal: 5 << 20}, false},
	} {
		p := "}"
		for i := range c.tensors {
			p += str(string(rune('a'+i))) + tensorOf(one, 0, []int64{c.n}, []int64{0}) + "s"
		}
		r, err := OpenBytes(archive(p), &ReaderOptions{Limits: c.limits})
		if err != nil {
			t.Fatal(c.name, err)
		}
		_, err = r.Verify(context.Background(), nil)
		if errors.Is(err, tensor.ErrLimit) != c.refused || !c.refused && err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
