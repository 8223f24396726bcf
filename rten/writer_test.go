package rten

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/schema/rtenfb"
	"github.com/tensorfile/tensorfile/tensor"
)

func TestLayoutIsTheConverters(t *testing.T) {
	// The example of the format's description: sizes 160, 80, 17, 17, 68 at 0,
	// 192, 320, 384, 448; up to 16 elements stay in the model.
	g := NewGraphBuilder()
	for _, x := range []*tensor.Tensor{ramp(40), ramp(20),
		i8(tensor.Shape{17}, make([]int8, 17)...), u8(tensor.Shape{17}, make([]uint8, 17)...),
		ramp(17), ramp(16), ramp(0, 4), f0(1)} {
		g.Constant(x)
	}
	var b bytes.Buffer
	if err := g.Write(t.Context(), &b, nil); err != nil {
		t.Fatal(err)
	}
	r := openBytes(t, b.Bytes())
	h, _ := r.Header()
	if h.ModelOffset != 32 || h.TensorOffset != (32+h.ModelSize+63)/64*64 ||
		r.Size() != h.TensorOffset+448+68 {
		t.Errorf("%+v, %d bytes", h, r.Size())
	}
	want := []int64{0, 192, 320, 384, 448, -1, -1, -1}
	for i := range r.Len() {
		c := r.Model().Constant(i)
		st, _ := c.Tensor().Data.Stored()
		if c.Inline() != (want[i] < 0) || want[i] >= 0 && st.Offset != h.TensorOffset+want[i] {
			t.Errorf("constant %d at %d", i, st.Offset-h.TensorOffset)
		}
		if b.Bytes()[4] != 2 {
			t.Error("no version")
		}
	}
	again := new(bytes.Buffer)
	if err := g.Write(t.Context(), again, nil); err != nil ||
		!bytes.Equal(b.Bytes(), again.Bytes()) {
		t.Errorf("the same twice gives other bytes: %v", err)
	}
	g2 := NewGraphBuilder()
	g2.Output("y", g2.Input("x", tensor.F32))
	b.Reset()
	if err := g2.Write(t.Context(), &b, nil); err != nil {
		t.Fatal(err)
	}
	if r := openBytes(t, b.Bytes()); r.header.TensorOffset != r.Size() || r.Size()%64 != 0 {
		t.Errorf("without tensor data: %+v, %d bytes", r.header, r.Size())
	}
}

func TestAbsentAttributesHaveTheirDefaults(t *testing.T) {
	attrs := func(r *Reader, node int) string {
		op, _ := r.Model().Graph().Node(node).Operator()
		var s []string
		for a := range op.Attributes() {
			s = append(s, fmt.Sprintf("%s=%v:%v", a.Name, a.Value, a.Set))
		}
		return strings.Join(s, " ")
	}
	const gemm, softmax, pool, conv, transposed, attention = 11, 20, 2, 7, 8, 60
	absent := openBytes(t, made(0, func(b *raw) []fb.Offset {
		var list []fb.Offset
		for _, tag := range []int{gemm, softmax, conv, transposed, attention} {
			b.Begin()
			list = append(list, b.operator(0, tag, b.End(), nil, nil))
		}
		kernel := b.ints(2, 3)
		b.Begin()
		b.Ref(rtenfb.SlotAveragePoolAttrsKernelSize, kernel)
		pooled := b.End()
		list = append(list, b.operator(0, pool, pooled, nil, nil))
		strides := b.ints(3, 3, 3)
		b.Begin()
		b.force(rtenfb.SlotConvTransposeAttrsAutoPad, 1, 0)
		b.Ref(rtenfb.SlotConvTransposeAttrsStrides, strides)
		trans := b.End()
		list = append(list, b.operator(0, transposed, trans, nil, nil))
		return append(list, b.operator(34, 0, 0, nil, nil)) // Pad without a table
	}))
	for i, want := range []string{
		"alpha=0:false beta=0:false transpose_a=false:false transpose_b=false:false",
		"axis=0:false",
		"auto_pad=Same:false pads=<nil>:false groups=0:false strides=[1 1]:false dilations=[1 1]:false",
		"strides=[1 1]:false auto_pad=NotSet:false pads=[0 0 0 0]:false groups=1:false output_padding=<nil>:false dilations=[1 1]:false",
		"is_causal=false:false q_num_heads=<nil>:false kv_num_heads=<nil>:false scale=<nil>:false softcap=0:false",
		"kernel_size=[2 3]:true auto_pad=Same:false pads=<nil>:false strides=[1 1]:false count_include_pad=false:false ceil_mode=false:false",
		"strides=[3 3 3]:true auto_pad=Same:true pads=<nil>:false groups=1:false output_padding=<nil>:false dilations=[1 1 1]:false",
		"mode=Constant:false",
	} {
		if got := attrs(absent, i); got != want {
			t.Errorf("absent, node %d:\n%s\nwant\n%s", i, got, want)
		}
	}
	g := NewGraphBuilder()
	x := g.Input("x", tensor.F32)
	g.Op("Gemm", nil, x, x)
	g.Op("Softmax", nil, x)
	g.Op("Conv", nil, x, x)
	g.Op("Attention", Attrs{"scale": 0.5, "softcap": nil}, x, x, x)
	var b bytes.Buffer
	if err := g.Write(t.Context(), &b, nil); err != nil {
		t.Fatal(err)
	}
	written := openBytes(t, b.Bytes())
	for node, want := range map[int]string{
		2: "alpha=1:true beta=1:true transpose_a=false:true transpose_b=false:true",
		4: "axis=-1:true",
		6: "auto_pad=NotSet:true pads=[0 0 0 0]:true groups=1:true strides=[1 1]:true dilations=[1 1]:true",
		8: "is_causal=false:true q_num_heads=<nil>:false kv_num_heads=<nil>:false scale=0.5:true softcap=0:true",
	} {
		if got := attrs(written, node); got != want {
			t.Errorf("written, node %d:\n%s\nwant\n%s", node, got, want)
		}
	}
}

