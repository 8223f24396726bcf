package cbor

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/tensorfile/tensorfile/tensor"
)

// Deterministic appends the next item in the one form that version 2 has for it.
// Files of version 1 have others.
func (c *Cursor) Deterministic(b []byte) ([]byte, error) {
	c.At = c.P
	kind, n := c.head()
	switch kind {
	case Uint, Negint:
		return AppendHead(b, kind, n), nil
	case Text, Text + Indefinite:
		c.P = c.At
		return AppendText(b, string(c.Text())), nil
	case cborBytes, cborBytes + Indefinite:
		s := c.bytes(cborBytes, kind, n)
		return append(AppendHead(b, cborBytes, uint64(len(s))), s...), nil
	case Array, Array + Indefinite:
		c.P = c.At
		var all []byte
		count := uint64(0)
		for n := c.Container(Array); c.More(&n); count++ {
			var err error
			if all, err = c.Deterministic(all); err != nil {
				return nil, err
			}
		}
		return append(AppendHead(b, Array, count), all...), nil
	case Map, Map + Indefinite:
		c.P = c.At
		return c.deterministicMap(b)
	case cborSimple:
		return c.deterministicSimple(b, n)
	case Tag:
		return nil, fmt.Errorf("%w: a tag in version 2", errors.ErrUnsupported)
	}
	return b, c.Err
}

func (c *Cursor) deterministicMap(b []byte) ([]byte, error) {
	var all []Pair
	for n := c.Container(Map); c.More(&n); {
		key, err := c.Deterministic(nil)
		if err != nil {
			return nil, err
		}
		value, err := c.Deterministic(nil)
		if err != nil {
			return nil, err
		}
		all = append(all, Pair{key, value})
	}
	b = AppendPairs(b, all)
	for i := 1; i < len(all); i++ {
		if bytes.Equal(all[i].Key, all[i-1].Key) {
			return nil, fmt.Errorf("%w: the same key twice in a map", errors.ErrUnsupported)
		}
	}
	return b, c.Err
}

func (c *Cursor) deterministicSimple(b []byte, n uint64) ([]byte, error) {
	f, ok := c.float(n)
	switch {
	case ok:
	case n < 20 || n > 22:
		return nil, fmt.Errorf("%w: the simple value %d in version 2", errors.ErrUnsupported, n)
	default:
		return append(b, cborSimple<<5|byte(n)), nil
	}
	f32 := float32(f)
	switch {
	case math.IsNaN(f):
		return append(b, 0xf9, 0x7e, 0), nil
	case float64(f32) != f:
		return binary.BigEndian.AppendUint64(append(b, 0xfb), math.Float64bits(f)), nil
	case tensor.NewFloat16(f32).Float32() != f32:
		return binary.BigEndian.AppendUint32(append(b, 0xfa), math.Float32bits(f32)), nil
	}
	return binary.BigEndian.AppendUint16(append(b, 0xf9), uint16(tensor.NewFloat16(f32))), nil
}
