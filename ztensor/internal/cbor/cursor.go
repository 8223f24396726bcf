// Package cbor reads CBOR without copying it, leniently for zTensor 1.x and strictly for
// the deterministic CBOR of version 2, and encodes manifests.
//
// github.com/fxamacker/cbor encodes values of attributes, and, as structs, maps whose
// keys are known. It does not encode maps whose keys are names (AppendPairs), because it
// has no map in a given order: 1.0 sorts names as text, and items that are encoded
// already stay as they are. It does not decode manifests (Cursor), because it does not
// say where an item or an error is, copies what it decodes, and accepts forms that are
// not shortest.
package cbor

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
)

// The kinds of CBOR items: the major types, and major type + Indefinite for items of
// indefinite length.
const (
	Uint        = 0
	Negint      = 1
	byteString  = 2
	Text        = 3
	Array       = 4
	Map         = 5
	Tag         = 6
	simpleValue = 7
	Indefinite  = 8
	breakCode   = simpleValue + Indefinite
	Bad         = 0xff // not an item: the cursor has failed
)

// Null is the encoding of null.
// Null is the encoding of null.
const Null = 0xf6

// A Cursor reads CBOR items one after the other. Its first error is final: every later
// item is Bad and every container at its end, so that callers check Err once, at the end.
//
// A strict cursor accepts deterministic CBOR only (§3.1 of the specification of version
// 2). Its errors are rule.Errors.
type Cursor struct {
	B           []byte
	Pos         int // next byte
	At          int // first byte of the item that was read last
	DepthLeft   int // containers that may still be opened
	Strict      bool
	readerLimit bool     // DepthLeft is a limit of the reader, not of the format
	Keys        [][]byte // of the maps that are being read, for Unique

	HasTag, HasIndefinite bool // tags, and items of indefinite length, were read

	Err   error
	ErrAt int
}

// MaxNesting bounds the recursion, even if Limits.MaxDepth is larger.
const MaxNesting = 4096

// MaxStrictDepth is how deep an item of a version 2 manifest may be; the root is at 0.
const MaxStrictDepth = 32

// New returns a Cursor that is not strict.
func New(b []byte, l tensor.Limits) Cursor {
	return Cursor{B: b, DepthLeft: int(min(l.MaxDepth, MaxNesting)), readerLimit: true}
}

// NewStrict returns a strict Cursor.
func NewStrict(b []byte, l tensor.Limits) Cursor {
	return Cursor{B: b, DepthLeft: int(min(l.MaxDepth, MaxStrictDepth)),
		readerLimit: l.MaxDepth < MaxStrictDepth, Strict: true}
}

// Fail stops the cursor with an error at byte at, unless it has failed before.
func (c *Cursor) Fail(at int, format string, args ...any) {
	if c.Err == nil {
		c.Err = fmt.Errorf(format, args...)
		c.ErrAt = at
		c.B = c.B[:0:0] // every further item is out of bytes
		c.Pos = 0
	}
}

// Malformed is Fail with the class tensor.ErrMalformed.
func (c *Cursor) Malformed(at int, format string, args ...any) {
	c.Fail(at, "%w: "+format, append([]any{tensor.ErrMalformed}, args...)...)
}

// BreakRule is Fail with the rule.Error of a rule of version 2.
func (c *Cursor) BreakRule(name string, at int, format string, args ...any) {
	if c.Err == nil {
		c.Fail(at, "%w", rule.Broken(name, format, args...))
	}
}

// invalid is BreakRule for a strict cursor, and Malformed for others.
func (c *Cursor) invalid(name string, at int, format string, args ...any) {
	if c.Strict {
		c.BreakRule(name, at, format, args...)
	} else {
		c.Malformed(at, format, args...)
	}
}

