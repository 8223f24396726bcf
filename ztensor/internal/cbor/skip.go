package cbor

import (
	"bytes"
	"slices"
)

// Skip reads one item and all that it contains. An item that it accepts is well-formed:
// text is UTF-8, and no map has the same key twice.
func (c *Cursor) Skip() {
	kind, n := c.Item()
	switch kind {
	case Uint, Negint, simpleValue, Bad:
	case byteString, byteString + Indefinite:
		c.bytes(byteString, kind, n)
	case Text, Text + Indefinite:
		c.Pos = c.At
		c.Text()
	case Array, Array + Indefinite:
		c.Pos = c.At
		for n := c.Container(Array); c.More(&n); {
			c.Skip()
		}
	case Map, Map + Indefinite:
		c.Pos = c.At
		if c.Strict {
			var before []byte
			for n := c.Container(Map); c.More(&n); {
				c.Key(&before)
				c.Skip()
			}
			return
		}
		mark := len(c.Keys)
		for n := c.Container(Map); c.More(&n); {
			key := c.Pos
			if c.Skip(); c.Err == nil {
				c.Push(c.B[key:c.Pos])
			}
			c.Skip()
		}
		c.Unique(mark)
	default:
		c.Malformed(c.At, "a break outside of a container")
	}
}

// Push adds an encoded key of the map that is being read, for Unique.
func (c *Cursor) Push(key []byte) {
	if c.Err == nil {
		c.Keys = append(c.Keys, key)
	}
}

// Unique fails if two of the keys from index mark on are the same. It removes these keys,
// and sorts them unless they ascend.
func (c *Cursor) Unique(mark int) {
	keys := c.Keys[mark:]
	c.Keys = c.Keys[:mark]
	if c.Err != nil || len(keys) < 2 {
		return
	}
	if !slices.IsSortedFunc(keys, bytes.Compare) {
		slices.SortFunc(keys, bytes.Compare)
	}
	for i := 1; i < len(keys); i++ {
		if bytes.Equal(keys[i-1], keys[i]) {
			c.Malformed(c.Pos, "a map has the same key twice")
		}
	}
}
