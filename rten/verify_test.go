package rten

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/rtenfb"
	"github.com/tensorfile/tensorfile/tensor"
)

func TestVerifyFindsWrongGraphs(t *testing.T) {
	gemm := func(b *raw) fb.Offset { b.Begin(); return b.End() }
	const tagGemm, opGemm, opAdd, opRelu = 11, 19, 0, 39
	for _, c := range []struct {
		name  string
		file  func(b *raw) fb.Offset // the graph
		field string
		class tensor.Class
	}{
		{"an operator as an input", func(b *raw) fb.Offset {
			return b.graph([]fb.Offset{b.value("x"), b.operator(opRelu, 0, 0, []uint32{0}, nil),
				b.operator(opRelu, 0, 0, []uint32{1}, nil)}, []uint32{0}, nil, nil)
		}, "graph.nodes[2].data.inputs[0]", tensor.ClassMalformed},
		{"a constant as an output", func(b *raw) fb.Offset {
			return b.graph([]fb.Offset{b.inline("c", 1),
				b.operator(opRelu, 0, 0, []uint32{0}, []uint32{0})}, nil, nil, nil)
		}, "graph.nodes[1].data.outputs[0]", tensor.ClassMalformed},
		{"two producers", func(b *raw) fb.Offset {
			return b.graph([]fb.Offset{b.inline("c", 1), b.value("y"),
				b.operator(opRelu, 0, 0, []uint32{0}, []uint32{1}),
				b.operator(opRelu, 0, 0, []uint32{0}, []uint32{1})}, nil, []uint32{1}, nil)
		}, "graph.nodes[3].data.outputs[0]", tensor.ClassMalformed},
		{"a cycle", func(b *raw) fb.Offset {
			return b.graph([]fb.Offset{b.value("a"), b.value("b"),
				b.operator(opRelu, 0, 0, []uint32{0}, []uint32{1}),
				b.operator(opRelu, 0, 0, []uint32{1}, []uint32{0})}, nil, []uint32{1}, nil)
		}, "graph.nodes[2]", tensor.ClassMalformed},
		{"an operator that reads what it writes", func(b *raw) fb.Offset {
			return b.graph([]fb.Offset{b.value("a"),
				b.operator(opRelu, 0, 0, []uint32{0}, []uint32{0})}, nil, []uint32{0}, nil)
		}, "graph.nodes[1]", tensor.ClassMalformed},
		{"a value from nowhere", func(b *raw) fb.Offset {
			return b.graph([]fb.Offset{b.value("a"), b.value("y"),
				b.operator(opRelu, 0, 0, []uint32{0}, []uint32{1})}, nil, []uint32{1}, nil)
		}, "graph.nodes[2].data.inputs[0]", tensor.ClassMalformed},
		{"an output from nowhere", func(b *raw) fb.Offset {
			return b.graph([]fb.Offset{b.value("y")}, nil, []uint32{0}, nil)
		}, "graph.nodes[0]", tensor.ClassMalformed},
		{"an operator as an output of the graph", func(b *raw) fb.Offset {
			return b.graph([]fb.Offset{b.inline("c", 1),
				b.operator(opRelu, 0, 0, []uint32{0}, nil)}, nil, []uint32{1}, nil)
		}, "graph.nodes[1]", tensor.ClassMalformed},
		{"an output twice", func(b *raw) fb.Offset {
			return b.graph([]fb.Offset{b.inline("c", 1)}, nil, []uint32{0, 0}, nil)
		}, "graph.outputs[1]", tensor.ClassMalformed},
		{"too many inputs", func(b *raw) fb.Offset {
			return b.graph([]fb.Offset{b.inline("c", 1),
				b.operator(opRelu, 0, 0, []uint32{0, 0}, nil)}, nil, nil, nil)
		}, "graph.nodes[1].data.inputs", tensor.ClassMalformed},
		{"too many inputs, the last of which is missing", func(b *raw) fb.Offset {
			return b.graph([]fb.Offset{b.inline("c", 1),
				b.operator(opRelu, 0, 0, []uint32{0, 1<<32 - 1}, nil)}, nil, nil, nil)
		}, "graph.nodes[1].data.inputs", tensor.ClassMalformed},
		{"no attributes", func(b *raw) fb.Offset {
			return b.graph([]fb.Offset{b.inline("c", 1),
				b.operator(opGemm, 0, 0, []uint32{0, 0}, nil)}, nil, nil, nil)
		}, "graph.nodes[1].data.attrs", tensor.ClassMalformed},
		{"the wrong attributes", func(b *raw) fb.Offset {
			return b.graph([]fb.Offset{b.inline("c", 1),
				b.operator(opGemm, 12, gemm(b), []uint32{0, 0}, nil)}, nil, nil, nil)
		}, "graph.nodes[1].data.attrs", tensor.ClassMalformed},
		{"attributes that nobody reads", func(b *raw) fb.Offset {
			return b.graph([]fb.Offset{b.inline("c", 1),
				b.operator(opAdd, tagGemm, gemm(b), []uint32{0, 0}, nil)}, nil, nil, nil)
		}, "graph.nodes[1].data.attrs", tensor.ClassMalformed},
		{"an enum value of a newer schema", func(b *raw) fb.Offset {
			b.Begin()
			b.force(rtenfb.SlotPadAttrsMode, 1, 9)
			attrs := b.End()
			return b.graph([]fb.Offset{b.inline("c", 1),
				b.operator(34, 40, attrs, []uint32{0, 0}, nil)}, nil, nil, nil)
		}, "graph.nodes[1].data.attrs.mode", tensor.ClassMalformed},
		{"an If with one branch", func(b *raw) fb.Offset {
			sub := b.graph(nil, nil, nil, nil)
			b.Begin()
			b.Ref(rtenfb.SlotIfAttrsThenBranch, sub)
			attrs := b.End()
			return b.graph([]fb.Offset{b.inline("c", 1),
				b.operator(OpIf, int(rtenfb.OperatorAttrsIfAttrs), attrs, []uint32{0}, nil)}, nil,
				nil, nil)
		}, "graph.nodes[1].data.attrs.else_branch", tensor.ClassMalformed},
		{"a Loop without a body", func(b *raw) fb.Offset {
			b.Begin()
			return b.graph([]fb.Offset{b.operator(OpLoop, int(rtenfb.OperatorAttrsLoopAttrs),
				b.End(), nil, nil)}, nil, nil, nil)
		}, "graph.nodes[0].data.attrs.body", tensor.ClassMalformed},
		{"a name twice", func(b *raw) fb.Offset {
			return b.graph([]fb.Offset{b.inline("c", 1), b.inline("c", 1)}, nil, nil, nil)
		}, "graph.nodes[1].name", tensor.ClassMalformed},
		{"a capture of nothing", func(b *raw) fb.Offset {
			sub := b.graph([]fb.Offset{b.value("far away"), b.value("here"), b.inline("own", 1),
				b.value("")}, nil, nil, []uint32{0, 1, 2, 3})
			b.Begin()
			b.Ref(rtenfb.SlotLoopAttrsBody, sub)
			attrs := b.End()
			return b.graph([]fb.Offset{b.inline("here", 1),
				b.operator(OpLoop, int(rtenfb.OperatorAttrsLoopAttrs), attrs, nil, nil)}, nil, nil,
				nil)
		}, "graph.nodes[1].body.captures[0]", tensor.ClassMalformed},
		{"too few inputs", func(b *raw) fb.Offset {
			return b.graph([]fb.Offset{b.inline("c", 1),
				b.operator(OpType(30), 0, 0, []uint32{0}, nil)}, nil, nil, nil)
		}, "graph.nodes[1].data.inputs[1]", tensor.ClassMalformed},
		{"a required input left out", func(b *raw) fb.Offset {
			return b.graph([]fb.Offset{b.inline("c", 1),
				b.operator(OpType(30), 0, 0, []uint32{1<<32 - 1, 0}, nil)}, nil, nil, nil)
		}, "graph.nodes[1].data.inputs[0]", tensor.ClassMalformed},
		{"an operator of a newer release", func(b *raw) fb.Offset {
			return b.graph([]fb.Offset{b.operator(145, 0, 0, nil, nil)}, nil, nil, nil)
		}, "graph.nodes[0].data.type", tensor.ClassUnsupported},
		{"attributes of a newer schema", func(b *raw) fb.Offset {
			b.Begin()
			return b.graph([]fb.Offset{b.operator(145, 63, b.End(), nil, nil)}, nil, nil, nil)
		}, "graph.nodes[0].data", tensor.ClassUnsupported},
		{"a field of a newer schema", func(b *raw) fb.Offset {
			b.Begin()
			b.force(slot(6), 4, 1)
			return b.graph([]fb.Offset{b.node("v", ValueNode, b.End())}, nil, nil, nil)
		}, "graph.nodes[0].data", tensor.ClassUnsupported},
		{"both inline and outside", func(b *raw) fb.Offset {
			values := b.Scalars(make([]byte, 4), 4, 4)
			b.Begin()
			b.Ref(rtenfb.SlotFloatDataData, values)
			data := b.End()
			shape := b.ints(1)
			b.Begin()
			b.force(rtenfb.SlotConstantNodeDataOffset, 8, 0)
			b.Ref(rtenfb.SlotConstantNodeShape, shape)
			b.Ref(rtenfb.SlotConstantNodeData, data)
			b.force(rtenfb.SlotConstantNodeDtype, 2, 1)
			b.force(rtenfb.SlotConstantNodeDataType, 1, 1)
			return b.graph([]fb.Offset{b.node("c", ConstantNode, b.End())}, nil, nil, nil)
		}, "graph.nodes[0].data.data_offset", tensor.ClassMalformed},
		{"a type that contradicts", func(b *raw) fb.Offset {
			values := b.Scalars(make([]byte, 4), 4, 4)
			b.Begin()
			b.Ref(rtenfb.SlotFloatDataData, values)
			data := b.End()
			shape := b.ints(1)
			b.Begin()
			b.Ref(rtenfb.SlotConstantNodeShape, shape)
			b.Ref(rtenfb.SlotConstantNodeData, data)
			b.force(rtenfb.SlotConstantNodeDtype, 2, 2)
			b.force(rtenfb.SlotConstantNodeDataType, 1, 1)
			return b.graph([]fb.Offset{b.node("c", ConstantNode, b.End())}, nil, nil, nil)
		}, "graph.nodes[0].data.dtype", tensor.ClassMalformed},
		{"an input of size 0", func(b *raw) fb.Offset {
			b.Begin()
			dims := b.Offsets([]fb.Offset{b.End()})
			b.Begin()
			b.Ref(rtenfb.SlotValueNodeShape, dims)
			return b.graph([]fb.Offset{b.node("x", ValueNode, b.End())}, []uint32{0}, nil, nil)
		}, "graph.nodes[0].data.shape[0]", tensor.ClassMalformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b raw
			file := v2(b.model(c.file(&b), 1), 4)
			r, err := OpenBytes(file, nil)
			if err != nil {
				t.Fatal(err)
			}
			_ = describe(r)
			if len(r.Warnings()) > 0 {
				if _, err := OpenBytes(file, &ReaderOptions{Strict: true}); err == nil {
					t.Error("strict opens what has warnings")
				}
			}
			report, err := r.Verify(t.Context(), nil)
			if err != nil || len(report.Findings) == 0 {
				t.Errorf("%v, reported %v", err, report.Findings)
			}
			report, _ = r.Verify(t.Context(), &tensor.VerifyOptions{Strict: true})
			// The four bytes of tensor data, which belong to nothing, have no field.
			i := slices.IndexFunc(report.Findings,
				func(x tensor.Finding) bool { return x.Field != "" })
			if i < 0 {
				t.Fatalf("no finding: %v", report.Findings)
			}
			f := report.Findings[i]
			if f.Offset <= 0 || f.Offset >= int64(len(file)) {
				t.Errorf("offset %d", f.Offset)
			}
			if f.Field != c.field || f.Class != c.class {
				t.Errorf("%s, %s: %v", f.Field, f.Class, f.Err)
			}
		})
	}
}

