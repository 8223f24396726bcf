package rten

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/schema/rtenfb"
	"github.com/tensorfile/tensorfile/tensor"
)

// refuse opens a file in every form and wants the class of error.
func refuse(t *testing.T, what string, file []byte, class error) {
	t.Helper()
	t.Run(what, func(t *testing.T) {
		face.Same(t, file, func(r *Reader) string {
			t.Error("accepted")
			return ""
		})
		r, err := OpenBytes(file, nil)
		if err == nil {
			r.Close()
			return
		}
		var fe *tensor.FormatError
		if !errors.Is(err, class) || !errors.As(err, &fe) || fe.Format != "rten" {
			t.Errorf("%v is not %v", err, class)
		}
	})
}

// walk opens a file and reads everything in it.
func walk(b []byte) error {
	r, err := OpenBytes(b, &ReaderOptions{Limits: tensor.Limits{MaxMetadata: maxModel}})
	if err != nil {
		return err
	}
	defer r.Close()
	_ = describe(r)
	r.Model().Requires()
	return r.Verify(context.Background(), nil)
}

// Every truncation, every bit, and bytes set to 0x00, 0x7f, 0x80 and 0xff, of the goldens of up to 3 KiB, and of all of them with
// TENSORFILE_FULL=1; else of the first 200 bytes.
func TestA01A02EveryTruncationAndBit(t *testing.T) {
	for name, data := range goldens(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hi := len(data)
			if os.Getenv("TENSORFILE_FULL") == "" {
				switch {
				case hi > 8<<10:
					t.Skip("long: TENSORFILE_FULL=1")
				case testing.Short() || hi > 3<<10:
					hi = 200
				}
			}
			truncated, changed := readtest.Damage(t, data, 0, hi, walk)
			t.Logf("truncations accepted %.1f %%, changes accepted %.1f %% of %d", truncated.Accepts(), changed.Accepts(), changed.Accepted+changed.Refused)
			// What is cut off in the padding at the end of a file takes nothing away.
			if truncated.Accepted > 64 {
				t.Errorf("%d truncations were accepted", truncated.Accepted)
			}
			if changed.Accepts() > 60 {
				t.Errorf("%.1f %% of the changes were accepted", changed.Accepts())
			}
		})
	}
}

func TestA03A04HeadersAndForeignFiles(t *testing.T) {
	good := golden(t, "convert-0.22.0-basic")
	for _, n := range []int{0, 1, 3, 4, 7, 8, 11, 15, 16, 31} {
		refuse(t, fmt.Sprintf("A-03: %d bytes", n), good[:n], io.ErrUnexpectedEOF)
		refuse(t, fmt.Sprintf("A-03: %d zero bytes", n), make([]byte, n), map[bool]error{true: io.ErrUnexpectedEOF, false: tensor.ErrMalformed}[n < 4])
	}
	refuse(t, "A-03: a header alone", good[:32], io.ErrUnexpectedEOF)
	with := func(at int, b ...byte) []byte {
		c := bytes.Clone(good)
		copy(c[at:], b)
		return c
	}
	for _, v := range []byte{0, 1, 3, 255} {
		refuse(t, fmt.Sprintf("A-04: version %d", v), with(4, v), errors.ErrUnsupported)
	}
	for _, magic := range []string{"rten", "RTEM", "PK\x03\x04", "GGUF", "ZTEN", "\x7fELF", "{\"a\""} {
		refuse(t, "A-04: "+magic, with(0, []byte(magic)...), tensor.ErrMalformed)
	}
	for _, other := range []string{"../testdata/ztensor", "../testdata/pte", "../testdata/ptd", "../testdata/primitiv"} {
		files, _ := filepath.Glob(other + "/*")
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err == nil && Detect(bytes.NewReader(b), int64(len(b))) {
				t.Errorf("A-04: %s is taken for a .rten", f)
			}
		}
	}
	for name, b := range goldens(t) {
		if !Detect(bytes.NewReader(b), int64(len(b))) {
			t.Errorf("%s is not detected", name)
		}
	}
}

