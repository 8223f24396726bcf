package primitiv_test

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/primitiv"
	"github.com/tensorfile/tensorfile/tensor"
)

func TestFilesOfTheReferenceReadWithEqualValues(t *testing.T) {
	files, dumps := goldens(t)
	for name, data := range files {
		t.Run(name, func(t *testing.T) {
			got := api.Same(t, data, func(r *primitiv.Reader) string {
				if w := r.Warnings(); len(w) > 0 {
					t.Errorf("warnings about a genuine file: %v", w)
				}
				if kind, _, _ := strings.Cut(name, "-"); kind != r.Kind().String() {
					t.Errorf("%v", r.Kind())
				}
				if _, err := r.Verify(t.Context(),
					&tensor.VerifyOptions{Depth: tensor.VerifyCanonical,
						Strict: true}); err != nil {
					t.Error(err)
				}
				return dump(t, r)
			})
			if got != dumps[name] {
				t.Errorf("we read\n%s\nthe reference\n%s", got, dumps[name])
			}
		})
	}
}

func TestFilesOfTheReferenceAreWrittenByteForByte(t *testing.T) {
	files, _ := goldens(t)
	for name, data := range files {
		api.Each(t, data, func(t *testing.T, r *primitiv.Reader) {
			if got := copyOf(t, r, primitiv.WriterOptions{}); !bytes.Equal(got, data) {
				t.Errorf("%s by AddParameter differs", name)
			}
			if r.Len() == 0 {
				return
			}
			var b bytes.Buffer
			w := primitiv.NewWriter(&b, &primitiv.WriterOptions{Kind: r.Kind()})
			if err := w.AddAll(t.Context(), tensor.Each(r.Tensors())); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(b.Bytes(), data) {
				t.Errorf("%s by Add differs", name)
			}
		})
	}
}

// column-major: element (i, j, k) of the tensor is 100i + 10j + k.
func TestElementsAreWhereTheReferenceHasThem(t *testing.T) {
	r, err := primitiv.Open(filepath.Join(testdata, "parameter-index.primitiv"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	v := r.Tensor("value")
	if !v.Shape.Equal(tensor.Shape{2, 3, 4}) || !slices.Equal(v.Order, tensor.Order{2, 1, 0}) {
		t.Fatalf("%v %v", v.Shape, v.Order)
	}
	m, err := tensor.Reordered(v, nil)
	if err != nil {
		t.Fatal(err)
	}
	x, err := tensor.Load[float32](m)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		for j := range 3 {
			for k := range 4 {
				if got := x[(i*3+j)*4+k]; got != float32(100*i+10*j+k) {
					t.Errorf("(%d, %d, %d) is %v", i, j, k, got)
				}
			}
		}
	}
}
