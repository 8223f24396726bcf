package rten

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/schema/rtenfb"
	"github.com/tensorfile/tensorfile/tensor"
)

func TestFlatbufferStructureIsVerified(t *testing.T) {
	file := golden(t, "rust-0.23.0-v1")
	with := func(at int, b ...byte) []byte {
		c := bytes.Clone(file)
		copy(c[at:], b)
		return c
	}
	root := int(binary.LittleEndian.Uint32(file))
	vtable := root - int(int32(binary.LittleEndian.Uint32(file[root:])))
	for name, c := range map[string][]byte{
		"root 0": with(0, 0, 0, 0, 0), "root 1": with(0, 1, 0, 0, 0),
		"root 3":                   with(0, 3, 0, 0, 0),
		"root at the end":          with(0, byte(len(file)), byte(len(file)>>8), 0, 0),
		"root beyond":              with(0, 0xff, 0xff, 0xff, 0x7f),
		"vtable before the buffer": with(root, 0, 0, 0, 0x7f),
		"vtable behind the buffer": with(root, 0, 0, 0, 0x80),
		"vtable odd":               with(root, file[root]^1),
		"vtable is the table":      with(root, 0, 0, 0, 0), "vtable of 0": with(vtable, 0, 0),
		"vtable of 2": with(vtable, 2, 0), "vtable of 3": with(vtable, 3, 0),
		"vtable of 65535": with(vtable, 0xff, 0xff), "vtable of 65534": with(vtable, 0xfe, 0xff),
		"field 1": with(vtable+4, 1, 0), "field 3": with(vtable+6, 3, 0),
		"field far away":   with(vtable+6, 0xfc, 0xff),
		"field misaligned": with(vtable+6, file[vtable+6]^2),
		"size prefix":      append([]byte{byte(len(file)), byte(len(file) >> 8), 0, 0}, file...),
	} {
		refuse(t, name, c, tensor.ErrMalformed)
	}
	name := bytes.Index(file, []byte("add\x00"))
	refuse(t, "a string without NUL", with(name, 'a', 'd', 'd', 'd'), tensor.ErrMalformed)
	refuse(t, "a string that is not UTF-8", with(name, 0xff), tensor.ErrMalformed)
	refuse(t, "a string of 2^32-1", with(name-4, 0xff, 0xff, 0xff, 0xff), tensor.ErrMalformed)
}

func TestCycleByWrappedOffsetsIsRefused(t *testing.T) {
	var b raw
	b.Begin()
	b.force(rtenfb.SlotGraphNodes, 4, 0) // becomes the way back
	leaf := b.End()
	b.Begin()
	b.Ref(rtenfb.SlotIfAttrsThenBranch, leaf)
	attrs := b.End()
	file := b.model(b.graph([]fb.Offset{b.operator(OpIf, int(rtenfb.OperatorAttrsIfAttrs), attrs,
		nil, nil)}, nil, nil, nil), 1)
	graph, node, table := firstAttrs(file)
	field := table + 4
	binary.LittleEndian.PutUint32(file[field:], uint32(graph-field)) // negative
	refuse(t, "the graph is its own branch", file, tensor.ErrMalformed)
	if len(file) > 200 {
		t.Errorf("the attack takes %d bytes", len(file))
	}
	for at := 0; at+4 <= len(file); at += 4 { // every offset that leads back
		for _, to := range []int{0, graph, node, table} {
			c := bytes.Clone(file)
			binary.LittleEndian.PutUint32(c[at:], uint32(to-at))
			readtest.Survives(t, func() error { return walk(c) }, "%d leads to %d", at, to)
		}
	}
}

