package cbor

import (
	"iter"

	"github.com/tensorfile/tensorfile/internal/le"
)

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
