package cbor

import (
	"iter"

	"github.com/tensorfile/tensorfile/internal/le"
)

// Entries yields what a map that has been looked through before holds. Its keys are text.
func Entries(encoded []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		if len(encoded) == 0 {
			return
		}
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

// TextOf returns an item if it is text.
func TextOf(encoded []byte) (string, bool) {
	if len(encoded) == 0 {
		return "", false
	}
	c := Cursor{B: encoded, Deep: 1}
	if kind, _ := c.Item(); kind&^Indefinite != Text {
		return "", false
	}
	c.P = 0
	return string(c.Text()), c.Err == nil
}
