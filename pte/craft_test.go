package pte

import (
	"bytes"
	"encoding/binary"
	"os"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/format"
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
		if err := b.Write(t.Context(), &out, nil); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	two3 := tensor.Shape{2, 3}
	x := m.Input(tensor.F32, two3)                                            // 0
	w := m.Constant(tensor.New("", two3, []float32{1, 2, 3, 4, 5, 6}))        // 1
	one := m.Value(1)                                                         // 2
	y := m.Tensor(tensor.F32, two3)                                           // 3
	count := m.State(tensor.New("count", tensor.Shape{2}, []float32{10, 20})) // 4
	no := m.Value(false)                                                      // 5
	m.TensorList(x, w)                                                        // 6
	m.OptionalTensorList(x, Ref{})                                            // 7
	m.IntList(one)                                                            // 8
	m.Value("text")                                                           // 9
	m.Value([]float64{1.5})                                                   // 10
	m.Value([]bool{true})                                                     // 11
	m.Value(nil)                                                              // 12
	m.Value(0.5)                                                              // 13
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
		m.Declare(RoleExternal, "outside", tensor.F32, tensor.Shape{3}) // 16
		m.Declare(RoleExternal, "outside", tensor.F32, tensor.Shape{3}) // 17
		d := m.Delegate("SomeBackend", tensor.BlobOf([]byte("payload of a delegate")),
			CompileSpec{"key", []byte("value")})
		m.CallDelegate(d, x, y) // 5
		m.Free(y)               // 6
	}
	var out bytes.Buffer
	if err := b.Write(t.Context(), &out, nil); err != nil {
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
	if e.over, err = format.NewPatchedFile(r.blob, nil); err != nil {
		t.Fatal(err)
	}
	e.draft.load(r.segmentAlignment())
	change(crafted{e.draft})
	o, err := e.draft.finish(r.segmentAlignment())
	if err != nil {
		t.Fatal(err)
	}
	var w bytes.Buffer
	if err := format.WriteTo(t.Context(), &w, o.writeTo); err != nil {
		t.Fatal(err)
	}
	return w.Bytes()
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
