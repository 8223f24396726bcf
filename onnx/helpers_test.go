package onnx

import (
	"bytes"
	"encoding/binary"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/tensor"
)

// The helpers of tests in several files.

func readerOf(b []byte) io.ReaderAt { return bytes.NewReader(b) }

func join(parts ...[]byte) []byte { return slices.Concat(parts...) }

// num is a field of a varint.
func num(n int, v uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(nil, uint64(n)<<3), v)
}

// msg is a field of bytes: text, or messages.
func msg(n int, content ...any) []byte {
	var b []byte
	for _, c := range content {
		switch c := c.(type) {
		case string:
			b = append(b, c...)
		case []byte:
			b = append(b, c...)
		}
	}
	out := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(n)<<3|delimited), uint64(len(b)))
	return append(out, b...)
}

// packed is varints without a field.
func packed(v ...uint64) (b []byte) {
	for _, x := range v {
		b = binary.AppendUvarint(b, x)
	}
	return b
}

// pairs are entries of external_data.
func pairs(kv ...string) (b []byte) {
	for ; len(kv) > 0; kv = kv[2:] {
		b = append(b, msg(13, msg(1, kv[0]), msg(2, kv[1]))...)
	}
	return b
}

// modelOf is a model whose graph has those fields.
func modelOf(graph ...[]byte) []byte { return join(head, msg(7, join(graph...))) }

// floats is a tensor of two floats.
func floats(name string) []byte {
	return join(num(1, 2), num(2, 1), msg(8, name), msg(rawData, "01234567"))
}

var api = readtest.API[*Reader]{
	Open: func(name string, noMap bool) (*Reader, error) {
		return Open(name, &ReaderOptions{NoMap: noMap})
	},
	OpenBytes: func(b []byte) (*Reader, error) { return OpenBytes(b, nil) },
	NewReader: func(r io.ReaderAt, size int64) (*Reader, error) {
		return NewReader(r, size, nil)
	},
}

// verify returns what Verify finds in a file.
func verify(t *testing.T, b []byte, strict bool) []string {
	t.Helper()
	r, err := OpenBytes(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	report, _ := r.Verify(t.Context(), &tensor.VerifyOptions{Strict: strict})
	return texts(report)
}

func node(inputs, outputs string, attributes ...[]byte) []byte {
	b := msg(4, "Op")
	for i, list := range []string{inputs, outputs} {
		for _, name := range strings.Fields(list) {
			b = append(b, msg(i+1, strings.Trim(name, "-"))...)
		}
	}
	return msg(1, b, join(attributes...))
}

func value(field int, name string) []byte { return msg(field, msg(1, name)) }

func sparseOf(dims []uint64, values, indices []byte) []byte {
	return msg(15, msg(1, values), msg(2, indices), msg(3, packed(dims...)))
}

// head is what a model has besides its graph.
var head = join(num(1, 10), msg(8, num(2, 21)))

// one is a model with one initializer of those fields.
func one(fields ...[]byte) []byte { return modelOf(msg(5, join(fields...))) }

func texts(report *tensor.Report) (all []string) {
	for _, f := range report.Findings {
		all = append(all, f.String())
	}
	return all
}
