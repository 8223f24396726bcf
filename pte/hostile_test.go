package pte

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/pieces"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// bases are sound programs that hostile ones are made of. All but "rich" are run by the
// runtime.
func base(t testing.TB, name string) []byte {
	t.Helper()
	if strings.HasSuffix(name, "pte") {
		b, err := os.ReadFile("../testdata/pte/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	b := NewBuilder()
	m := b.Method("forward")
	if name == "empty" {
		m.Return(m.Constant(tensor.New("", tensor.Shape{0}, []float32{})))
		var out bytes.Buffer
		if err := b.Write(&out, nil); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	two3 := tensor.Shape{2, 3}
	x := m.Input(tensor.F32, two3)                                            // 0
	w := m.Constant(tensor.New("", two3, []float32{1, 2, 3, 4, 5, 6}))        // 1
	one := m.Int(1)                                                           // 2
	y := m.Tensor(tensor.F32, two3)                                           // 3
	count := m.State(tensor.New("count", tensor.Shape{2}, []float32{10, 20})) // 4
	no := m.Bool(false)                                                       // 5
	m.TensorList(x, w)                                                        // 6
	m.OptionalTensorList(x, Ref{})                                            // 7
	m.IntList(one)                                                            // 8
	m.String("text")                                                          // 9
	m.DoubleList(1.5)                                                         // 10
	m.BoolList(true)                                                          // 11
	m.Null()                                                                  // 12
	m.Double(0.5)                                                             // 13
	flags := m.Constant(tensor.New("", tensor.Shape{2}, []bool{true, true}))  // 14
	m.Constant(tensor.New("", tensor.Shape{3}, []int64{1, 2, 3}))             // 15
	m.Call("aten::add.out", x, w, one, y, y)                                  // 0
	m.Call("aten::mul.out", y, y, y, y)                                       // 1
	m.Move(no, no)                                                            // 2
	end := m.Label()                                                          //
	m.JumpFalse(flags, end)                                                   // 3
	m.Mark(end)                                                               //
	m.Call("aten::copy_", count, count, no, count)                            // 4
	m.Return(y)                                                               //
	b.Metadata("get_vocab_size", 32000)
	b.Named("key", tensor.BlobOf([]byte("named blob")), 1)
	if name == "rich" {
		m.External("outside", tensor.F32, tensor.Shape{3}) // 16
		m.External("outside", tensor.F32, tensor.Shape{3}) // 17
		d := m.Delegate("SomeBackend", tensor.BlobOf([]byte("payload of a delegate")),
			CompileSpec{"key", []byte("value")})
		m.CallDelegate(d, x, y) // 5
		m.Free(y)               // 6
	}
	var out bytes.Buffer
	if err := b.Write(&out, nil); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// A crafted program is a sound one with something changed in its tables.
type crafted struct{ *draft }

func (c crafted) plan() *fb.Node {
	return c.tree.Children(
		ptefb.SlotProgramExecutionPlan)[0]
}
func (c crafted) value(i int) *fb.Node {
	return c.plan().Children(
		ptefb.SlotExecutionPlanValues)[i]
}
func (c crafted) of(i int) *fb.Node { return c.value(i).Child(ptefb.SlotEValueVal) }
func (c crafted) chain() *fb.Node {
	return c.plan().Children(
		ptefb.SlotExecutionPlanChains)[0]
}
func (c crafted) instruction(i int) *fb.Node {
	return c.chain().Children(ptefb.SlotChainInstructions)[i]
}
func (c crafted) call(i int) *fb.Node {
	return c.instruction(i).Child(
		ptefb.SlotInstructionInstrArgs)
}
func (c crafted) delegate() *fb.Node {
	return c.plan().Children(
		ptefb.SlotExecutionPlanDelegates)[0]
}

func i32(vs ...int32) []byte {
	var b []byte
	for _, v := range vs {
		b = binary.LittleEndian.AppendUint32(b, uint32(v))
	}
	return b
}

func i64(vs ...int64) []byte {
	var b []byte
	for _, v := range vs {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	return b
}

func setI32s(n *fb.Node, slot int, vs ...int32) { n.SetVector(slot, i32(vs...), 4) }
func setI64s(n *fb.Node, slot int, vs ...int64) { n.SetVector(slot, i64(vs...), 8) }

func craft(t testing.TB, b []byte, change func(c crafted)) []byte {
	t.Helper()
	r, err := OpenBytes(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	e := NewEdit(r)
	if err := e.open(); err != nil {
		t.Fatal(err)
	}
	if e.over, err = pieces.NewOverlay(r.blob, nil); err != nil {
		t.Fatal(err)
	}
	e.draft.load(r.segmentAlignment())
	change(crafted{e.draft})
	o, err := e.draft.finish(r.segmentAlignment())
	if err != nil {
		t.Fatal(err)
	}
	var w bytes.Buffer
	if err := o.writeTo(t.Context(), &w); err != nil {
		t.Fatal(err)
	}
	return w.Bytes()
}

// A hostile file has how it is made, and what must be reported of it: by Open, or,
// where it opens all the same, by Verify.
type hostile struct {
	name   string
	base   string
	tables func(c crafted)       // changed, or
	bytes  func(b []byte) []byte // of the file
	open   error                 // class of Open's error
	verify error                 // class of Verify's error
	warn   string                // field of a warning, where it is no error
	// runtime is what ExecuTorch 1.5.1 does: "runs", "refuses", "dies" or, if that
	// depends on chance, "any".
	runtime string
}

func put32(b []byte, at int,
	v uint32) []byte {
	binary.LittleEndian.PutUint32(b[at:], v)
	return b
}
func put64(b []byte, at int,
	v uint64) []byte {
	binary.LittleEndian.PutUint64(b[at:], v)
	return b
}

// segmentField changes a number of a segment in the finished file.
func segmentField(i, slot int, v uint64) func([]byte) []byte {
	return func(b []byte) []byte {
		var t ptefb.DataSegment
		ptefb.GetRootAsProgram(b, 0).Segments(&t, i)
		if !has(&t, slot) {
			panic("the field is not stored")
		}
		return put64(b, fb.FieldPosOr(t.Table(), slot), v)
	}
}

// emptyBeyond empties a segment and lets it start where no file reaches.
func emptyBeyond(i int) func([]byte) []byte {
	return func(b []byte) []byte {
		return segmentField(i, ptefb.SlotDataSegmentOffset,
			1<<50)(segmentField(i, ptefb.SlotDataSegmentSize, 0)(b))
	}
}

var hostiles = []hostile{
	{name: "empty", base: "lean", bytes: func(b []byte) []byte { return b[:0] },
		open: io.ErrUnexpectedEOF, runtime: "refuses"},
	{name: "seven bytes", base: "lean", bytes: func(b []byte) []byte { return b[:7] },
		open: io.ErrUnexpectedEOF, runtime: "refuses"},
	{name: "another format", base: "lean",
		bytes: func(b []byte) []byte { copy(b[4:], "FT01"); return b }, open: tensor.ErrMalformed,
		runtime: "refuses"},
	{name: "ET13", base: "lean", bytes: func(b []byte) []byte { copy(b[4:], "ET13"); return b },
		open: errors.ErrUnsupported, runtime: "refuses"},
	{name: "ETxx", base: "lean", bytes: func(b []byte) []byte { copy(b[4:], "ETxx"); return b },
		open: errors.ErrUnsupported, runtime: "refuses"},
	{name: "eh01", base: "lean", bytes: func(b []byte) []byte { copy(b[8:], "eh01"); return b },
		open: errors.ErrUnsupported, runtime: "any"},
	{name: "eh99", base: "lean", bytes: func(b []byte) []byte { copy(b[8:], "eh99"); return b },
		open: errors.ErrUnsupported, runtime: "any"},
	{name: "EH00", base: "lean", bytes: func(b []byte) []byte { copy(b[8:], "EH00"); return b },
		open: tensor.ErrMalformed, runtime: "any"},
	{name: "header length 0", base: "lean",
		bytes: func(b []byte) []byte { return put32(b, 12, 0) }, open: tensor.ErrMalformed,
		runtime: "refuses"},
	{name: "header length 23", base: "lean",
		bytes: func(b []byte) []byte { return put32(b, 12, 23) }, open: tensor.ErrMalformed,
		runtime: "refuses"},
	{name: "header length 2^32-1", base: "lean",
		bytes: func(b []byte) []byte { return put32(b, 12, math.MaxUint32) },
		open:  tensor.ErrMalformed, runtime: "runs"},
	{name: "header over the root table", base: "lean",
		bytes: func(b []byte) []byte { return put32(b, 12, binary.LittleEndian.Uint32(b)) },
		open:  tensor.ErrMalformed, runtime: "runs"},
	{name: "program size 7", base: "lean", bytes: func(b []byte) []byte { return put64(b, 16, 7) },
		open: tensor.ErrMalformed, runtime: "refuses"},
	{name: "program size beyond the file", base: "lean",
		bytes: func(b []byte) []byte { return put64(b, 16, uint64(len(b))+1) },
		open:  io.ErrUnexpectedEOF, runtime: "refuses"},
	{name: "program size 2^31", base: "lean",
		bytes: func(b []byte) []byte { return put64(b, 16, 1<<31) }, open: tensor.ErrMalformed,
		runtime: "refuses"},
	{name: "program size 2^63", base: "lean",
		bytes: func(b []byte) []byte { return put64(b, 16, 1<<63) }, open: tensor.ErrMalformed,
		runtime: "refuses"},
	{name: "program size 2^64-1", base: "lean",
		bytes: func(b []byte) []byte { return put64(b, 16, math.MaxUint64) },
		open:  tensor.ErrMalformed, runtime: "refuses"},
	{name: "program size cuts the flatbuffer", base: "lean",
		bytes: func(b []byte) []byte { return put64(b, 16, binary.LittleEndian.Uint64(b[16:])/2) },
		open:  tensor.ErrMalformed, runtime: "refuses"},
	{name: "base inside the program", base: "lean",
		bytes: func(b []byte) []byte { return put64(b, 24, binary.LittleEndian.Uint64(b[16:])-1) },
		open:  tensor.ErrMalformed, runtime: "any"},
	{name: "base 1", base: "lean", bytes: func(b []byte) []byte { return put64(b, 24, 1) },
		open: tensor.ErrMalformed, runtime: "any"},
	{name: "base beyond the file", base: "lean",
		bytes: func(b []byte) []byte { return put64(put64(b, 32, 0), 24, uint64(len(b))+1) },
		open:  tensor.ErrMalformed, runtime: "refuses"},
	{name: "base and size wrap", base: "lean",
		bytes: func(b []byte) []byte { return put64(b, 32, math.MaxUint64-100) },
		open:  tensor.ErrMalformed, runtime: "refuses"},
	{name: "base wraps", base: "lean",
		bytes: func(b []byte) []byte { return put64(b, 24, math.MaxUint64-7) },
		open:  tensor.ErrMalformed, runtime: "refuses"},
	{name: "one byte short", base: "lean", bytes: func(b []byte) []byte { return b[:len(b)-1] },
		open: io.ErrUnexpectedEOF, runtime: "refuses"},
	{name: "one byte short behind an old header", base: "generation-0.7.0-conv.pte",
		bytes: func(b []byte) []byte { return b[:len(b)-1] }, open: io.ErrUnexpectedEOF,
		runtime: "refuses"},
	{name: "base 0 with data", base: "lean",
		bytes: func(b []byte) []byte { return put64(put64(b, 24, 0), 32, 0) },
		open:  tensor.ErrMalformed, runtime: "any"},
	{name: "segment offset wraps", base: "lean",
		bytes: segmentField(1, ptefb.SlotDataSegmentOffset, math.MaxUint64-7),
		open:  tensor.ErrMalformed, runtime: "any"},
	{name: "segment size wraps", base: "lean",
		bytes: segmentField(0, ptefb.SlotDataSegmentSize, math.MaxUint64-7),
		open:  tensor.ErrMalformed, runtime: "refuses"},
	{name: "segment offset 2^63", base: "lean",
		bytes: segmentField(1, ptefb.SlotDataSegmentOffset, 1<<63), open: tensor.ErrMalformed,
		runtime: "any"},
	{name: "segment beyond the file", base: "lean",
		bytes: segmentField(2, ptefb.SlotDataSegmentSize, 1<<20), open: tensor.ErrMalformed,
		runtime: "runs"},
	// until it is asked for
	{name: "named data in an empty segment beyond the file", base: "lean", bytes: emptyBeyond(2),
		verify: tensor.ErrMalformed, runtime: "runs"},
	{name: "a delegate's payload in an empty segment beyond the file", base: "rich",
		bytes: emptyBeyond(2), verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "segment beyond the header's size", base: "lean", bytes: func(b []byte) []byte {
		return append(segmentField(2, ptefb.SlotDataSegmentSize, 20)(b), "0123456789abcdef"...)
	}, warn: "segments[2]", runtime: "runs"},
	{name: "segments overlap", base: "lean",
		bytes: segmentField(2, ptefb.SlotDataSegmentOffset, 8), warn: "segments[2]",
		runtime: "runs"},
	{name: "root 0", base: "lean", bytes: func(b []byte) []byte { return put32(b, 0, 0) },
		open: tensor.ErrMalformed, runtime: "refuses"},
	{name: "root 4 of a headerless file", base: "export-1.5.1-no-weights.pte",
		bytes: func(b []byte) []byte { return put32(b, 0, 4) }, open: tensor.ErrMalformed,
		runtime: "refuses"},
	{name: "root misaligned", base: "lean",
		bytes: func(b []byte) []byte { return put32(b, 0, binary.LittleEndian.Uint32(b)+1) },
		open:  tensor.ErrMalformed, runtime: "refuses"},
	{name: "root 2^31", base: "lean", bytes: func(b []byte) []byte { return put32(b, 0, 1<<31) },
		open: tensor.ErrMalformed, runtime: "refuses"},
	{name: "root at the end", base: "lean",
		bytes: func(b []byte) []byte {
			return put32(b, 0, uint32(binary.LittleEndian.Uint64(b[16:]))-3)
		}, open: tensor.ErrMalformed, runtime: "refuses"},
	{name: "vtable far before", base: "lean",
		bytes: func(b []byte) []byte {
			return put32(b, int(binary.LittleEndian.Uint32(b)), 1<<30)
		}, open: tensor.ErrMalformed, runtime: "refuses"},
	{name: "vtable is the table", base: "lean",
		bytes: func(b []byte) []byte { return put32(b, int(binary.LittleEndian.Uint32(b)), 0) },
		open:  tensor.ErrMalformed, runtime: "any"},
	{name: "no execution_plan", base: "lean",
		tables: func(c crafted) { c.tree.Remove(ptefb.SlotProgramExecutionPlan) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "no name", base: "lean",
		tables: func(c crafted) { c.plan().Remove(ptefb.SlotExecutionPlanName) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "no values", base: "lean",
		tables: func(c crafted) { c.plan().Remove(ptefb.SlotExecutionPlanValues) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "no inputs", base: "lean",
		tables: func(c crafted) { c.plan().Remove(ptefb.SlotExecutionPlanInputs) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "no outputs", base: "lean",
		tables: func(c crafted) { c.plan().Remove(ptefb.SlotExecutionPlanOutputs) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "no delegates", base: "lean",
		tables: func(c crafted) { c.plan().Remove(ptefb.SlotExecutionPlanDelegates) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "no non_const_buffer_sizes", base: "lean",
		tables: func(c crafted) { c.plan().Remove(ptefb.SlotExecutionPlanNonConstBufferSizes) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "no chains", base: "lean",
		tables: func(c crafted) { c.plan().Remove(ptefb.SlotExecutionPlanChains) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "empty chains", base: "lean",
		tables: func(c crafted) { c.plan().SetChildren(ptefb.SlotExecutionPlanChains, nil) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "no container_meta_type", base: "lean",
		tables:  func(c crafted) { c.plan().Remove(ptefb.SlotExecutionPlanContainerMetaType) },
		runtime: "runs"},
	{name: "duplicate method names", base: "lean", tables: func(c crafted) {
		c.tree.SetChildren(ptefb.SlotProgramExecutionPlan,
			append(c.tree.Children(ptefb.SlotProgramExecutionPlan), c.plan()))
	}, warn: "execution_plan[2].name", runtime: "runs"},
	{name: "value NONE", base: "lean",
		tables: func(c crafted) {
			c.value(9).Remove(ptefb.SlotEValueValType)
			c.value(9).Remove(ptefb.SlotEValueVal)
		}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "null without a table", base: "lean",
		tables: func(c crafted) { c.value(12).Remove(ptefb.SlotEValueVal) }, runtime: "runs"},
	{name: "unknown value", base: "lean",
		tables: func(c crafted) { c.value(9).SetScalar(ptefb.SlotEValueValType, 1, 12) },
		verify: errors.ErrUnsupported, runtime: "refuses"},
	{name: "unknown instruction", base: "lean",
		tables: func(c crafted) {
			c.instruction(2).SetScalar(ptefb.SlotInstructionInstrArgsType, 1, 6)
		}, verify: errors.ErrUnsupported, runtime: "refuses"},
	{name: "no instruction", base: "lean", tables: func(c crafted) {
		c.instruction(2).Remove(ptefb.SlotInstructionInstrArgsType)
		c.instruction(2).Remove(ptefb.SlotInstructionInstrArgs)
	}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "no sizes", base: "lean",
		tables: func(c crafted) { c.of(1).Remove(ptefb.SlotTensorSizes) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "no dim_order", base: "lean",
		tables: func(c crafted) { c.of(1).Remove(ptefb.SlotTensorDimOrder) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "dim_order too short", base: "lean",
		tables: func(c crafted) { c.of(1).SetBytes(ptefb.SlotTensorDimOrder, []byte{0}, 1) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "rank 17", base: "lean", tables: func(c crafted) {
		setI32s(c.of(1), ptefb.SlotTensorSizes, slices.Repeat([]int32{1}, 17)...)
		c.of(1).SetBytes(ptefb.SlotTensorDimOrder,
			[]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, 1)
	}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "rank 256", base: "lean",
		tables: func(c crafted) {
			setI32s(c.of(1), ptefb.SlotTensorSizes, slices.Repeat([]int32{1}, 256)...)
		}, open: tensor.ErrLimit, runtime: "refuses"},
	{name: "dim_order twice", base: "lean",
		tables: func(c crafted) { c.of(1).SetBytes(ptefb.SlotTensorDimOrder, []byte{1, 1}, 1) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "dim_order out of range", base: "lean",
		tables: func(c crafted) { c.of(1).SetBytes(ptefb.SlotTensorDimOrder, []byte{0, 200}, 1) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "negative size", base: "lean",
		tables: func(c crafted) { setI32s(c.of(1), ptefb.SlotTensorSizes, 2, -3) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "product overflows", base: "lean", tables: func(c crafted) {
		setI32s(c.of(1), ptefb.SlotTensorSizes, math.MaxInt32, math.MaxInt32, math.MaxInt32)
		c.of(1).SetBytes(ptefb.SlotTensorDimOrder, []byte{0, 1, 2}, 1)
	}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "bytes overflow", base: "lean", tables: func(c crafted) {
		setI32s(c.of(1), ptefb.SlotTensorSizes, math.MaxInt32, 1<<30, 2)
		c.of(1).SetBytes(ptefb.SlotTensorDimOrder, []byte{0, 1, 2}, 1)
	}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "overflow before a zero", base: "lean", tables: func(c crafted) {
		setI32s(c.of(1), ptefb.SlotTensorSizes, math.MaxInt32, math.MaxInt32, math.MaxInt32, 0)
		c.of(1).SetBytes(ptefb.SlotTensorDimOrder, []byte{0, 1, 2, 3}, 1)
	}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "overflow of a dynamic input", base: "lean", tables: func(c crafted) {
		setI32s(c.of(0), ptefb.SlotTensorSizes, math.MaxInt32, math.MaxInt32, math.MaxInt32)
		c.of(0).SetBytes(ptefb.SlotTensorDimOrder, []byte{0, 1, 2}, 1)
		c.of(0).SetScalar(ptefb.SlotTensorShapeDynamism, 1, 1)
	}, verify: tensor.ErrMalformed, runtime: "any"},
	{name: "scalar type -1", base: "lean",
		tables: func(c crafted) { c.of(1).SetScalar(ptefb.SlotTensorScalarType, 1, 255) },
		verify: errors.ErrUnsupported, runtime: "refuses"},
	{name: "scalar type 30", base: "lean",
		tables: func(c crafted) { c.of(1).SetScalar(ptefb.SlotTensorScalarType, 1, 30) },
		verify: errors.ErrUnsupported, runtime: "refuses"},
	{name: "scalar type 31", base: "lean",
		tables: func(c crafted) { c.of(1).SetScalar(ptefb.SlotTensorScalarType, 1, 31) },
		verify: errors.ErrUnsupported, runtime: "refuses"},
	{name: "scalar type 127", base: "lean",
		tables: func(c crafted) { c.of(1).SetScalar(ptefb.SlotTensorScalarType, 1, 127) },
		verify: errors.ErrUnsupported, runtime: "refuses"},
	{name: "storage_offset", base: "lean",
		tables: func(c crafted) { c.of(1).SetScalar(ptefb.SlotTensorStorageOffset, 4, 1) },
		verify: errors.ErrUnsupported, runtime: "refuses"},
	{name: "unbound", base: "lean",
		tables: func(c crafted) { c.of(3).SetScalar(ptefb.SlotTensorShapeDynamism, 1, 2) },
		verify: errors.ErrUnsupported, runtime: "refuses"},
	{name: "constant index out of range", base: "lean",
		tables: func(c crafted) { c.of(1).SetScalar(ptefb.SlotTensorDataBufferIdx, 4, 99) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "constant index 2^32-1", base: "lean",
		tables: func(c crafted) {
			c.of(1).SetScalar(ptefb.SlotTensorDataBufferIdx, 4, math.MaxUint32)
		}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "constant offset beyond its segment", base: "lean", tables: func(c crafted) {
		c.tree.Child(ptefb.SlotProgramConstantSegment).SetVector(
			ptefb.SlotSubsegmentOffsetsOffsets, vector([]uint64{0, 1 << 20, 32, 48}), 8)
	}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "constant ends beyond its segment", base: "lean",
		tables: func(c crafted) { setI32s(c.of(1), ptefb.SlotTensorSizes, 2, 30) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "constant offset 2^63", base: "lean", tables: func(c crafted) {
		c.tree.Child(ptefb.SlotProgramConstantSegment).SetVector(
			ptefb.SlotSubsegmentOffsetsOffsets, vector([]uint64{0, 1 << 63, 32, 48}), 8)
	}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "constant offset 2^64-8", base: "lean", tables: func(c crafted) {
		c.tree.Child(ptefb.SlotProgramConstantSegment).SetVector(
			ptefb.SlotSubsegmentOffsetsOffsets, vector([]uint64{0, math.MaxUint64 - 7, 32, 48}), 8)
	}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "constant misaligned", base: "lean", tables: func(c crafted) {
		c.tree.Child(ptefb.SlotProgramConstantSegment).SetVector(
			ptefb.SlotSubsegmentOffsetsOffsets, vector([]uint64{0, 1, 32, 48}), 8)
	}, warn: "execution_plan[0].values[1].val.data_buffer_idx", runtime: "runs"},
	{name: "both stores of constants", base: "lean", tables: func(c crafted) {
		n := new(fb.Node)
		n.SetBytes(ptefb.SlotBufferStorage, make([]byte, 24), 16)
		c.tree.SetChildren(ptefb.SlotProgramConstantBuffer, []*fb.Node{n})
	}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "constant segment out of range", base: "lean", tables: func(c crafted) {
		c.tree.Child(ptefb.SlotProgramConstantSegment).SetScalar(
			ptefb.SlotSubsegmentOffsetsSegmentIndex, 4, 9)
	}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "inline storage absent", base: "generation-0.2.1-inline-constants.pte",
		tables: func(c crafted) {
			c.tree.Children(ptefb.SlotProgramConstantBuffer)[1].Remove(ptefb.SlotBufferStorage)
		}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "inline storage too short", base: "generation-0.2.1-inline-constants.pte",
		tables: func(c crafted) {
			c.tree.Children(ptefb.SlotProgramConstantBuffer)[1].SetBytes(ptefb.SlotBufferStorage,
				make([]byte, 23), 16)
		}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "no initial values", base: "lean",
		tables: func(c crafted) { c.tree.Remove(ptefb.SlotProgramMutableDataSegments) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "an empty list of initial values", base: "lean",
		tables: func(c crafted) {
			c.tree.SetChildren(ptefb.SlotProgramMutableDataSegments, []*fb.Node{})
		}, verify: tensor.ErrMalformed, runtime: "any"},
	{name: "initial value out of range", base: "lean",
		tables: func(c crafted) { c.of(4).SetScalar(ptefb.SlotTensorDataBufferIdx, 4, 2) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "initial values in no segment", base: "lean", tables: func(c crafted) {
		c.tree.Children(ptefb.SlotProgramMutableDataSegments)[0].SetScalar(
			ptefb.SlotSubsegmentOffsetsSegmentIndex, 4, 77)
	}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "initial value past the end", base: "lean", tables: func(c crafted) {
		c.tree.Children(ptefb.SlotProgramMutableDataSegments)[0].SetVector(
			ptefb.SlotSubsegmentOffsetsOffsets, vector([]uint64{0, 4}), 8)
	}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "no offsets of initial values", base: "lean", tables: func(c crafted) {
		c.tree.Children(ptefb.SlotProgramMutableDataSegments)[0].Remove(
			ptefb.SlotSubsegmentOffsetsOffsets)
	}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "memory 0", base: "lean", tables: func(c crafted) {
		c.of(3).Child(ptefb.SlotTensorAllocationInfo).SetScalar(
			ptefb.SlotAllocationDetailsMemoryId, 4, 0)
	}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "memory out of range", base: "lean", tables: func(c crafted) {
		c.of(3).Child(ptefb.SlotTensorAllocationInfo).SetScalar(
			ptefb.SlotAllocationDetailsMemoryId, 4, 2)
	}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "planned past its buffer", base: "lean", tables: func(c crafted) {
		c.of(3).Child(ptefb.SlotTensorAllocationInfo).SetScalar(
			ptefb.SlotAllocationDetailsMemoryOffsetLow, 4, 60)
	}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "high word", base: "lean", tables: func(c crafted) {
		c.of(3).Child(ptefb.SlotTensorAllocationInfo).SetScalar(
			ptefb.SlotAllocationDetailsMemoryOffsetHigh, 4, 1)
	}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "buffer of negative size", base: "lean",
		tables: func(c crafted) {
			setI64s(c.plan(), ptefb.SlotExecutionPlanNonConstBufferSizes, 0, -1)
		}, verify: tensor.ErrMalformed, runtime: "any"},
	{name: "buffer of 2^62", base: "lean",
		tables: func(c crafted) {
			setI64s(c.plan(), ptefb.SlotExecutionPlanNonConstBufferSizes, 0, 1<<62)
		}, verify: tensor.ErrMalformed, runtime: "any"},
	{name: "list index out of range", base: "lean",
		tables: func(c crafted) { setI32s(c.of(6), ptefb.SlotTensorListItems, 0, 99) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "list index negative", base: "lean",
		tables: func(c crafted) { setI32s(c.of(6), ptefb.SlotTensorListItems, 0, -1) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "optional list index -2", base: "lean",
		tables: func(c crafted) { setI32s(c.of(7), ptefb.SlotOptionalTensorListItems, 0, -2) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "list refers forward", base: "lean",
		tables: func(c crafted) { setI32s(c.of(6), ptefb.SlotTensorListItems, 0, 15) },
		verify: tensor.ErrMalformed, runtime: "any"},
	{name: "list of itself", base: "lean",
		tables: func(c crafted) { setI32s(c.of(6), ptefb.SlotTensorListItems, 6) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "list of a number", base: "lean",
		tables: func(c crafted) { setI32s(c.of(6), ptefb.SlotTensorListItems, 2) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "number list out of range", base: "lean",
		tables: func(c crafted) { setI64s(c.of(8), ptefb.SlotIntListItems, 99) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "number list of 2^63", base: "lean",
		tables: func(c crafted) { setI64s(c.of(8), ptefb.SlotIntListItems, math.MinInt64) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "number list of a tensor", base: "lean",
		tables: func(c crafted) { setI64s(c.of(8), ptefb.SlotIntListItems, 0) },
		verify: tensor.ErrMalformed, runtime: "runs"},
	{name: "list without items", base: "lean",
		tables: func(c crafted) { c.of(10).Remove(ptefb.SlotDoubleListItems) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "string without text", base: "lean",
		tables: func(c crafted) { c.of(9).Remove(ptefb.SlotStringStringVal) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "input out of range", base: "lean",
		tables: func(c crafted) { setI32s(c.plan(), ptefb.SlotExecutionPlanInputs, 99) },
		verify: tensor.ErrMalformed, runtime: "any"},
	{name: "output -1", base: "lean",
		tables: func(c crafted) { setI32s(c.plan(), ptefb.SlotExecutionPlanOutputs, -1) },
		verify: tensor.ErrMalformed, runtime: "any"},
	{name: "operator out of range", base: "lean",
		tables: func(c crafted) { c.call(0).SetScalar(ptefb.SlotKernelCallOpIndex, 4, 99) },
		verify: tensor.ErrMalformed, runtime: "any"},
	{name: "operator -1", base: "lean",
		tables: func(c crafted) {
			c.call(0).SetScalar(ptefb.SlotKernelCallOpIndex, 4, math.MaxUint32)
		}, verify: tensor.ErrMalformed, runtime: "any"},
	{name: "argument out of range", base: "lean",
		tables: func(c crafted) { setI32s(c.call(0), ptefb.SlotKernelCallArgs, 0, 1, 2, 3, 99) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "argument -1", base: "lean",
		tables: func(c crafted) { setI32s(c.call(0), ptefb.SlotKernelCallArgs, -1, 1, 2, 3, 3) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "no arguments", base: "lean",
		tables: func(c crafted) { c.call(0).Remove(ptefb.SlotKernelCallArgs) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "move out of range", base: "lean",
		tables: func(c crafted) { c.call(2).SetScalar(ptefb.SlotMoveCallMoveFrom, 4, 99) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "delegate out of range", base: "export-1.5.1-xnnpack.pte",
		tables: func(c crafted) { c.call(0).SetScalar(ptefb.SlotKernelCallOpIndex, 4, 9) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "jump back before the start", base: "lean",
		tables: func(c crafted) {
			c.call(3).SetScalar(ptefb.SlotJumpFalseCallDestinationInstruction, 4, math.MaxUint32)
		}, verify: tensor.ErrMalformed, runtime: "any"},
	{name: "jump beyond the end", base: "lean",
		tables: func(c crafted) {
			c.call(3).SetScalar(ptefb.SlotJumpFalseCallDestinationInstruction, 4, 6)
		}, verify: tensor.ErrMalformed, runtime: "any"},
	{name: "jump on a number", base: "lean",
		tables: func(c crafted) {
			c.call(3).SetScalar(ptefb.SlotJumpFalseCallCondValueIndex, 4, 2)
		}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "jump on a float tensor", base: "lean",
		tables: func(c crafted) {
			c.call(3).SetScalar(ptefb.SlotJumpFalseCallCondValueIndex, 4, 3)
		}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "loop without exit", base: "rich", tables: func(c crafted) {
		c.call(3).SetScalar(ptefb.SlotJumpFalseCallCondValueIndex, 4, 5)
		c.call(3).SetScalar(ptefb.SlotJumpFalseCallDestinationInstruction, 4, 3)
		c.chain().SetChildren(ptefb.SlotChainInstructions,
			[]*fb.Node{c.instruction(0), c.instruction(1), c.instruction(1), c.instruction(3)})
	}, warn: "execution_plan[0].chains[0].instructions[3]", runtime: ""},
	{name: "delegate without payload", base: "export-1.5.1-xnnpack.pte",
		tables: func(c crafted) { c.delegate().Remove(ptefb.SlotBackendDelegateProcessed) },
		verify: tensor.ErrMalformed, runtime: "dies"},
	{name: "inline payload that is not there", base: "export-1.5.1-xnnpack.pte",
		tables: func(c crafted) {
			c.delegate().Child(ptefb.SlotBackendDelegateProcessed).SetScalar(
				ptefb.SlotBackendDelegateDataReferenceLocation, 1, 0)
			c.tree.Remove(ptefb.SlotProgramBackendDelegateData)
		}, verify: tensor.ErrMalformed, runtime: "dies"},
	{name: "inline payload without data", base: "export-1.5.1-xnnpack-inline.pte",
		tables: func(c crafted) {
			c.tree.Children(ptefb.SlotProgramBackendDelegateData)[0].Remove(
				ptefb.SlotBackendDelegateInlineDataData)
		}, verify: tensor.ErrMalformed, runtime: "dies"},
	{name: "inline payload out of range", base: "export-1.5.1-xnnpack-inline.pte",
		tables: func(c crafted) {
			c.delegate().Child(ptefb.SlotBackendDelegateProcessed).SetScalar(
				ptefb.SlotBackendDelegateDataReferenceIndex, 4, 5)
		}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "delegate without id", base: "export-1.5.1-xnnpack.pte",
		tables: func(c crafted) { c.delegate().Remove(ptefb.SlotBackendDelegateId) },
		verify: tensor.ErrMalformed, runtime: "any"},
	{name: "compile spec without value", base: "rich", tables: func(c crafted) {
		c.delegate().Children(ptefb.SlotBackendDelegateCompileSpecs)[0].Remove(
			ptefb.SlotCompileSpecValue)
	}, verify: tensor.ErrMalformed, runtime: ""},
	{name: "compile spec without key", base: "rich", tables: func(c crafted) {
		c.delegate().Children(ptefb.SlotBackendDelegateCompileSpecs)[0].Remove(
			ptefb.SlotCompileSpecKey)
	}, warn: "execution_plan[0].delegates[0].compile_specs[0].key", runtime: ""},
	{name: "delegate location 2", base: "export-1.5.1-xnnpack.pte", tables: func(c crafted) {
		c.delegate().Child(ptefb.SlotBackendDelegateProcessed).SetScalar(
			ptefb.SlotBackendDelegateDataReferenceLocation, 1, 2)
	}, verify: errors.ErrUnsupported, runtime: "refuses"},
	{name: "delegate segment out of range", base: "export-1.5.1-xnnpack.pte",
		tables: func(c crafted) {
			c.delegate().Child(ptefb.SlotBackendDelegateProcessed).SetScalar(
				ptefb.SlotBackendDelegateDataReferenceIndex, 4, 99)
		}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "named data out of range", base: "lean", tables: func(c crafted) {
		c.tree.Children(ptefb.SlotProgramNamedData)[0].SetScalar(ptefb.SlotNamedDataSegmentIndex,
			4, 99)
	}, verify: tensor.ErrMalformed, runtime: "runs"},
	{name: "named data without key", base: "lean",
		tables: func(c crafted) {
			c.tree.Children(ptefb.SlotProgramNamedData)[0].Remove(ptefb.SlotNamedDataKey)
		}, verify: tensor.ErrMalformed, runtime: "runs"},
	{name: "duplicate key", base: "lean", tables: func(c crafted) {
		c.tree.SetChildren(ptefb.SlotProgramNamedData,
			append(c.tree.Children(ptefb.SlotProgramNamedData),
				c.tree.Children(ptefb.SlotProgramNamedData)...))
	}, warn: "named_data[1].key", runtime: "runs"},
	{name: "external without name", base: "rich", tables: func(c crafted) {
		c.of(16).Child(ptefb.SlotTensorExtraTensorInfo).Remove(
			ptefb.SlotExtraTensorInfoFullyQualifiedName)
	}, verify: tensor.ErrMalformed, runtime: ""},
	{name: "external with an empty name", base: "rich", tables: func(c crafted) {
		c.of(16).Child(ptefb.SlotTensorExtraTensorInfo).SetString(
			ptefb.SlotExtraTensorInfoFullyQualifiedName, "")
	}, verify: tensor.ErrMalformed, runtime: ""},
	{name: "one key with two layouts", base: "rich",
		tables: func(c crafted) { setI32s(c.of(17), ptefb.SlotTensorSizes, 4) },
		verify: tensor.ErrMalformed, runtime: ""},
	{name: "operator without name", base: "lean",
		tables: func(c crafted) {
			c.plan().Children(ptefb.SlotExecutionPlanOperators)[0].Remove(ptefb.SlotOperatorName)
		}, verify: tensor.ErrMalformed, runtime: "dies"},
	{name: "operator of 100 bytes", base: "lean", tables: func(c crafted) {
		c.plan().Children(ptefb.SlotExecutionPlanOperators)[0].SetString(ptefb.SlotOperatorName,
			strings.Repeat("a", 96))
	}, verify: tensor.ErrMalformed, runtime: "dies"},
	{name: "operator without overload", base: "lean", tables: func(c crafted) {
		c.plan().Children(ptefb.SlotExecutionPlanOperators)[2].Remove(ptefb.SlotOperatorOverload)
	}, warn: "execution_plan[0].operators[2].overload", runtime: "runs"},
	{name: "stack trace of another length", base: "rich", tables: func(c crafted) {
		frame := new(fb.Node).SetString(ptefb.SlotFrameName, "forward")
		list := new(fb.Node).SetChildren(ptefb.SlotFrameListItems, []*fb.Node{frame})
		c.chain().SetChildren(ptefb.SlotChainStacktrace, []*fb.Node{list})
	}, runtime: ""},
	{name: "schema version 1", base: "lean",
		tables: func(c crafted) { c.tree.SetScalar(ptefb.SlotProgramVersion, 4, 1) },
		verify: errors.ErrUnsupported, runtime: "refuses"},
	{name: "empty constants in an empty segment", base: "empty",
		bytes: segmentField(0, ptefb.SlotDataSegmentSize, 0), verify: tensor.ErrMalformed,
		runtime: "refuses"},
	{name: "name with a zero byte", base: "lean",
		tables: func(c crafted) {
			c.plan().SetString(ptefb.SlotExecutionPlanName, "forward\x00x")
		}, warn: "execution_plan[0].name", runtime: "runs"},
	{name: "name that is not UTF-8", base: "rich",
		tables: func(c crafted) { c.plan().SetString(ptefb.SlotExecutionPlanName, "forward\xff") },
		warn:   "execution_plan[0].name", runtime: ""},
}

// fieldOf is the field that an error is of.
func fieldOf(err error) string {
	var fe *tensor.FormatError
	if errors.As(err, &fe) {
		return fe.Field
	}
	return ""
}

func (h hostile) make(t testing.TB) []byte {
	b := base(t, h.base)
	if h.tables != nil {
		b = craft(t, b, h.tables)
	}
	if h.bytes != nil {
		b = h.bytes(b)
	}
	return b
}

// TestHostileFiles opens malformed programs of every kind.
func TestHostileFiles(t *testing.T) {
	for _, h := range hostiles {
		t.Run(h.name, func(t *testing.T) {
			b := h.make(t)
			var r *Reader
			var err, verdict error
			var report *tensor.Report
			if r, err = OpenBytes(b, nil); err == nil {
				report, verdict = r.Verify(t.Context(), nil)
			}
			if h.open != nil {
				if !errors.Is(err, h.open) {
					t.Fatalf("Open: %v, want %v", err, h.open)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			err = verdict
			if h.verify == nil && err != nil || h.verify != nil && !errors.Is(err, h.verify) {
				t.Fatalf("Verify: %v, want %v", err, h.verify)
			}
			for _, f := range report.Findings {
				var fe *tensor.FormatError
				if !errors.As(f.Err, &fe) || fe.Field == "" &&
					f.Severity == tensor.SeverityError || f.Offset < 0 ||
					f.Offset > int64(len(b)) {
					t.Errorf("a finding without its place: %+v", f)
				}
			}
			var warned bool
			for _, w := range r.Warnings() {
				warned = warned || h.warn != "" && fieldOf(w) == h.warn
			}
			if h.warn != "" && !warned {
				t.Errorf("no warning is of %s: %v", h.warn, r.Warnings())
			}
			if h.warn == "" && h.verify == nil && len(r.Warnings()) > 0 {
				t.Errorf("warnings: %v", r.Warnings())
			}
			if strict, err := OpenBytes(b,
				&ReaderOptions{Strict: true}); (err == nil) != (h.verify == nil && h.warn == "") {
				t.Errorf("strictly: %v, %v", strict, err)
			}
			walkAll(t, r)
			writeAll(t, r)
		})
	}
}

// TestHostileRuntime holds what the table says of the runtime against the runtime.
func TestHostileRuntime(t *testing.T) {
	run := etrun(t)
	for _, h := range hostiles {
		if h.runtime == "" {
			continue
		}
		t.Run(h.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "p.pte")
			if err := os.WriteFile(file, h.make(t), 0o666); err != nil {
				t.Fatal(err)
			}
			err := exec.Command(run, "run", file).Run()
			got := "runs"
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				if got = "refuses"; exit.ExitCode() != 1 {
					got = "dies"
				}
			} else if err != nil {
				t.Fatal(err)
			}
			if h.runtime == "any" {
				t.Logf("today it %s", got)
			} else if got != h.runtime {
				t.Errorf("the runtime %s, not %s", got, h.runtime)
			}
			if got != "runs" && h.open == nil && h.verify == nil {
				t.Errorf("the runtime %s, and Verify has only warnings", got)
			}
		})
	}
}
