package ztensor

import (
	"encoding/json"
	"fmt"
	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/tensor"
	"math"
	"strconv"
	"strings"
)

// appendJSON appends the next item as JSON.
func (c *cursor) appendJSON(b []byte) []byte {
	for c.p < len(c.b) && c.b[c.p]>>5 == cborTag {
		c.head()
	}
	kind, n := c.item()
	switch kind {
	case cborUint:
		return strconv.AppendUint(b, n, 10)
	case cborNegint:
		if n == math.MaxUint64 { // -1-n
			return append(b, "-18446744073709551616"...)
		}
		return strconv.AppendUint(append(b, '-'), n+1, 10)
	case cborText, cborText + indefinite:
		c.p = c.at
		return appendQuoted(b, le.String(c.text()))
	case cborBytes, cborBytes + indefinite:
		return fmt.Appendf(b, `{"$bytes":"%x"}`, c.byteString(kind, n))
	case cborArray, cborArray + indefinite:
		c.p = c.at
		sep := byte('[')
		for n := c.container(cborArray); c.more(&n); sep = ',' {
			b = c.appendJSON(append(b, sep))
		}
		if sep == '[' {
			b = append(b, sep)
		}
		return append(b, ']')
	case cborMap, cborMap + indefinite:
		c.p = c.at
		return c.appendMap(b)
	case cborSimple:
		return c.appendSimple(b, n)
	}
	return append(b, "null"...)
}

// appendMap appends a map whose keys are all text as an object, any other as a
// list of pairs.
func (c *cursor) appendMap(b []byte) []byte {
	at := c.p
	object := true
	for n := c.container(cborMap); c.more(&n); {
		kind, _ := c.item()
		object = object && kind&^indefinite == cborText
		c.p = c.at
		c.skip()
		c.skip()
	}
	c.p = at
	open, mid, end := `{"$map":[[`, byte(','), `]`
	if object {
		open, mid, end = `{`, ':', ``
	}
	first := true
	for n := c.container(cborMap); c.more(&n); first = false {
		switch {
		case first:
			b = append(b, open...)
		case object:
			b = append(b, ',')
		default:
			b = append(b, ",["...)
		}
		b = append(c.appendJSON(b), mid)
		b = append(c.appendJSON(b), end...)
	}
	switch {
	case first:
		return append(b, "{}"...)
	case object:
		return append(b, '}')
	}
	return append(b, "]}"...)
}

func (c *cursor) byteString(kind uint8, n uint64) []byte {
	if kind == cborBytes {
		if n > uint64(len(c.b)-c.p) {
			c.malformed(c.at, "a string claims %d bytes", n)
			return nil
		}
		c.p += int(n)
		return c.b[c.p-int(n) : c.p]
	}
	var joined []byte
	for c.err == nil {
		kind, n := c.head()
		if kind != cborBytes {
			break
		}
		joined = append(joined, c.byteString(kind, n)...)
	}
	return joined
}

// appendSimple appends a float, or one of the simple values. The head has been
// read; its argument is n.
func (c *cursor) appendSimple(b []byte, n uint64) []byte {
	var f float64
	switch c.p - c.at {
	case 3:
		f = float64(tensor.Float16(n).Float32())
	case 5:
		f = float64(math.Float32frombits(uint32(n)))
	case 9:
		f = math.Float64frombits(n)
	default:
		switch n {
		case 20:
			return append(b, "false"...)
		case 21:
			return append(b, "true"...)
		case 22, 23: // null and undefined
			return append(b, "null"...)
		}
		return fmt.Appendf(b, `{"$simple":%d}`, n)
	}
	switch {
	case math.IsNaN(f):
		return append(b, `{"$float":"nan"}`...)
	case math.IsInf(f, 1):
		return append(b, `{"$float":"inf"}`...)
	case math.IsInf(f, -1):
		return append(b, `{"$float":"-inf"}`...)
	}
	out, err := json.Marshal(f)
	if err != nil {
		return append(b, "null"...)
	}
	return append(b, out...)
}

func appendQuoted(b []byte, s string) []byte {
	var w strings.Builder
	e := json.NewEncoder(&w)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return append(b, `""`...)
	}
	return append(b, strings.TrimSuffix(w.String(), "\n")...)
}
