package pte

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

func TestOffsetsAndLengthsThatWrapAreRefused(t *testing.T) {
	// Nothing at the very end is allowed, one byte is not.
	at := craft(t, base(t, "lean"),
		func(c crafted) { c.segments = append(c.segments, dataSegment{}) })
	root := ptefb.GetRootAsProgram(at, 0)
	var last ptefb.DataSegment
	root.Segments(&last, root.SegmentsLength()-1)
	if err := look(at); err != nil {
		t.Errorf("an empty segment at the end: %v", err)
	}
	if pos := fb.FieldPos(last.Table(), ptefb.SlotDataSegmentSize); pos != 0 {
		if err := look(put64(at, pos, 1)); err == nil {
			t.Error("a byte beyond the end")
		}
	}
}

func TestProductsThatOverflowAreRefused(t *testing.T) {
	for _, sizes := range [][]int32{{1 << 16, 1 << 16, 1 << 16, 1 << 16},
		{4194305, 1<<31 - 1, 98305}, {1<<31 - 1, 1<<31 - 1, 4}} {
		b := craft(t, base(t, "lean"), func(c crafted) {
			setI32s(c.of(1), ptefb.SlotTensorSizes, sizes...)
			c.of(1).SetBytes(ptefb.SlotTensorDimOrder, []byte{0, 1, 2, 3}[:len(sizes)], 1)
		})
		if err := look(b); !errors.Is(err, tensor.ErrMalformed) {
			t.Errorf("%v: %v", sizes, err)
		}
		r, err := OpenBytes(b, nil)
		if err != nil {
			t.Fatal(err)
		}
		x := entryOf(r, "forward/1")
		if n := readtest.Allocated(func() {
			x.Data.ReadAll()
			tensor.Load[float32](x.Tensor)
		}); n > 1<<20 {
			t.Errorf("%v: reading it takes %d bytes", sizes, n)
		}
	}
}

func TestRanksAbove16AreRefused(t *testing.T) {
	for _, rank := range []int{0, 16, 17, 65, 1_000_000} {
		b := craft(t, base(t, "lean"), func(c crafted) {
			n := c.of(15) // one element of int64, whatever the rank
			dims := make([]byte, rank)
			for i := range dims {
				dims[i] = byte(i)
			}
			setI32s(n, ptefb.SlotTensorSizes, bytesOfOnes(rank)...)
			n.SetBytes(ptefb.SlotTensorDimOrder, dims, 1)
		})
		err := look(b)
		if good := rank <= 16; good != (err == nil) {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
	b := craft(t, base(t, "lean"), func(c crafted) { setI32s(c.of(15), ptefb.SlotTensorSizes, 0) })
	if err := look(b); err != nil {
		t.Errorf("a dimension of 0: %v", err)
	}
}

func bytesOfOnes(n int) []int32 {
	v := make([]int32, n)
	for i := range v {
		v[i] = 1
	}
	return v
}

func TestAmplificationIsALimit(t *testing.T) {
	for _, n := range []int{1000, 2000, readtest.Entries(100_000)} {
		b := amplified(n)
		var err error
		allocated := readtest.Allocated(func() { err = look(b) })
		if !errors.Is(err, tensor.ErrLimit) {
			t.Errorf("%d×%d tables in %d bytes: %v", n, n, len(b), err)
		}
		if allocated > 1<<20+2*int64(len(b)) {
			t.Errorf("%d bytes take %d bytes of memory", len(b), allocated)
		}
	}
	// A long name that every tensor carries, and a long list that every input is.
	b := craft(t, base(t, "lean"), func(c crafted) {
		c.plan().SetString(ptefb.SlotExecutionPlanName, strings.Repeat("n", 1<<19))
		many := make([]*fb.Node, 20_000)
		for i := range many {
			many[i] = c.value(1)
		}
		c.plan().SetChildren(ptefb.SlotExecutionPlanValues, many)
	})
	if r, err := OpenBytes(b, nil); !errors.Is(err, tensor.ErrLimit) {
		t.Errorf("%v, %v", r, err)
	}
	b = craft(t, base(t, "lean"), func(c crafted) {
		setI32s(c.of(6), ptefb.SlotTensorListItems, make([]int32, 50_000)...)
		list := make([]int32, 50_000)
		for i := range list {
			list[i] = 6
		}
		setI32s(c.plan(), ptefb.SlotExecutionPlanInputs, list...)
		setI32s(c.plan(), ptefb.SlotExecutionPlanOutputs, list...)
		setI32s(c.call(0), ptefb.SlotKernelCallArgs, list...)
	})
	r, err := OpenBytes(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	if shown := walkAll(t, r); shown > shownLimit(b) {
		t.Errorf("a list that is named often: %d bytes show %d", len(b), shown)
	}
}

func TestUnionsOfAnotherMemberAreReadOrRefused(t *testing.T) {
	for i := range 16 { // every value as every other member, and as one without content
		for tag := range uint64(14) {
			for _, isEmpty := range []bool{false, true} {
				b := craft(t, base(t, "rich"), func(c crafted) {
					c.value(i).SetScalar(ptefb.SlotEValueValType, 1, tag)
					if isEmpty {
						c.value(i).Remove(ptefb.SlotEValueVal)
					}
				})
				readtest.Survives(t, func() error {
					r, err := OpenBytes(b, nil)
					if err == nil {
						walkAll(t, r)
					}
					return err
				}, "value %d as %d, without content: %v", i, tag, isEmpty)
			}
		}
	}
}

func TestManyEmptySegmentsTakeLittleMemory(t *testing.T) {
	b := craft(t, base(t, "lean"), func(c crafted) { // segments of nothing
		c.segments = append(c.segments, make([]dataSegment, 200_000)...)
	})
	var r *Reader
	var err error
	if n := readtest.PeakHeap(func() { r, err = OpenBytes(b, nil) }); n > 1<<20+4*int64(len(b)) {
		t.Errorf("opening %d bytes takes %d bytes of memory", len(b), n)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

func TestLengthOfTheExtendedHeaderIsChecked(t *testing.T) {
	lean := base(t, "lean")
	root := binary.LittleEndian.Uint32(lean)
	for _, n := range []uint32{0, 8, 23, 24, 31, 32, 40, 1 << 31} {
		b := put32(bytes.Clone(lean), 12, n)
		err := look(b)
		if good := n >= 24 && 8+n <= root; good != (err == nil) {
			t.Errorf("a header of %d bytes: %v", n, err)
		}
	}
}

// 10⁵ tensors, more tables than the runtime's verifier visits at 10⁶ warn.
func TestManyTensorsAreBuiltAndVerified(t *testing.T) {
	n := readtest.Entries(100_000)
	b := NewBuilder()
	m := b.Method("forward")
	one := tensor.BlobOf([]byte{1, 2, 3, 4})
	for range n {
		m.Constant(&tensor.Tensor{DType: tensor.F32, Shape: tensor.Shape{1}, Data: one})
	}
	m.Return(m.Value(1))
	r := opened(t, b)
	if _, err := r.Verify(t.Context(), nil); err != nil || r.Len() != n || len(r.Warnings()) != 0 {
		t.Errorf("%d tensors, %v, %v", r.Len(), err, r.Warnings())
	}
	if e := entryOf(r, fmt.Sprintf("forward/%d", n-1)); e == nil || e.Buffer != 1 {
		t.Errorf("the last one: %+v", e)
	}
}