// The messages of mistakes of a program, which have no fields of a file, name the
// operator, attribute or value that is wrong.
func TestBuilderMistakesNameWhatIsWrong(t *testing.T) {
	outer := NewGraphBuilder()
	foreign := outer.Input("x", tensor.F32)
	for name, c := range map[string]struct {
		build   func(g *GraphBuilder, x Ref)
		message string
	}{
		"an operator that is none": {func(g *GraphBuilder, x Ref) { g.Op("MatMulNBits", nil, x) },
			`operator "MatMulNBits"`},
		"an attribute that is none": {func(g *GraphBuilder, x Ref) {
			g.Op("Gemm", Attrs{"alhpa": 1}, x, x)
		}, `no attribute is named "alhpa"; there are alpha, beta, transpose_a, transpose_b`},
		"attributes of Add": {func(g *GraphBuilder, x Ref) {
			g.Op("Add", Attrs{"axis": 1}, x, x)
		}, "it has no attributes"},
		"a string as a number": {func(g *GraphBuilder, x Ref) {
			g.Op("Gemm", Attrs{"alpha": "1"}, x, x)
		}, "string where a number is required"},
		"a float as an integer": {func(g *GraphBuilder, x Ref) {
			g.Op("Softmax", Attrs{"axis": 1.5}, x)
		}, "float64 where an integer is required"},
		"an integer out of range": {func(g *GraphBuilder, x Ref) {
			g.Op("Softmax", Attrs{"axis": int64(1) << 40}, x)
		}, "is not between"},
		"a negative size": {func(g *GraphBuilder, x Ref) {
			g.Op("Transpose", Attrs{"perm": []int{-1}}, x)
		}, "is not between"},
		"a mode that is none": {func(g *GraphBuilder, x Ref) {
			g.Op("Pad", Attrs{"mode": "reflect"}, x, x)
		}, `"reflect" is not a PadMode; there are Constant, Reflect, Edge, Wrap`},
		"another enum": {func(g *GraphBuilder, x Ref) {
			g.Op("Pad", Attrs{"mode": Enum{"AutoPad", 1}}, x, x)
		}, "AutoPad where PadMode is required"},
		"a type RTen lacks": {func(g *GraphBuilder, x Ref) {
			g.Op("Cast", Attrs{"to": tensor.F16}, x)
		}, "float16 is not a DataType"},
		"no required attribute": {func(g *GraphBuilder, x Ref) { g.Op("Concat", nil, x) },
			"attribute axis: invalid argument: ONNX has no default for it"},
		"too many inputs": {func(g *GraphBuilder, x Ref) { g.Op("Relu", nil, x, x) },
			"2 inputs where RTen takes at most 1"},
		"another graph": {func(g *GraphBuilder, x Ref) { g.Op("Relu", nil, foreign) },
			"a graph that is not around this one"},
		"a branch of another graph": {func(g *GraphBuilder, x Ref) {
			g.Op("Loop", Attrs{"body": outer.Subgraph()}, x)
		}, "is not a Subgraph of the one"},
		"a constant of float64": {func(g *GraphBuilder, x Ref) {
			g.Constant(tensor.New("w", nil, []float64{1}))
		}, "does not have float64"},
		"a constant that is nil": {func(g *GraphBuilder, x Ref) { g.Constant(nil) },
			"a nil *Tensor"},
		"a constant of too little": {func(g *GraphBuilder, x Ref) {
			g.Constant(tensor.New("w", tensor.Shape{2}, []float32{1}))
		}, "4 bytes of data where"},
		"a column-major constant": {func(g *GraphBuilder, x Ref) {
			w := *ramp(2, 3)
			w.Order = tensor.ColumnMajor(2)
			g.Constant(&w)
		}, "not row-major"},
		"a huge dimension": {func(g *GraphBuilder, x Ref) {
			g.Constant(reshaped(ramp(0), 0, 1<<32))
		}, "a dimension of 4294967296"},
		"a name twice": {func(g *GraphBuilder, x Ref) { g.Input("x", tensor.F32) },
			`another constant or value is named "x"`},
		"a name that is bytes": {func(g *GraphBuilder, x Ref) { g.Input("\xff", tensor.F32) },
			"is not UTF-8"},
		"a symbol that is bytes": {func(g *GraphBuilder, x Ref) {
			g.Input("y", tensor.F32, Symbol("\xff"))
		}, "is not UTF-8"},
		"a value of bool": {func(g *GraphBuilder, x Ref) { g.Input("y", tensor.Bool) },
			"RTen has no bool"},
		"metadata that is none": {func(g *GraphBuilder, x Ref) { g.SetMetadata("author", "me") },
			`no metadata named "author"`},
		"metadata that is bytes": {func(g *GraphBuilder, x Ref) {
			g.SetMetadata("license", "\xff")
		}, "the value of license is not UTF-8"},
		"outputs below zero": {func(g *GraphBuilder, x Ref) { g.Ops("Split", nil, -1, x) },
			"-1 outputs"},
		"a value from nowhere": {func(g *GraphBuilder, x Ref) {
			g.Op("Neg", nil, g.Value("v", tensor.F32))
		}, "Neg: input 0 is computed by nothing before it"},
		"a value twice": {func(g *GraphBuilder, x Ref) {
			v := g.Value("v", tensor.F32)
			g.OpInto([]Ref{v}, "Neg", nil, x)
			g.OpInto([]Ref{v}, "Abs", nil, x)
		}, "Abs: output 0 has a value already"},
		"an input as an output": {func(g *GraphBuilder, x Ref) {
			g.OpInto([]Ref{x}, "Neg", nil, x)
		}, "Neg: output 0 has a value already"},
		"a constant as an output": {func(g *GraphBuilder, x Ref) {
			g.OpInto([]Ref{g.Constant(ramp(2))}, "Neg", nil, x)
		}, "Neg: output 0 has a value already"},
		"an output from nowhere": {func(g *GraphBuilder, x Ref) {
			g.Output("v", g.Value("v", tensor.F32))
		}, "output 0 of the graph is computed by nothing"},
		"an output twice": {func(g *GraphBuilder, x Ref) {
			y := g.Op("Neg", nil, x)
			g.Output("y", y)
			g.Output("y", y)
		}, "output 1 of the graph is output 0 again"},
		"an output of nothing": {func(g *GraphBuilder, x Ref) { g.Output("y", Ref{}) },
			"is nothing"},
		"a shadowed capture": {func(g *GraphBuilder, x Ref) {
			body := g.Subgraph()
			inner := body.Subgraph()
			body.Constant(tensor.New("x", nil, []float32{1}))
			inner.Output("i", inner.Op("Neg", nil, x))
			body.Op("Loop", Attrs{"body": inner})
			g.Op("Loop", Attrs{"body": body})
		}, "a graph in between has one"},
	} {
		g := NewGraphBuilder()
		c.build(g, g.Input("x", tensor.F32))
		var b bytes.Buffer
		if err := g.Write(t.Context(), &b, nil); err == nil ||
			!strings.Contains(err.Error(), c.message) || b.Len() > 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := outer.Subgraph().Write(t.Context(), io.Discard, nil); err == nil {
		t.Error("a subgraph was written")
	}
	for _, opts := range []*WriterOptions{{Version: "3"}, {Version: "-1"}, {Alignment: 3},
		{Alignment: 2}, {Alignment: -64}, {Alignment: 1 << 40}} {
		if err := outer.Write(t.Context(), io.Discard, opts); err == nil {
			t.Errorf("%+v", opts)
		}
	}
	deep := NewGraphBuilder()
	g := deep
	for range 16 {
		body := g.Subgraph()
		g.Op("Loop", Attrs{"body": body})
		g = body
	}
	if err := deep.Write(t.Context(), io.Discard, nil); !errors.Is(err, tensor.ErrLimit) {
		t.Errorf("16 loops: %v", err)
	}
}

// A weight that is used at several places of a formula is one constant, and in a branch
// one more with the same bytes.
func TestOneTensorIsOneConstant(t *testing.T) {
	w := ramp(2, 20)
	w.Name = "w"
	g := NewGraphBuilder()
	x := g.Input("x", tensor.F32)
	y := g.Op("Add", nil, g.Op("Mul", nil, x, g.Constant(w)), g.Constant(w))
	body := g.Subgraph()
	body.Output("", body.Op("Mul", nil, y, body.Constant(w)))
	other := g.Subgraph()
	other.Output("", other.Op("Neg", nil, y))
	g.Output("y", g.Op("If", Attrs{"then_branch": body, "else_branch": other},
		g.Input("c", tensor.I32, []Dim{}...)))
	var b bytes.Buffer
	if err := g.Write(t.Context(), &b, nil); err != nil {
		t.Fatal(err)
	}
	r, err := OpenBytes(b.Bytes(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.Len() != 2 {
		t.Fatalf("%d constants", r.Len())
	}
	first, _ := r.Model().Constant(0).Tensor().Data.Stored()
	second, _ := r.Model().Constant(1).Tensor().Data.Stored()
	if first.Offset != second.Offset {
		t.Errorf("stored at %d and %d", first.Offset, second.Offset)
	}
}

func TestWriterFailsAtEveryByte(t *testing.T) {
	g := NewGraphBuilder()
	g.Output("y", g.Op("Add", nil,
		g.Constant(tensor.New("w", tensor.Shape{3000}, make([]float32, 3000))), g.Constant(f0(1))))
	for name, opts := range layouts {
		if err := readtest.FailedWrites(func(w io.Writer) error {
			return g.Write(t.Context(), w, opts)
		}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	file := filepath.Join(t.TempDir(), "model.rten")
	if err := os.WriteFile(file, []byte("old"), 0o666); err != nil {
		t.Fatal(err)
	}
	lie := func(n int) *GraphBuilder {
		g := NewGraphBuilder()
		g.Constant(&tensor.Tensor{Name: "w", DType: tensor.F32, Shape: tensor.Shape{2000},
			Data: tensor.BlobFunc(8000, func() (io.ReadCloser, error) {
				return io.NopCloser(bytes.NewReader(make([]byte, n))), nil
			})})
		return g
	}
	broken := NewGraphBuilder()
	broken.Constant(&tensor.Tensor{DType: tensor.F32, Shape: tensor.Shape{2000},
		Data: tensor.BlobFunc(8000,
			func() (io.ReadCloser, error) { return nil, readtest.ErrInjected })})
	for name, g := range map[string]*GraphBuilder{"a source that is shorter": lie(7999),
		"a source that is longer": lie(8001), "a source that fails": broken} {
		for _, version := range []string{"1", "2"} {
			if err := g.WriteFile(t.Context(), file,
				&WriterOptions{Version: version}); err == nil {
				t.Errorf("%s, version %q: written", name, version)
			}
			if b, err := os.ReadFile(file); err != nil || string(b) != "old" {
				t.Errorf("%s: the old file is %q %v", name, b, err)
			}
		}
	}
	if list, _ := os.ReadDir(filepath.Dir(file)); len(list) != 1 {
		t.Errorf("left behind: %v", list)
	}
	giant := func(n int64) *GraphBuilder {
		g := NewGraphBuilder()
		g.Constant(&tensor.Tensor{Name: "giant", DType: tensor.I8, Shape: tensor.Shape{n},
			Data: tensor.BlobFunc(n, func() (io.ReadCloser, error) {
				t.Error("read before the size was checked")
				return nil, io.EOF
			})})
		return g
	}
	if err := giant(1<<31).Write(t.Context(), io.Discard,
		&WriterOptions{Version: "1"}); !errors.Is(err, tensor.ErrLimit) {
		t.Errorf("2 GiB in version 1: %v", err)
	}
	if math.MaxInt > 1<<31 {
		if err := giant(1<<31).Write(t.Context(), io.Discard,
			&WriterOptions{InlineElements: math.MaxInt}); !errors.Is(err, tensor.ErrLimit) {
			t.Errorf("2 GiB inline: %v", err)
		}
	}
}

func TestUnknownContentIsReadAndNotRewritten(t *testing.T) {
	// An operator, its attributes, and fields that are newer than this library.
	future := func(version string) []byte {
		var b raw
		s := b.String("of a newer schema")
		b.Begin()
		b.Ref(slot(0), s)
		b.force(slot(1), 8, 0x1122334455667788)
		attrs := b.End()
		op := b.operator(145, 63, attrs, []uint32{0}, []uint32{2})
		b.Begin()
		b.force(slot(7), 4, 77)
		value := b.node("y", ValueNode, b.End())
		nodes := []fb.Offset{b.inline("small", 2, 2), b.inline("c", 20, 20), value, op}
		if version == "2" {
			nodes[1] = b.outside("c", 0, 20)
		}
		license := b.String("MIT")
		b.Begin()
		b.Ref(rtenfb.SlotMetadataLicense, license)
		metadata := b.End()
		graph := b.graph(nodes, nil, []uint32{2}, nil)
		b.Begin()
		b.Ref(rtenfb.SlotModelMetadata, metadata)
		b.Ref(rtenfb.SlotModelGraph, graph)
		b.force(rtenfb.SlotModelSchemaVersion, 4, 1)
		buf, err := b.Finish(b.End(), "")
		if err != nil {
			t.Fatal(err)
		}
		if version == "2" {
			return v2(bytes.Clone(buf), 80)
		}
		return bytes.Clone(buf)
	}
	seen := func(r *Reader) string {
		m := r.Model()
		n := m.Graph().Node(3)
		op, _ := n.Operator()
		_, attrs := op.attrs()
		text, _ := fb.FieldBytes(attrs, slot(0), 1)
		number := attrs.GetUint64Slot(flatbuffers.VOffsetT(slot(1)), 0)
		value, _ := m.Graph().Node(2).Value()
		raw := &value.raw
		newer := raw.Table()
		return fmt.Sprint(op.Type(), op.AttrsTable(), string(text), number,
			newer.GetUint32Slot(flatbuffers.VOffsetT(slot(7)), 0), len(r.Warnings()))
	}
	for _, version := range []string{"1", "2"} {
		r := openBytes(t, future(version))
		want := "#145#63of a newer schema1234605616436508552" + "77" + "3"
		if got := strings.ReplaceAll(seen(r), " ", ""); got != strings.ReplaceAll(want, " ", "") {
			t.Fatalf("%s, want %s", got, want)
		}
		for _, opts := range []*WriterOptions{nil, {Version: "1"}, {Version: "2"}} {
			var out bytes.Buffer
			p := NewEdit(r)
			err := errors.Join(p.SetAttribute("license", "another"),
				p.Write(t.Context(), &out, opts))
			if !errors.Is(err, errors.ErrUnsupported) || out.Len() > 0 {
				t.Errorf("version %q to %+v: %v, %d bytes", version, opts, err, out.Len())
			}
		}
	}
}

func TestWriteFileKeepsWhatItCannotRead(t *testing.T) {
	name := filepath.Join(t.TempDir(), "m.rten")
	if err := os.WriteFile(name, golden(t, "convert-0.22.0-basic"), 0o666); err != nil {
		t.Fatal(err)
	}
	r, err := Open(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p := NewEdit(r)
	if err := p.SetAttribute("description", "in place"); err != nil {
		t.Fatal(err)
	}
	w := ramp(4, 5)
	if err := p.Replace("w", w); err != nil {
		t.Fatal(err)
	}
	if err := p.WriteFile(t.Context(), name, nil); err != nil { // over the file that is read
		t.Skip("skip: this system does not replace a file that is open: ", err)
	}
	got, err := Open(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	if v, err := tensor.Load[float32](got.Tensor("w")); err != nil || v[19] != 2 {
		t.Errorf("%v %v", v, err)
	}
}

func TestNoReplaceKeepsTheFileAndProgressReachesTheTotal(t *testing.T) {
	name := filepath.Join(t.TempDir(), "m.rten")
	ts := tensor.Sorted(map[string]*tensor.Tensor{"w": ramp(4, 5)})
	var done, total int64
	opts := &WriterOptions{NoReplace: true,
		Progress: func(d, n int64) { done, total = d, n }}
	if err := WriteFile(t.Context(), name, ts, opts); err != nil {
		t.Fatal(err)
	}
	r, err := Open(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if done != r.Size() || total != r.Size() || r.Tensor("w") == nil {
		t.Errorf("%d of %d bytes, the file has %d", done, total, r.Size())
	}
	g := NewGraphBuilder()
	g.Constant(ramp(2))
	for _, err := range []error{WriteFile(t.Context(), name, ts, opts),
		NewEdit(r).WriteFile(t.Context(), name, opts), g.WriteFile(t.Context(), name, opts)} {
		if !errors.Is(err, fs.ErrExist) {
			t.Errorf("got %v", err)
		}
	}
}
