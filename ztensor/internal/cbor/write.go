package cbor

import (
	"bytes"
	"encoding/binary"
	"sort"
)

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
		from := c.P
		name := string(c.Key(&before))
		mid := c.P
		if c.Skip(); c.Err == nil {
			all = append(all, Pair{name, c.B[from:mid:mid], c.B[mid:c.P:c.P]})
		}
	}
	return all
}

// AppendPairs appends a map, in the order of deterministic CBOR if it is to be sorted.
func AppendPairs(b []byte, all []Pair, sorted bool) []byte {
	if sorted {
		sort.Slice(all, func(i, j int) bool { return bytes.Compare(all[i].Key, all[j].Key) < 0 })
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
