package command

import (
	"encoding/hex"
	"encoding/json"
	"iter"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A list is a field of a document whose elements are written as they come.
type list[T any] iter.Seq[T]

func (l list[T]) each(use func(any)) {
	for v := range l {
		use(v)
	}
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

// printJSON writes a struct as a document of its own.
func (a *app) printJSON(v any) error {
	w := &jsonWriter{w: a.out}
	w.document(v)
	w.end()
	return a.out.Flush()
}

// document writes a struct: each field on a line, and of fields that are lists of
// structs each element.
func (w *jsonWriter) document(v any) {
	w.open('{')
	w.fields(reflect.ValueOf(v))
	w.close('}')
}

func (w *jsonWriter) fields(s reflect.Value) {
	for s.Kind() == reflect.Pointer || s.Kind() == reflect.Interface {
		if s.IsNil() {
			return
		}
		s = s.Elem()
	}
	for i := range s.NumField() {
		f, v := s.Type().Field(i), s.Field(i)
		key, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && key == "":
			w.fields(v)
			continue
		case !f.IsExported() || key == "-" || strings.Contains(options, "omit") && isOmitted(v, options):
			continue
		}
		w.key(key)
		if l, ok := v.Interface().(interface{ each(func(any)) }); ok {
			w.elements(l.each)
			continue
		}
		if e := v.Type(); e.Kind() == reflect.Slice && e.Elem().Kind() == reflect.Struct {
			w.elements(func(use func(any)) {
				for k := range v.Len() {
					use(v.Index(k).Addr().Interface())
				}
			})
			continue
		}
		w.encoded(v.Interface())
	}
}

// isOmitted follows omitempty and omitzero of encoding/json.
func isOmitted(v reflect.Value, options string) bool {
	if z, ok := v.Interface().(interface{ IsZero() bool }); ok && strings.Contains(options, "omitzero") {
		return z.IsZero()
	}
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	}
	return v.IsZero()
}

func (w *jsonWriter) elements(each func(func(any))) {
	w.open('[')
	each(w.encoded)
	w.close(']')
}

// encoded writes a value as encoding/json has it, on one line.
func (w *jsonWriter) encoded(v any) {
	w.separate()
	b, err := marshal(v)
	if err != nil {
		b = appendString(nil, err.Error())
	}
	w.buf = appendSpaced(w.buf, b)
	w.flush(32 << 10)
}

func marshal(v any) ([]byte, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return []byte(strings.TrimSuffix(b.String(), "\n")), err
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