func TestAmplificationIsALimit(t *testing.T) {
	for _, n := range []int{10, 13} {
		file := nest(n)
		refuse(t, fmt.Sprintf("doubling If × %d in %d bytes", n, len(file)), file, tensor.ErrLimit)
	}
	refuse(t, "doubling If × 60", nest(60), tensor.ErrLimit)
	refuse(t, "10 levels of 8", func() []byte {
		var b raw
		graph := b.graph(nil, nil, nil, nil)
		for range 10 {
			b.Begin()
			b.Ref(rtenfb.SlotLoopAttrsBody, graph)
			op := b.operator(OpLoop, int(rtenfb.OperatorAttrsLoopAttrs), b.End(), nil, nil)
			graph = b.graph([]fb.Offset{op, op, op, op, op, op, op, op}, nil, nil, nil)
		}
		return b.model(graph, 1)
	}(), tensor.ErrLimit)
	refuse(t, "400,000 nodes that are one", func() []byte {
		var b raw
		c := b.inline("c", 1)
		list := make([]fb.Offset, 400_000)
		for i := range list {
			list[i] = c
		}
		return b.model(b.graph(list, nil, nil, nil), 1)
	}(), tensor.ErrLimit)
	refuse(t, "20,000 constants over one vector of 256 KiB", func() []byte {
		var b raw
		values := b.Scalars(make([]byte, 256<<10), 4, 4)
		b.Begin()
		b.Ref(rtenfb.SlotFloatDataData, values)
		data := b.End()
		shape := b.ints(64 << 10)
		list := make([]fb.Offset, 20_000)
		for i := range list {
			b.Begin()
			b.Ref(rtenfb.SlotConstantNodeShape, shape)
			b.Ref(rtenfb.SlotConstantNodeData, data)
			b.force(rtenfb.SlotConstantNodeDataType, 1, 1)
			list[i] = b.node("", ConstantNode, b.End())
		}
		return b.model(b.graph(list, nil, nil, nil), 1)
	}(), tensor.ErrLimit)
}

func TestDepthIsALimit(t *testing.T) {
	if _, err := OpenBytes(loops(15), nil); err != nil { // the 15th body is table 62
		t.Errorf("15 levels: %v", err)
	}
	for _, c := range []struct {
		limit int64
		ok    bool
	}{{62, true}, {61, false}, {1, false}, {0, true}} {
		if _, err := OpenBytes(loops(15),
			&ReaderOptions{Limits: tensor.Limits{MaxDepth: c.limit}}); (err == nil) != c.ok ||
			err != nil && !errors.Is(err, tensor.ErrLimit) {
			t.Errorf("15 levels, at most %d tables: %v", c.limit, err)
		}
	}
	refuse(t, "16 levels", loops(16), tensor.ErrLimit)
	refuse(t, "20,000 levels", loops(20_000), tensor.ErrLimit)
}

