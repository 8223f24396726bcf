package rten

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/rtenfb"
	"github.com/tensorfile/tensorfile/tensor"
)

// A defect is one thing that is wrong with a small file.
type defect struct {
	name  string
	file  []byte
	class error
	field string
}

func defects() []defect {
	var bad, many, soon, other error = tensor.ErrMalformed, tensor.ErrLimit, io.ErrUnexpectedEOF,
		errors.ErrUnsupported
	good := func() []byte {
		return made(64, func(b *raw) []fb.Offset {
			return []fb.Offset{b.outside("w", 0, 2, 3), b.inline("b", 3, 3)}
		})
	}
	with := func(change func(b []byte)) []byte {
		b := good()
		change(b)
		return b
	}
	put := func(at int, x uint64) []byte {
		return with(func(b []byte) { binary.LittleEndian.PutUint64(b[at:], x) })
	}
	one := func(node func(b *raw) fb.Offset) []byte {
		return made(64, func(b *raw) []fb.Offset { return []fb.Offset{node(b)} })
	}
	root := 32 + int(binary.LittleEndian.Uint32(good()[32:]))
	named := bytes.Index(good(), []byte("b\x00\x00\x00"))
	var alone, empty, cycle raw
	version1 := alone.model(alone.graph([]fb.Offset{alone.outside("w", 0, 1)}, nil, nil, nil), 1)
	wrapped := func() []byte { // a graph that is the branch of its own If
		cycle.Begin()
		cycle.force(rtenfb.SlotGraphNodes, 4, 0)
		leaf := cycle.End()
		cycle.Begin()
		cycle.Ref(rtenfb.SlotIfAttrsThenBranch, leaf)
		attrs := cycle.End()
		b := cycle.model(cycle.graph([]fb.Offset{cycle.operator(OpIf,
			int(rtenfb.OperatorAttrsIfAttrs), attrs, nil, nil)}, nil, nil, nil), 1)
		graph, _, table := firstAttrs(b)
		field := table + 4
		binary.LittleEndian.PutUint32(b[field:], uint32(graph-field))
		return b
	}()
	rank := make([]uint32, 300)
	for i := range rank {
		rank[i] = 1
	}
	return []defect{
		{"empty", nil, soon, ""},
		{"mark only", good()[:4], soon, "header.version"},
		{"header cut", good()[:20], soon, "header"},
		{"mark in lower case", with(func(b []byte) { copy(b, "rten") }), bad, ""},
		{"version 3", with(func(b []byte) { b[4] = 3 }), other, "header.version"},
		{"model in the header", put(8, 31), bad, "header.model_data_offset"},
		{"model behind the end", put(8, 1<<32), soon, "header.model_data_offset"},
		{"model offset 2^64-1", put(8, math.MaxUint64), bad, "header.model_data_offset"},
		{"model longer than the file", put(16, 1<<31), soon, "header.model_data_len"},
		{"model of no bytes", put(16, 0), bad, ""},
		{"tensor data in the header", put(24, 8), bad, "header.tensor_data_offset"},
		{"tensor data behind the end", put(24, 1<<32), soon, "header.tensor_data_offset"},
		{"without the last byte", func() []byte {
			b := made(24, func(b *raw) []fb.Offset { return []fb.Offset{b.outside("w", 0, 2, 3)} })
			return b[:len(b)-1]
		}(), soon, "graph.nodes[0].data.data_offset"},
		{"root 0", with(func(b []byte) { copy(b[32:36], "\x00\x00\x00\x00") }), bad, ""},
		{"root misaligned", with(func(b []byte) { b[32] += 2 }), bad, ""},
		{"vtable outside", with(func(b []byte) { copy(b[root:], "\x00\x00\x00\x7f") }), bad, ""},
		{"a name without NUL", with(func(b []byte) { copy(b[named+1:], "xxx") }), bad,
			"graph.nodes[1].name"},
		{"a name that is not UTF-8", with(func(b []byte) { b[named] = 0xff }), bad,
			"graph.nodes[1].name"},
		{"a graph in its own branch", wrapped, bad, "graph.nodes[0].then_branch"},
		{"doubling branches", nest(13), many, ""},
		{"loops 16 deep", loops(16), many, ""},
		{"a node that is nothing", one(func(b *raw) fb.Offset { b.Begin(); return b.End() }), bad,
			"graph.nodes[0].data"},
		{"a node of an unknown kind",
			one(func(b *raw) fb.Offset { b.Begin(); return b.node("n", 4, b.End()) }), other,
			"graph.nodes[0].data_type"},
		{"a constant without elements", one(func(b *raw) fb.Offset {
			shape := b.ints(1)
			b.Begin()
			b.Ref(rtenfb.SlotConstantNodeShape, shape)
			return b.node("c", ConstantNode, b.End())
		}), bad, "graph.nodes[0].data.data"},
		{"no graph", v2(empty.model(0, 1), 0), bad, "graph"},
		{"schema version 2",
			func() []byte { var b raw; return b.model(b.graph(nil, nil, nil, nil), 2) }(), bad,
			""},
		{"schema version 2 behind a header",
			func() []byte { var b raw; return v2(b.model(b.graph(nil, nil, nil, nil), 2), 0) }(),
			other, "schema_version"},
		{"an input beyond the nodes", func() []byte {
			var b raw
			return v2(b.model(b.graph([]fb.Offset{b.value("v")}, []uint32{1}, nil, nil), 1), 0)
		}(), bad, "graph.inputs[0]"},
		{"an operator that reads what comes later", made(0, func(b *raw) []fb.Offset {
			return []fb.Offset{b.operator(0, 0, 0, []uint32{1}, nil), b.value("v")}
		}), bad, "graph.nodes[0].data.inputs[0]"},
		{"data offset behind the end",
			one(func(b *raw) fb.Offset { return b.outside("w", 61, 1) }), soon,
			"graph.nodes[0].data.data_offset"},
		{"data offset 2^63", one(func(b *raw) fb.Offset { return b.outside("w", 1<<63, 1) }), bad,
			"graph.nodes[0].data.data_offset"},
		{"a product that wraps to 0",
			one(func(b *raw) fb.Offset { return b.outside("w", 0, 1<<31, 1<<31, 4) }), bad,
			"graph.nodes[0].data.shape"},
		{"rank 300", one(func(b *raw) fb.Offset { return b.outside("w", 0, rank...) }), many,
			"graph.nodes[0].data.shape"},
		{"more elements than the shape has",
			one(func(b *raw) fb.Offset { return b.inline("w", 5, 4) }), bad,
			"graph.nodes[0].data.data.data"},
		{"fewer elements than the shape has",
			one(func(b *raw) fb.Offset { return b.inline("w", 3, 4) }), bad,
			"graph.nodes[0].data.data.data"},
		{"outside without a type",
			one(func(b *raw) fb.Offset { return b.outsideOf("w", -1, 0, 1) }), bad,
			"graph.nodes[0].data.dtype"},
		{"outside of an unknown type",
			one(func(b *raw) fb.Offset { return b.outsideOf("w", 4, 0, 1) }), other,
			"graph.nodes[0].data.dtype"},
		{"outside in version 1", version1, bad, "graph.nodes[0].data.data_offset"},
	}
}

