package gguf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

// The blocks of the gguf package, for ties, subnormal and infinite numbers too.
func TestBlocksAreMadeAsTheReferenceMakesThem(t *testing.T) {
	dir := "../testdata/gguf"
	if d := os.Getenv("TENSORFILE_GGUF"); d != "" {
		dir = d
	}
	r, err := Open(filepath.Join(dir, "quantised.gguf"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	types := 0
	for x := range r.Tensors() {
		name, ok := strings.CutPrefix(x.Name, "x.")
		if !ok {
			continue
		}
		types++
		q, err := Quantize(x, name)
		if err != nil {
			t.Fatal(err)
		}
		got, err1 := q.Parts[0].Data.ReadAll()
		want, err2 := r.Tensor("q." + name).Parts[0].Data.ReadAll()
		if err1 != nil || err2 != nil || len(got) != len(want) {
			t.Fatalf("%s: %v, %v", name, err1, err2)
		}
		size := len(want) / int(x.Shape[0])
		for i := range int(x.Shape[0]) {
			if a, b := got[i*size:(i+1)*size], want[i*size:(i+1)*size]; !bytes.Equal(a, b) {
				t.Errorf("%s, block %d:\n%x, want\n%x", name, i, a, b)
			}
		}
	}
	if types != 8 {
		t.Errorf("%d types", types)
	}
}

func TestQuantizeRefusesWhatNoEncoderTakes(t *testing.T) {
	row := func(n int64) *tensor.Tensor {
		return tensor.New("x", tensor.Shape{n}, make([]float32,
			n))
	}
	column := tensor.New("x", tensor.Shape{2, 32}, make([]float32, 64))
	column.Order = tensor.ColumnMajor(2)
	for name, c := range map[string]struct {
		x    *tensor.Tensor
		kind string
		want error
	}{
		"a type without an encoder": {row(256), "Q4_K", errors.ErrUnsupported},
		"an unknown type":           {row(256), "Q9", errors.ErrUnsupported},
		"half a block":              {row(48), "Q8_0", tensor.ErrMalformed},
		"a scalar": {tensor.New("x", tensor.Shape{}, []float32{1}), "Q8_0",
			tensor.ErrMalformed},
		"column-major": {column, "Q8_0", errors.ErrUnsupported},
		"complex numbers": {tensor.New("x", tensor.Shape{32}, make([]complex64, 32)),
			"Q8_0", tensor.ErrDType},
		"blocks": {blocks("x", "Q8_0", 34, 32), "Q4_0", errors.ErrUnsupported},
		"nil":    {nil, "Q8_0", tensor.ErrNoTensor},
	} {
		if _, err := Quantize(c.x, c.kind); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	for _, kind := range []string{"Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "TQ1_0", "TQ2_0",
		"MXFP4"} {
		x := make([]float32, 512)
		x[300] = float32(math.NaN())
		q, err := Quantize(tensor.New("x", tensor.Shape{512}, x), kind)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := q.Parts[0].Data.ReadAll(); !errors.Is(err, tensor.ErrDType) {
			t.Errorf("%s of NaN: %v", kind, err)
		}
	}
	x := make([]float32, 32)
	x[3] = float32(math.Inf(-1))
	q, _ := Quantize(tensor.New("x", tensor.Shape{32}, x), "MXFP4")
	if _, err := q.Parts[0].Data.ReadAll(); !errors.Is(err, tensor.ErrDType) {
		t.Errorf("MXFP4 of infinity: %v", err)
	}
}

// Values that a type has come back, whatever the dtype, and small numbers of MXFP4 do not
// wrap around.
func TestQuantizedValuesComeBack(t *testing.T) {
	f16 := make([]tensor.Float16, 1024)
	for i := range f16 {
		f16[i] = tensor.NewFloat16(float32(i%9) - 4)
	}
	q, err := Quantize(tensor.New("x", tensor.Shape{4, 256}, f16), "Q8_0")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := errors.Join(writeOne(&out, q)); err != nil {
		t.Fatal(err)
	}
	r, err := OpenBytes(out.Bytes(), nil)
	if err != nil {
		t.Fatal(err)
	}
	back, err := tensor.Convert[float32](r.Tensor("x"))
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range back {
		if math.Abs(float64(v-f16[i].Float32())) > 4.0/250 {
			t.Errorf("element %d is %v, was %v", i, v, f16[i].Float32())
		}
	}
	x := make([]float32, 32)
	x[0], x[31] = 0x1p-126, -0x1p-127
	q, _ = Quantize(tensor.New("x", tensor.Shape{32}, x), "MXFP4")
	if small, err := tensor.Convert[float32](q); err != nil || small[0] != x[0] ||
		small[31] != x[31] || small[1] != 0 {
		t.Errorf("%v, %v", small, err)
	}
}

func writeOne(w io.Writer, x *tensor.Tensor) error {
	gw := NewWriter(w, nil)
	return errors.Join(gw.Add(x), gw.Close())
}

// TestDecodeRounds decodes the tensors of a file several times, for
// interop/gguf/speed.sh.
func TestDecodeRounds(t *testing.T) {
	var rounds int
	var name string
	if n, _ := fmt.Sscan(os.Getenv("TENSORFILE_GGUF_ROUNDS"), &rounds, &name); n != 2 {
		t.Skip("works for interop/gguf/speed.sh: set TENSORFILE_GGUF_ROUNDS to a number and a file")
	}
	r, err := Open(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for x := range r.Tensors() {
		n, _ := x.Shape.Elements()
		dst := make([]float32, n)
		for range rounds {
			if err := tensor.ConvertInto(dst, x); err != nil {
				t.Fatal(err)
			}
		}
	}
}
