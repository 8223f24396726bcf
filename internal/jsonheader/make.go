package jsonheader

import (
	"encoding/binary"
	"strconv"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/tensor"
)

// Make returns what precedes the data in a file of these tensors, in that order, and the
// size of the whole file. Errors are of that format.
func Make(format string, metadata [][2]string, tensors []*tensor.Tensor) ([]byte, int64, error) {
	fail := func(text string, args ...any) ([]byte, int64, error) {
		return nil, 0, formatError(format, tensor.ErrLimit, -1, "header", text, args...)
	}
	b := make([]byte, Start, Start+128*(len(tensors)+1))
	b = append(b, '{')
	if len(metadata) > 0 {
		b = append(b, `"`+MetadataKey+`":{`...)
		for i, kv := range metadata {
			b = AppendString(Comma(b, i), kv[0])
			b = AppendString(append(b, ':'), kv[1])
		}
		b = append(b, '}')
		b = Comma(b, len(tensors)) // only if a tensor follows
	}
	at := int64(0)
	for i, t := range tensors {
		b = AppendString(Comma(b, i), t.Name)
		b = append(b, `:{"dtype":`...)
		if rank := RankOf(t.DType); rank >= 0 {
			b = AppendString(b, words[rank].typeName)
		} else { // as a file had it
			st, _ := t.Data.Stored()
			b = AppendString(b, st.Type)
		}
		b = append(b, `,"shape":[`...)
		for k, d := range t.Shape {
			b = strconv.AppendInt(Comma(b, k), d, 10)
		}
		end, ok := align.Add(at, t.Data.Size())
		if !ok {
			return fail("data beyond 2^63 bytes")
		}
		b = append(b, `],"data_offsets":[`...)
		b = strconv.AppendInt(b, at, 10)
		b = append(b, ',')
		b = strconv.AppendInt(b, end, 10)
		b = append(b, "]}"...)
		at = end
	}
	b = append(b, '}')
	for len(b)%8 != 0 {
		b = append(b, ' ')
	}
	n := len(b) - Start
	if n > Max {
		return fail("%d bytes, the format allows %d", n, Max)
	}
	binary.LittleEndian.PutUint64(b, uint64(n))
	total, ok := align.Add(at, int64(len(b)))
	if !ok {
		return fail("a file beyond 2^63 bytes")
	}
	return b, total, nil
}

// Comma writes a comma before all but the first of several values.
func Comma(b []byte, i int) []byte {
	if i > 0 {
		return append(b, ',')
	}
	return b
}

// AppendString writes a JSON string with the escapes that the reference of safetensors
// uses, so that files are equal to the byte.
func AppendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, `\b`...)
		case '\f':
			b = append(b, `\f`...)
		case '\n':
			b = append(b, `\n`...)
		case '\r':
			b = append(b, `\r`...)
		case '\t':
			b = append(b, `\t`...)
		default:
			if c < 0x20 {
				b = append(b, `\u00`...)
				b = append(b, hex[c>>4], hex[c&15])
			} else {
				b = append(b, c)
			}
		}
	}
	return append(b, '"')
}
