package ztensor

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/tensorfile/tensorfile/tensor"
)

// maxDepth2 is how deep an item of a version 2 manifest may lie; the root lies
// at 0, and what a container has in it one deeper than the container.
const maxDepth2 = 32

// A canon walks deterministic CBOR (§3.1 of version 2's specification), without
// copying it, and refuses whatever the rules refuse. Its first error sticks:
// afterwards there are no more items and every container is empty, so that
// callers ask once, when they are done.
type canon struct {
	b     []byte
	p     int // next byte
	at    int // first byte of the item that was read last
	limit int // of depth, at most maxDepth2
	err   error
	errAt int
}

func newCanon(b []byte, l tensor.Limits) canon {
	return canon{b: b, limit: int(min(l.MaxDepth, maxDepth2))}
}

// refuse notes the first broken rule, at byte at.
func (c *canon) refuse(rule string, at int, format string, args ...any) {
	if c.err == nil {
		c.fail(at, broken(rule, format, args...))
	}
}

func (c *canon) fail(at int, err error) {
	if c.err == nil {
		c.err, c.errAt = err, at
		c.b, c.p = c.b[:0:0], 0
	}
}

// head reads the head of the next item.
func (c *canon) head() (kind uint8, arg uint64) {
	c.at = c.p
	if uint(c.p) < uint(len(c.b)) {
		if x := c.b[c.p]; x&31 < 24 && x < cborTag<<5 {
			c.p++
			return x >> 5, uint64(x & 31)
		}
	}
	return c.longHead()
}

func (c *canon) longHead() (kind uint8, arg uint64) {
	if c.p >= len(c.b) {
		c.refuse(ruleCborSyntax, c.p, "the manifest ends where an item belongs")
		return cborBad, 0
	}
	x, b := c.b[c.p], c.b[c.p+1:]
	kind = x >> 5
	var least uint64
	size := 0
	switch info := x & 31; {
	case kind == cborTag:
		c.refuse(ruleCborSyntax, c.p, "a tag")
		return cborBad, 0
	case kind == cborSimple && (info < 20 || info == 23 || info == 24):
		c.refuse(ruleCborSyntax, c.p, "a simple value that is neither false, true nor null")
		return cborBad, 0
	case info < 24:
		c.p++
		return kind, uint64(info)
	case info > 27:
		c.refuse(ruleCborSyntax, c.p, "an item of indefinite length, or none at all: byte 0x%02x", x)
		return cborBad, 0
	default:
		size = 1 << (info - 24)
	}
	if len(b) < size {
		c.refuse(ruleCborSyntax, c.p, "the manifest ends within an item")
		return cborBad, 0
	}
	switch size {
	case 1:
		arg, least = uint64(b[0]), 24
	case 2:
		arg, least = uint64(binary.BigEndian.Uint16(b)), 1<<8
	case 4:
		arg, least = uint64(binary.BigEndian.Uint32(b)), 1<<16
	case 8:
		arg, least = binary.BigEndian.Uint64(b), 1<<32
	}
	switch {
	case kind == cborSimple:
		if !narrowest(size, arg) {
			c.refuse(ruleCborDeterminism, c.p, "a float that is not in its narrowest form")
			return cborBad, 0
		}
	case arg < least:
		c.refuse(ruleCborDeterminism, c.p, "%d is not in its shortest form", arg)
		return cborBad, 0
	}
	c.p += 1 + size
	return kind, arg
}

// narrowest reports whether a float of that many bytes could not be shorter.
func narrowest(size int, bits uint64) bool {
	switch size {
	case 2:
		return bits&0x7c00 != 0x7c00 || bits&0x03ff == 0 || bits == 0x7e00
	case 4:
		f := math.Float32frombits(uint32(bits))
		return !math.IsNaN(float64(f)) && tensor.NewFloat16(f).Float32() != f
	}
	f := math.Float64frombits(bits)
	return !math.IsNaN(f) && float64(float32(f)) != f
}

// uint reads an unsigned integer.
func (c *canon) uint() uint64 {
	kind, v := c.head()
	if kind != cborUint {
		c.unwanted(kind, "an unsigned integer")
		return 0
	}
	return v
}

