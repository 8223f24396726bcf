package rten

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/rtenfb"
	"github.com/tensorfile/tensorfile/tensor"
)

func TestShapesBeyondTheDataAreRefused(t *testing.T) {
	many := make([]uint32, 300)
	for i := range many {
		many[i] = 1
	}
	for _, c := range []struct {
		name  string
		dims  []uint32
		class error
	}{
		{"the product wraps to 0", []uint32{1 << 31, 1 << 31, 4}, tensor.ErrMalformed},
		{"the bytes wrap", []uint32{1 << 31, 1 << 31}, tensor.ErrMalformed},
		{"4194305² · …", []uint32{4194305, 4194305, 49152, 4294967295}, tensor.ErrMalformed},
		{"2^32-1 three times", []uint32{math.MaxUint32, math.MaxUint32, math.MaxUint32},
			tensor.ErrMalformed},
		{"rank 300", many, tensor.ErrLimit},
		{"more than there is", []uint32{17}, io.ErrUnexpectedEOF},
		{"far more", []uint32{math.MaxUint32}, io.ErrUnexpectedEOF},
	} {
		refuse(t, c.name+", outside",
			made(64, func(b *raw) []fb.Offset {
				return []fb.Offset{b.outside("w", 0, c.dims...)}
			}), c.class)
		if errors.Is(c.class, io.ErrUnexpectedEOF) {
			c.class = tensor.ErrMalformed
		}
		for _, n := range []int{0, 1, 4} {
			refuse(t, fmt.Sprintf("%s, %d inline", c.name, n),
				made(0, func(b *raw) []fb.Offset {
					return []fb.Offset{b.inline("w", n, c.dims...)}
				}), c.class)
		}
	}
	for _, dims := range [][]uint32{{}, {0}, {0, math.MaxUint32, math.MaxUint32, math.MaxUint32},
		{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}} {
		n := 1
		if len(dims) > 0 && dims[0] == 0 {
			n = 0
		}
		for i, file := range [][]byte{
			made(4, func(b *raw) []fb.Offset { return []fb.Offset{b.outside("w", 0, dims...)} }),
			made(0, func(b *raw) []fb.Offset { return []fb.Offset{b.inline("w", n, dims...)} }),
		} {
			r, err := OpenBytes(file, nil)
			if err != nil {
				t.Errorf("%v: %v", dims, err)
				continue
			}
			x := r.Model().Constant(0).Tensor()
			if v, err := tensor.Load[float32](x); err != nil || len(v) != n ||
				len(x.Shape) != len(dims) {
				t.Errorf("%v (%d): %v %v", dims, i, v, err)
			}
		}
	}
	refuse(t, "fewer inline",
		made(0, func(b *raw) []fb.Offset { return []fb.Offset{b.inline("w", 3, 4)} }),
		tensor.ErrMalformed)
	refuse(t, "more inline",
		made(0, func(b *raw) []fb.Offset { return []fb.Offset{b.inline("w", 5, 4)} }),
		tensor.ErrMalformed)
	if _, err := OpenBytes(made(0,
		func(b *raw) []fb.Offset { return []fb.Offset{b.inline("w", 1, many[:65]...)} }),
		&ReaderOptions{Limits: tensor.Limits{MaxRank: 64}}); !errors.Is(err, tensor.ErrLimit) {
		t.Errorf("rank 65 of 64: %v", err)
	}
}

func TestNamesOfAnyBytesAreRead(t *testing.T) {
	names := []string{"", "a\x00b", strings.Repeat("x", 1<<20), "../../x", "\x1b[2J", "e\u0301",
		"\u00e9", "w", "w", "nodes[0].body/w"}
	r := openBytes(t, made(0, func(b *raw) []fb.Offset {
		var list []fb.Offset
		for _, n := range names {
			list = append(list, b.inline(n, 1))
		}
		b.Begin()
		shape := b.ints()
		values := b.Scalars(make([]byte, 4), 4, 4)
		b.Begin()
		b.Ref(rtenfb.SlotFloatDataData, values)
		data := b.End()
		b.Begin()
		b.Ref(rtenfb.SlotConstantNodeShape, shape)
		b.Ref(rtenfb.SlotConstantNodeData, data)
		b.force(rtenfb.SlotConstantNodeDataType, 1, 1)
		c := b.End()
		b.Begin() // without a name
		b.Ref(rtenfb.SlotNodeData, c)
		b.force(rtenfb.SlotNodeDataType, 1, 2)
		return append(list, b.End())
	}))
	i := 0
	for x := range r.Tensors() {
		want := "#10"
		if i < len(names) {
			want = names[i]
		}
		if x.Name != want {
			t.Errorf("name %d is %.20q", i, x.Name)
		}
		if r.Tensor(want) == nil {
			t.Errorf("%.20q is not found", want)
		}
		i++
	}
	n := 0
	for x := range r.Tensors() {
		if x.Name == "w" {
			n++
		}
	}
	if n != 2 {
		t.Errorf("%d tensors are named w", n)
	}
	if f, _ := r.Verify(t.Context(), &tensor.VerifyOptions{Strict: true}); len(f.Findings) != 1 ||
		f.Findings[0].Field != "graph.nodes[8].name" {
		t.Errorf("%v", f)
	}
	refuse(t, "a name of more than 1 MiB",
		made(0, func(b *raw) []fb.Offset {
			return []fb.Offset{b.inline(strings.Repeat("x", 1<<20+1), 1)}
		}), tensor.ErrLimit)
}
