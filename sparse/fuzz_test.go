package sparse_test

import (
	"bytes"
	"testing"

	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
)

// FuzzSparse: indices of any content are refused, or what they mean is the same sorted
// and dense.
func FuzzSparse(f *testing.F) {
	f.Add(true, byte(2), byte(3), []byte{1, 2, 3}, []byte{2, 0, 1}, []byte{0, 2, 3})
	f.Add(false, byte(2), byte(3), []byte{1, 2, 3}, []byte{1, 0, 1, 2, 1, 0}, []byte{})
	f.Add(false, byte(2), byte(3), []byte{1, 2}, []byte{1, 1, 2, 2}, []byte{})
	f.Fuzz(func(t *testing.T, csr bool, rows, cols byte, values, a, b []byte) {
		part := func(role string, d tensor.DType, b []byte) tensor.Part {
			return tensor.Part{Role: role, DType: d, Data: tensor.BlobOf(b)}
		}
		x := &tensor.Tensor{Name: "x", DType: tensor.U8,
			Shape: tensor.Shape{int64(rows), int64(cols)}, Scheme: sparse.COO,
			Parts: []tensor.Part{part("values", tensor.U8, values), part("coords", tensor.U8, a)}}
		if csr {
			x.Scheme = sparse.CSR
			x.Parts = []tensor.Part{part("values", tensor.U8, values),
				part("indices", tensor.I8, a), part("indptr", tensor.U8, b)}
		}
		if sparse.Check(t.Context(), x, nil) != nil {
			if _, err := sparse.Densify(t.Context(), x, nil); err == nil {
				t.Fatal("what Check refuses became dense")
			}
			return
		}
		for _, d := range []sparse.Duplicates{sparse.First, sparse.Sum} {
			o := &sparse.Options{Duplicates: d}
			want := denseOf(t, x, o)
			sorted, err := sparse.Sort(t.Context(), x, o)
			if err != nil {
				t.Fatal(err)
			}
			if err := sparse.Check(t.Context(), sorted,
				&sparse.Options{Ordered: true}); err != nil {
				t.Fatal(err)
			}
			if got := denseOf(t, sorted, nil); !bytes.Equal(got, want) {
				t.Fatalf("% x, sorted % x", want, got)
			}
		}
		ordered := sparse.Check(t.Context(), x, &sparse.Options{Ordered: true}) == nil
		if _, err := sparse.Densify(t.Context(), x, nil); ordered && err != nil {
			t.Fatal(err)
		}
	})
}
