package onnx

import (
	"fmt"
	"slices"
	"testing"
)

func TestTensorsAreNamedByTheirPlace(t *testing.T) {
	inAttribute := func(name string, field int) []byte {
		return msg(5, msg(1, name), msg(field, num(1, 1), num(2, 2), msg(rawData, "x"), msg(8,
			"own")))
	}
	constant := func(domain, name string, outputs ...[]byte) []byte {
		return msg(1, msg(4, "Constant"), msg(7, domain), inAttribute(name, 5), join(outputs...))
	}
	body := func(attribute string, graph ...[]byte) []byte {
		return msg(5, msg(1, attribute), msg(6, join(graph...)))
	}
	b := join(modelOf(
		msg(5, floats("w")), msg(5, floats("")), msg(5, floats("a/b")), msg(5, floats("\xff")),
		sparseOf([]uint64{9}, floats(""), nil), sparseOf([]uint64{9}, floats("s"), nil),
		constant("", "value", msg(2, "c")), constant("ai.onnx", "value", msg(2, "d")),
		constant("other", "value", msg(2, "e")), constant("", "table", msg(2, "f")),
		constant("", "value"), constant("", "value", msg(2)),
		msg(1, msg(3, "n"), msg(4, "Op"), inAttribute("list", 10), inAttribute("one", 5)),
		msg(1, msg(4, "Op"), msg(5, msg(1, "list"), msg(10), msg(10))),
		msg(1, msg(3, "if"), msg(4, "If"),
			body("then", msg(5, floats("w")), msg(1, msg(4, "If"), body("else", msg(5,
				floats("w")), constant("", "value", msg(2, "k")))), msg(5, floats(""))),
			msg(5, msg(1, "branches"), msg(11, msg(5, floats("x"))), msg(11, msg(5,
				floats("y"))))),
	),
		msg(25, msg(1, "F"), msg(10, "org"), msg(7, msg(4, "Constant"), msg(2, "k"),
			inAttribute("value", 5)),
			msg(11, msg(1, "table"), msg(5, num(2, 2)))),
		msg(25, msg(1, "F"), msg(10, "org"), msg(13, "v2"), msg(7, msg(4, "Constant"), msg(2,
			"k"), inAttribute("value", 5))),
		msg(20, msg(1, msg(5, floats("i"))), msg(2, msg(5, floats("a")))))
	r, err := OpenBytes(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"w", "#1", "a/b", "\xff", "sparse#0", "s", "c", "d", "#2.value", "#3.table",
		"#4.value", "#5.value", "n.list[0]", "n.one", "#7.list[0]", "#7.list[1]",
		"if.then/w", "if.then/#0.else/w", "if.then/#0.else/k", "if.then/#1",
		"if.branches[0]/x", "if.branches[1]/y", "org:F/k", "org:F/attribute.table", "org:F:v2/k",
		"training[0].initialization/i", "training[0].algorithm/a"}
	var got []string
	for x := range r.Tensors() {
		got = append(got, x.Name)
		if r.Tensor(x.Name) != x {
			t.Errorf("%q is not found", x.Name)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	paths, locals := []string{}, []string{}
	for g := range r.Model().Graphs() {
		paths = append(paths, g.Path)
		for name := range g.Initializers() {
			locals = append(locals, name)
		}
		if up, node := g.Up(); (up != nil) != (len(g.Path) > 0 && g.Path[0] == 'i') ||
			up != nil && up.Nodes[node].Operator() != "If" {
			t.Errorf("%q is in %v, node %d", g.Path, up, node)
		}
	}
	if want := []string{"", "if.then/", "if.then/#0.else/", "if.branches[0]/",
		"if.branches[1]/", "org:F/",
		"org:F:v2/", "training[0].initialization/",
		"training[0].algorithm/"}; !slices.Equal(paths, want) {
		t.Errorf("graphs %q\nwant   %q", paths, want)
	}
	if want := []string{"w", "", "a/b", "\xff", "", "s", "w", "", "w", "x", "y", "i",
		"a"}; !slices.Equal(locals, want) {
		t.Errorf("initializers %q\nwant         %q", locals, want)
	}
}

func TestAttributesHaveTheirTypes(t *testing.T) {
	b := modelOf(msg(1, msg(4, "Op"), msg(7, "org.x"),
		msg(5, msg(1, "f"), []byte{2<<3 | fixed32, 0, 0, 0, 0x3f}, num(20, 1)),
		msg(5, msg(1, "i"), num(3, 1<<64-2), num(20, 2)),
		msg(5, msg(1, "s"), msg(4, "\xff"), num(20, 3)),
		msg(5, msg(1, "floats"), []byte{7<<3 | fixed32, 0, 0, 0, 0x3f}, msg(7,
			"\x00\x00\x80\x3f"), num(20, 6)),
		msg(5, msg(1, "ints"), num(8, 1), msg(8, packed(2, 3)), num(20, 7)),
		msg(5, msg(1, "strings"), msg(9, "a"), msg(9), num(20, 8)),
		msg(5, msg(1, "none"), num(20, 7)), msg(5, msg(1, "zero"), num(20, 2)),
		msg(5, msg(1, "type"), msg(14, msg(1, num(1, 1))), num(20, 13)),
		msg(5, msg(1, "types"), msg(15), num(20, 14)),
		msg(5, msg(1, "old"), num(3, 7)),
		msg(5, msg(1, "ref"), msg(21, "alpha"), num(20, 1)),
		msg(5, msg(1, "two"), num(3, 7), msg(8, packed(1)), num(20, 2)), msg(5)))
	r, err := OpenBytes(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	n := &r.Model().Graph.Nodes[0]
	if n.Operator() != "org.x.Op" {
		t.Error(n.Operator())
	}
	var got []string
	for _, a := range n.Attributes {
		got = append(got, a.Name+" "+show(a.Value))
	}
	want := []string{"f float32 0.5", "i int64 -2", `s string "\xff"`, "floats []float32 [0.5 1]",
		"ints []int64 [1 2 3]", `strings []string ["a" ""]`, "none []int64 []", "zero int64 0",
		"type *onnx.Type float32 ?", "types []*onnx.Type [?]", "old int64 7",
		`ref onnx.Ref "alpha"`,
		"two int64 7", " <nil> <nil>"}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}

func TestTypesAreWrittenAsText(t *testing.T) {
	dims := func(d ...[]byte) []byte { return msg(2, join(d...)) }
	for want, b := range map[string][]byte{
		"float32 ?":  msg(1, num(1, 1)),
		"float32 []": msg(1, num(1, 1), dims()),
		"int64 [batch, 3, ?]": msg(1, num(1, 7), dims(msg(1, msg(2, "batch")), msg(1, num(1,
			3)), msg(1))),
		"string [-1, 0]": msg(1, num(1, 8), dims(msg(1, num(1, 1<<64-1)), msg(1, num(1,
			0)))),
		"99 ?":                 msg(1, num(1, 99)),
		"sparse(float32 [2])":  msg(8, num(1, 1), dims(msg(1, num(1, 2)))),
		"sequence(int64 ?)":    msg(4, msg(1, msg(1, num(1, 7)))),
		"sequence(?)":          msg(4),
		"optional(float32 ?)":  msg(9, msg(1, msg(1, num(1, 1)))),
		"map(string, int64 ?)": msg(5, num(1, 8), msg(2, msg(1, num(1, 7)))),
		"opaque":               msg(7, msg(1, "d")),
		"?":                    nil,
		"int64 ?":              join(msg(4, msg(1, msg(1, num(1, 1)))), msg(1, num(1, 7))),
	} {
		r, err := OpenBytes(modelOf(msg(11, msg(1, "x"), msg(2, b))), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Model().Graph.Inputs[0].Type.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if s := (*Type)(nil).String(); s != "?" {
		t.Error(s)
	}
}

func TestDetectTellsModelsFromOtherMessages(t *testing.T) {
	good := modelOf(node("x", "y"), value(11, "x"), value(12, "y"))
	long := string(make([]byte, 600))
	for what, c := range map[string]struct {
		b    []byte
		want bool
	}{
		"a model": {good, true}, "no producer": {modelOf(msg(5, floats("w"))), true},
		"cut in the graph":     {good[:len(good)-3], true},
		"damaged in the graph": {append(slices.Clone(good[:len(good)-2]), 0, 0), true},
		"a long text before":   {join(msg(6, long), good), true},
		"the graph first":      {join(msg(7, node("", "y")), head), true},
		"unknown fields":       {join(msg(900, "x"), good, num(77, 1)), true},
		"an old one":           {join(num(1, 2), msg(7, node("", "y"))), true},
		"version 99": {join(num(1, 99), msg(8, num(2, 1)), msg(7, node("", "y"))),
			true},
		"empty":      {nil, false},
		"zeros":      {make([]byte, 1000), false},
		"text":       {[]byte("hello, this is a text of some length\n"), false},
		"JSON":       {[]byte(`{"ir_version": 8, "graph": {}}`), false},
		"no version": {join(msg(8, num(2, 1)), msg(7, node("", "y"))), false},
		"no opset":   {join(num(1, 8), msg(7)), false},
		"no graph":   {head, false},
		"a TensorProto": {join(num(1, 2), num(2, 1), msg(8, "w"), msg(rawData,
			"01234567")), false},
		"a GraphProto":          {join(node("x", "y"), msg(2, "g"), value(11, "x")), false},
		"a strange child":       {join(head, msg(7, msg(3, "x"))), false},
		"a node that is a text": {join(head, msg(7, msg(1, "hello, world"))), false},
		"a producer that is no text": {join(num(1, 8), msg(2, "\xff\xfe"), msg(7, msg(3, "x"))),
			false},
		"a version beyond all": {join(num(1, 1<<20), msg(8, num(2, 1)), msg(7, node("", "y"))),
			false},
	} {
		if got := Detect(readerOf(c.b), int64(len(c.b))); got != c.want {
			t.Errorf("%s: %v", what, got)
		}
	}
}

func show(v any) string {
	if list, ok := v.([]*Type); ok {
		return fmt.Sprintf("%T %v", v, list)
	}
	switch v.(type) {
	case string, []string, Ref:
		return fmt.Sprintf("%T %q", v, v)
	}
	return fmt.Sprintf("%T %v", v, v)
}
