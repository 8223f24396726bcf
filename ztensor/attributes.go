package ztensor

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/fxamacker/cbor/v2"

	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/tensor"
)

// ownAttributes is the attribute map of one tensor, as CBOR.
type ownAttributes struct {
	tensor int
	cbor   []byte
}

// A Value is the value of an attribute: text, or from 1.1 on for tensors and
// from 1.2 on for files anything that CBOR has. WriterOptions take one as it is.
type Value struct {
	cbor []byte // one well-formed item
}

// Text returns the value if it is text.
func (v Value) Text() (string, bool) {
	if len(v.cbor) == 0 {
		return "", false
	}
	c := cursor{b: v.cbor, deep: 1}
	if kind, _ := c.item(); kind&^indefinite != cborText {
		return "", false
	}
	c.p = 0
	return string(c.text()), c.err == nil
}

// HasTag reports whether the value has CBOR tags, at any depth. Version 2 has
// none, and JSON and text leave them out.
func (v Value) HasTag() bool {
	c := cursor{b: v.cbor, deep: maxNesting}
	if len(v.cbor) > 0 {
		c.skip()
	}
	return c.odd&oddTag != 0
}

// Decode stores the value in what p points to, by the rules of
// github.com/fxamacker/cbor/v2.
func (v Value) Decode(p any) error {
	m, err := cbor.DecOptions{
		DupMapKey:        cbor.DupMapKeyEnforcedAPF,
		MaxNestedLevels:  maxNesting,
		MaxArrayElements: math.MaxInt32,
		MaxMapPairs:      math.MaxInt32,
	}.DecMode()
	if err != nil {
		return err
	}
	return m.Unmarshal(v.cbor, p)
}

// MarshalCBOR returns the value as it is in the file.
func (v Value) MarshalCBOR() ([]byte, error) {
	if len(v.cbor) == 0 {
		return []byte{cborNull}, nil
	}
	return v.cbor, nil
}

// MarshalJSON writes the value as docs/json.md says: what JSON lacks becomes
// {"$float": "nan"}, {"$bytes": "hex"} or {"$map": [[key, value]]}. Tags are left
// out.
func (v Value) MarshalJSON() ([]byte, error) {
	if len(v.cbor) == 0 {
		return []byte("null"), nil
	}
	c := cursor{b: v.cbor, deep: maxNesting}
	b := c.appendJSON(nil)
	if c.err != nil {
		return nil, c.err
	}
	return b, nil
}

// String is the text, or the value as JSON.
func (v Value) String() string {
	if s, ok := v.Text(); ok {
		return s
	}
	b, err := v.MarshalJSON()
	if err != nil {
		return hex.EncodeToString(v.cbor) // well-formed CBOR always has JSON; only a made-up Value gets here
	}
	return string(b)
}

// Attributes yields the attributes of the file in file order. Values that are
// not text are given as JSON; see [Reader.AttributeValues].
func (r *Reader) Attributes() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for name, v := range r.AttributeValues() {
			if !yield(name, v.String()) {
				return
			}
		}
	}
}

// AttributeValues yields the attributes of the file with their values as they are.
func (r *Reader) AttributeValues() iter.Seq2[string, Value] { return pairs(r.attributes) }

// TensorAttributes yields the attributes of one of the file's tensors in file order:
// those that files from 1.1 on can have, and the custom fields of 0.1.
func (r *Reader) TensorAttributes(t *tensor.Tensor) iter.Seq2[string, Value] {
	if len(r.ownAttrs) == 0 {
		return pairs(nil)
	}
	i := r.find(t.Name)
	for i >= 0 && i < r.tensors.used && r.tensors.at(i) != t {
		i++ // a name that stands twice, which 0.1 can have; or not ours
	}
	i, ok := slices.BinarySearchFunc(r.ownAttrs, i, func(a ownAttributes, i int) int { return a.tensor - i })
	if !ok {
		return pairs(nil)
	}
	return pairs(r.ownAttrs[i].cbor)
}

// pairs yields what a map that has been looked through before holds. Its keys
// are text.
func pairs(cbor []byte) iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		if len(cbor) == 0 {
			return
		}
		c := cursor{b: cbor, deep: maxNesting}
		for n := c.container(cborMap); c.more(&n); {
			name := c.text()
			from := c.p
			c.skip()
			if c.err != nil || !yield(le.String(name), Value{c.b[from:c.p:c.p]}) {
				return
			}
		}
	}
}

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
