package command

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"reflect"
	"strconv"
	"unicode"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile/tensor"
)

// An object is a JSON object whose fields keep their order. It is also what
// people see of info, as indented lines.
type object []field

type field struct {
	key   string
	value any
}

// set appends a field.
func (o *object) set(key string, value any) { *o = append(*o, field{key, value}) }

// appendJSON writes a value: nil, booleans, numbers, strings, objects, and
// slices and maps of these. What JSON lacks is said as docs/json.md has it.
func appendJSON(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...)
	case object:
		b = append(b, '{')
		for i, f := range v {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = appendString(b, f.key)
			b = append(b, ": "...)
			b = appendJSON(b, f.value)
		}
		return append(b, '}')
	case string:
		return appendString(b, v)
	case bool:
		return strconv.AppendBool(b, v)
	case int:
		return strconv.AppendInt(b, int64(v), 10)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case uint64:
		return strconv.AppendUint(b, v, 10)
	case float64:
		return appendFloat(b, v, 64)
	case float32:
		return appendFloat(b, float64(v), 32)
	case complex128:
		return appendPair(b, real(v), imag(v), 64)
	case complex64:
		return appendPair(b, float64(real(v)), float64(imag(v)), 32)
	case []byte:
		b = append(b, `{"$bytes": "`...)
		b = hex.AppendEncode(b, v)
		return append(b, `"}`...)
	case tensor.Shape:
		return appendInts(b, v)
	case tensor.Order:
		return appendInts(b, v)
	case json.Marshaler:
		text, err := v.MarshalJSON()
		if err != nil {
			return append(b, "null"...)
		}
		return appendRaw(b, text)
	case fmt.Stringer:
		return appendString(b, v.String())
	}
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Slice, reflect.Array:
		b = append(b, '[')
		for i := range r.Len() {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = appendJSON(b, r.Index(i).Interface())
		}
		return append(b, ']')
	case reflect.Map:
		return appendMap(b, r)
	case reflect.Pointer:
		if r.IsNil() {
			return append(b, "null"...)
		}
		return appendJSON(b, r.Elem().Interface())
	case reflect.Int8, reflect.Int16, reflect.Int32:
		return strconv.AppendInt(b, r.Int(), 10)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return strconv.AppendUint(b, r.Uint(), 10)
	case reflect.String:
		return appendString(b, r.String())
	case reflect.Bool:
		return strconv.AppendBool(b, r.Bool())
	}
	return appendString(b, fmt.Sprint(v))
}

func appendInts[T int | int64](b []byte, s []T) []byte {
	b = append(b, '[')
	for i, d := range s {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = strconv.AppendInt(b, int64(d), 10)
	}
	return append(b, ']')
}

// appendMap writes a map with text keys as an object and any other as a list of
// pairs, both in an order that does not change from run to run.
func appendMap(b []byte, r reflect.Value) []byte {
	type pair struct {
		sort string
		key  string
		k, v any
	}
	text := true
	pairs := make([]pair, 0, r.Len())
	for it := r.MapRange(); it.Next(); {
		k := it.Key().Interface()
		s, ok := k.(string)
		text = text && ok
		pairs = append(pairs, pair{string(appendJSON(nil, k)), s, k, it.Value().Interface()})
	}
	sortBy(pairs, func(p pair) string { return p.sort })
	if !text {
		b = append(b, `{"$map": [`...)
	} else {
		b = append(b, '{')
	}
	for i, p := range pairs {
		if i > 0 {
			b = append(b, ", "...)
		}
		if text {
			b = append(b, p.sort...)
			b = append(b, ": "...)
			b = appendJSON(b, p.v)
			continue
		}
		b = append(b, '[')
		b = append(b, p.sort...)
		b = append(b, ", "...)
		b = appendJSON(b, p.v)
		b = append(b, ']')
	}
	if !text {
		return append(b, "]}"...)
	}
	return append(b, '}')
}

func appendPair(b []byte, re, im float64, bits int) []byte {
	b = append(b, '[')
	b = appendFloat(b, re, bits)
	b = append(b, ", "...)
	b = appendFloat(b, im, bits)
	return append(b, ']')
}

// appendFloat writes the shortest digits that give the same value back, NaN and
// the infinities as {"$float": "nan"}.
func appendFloat(b []byte, v float64, bits int) []byte {
	switch {
	case math.IsNaN(v):
		return append(b, `{"$float": "nan"}`...)
	case math.IsInf(v, 1):
		return append(b, `{"$float": "inf"}`...)
	case math.IsInf(v, -1):
		return append(b, `{"$float": "-inf"}`...)
	}
	format := byte('f')
	if abs := math.Abs(v); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(b, v, format, -1, bits)
}

// appendString writes a JSON string that is also safe on a terminal and in a web
// page: everything that is not printable, and < and >, are escapes. Each byte
// that is not UTF-8 becomes one U+FFFD.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' && c != 0x7f && c != '<' && c != '>' {
				i++
				continue
			}
			b = append(b, s[start:i]...)
			switch c {
			case '"', '\\':
				b = append(b, '\\', c)
			case '\n':
				b = append(b, `\n`...)
			case '\t':
				b = append(b, `\t`...)
			default:
				b = appendUnit(b, rune(c))
			}
			i++
			start = i
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if r != utf8.RuneError && unicode.IsPrint(r) {
			i += n
			continue
		}
		b = append(b, s[start:i]...)
		b = appendRune(b, r)
		i += n
		start = i
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}