func TestA05A40BytesThatBelongToNothing(t *testing.T) {
	good := golden(t, "convert-0.22.0-basic")
	hidden := append(bytes.Clone(good), "PK\x03\x04 a zip archive"...)
	r := openBytes(t, hidden)
	err := r.Verify(t.Context(), &tensor.VerifyOptions{Strict: true})
	if f := tensor.Findings(err); len(f) != 1 || f[0].Offset != int64(len(good)) {
		t.Errorf("trailing bytes: %v", err)
	}
	if err := r.Verify(t.Context(), nil); err != nil {
		t.Errorf("a warning is an error: %v", err)
	}
	h, _ := r.Header()
	gap := bytes.Clone(good)
	if end := h.ModelOffset + h.ModelSize; end < h.TensorOffset {
		gap[end] = 1
		if f := tensor.Findings(openBytes(t, gap).Verify(t.Context(), &tensor.VerifyOptions{Strict: true})); len(f) != 1 || f[0].Offset != end {
			t.Errorf("bytes in the padding: %v", f)
		}
	}
	refuse(t, "A-05: leading bytes", append([]byte{0}, good...), tensor.ErrMalformed)
	zeros := append(bytes.Clone(good), make([]byte, 1<<20)...)
	if openBytes(t, zeros).Verify(t.Context(), &tensor.VerifyOptions{Strict: true}) == nil {
		t.Error("a hole of 1 MiB is no finding")
	}
}

func TestA06A07HeaderFields(t *testing.T) {
	good := golden(t, "convert-0.22.0-basic")
	size := uint64(len(good))
	for field, at := range map[string]int{"model_data_offset": 8, "model_data_len": 16, "tensor_data_offset": 24} {
		for _, v := range []uint64{0, 1, 31, size + 1, 1<<31 - 1, 1 << 31, 1 << 32, math.MaxInt64, 1 << 63, math.MaxUint64 - 31, math.MaxUint64} {
			c := bytes.Clone(good)
			binary.LittleEndian.PutUint64(c[at:], v)
			t.Run(fmt.Sprintf("%s %d", field, v), func(t *testing.T) {
				face.Same(t, c, func(*Reader) string { t.Error("accepted"); return "" })
				var fe *tensor.FormatError
				if _, err := OpenBytes(c, nil); !errors.As(err, &fe) || field != "model_data_len" && fe.Field != "header."+field {
					t.Errorf("%v", err)
				}
			})
		}
	}
	for _, c := range []struct {
		name   string
		offset uint64
		dims   []uint32
		class  error
	}{
		{"one byte past the end", 61, []uint32{1}, io.ErrUnexpectedEOF},
		{"an empty one past the end", 65, []uint32{0}, io.ErrUnexpectedEOF},
		{"2^63", 1 << 63, []uint32{1}, tensor.ErrMalformed},
		{"2^64-1", math.MaxUint64, []uint32{1}, tensor.ErrMalformed},
		{"the sum wraps", math.MaxInt64, []uint32{1}, io.ErrUnexpectedEOF},
		{"the sum wraps with nothing", math.MaxInt64, []uint32{0}, io.ErrUnexpectedEOF},
	} {
		refuse(t, "A-07: "+c.name, made(64, func(b *raw) []fb.Offset { return []fb.Offset{b.outside("w", c.offset, c.dims...)} }), c.class)
	}
	r := openBytes(t, made(64, func(b *raw) []fb.Offset {
		return []fb.Offset{b.outside("last", 60, 1), b.outside("nothing", 64, 0), b.outside("odd", 1, 3)}
	}))
	for x := range r.Tensors() {
		if _, err := x.Data.ReadAll(); err != nil {
			t.Errorf("%s: %v", x.Name, err)
		}
	}
	if v, err := tensor.Load[float32](r.Tensor("odd")); err != nil || len(v) != 3 {
		t.Errorf("an unaligned tensor: %v", err)
	}
	if _, err := tensor.View[float32](r.Tensor("odd")); !errors.Is(err, tensor.ErrNoView) {
		t.Errorf("a view of an unaligned tensor: %v", err)
	}
}

