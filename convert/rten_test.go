package convert

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/tensor"
)

// The format is being retired: all weights of every .rten get out, under their names,
// with their bytes.
func TestWeightsLeaveRTen(t *testing.T) {
	files, err := filepath.Glob("../testdata/rten/*.rten")
	if err != nil || len(files) == 0 {
		t.Fatal("no goldens")
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, to := range []tensorfile.Format{tensorfile.ZTensor, tensorfile.PTD,
			tensorfile.Safetensors} {
			t.Run(filepath.Base(name)+" to "+to.String(), func(t *testing.T) {
				src, err := tensorfile.OpenBytes(data, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer src.Close()
				p, err := NewPlan(t.Context(), src, to,
					&Options{Allow: LossGraph | LossAttributes | LossNames})
				if err != nil {
					t.Fatal(err)
				}
				for _, l := range p.Losses() {
					if l.Kind != LossGraph && (l.Kind != LossAttributes || to != tensorfile.PTD) &&
						l.Kind != LossNames {
						t.Errorf("lost: %v", l)
					}
				}
				var out bytes.Buffer
				err = p.Write(t.Context(), &out)
				if src.Len() == 0 && errors.Is(err, errors.ErrUnsupported) {
					return // a program without weights leaves nothing to write
				}
				if err != nil {
					t.Fatal(err)
				}
				got, err := tensorfile.OpenBytes(out.Bytes(), nil)
				if err != nil {
					t.Fatal(err)
				}
				defer got.Close()
				if got.Format() != to || got.Len() != src.Len() {
					t.Fatalf("%d tensors in a %v, want %d", got.Len(), got.Format(), src.Len())
				}
				var originals []*tensor.Tensor
				for x := range src.Tensors() {
					originals = append(originals, x)
				}
				i := 0
				for planned := range p.Tensors() {
					want := originals[i]
					i++
					x := got.Tensor(planned.Name)
					if x == nil || x.DType != want.DType || !x.Shape.Equal(want.Shape) {
						t.Errorf("%s is %v, was %s %v %v", planned.Name, x, want.Name, want.DType,
							want.Shape)
						continue
					}
					if planned.Name != want.Name && src.Tensor(want.Name) == want {
						t.Errorf("%s was renamed to %s", want.Name, planned.Name)
					}
					a, err1 := x.Data.ReadAll()
					b, err2 := want.Data.ReadAll()
					if err1 != nil || err2 != nil || !bytes.Equal(a, b) {
						t.Errorf("%s has other bytes: %v, %v", want.Name, err1, err2)
					}
				}
				if i != len(originals) {
					t.Errorf("%d tensors were planned, of %d", i, len(originals))
				}
			})
		}
	}
}