// appendRaw writes JSON that somebody else has made, and makes it as safe.
func appendRaw(b, text []byte) []byte {
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if r < utf8.RuneSelf || r != utf8.RuneError && unicode.IsPrint(r) {
			b = append(b, text[:n]...)
		} else {
			b = appendRune(b, r)
		}
		text = text[n:]
	}
	return b
}

// appendRune writes a character as one escape, or two beyond U+FFFF.
func appendRune(b []byte, r rune) []byte {
	if r > 0xffff {
		r -= 0x10000
		b = appendUnit(b, 0xd800+r>>10)
		r = 0xdc00 + r&0x3ff
	}
	return appendUnit(b, r)
}

func appendUnit(b []byte, r rune) []byte {
	const digits = "0123456789abcdef"
	return append(b, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15])
}

// A jsonWriter streams a document: what is nested one or two levels deep is on
// lines of its own, so that people and line tools get along with it too.
type jsonWriter struct {
	w interface {
		Write(p []byte) (int, error)
	}
	buf   []byte
	depth int
	first bool // of the innermost object or list
	keyed bool // a key has been written, its value comes
}

func (w *jsonWriter) separate() {
	if w.keyed {
		w.keyed = false
		return
	}
	if w.depth == 0 {
		return
	}
	if !w.first {
		w.buf = append(w.buf, ',')
	}
	w.first = false
	w.buf = append(w.buf, '\n')
	w.buf = appendSpaces(w.buf, 2*w.depth)
}

// open begins an object or a list, with { or [.
func (w *jsonWriter) open(c byte) {
	w.separate()
	w.buf = append(w.buf, c)
	w.depth++
	w.first = true
}

// close ends it.
func (w *jsonWriter) close(c byte) {
	w.depth--
	if !w.first {
		w.buf = append(w.buf, '\n')
		w.buf = appendSpaces(w.buf, 2*w.depth)
	}
	w.buf = append(w.buf, c)
	w.first = false
	w.flush(32 << 10)
}

// key begins a field of an object.
func (w *jsonWriter) key(k string) {
	w.separate()
	w.buf = appendString(w.buf, k)
	w.buf = append(w.buf, ": "...)
	w.keyed = true
}

// value writes a whole value on one line, an object of the outermost level on
// several.
func (w *jsonWriter) value(v any) {
	if o, ok := v.(object); ok && w.depth < 3 && !w.keyed {
		w.open('{')
		for _, f := range o {
			w.field(f.key, f.value)
		}
		w.close('}')
		return
	}
	w.separate()
	w.buf = appendJSON(w.buf, v)
	w.flush(32 << 10)
}

// field is key and value; lists of objects have an object a line.
func (w *jsonWriter) field(k string, v any) {
	w.key(k)
	if list, ok := v.(lines); ok {
		w.open('[')
		for line := range list.all() {
			w.separate()
			w.buf = append(w.buf, line...)
			w.flush(32 << 10)
		}
		w.close(']')
		return
	}
	if list, ok := v.([]object); ok {
		w.open('[')
		for _, o := range list {
			w.separate()
			w.buf = appendJSON(w.buf, o)
			w.flush(32 << 10)
		}
		w.close(']')
		return
	}
	w.value(v)
}

// end completes the document.
func (w *jsonWriter) end() {
	if len(w.buf) > 0 || w.first || w.depth == 0 {
		w.buf = append(w.buf, '\n')
	}
	w.flush(0)
}

func (w *jsonWriter) flush(over int) {
	if len(w.buf) > over {
		w.w.Write(w.buf) // bufio keeps the first error for Flush
		w.buf = w.buf[:0]
	}
}

// row is line for a tensor.
func (w *jsonWriter) row(r *row) {
	w.separate()
	w.buf = r.appendJSON(w.buf)
	w.flush(32 << 10)
}

// line writes an element of a list on one line.
func (w *jsonWriter) line(o object) {
	w.separate()
	w.buf = appendJSON(w.buf, o)
	w.flush(32 << 10)
}

// lines are objects that wait to be written as a list, as text: a file may have a
// million tensors, and an object takes several times the memory.
type lines struct{ chunks [][]byte }

func (l *lines) add(o object) {
	const chunk = 64 << 10
	last := len(l.chunks) - 1
	if last < 0 || cap(l.chunks[last])-len(l.chunks[last]) < chunk/16 {
		l.chunks = append(l.chunks, make([]byte, 0, chunk))
		last++
	}
	l.chunks[last] = append(appendJSON(l.chunks[last], o), '\n') // which is an escape inside of strings
}

func (l lines) all() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for _, c := range l.chunks {
			for len(c) > 0 {
				n := bytes.IndexByte(c, '\n')
				if !yield(c[:n]) {
					return
				}
				c = c[n+1:]
			}
		}
	}
}
