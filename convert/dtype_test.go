package convert

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/tensor"
)

func TestChooseTakesTheSmallestDTypeWithAllValues(t *testing.T) {
	npz, rtenTypes := tensorfile.NPZ.Caps().DTypes, tensorfile.RTen.Caps().DTypes
	f32 := []tensor.DType{tensor.F32}
	for _, c := range []struct {
		d    tensor.DType
		have []tensor.DType
		to   tensor.DType
		kind LossKind
	}{
		{tensor.BF16, npz, tensor.F32, LossWiden},
		{tensor.F8E4M3FN, npz, tensor.F16, LossWiden},
		{tensor.F8E5M2FNUZ, npz, tensor.F16, LossWiden},
		{tensor.F8E8M0FNU, npz, tensor.F32, LossWiden},
		{tensor.C32, npz, tensor.C64, LossWiden},
		{tensor.Bool, rtenTypes, tensor.I8, LossWiden},
		{tensor.I16, rtenTypes, tensor.I32, LossWiden},
		{tensor.U16, rtenTypes, tensor.I32, LossWiden},
		{tensor.I64, rtenTypes, tensor.I32, LossNarrow},
		{tensor.U64, rtenTypes, tensor.I32, LossNarrow},
		{tensor.F16, rtenTypes, tensor.F32, LossWiden},
		{tensor.F64, rtenTypes, tensor.F32, LossNarrow},
		{tensor.I16, f32, tensor.F32, LossWiden},
		{tensor.I32, f32, tensor.F32, LossNarrow},
		{tensor.C64, f32, tensor.Unknown, 0},
		{tensor.QI8, f32, tensor.Unknown, 0},
		{tensor.Unknown, f32, tensor.Unknown, 0},
		{tensor.F4E2M1FN, f32, tensor.F32, LossWiden},
		{tensor.F6E2M3FN, npz, tensor.F16, LossWiden},
		{tensor.Bits8, npz, tensor.Unknown, 0},
		{tensor.I4, []tensor.DType{tensor.F32, tensor.U8, tensor.I8}, tensor.I8, LossWiden},
		{tensor.U4, []tensor.DType{tensor.F32, tensor.I8, tensor.U8}, tensor.U8, LossWiden},
		{tensor.I2, f32, tensor.F32, LossWiden}, {tensor.U2, f32, tensor.F32, LossWiden},
		{tensor.I8, []tensor.DType{tensor.QI8}, tensor.Unknown, 0},
		{tensor.C128, []tensor.DType{tensor.C64, tensor.F64}, tensor.C64, LossNarrow},
	} {
		if to, kind := choose(c.d, c.have); to != c.to || kind != c.kind {
			t.Errorf("%v becomes %v (%v), want %v (%v)", c.d, to, kind, c.to, c.kind)
		}
	}
}

// The panels of a gatherer, joined, are what tensor.Reordered gives.
func TestGathererGivesWhatReorderedGives(t *testing.T) {
	for _, s := range []tensor.Shape{nil, {7}, {3, 5}, {2, 3, 4}, {3000, 1500}, {1, 2000, 1, 1300},
		{5, 100, 30, 70}, {2_500_000, 2}} {
		if testing.Short() && len(s) == 2 && s[0] > 1000 {
			continue
		}
		n, _ := s.Elements()
		raw := make([]byte, 2*n)
		for i := range raw {
			raw[i] = byte(i * 31 >> (i % 7))
		}
		x := &tensor.Tensor{Name: "x", DType: tensor.U16, Shape: s, Data: tensor.BlobOf(raw)}
		orders := []tensor.Order{tensor.ColumnMajor(len(s))}
		if len(s) == 4 {
			orders = append(orders, tensor.Order{0, 2, 3, 1}, tensor.Order{2, 0, 1, 3})
		}
		for _, order := range orders {
			want, err := tensor.Reordered(x, order)
			if err != nil {
				t.Fatal(err)
			}
			w, err := want.Data.ReadAll()
			if err != nil {
				t.Fatal(err)
			}
			for _, src := range []tensor.Blob{x.Data,
				tensor.BlobFunc(int64(len(raw)),
					func() (io.ReadCloser,
						error) {
						return io.NopCloser(bytes.NewReader(raw)), nil
					})} {
				y := *x
				y.Data = src
				got, err := reorderedData(t.Context(), &y, order)
				if err != nil {
					t.Fatal(err)
				}
				if g, err := got.ReadAll(); err != nil || !bytes.Equal(g, w) {
					t.Errorf("%v to %v: %v", s, order, err)
				}
			}
		}
	}
}

// A source that does not say its size may hold less than its shape takes, which only
// reading shows.
func TestReorderingDataOfAnotherSizeIsMalformed(t *testing.T) {
	for _, n := range []int{0, 7, 799, 801, 9 << 20} {
		x := &tensor.Tensor{Name: "x", DType: tensor.F32, Shape: tensor.Shape{10, 20},
			Data: tensor.BlobFunc(-1, func() (io.ReadCloser, error) {
				return io.NopCloser(bytes.NewReader(make([]byte, n))), nil
			})}
		got, err := reorderedData(t.Context(), x, tensor.ColumnMajor(2))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := got.ReadAll(); !errors.Is(err, tensor.ErrMalformed) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// A tensor that is made sparse is row-major before, whatever it was.
func TestTensorsAreRowMajorBeforeTheyAreMadeSparse(t *testing.T) {
	x := tensor.New("x", tensor.Shape{2, 3}, []float32{1, 4, 0, 5, 3, 6}) // 1 0 3, 4 5 6
	x.Order = tensor.ColumnMajor(2)
	for _, scheme := range []string{"sparse_csr", "sparse_coo"} {
		s, err := sparsified(scheme)(t.Context(), x)
		if err != nil {
			t.Fatal(err)
		}
		dense, err := densified(nil)(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := tensor.Load[float32](dense); err != nil ||
			!slices.Equal(got, []float32{1, 0, 3, 4, 5, 6}) {
			t.Errorf("%s: %v, %v", scheme, got, err)
		}
	}
}
