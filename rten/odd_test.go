package rten

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/rtenfb"
	"github.com/tensorfile/tensorfile/tensor"
)

// oddModel has one constant inline and two outside, and metadata.
func oddModel(identifier string, offsets ...uint64) []byte {
	var b raw
	nodes := []fb.Offset{b.inline("inline", 2, 2)}
	for i, o := range offsets {
		nodes = append(nodes, b.outside(fmt.Sprint("outside", i), o, 5))
	}
	license := b.String("MIT")
	b.Begin()
	b.Ref(rtenfb.SlotMetadataLicense, license)
	metadata := b.End()
	graph := b.graph(nodes, nil, []uint32{0}, nil)
	b.Begin()
	b.Ref(rtenfb.SlotModelMetadata, metadata)
	b.Ref(rtenfb.SlotModelGraph, graph)
	b.force(rtenfb.SlotModelSchemaVersion, 4, 1)
	buf, err := b.Finish(b.End(), identifier)
	if err != nil {
		panic(err)
	}
	return bytes.Clone(buf)
}

// What RTen's loader accepts although no writer lays a file out so.
func TestLayoutsOfOtherWritersAreRead(t *testing.T) {
	weights := []byte(strings.Repeat("0123456789", 4))
	at := func(h Header, size int64, parts map[int64][]byte) []byte {
		b := make([]byte, size)
		for off, p := range parts {
			copy(b[off:], p)
		}
		copy(b, h.append(nil))
		return b
	}
	model := oddModel("", 0, 20)
	n := int64(len(model))
	for name, file := range map[string][]byte{
		"the model at 33": at(Header{33, n, 33 + n}, 33+n+40,
			map[int64][]byte{33: model, 33 + n: weights}),
		"tensor data before the model": at(Header{72, n, 32}, 72+n,
			map[int64][]byte{32: weights, 72: model}),
		"tensor data inside of the model": at(Header{32, n + 100, 32 + n + 40}, 32+n+100,
			map[int64][]byte{32: model, 32 + n + 40: weights}),
		"a model up to the end": at(Header{32, n + 64, 32 + n}, 32+n+64,
			map[int64][]byte{32: model, 32 + n: weights}),
		"unaligned tensor data, and a gap": at(Header{32, n, 32 + n + 13}, 32+n+13+40+7,
			map[int64][]byte{32: model, 32 + n + 13: weights}),
		"an offset of 1": at(Header{32, n, 32 + n}, 32+n+41,
			map[int64][]byte{32: oddModel("", 1, 21), 32 + n + 1: weights}),
	} {
		t.Run(name, func(t *testing.T) {
			api.Same(t, file, describe)
			r := openBytes(t, file)
			want := content(r)
			if b, err := r.Tensor("outside1").Data.ReadAll(); err != nil ||
				string(b) != string(weights[20:]) {
				t.Fatalf("%q %v", b, err)
			}
			for _, opts := range []*WriterOptions{nil, {Version: "1"},
				{Version: "2", Alignment: 64}, {Version: "2", InlineElements: -1}} {
				equalContent(t, fmt.Sprintf("%+v", opts), patched(t, r, opts), want)
			}
			edited := equalContent(t, "edited",
				patched(t, r, nil,
					func(p *Edit) error { return p.SetAttribute("license", "BSD") }),
				strings.Replace(want, "MIT", "BSD", 1))
			if v, err := tensor.Load[float32](edited.Tensor("outside0")); err != nil ||
				len(v) != 5 {
				t.Errorf("%v %v", v, err)
			}
		})
	}
}

func TestVersion1HasAnyIdentifier(t *testing.T) {
	for _, identifier := range []string{"", "RTEN", "ABCD"} {
		data := oddModel(identifier)
		r := openBytes(t, data)
		if r.Version() != "1" || r.Len() != 1 || !Detect(bytes.NewReader(data), int64(len(data))) {
			t.Errorf("%q: version %s, %d constants", identifier, r.Version(), r.Len())
		}
	}
}

