package ztensor

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/tensor"
)

// Small results are held, large ones are streams: both are the dense tensor again, from memory and from a file whose parts are compressed.
func TestSparsifyAndDensify(t *testing.T) {
	for _, c := range []struct {
		scheme string
		shape  tensor.Shape
		large  bool
	}{
		{"sparse_csr", tensor.Shape{30, 20}, false},
		{"sparse_csr", tensor.Shape{0, 20}, false},
		{"sparse_csr", tensor.Shape{20, 0}, false},
		{"sparse_csr", tensor.Shape{300, 4000}, true},
		{"sparse_coo", tensor.Shape{}, false},
		{"sparse_coo", tensor.Shape{3, 2, 5, 7}, false},
		{"sparse_coo", tensor.Shape{100, 30, 200}, true},
	} {
		n, _ := c.shape.Elements()
		rng := rand.New(rand.NewPCG(1, uint64(n)))
		values := make([]float32, n)
		for i := range values {
			if rng.IntN(10) < 7 {
				values[i] = rng.Float32() + 1
			}
		}
		dense := tensor.New("x", c.shape, values)
		want, err := dense.Data.ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		sparse, err := Sparsify(t.Context(), dense, c.scheme)
		if err != nil {
			t.Fatal(c, err)
		}
		if _, held := sparse.Parts[0].Data.Bytes(); held == c.large {
			t.Errorf("%v: in memory: %v", c, held)
		}
		if err := CheckSparse(t.Context(), sparse); err != nil {
			t.Errorf("%v: %v", c, err)
		}
		file := write(t, &WriterOptions{Version: "1.0", Level: 1, Digest: CRC32C}, func(w *Writer) {
			if err := w.Add(sparse); err != nil {
				t.Fatal(c, err)
			}
		})
		r, err := OpenBytes(file, nil)
		if err != nil {
			t.Fatal(c, err)
		}
		for what, s := range map[string]*tensor.Tensor{"made": sparse, "read": r.Tensor("x")} {
			back, err := Densify(t.Context(), s)
			if err != nil {
				t.Fatal(c, what, err)
			}
			if got, err := back.Data.ReadAll(); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%v, %s: other bytes, %v", c, what, err)
			}
		}
	}
}

// What is sparse and in order becomes dense in a stream that holds some hundred KiB, also of a shape that no memory has.
func TestDensifyHoldsNothing(t *testing.T) {
	const n = 1 << 20
	at, values := make([]byte, 0, 16*n), make([]byte, 4*n)
	for d := range uint64(2) {
		for i := range uint64(n) {
			at = binary.LittleEndian.AppendUint64(at, [2]uint64{i / 1024, i % 1024 * 7}[d])
		}
	}
	for i := range values {
		values[i] = byte(i)
	}
	sparse := &tensor.Tensor{Name: "x", DType: tensor.F32, Shape: tensor.Shape{1 << 20, 1 << 20}, Scheme: "sparse_coo", Parts: []tensor.Part{
		{Role: "values", DType: tensor.F32, Data: tensor.BlobOf(values)}, {Role: "coords", DType: tensor.U64, Data: tensor.BlobOf(at)}}}
	if !testing.Short() {
		peak := readtest.PeakHeap(4<<20, func() {
			dense, err := Densify(t.Context(), sparse)
			if err != nil {
				t.Fatal(err)
			}
			in, err := dense.Data.Open()
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close() // the other terabytes are never made
			if _, err := io.CopyN(io.Discard, in, 64<<20); err != nil {
				t.Error(err)
			}
		})
		if peak > 4<<20 {
			t.Errorf("%d bytes", peak)
		}
	}
	// Out of order it is sorted; twice the same place is nothing that the format explains.
	sparse.Shape = tensor.Shape{1024, 7 * 1024}
	swapped := slices.Clone(at)
	copy(swapped[8:], at[:8])
	copy(swapped[8*n+8:], at[8*n:8*n+8])
	copy(swapped, at[8:16])
	copy(swapped[8*n:], at[8*n+8:8*n+16])
	other := *sparse
	other.Parts = slices.Clone(sparse.Parts)
	other.Parts[1].Data = tensor.BlobOf(swapped)
	a, err := Densify(t.Context(), sparse)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Densify(t.Context(), &other)
	if err != nil {
		t.Fatal(err)
	}
	x, err1 := a.Data.ReadAll()
	y, err2 := b.Data.ReadAll()
	if err1 != nil || err2 != nil || !bytes.Equal(x[:4], y[28:32]) || !bytes.Equal(x[28:32], y[:4]) || !bytes.Equal(x[32:], y[32:]) {
		t.Error("two values changed places, and the tensors differ otherwise", err1, err2)
	}
	copy(swapped[8:], swapped[:8])
	copy(swapped[8*n+8:], swapped[8*n:8*n+8])
	if _, err := Densify(t.Context(), &other); err == nil {
		t.Error("two values for one place")
	}
}

