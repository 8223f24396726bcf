package onnx

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/tensor"
)

// opened opens b and returns the error, or the first of reading its tensors.
func opened(b []byte) error {
	r, err := OpenBytes(b, nil)
	if err != nil {
		return err
	}
	defer r.Close()
	for x := range r.Tensors() {
		if _, err := x.Data.ReadAll(); err != nil {
			return err
		}
	}
	return nil
}

func TestWireRulesHoldAtOpening(t *testing.T) {
	name := msg(8, "w")
	for what, c := range map[string]struct {
		b      []byte
		class  error // nil: it opens
		offset int64
		field  string
	}{
		"a model": {one(floats("w")), nil, 0, ""},
		"longer numbers": {join([]byte{0x88, 0x80, 0x00, 0x8a, 0x80, 0x00}, head,
			msg(7)), nil, 0, ""},
		"an unknown field": {join(one(floats("w")), msg(3000, "x"), num(77, 1)), nil,
			0, ""},
		"the greatest numbers of fields": {modelOf(msg(5, floats("w"), msg(1<<29-1, "x")),
			num(1<<28, 1), []byte{0xfb, 0xff, 0xff, 0xff, 0x0f, 0xfc, 0xff, 0xff, 0xff, 0x0f}),
			nil, 0, ""},
		"a known one of other type": {join(one(floats("w")), num(7, 1), msg(1, "x")), nil, 0, ""},
		"a group": {join(one(floats("w")), []byte{0x9b, 0x06, 0x0b, 0x08, 0x01, 0x0c, 0x9c,
			0x06}), nil, 0,
			""},
		"no bytes":       {nil, tensor.ErrMalformed, -1, "ir_version"},
		"no graph":       {head, tensor.ErrMalformed, -1, "graph"},
		"no opset":       {join(num(1, 3), msg(7)), tensor.ErrMalformed, -1, "opset_import"},
		"no opset, IR 2": {join(num(1, 2), msg(7)), nil, 0, ""},
		"no version": {join(msg(8, num(2, 21)), msg(7)), tensor.ErrMalformed, -1,
			"ir_version"},
		"a negative version": {join(num(1, 1<<63), msg(8), msg(7)), tensor.ErrMalformed, -1,
			"ir_version"},
		"bytes behind": {join(one(floats("w")), []byte{0}), tensor.ErrMalformed, 27, ""},
		"text behind": {join(one(floats("w")), []byte("hello")), tensor.ErrMalformed,
			29, ""},
		"wire type 6":   {join(head, []byte{0x0e}), tensor.ErrMalformed, 6, ""},
		"a group's end": {join(head, []byte{0x0c}), tensor.ErrMalformed, 6, ""},
		"an open group": {join(head, []byte{0x0b}), io.ErrUnexpectedEOF, 7, ""},
		"crossed groups": {join(head, []byte{0x0b, 0x13, 0x0c, 0x14}), tensor.ErrMalformed, 8,
			""},
		"an eleven-byte number": {join(head, []byte{0x08}, []byte(strings.Repeat("\x80", 10)),
			[]byte{1}),
			tensor.ErrMalformed, 7, ""},
		"a number of 65 bits": {join(head, []byte{0x08}, []byte(strings.Repeat("\xff", 9)),
			[]byte{2}),
			tensor.ErrMalformed, 7, ""},
		"a cut number":    {join(head, []byte{0x08, 0x80}), io.ErrUnexpectedEOF, 7, ""},
		"a cut float":     {join(head, []byte{0x75, 1, 2}), io.ErrUnexpectedEOF, 7, ""},
		"a length beyond": {join(head, []byte{0x3a, 5, 1}), io.ErrUnexpectedEOF, 7, ""},
		"a length of 2^64-1": {join(head, []byte{0x3a}, packed(1<<64-1)),
			io.ErrUnexpectedEOF, 7, ""},
		"a length of 2^63": {join(head, []byte{0x3a}, packed(1<<63)), io.ErrUnexpectedEOF,
			7, ""},
		"beyond its parent": {join(modelOf([]byte{0x12, 9, 'x'}), msg(2, "more bytes")),
			tensor.ErrMalformed, 9, "graph"},
		"an odd rest": {one(num(1, 1), num(2, 1), msg(floatData, "12345"), name),
			tensor.ErrMalformed, 14, "graph.initializer[0].float_data"},
		"a negative dimension": {one(num(1, 1<<64-1), num(2, 1), name), tensor.ErrMalformed, 8,
			"graph.initializer[0].dims"},
		"2^64 elements": {one(msg(1, packed(1<<32, 1<<32)), num(2, 2), name),
			tensor.ErrMalformed, 8, "graph.initializer[0].dims"},
		"2^65 bytes": {one(num(1, 1<<62), num(2, 1), name), tensor.ErrMalformed, 8,
			"graph.initializer[0].dims"},
		"65 dimensions": {one(msg(1, strings.Repeat("\x01", 65)), num(2, 2), name),
			tensor.ErrLimit, 8, "graph.initializer[0].dims"},
		"damage in what is not kept": {modelOf(msg(14, msg(2, []byte{0x0a, 9}))),
			io.ErrUnexpectedEOF, 13,
			"graph.quantization_annotation.quant_parameter_tensor_names"},
	} {
		api.Same(t, c.b, func(*Reader) string { return "it opens" })
		err := opened(c.b)
		var fe *tensor.FormatError
		switch {
		case c.class == nil && err != nil:
			t.Errorf("%s: %v", what, err)
		case c.class == nil:
		case !errors.Is(err, c.class) || !errors.As(err, &fe) || fe.Offset != c.offset ||
			fe.Field != c.field || fe.Format != "onnx":
			t.Errorf("%s: %v, want %v of %q at byte %#x", what, err, c.class, c.field, c.offset)
		}
	}
}

