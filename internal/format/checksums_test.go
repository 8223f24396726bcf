package format

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

func TestChecksumsFindMemoryThatChanges(t *testing.T) {
	for _, n := range []int{1, 64 << 10, 64<<10 + 1, 1 << 20} {
		data, other := make([]byte, n), make([]byte, n)
		var c Checksums
		c.AddTensor(&tensor.Tensor{Name: "x", Data: tensor.BlobOf(other),
			Parts: []tensor.Part{{Role: "y", Data: tensor.BlobOf(data)}}})
		if err := c.Check(); err != nil {
			t.Fatal(err)
		}
		for at := 0; at < n && n <= 64<<10; at += max(1, n/20) { // which is hashed whole
			data[at]++
			if err := c.Check(); !errors.Is(err, tensor.ErrChecksum) {
				t.Errorf("byte %d of %d has changed: %v", at, n, err)
			}
			data[at]--
		}
		for i := range data {
			data[i]++
		}
		err := c.Check()
		if !errors.Is(err, tensor.ErrChecksum) || !strings.Contains(fmt.Sprint(err), `"x"`) {
			t.Errorf("%d bytes have changed: %v", n, err)
		}
	}
}