// Indices of a type that is none are refused also where only they tell how many values there are.
func TestIndicesOfNoIndexType(t *testing.T) {
	for _, d := range []tensor.DType{tensor.F32, tensor.Bool, tensor.F4E2M1FN} {
		for _, scheme := range []string{"sparse_coo", "zt.sparse_coo/1"} {
			x := &tensor.Tensor{Name: "x", Shape: tensor.Shape{2, 2}, Scheme: scheme, Parts: []tensor.Part{
				{Role: "values", Data: tensor.BlobOf(make([]byte, 8))}, {Role: "coords", DType: d, Data: tensor.BlobOf(make([]byte, 32))}}}
			if err := CheckSparse(t.Context(), x); !errors.Is(err, tensor.ErrDType) {
				t.Errorf("%s, %v: %v", scheme, d, err)
			}
		}
	}
}

// A blob that does not say its size may hold more or less than the shape: nothing is made of it.
func TestSparsifyOtherSize(t *testing.T) {
	for _, n := range []int{0, 7, 796, 801, 1 << 20} {
		x := &tensor.Tensor{Name: "x", DType: tensor.F32, Shape: tensor.Shape{10, 20}, Data: tensor.BlobFunc(-1, func() (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(bytes.Repeat([]byte{1}, n))), nil
		})}
		for _, scheme := range []string{"sparse_csr", "sparse_coo"} {
			if _, err := Sparsify(t.Context(), x, scheme); !errors.Is(err, tensor.ErrMalformed) {
				t.Errorf("%d bytes, %s: %v", n, scheme, err)
			}
		}
	}
}

// Values that are read at once, since their indices are not in order, have their digest checked as streams have.
func TestUnorderedValuesAreChecked(t *testing.T) {
	u64 := func(v ...uint64) tensor.Blob { return tensor.New("", tensor.Shape{int64(len(v))}, v).Data }
	values := tensor.Part{Role: "values", DType: tensor.F32, Data: tensor.New("", tensor.Shape{3}, []float32{1, 2, 3}).Data}
	for _, x := range []*tensor.Tensor{
		{Name: "x", DType: tensor.F32, Shape: tensor.Shape{2, 3}, Scheme: "sparse_coo", Parts: []tensor.Part{values, {Role: "coords", DType: tensor.U64, Data: u64(1, 0, 1, 2, 1, 0)}}},
		{Name: "x", DType: tensor.F32, Shape: tensor.Shape{2, 3}, Scheme: "sparse_csr", Parts: []tensor.Part{values,
			{Role: "indices", DType: tensor.U64, Data: u64(2, 0, 1)}, {Role: "indptr", DType: tensor.U64, Data: u64(0, 2, 3)}}},
	} {
		file := write(t, &WriterOptions{Version: "1.0", Digest: CRC32C}, func(w *Writer) {
			if err := w.Add(x); err != nil {
				t.Fatal(err)
			}
		})
		for _, damage := range []byte{0, 1} {
			r, err := NewReader(bytes.NewReader(file), int64(len(file)), nil)
			if err != nil {
				t.Fatal(err)
			}
			st, _ := r.Tensor("x").Part("values").Data.Stored()
			file[st.Offset] ^= damage
			_, err = Densify(t.Context(), r.Tensor("x"))
			if x.Scheme == "sparse_csr" {
				ordered, e := InOrder(t.Context(), r.Tensor("x"))
				if e != nil {
					t.Fatal(e)
				}
				if _, e = ordered.Part("values").Data.ReadAll(); errors.Is(e, tensor.ErrChecksum) != (damage > 0) {
					t.Errorf("in order, damage %d: %v", damage, e)
				}
			}
			if errors.Is(err, tensor.ErrChecksum) != (damage > 0) {
				t.Errorf("%s, damage %d: %v", x.Scheme, damage, err)
			}
		}
	}
}