// The last of a field counts, of a message all of it, and fields come in any order.
func TestLastOfARepeatedFieldCounts(t *testing.T) {
	b := join(num(1, 3), head, msg(7, msg(2, "first"), msg(5, floats("w"))),
		msg(7, msg(2, "second"), msg(5, msg(8, "u"), msg(rawData, "old"),
			num(2, 7), num(1, 1), msg(rawData, "ab"), num(2, 2), msg(1, packed(2)))))
	r, err := OpenBytes(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	u := r.Tensor("u")
	p, err := u.Data.ReadAll()
	if r.Version() != "10" || r.Model().Graph.Name != "second" || r.Len() != 2 ||
		u.DType != tensor.U8 || !u.Shape.Equal(tensor.Shape{1, 2}) || string(p) != "ab" {
		t.Errorf("%s, %q, %v %v, %q, %v", r.Version(), r.Model().Graph.Name, u.DType, u.Shape, p,
			err)
	}
	if findings := verify(t, b, false); len(findings) > 0 {
		t.Error(findings)
	}
}

// protobuf's own parsers nest 100 messages: 31 graphs in each other, with types in the
// last.
func TestNestingIsBounded(t *testing.T) {
	nested := func(n int) []byte {
		typ := msg(2, msg(1, num(1, 1), msg(2, msg(1, num(1, 3)))))
		g := msg(11, msg(1, "x"), typ)
		for range n {
			g = msg(1, msg(4, "Loop"), msg(5, msg(1, "body"), msg(6, g)))
		}
		return modelOf(g)
	}
	if err := opened(nested(31)); err != nil {
		t.Error(err)
	}
	if err := opened(nested(32)); !errors.Is(err, tensor.ErrLimit) {
		t.Error(err)
	}
	if _, err := OpenBytes(nested(5),
		&ReaderOptions{Limits: tensor.Limits{MaxDepth: 10}}); !errors.Is(err, tensor.ErrLimit) {
		t.Error(err)
	}
	groups := join(head, []byte(strings.Repeat("\x0b", 1_000_000)))
	if err := opened(groups); !errors.Is(err, tensor.ErrLimit) {
		t.Error(err)
	}
}

// A file cannot make its reader take memory out of proportion, whatever small messages it
// is made of.
func TestMemoryIsInProportion(t *testing.T) {
	const n = 200_000
	for what, c := range map[string]struct {
		message []byte
		wrap    func(b []byte) []byte
	}{
		"nodes":        {msg(1), func(b []byte) []byte { return modelOf(b) }},
		"inputs":       {msg(1, msg(1)), func(b []byte) []byte { return modelOf(b) }},
		"attributes":   {msg(5), func(b []byte) []byte { return modelOf(msg(1, b)) }},
		"initializers": {msg(5), func(b []byte) []byte { return modelOf(b) }},
		"sparse":       {msg(15), func(b []byte) []byte { return modelOf(b) }},
		"empty names":  {msg(1), func(b []byte) []byte { return modelOf(msg(1, b)) }},
		"values":       {msg(11), func(b []byte) []byte { return modelOf(b) }},
		"graphs":       {msg(11), func(b []byte) []byte { return modelOf(msg(1, msg(5, b))) }},
		"types":        {msg(15), func(b []byte) []byte { return modelOf(msg(1, msg(5, b))) }},
		"dimensions":   {[]byte{1}, func(b []byte) []byte { return modelOf(msg(5, msg(1, b))) }},
		"ints": {[]byte{1}, func(b []byte) []byte {
			return modelOf(msg(1, msg(5, msg(8,
				b))))
		}},
		"symbols": {msg(1), func(b []byte) []byte {
			return modelOf(msg(11, msg(2, msg(1, msg(2, b)))))
		}},
		"functions": {msg(25), func(b []byte) []byte { return join(modelOf(), b) }},
		"training":  {msg(20), func(b []byte) []byte { return join(modelOf(), b) }},
		"opsets":    {msg(8), func(b []byte) []byte { return join(modelOf(), b) }},
		"metadata":  {msg(14), func(b []byte) []byte { return join(modelOf(), b) }},
		"other files": {msg(5, num(2, 1), num(14, 1), pairs("location", "x")),
			func(b []byte) []byte { return modelOf(b) }},
		"pieces": {join(msg(5), num(5, 1)), func(b []byte) []byte { return modelOf(msg(5, b)) }},
	} {
		file := c.wrap([]byte(strings.Repeat(string(c.message), n)))
		// what was allocated, not what was live
		limit := int64(32*freeMemory) + 40*int64(len(file))
		var err error
		if got := readtest.Allocated(func() { err = opened(file) }); got > limit {
			t.Errorf("%s: %d bytes for a file of %d, %v", what, got, len(file), err)
		}
	}
	// A long path before many names.
	var g []byte
	for range 10_000 {
		g = append(g, msg(5, num(2, 2), num(1, 0), msg(8, "w"))...)
	}
	node := msg(1, msg(3, strings.Repeat("n", 100_000)), msg(5, msg(1, "a"), msg(6, g)))
	if err := opened(modelOf(node)); !errors.Is(err, tensor.ErrLimit) {
		t.Errorf("names of %d bytes: %v", 10_000*100_000, err)
	}
}

func TestLimitsAreKept(t *testing.T) {
	b := modelOf(msg(5, floats("long name")), msg(5, floats("w")), msg(1, msg(4, "Relu")))
	for what, l := range map[string]tensor.Limits{
		"tensors": {MaxTensors: 2}, "names": {MaxName: 8}, "metadata": {MaxMetadata: 40},
	} {
		if _, err := OpenBytes(b, &ReaderOptions{Limits: l}); !errors.Is(err, tensor.ErrLimit) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := OpenBytes(b, &ReaderOptions{Limits: tensor.Limits{MaxTensors: 3}}); err != nil {
		t.Error(err)
	}
}

// Payloads are not read at opening, and small headers between them with one read each.
func TestOpeningReadsHeadersAlone(t *testing.T) {
	const n, size = 20, 1 << 20
	var g []byte
	for i := range n {
		g = append(g, msg(5, num(1, size), num(2, 2), msg(8, fmt.Sprint("w", i)),
			msg(rawData, make([]byte, size)))...)
	}
	file := modelOf(g)
	c := readtest.NewCounter(file)
	r, err := NewReader(c, int64(len(file)), nil)
	if err != nil || r.Len() != n {
		t.Fatal(err)
	}
	if reads, total := c.Reads(), c.Bytes(); len(reads) > n+2 || total > (n+2)*(4<<10) {
		t.Errorf("%d reads of %d bytes for %d headers", len(reads), total, n)
	}
}

func FuzzOpen(f *testing.F) {
	_, files := readtest.Files(f, "../testdata/onnx", func(b []byte) bool {
		return len(b) > 2 && b[0] == 8
	})
	for _, b := range files {
		f.Add(b)
	}
	f.Add(modelOf(msg(15, msg(1, num(1, 2), num(2, 1), msg(rawData, "01234567")),
		msg(2, num(1, 2), num(2, 7), msg(7, packed(0, 3))), num(3, 4))))
	f.Fuzz(func(t *testing.T, b []byte) { walk(t, b) })
}

// walk opens a file and looks at all of it. The raw bytes of tensors are the bytes of the
// file.
func walk(t *testing.T, b []byte) error {
	Detect(readerOf(b), int64(len(b)))
	r, err := OpenBytes(b, nil)
	if err != nil {
		return err
	}
	defer r.Close()
	covered := int64(0)
	for s := range r.Spans() {
		if s.Offset != covered {
			t.Fatalf("a span at %d after %d", s.Offset, covered)
		}
		covered += s.Size
	}
	if covered != int64(len(b)) {
		t.Fatalf("spans of %d bytes, not %d", covered, len(b))
	}
	for x := range r.Tensors() {
		p, err := x.Data.ReadAll()
		if st, ok := x.Data.Stored(); ok && err == nil && st.Encoding == "raw" && st.File == "" &&
			string(p) != string(b[st.Offset:st.Offset+st.Size]) {
			t.Fatalf("%q is not the %d bytes at %d", x.Name, st.Size, st.Offset)
		}
	}
	for g := range r.Model().Graphs() {
		for _, v := range g.Inputs {
			_ = v.Type.String()
		}
	}
	_, err = r.Verify(t.Context(), &tensor.VerifyOptions{Strict: true})
	return err
}

func TestMutantsAreReadOrRefused(t *testing.T) {
	names, files := readtest.Files(t, "../testdata/onnx", func(b []byte) bool {
		return len(b) > 2 && b[0] == 8
	})
	readtest.Mutants(t, names, files, 5_000, func(_, _ int, b []byte) error { return walk(t, b) })
}

func TestDamagedFilesAreReadOrRefused(t *testing.T) {
	b := modelOf(msg(1, msg(4, "Constant"), msg(2, "c"), msg(5, msg(1, "value"),
		msg(5, num(1, 3), num(2, 7), msg(7, packed(1, 2, 3))))), msg(5, floats("w")))
	truncated, changed := readtest.Damage(t, b, 0, len(b), func(b []byte) error {
		return walk(t, b)
	})
	if truncated.Accepted > 0 {
		t.Errorf("%d truncations were accepted", truncated.Accepted)
	}
	t.Logf("%.0f%% of changed files were accepted", changed.Accepts())
}
