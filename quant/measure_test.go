package quant_test

import (
	"io"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/quant"
	"github.com/tensorfile/tensorfile/tensor"
)

// zeros is a source of bytes that take no memory.
type zeros struct {
	tensor.Computed
	size int64
}

func (z zeros) Size() int64                  { return z.size }
func (z zeros) Seekable() bool               { return true }
func (z zeros) ReadInto(p []byte) error      { return tensor.ReadFull(z, p) }
func (z zeros) Open() (io.ReadCloser, error) { return tensor.Stream(z), nil }
func (z zeros) ReadAt(p []byte, _ int64) (int, error) {
	clear(p)
	return len(p), nil
}

// hollow makes a tensor of zeros.
func hollow(name string, d tensor.DType, shape ...int64) *tensor.Tensor {
	n, _ := tensor.Shape(shape).Elements()
	size, _ := d.Bytes(n)
	return &tensor.Tensor{Name: name, DType: d, Shape: shape,
		Data: tensor.NewBlob(zeros{size: size})}
}

// Streaming a weight holds a few pieces of it, whatever its size, and of one that is
// transposed a panel.
func TestStreamingHoldsPieces(t *testing.T) {
	rows, cols := int64(8192), int64(28672) // the largest matrices of models of 70 billion
	if !readtest.Measuring() {
		rows, cols = 256, 1024
	}
	for name, c := range map[string]struct {
		config  string
		tensors []*tensor.Tensor
	}{
		"fp8": {blockConfig, []*tensor.Tensor{hollow("a.weight", tensor.F8E4M3FN, rows, cols),
			hollow("a.weight_scale_inv", tensor.F32, rows/128, cols/128)}},
		"gptq": {`{"quantization_config":{"quant_method":"gptq","bits":4,"group_size":128}}`,
			[]*tensor.Tensor{hollow("a.qweight", tensor.I32, cols/8, rows),
				hollow("a.qzeros", tensor.I32, cols/128, rows/8),
				hollow("a.scales", tensor.F16, cols/128, rows)}},
		"experts": {"", []*tensor.Tensor{hollow("x_blocks", tensor.U8, 4, rows, cols/32/4, 16),
			hollow("x_scales", tensor.U8, 4, rows, cols/32/4)}},
	} {
		w := one(t, quant.Find(of(c.tensors...), config(t, c.config)))
		half, err := tensor.As(w.Tensor, tensor.BF16)
		if err != nil {
			t.Fatal(err)
		}
		peak := readtest.PeakHeap(func() {
			if n, err := half.Data.WriteTo(io.Discard); err != nil || n != 2*rows*cols {
				t.Errorf("%s: %d bytes: %v", name, n, err)
			}
		})
		if peak > 64<<20 {
			t.Errorf("%s: %d MiB", name, peak>>20)
		}
		t.Logf("%s: %.1f MiB", name, float64(peak)/(1<<20))
	}
}
