package rten

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/schema/rtenfb"
	"github.com/tensorfile/tensorfile/tensor"
)

var api = readtest.API[*Reader]{
	Open: func(name string, noMap bool) (*Reader, error) {
		return Open(name, &ReaderOptions{NoMap: noMap})
	},
	OpenBytes: func(b []byte) (*Reader, error) { return OpenBytes(b, nil) },
	NewReader: func(r io.ReaderAt, size int64) (*Reader, error) { return NewReader(r, size, nil) },
}

func golden(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("../testdata/rten/" + name + ".rten")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// describe walks everything that a reader has and writes it down.
func describe(r *Reader) string {
	h, v2 := r.Header()
	var b strings.Builder
	fmt.Fprintln(&b, r.Version(), h, v2, r.Size(), r.Len(), r.Warnings())
	for x := range r.Tensors() {
		st, _ := x.Data.Stored()
		fmt.Fprintf(&b, "%q %+v\n", x.Name, st)
	}
	return b.String() + content(r)
}

// content is what a file says, wherever it stands.
func content(r *Reader) string {
	var b strings.Builder
	for k, v := range r.Attributes() {
		fmt.Fprintf(&b, "%s=%q\n", k, v)
	}
	for x := range r.Tensors() {
		data, err := x.Data.ReadAll()
		fmt.Fprintf(&b, "%q %v %v %x %v\n", x.Name, x.DType, x.Shape, data, err)
	}
	for g := range r.Model().Graphs() {
		up, owner := g.Up()
		fmt.Fprintf(&b, "graph %q in %v (owner %d): %v %v %v\n", g.Path(), up != nil,
			owner.Index(), g.Inputs(), g.Outputs(), g.Captures())
		for n := range g.Nodes() {
			fmt.Fprintf(&b, "%d %v %q", n.Index(), n.Kind(), n.Label())
			if c, ok := n.Constant(); ok {
				fmt.Fprint(&b, " ", c.Tensor().Name)
			}
			if v, ok := n.Value(); ok {
				dims, ranked := v.Shape()
				d, typed := v.DType()
				fmt.Fprint(&b, dims, ranked, d, typed)
			}
			if op, ok := n.Operator(); ok {
				fmt.Fprint(&b, op.Type(), op.Inputs(), op.Outputs(), op.AttrsTable())
				for a := range op.Attributes() {
					if g, ok := a.Value.(*Graph); ok {
						a.Value = g.Path()
					}
					fmt.Fprintf(&b, " %s=%v(%v)", a.Name, a.Value, a.Set)
				}
			}
			fmt.Fprintln(&b)
		}
	}
	return b.String()
}

func TestAllSourcesSayTheSame(t *testing.T) {
	for _, name := range []string{"convert-0.22.0-basic", "convert-0.22.0-basic-v1",
		"convert-0.22.0-control", "convert-0.22.0-operators", "rust-0.23.0-v2"} {
		t.Run(name, func(t *testing.T) {
			api.Same(t, golden(t, name), describe)
		})
	}
}

func TestReadsToOpen(t *testing.T) {
	small := golden(t, "convert-0.22.0-basic")
	for _, c := range []struct {
		name string
		data []byte
		want int
	}{
		{"a small model takes one read", small, 1},
		{"a larger one takes two", manyConstants(t, 2000), 2},
		{"version 1 takes two", golden(t, "convert-0.22.0-basic-v1"), 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			counter := readtest.NewCounter(c.data)
			r, err := NewReader(counter, int64(len(c.data)), nil)
			if err != nil {
				t.Fatal(err)
			}
			for range r.Tensors() {
			}
			if counter.Calls() != c.want {
				t.Errorf("%d reads: %v", counter.Calls(), counter.Reads())
			}
		})
	}
}

// TestVersion1IsReadOnce reads a model larger than the first window.
func TestVersion1IsReadOnce(t *testing.T) {
	file := patched(t, openBytes(t, manyConstants(t, 5000)), &WriterOptions{Version: "1"})
	counter := readtest.NewCounter(file)
	if _, err := NewReader(counter, int64(len(file)), nil); err != nil {
		t.Fatal(err)
	}
	if counter.Bytes() > int64(len(file))+16 {
		t.Errorf("%d bytes read of %d: %v", counter.Bytes(), len(file), counter.Reads())
	}
}

