package ztensor

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// A pair2 is a key of a map and its value, both encoded.
type pair2 struct{ key, value []byte }

// pairs reads a map .
func (c *cursor) pairs() []pair2 {
	var all []pair2
	var before []byte
	for n := c.container(cborMap); c.more(&n); {
		from := c.p
		c.key(&before)
		mid := c.p
		if c.skip(); c.err == nil {
			all = append(all, pair2{c.b[from:mid:mid], c.b[mid:c.p:c.p]})
		}
	}
	return all
}

// appendPairs appends a map in the order that deterministic CBOR wants.
func appendPairs(b []byte, all []pair2) []byte {
	slices.SortFunc(all, func(x, y pair2) int { return bytes.Compare(x.key, y.key) })
	b = appendHead(b, cborMap, uint64(len(all)))
	for _, p := range all {
		b = append(append(b, p.key...), p.value...)
	}
	return b
}

// appendHead appends the shortest head of an item.
func appendHead(b []byte, kind uint8, n uint64) []byte {
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

func appendText(b []byte, s string) []byte {
	return append(appendHead(b, cborText, uint64(len(s))), s...)
}
