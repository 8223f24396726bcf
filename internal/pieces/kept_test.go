package pieces

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

func TestKeptMemoryThatChanges(t *testing.T) {
	for _, n := range []int{1, 64 << 10, 64<<10 + 1, 1 << 20} {
		for _, sampled := range []bool{false, true} {
			data, other := make([]byte, n), make([]byte, n)
			k := Kept{Sampled: sampled}
			k.AddTensor(&tensor.Tensor{Name: "x", Data: tensor.BlobOf(other),
				Parts: []tensor.Part{{Role: "y", Data: tensor.BlobOf(data)}}})
			if err := k.Check(); err != nil {
				t.Fatal(err)
			}
			for at := range n {
				if at > 10 && at < n-10 && at%(n/20) != 0 { // as many as are quick
					continue
				}
				data[at]++
				err := k.Check()
				if !sampled && !errors.Is(err, tensor.ErrChecksum) {
					t.Errorf("byte %d of %d has changed: %v", at, n, err)
				}
				data[at]--
			}
			for i := range data {
				data[i]++
			}
			err := k.Check()
			if !errors.Is(err, tensor.ErrChecksum) || !strings.Contains(fmt.Sprint(err), `"x"`) {
				t.Errorf("%d bytes have changed, sampled is %v: %v", n, sampled, err)
			}
		}
	}
}