// head reads the head of the next item.
func (c *Cursor) head() (kind uint8, arg uint64) {
	if c.Pos >= len(c.B) {
		c.invalid(rule.CborSyntax, c.Pos, "the manifest ends within an item")
		return Bad, 0
	}
	x, rest := c.B[c.Pos], c.B[c.Pos+1:]
	kind = x >> 5
	info := x & 31
	switch {
	case c.Strict && kind == Tag:
		c.BreakRule(rule.CborSyntax, c.Pos, "a tag")
		return Bad, 0
	case c.Strict && kind == simpleValue && (info < 20 || info == 23 || info == 24):
		c.BreakRule(rule.CborSyntax, c.Pos, "a simple value that is neither false, true nor null")
		return Bad, 0
	case info < 24:
		c.Pos++
		return kind, uint64(info)
	case info <= 27:
	case info == 31 && !c.Strict && (kind >= byteString && kind <= Map || kind == simpleValue):
		c.Pos++
		if kind != simpleValue {
			c.HasIndefinite = true
		}
		return kind + Indefinite, 0
	default:
		c.invalid(rule.CborSyntax, c.Pos, "byte 0x%02x begins no item of definite length", x)
		return Bad, 0
	}
	size := 1 << (info - 24)
	if len(rest) < size {
		c.invalid(rule.CborSyntax, c.Pos, "the manifest ends within an item")
		return Bad, 0
	}
	var minArg uint64
	switch size {
	case 1:
		arg, minArg = uint64(rest[0]), 24
	case 2:
		arg, minArg = uint64(binary.BigEndian.Uint16(rest)), 1<<8
	case 4:
		arg, minArg = uint64(binary.BigEndian.Uint32(rest)), 1<<16
	case 8:
		arg, minArg = binary.BigEndian.Uint64(rest), 1<<32
	}
	switch {
	case kind == simpleValue && size == 1 && arg < 32:
		c.Malformed(c.Pos, "simple value %d in two bytes", arg)
		return Bad, 0
	case kind == simpleValue && c.Strict && !isNarrowest(size, arg):
		c.BreakRule(rule.CborDeterminism, c.Pos, "a float that is not in its narrowest form")
		return Bad, 0
	case kind != simpleValue && arg < minArg && c.Strict:
		c.BreakRule(rule.CborDeterminism, c.Pos, "%d is not in its shortest form", arg)
		return Bad, 0
	}
	c.Pos += 1 + size
	return kind, arg
}

// float returns the float of that many bits whose head has been read; false if it is
// another simple value.
func (c *Cursor) float(bits uint64) (float64, bool) {
	switch c.Pos - c.At {
	case 3:
		return float64(tensor.Float16(bits).Float32()), true
	case 5:
		return float64(math.Float32frombits(uint32(bits))), true
	case 9:
		return math.Float64frombits(bits), true
	}
	return 0, false
}

