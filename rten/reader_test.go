package rten

import (
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/schema/rtenfb"
	"github.com/tensorfile/tensorfile/tensor"
)

func TestAllSourcesSayTheSame(t *testing.T) {
	for _, name := range []string{"convert-0.22.0-basic", "convert-0.22.0-basic-v1",
		"convert-0.22.0-control", "convert-0.22.0-operators", "rust-0.23.0-v2"} {
		t.Run(name, func(t *testing.T) {
			api.Same(t, golden(t, name), describe)
		})
	}
}

func TestOpeningTakesTwoReadsAtMost(t *testing.T) {
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

func TestPlausibleKnowsTheFirstBytes(t *testing.T) {
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

func TestLookupFindsTensorsOfInnerGraphs(t *testing.T) {
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