// text reads a text string.
func (c *canon) text() []byte {
	kind, n := c.head()
	if kind != cborText {
		c.unwanted(kind, "text")
		return nil
	}
	return c.string(kind, n)
}

// string reads the n bytes of a string whose head has been read.
func (c *canon) string(kind uint8, n uint64) []byte {
	if n > uint64(len(c.b)-c.p) {
		c.refuse(ruleCborSyntax, c.at, "a string of %d bytes where %d are left", n, len(c.b)-c.p)
		return nil
	}
	s := c.b[c.p : c.p+int(n) : c.p+int(n)]
	if kind == cborText && !validUTF8(s) {
		c.refuse(ruleCborSyntax, c.at, "text that is not UTF-8")
		return nil
	}
	c.p += int(n)
	return s
}

// open reads the head of an array or map and returns how many elements or
// pairs it has.
func (c *canon) open(want uint8) int {
	kind, n := c.head()
	if kind != want {
		c.unwanted(kind, map[uint8]string{cborArray: "an array", cborMap: "a map"}[want])
		return 0
	}
	return c.count(kind, n)
}

// count holds a declared number against the bytes that are left.
func (c *canon) count(kind uint8, n uint64) int {
	least := uint64(1) // bytes of an element
	if kind == cborMap {
		least = 2
	}
	if n > uint64(len(c.b)-c.p)/least {
		c.refuse(ruleCborSyntax, c.at, "a container of %d where %d bytes are left", n, len(c.b)-c.p)
		return 0
	}
	return int(n)
}

// key reads the next key of a map, which has to come behind the one before.
// text is what it says, nil if it is no text.
func (c *canon) key(before *[]byte, depth int) (text []byte, isText bool) {
	at := c.p
	if at < len(c.b) && c.b[at]>>5 == cborText && depth <= c.limit {
		text, isText = c.text(), true
	} else {
		c.skip(depth)
	}
	if c.err != nil {
		return nil, false
	}
	key := c.b[at:c.p]
	if len(*before) > 0 {
		switch order := bytes.Compare(key, *before); {
		case order == 0:
			c.refuse(ruleCborDuplicateKey, at, "the same key a second time")
			return nil, false
		case order < 0:
			c.refuse(ruleCborDeterminism, at, "a key that sorts before its predecessor")
			return nil, false
		}
	}
	*before = key
	c.at = at
	return text, isText
}

// skip walks over one item that lies that deep.
func (c *canon) skip(depth int) {
	if depth > c.limit {
		if c.limit < maxDepth2 {
			c.fail(c.p, fmt.Errorf("%w: nested more than %d deep", tensor.ErrLimit, c.limit))
		}
		c.refuse(ruleCborDepth, c.p, "nested more than %d deep", maxDepth2)
		return
	}
	switch kind, n := c.head(); kind {
	case cborBytes, cborText:
		c.string(kind, n)
	case cborArray:
		for n := c.count(kind, n); n > 0 && c.err == nil; n-- {
			c.skip(depth + 1)
		}
	case cborMap:
		var before []byte
		for n := c.count(kind, n); n > 0 && c.err == nil; n-- {
			c.key(&before, depth+1)
			c.skip(depth + 1)
		}
	}
}

// unwanted refuses what is not of the kind that the schema wants.
func (c *canon) unwanted(kind uint8, want string) {
	have := "something else"
	switch kind {
	case cborUint:
		have = "an unsigned integer"
	case cborNegint:
		have = "a negative integer"
	case cborBytes:
		have = "a byte string"
	case cborText:
		have = "text"
	case cborArray:
		have = "an array"
	case cborMap:
		have = "a map"
	case cborSimple:
		have = "a float, bool or null"
	}
	c.refuse(ruleSchema, c.at, "%s where %s belongs", have, want)
}

// end refuses bytes behind the one item.
func (c *canon) end() {
	if c.err == nil && c.p < len(c.b) {
		c.refuse(ruleCborSyntax, c.p, "%d bytes behind the manifest's map", len(c.b)-c.p)
	}
}
