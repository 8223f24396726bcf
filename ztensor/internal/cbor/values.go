package cbor

import (
	"iter"
	"math"
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
		c := Cursor{B: encoded, Deep: MaxNesting}
		for n := c.Container(Map); c.More(&n); {
			name := c.Text()
			from := c.P
			c.Skip()
			if c.Err != nil || !yield(le.String(name), c.B[from:c.P:c.P]) {
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
	c := Cursor{B: encoded, Deep: 1}
	if kind, _ := c.Item(); kind&^Indefinite != Text {
		return "", false
	}
	c.P = 0
	return string(c.Text()), c.Err == nil
}
