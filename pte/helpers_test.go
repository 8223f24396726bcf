package pte

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// The helpers of tests in several files. More are in helpers_run_test.go (etrun and
// runProgram: what ExecuTorch's runtime says), helpers_walk_test.go (walkAll and
// writeAll: all that a Reader shows), helpers_facts_test.go (describe: a program as
// JSON), helpers_built_test.go (programs of the Builder), helpers_hostile_test.go and
// helpers_containers_test.go (files with defects).

// base is a sound program for hostile ones; the runtime runs all but "rich".
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

// i32 is the bytes of a vector of 32-bit integers.
func i32(vs ...int32) []byte {
	var b []byte
	for _, v := range vs {
		b = binary.LittleEndian.AppendUint32(b, uint32(v))
	}
	return b
}

// i64 is the bytes of a vector of 64-bit integers.
func i64(vs ...int64) []byte {
	var b []byte
	for _, v := range vs {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	return b
}

// setI32s stores a vector of 32-bit integers in a field.
func setI32s(n *fb.Node, slot int, vs ...int32) { n.SetVector(slot, i32(vs...), 4) }

// setI64s stores a vector of 64-bit integers in a field.
func setI64s(n *fb.Node, slot int, vs ...int64) { n.SetVector(slot, i64(vs...), 8) }

// craft writes the program b with its tables changed.
func craft(t testing.TB, b []byte, change func(c crafted)) []byte {
	t.Helper()
	r, err := OpenBytes(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	e := NewEdit(r)
	if err := e.takeApart(); err != nil {
		t.Fatal(err)
	}
	if e.patched, err = format.NewPatchedFile(r.blob, nil); err != nil {
		t.Fatal(err)
	}
	e.draft.loadSegments(r.segmentAlignment())
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

// put32 stores v in four bytes of b, and returns b.
func put32(b []byte, at int,
	v uint32) []byte {
	binary.LittleEndian.PutUint32(b[at:], v)
	return b
}

// put64 stores v in eight bytes of b, and returns b.
func put64(b []byte, at int,
	v uint64) []byte {
	binary.LittleEndian.PutUint64(b[at:], v)
	return b
}

// emptyBeyond empties a segment and lets it start where no file reaches.
func emptyBeyond(i int) func([]byte) []byte {
	return func(b []byte) []byte {
		return segmentField(i, ptefb.SlotDataSegmentOffset,
			1<<50)(segmentField(i, ptefb.SlotDataSegmentSize, 0)(b))
	}
}

// fieldOf is the field that an error is of.
func fieldOf(err error) string {
	var fe *tensor.FormatError
	if errors.As(err, &fe) {
		return fe.Field
	}
	return ""
}

// goldens are small programs that between them have everything.
var goldens = []string{
	"export-1.5.1-bundled.bpte", "export-1.5.1-state-initial.pte",
	"export-1.5.1-xnnpack-inline.pte", "export-1.5.1-no-weights.pte",
	"generation-0.7.0-delegates-extracted.pte", "generation-0.2.1-inline-constants.pte", "lean",
	"rich",
}

// programs returns the names of all programs in testdata.
func programs(t testing.TB) []string {
	t.Helper()
	all, err := filepath.Glob("../testdata/pte/*.*pte")
	if err != nil || len(all) < 20 {
		t.Fatalf("%d programs in testdata: %v", len(all), err)
	}
	return all
}

// oldPrograms are files of ExecuTorch 0.7 (24-byte header) and 0.2 (constants inside).
func oldPrograms(t testing.TB) []string {
	t.Helper()
	all, err := filepath.Glob("../testdata/pte/generation-*.pte")
	if err != nil || len(all) == 0 {
		t.Fatalf("no old programs in testdata: %v", err)
	}
	return all
}

// openFile opens a file until the test ends.
func openFile(t testing.TB, name string) *Reader {
	t.Helper()
	r, err := Open(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// opened is a Reader of what b has built.
func opened(t *testing.T, b *Builder) *Reader {
	t.Helper()
	var w bytes.Buffer
	if err := b.Write(t.Context(), &w, nil); err != nil {
		t.Fatal(err)
	}
	r, err := OpenBytes(w.Bytes(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// look opens a program, lists it and verifies it.
func look(b []byte) error {
	r, err := OpenBytes(b, nil)
	if err != nil {
		return err
	}
	for e := range r.Entries() {
		if e.Size() < 1<<20 {
			e.Data.ReadAll()
		}
	}
	for range r.Blobs() {
	}
	for range r.Attributes() {
	}
	for m := range r.Program().Methods() {
		_ = fmt.Sprint(m.Inputs(), m.Outputs())
	}
	for range r.Spans() {
	}
	_, err = r.Verify(context.Background(), nil)
	return err
}

// program is a file as it is inside its bundle, if it has one.
func program(t testing.TB, r *Reader) []byte {
	t.Helper()
	b, err := r.in.Metadata(r.at, r.end-r.at)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// rewritten opens what an edit writes.
func rewritten(t testing.TB, e *Edit) *Reader {
	t.Helper()
	return rewrittenWith(t, e, nil)
}

// rewrittenWith opens and verifies what an edit writes with these options.
func rewrittenWith(t testing.TB, e *Edit, opts *WriterOptions) *Reader {
	t.Helper()
	var w bytes.Buffer
	if err := e.Write(t.Context(), &w, opts); err != nil {
		t.Fatal(err)
	}
	r, err := OpenBytes(w.Bytes(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Verify(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return r
}

// entryOf returns the first tensor of that name with its place, nil if there is none.
func entryOf(r *Reader, name string) *Entry {
	for e := range r.Entries() {
		if e.Name == name {
			return e
		}
	}
	return nil
}

// planned is the size of all buffers of the memory plan.
func planned(m Method) (total int64) {
	for _, n := range m.Memory().Buffers[1:] {
		total += n
	}
	return total
}

// sha is the SHA-256 of a blob in hexadecimal digits.
func sha(t testing.TB, b tensor.Blob) string {
	t.Helper()
	h := sha256.New()
	if _, err := b.WriteTo(h); err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// big is a program of 64 constants, n bytes together, in a file.
func big(b *testing.B, n int64) string {
	b.Helper()
	piece := make([]byte, n/64)
	for i := range piece {
		piece[i] = byte(i * 7)
	}
	p := NewBuilder()
	m := p.Method("forward")
	for range 64 {
		m.Constant(&tensor.Tensor{DType: tensor.U8, Shape: tensor.Shape{n / 64},
			Data: tensor.BlobOf(slices.Clone(piece))})
	}
	m.Return(m.Value(1))
	name := filepath.Join(b.TempDir(), "big.pte")
	if err := p.WriteFile(b.Context(), name, nil); err != nil {
		b.Fatal(err)
	}
	return name
}

// bigSize is the size of the file: TENSORFILE_BENCH_BIG=1 makes it 1 GiB.
func bigSize() int64 {
	if os.Getenv("TENSORFILE_BENCH_BIG") != "" {
		return 1 << 30
	}
	return 64 << 20
}

// amplified is a program of few bytes that shows many: n methods that are one, with n
// values that are one.
func amplified(n int) []byte {
	var b fb.Builder
	repeat := func(o fb.Offset) fb.Offset {
		all := make([]fb.Offset, n)
		for i := range all {
			all[i] = o
		}
		return b.Offsets(all)
	}
	b.Begin()
	b.Scalar(ptefb.SlotIntIntVal, 8, 5, 0)
	number := b.End()
	b.Begin()
	b.Ref(ptefb.SlotEValueVal, number)
	b.Scalar(ptefb.SlotEValueValType, 1, uint64(kindInt), 0)
	values := repeat(b.End())
	name := b.String("forward")
	b.Begin()
	b.Ref(ptefb.SlotExecutionPlanName, name)
	b.Ref(ptefb.SlotExecutionPlanValues, values)
	plans := repeat(b.End())
	b.Begin()
	b.Ref(ptefb.SlotProgramExecutionPlan, plans)
	out, err := b.Finish(b.End(), "ET12")
	if err != nil {
		panic(err)
	}
	return out
}

// shownLimit returns how many bytes walkAll may show of the file b: what it shows is what
// it takes time for.
func shownLimit(b []byte) int64 { return 1<<22 + 1000*int64(len(b)) }
