package cbor

import (
	"bytes"
	"encoding/binary"
	"iter"
	"math"
	"slices"
	"sync"

	fxcbor "github.com/fxamacker/cbor/v2"

	"github.com/tensorfile/tensorfile/internal/le"
)

// An Item is an encoded item.
type Item = fxcbor.RawMessage

// Marshal encodes v as deterministic CBOR. A ztensor.Value, and an Item, keep their
// bytes.
func Marshal(v any) ([]byte, error) {
	m, err := fxcbor.CoreDetEncOptions().EncMode()
	if err != nil {
		return nil, err
	}
	return m.Marshal(v)
}

// MarshalFields encodes a struct as a map with the keys in the order of its fields.
func MarshalFields(v any) ([]byte, error) { return fields().Marshal(v) }

var fields = sync.OnceValue(func() fxcbor.EncMode {
	m, _ := fxcbor.EncOptions{}.EncMode() // never fails
	return m
})

// Unmarshal stores an item in the variable that p points to.
func Unmarshal(b []byte, p any) error { return unmarshal(b, p, fxcbor.TagsAllowed) }

func unmarshal(b []byte, p any, tags fxcbor.TagsMode) error {
	m, err := fxcbor.DecOptions{DupMapKey: fxcbor.DupMapKeyEnforcedAPF, TagsMd: tags,
		MaxNestedLevels: MaxNesting, MaxArrayElements: math.MaxInt32,
		MaxMapPairs: math.MaxInt32}.DecMode()
	if err != nil {
		return err
	}
	return m.Unmarshal(b, p)
}

// Deterministic returns the deterministic encoding of an item. It fails if the item has
// tags, which version 2 does not allow.
func Deterministic(b []byte) ([]byte, error) {
	var v any
	if err := unmarshal(b, &v, fxcbor.TagsForbidden); err != nil {
		return nil, err
	}
	return Marshal(v)
}

// Entries yields the keys and the encoded values of a map with text keys. It ends at the
// first error: the map has been checked before.
func Entries(encoded []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		c := Cursor{B: encoded, DepthLeft: MaxNesting}
		for n := c.Container(Map); c.More(&n); {
			name := c.Text()
			from := c.Pos
			c.Skip()
			if c.Err != nil || !yield(le.String(name), c.B[from:c.Pos:c.Pos]) {
				return
			}
		}
	}
}

// Find returns the encoded value of the entry of that name; nil if there is none.
func Find(encoded []byte, name string) []byte {
	for key, value := range Entries(encoded) {
		if key == name {
			return value
		}
	}
	return nil
}

// TextOf returns an item if it is text.
func TextOf(encoded []byte) (string, bool) {
	c := Cursor{B: encoded, DepthLeft: 1}
	if kind, _ := c.Item(); kind&^Indefinite != Text {
		return "", false
	}
	c.Pos = 0
	return string(c.Text()), c.Err == nil
}

// A Pair is a key of a map and its value, both encoded. Name is the key if it is text.
type Pair struct {
	Name       string
	Key, Value []byte
}

// PairOf returns the pair of a text key and an encoded value.
func PairOf(name string, value []byte) Pair { return Pair{name, AppendText(nil, name), value} }

// Pairs reads a map and returns its entries in order.
func (c *Cursor) Pairs() []Pair {
	var all []Pair
	var before []byte
	for n := c.Container(Map); c.More(&n); {
		from := c.Pos
		name := string(c.Key(&before))
		mid := c.Pos
		if c.Skip(); c.Err == nil {
			all = append(all, Pair{name, c.B[from:mid:mid], c.B[mid:c.Pos:c.Pos]})
		}
	}
	return all
}

// AppendPairs appends a map. If sorted is set, it first sorts all in the order of
// deterministic CBOR.
func AppendPairs(b []byte, all []Pair, sorted bool) []byte {
	if sorted {
		slices.SortFunc(all, func(a, b Pair) int { return bytes.Compare(a.Key, b.Key) })
	}
	b = AppendHead(b, Map, uint64(len(all)))
	for _, p := range all {
		b = append(append(b, p.Key...), p.Value...)
	}
	return b
}

// AppendHead appends the shortest head of an item.
func AppendHead(b []byte, kind uint8, n uint64) []byte {
	k := kind << 5
	switch {
	case n < 24:
		return append(b, k|byte(n))
	case n < 1<<8:
		return append(b, k|24, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, k|25), uint16(n))
	case n < 1<<32:
		return binary.BigEndian.AppendUint32(append(b, k|26), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(b, k|27), n)
}

// AppendText appends a text string.
// AppendText appends a text string.
func AppendText(b []byte, s string) []byte {
	return append(AppendHead(b, Text, uint64(len(s))), s...)
}