func TestUnionsWithoutTypeOrDataAreRefused(t *testing.T) {
	node := func(f func(b *raw) fb.Offset) []byte {
		return made(0, func(b *raw) []fb.Offset { return []fb.Offset{f(b)} })
	}
	refuse(t, "a node's type without data", node(func(b *raw) fb.Offset {
		b.Begin()
		b.force(rtenfb.SlotNodeDataType, 1, 2)
		return b.End()
	}), tensor.ErrMalformed)
	refuse(t, "a node's data without type", node(func(b *raw) fb.Offset {
		b.Begin()
		v := b.End()
		b.Begin()
		b.Ref(rtenfb.SlotNodeData, v)
		return b.End()
	}), tensor.ErrMalformed)
	refuse(t, "a node that is nothing", node(func(b *raw) fb.Offset {
		b.Begin()
		return b.End()
	}), tensor.ErrMalformed)
	refuse(t, "a node of an unknown kind", node(func(b *raw) fb.Offset {
		b.Begin()
		return b.node("n", 4, b.End())
	}), errors.ErrUnsupported)
	refuse(t, "attributes: tag without value", node(func(b *raw) fb.Offset {
		b.Begin()
		b.force(rtenfb.SlotOperatorNodeAttrsType, 1, 1)
		return b.node("op", OperatorNode, b.End())
	}), tensor.ErrMalformed)
	refuse(t, "elements of an unknown kind", node(func(b *raw) fb.Offset {
		b.Begin()
		data := b.End()
		shape := b.ints(1)
		b.Begin()
		b.Ref(rtenfb.SlotConstantNodeShape, shape)
		b.Ref(rtenfb.SlotConstantNodeData, data)
		b.force(rtenfb.SlotConstantNodeDataType, 1, 5)
		return b.node("c", ConstantNode, b.End())
	}), errors.ErrUnsupported)
	refuse(t, "no elements at all", node(func(b *raw) fb.Offset {
		shape := b.ints(1)
		b.Begin()
		b.Ref(rtenfb.SlotConstantNodeShape, shape)
		b.force(rtenfb.SlotConstantNodeDtype, 2, 1)
		return b.node("c", ConstantNode, b.End())
	}), tensor.ErrMalformed)
	refuse(t, "outside, without a type",
		made(64, func(b *raw) []fb.Offset { return []fb.Offset{b.outsideOf("c", -1, 0, 1)} }),
		tensor.ErrMalformed)
	refuse(t, "outside, of an unknown type",
		made(64, func(b *raw) []fb.Offset { return []fb.Offset{b.outsideOf("c", 77, 0, 1)} }),
		errors.ErrUnsupported)
	refuse(t, "a value of an unknown type", node(func(b *raw) fb.Offset {
		b.Begin()
		b.force(rtenfb.SlotValueNodeDtype, 1, 77)
		return b.node("v", ValueNode, b.End())
	}), errors.ErrUnsupported)
	refuse(t, "outside in version 1", func() []byte {
		var b raw
		return b.model(b.graph([]fb.Offset{b.outside("c", 0, 1)}, nil, nil, nil), 1)
	}(), tensor.ErrMalformed)

	// A tag that says another member than the table is: the elements are
	// garbage, but they are the bytes of the file.
	r, err := OpenBytes(node(func(b *raw) fb.Offset {
		values := b.Scalars(bytes.Repeat([]byte{9}, 64), 1, 4) // as UInt8Data has them
		b.Begin()
		b.Ref(rtenfb.SlotFloatDataData, values)
		data := b.End()
		shape := b.ints(16)
		b.Begin()
		b.Ref(rtenfb.SlotConstantNodeShape, shape)
		b.Ref(rtenfb.SlotConstantNodeData, data)
		b.force(rtenfb.SlotConstantNodeDataType, 1, 1) // FloatData: 64 floats
		return b.node("c", ConstantNode, b.End())
	}), nil)
	if err == nil {
		t.Errorf("a vector that is longer as another type: %v", r.Model().Constant(0).Tensor())
	}
}

func TestRequiredFieldsAreRequired(t *testing.T) {
	var b raw
	refuse(t, "no graph", b.model(0, 1), tensor.ErrMalformed)
	b = raw{}
	b.Begin()
	data := b.End()
	refuse(t, "no shape", b.model(b.graph([]fb.Offset{b.node("c", ConstantNode, data)}, nil, nil,
		nil), 1), tensor.ErrMalformed)
	for _, v := range []int32{0, 2, -1} {
		b = raw{}
		class := map[bool]error{true: errors.ErrUnsupported, false: tensor.ErrMalformed}[v > 1]
		refuse(t, fmt.Sprintf("schema version %d", v),
			v2(b.model(b.graph(nil, nil, nil, nil), v), 0), class)
	}
	// An empty graph, an empty operator, an empty value.
	b = raw{}
	b.Begin()
	r := openBytes(t, b.model(b.End(), 1))
	if r.Len() != 0 || r.Model().Graph().Len() != 0 {
		t.Error("an empty graph is not empty")
	}
	r = openBytes(t, made(0, func(b *raw) []fb.Offset {
		b.Begin()
		v := b.node("v", ValueNode, b.End())
		b.Begin()
		return []fb.Offset{v, b.node("op", OperatorNode, b.End())}
	}))
	op, ok := r.Model().Graph().Node(1).Operator()
	if !ok || op.Type().String() != "Add" || op.Inputs() != nil || op.AttrsTable() != "" {
		t.Errorf("an empty operator is %v", op)
	}
	// every table of attributes, empty
	for tag := 1; tag < len(rtenfb.Schema.Unions[rtenfb.UnionOperatorAttrs].Members); tag++ {
		r, err := OpenBytes(made(0, func(b *raw) []fb.Offset {
			b.Begin()
			return []fb.Offset{b.operator(OpType(tag), tag, b.End(), nil, nil)}
		}), nil)
		name := attrTable(tag).Name
		if required := name == "AveragePoolAttrs" || name == "MaxPoolAttrs" ||
			name == "ConstantOfShapeAttrs"; required != (err != nil) {
			t.Errorf("%s, empty: %v", name, err)
		}
		if err != nil {
			continue
		}
		op, _ := r.Model().Graph().Node(0).Operator()
		n := 0
		for a := range op.Attributes() {
			n++
			if a.Set {
				t.Errorf("%s: %s is set", name, a.Name)
			}
		}
		fields := len(attrTable(tag).Fields)
		if name == "ConstantOfShapeAttrs" {
			fields-- // the type of a union is none
		}
		if n != fields || op.AttrsTable() != name {
			t.Errorf("%s: %d attributes", name, n)
		}
		_ = describe(r)
		if _, err := r.Verify(t.Context(), nil); err != nil {
			t.Error(err)
		}
	}
}