func TestPlausible(t *testing.T) {
	for name, data := range goldens(t) {
		for _, n := range []int{0, 4, 16, 64, len(data)} {
			if !Plausible(data[:n], int64(len(data))) {
				t.Errorf("%s by its first %d bytes", name, n)
			}
		}
	}
	for name, head := range map[string][]byte{
		"text": []byte(
			"some text, which is longer than a flatbuffer's root table"),
		"zeros":                make([]byte, 64),
		"the root is far away": {0xfc, 0xff, 0xff, 0x7f, 0, 0, 0, 0},
		"a zip archive":        []byte("PK\x03\x04\x14\x00\x00\x00\x08\x00\x00\x00"),
	} {
		counter := readtest.NewCounter(append(head, make([]byte, 1000)...))
		if size := int64(1000 + len(head)); Plausible(head, size) || Detect(counter, size) ||
			counter.Calls() > 1 {
			t.Errorf("%s: %v", name, counter.Reads())
		}
	}
}

// manyConstants is a version 2 file of n constants of 20 elements.
func manyConstants(t testing.TB, n int) []byte {
	var b fb.Builder
	nodes := make([]fb.Offset, n)
	for i := n - 1; i >= 0; i-- {
		name := b.String(fmt.Sprintf("model.layers.%d.weight", i))
		shape := b.Scalars([]byte{4, 0, 0, 0, 5, 0, 0, 0}, 4, 4)
		b.Begin()
		b.Scalar(rtenfb.SlotConstantNodeDataOffset, 8, uint64(i)*128, 1<<63)
		b.Ref(rtenfb.SlotConstantNodeShape, shape)
		b.Scalar(rtenfb.SlotConstantNodeDtype, 2, 1, 99)
		c := b.End()
		b.Begin()
		b.Ref(rtenfb.SlotNodeName, name)
		b.Ref(rtenfb.SlotNodeData, c)
		b.Scalar(rtenfb.SlotNodeDataType, 1, uint64(ConstantNode), 0)
		nodes[i] = b.End()
	}
	list := b.Offsets(nodes)
	b.Begin()
	b.Ref(rtenfb.SlotGraphNodes, list)
	g := b.End()
	b.Begin()
	b.Scalar(4, 4, 1, 0)
	b.Ref(rtenfb.SlotModelGraph, g)
	buf, err := b.Finish(b.End(), "")
	if err != nil {
		t.Fatal(err)
	}
	h := Header{32, int64(len(buf)), (32 + int64(len(buf)) + 63) / 64 * 64}
	file := append(h.append(nil), buf...)
	file = append(file, make([]byte, h.TensorOffset-int64(len(file)))...)
	return append(file, make([]byte, n*128)...)
}

func TestLookup(t *testing.T) {
	r, err := OpenBytes(golden(t, "convert-0.22.0-control"), nil)
	if err != nil {
		t.Fatal(err)
	}
	k := r.Tensor("nodes[6].then_branch.nodes[2].then_branch/k")
	if k == nil || !k.Shape.Equal(tensor.Shape{3}) || k.DType != tensor.F32 {
		t.Fatalf("got %+v", k)
	}
	if r.Tensor("k") != nil || r.Tensor("") != nil {
		t.Error("a subgraph's constant was found without its path")
	}
	if r.Model().Constant(0).Tensor().Name != "trips" {
		t.Error("the first constant")
	}
	for range r.Blobs() {
		t.Error("a blob")
	}
}

func TestTablesAgreeWithTheSchema(t *testing.T) {
	if len(rules) != len(rtenfb.EnumNamesOperatorType) {
		t.Errorf("%d operators", len(rules))
	}
	for n, name := range rtenfb.EnumNamesOperatorType {
		if OpType(n).String() != name {
			t.Errorf("operator %d is %s, the schema says %s", n, OpType(n), name)
		}
		if op, ok := ParseOpType(name); !ok || byte(op) != byte(n) {
			t.Errorf("%s is parsed as %d", name, op)
		}
		if op := &rules[n]; (op.attrs == 0) != (op.use == ignored) ||
			op.attrs > 0 && attrTable(int(op.attrs)) == nil {
			t.Errorf("%s: attributes %v, use %d", name, op.attrs, op.use)
		}
	}
	facts := 0
	for tag := 1; attrTable(tag) != nil; tag++ {
		table := attrTable(tag)
		for i := range table.Fields {
			f := &table.Fields[i]
			if _, ok := attrFacts[table.Name+"."+f.Name]; ok {
				facts++
			}
			if f.Default != 0 && factOf(table, f).onnx != float64(f.Default) {
				t.Errorf("%s.%s: ONNX's default is not the schema's %d", table.Name, f.Name,
					f.Default)
			}
		}
	}
	if facts != len(attrFacts) {
		t.Errorf("%d of %d facts are about fields of the schema", facts, len(attrFacts))
	}
	for i, d := range dataTypes {
		e := Enum{"DataType", i}
		want := map[string]tensor.DType{"Int32": tensor.I32, "Float": tensor.F32,
			"Int8": tensor.I8, "UInt8": tensor.U8}[e.String()]
		if d != want || e.DType() != want || inlineTypes[inlineTag(d)].dtype != d {
			t.Errorf("%v is %v", e, d)
		}
	}
}
