package ztensor

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/v1"
)

// A tensor that was made sparse is the dense tensor again, from memory and from a file
// whose parts are compressed.
func TestSparsifiedTensorsComeBack(t *testing.T) {
	for _, c := range []struct {
		scheme string
		shape  tensor.Shape
	}{
		{"sparse_csr", tensor.Shape{30, 20}},
		{"sparse_csr", tensor.Shape{0, 20}},
		{"sparse_csr", tensor.Shape{20, 0}},
		{"sparse_csr", tensor.Shape{300, 4000}},
		{"sparse_coo", tensor.Shape{}},
		{"sparse_coo", tensor.Shape{3, 2, 5, 7}},
		{"sparse_coo", tensor.Shape{100, 30, 200}},
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
		made, err := sparse.Sparsify(t.Context(), dense, c.scheme, nil)
		if err != nil {
			t.Fatal(c, err)
		}
		if err := sparse.Check(t.Context(), made, nil); err != nil {
			t.Errorf("%v: %v", c, err)
		}
		file := write(t, &WriterOptions{Version: "1.0", Level: 1, Digest: CRC32C},
			func(w *Writer) {
				if err := w.Add(made); err != nil {
					t.Fatal(c, err)
				}
			})
		r, err := OpenBytes(file, nil)
		if err != nil {
			t.Fatal(c, err)
		}
		for what, s := range map[string]*tensor.Tensor{"made": made, "read": r.Tensor("x")} {
			back, err := sparse.Densify(t.Context(), s, nil)
			if err != nil {
				t.Fatal(c, what, err)
			}
			if got, err := back.Data.ReadAll(); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%v, %s: other bytes, %v", c, what, err)
			}
		}
	}
}

// Values that are read at once, since their indices are not in order, have their digest
// checked as streams have.
func TestUnorderedValuesAreChecked(t *testing.T) {
	u64 := func(v ...uint64) tensor.Blob {
		return tensor.New("", tensor.Shape{int64(len(v))}, v).Data
	}
	values := tensor.Part{Role: "values", DType: tensor.F32,
		Data: tensor.New("", tensor.Shape{3}, []float32{1, 2, 3}).Data}
	for _, x := range []*tensor.Tensor{
		{Name: "x", DType: tensor.F32, Shape: tensor.Shape{2, 3}, Scheme: "sparse_coo",
			Parts: []tensor.Part{values,
				{Role: "coords", DType: tensor.U64, Data: u64(1, 0, 1, 2, 1, 0)}}},
		{Name: "x", DType: tensor.F32, Shape: tensor.Shape{2, 3}, Scheme: "sparse_csr",
			Parts: []tensor.Part{values,
				{Role: "indices", DType: tensor.U64, Data: u64(2, 0, 1)},
				{Role: "indptr", DType: tensor.U64, Data: u64(0, 2, 3)}}},
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
			for name, do := range map[string]func(context.Context, *tensor.Tensor,
				*sparse.Options) (*tensor.Tensor, error){
				"Densify": sparse.Densify, "Sort": sparse.Sort} {
				if _, err := do(t.Context(), r.Tensor("x"), nil); errors.Is(err,
					tensor.ErrChecksum) != (damage > 0) {
					t.Errorf("%s of %s, damage %d: %v", name, x.Scheme, damage, err)
				}
			}
		}
	}
}

// sparseFile is a matrix of version 1.1 whose parts are compressed, and say this of
// themselves.
func sparseFile(t *testing.T, scheme string, shape []any, parts map[string][]byte,
	extra map[string][]any) []byte {
	t.Helper()
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	b := append([]byte(v1.Magic1), make([]byte, 56)...)
	components := map[string]any{}
	for role, data := range parts {
		b = append(b, make([]byte, (64-len(b)%64)%64)...)
		stored := z.EncodeAll(data, nil)
		word := "u64"
		if role == "values" {
			word = "u8"
		}
		components[role] = component12(word, len(b), len(stored),
			append([]any{"encoding", "zstd"}, extra[role]...)...)
		b = append(b, stored...)
	}
	return footed(b, map[string]any{"version": "1.1.0",
		"objects": map[string]any{"s": object12(scheme, shape, components)}}, true)
}

// A bomb of indices is read no further than a tensor of this shape can go, and none
// decodes to more than the limit.
func TestIndicesThatAreBombsAreRefused(t *testing.T) {
	bomb := make([]byte, 64<<20)
	for _, c := range []struct {
		scheme string
		shape  []any
		parts  map[string][]byte
	}{
		{sparse.CSR, []any{2, 4},
			map[string][]byte{"values": {1, 2}, "indices": bomb, "indptr": bomb}},
		{sparse.COO, []any{2, 4}, map[string][]byte{"values": {1, 2}, "coords": bomb}},
	} {
		file := sparseFile(t, c.scheme, c.shape, c.parts, nil)
		r, err := OpenBytes(file, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sparse.Densify(t.Context(), r.Tensor("s"), nil); !errors.Is(err,
			tensor.ErrMalformed) {
			t.Errorf("%s: %v", c.scheme, err)
		}
		c.parts["values"] = bomb
		if r, err = OpenBytes(sparseFile(t, c.scheme, c.shape, c.parts, nil),
			&ReaderOptions{Limits: tensor.Limits{MaxDecoded: 1 << 20}}); err != nil {
			t.Fatal(err)
		}
		if _, err := sparse.Densify(t.Context(), r.Tensor("s"), nil); !errors.Is(err,
			tensor.ErrLimit) {
			t.Errorf("%s, limited: %v", c.scheme, err)
		}
	}
}

// Each part has its digest checked, also one that is decoded before it is looked at, in
// order and out of it.
func TestDigestsOfHeldPartsAreChecked(t *testing.T) {
	u64 := func(v ...uint64) []byte {
		var b []byte
		for _, x := range v {
			b = binary.LittleEndian.AppendUint64(b, x)
		}
		return b
	}
	for _, c := range []struct {
		scheme string
		parts  map[string][]byte
	}{
		{sparse.COO, map[string][]byte{"values": {1, 2}, "coords": u64(0, 1, 0, 1)}},
		{sparse.COO, map[string][]byte{"values": {1, 2}, "coords": u64(1, 0, 1, 0)}},
		{sparse.CSR, map[string][]byte{"values": {1, 2}, "indices": u64(0, 1),
			"indptr": u64(0, 2, 2)}},
		{sparse.CSR, map[string][]byte{"values": {1, 2}, "indices": u64(1, 0),
			"indptr": u64(0, 2, 2)}},
	} {
		for role := range c.parts {
			for _, wrong := range []bool{false, true} {
				extra := map[string][]any{}
				if wrong {
					extra[role] = []any{"digest", "crc32c:0x00000000"}
				}
				r, err := OpenBytes(sparseFile(t, c.scheme, []any{2, 4}, c.parts, extra), nil)
				if err != nil {
					t.Fatal(err)
				}
				dense, err := sparse.Densify(t.Context(), r.Tensor("s"), nil)
				if err == nil {
					_, err = dense.Data.WriteTo(io.Discard)
				}
				if errors.Is(err, tensor.ErrChecksum) != wrong || !wrong && err != nil {
					t.Errorf("%s, %s wrong %v: %v", c.scheme, role, wrong, err)
				}
			}
		}
	}
}
