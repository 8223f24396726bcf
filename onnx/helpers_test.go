package onnx

import (
	"bytes"
	"encoding/binary"
	"io"
	"slices"
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
