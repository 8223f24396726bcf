package quant_test

import (
	"iter"
	"math/rand/v2"
	"testing"

	"github.com/tensorfile/tensorfile/quant"
	"github.com/tensorfile/tensorfile/tensor"
)

// A model is a set of tensors in memory.
type model struct {
	tensors    []*tensor.Tensor
	attributes map[string]string
}

func (m *model) Tensors() iter.Seq[*tensor.Tensor] {
	return func(yield func(*tensor.Tensor) bool) {
		for _, t := range m.tensors {
			if !yield(t) {
				return
			}
		}
	}
}

func (m *model) Attributes() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for k, v := range m.attributes {
			if !yield(k, v) {
				return
			}
		}
	}
}

// of makes a model of tensors.
func of(ts ...*tensor.Tensor) *model { return &model{tensors: ts} }

// with adds an attribute.
func (m *model) with(key, value string) *model {
	if m.attributes == nil {
		m.attributes = map[string]string{}
	}
	m.attributes[key] = value
	return m
}

// random makes a tensor of random bytes, which are not NaN for FP8.
func random(r *rand.Rand, name string, d tensor.DType, shape ...int64) *tensor.Tensor {
	n, _ := tensor.Shape(shape).Elements()
	size, _ := d.Bytes(n)
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(r.Uint32())
		if d == tensor.F8E4M3FN && b[i]&0x7f == 0x7f {
			b[i] = 0
		}
	}
	switch d {
	case tensor.F32:
		v := make([]float32, n)
		for i := range v {
			v[i] = r.Float32()*0.01 + 0.001
		}
		t := tensor.New(name, shape, v)
		t.Shape = shape
		return t
	case tensor.BF16, tensor.F16:
		t, _ := tensor.As(random(r, name, tensor.F32, shape...), d)
		b, _ = t.Data.ReadAll()
	}
	return &tensor.Tensor{Name: name, DType: d, Shape: shape, Data: tensor.BlobOf(b)}
}

func config(t testing.TB, text string) *quant.Config {
	t.Helper()
	if text == "" {
		return nil
	}
	c, err := quant.ParseConfig([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}