func TestVerifyFindsRangesThatOverlap(t *testing.T) {
	strict := &tensor.VerifyOptions{Strict: true}
	for _, c := range []struct {
		name  string
		n     int
		make  func(b *raw) []fb.Offset
		field string // of the first finding; "-" where it has none, "" where there is no finding
	}{
		{"all in order", 64,
			func(b *raw) []fb.Offset {
				return []fb.Offset{b.outside("a", 0, 8),
					b.outside("b", 32, 8)}
			}, ""},
		{"the same bytes twice", 64, func(b *raw) []fb.Offset {
			return []fb.Offset{b.outside("a", 0, 16), b.outside("b", 0, 16), b.outside("c", 0, 16)}
		}, ""},
		{"overlap by one element", 60,
			func(b *raw) []fb.Offset {
				return []fb.Offset{b.outside("a", 0, 8),
					b.outside("b", 28, 8)}
			}, "graph.nodes[1].data.data_offset"},
		{"one inside the other", 64,
			func(b *raw) []fb.Offset {
				return []fb.Offset{b.outside("a", 0, 16),
					b.outside("b", 4, 2)}
			}, "graph.nodes[1].data.data_offset"},
		{"no bytes inside another", 64,
			func(b *raw) []fb.Offset {
				return []fb.Offset{b.outside("a", 0, 16),
					b.outside("b", 4, 0)}
			}, ""},
		{"bytes of no tensor", 64,
			func(b *raw) []fb.Offset { return []fb.Offset{b.outside("a", 0, 8)} },
			"-"},
	} {
		r := openBytes(t, made(c.n, c.make))
		report, err := r.Verify(t.Context(), strict)
		field := ""
		if len(report.Findings) > 0 {
			field = cmp.Or(report.Findings[0].Field, "-")
		}
		if (err == nil) != (c.field == "") || field != c.field {
			t.Errorf("%s: %s: %v", c.name, field, err)
		}
	}
	var b raw
	file := v2(b.model(b.graph([]fb.Offset{b.outside("c", 0, 4)}, nil, nil, nil), 1), 16)
	copy(file[24:], []byte{32, 0, 0, 0, 0, 0, 0, 0}) // the tensor data begins where the model does
	r := openBytes(t, file)
	if _, err := r.Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if report, _ := r.Verify(t.Context(), strict); len(report.Findings) == 0 ||
		report.Findings[0].Field != "graph.nodes[0].data.data_offset" {
		t.Errorf("a tensor over the model: %v", report)
	}

	big := openBytes(t, manyConstants(t, 20_000))
	ctx, cancel := context.WithCancel(t.Context())
	var done, total int64
	_, err := big.Verify(ctx, &tensor.VerifyOptions{Progress: func(d, n int64) {
		if done, total = d, n; d > 1<<18 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) || done > 2<<20 || total != big.Size() {
		t.Errorf("cancelled: %v after %d of %d", err, done, total)
	}
	if _, err := big.Verify(t.Context(),
		&tensor.VerifyOptions{Progress: func(d, n int64) { done, total = d, n }}); err != nil ||
		done != total {
		t.Errorf("%v: %d of %d", err, done, total)
	}
}

func TestWarningsAreBounded(t *testing.T) {
	r := openBytes(t, made(0, func(b *raw) []fb.Offset {
		list := make([]fb.Offset, 2000)
		for i := range list {
			list[i] = b.operator(200, 0, 0, nil, nil)
		}
		return list
	}))
	if w := r.Warnings(); len(w) != 1001 || errors.Is(w[1000], errors.ErrUnsupported) {
		t.Errorf("%d warnings", len(w))
	}
	if _, err := OpenBytes(made(0,
		func(b *raw) []fb.Offset { return []fb.Offset{b.operator(200, 0, 0, nil, nil)} }),
		&ReaderOptions{Strict: true}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("strict: %v", err)
	}
}

func TestRequiresNamesTheOldestRelease(t *testing.T) {
	for _, c := range []struct {
		call   call
		v1     bool
		lowest string
		first  string
	}{
		{call{"Add", nil, in(f0(1), f0(1)), 1}, true, "0.2.0", ""},
		{call{"Add", nil, in(f0(1), f0(1)), 1}, false, "0.11.0", "version 2 of the file"},
		{call{"Gelu", nil, in(f0(1)), 1}, true, "0.11.0", "operator Gelu"},
		{call{"Gelu", Attrs{"approximate": "Tanh"}, in(f0(1)), 1}, true, "0.19.0",
			"attribute approximate of Gelu"},
		{call{"MaxPool", Attrs{"kernel_size": []int{2, 2}}, in(ramp(1, 1, 2, 2)), 1}, true,
			"0.2.0", ""},
		{call{"MaxPool", Attrs{"kernel_size": []int{2, 2}, "ceil_mode": true},
			in(ramp(1, 1, 2, 2)), 1}, true, "0.22.0", "attribute ceil_mode of MaxPool"},
		{call{"Pad", nil, in(f32(1), i32(1, 1)), 1}, true, "0.2.0", ""},
		{call{"Pad", Attrs{"mode": "Reflect"}, in(f32(1), i32(1, 1)), 1}, true, "0.13.1",
			"attribute mode of Pad"},
		{call{"Pad", Attrs{"mode": "Wrap"}, in(f32(1), i32(1, 1)), 1}, true, "0.22.0",
			"PadMode Wrap"},
		{call{"CumSum", nil, in(f32(1), i0(0)), 1}, true, "0.2.0", ""},
		{call{"CumSum", Attrs{"reverse": true}, in(f32(1), i0(0)), 1}, true, "0.26.0",
			"attribute reverse of CumSum"},
		{call{"Shape", Attrs{"start": 0}, in(f32(1)), 1}, true, "0.17.0",
			"attribute start of Shape"},
		{call{"ConvTranspose", nil, in(ramp(1, 2, 4, 4), ramp(2, 1, 2, 2)), 1}, true, "0.2.0", ""},
		{call{"ConvTranspose", Attrs{"dilations": []int{1, 1}},
			in(ramp(1, 2, 4, 4), ramp(2, 1, 2, 2)), 1}, true, "0.2.0", ""},
		{call{"ConvTranspose", Attrs{"dilations": []int{2, 1}},
			in(ramp(1, 2, 4, 4), ramp(2, 1, 2, 2)), 1}, true, "0.26.0",
			"attribute dilations of ConvTranspose"},
		{call{"Resize", Attrs{"coord_mode": "PytorchHalfPixel"},
			in(ramp(1, 1, 2, 2), nil, f32(1, 1, 2, 2)), 1}, true, "0.17.0",
			"CoordTransformMode PytorchHalfPixel"},
		{call{"Cast", Attrs{"to": tensor.U8}, in(f32(1)), 1}, true, "0.14.0", "DataType UInt8"},
		{call{"Identity", nil, in(i8(tensor.Shape{1}, 1)), 1}, true, "0.14.0",
			"constants of int8"},
		{call{"ReduceSum", Attrs{"noop_with_empty_axes": true}, in(f32(1)), 1}, true, "0.24.0",
			"attribute noop_with_empty_axes of ReduceSum"},
		{call{"LpNormalization", nil, in(f32(1)), 1}, true, "0.26.0", "operator LpNormalization"},
	} {
		opts := &WriterOptions{Version: "2"}
		if c.v1 {
			opts.Version = "1"
		}
		r, err := Open(writeModel(t, c.call.build(t), opts), nil)
		if err != nil {
			t.Fatal(err)
		}
		lowest, because := r.Model().Requires()
		first := ""
		if len(because) > 0 {
			first = because[0].What
		}
		if lowest != c.lowest || first != c.first {
			t.Errorf("%s %v: %s because of %v", c.call.op, c.call.attrs, lowest, because)
		}
		r.Close()
	}
	r := openBytes(t, made(0,
		func(b *raw) []fb.Offset { return []fb.Offset{b.operator(200, 0, 0, nil, nil)} }))
	if lowest, _ := r.Model().Requires(); lowest != "" {
		t.Errorf("an unknown operator runs in %s", lowest)
	}
	for name, data := range goldens(t) { // what a converter wrote runs in the runtime of its time
		var converter string
		if _, rest, ok := strings.Cut(name, "convert-"); ok {
			converter, _, _ = strings.Cut(rest, "-")
		} else {
			converter = "0.23.0"
		}
		lowest, because := openBytes(t, data).Model().Requires()
		var a, b [3]int
		fmt.Sscanf(lowest, "%d.%d.%d", &a[0], &a[1], &a[2])
		fmt.Sscanf(converter, "%d.%d.%d", &b[0], &b[1], &b[2])
		if converter == "0.4.0" {
			b[1] = 5 // it came out shortly before RTen 0.5, with its schema
		}
		if a[1]*100+a[2] > b[1]*100+b[2] {
			t.Errorf("%s needs %s: %v", name, lowest, because)
		}
	}
}