func TestA08A09A11Shapes(t *testing.T) {
	many := make([]uint32, 300)
	for i := range many {
		many[i] = 1
	}
	for _, c := range []struct {
		name  string
		dims  []uint32
		class error
	}{
		{"A-08: the product wraps to 0", []uint32{1 << 31, 1 << 31, 4}, tensor.ErrMalformed},
		{"A-08: the bytes wrap", []uint32{1 << 31, 1 << 31}, tensor.ErrMalformed},
		{"A-08: 4194305² · …", []uint32{4194305, 4194305, 49152, 4294967295}, tensor.ErrMalformed},
		{"A-08: 2^32-1 three times", []uint32{math.MaxUint32, math.MaxUint32, math.MaxUint32}, tensor.ErrMalformed},
		{"A-09: rank 300", many, tensor.ErrLimit},
		{"A-11: more than there is", []uint32{17}, io.ErrUnexpectedEOF},
		{"A-11: far more", []uint32{math.MaxUint32}, io.ErrUnexpectedEOF},
	} {
		refuse(t, c.name+", outside", made(64, func(b *raw) []fb.Offset { return []fb.Offset{b.outside("w", 0, c.dims...)} }), c.class)
		if errors.Is(c.class, io.ErrUnexpectedEOF) {
			c.class = tensor.ErrMalformed
		}
		for _, n := range []int{0, 1, 4} {
			refuse(t, fmt.Sprintf("%s, %d inline", c.name, n), made(0, func(b *raw) []fb.Offset { return []fb.Offset{b.inline("w", n, c.dims...)} }), c.class)
		}
	}
	for _, dims := range [][]uint32{{}, {0}, {0, math.MaxUint32, math.MaxUint32, math.MaxUint32}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}} {
		n := 1
		if len(dims) > 0 && dims[0] == 0 {
			n = 0
		}
		for i, file := range [][]byte{
			made(4, func(b *raw) []fb.Offset { return []fb.Offset{b.outside("w", 0, dims...)} }),
			made(0, func(b *raw) []fb.Offset { return []fb.Offset{b.inline("w", n, dims...)} }),
		} {
			r, err := OpenBytes(file, nil)
			if err != nil {
				t.Errorf("A-09: %v: %v", dims, err)
				continue
			}
			x := r.At(0)
			if v, err := tensor.Load[float32](x); err != nil || len(v) != n || len(x.Shape) != len(dims) {
				t.Errorf("A-09: %v (%d): %v %v", dims, i, v, err)
			}
		}
	}
	refuse(t, "A-11: fewer inline", made(0, func(b *raw) []fb.Offset { return []fb.Offset{b.inline("w", 3, 4)} }), tensor.ErrMalformed)
	refuse(t, "A-11: more inline", made(0, func(b *raw) []fb.Offset { return []fb.Offset{b.inline("w", 5, 4)} }), tensor.ErrMalformed)
	if _, err := OpenBytes(made(0, func(b *raw) []fb.Offset { return []fb.Offset{b.inline("w", 1, many[:65]...)} }), &ReaderOptions{Limits: tensor.Limits{MaxRank: 64}}); !errors.Is(err, tensor.ErrLimit) {
		t.Errorf("A-09: rank 65 of 64: %v", err)
	}
}

func TestA12A13FlatbufferStructure(t *testing.T) {
	file := golden(t, "rust-0.23.0-v1")
	with := func(at int, b ...byte) []byte {
		c := bytes.Clone(file)
		copy(c[at:], b)
		return c
	}
	root := int(binary.LittleEndian.Uint32(file))
	vtable := root - int(int32(binary.LittleEndian.Uint32(file[root:])))
	for name, c := range map[string][]byte{
		"root 0": with(0, 0, 0, 0, 0), "root 1": with(0, 1, 0, 0, 0), "root 3": with(0, 3, 0, 0, 0), "root at the end": with(0, byte(len(file)), byte(len(file)>>8), 0, 0),
		"root beyond": with(0, 0xff, 0xff, 0xff, 0x7f), "vtable before the buffer": with(root, 0, 0, 0, 0x7f), "vtable behind the buffer": with(root, 0, 0, 0, 0x80), "vtable odd": with(root, file[root]^1),
		"vtable is the table": with(root, 0, 0, 0, 0), "vtable of 0": with(vtable, 0, 0), "vtable of 2": with(vtable, 2, 0), "vtable of 3": with(vtable, 3, 0), "vtable of 65535": with(vtable, 0xff, 0xff), "vtable of 65534": with(vtable, 0xfe, 0xff),
		"field 1": with(vtable+4, 1, 0), "field 3": with(vtable+6, 3, 0), "field far away": with(vtable+6, 0xfc, 0xff), "field misaligned": with(vtable+6, file[vtable+6]^2),
		"size prefix": append([]byte{byte(len(file)), byte(len(file) >> 8), 0, 0}, file...),
	} {
		refuse(t, name, c, tensor.ErrMalformed)
	}
	name := bytes.Index(file, []byte("add\x00"))
	refuse(t, "A-13: a string without NUL", with(name, 'a', 'd', 'd', 'd'), tensor.ErrMalformed)
	refuse(t, "A-13: a string that is not UTF-8", with(name, 0xff), tensor.ErrMalformed)
	refuse(t, "A-13: a string of 2^32-1", with(name-4, 0xff, 0xff, 0xff, 0xff), tensor.ErrMalformed)
}

