package convert

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"slices"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/tensor"
)

func TestChoose(t *testing.T) {
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
		{tensor.F4E2M1FN, f32, tensor.Unknown, 0},
		{tensor.C128, []tensor.DType{tensor.C64, tensor.F64}, tensor.C64, LossNarrow},
	} {
		if to, kind := choose(c.d, c.have); to != c.to || kind != c.kind {
			t.Errorf("%v becomes %v (%v), want %v (%v)", c.d, to, kind, c.to, c.kind)
		}
	}
}

// A type that is said to hold all values of another gives every one of them back:
// all codes of up to 16 bits, and the corners of the wider ones.
func TestWideningLosesNothing(t *testing.T) {
	numbers := []tensor.DType{}
	for _, d := range tensor.DTypes() {
		if _, _, _, ok := significand(d); ok {
			numbers = append(numbers, d)
		}
	}
	for _, from := range numbers {
		src := codes(from)
		for _, to := range numbers {
			if from == to || !widens(from, to) {
				continue
			}
			n := len(src) / from.Size()
			there := convertBytes(t, src, from, to)
			if !narrows(to, from) && !widens(to, from) {
				// There is no way back through this package: compare values.
				for i := range n {
					a, b := value(src[i*from.Size():], from), value(there[i*to.Size():], to)
					if a != b && (a == a || b == b) {
						t.Fatalf("%v %v became %v %v", from, a, to, b)
					}
				}
				continue
			}
			back := convertBytes(t, there, to, from)
			for i := 0; i < len(src); i += from.Size() {
				a, b := src[i:i+from.Size()], back[i:i+from.Size()]
				if !bytes.Equal(a, b) &&
					!(from.IsFloat() && math.IsNaN(value(a, from)) && math.IsNaN(value(b, from))) {
					t.Fatalf("%v to %v: %x came back as %x", from, to, a, b)
				}
			}
		}
	}
}

// convertBytes converts elements that all fit.
func convertBytes(t *testing.T, src []byte, from, to tensor.DType) []byte {
	t.Helper()
	b, err := converted(tensor.BlobOf(src), from, to, int64(len(src)/from.Size()))
	if err != nil {
		t.Fatal(err)
	}
	dst, err := b.ReadAll()
	if err != nil {
		t.Fatalf("%v to %v: %v", from, to, err)
	}
	return dst
}

// value is the first element of b; NaN where it cannot be converted.
func value(b []byte, d tensor.DType) float64 {
	v, err := tensor.Convert[float64](&tensor.Tensor{DType: d, Shape: tensor.Shape{1},
		Data: tensor.BlobOf(b[:d.Size()])})
	if err != nil {
		return math.NaN()
	}
	return v[0]
}

func codes(d tensor.DType) []byte {
	var b []byte
	switch d.Size() {
	case 1:
		for i := range 256 {
			if d != tensor.Bool || i < 2 {
				b = append(b, byte(i))
			}
		}
	case 2:
		for i := range 1 << 16 {
			b = binary.LittleEndian.AppendUint16(b, uint16(i))
		}
	case 4:
		for _, v := range []uint32{0, 1, 1 << 31, 1<<31 - 1, 1<<32 - 1, 0x7f7fffff, 0x7f800000,
			0x00800000, 0x007fffff, 0x3f800001} {
			b = binary.LittleEndian.AppendUint32(b, v)
		}
	case 8:
		for _, v := range []uint64{0, 1, 1 << 63, 1<<63 - 1, 1<<64 - 1, 0x7fefffffffffffff,
			0x7ff0000000000000, 1 << 52} {
			b = binary.LittleEndian.AppendUint64(b, v)
		}
	}
	return b
}

func TestIntegersThatDoNotFit(t *testing.T) {
	for _, c := range []struct {
		x    *tensor.Tensor
		to   tensor.DType
		fits bool
	}{
		{tensor.New("", tensor.Shape{1}, []int64{1<<31 - 1}), tensor.I32, true},
		{tensor.New("", tensor.Shape{1}, []int64{1 << 31}), tensor.I32, false},
		{tensor.New("", tensor.Shape{1}, []int64{-1 << 31}), tensor.I32, true},
		{tensor.New("", tensor.Shape{1}, []int64{-1<<31 - 1}), tensor.I32, false},
		{tensor.New("", tensor.Shape{1}, []int64{-1}), tensor.U8, false},
		{tensor.New("", tensor.Shape{1}, []int64{256}), tensor.U8, false},
		{tensor.New("", tensor.Shape{1}, []uint64{1 << 63}), tensor.I64, false},
		{tensor.New("", tensor.Shape{1}, []uint64{1 << 63}), tensor.I32, false},
		{tensor.New("", tensor.Shape{1}, []int64{-1}), tensor.U64, false},
	} {
		b, err := converted(c.x.Data, c.x.DType, c.to, 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.ReadAll(); (err == nil) != c.fits ||
			err != nil && !errors.Is(err, tensor.ErrDType) {
			t.Errorf("%v to %v: %v", c.x.DType, c.to, err)
		}
	}
	if _, err := converted(tensor.Blob{}, tensor.F32, tensor.I32, 0); !errors.Is(err,
		tensor.ErrDType) {
		t.Error("floats do not become integers")
	}
}

// The panels of a gatherer, joined, are what tensor.Reordered gives.
func TestGathererAgainstReordered(t *testing.T) {
	for _, s := range []tensor.Shape{nil, {7}, {3, 5}, {2, 3, 4}, {3000, 1500}, {1, 2000, 1, 1300},
		{5, 100, 30, 70}, {2_500_000, 2}} {
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
func TestReorderedOtherSize(t *testing.T) {
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

// What is made sparse is row-major before, whatever it was.
func TestSparseOfAnotherOrder(t *testing.T) {
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