func TestOverlappingWeightsAreKept(t *testing.T) {
	r := openBytes(t, made(64,
		func(b *raw) []fb.Offset {
			return []fb.Offset{b.outside("a", 0, 8),
				b.outside("b", 16, 4)}
		}))
	want := content(r)
	for _, opts := range []*WriterOptions{nil, {Version: "1"}, {Alignment: 256},
		{InlineElements: -1}} {
		equalContent(t, "overlapping weights", patched(t, r, opts), want)
		got := openBytes(t, patched(t, r, opts, func(p *Edit) error {
			return p.Replace("b", tensor.New("", tensor.Shape{4}, []float32{1, 2, 3, 4}))
		}))
		a, err1 := tensor.Load[float32](got.Tensor("a"))
		b, err2 := tensor.Load[float32](got.Tensor("b"))
		if err1 != nil || err2 != nil || a[4] == 1 || b[0] != 1 || b[3] != 4 {
			t.Errorf("%+v: %v %v %v %v", opts, a, b, err1, err2)
		}
	}
}

// TestCopiesOfOverlappingWeightsAreNoLonger: what many constants share is written once.
func TestCopiesOfOverlappingWeightsAreNoLonger(t *testing.T) {
	data := made(4000, func(b *raw) (list []fb.Offset) {
		for i := range uint32(500) {
			list = append(list, b.outside(fmt.Sprint(i), uint64(4*i), 1000-i))
		}
		return list
	})
	for _, opts := range []*WriterOptions{nil, {Alignment: 256}, {InlineElements: -1}} {
		if got := patched(t, openBytes(t, data), opts); len(got) > len(data)+1000 {
			t.Errorf("%+v: %d bytes of %d", opts, len(got), len(data))
		}
	}
}

func TestRawAccessorsAreOfTheSameModel(t *testing.T) {
	r := openBytes(t, golden(t, "convert-0.22.0-control"))
	m := r.Model()
	if m.Raw().SchemaVersion() != 1 || m.Raw().Graph(nil).NodesLength() != m.Graph().Len() {
		t.Error("the accessors are of another model")
	}
	for c := range m.Constants() {
		n := c.Node()
		name, _ := n.Name()
		if string(n.Raw().Name()) != name || n.Kind() != ConstantNode {
			t.Errorf("%s", n.Raw().Name())
		}
	}
	for n := range m.Graph().Nodes() {
		if v, ok := n.Value(); ok && v.Node() != n {
			t.Error("another node")
		}
		if op, ok := n.Operator(); ok {
			if op.Node() != n {
				t.Error("another node")
			}
			if _, ok := op.Attribute("no such attribute"); ok {
				t.Error("an attribute that is not there")
			}
		}
	}
	if e := (Enum{"DataType", 2}); e.DType() != tensor.I8 ||
		(Enum{"DataType", 9}).DType() != tensor.Unknown ||
		(Enum{"PadMode", 2}).DType() != tensor.Unknown {
		t.Error(e)
	}
	if s := fmt.Sprint(OperatorNode, ConstantNode, ValueNode, NodeKind(9), Fixed(3), Symbol("n"),
		OpType(200)); s != "operator constant value #9 3 n #200" {
		t.Error(s)
	}
	if _, ok := ParseOpType("Swish"); ok || OpType(200).MaxInputs() != -1 || OpType(200).Known() {
		t.Error("an operator that is not there")
	}
}

// TestEveryOperatorIsBuilt is TestEveryOperatorRuns without RTen.
func TestEveryOperatorIsBuilt(t *testing.T) {
	for _, c := range calls() {
		for layout, opts := range layouts {
			var b bytes.Buffer
			if err := c.build(t).Write(t.Context(), &b, opts); err != nil {
				t.Fatalf("%s, %s: %v", c.op, layout, err)
			}
			r, err := OpenBytes(b.Bytes(), &ReaderOptions{Strict: true})
			if err != nil {
				t.Fatalf("%s, %s: %v", c.op, layout, err)
			}
			if _, err := r.Verify(t.Context(), &tensor.VerifyOptions{Strict: true}); err != nil {
				t.Errorf("%s, %s: %v", c.op, layout, err)
			}
			for n := range r.Model().Graph().Nodes() {
				op, ok := n.Operator()
				if !ok {
					continue
				}
				for name, want := range c.attrs {
					a, ok := op.Attribute(name)
					got, text := fmt.Sprint(a.Value), fmt.Sprint(want)
					if e, ok := a.Value.(Enum); ok && e.DType() != tensor.Unknown &&
						e.Type == "DataType" {
						if d, ok := want.(tensor.DType); ok {
							text = e.String()
							if e.DType() != d {
								t.Errorf("%s.%s is %v", c.op, name, e)
							}
						}
					}
					if text == "1" && got == "true" || text == "0" && got == "false" {
						got = text
					}
					if !ok || !a.Set || got != text {
						t.Errorf("%s.%s is %s, was given %s", c.op, name, got, text)
					}
				}
			}
		}
	}
}
