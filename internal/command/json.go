package command

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"io"
	"iter"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A document is a struct that --json prints. Its fields have JSON tags; docs/json.md
// describes all of them.
type document any

// A list is a field of a document whose elements are written as they come.
type list[T any] iter.Seq[T]

func (l list[T]) each(use func(any)) {
	for v := range l {
		use(v)
	}
}

// pairs is a JSON object whose keys are not fixed, in the order of the file.
type pairs[V any] []pair[V]

type pair[V any] struct {
	key   string
	value V
}

func (p *pairs[V]) add(key string, value V) { *p = append(*p, pair[V]{key, value}) }

func (p pairs[V]) eachPair(use func(key string, value any)) {
	for _, e := range p {
		use(e.key, e.value)
	}
}

// MarshalJSON implements json.Marshaler.
func (p pairs[V]) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, e := range p {
		key, err := marshal(e.key)
		if err != nil {
			return nil, err
		}
		value, err := marshal(e.value)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, key...), ':'), value...)
	}
	return append(b, '}'), nil
}

// A nameField is a name from a file; one that is not UTF-8 has its bytes next to it.
type nameField struct {
	Name    string `json:"name"`
	NameHex string `json:"name_hex,omitempty"`
}

func nameOf(name string) nameField {
	if utf8.ValidString(name) {
		return nameField{Name: name}
	}
	return nameField{name, hex.EncodeToString([]byte(name))}
}

// printJSON writes a document that is the whole output.
func (a *app) printJSON(d document) error {
	w := a.newJSON()
	w.document(d)
	w.end()
	return nil
}

// A jsonWriter streams documents: each field is on a line of its own, and so is each
// element of a list of structs.
type jsonWriter struct {
	w     io.Writer // bufio keeps the first error for Flush
	lines bool      // each document is one line
	buf   []byte
	depth int
	first bool // of the innermost object or list
	keyed bool // a key has been written, its value comes
}

func (a *app) newJSON() *jsonWriter { return &jsonWriter{w: a.out, lines: a.jsonLines} }

func (w *jsonWriter) separate() {
	switch {
	case w.keyed:
		w.keyed = false
		return
	case w.depth == 0:
		return
	case !w.first:
		w.buf = append(w.buf, ',')
	}
	w.newLine()
	w.first = false
}

func (w *jsonWriter) newLine() {
	if !w.lines {
		w.buf = appendSpaces(append(w.buf, '\n'), 2*w.depth)
	} else if !w.first {
		w.buf = append(w.buf, ' ')
	}
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
	if !w.first && !w.lines {
		w.newLine()
	}
	w.buf = append(w.buf, c)
	w.first = false
	w.flush(32 << 10)
}

// key begins a field of an object.
func (w *jsonWriter) key(k string) {
	w.separate()
	w.buf = appendSpaced(w.buf, []byte(`"`+k+`"`))
	w.buf = append(w.buf, ": "...)
	w.keyed = true
}

// value writes a value on one line.
func (w *jsonWriter) value(v any) {
	w.separate()
	b, err := marshal(v)
	if err != nil {
		b, _ = json.Marshal(err.Error())
	}
	w.buf = appendSpaced(w.buf, b)
	w.flush(32 << 10)
}

// document writes a struct.
func (w *jsonWriter) document(d document) {
	w.open('{')
	w.fields(reflect.ValueOf(d))
	w.close('}')
}

func (w *jsonWriter) fields(s reflect.Value) {
	eachField(s, func(key string, v reflect.Value) {
		w.key(key)
		if l, ok := v.Interface().(interface{ each(func(any)) }); ok {
			w.elements(l.each)
			return
		}
		if t := v.Type(); t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct && v.Len() > 0 && !isMarshaler(t) {
			w.elements(func(use func(any)) {
				for k := range v.Len() {
					use(v.Index(k).Interface())
				}
			})
			return
		}
		w.value(v.Interface())
	})
}

func isMarshaler(t reflect.Type) bool { return t.Implements(reflect.TypeFor[json.Marshaler]()) }

// namedFacts is a field whose key is the name of a format.
type namedFacts struct {
	format string
	facts  any
}

// eachField calls use with the fields of a struct that encoding/json writes.
func eachField(s reflect.Value, use func(key string, v reflect.Value)) {
	for s.Kind() == reflect.Pointer || s.Kind() == reflect.Interface {
		if s.IsNil() {
			return
		}
		s = s.Elem()
	}
	for i := range s.NumField() {
		f, v := s.Type().Field(i), s.Field(i)
		key, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && key == "" {
			eachField(v, use)
			continue
		}
		if !f.IsExported() || key == "-" {
			continue
		}
		if n, ok := v.Interface().(namedFacts); ok {
			if n.facts != nil {
				use(n.format, reflect.ValueOf(&n.facts).Elem())
			}
			continue
		}
		if !isOmitted(v, options) {
			use(key, v)
		}
	}
}

// isOmitted follows omitempty and omitzero of encoding/json.
func isOmitted(v reflect.Value, options string) bool {
	switch z, ok := v.Interface().(interface{ IsZero() bool }); {
	case strings.Contains(options, "omitzero") && ok:
		return z.IsZero()
	case strings.Contains(options, "omitempty") && (v.Kind() == reflect.Slice || v.Kind() == reflect.Map):
		return v.Len() == 0
	}
	return strings.Contains(options, "omit") && v.IsZero()
}

func (w *jsonWriter) elements(each func(func(any))) {
	w.open('[')
	each(w.value)
	w.close(']')
}

// end completes the output.
func (w *jsonWriter) end() {
	w.buf = append(w.buf, '\n')
	w.flush(0)
}

func (w *jsonWriter) flush(over int) {
	if len(w.buf) > over {
		w.w.Write(w.buf)
		w.buf = w.buf[:0]
	}
}

// marshal is json.Marshal with & as it is.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// appendSpaced writes JSON with a space after each comma and colon. Strings become safe
// on a terminal and in a web page: what is not printable, < and > are escapes.
func appendSpaced(b, text []byte) []byte {
	inString := false
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == '"':
			inString = !inString
		case c == '\\':
			b = append(b, c, text[i+1])
			i += 2
			continue
		case !inString && (c == ',' || c == ':'):
			b = append(b, c, ' ')
			i++
			continue
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRune(text[i:])
			if r != utf8.RuneError && unicode.IsPrint(r) {
				b = append(b, text[i:i+n]...)
			} else {
				b = appendRune(b, r)
			}
			i += n
			continue
		case c == '<' || c == '>' || c == 0x7f:
			b = appendUnit(b, rune(c))
			i++
			continue
		}
		b = append(b, c)
		i++
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
