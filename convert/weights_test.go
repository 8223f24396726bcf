package convert_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/tensorfile/tensorfile/convert"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/pte"
	"github.com/tensorfile/tensorfile/tensor"
)

// One call replaces a weight inside of a program and a weight in its .ptd.
func TestSetWeightsReplacesInProgramAndData(t *testing.T) {
	for _, names := range [][2]string{{"p.pte", "p.ptd"}, {"p.pte", "foundation.ptd"},
		{"p.pte", "../other/p.ptd"}, {"program", "data"}} { // the last two are no set
		dir := filepath.Join(t.TempDir(), "dir")
		for _, d := range []string{dir, filepath.Join(dir, "..", "other")} {
			if err := os.Mkdir(d, 0o777); err != nil {
				t.Fatal(err)
			}
		}
		program, data := filepath.Join(dir, names[0]), filepath.Join(dir, names[1])
		for to, from := range map[string]string{program: "export-1.5.1-external-some.pte",
			data: "export-1.5.1-external-some.ptd"} {
			b, err := os.ReadFile("../testdata/pte/" + from)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(to, b, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		inside, outside := "", ""
		weights := map[string]*tensor.Tensor{}
		read := func() map[string][]byte {
			all := map[string][]byte{}
			p, err := pte.Open(program, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			d, err := ptd.Open(data, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			if _, err := p.Verify(t.Context(),
				&tensor.VerifyOptions{External: d.Tensor}); err != nil {
				t.Error(err)
			}
			for x := range p.Tensors() {
				name := x.Name
				if x.External {
					outside, x = name, d.Tensor(name)
				} else {
					inside = name
				}
				b, err := x.Data.ReadAll()
				if err != nil {
					t.Fatal(err)
				}
				all[name] = b
				y := *x
				y.Data = tensor.BlobOf(bytes.Repeat([]byte{1}, len(b)))
				weights[name] = &y
			}
			return all
		}
		before := read()
		if inside == "" || outside == "" {
			t.Fatal("the program has not both")
		}
		set := map[string]*tensor.Tensor{inside: weights[inside], outside: weights[outside]}
		if err := convert.SetWeights(t.Context(), program, data, set); err != nil {
			t.Fatal(err)
		}
		for name, b := range read() {
			want := before[name]
			if set[name] != nil {
				want = bytes.Repeat([]byte{1}, len(b))
			}
			if !bytes.Equal(b, want) {
				t.Errorf("%s: other bytes", name)
			}
		}
		wrong := *weights[outside]
		wrong.DType, wrong.Data = tensor.U8, tensor.BlobOf(make([]byte, len(before[outside])/4))
		for name, c := range map[string]struct {
			set  map[string]*tensor.Tensor
			data string
			want error
		}{
			"absent": {map[string]*tensor.Tensor{"absent": weights[inside]}, data,
				tensor.ErrNoTensor},
			"no ptd": {map[string]*tensor.Tensor{outside: weights[outside]}, "",
				tensor.ErrNoTensor},
			"another dtype": {map[string]*tensor.Tensor{outside: &wrong, inside: weights[inside]},
				data, tensor.ErrDType},
			"no tensor": {map[string]*tensor.Tensor{outside: nil}, data, tensor.ErrNoView},
		} {
			old, _ := os.ReadFile(program)
			if err := convert.SetWeights(t.Context(), program, c.data, c.set); !errors.Is(err,
				c.want) {
				t.Errorf("%s: %v", name, err)
			}
			if now, _ := os.ReadFile(program); !bytes.Equal(now, old) {
				t.Errorf("%s: the program was changed", name)
			}
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 2 {
			t.Errorf("files are left: %v", left)
		}
	}
}