func TestNodeIndicesOutsideAreRefused(t *testing.T) {
	for _, id := range []uint32{1, 2, 1<<31 - 1, 1 << 31, math.MaxUint32} {
		for i, what := range []string{"input", "output", "capture"} {
			var b raw
			lists := [3][]uint32{}
			lists[i] = []uint32{0, id}
			refuse(t, fmt.Sprintf("%s %d of 1", what, id),
				v2(b.model(b.graph([]fb.Offset{b.value("v")}, lists[0], lists[1], lists[2]), 1),
					0), tensor.ErrMalformed)
		}
		if id >= 1<<31 {
			continue
		}
		for _, out := range []bool{false, true} {
			var b raw
			in, outs := []uint32{id}, []uint32(nil)
			if out {
				in, outs = outs, in
			}
			refuse(t, fmt.Sprintf("operator 1 names node %d (output: %v)", id, out),
				v2(b.model(b.graph([]fb.Offset{b.value("v"), b.operator(0, 0, 0, in, outs),
					b.value("w")}, nil, nil, nil), 1), 0), tensor.ErrMalformed)
		}
	}
	var b raw
	none := uint32(math.MaxUint32 - 6)
	r := openBytes(t, v2(b.model(b.graph([]fb.Offset{b.value("v"),
		b.operator(6, 0, 0, []uint32{0, none}, []uint32{none})}, nil, nil, nil), 1), 0))
	op, _ := r.Model().Graph().Node(1).Operator()
	if fmt.Sprint(op.Inputs(), op.Outputs()) != "[0 -1] [-1]" {
		t.Errorf("%v %v", op.Inputs(), op.Outputs())
	}
}

func TestLimitsAreKept(t *testing.T) {
	data := golden(t, "convert-0.22.0-control")
	for _, l := range []tensor.Limits{{MaxTensors: 5}, {MaxName: 3}, {MaxMetadata: 100},
		{MaxDepth: 5}} {
		if _, err := OpenBytes(data, &ReaderOptions{Limits: l}); !errors.Is(err, tensor.ErrLimit) {
			t.Errorf("%+v: %v", l, err)
		}
	}
	if _, err := OpenBytes(data, &ReaderOptions{Limits: tensor.Limits{MaxRank: -1}}); err == nil {
		t.Error("a negative limit")
	}
	if _, err := OpenBytes(golden(t, "convert-0.22.0-basic-v1"),
		&ReaderOptions{Limits: tensor.Limits{MaxMetadata: 100}}); !errors.Is(err,
		tensor.ErrLimit) {
		t.Errorf("version 1: %v", err)
	}
}
