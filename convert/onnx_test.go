package convert

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/onnx"
	"github.com/tensorfile/tensorfile/tensor"
)

// The elements in another file are streamed into the target, values of all dtypes stay
// what they are, and what is lost is named.
func TestONNXKeepsItsValuesAndNamesItsLosses(t *testing.T) {
	for name, want := range map[string][]string{
		"external": {
			`program: computations cannot be represented in safetensors`,
			`tensors["w1"]: int4 is stored as int8`},
		"constants": {
			`program: computations cannot be represented in safetensors`,
			`tensors["s"]: "string" cannot be represented in safetensors, nor is there a dtype ` +
				`to convert it to`,
			`tensors["e"]: sparse_coo cannot be represented in safetensors`,
			`tensors["#7.tables[1]"]: int4 is stored as int8`},
	} {
		src, err := tensorfile.Open("../testdata/onnx/"+name+".onnx", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer src.Close()
		p, err := NewPlan(t.Context(), src, tensorfile.Safetensors, &Options{Allow: LossAll})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, l := range p.Losses() {
			got = append(got, l.Field+": "+l.Reason)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		var out bytes.Buffer
		if err := p.Write(t.Context(), &out); err != nil {
			t.Fatal(err)
		}
		end := open(t, out.Bytes())
		for x := range src.Tensors() {
			y := end.Tensor(x.Name)
			if !x.Dense() || x.DType == tensor.Unknown {
				continue
			}
			a, err := tensor.Convert[float64](x)
			if err != nil {
				t.Fatal(err)
			}
			b, err := tensor.Convert[float64](y)
			if err != nil || !slices.EqualFunc(a, b, func(a, b float64) bool {
				return a == b || a != a && b != b
			}) {
				t.Errorf("%s: %v, %v; want %v", x.Name, b, err, a)
			}
		}
	}
}

// A file that is missing fails the conversion, with the name, before anything is
// complete.
func TestMissingDataOfONNXFailsTheWrite(t *testing.T) {
	f, err := onnx.Open("../testdata/onnx/external.onnx", &onnx.ReaderOptions{
		Companion: func(string) (io.ReaderAt, int64, error) { return nil, 0, errors.New("gone") }})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, err := NewPlan(t.Context(), tensorfile.FromReader(f), tensorfile.Safetensors,
		&Options{Allow: LossAll})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Write(t.Context(), io.Discard); err == nil {
		t.Error("it was written")
	}
}
