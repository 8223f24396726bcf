package lifecycle

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"

	"github.com/tensorfile/tensorfile/tensor"
)

// Arguments of Writers: tensors of every shape, order and dtype, and names.

// sample returns a tensor of that dtype, whose bytes depend on the name.
func (x Target) sample(name string, d tensor.DType, shape tensor.Shape) *tensor.Tensor {
	h := fnv.New64()
	h.Write([]byte(name))
	r := rand.New(rand.NewPCG(h.Sum64(), uint64(d)))
	n, _ := shape.Elements()
	size, _ := d.Bytes(n)
	b := make([]byte, size)
	for i := range b {
		switch b[i] = byte(r.Uint32()); d {
		case tensor.Bool:
			b[i] &= 1
		case tensor.F32:
			b[i] &= 0x3f // no infinity, no NaN
		}
	}
	t := &tensor.Tensor{Name: name, DType: d, Shape: shape, Data: tensor.BlobOf(b)}
	if !x.Orders(nil, len(shape)) {
		t.Order = tensor.ColumnMajor(len(shape))
	}
	return t
}

func (x Target) plain(name string) *tensor.Tensor {
	return x.sample(name, tensor.F32, tensor.Shape{2, 3})
}

// A content is an argument of Add, and its expected result.
type content struct {
	kind string
	t    *tensor.Tensor
	want error // nil: it is accepted, and read back equal
}

// contents returns every kind of argument of Add, apart from names.
func (x Target) contents() (all []content) {
	add := func(kind string, want error, t *tensor.Tensor) {
		if t != nil {
			t.Name = kind
		}
		all = append(all, content{kind, t, want})
	}
	if slices.Contains(x.Refuses, "") {
		panic("an empty kind")
	}
	holds := func(kind string) error {
		if slices.Contains(x.Refuses, kind) {
			return errors.ErrUnsupported
		}
		return nil
	}
	mayHold := func(kind string) error {
		if slices.Contains(x.Accepts, kind) {
			return nil
		}
		return errors.ErrUnsupported
	}
	add("a nil tensor", fs.ErrInvalid, nil)
	short := x.plain("")
	short.Data, _ = short.Data.Section(0, 20)
	add("fewer bytes than the shape says", tensor.ErrMalformed, short)
	negative := x.plain("")
	negative.Shape = tensor.Shape{-2, 3}
	add("a negative dimension", tensor.ErrMalformed, negative)
	twice := x.plain("")
	twice.Order = tensor.Order{0, 0}
	add("an order that is no permutation", tensor.ErrMalformed, twice)

	for _, d := range append(tensor.DTypes(), tensor.Unknown) {
		var want error
		if !slices.Contains(x.DTypes, d) {
			want = errors.ErrUnsupported
		}
		add("dtype "+d.String(), want, x.sample("", d, tensor.Shape{2, 3, 4}))
	}
	for _, o := range []tensor.Order{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1},
		{2, 1, 0}} {
		t := x.sample("", tensor.F32, tensor.Shape{2, 3, 4})
		t.Order = o
		var want error
		if !x.Orders(o, 3) {
			want = errors.ErrUnsupported
		}
		add(fmt.Sprintf("order %v", []int(o)), want, t)
	}
	for _, rank := range []int{1, 4, 5, 8, 9, 32, 33, 64, 65, 254, 255, 256, 257} {
		shape := make(tensor.Shape, rank)
		for i := range shape {
			shape[i] = 1
		}
		shape[rank-1] = 2
		var want error
		if rank > 255 || rank > x.MaxRank && x.MaxRank > 0 { // of tensor.Limits
			want = errors.ErrUnsupported
		}
		add(fmt.Sprintf("rank %d", rank), want, x.sample("", tensor.F32, shape))
	}
	add(Scalar, holds(Scalar), x.sample("", tensor.F32, nil))
	add(ZeroDim, holds(ZeroDim), x.sample("", tensor.F32, tensor.Shape{2, 0, 3}))
	add(HugeDim, holds(HugeDim), x.sample("", tensor.F32, tensor.Shape{1 << 32, 0}))

	csr := &tensor.Tensor{DType: tensor.F32, Shape: tensor.Shape{2, 3}, Scheme: "sparse_csr",
		Parts: []tensor.Part{
			{Role: "values", DType: tensor.F32, Data: tensor.BlobOf(make([]byte, 4))},
			{Role: "indices", DType: tensor.U64, Data: tensor.BlobOf(make([]byte, 8))},
			{Role: "indptr", DType: tensor.U64, Data: tensor.BlobOf(
				append(make([]byte, 16), 1, 0, 0, 0, 0, 0, 0, 0))},
		}}
	add(Sparse, mayHold(Sparse), csr)
	blocks := tensor.BlobOf(make([]byte, 68))
	add(Blocks, mayHold(Blocks), &tensor.Tensor{Shape: tensor.Shape{2, 32}, Scheme: "Q8_0",
		Parts: []tensor.Part{{Role: "blocks", Data: blocks}}})
	add(BlocksOf, mayHold(BlocksOf), &tensor.Tensor{Shape: tensor.Shape{2, 32},
		Scheme: "gguf.Q8_0/1",
		Parts:  []tensor.Part{{Role: "data", DType: tensor.U8, Data: blocks}}})
	extra := x.plain("")
	extra.Parts = []tensor.Part{{Role: "further", DType: tensor.F32,
		Data: tensor.BlobOf([]byte{1, 2, 3, 4})}}
	add(Extras, mayHold(Extras), extra)
	external := x.plain("")
	external.External, external.Data = true, tensor.Blob{}
	add(External, errors.ErrUnsupported, external)
	unknown := x.plain("")
	unknown.Data = tensor.BlobFunc(-1, func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(make([]byte, 24))), nil
	})
	add(UnknownSize, mayHold(UnknownSize), unknown)
	return all
}

// names returns the tensors that are read back or refused because of their names.
func (x Target) names() (all []content) {
	for _, n := range badNames {
		var want error
		if slices.Contains(x.Refuses, n.kind) || len(n.name) > 1<<20 { // of tensor.Limits
			want = errors.ErrUnsupported
		}
		if x.One { // the name is lost
			want = nil
		}
		all = append(all, content{n.kind, x.plain(n.name), want})
	}
	return all
}

func short(name string) string { return fmt.Sprintf("%.40q", name) }
