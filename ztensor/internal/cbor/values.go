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

// An Item is one that is encoded.
type Item = fxcbor.RawMessage

// Marshal encodes v, with maps sorted and all in its shortest form, floats and NaN
// included. A value of a file stays as it is there.
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
	m, _ := fxcbor.EncOptions{}.EncMode() // which cannot fail
	return m
})

// Unmarshal stores an item in what p points to.
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

// Deterministic returns an item in the one form that version 2 has for it. Files of
// version 1 have others, and tags, which are an error.
func Deterministic(b []byte) ([]byte, error) {
	var v any
	if err := unmarshal(b, &v, fxcbor.TagsForbidden); err != nil {
		return nil, err
	}
	return Marshal(v)
}

// Entries yields what a map that has been looked through before holds. Its keys are text.
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

// Find returns the value of an entry; nil where there is none.
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

// A Pair is a key of a map and its value, both encoded. Name is the key if that is text.
type Pair struct {
	Name       string
	Key, Value []byte
}

// PairOf returns the pair of a text key.
func PairOf(name string, value []byte) Pair { return Pair{name, AppendText(nil, name), value} }

// Pairs reads a map.
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

// AppendPairs appends a map, in the order of deterministic CBOR if it is to be sorted.
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

func AppendText(b []byte, s string) []byte {
	return append(AppendHead(b, Text, uint64(len(s))), s...)
}