// isNarrowest reports whether a float of that many bytes could not be shorter.
func isNarrowest(size int, bits uint64) bool {
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

// Item reads the head of the next item after its tags.
func (c *Cursor) Item() (kind uint8, arg uint64) {
	if kind, arg, ok := c.shortHead(); ok {
		return kind, arg
	}
	return c.longHead()
}

// shortHead reads a head of one byte, as most are. It is inlined.
func (c *Cursor) shortHead() (kind uint8, arg uint64, ok bool) {
	c.At = c.Pos
	if uint(c.Pos) < uint(len(c.B)) {
		if x := c.B[c.Pos]; x&31 < 24 && x < Tag<<5 {
			c.Pos++
			return x >> 5, uint64(x & 31), true
		}
	}
	return 0, 0, false
}

func (c *Cursor) longHead() (kind uint8, arg uint64) {
	kind, arg = c.head()
	for kind == Tag {
		c.HasTag = true
		kind, arg = c.head()
	}
	return kind, arg
}

// Uint reads an unsigned integer.
func (c *Cursor) Uint() uint64 {
	kind, v, ok := c.shortHead()
	if !ok {
		kind, v = c.longHead()
	}
	if kind != Uint {
		c.unexpected(kind, Uint)
		return 0
	}
	return v
}

// Text reads a text string of any kind and checks its UTF-8.
func (c *Cursor) Text() []byte {
	s := c.RawText()
	if !c.ascii(len(s)) && !utf8.Valid(s) {
		c.invalid(rule.CborSyntax, c.At, "text that is not UTF-8")
		return nil
	}
	return s
}

// ascii reports whether the n bytes before Pos are ASCII. For short text it is faster
// than utf8.Valid. After text of indefinite length it is false: that ends with a break
// code.
func (c *Cursor) ascii(n int) bool {
	b := c.B[:c.Pos]
	if len(b) < 8 {
		return false
	}
	high := uint64(0)
	for ; n > 8; n -= 8 {
		high |= binary.LittleEndian.Uint64(b[len(b)-n:])
	}
	high |= binary.LittleEndian.Uint64(b[len(b)-8:]) >> (64 - 8*n)
	return high&0x8080808080808080 == 0
}

// RawText is Text without the check of UTF-8, for text that is compared with known keys.
func (c *Cursor) RawText() []byte {
	kind, n, ok := c.shortHead()
	if !ok {
		kind, n = c.longHead()
	}
	if kind == Text && n <= uint64(len(c.B)-c.Pos) {
		c.Pos += int(n)
		return c.B[c.Pos-int(n) : c.Pos : c.Pos]
	}
	return c.bytes(Text, kind, n)
}

// bytes returns the string of kind want, Text or byteString, whose head has been read.
func (c *Cursor) bytes(want, kind uint8, n uint64) []byte {
	switch {
	case kind == want+Indefinite:
		return c.chunks(want)
	case kind != want:
		c.unexpected(kind, want)
	case n > uint64(len(c.B)-c.Pos):
		c.invalid(rule.CborSyntax, c.At,
			"a string claims %d bytes, the manifest has %d more", n, len(c.B)-c.Pos)
	default:
		c.Pos += int(n)
		return c.B[c.Pos-int(n) : c.Pos : c.Pos]
	}
	return nil
}

// chunks joins the pieces of a string of indefinite length.
func (c *Cursor) chunks(want uint8) []byte {
	at := c.At
	var joined []byte
	for c.Err == nil {
		kind, n := c.head()
		if kind == breakCode {
			return joined
		}
		if kind != want || n > uint64(len(c.B)-c.Pos) {
			c.Malformed(at, "a string in pieces of which one is not a string of the manifest")
			break
		}
		joined = append(joined, c.B[c.Pos:c.Pos+int(n)]...)
		c.Pos += int(n)
	}
	return nil
}

// Container opens an array or map and returns the number of its elements or pairs, -1 for
// indefinite length. More leaves it.
func (c *Cursor) Container(want uint8) int {
	kind, n, ok := c.shortHead()
	if !ok {
		kind, n = c.longHead()
	}
	if kind&^Indefinite != want {
		c.unexpected(kind, want)
		return 0
	}
	if kind&Indefinite != 0 {
		c.enter()
		return -1
	}
	maxElements := uint64(len(c.B) - c.Pos)
	if want == Map {
		maxElements /= 2 // a pair takes two bytes
	}
	if n > maxElements {
		c.invalid(rule.CborSyntax, c.At,
			"a container of %d in the %d bytes that are left", n, len(c.B)-c.Pos)
		return 0
	}
	if n == 0 {
		c.DepthLeft--
	} else {
		c.enter()
	}
	return int(n)
}

// enter counts an open container, and fails if it is nested too deeply.
func (c *Cursor) enter() {
	if c.DepthLeft--; c.DepthLeft < 0 && !c.readerLimit {
		c.BreakRule(rule.CborDepth, c.At, "nested more than %d deep", MaxStrictDepth)
	} else if c.DepthLeft < 0 {
		c.Fail(c.At, "%w: nested too deeply", tensor.ErrLimit)
	}
}

// More reports whether the container has another element, and decrements *n, the result
// of Container. At the end it leaves the container.
func (c *Cursor) More(n *int) bool {
	if *n > 0 && c.Err == nil {
		*n--
		return true
	}
	return c.moreOrLeave(n)
}

func (c *Cursor) moreOrLeave(n *int) bool {
	if *n < 0 && c.Err == nil {
		if c.Pos >= len(c.B) || c.B[c.Pos] != 0xff {
			return true
		}
		c.Pos++
	}
	c.DepthLeft++
	return false
}

var kindNames = [...]string{"an unsigned integer", "a negative integer", "a byte string", "text",
	"an array", "a map", "a tag", "a simple value or float"}

// unexpected fails because the item that was read last is of another kind.
func (c *Cursor) unexpected(kind, want uint8) {
	c.invalid(rule.Schema, c.At, "%s instead of %s", kindNames[kind&7], kindNames[want])
}

// Key reads the next key of a map and returns it if it is text, else nil. A strict cursor
// checks that keys ascend; prev is the encoding of the key before.
func (c *Cursor) Key(prev *[]byte) (text []byte) {
	at := c.Pos
	if at < len(c.B) && c.B[at]>>5 == Text {
		text = c.Text()
	} else {
		c.Skip()
	}
	if c.Err != nil {
		return nil
	}
	key := c.B[at:c.Pos]
	if len(*prev) > 0 && c.Strict {
		switch order := bytes.Compare(key, *prev); {
		case order == 0:
			c.BreakRule(rule.CborDuplicateKey, at, "the same key a second time")
			return nil
		case order < 0:
			c.BreakRule(rule.CborDeterminism, at, "a key that sorts before its predecessor")
			return nil
		}
	}
	*prev = key
	c.At = at
	return text
}

// End fails if there are bytes after the item.
func (c *Cursor) End() {
	if c.Err == nil && c.Pos < len(c.B) {
		c.invalid(rule.CborSyntax, c.Pos, "%d bytes after the manifest's map", len(c.B)-c.Pos)
	}
}
