package cbor

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"github.com/tensorfile/tensorfile/tensor"
	"math"
	"slices"
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
		s := c.byteString(kind, n)
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
	type pair struct{ key, value []byte }
	var all []pair
	for n := c.Container(Map); c.More(&n); {
		key, err := c.Deterministic(nil)
		if err != nil {
			return nil, err
		}
		value, err := c.Deterministic(nil)
		if err != nil {
			return nil, err
		}
		all = append(all, pair{key, value})
	}
	slices.SortFunc(all, func(x, y pair) int { return bytes.Compare(x.key, y.key) })
	b = AppendHead(b, Map, uint64(len(all)))
	for i, p := range all {
		if i > 0 && bytes.Equal(p.key, all[i-1].key) {
			return nil, fmt.Errorf("%w: the same key twice in a map", errors.ErrUnsupported)
		}
		b = append(append(b, p.key...), p.value...)
	}
	return b, c.Err
}

func (c *Cursor) deterministicSimple(b []byte, n uint64) ([]byte, error) {
	var f float64
	switch c.P - c.At {
	case 3:
		f = float64(tensor.Float16(n).Float32())
	case 5:
		f = float64(math.Float32frombits(uint32(n)))
	case 9:
		f = math.Float64frombits(n)
	default:
		if n < 20 || n > 22 {
			return nil, fmt.Errorf("%w: the simple value %d in version 2", errors.ErrUnsupported, n)
		}
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
