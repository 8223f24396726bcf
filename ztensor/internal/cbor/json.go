package cbor

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tensorfile/tensorfile/internal/le"
)

// AppendJSON appends the next item as JSON; see ztensor.Value.MarshalJSON.
func (c *Cursor) AppendJSON(b []byte) []byte {
	for c.Pos < len(c.B) && c.B[c.Pos]>>5 == Tag {
		c.head()
	}
	kind, n := c.Item()
	switch kind {
	case Uint:
		return strconv.AppendUint(b, n, 10)
	case Negint:
		if n == math.MaxUint64 { // -1-n
			return append(b, "-18446744073709551616"...)
		}
		return strconv.AppendUint(append(b, '-'), n+1, 10)
	case Text, Text + Indefinite:
		c.Pos = c.At
		return appendQuoted(b, le.String(c.Text()))
	case byteString, byteString + Indefinite:
		return fmt.Appendf(b, `{"$bytes":"%x"}`, c.bytes(byteString, kind, n))
	case Array, Array + Indefinite:
		c.Pos = c.At
		sep := byte('[')
		for n := c.Container(Array); c.More(&n); sep = ',' {
			b = c.AppendJSON(append(b, sep))
		}
		if sep == '[' {
			b = append(b, sep)
		}
		return append(b, ']')
	case Map, Map + Indefinite:
		c.Pos = c.At
		return c.appendMap(b)
	case simpleValue:
		return c.appendSimple(b, n)
	}
	return append(b, "null"...)
}

// appendMap appends a map whose keys are all text as an object, any other as a
// list of pairs.
func (c *Cursor) appendMap(b []byte) []byte {
	at := c.Pos
	object := true
	for n := c.Container(Map); c.More(&n); {
		kind, _ := c.Item()
		object = object && kind&^Indefinite == Text
		c.Pos = c.At
		c.Skip()
		c.Skip()
	}
	c.Pos = at
	open, mid, end := `{"$map":[[`, byte(','), `]`
	if object {
		open, mid, end = `{`, ':', ``
	}
	first := true
	for n := c.Container(Map); c.More(&n); first = false {
		switch {
		case first:
			b = append(b, open...)
		case object:
			b = append(b, ',')
		default:
			b = append(b, ",["...)
		}
		b = append(c.AppendJSON(b), mid)
		b = append(c.AppendJSON(b), end...)
	}
	switch {
	case first:
		return append(b, "{}"...)
	case object:
		return append(b, '}')
	}
	return append(b, "]}"...)
}

// appendSimple appends a float, or one of the simple values. The head has been
// read; its argument is n.
func (c *Cursor) appendSimple(b []byte, n uint64) []byte {
	f, ok := c.float(n)
	switch {
	case ok:
	case n == 20:
		return append(b, "false"...)
	case n == 21:
		return append(b, "true"...)
	case n == 22 || n == 23: // null and undefined
		return append(b, "null"...)
	default:
		return fmt.Appendf(b, `{"$simple":%d}`, n)
	}
	out, err := json.Marshal(f)
	if err != nil { // NaN, +Inf or -Inf
		word := strings.ToLower(strings.TrimPrefix(fmt.Sprint(f), "+"))
		return fmt.Appendf(b, `{"$float":%q}`, word)
	}
	return append(b, out...)
}

func appendQuoted(b []byte, s string) []byte {
	var w strings.Builder
	e := json.NewEncoder(&w)
	e.SetEscapeHTML(false)
	e.Encode(s) // a string into memory, which does not fail
	return append(b, strings.TrimSuffix(w.String(), "\n")...)
}