func TestA14ACycleByWrappedOffsets(t *testing.T) {
	var b raw
	b.Begin()
	b.force(rtenfb.SlotGraphNodes, 4, 0) // becomes the way back
	leaf := b.End()
	b.Begin()
	b.Ref(slotFirst, leaf)
	attrs := b.End()
	file := b.model(b.graph([]fb.Offset{b.operator(OpIf, int(rtenfb.OperatorAttrsIfAttrs), attrs, nil, nil)}, nil, nil, nil), 1)
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

// nest is a model of n Ifs, one in the other; both branches are the same graph.
func nest(n int) []byte {
	var b raw
	graph := b.graph(nil, nil, nil, nil)
	for range n {
		b.Begin()
		b.Ref(slot(0), graph)
		b.Ref(slot(1), graph)
		graph = b.graph([]fb.Offset{b.operator(OpIf, int(rtenfb.OperatorAttrsIfAttrs), b.End(), nil, nil)}, nil, nil, nil)
	}
	return b.model(graph, 1)
}

func TestA15Amplification(t *testing.T) {
	for _, n := range []int{10, 13} {
		start := time.Now()
		file := nest(n)
		refuse(t, fmt.Sprintf("doubling If × %d in %d bytes", n, len(file)), file, tensor.ErrLimit)
		if d := time.Since(start); d > 10*time.Second {
			t.Errorf("took %v", d)
		}
	}
	refuse(t, "doubling If × 60", nest(60), tensor.ErrLimit)
	refuse(t, "10 levels of 8", func() []byte {
		var b raw
		graph := b.graph(nil, nil, nil, nil)
		for range 10 {
			b.Begin()
			b.Ref(slotFirst, graph)
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
		b.Ref(slotFirst, values)
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

// loops is a model of n Loops, one in the other.
func loops(n int) []byte {
	var b raw
	graph := b.graph(nil, nil, nil, nil)
	for range n {
		b.Begin()
		b.Ref(slotFirst, graph)
		graph = b.graph([]fb.Offset{b.operator(OpLoop, int(rtenfb.OperatorAttrsLoopAttrs), b.End(), nil, nil)}, nil, nil, nil)
	}
	return b.model(graph, 1)
}

func TestA16Depth(t *testing.T) {
	if _, err := OpenBytes(loops(15), nil); err != nil { // the 15th body is table 62
		t.Errorf("15 levels: %v", err)
	}
	for _, c := range []struct {
		limit int64
		ok    bool
	}{{62, true}, {61, false}, {1, false}, {0, true}} {
		if _, err := OpenBytes(loops(15), &ReaderOptions{Limits: tensor.Limits{MaxDepth: c.limit}}); (err == nil) != c.ok || err != nil && !errors.Is(err, tensor.ErrLimit) {
			t.Errorf("15 levels, at most %d tables: %v", c.limit, err)
		}
	}
	refuse(t, "16 levels", loops(16), tensor.ErrLimit)
	refuse(t, "20,000 levels", loops(20_000), tensor.ErrLimit)
}

func TestA17Unions(t *testing.T) {
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
	refuse(t, "outside, without a type", made(64, func(b *raw) []fb.Offset { return []fb.Offset{b.outsideOf("c", -1, 0, 1)} }), tensor.ErrMalformed)
	refuse(t, "outside, of an unknown type", made(64, func(b *raw) []fb.Offset { return []fb.Offset{b.outsideOf("c", 77, 0, 1)} }), errors.ErrUnsupported)
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
	// garbage, but they are those of the file.
	r, err := OpenBytes(node(func(b *raw) fb.Offset {
		values := b.Scalars(bytes.Repeat([]byte{9}, 64), 1, 4) // as UInt8Data has them
		b.Begin()
		b.Ref(slotFirst, values)
		data := b.End()
		shape := b.ints(16)
		b.Begin()
		b.Ref(rtenfb.SlotConstantNodeShape, shape)
		b.Ref(rtenfb.SlotConstantNodeData, data)
		b.force(rtenfb.SlotConstantNodeDataType, 1, 1) // FloatData: 64 floats
		return b.node("c", ConstantNode, b.End())
	}), nil)
	if err == nil {
		t.Errorf("a vector that is longer as another type: %v", r.At(0))
	}
}

func TestA18RequiredAndOptionalFields(t *testing.T) {
	var b raw
	refuse(t, "no graph", b.model(0, 1), tensor.ErrMalformed)
	b = raw{}
	b.Begin()
	data := b.End()
	refuse(t, "no shape", b.model(b.graph([]fb.Offset{b.node("c", ConstantNode, data)}, nil, nil, nil), 1), tensor.ErrMalformed)
	for _, v := range []int32{0, 2, -1} {
		b = raw{}
		class := map[bool]error{true: errors.ErrUnsupported, false: tensor.ErrMalformed}[v > 1]
		refuse(t, fmt.Sprintf("schema version %d", v), v2(b.model(b.graph(nil, nil, nil, nil), v), 0), class)
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
	for tag := 1; tag < len(rtenfb.Schema.Unions[rtenfb.UnionOperatorAttrs].Members); tag++ { // every table of attributes, empty
		r, err := OpenBytes(made(0, func(b *raw) []fb.Offset {
			b.Begin()
			return []fb.Offset{b.operator(OpType(tag), tag, b.End(), nil, nil)}
		}), nil)
		name := attrTable(tag).Name
		if required := name == "AveragePoolAttrs" || name == "MaxPoolAttrs" || name == "ConstantOfShapeAttrs"; required != (err != nil) {
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
		if err := r.Verify(t.Context(), nil); err != nil {
			t.Error(err)
		}
	}
}

func TestA19NothingBehindTheBytesIsSeen(t *testing.T) {
	for name, data := range goldens(t) {
		b := readtest.WithCanary(data)
		for at := 32; at < min(len(data)-4, 600); at += 23 {
			c := readtest.WithCanary(data)
			c[at] ^= 0x3f
			if r, err := OpenBytes(c, nil); err == nil && strings.Contains(describe(r), readtest.Canary) {
				t.Fatalf("%s: byte %d", name, at)
			}
		}
		if r := openBytes(t, b); strings.Contains(describe(r), readtest.Canary) {
			t.Error(name)
		}
	}
}

func TestA20NodeIndices(t *testing.T) {
	for _, id := range []uint32{1, 2, 1<<31 - 1, 1 << 31, math.MaxUint32} {
		for i, what := range []string{"input", "output", "capture"} {
			var b raw
			lists := [3][]uint32{}
			lists[i] = []uint32{0, id}
			refuse(t, fmt.Sprintf("%s %d of 1", what, id), v2(b.model(b.graph([]fb.Offset{b.value("v")}, lists[0], lists[1], lists[2]), 1), 0), tensor.ErrMalformed)
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
			refuse(t, fmt.Sprintf("operator 1 names node %d (output: %v)", id, out), v2(b.model(b.graph([]fb.Offset{b.value("v"), b.operator(0, 0, 0, in, outs), b.value("w")}, nil, nil, nil), 1), 0), tensor.ErrMalformed)
		}
	}
	var b raw
	none := uint32(math.MaxUint32 - 6)
	r := openBytes(t, v2(b.model(b.graph([]fb.Offset{b.value("v"), b.operator(6, 0, 0, []uint32{0, none}, []uint32{none})}, nil, nil, nil), 1), 0))
	op, _ := r.Model().Graph().Node(1).Operator()
	if fmt.Sprint(op.Inputs(), op.Outputs()) != "[0 -1] [-1]" {
		t.Errorf("%v %v", op.Inputs(), op.Outputs())
	}
}

func TestA23Names(t *testing.T) {
	names := []string{"", "a\x00b", strings.Repeat("x", 1<<20), "../../x", "\x1b[2J", "e\u0301", "\u00e9", "w", "w", "nodes[0].body/w"}
	r := openBytes(t, made(0, func(b *raw) []fb.Offset {
		var list []fb.Offset
		for _, n := range names {
			list = append(list, b.inline(n, 1))
		}
		b.Begin()
		shape := b.ints()
		values := b.Scalars(make([]byte, 4), 4, 4)
		b.Begin()
		b.Ref(slotFirst, values)
		data := b.End()
		b.Begin()
		b.Ref(rtenfb.SlotConstantNodeShape, shape)
		b.Ref(rtenfb.SlotConstantNodeData, data)
		b.force(rtenfb.SlotConstantNodeDataType, 1, 1)
		c := b.End()
		b.Begin() // without a name
		b.Ref(rtenfb.SlotNodeData, c)
		b.force(rtenfb.SlotNodeDataType, 1, 2)
		return append(list, b.End())
	}))
	i := 0
	for x := range r.Tensors() {
		want := "#10"
		if i < len(names) {
			want = names[i]
		}
		if x.Name != want {
			t.Errorf("name %d is %.20q", i, x.Name)
		}
		if r.Tensor(want) == nil {
			t.Errorf("%.20q is not found", want)
		}
		i++
	}
	n := 0
	for range r.Named("w") {
		n++
	}
	if n != 2 {
		t.Errorf("%d tensors are called w", n)
	}
	if f := tensor.Findings(r.Verify(t.Context(), &tensor.VerifyOptions{Strict: true})); len(f) != 1 || !strings.Contains(f[0].Err.Error(), `"w" is the name of node 7 as well`) {
		t.Errorf("%v", f)
	}
	refuse(t, "a name of more than 1 MiB", made(0, func(b *raw) []fb.Offset { return []fb.Offset{b.inline(strings.Repeat("x", 1<<20+1), 1)} }), tensor.ErrLimit)
}

func TestA34MisbehavingReaders(t *testing.T) {
	data := golden(t, "convert-0.22.0-basic")
	readtest.Misread(t, data, []int64{0, 3, 31, 32, 100, 1000, int64(len(data)) - 1}, func(r io.ReaderAt, size int64) error {
		rd, err := NewReader(r, size, nil)
		if err != nil {
			return err
		}
		for x := range rd.Tensors() {
			if _, err := x.Data.ReadAll(); err != nil {
				return err
			}
		}
		return rd.Verify(context.Background(), nil)
	})
	rd, err := NewReader(readtest.Changing(bytes.NewReader(data)), int64(len(data)), nil)
	if err == nil {
		_ = describe(rd) // what was checked was read once
	}
}

func TestA35FilesThatChange(t *testing.T) {
	data := golden(t, "convert-0.22.0-basic")
	name := filepath.Join(t.TempDir(), "model.rten")
	if err := os.WriteFile(name, data, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, noMap := range []bool{false, true} {
		r, err := Open(name, &ReaderOptions{NoMap: noMap})
		if err != nil {
			t.Fatal(err)
		}
		want := r.Model().Graph().Len()
		if runtime.GOOS != "windows" {
			if err := os.Truncate(name, 0); err != nil {
				t.Fatal(err)
			}
			if err := r.Verify(t.Context(), nil); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("truncated: %v", err)
			}
			if _, err := r.Tensor("w").Data.ReadAll(); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("truncated: %v", err)
			}
			for n := range r.Model().Graph().Nodes() { // the metadata is ours
				n.Label()
				want--
			}
			if want != 0 {
				t.Error("the graph went with the file")
			}
		}
		r.Close()
		if err := os.WriteFile(name, data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

func TestA36NoRegularFiles(t *testing.T) {
	for _, name := range []string{t.TempDir(), os.DevNull, filepath.Join(t.TempDir(), "missing")} {
		if r, err := Open(name, nil); err == nil {
			r.Close()
			t.Errorf("%s was opened", name)
		}
	}
	// A sparse giant: 8 TiB of zeros are refused by their first bytes.
	c := readtest.Count(readtest.ReaderFunc(func(p []byte, off int64) (int, error) {
		clear(p)
		return len(p), nil
	}))
	for _, size := range []int64{1 << 20, 1<<31 - 1, 1 << 31, 1 << 43} {
		if _, err := NewReader(c, size, nil); !errors.Is(err, tensor.ErrMalformed) {
			t.Errorf("%d zeros: %v", size, err)
		}
	}
	if c.Bytes() > 1<<20 {
		t.Errorf("%d bytes were read", c.Bytes())
	}
	// A model of 8 TiB behind a header is refused by its size.
	h := Header{32, 1<<43 - 32, 32}.append(nil)
	giant := readtest.ReaderFunc(func(p []byte, off int64) (int, error) {
		clear(p)
		if off < 32 {
			copy(p, h[off:])
		}
		return len(p), nil
	})
	if _, err := NewReader(giant, 1<<43, nil); !errors.Is(err, tensor.ErrLimit) {
		t.Errorf("a model of 8 TiB: %v", err)
	}
}

func TestA37Close(t *testing.T) {
	data := golden(t, "convert-0.22.0-basic")
	face.Each(t, data, func(t *testing.T, r *Reader) {
		w := r.Tensor("w")
		var wg sync.WaitGroup
		for range 8 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for range 100 {
					if _, err := w.Data.ReadAll(); err != nil && !errors.Is(err, fs.ErrClosed) {
						t.Error(err)
					}
					_ = r.Tensor("bias").Name
					for range r.Model().Graph().Nodes() {
					}
				}
			}()
		}
		r.Close()
		wg.Wait()
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if _, err := w.Data.ReadAll(); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("read after Close: %v", err)
		}
		if _, err := tensor.View[float32](w); err == nil {
			t.Error("view after Close")
		}
		if err := r.Verify(t.Context(), nil); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("Verify after Close: %v", err)
		}
		if r.Tensor("w").Name != "w" {
			t.Error("names are gone")
		}
	})
}

func TestA43TimeGrowsWithTheFile(t *testing.T) {
	open := func(n int) time.Duration {
		data := manyConstants(t, n)
		best := time.Hour
		for range 3 {
			start := time.Now()
			r := openBytes(t, data)
			for range r.Tensors() {
			}
			r.Tensor("no such tensor")
			if err := r.Verify(t.Context(), &tensor.VerifyOptions{Depth: tensor.VerifyStructure}); err != nil {
				t.Fatal(err)
			}
			best = min(best, time.Since(start))
		}
		return best
	}
	var small, large time.Duration
	for range 5 { // other work on the machine may take a turn
		if small, large = open(3_000), open(30_000); large < 30*small {
			return
		}
	}
	t.Errorf("3,000 constants take %v, 30,000 %v", small, large)
}

func TestLimits(t *testing.T) {
	data := golden(t, "convert-0.22.0-control")
	for _, l := range []tensor.Limits{{MaxTensors: 5}, {MaxName: 3}, {MaxMetadata: 100}, {MaxDepth: 5}} {
		if _, err := OpenBytes(data, &ReaderOptions{Limits: l}); !errors.Is(err, tensor.ErrLimit) {
			t.Errorf("%+v: %v", l, err)
		}
	}
	if _, err := OpenBytes(data, &ReaderOptions{Limits: tensor.Limits{MaxRank: -1}}); err == nil {
		t.Error("a negative limit")
	}
	if _, err := OpenBytes(golden(t, "convert-0.22.0-basic-v1"), &ReaderOptions{Limits: tensor.Limits{MaxMetadata: 100}}); !errors.Is(err, tensor.ErrLimit) {
		t.Errorf("version 1: %v", err)
	}
}

func TestG3Memory(t *testing.T) {
	// As many constants as a file can hold, sharing all they can.
	var b raw
	c := b.inline("c", 1)
	list := make([]fb.Offset, 10_000)
	for i := range list {
		list[i] = c
		if i%2 == 0 { // two visits for each 4 bytes are too many
			list[i] = b.inline(fmt.Sprint(i), 1)
		}
	}
	shared := b.model(b.graph(list, nil, nil, nil), 1)
	for name, data := range map[string][]byte{"genuine": manyConstants(t, 10_000), "shared": shared} {
		metadata := int64(len(data))
		if h, err := parseHeader(data, int64(len(data))); err == nil && string(data[:4]) == magic {
			metadata = h.ModelSize
		}
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
		for from, open := range map[string]func() (*Reader, error){
			"bytes":    func() (*Reader, error) { return OpenBytes(data, nil) },
			"mapped":   func() (*Reader, error) { return Open(path, nil) },
			"unmapped": func() (*Reader, error) { return Open(path, &ReaderOptions{NoMap: true}) },
			"reader":   func() (*Reader, error) { return NewReader(bytes.NewReader(data), int64(len(data)), nil) },
		} {
			most := 1<<20 + 4*metadata
			peak := readtest.PeakHeap(most, func() {
				r, err := open()
				if err != nil {
					t.Error(err)
					return
				}
				for range r.Tensors() {
				}
				r.Close()
			})
			if peak > most {
				t.Errorf("%s from %s: %d bytes of heap for %d of metadata", name, from, peak, metadata)
			}
		}
	}
}