// TestMalformedFilesOfTestdataAreThoseOfTheList holds testdata/malformed/rten against
// the list above, for those who test the command or another reader. UPDATE=1 writes it.
func TestMalformedFilesOfTestdataAreThoseOfTheList(t *testing.T) {
	type expectation struct {
		File   string       `json:"file"`
		Class  tensor.Class `json:"class"`
		Offset int64        `json:"offset"`
		Field  string       `json:"field"`
	}
	dir := "../testdata/malformed/rten"
	same := func(name string, want []byte) {
		t.Helper()
		name = filepath.Join(dir, name)
		if os.Getenv("UPDATE") != "" {
			if err := errors.Join(os.MkdirAll(dir, 0o777),
				os.WriteFile(name, want, 0o666)); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what this test makes (UPDATE=1 writes it): %v", name, err)
		}
	}
	var index []expectation
	for _, d := range defects() {
		_, err := OpenBytes(d.file, nil)
		var fe *tensor.FormatError
		switch {
		case !errors.As(err, &fe):
			t.Errorf("%s: %v is no FormatError", d.name, err)
			continue
		case !errors.Is(err, d.class) || fe.Format != "rten" ||
			d.field != "" && fe.Field != d.field || fe.Offset < 0 ||
			fe.Offset > int64(len(d.file)):
			t.Errorf("%s: got %q at %#x (%v), want %q, %v", d.name, fe.Field, fe.Offset, err,
				d.field, d.class)
		}
		name := strings.NewReplacer(" ", "-", "^", "-").Replace(strings.ToLower(d.name)) + ".rten"
		index = append(index, expectation{name, tensor.ClassOf(err), fe.Offset, fe.Field})
		same(name, d.file)
	}
	text, err := json.MarshalIndent(index, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	same("index.json", append(text, '\n'))
}
