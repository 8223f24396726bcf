package ztensor

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
)

// The kinds of CBOR items: the major types, and the indefinite forms as
// major + indefinite.
const (
	cborUint   = 0
	cborNegint = 1
	cborBytes  = 2
	cborText   = 3
	cborArray  = 4
	cborMap    = 5
	cborTag    = 6
	cborSimple = 7
	indefinite = 8
	cborBreak  = cborSimple + indefinite
	cborBad    = 0xff // not an item: the cursor has failed
)

const cborNull = 0xf6

// A span is a piece of the manifest. Manifests are at most 1 GiB.
type span struct{ off, n uint32 }

// odd says which liberties of CBOR, that no writer of ours takes, were met.
type odd uint8

const (
	oddTag odd = 1 << iota
	oddIndefinite
	oddHead // not in the shortest form
)

// A cursor walks CBOR bytes without copying them. Its first error sticks: from
// then on every item is bad and every container at its end, so that callers ask
// once, when they are done.
//
// A strict cursor takes deterministic CBOR alone (§3.1 of version 2's
// specification), and its errors are RuleErrors.
type cursor struct {
	b      []byte
	p      int // next byte
	at     int // first byte of the item that was asked for last
	deep   int // containers that may still be opened
	strict bool
	ours   bool // the bound of deep is a limit of the reader, not of the format
	odd    odd
	keys   []span

	err   error
	errAt int
}

// maxNesting bounds the recursion whatever Limits.MaxDepth says.
const maxNesting = 4096

// maxStrictDepth is how deep an item of a version 2 manifest may be; the root is
// at 0.
const maxStrictDepth = 32

func newCursor(b []byte, l tensor.Limits) cursor {
	return cursor{b: b, deep: int(min(l.MaxDepth, maxNesting)), ours: true}
}

func newStrict(b []byte, l tensor.Limits) cursor {
	return cursor{b: b, deep: int(min(l.MaxDepth, maxStrictDepth)), ours: l.MaxDepth < maxStrictDepth, strict: true}
}

// fail notes the first error, at byte at.
func (c *cursor) fail(at int, format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
		c.errAt = at
		c.b = c.b[:0:0] // every further item is out of bytes
		c.p = 0
	}
}

func (c *cursor) malformed(at int, format string, args ...any) {
	c.fail(at, "%w: "+format, append([]any{tensor.ErrMalformed}, args...)...)
}

// refuse notes that a rule of version 2 is broken at byte at.
func (c *cursor) refuse(name string, at int, format string, args ...any) {
	if c.err == nil {
		c.fail(at, "%w", rule.Broken(name, format, args...))
	}
}

// wrong is refuse for a strict cursor, and malformed for any other.
func (c *cursor) wrong(name string, at int, format string, args ...any) {
	if c.strict {
		c.refuse(name, at, format, args...)
	} else {
		c.malformed(at, format, args...)
	}
}

// head reads the head of the next item.
func (c *cursor) head() (kind uint8, arg uint64) {
	if uint(c.p) < uint(len(c.b)) {
		if x := c.b[c.p]; x&31 < 24 && x < cborTag<<5 {
			c.p++
			return x >> 5, uint64(x & 31)
		}
	}
	return c.longHead()
}

func (c *cursor) longHead() (kind uint8, arg uint64) {
	if c.p >= len(c.b) {
		c.wrong(rule.CborSyntax, c.p, "the manifest ends within an item")
		return cborBad, 0
	}
	x, rest := c.b[c.p], c.b[c.p+1:]
	kind = x >> 5
	info := x & 31
	switch {
	case c.strict && kind == cborTag:
		c.refuse(rule.CborSyntax, c.p, "a tag")
		return cborBad, 0
	case c.strict && kind == cborSimple && (info < 20 || info == 23 || info == 24):
		c.refuse(rule.CborSyntax, c.p, "a simple value that is neither false, true nor null")
		return cborBad, 0
	case info < 24:
		c.p++
		return kind, uint64(info)
	case info <= 27:
	case info == 31 && !c.strict && (kind >= cborBytes && kind <= cborMap || kind == cborSimple):
		c.p++
		if kind != cborSimple {
			c.odd |= oddIndefinite
		}
		return kind + indefinite, 0
	default:
		c.wrong(rule.CborSyntax, c.p, "byte 0x%02x begins no item of definite length", x)
		return cborBad, 0
	}
	size := 1 << (info - 24)
	if len(rest) < size {
		c.wrong(rule.CborSyntax, c.p, "the manifest ends within an item")
		return cborBad, 0
	}
	var least uint64
	switch size {
	case 1:
		arg, least = uint64(rest[0]), 24
	case 2:
		arg, least = uint64(binary.BigEndian.Uint16(rest)), 1<<8
	case 4:
		arg, least = uint64(binary.BigEndian.Uint32(rest)), 1<<16
	case 8:
		arg, least = binary.BigEndian.Uint64(rest), 1<<32
	}
	switch {
	case kind == cborSimple && size == 1 && arg < 32:
		c.malformed(c.p, "simple value %d in two bytes", arg)
		return cborBad, 0
	case kind == cborSimple && c.strict && !narrowest(size, arg):
		c.refuse(rule.CborDeterminism, c.p, "a float that is not in its narrowest form")
		return cborBad, 0
	case kind != cborSimple && arg < least && c.strict:
		c.refuse(rule.CborDeterminism, c.p, "%d is not in its shortest form", arg)
		return cborBad, 0
	case kind != cborSimple && arg < least:
		c.odd |= oddHead
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

// item reads the head of the next item behind its tags.
func (c *cursor) item() (kind uint8, arg uint64) {
	c.at = c.p
	kind, arg = c.head()
	for kind == cborTag {
		c.odd |= oddTag
		kind, arg = c.head()
	}
	return kind, arg
}

// uint reads an unsigned integer.
func (c *cursor) uint() uint64 {
	kind, v := c.item()
	if kind != cborUint {
		c.unexpected(kind, "an unsigned integer")
		return 0
	}
	return v
}

// text reads a text string of any kind and checks its UTF-8.
func (c *cursor) text() []byte {
	s := c.rawText()
	if !validUTF8(s) {
		c.wrong(rule.CborSyntax, c.at, "text that is not UTF-8")
		return nil
	}
	return s
}

// rawText is text without the check, for strings that are compared with known
// ones first.
func (c *cursor) rawText() []byte {
	kind, n := c.item()
	if kind == cborText && n <= uint64(len(c.b)-c.p) {
		s := c.b[c.p : c.p+int(n) : c.p+int(n)]
		c.p += int(n)
		return s
	}
	return c.longText(kind, n)
}

func (c *cursor) longText(kind uint8, n uint64) []byte {
	switch kind {
	case cborText:
		c.wrong(rule.CborSyntax, c.at, "text claims %d bytes, the manifest has %d more", n, len(c.b)-c.p)
	case cborText + indefinite:
		at := c.at
		var joined []byte
		for c.err == nil {
			kind, n := c.head()
			if kind == cborBreak {
				return joined
			}
			if kind != cborText || n > uint64(len(c.b)-c.p) {
				c.malformed(at, "text in pieces of which one is no text of the manifest")
				break
			}
			joined = append(joined, c.b[c.p:c.p+int(n)]...)
			c.p += int(n)
		}
	default:
		c.unexpected(kind, "text")
	}
	return nil
}

// null consumes a null, if that is the next item.
func (c *cursor) null() bool {
	if c.p < len(c.b) && c.b[c.p] == cborNull {
		c.at = c.p
		c.p++
		return true
	}
	return false
}

// container opens an array or map and returns the number of its elements or
// pairs, or -1 when only its end tells. close it with shut.
func (c *cursor) container(want uint8) int {
	kind, n := c.item()
	if kind&^indefinite != want {
		what := "an array"
		if want == cborMap {
			what = "a map"
		}
		c.unexpected(kind, what)
		return 0
	}
	if kind&indefinite != 0 {
		c.enter()
		return -1
	}
	least := uint64(1) // bytes an element takes
	if want == cborMap {
		least = 2
	}
	if n > uint64(len(c.b)-c.p)/least {
		c.wrong(rule.CborSyntax, c.at, "a container of %d in the %d bytes that are left", n, len(c.b)-c.p)
		return 0
	}
	if n == 0 {
		c.deep--
	} else {
		c.enter()
	}
	return int(n)
}

// enter counts a container that is not empty.
func (c *cursor) enter() {
	if c.deep--; c.deep < 0 && !c.ours {
		c.refuse(rule.CborDepth, c.at, "nested more than %d deep", maxStrictDepth)
	} else if c.deep < 0 {
		c.fail(c.at, "%w: nested too deeply", tensor.ErrLimit)
	}
}

// more reports whether the container has another element, and counts it. At the
// end it leaves the container.
func (c *cursor) more(n *int) bool {
	if *n > 0 && c.err == nil {
		*n--
		return true
	}
	return c.moreOdd(n)
}

func (c *cursor) moreOdd(n *int) bool {
	if *n < 0 && c.err == nil {
		if c.p >= len(c.b) || c.b[c.p] != 0xff {
			return true
		}
		c.p++
	}
	c.deep++
	return false
}

// unexpected fails because the item that was asked for last is not what is
// wanted.
func (c *cursor) unexpected(kind uint8, want string) {
	have := "something else"
	switch kind {
	case cborUint:
		have = "an unsigned integer"
	case cborNegint:
		have = "a negative integer"
	case cborBytes, cborBytes + indefinite:
		have = "a byte string"
	case cborText, cborText + indefinite:
		have = "text"
	case cborArray, cborArray + indefinite:
		have = "an array"
	case cborMap, cborMap + indefinite:
		have = "a map"
	case cborSimple:
		have = "a float, bool, null or simple value"
	}
	c.wrong(rule.Schema, c.at, "%s where %s belongs", have, want)
}

// key reads the next key of a map whose keys ascend: a strict cursor checks that.
// before is the encoding of the key that precedes it.
func (c *cursor) key(before *[]byte) (text []byte, isText bool) {
	at := c.p
	if at < len(c.b) && c.b[at]>>5 == cborText {
		text, isText = c.text(), true
	} else {
		c.skip()
	}
	if c.err != nil {
		return nil, false
	}
	key := c.b[at:c.p]
	if len(*before) > 0 {
		switch order := bytes.Compare(key, *before); {
		case order == 0:
			c.refuse(rule.CborDuplicateKey, at, "the same key a second time")
			return nil, false
		case order < 0:
			c.refuse(rule.CborDeterminism, at, "a key that sorts before its predecessor")
			return nil, false
		}
	}
	*before = key
	c.at = at
	return text, isText
}

// end refuses bytes after the one item.
func (c *cursor) end() {
	if c.err == nil && c.p < len(c.b) {
		c.wrong(rule.CborSyntax, c.p, "%d bytes after the manifest's map", len(c.b)-c.p)
	}
}

// skip walks over one item and all that it contains. What it accepts is
// well-formed: text is UTF-8, and no map has the same key twice.
func (c *cursor) skip() {
	kind, n := c.item()
	switch kind {
	case cborUint, cborNegint, cborBad:
	case cborSimple:
	case cborBytes, cborText:
		if n > uint64(len(c.b)-c.p) {
			c.wrong(rule.CborSyntax, c.at, "a string claims %d bytes, the manifest has %d more", n, len(c.b)-c.p)
			return
		}
		if kind == cborText && !validUTF8(c.b[c.p:c.p+int(n)]) {
			c.wrong(rule.CborSyntax, c.at, "text that is not UTF-8")
			return
		}
		c.p += int(n)
	case cborText + indefinite:
		if !validUTF8(c.longText(kind, n)) {
			c.malformed(c.at, "text that is not UTF-8")
		}
	case cborBytes + indefinite:
		for c.err == nil {
			kind, n := c.head()
			if kind == cborBreak {
				return
			}
			if kind != cborBytes || n > uint64(len(c.b)-c.p) {
				c.malformed(c.at, "a byte string in pieces of which one is no byte string of the manifest")
				return
			}
			c.p += int(n)
		}
	case cborArray, cborArray + indefinite:
		c.p = c.at // container reads the head again
		for n := c.container(cborArray); c.more(&n); {
			c.skip()
		}
	case cborMap, cborMap + indefinite:
		c.p = c.at
		if c.strict {
			var before []byte
			for n := c.container(cborMap); c.more(&n); {
				c.key(&before)
				c.skip()
			}
			return
		}
		mark := len(c.keys)
		for n := c.container(cborMap); c.more(&n); {
			key := c.p
			c.skip()
			c.push(key, c.p)
			c.skip()
		}
		c.unique(mark)
	default:
		c.malformed(c.at, "a break outside of a container")
	}
}

// push remembers a key of the map that is being walked, to be held against the
// others by unique.
func (c *cursor) push(from, to int) {
	if c.err == nil {
		c.keys = append(c.keys, span{uint32(from), uint32(to - from)})
	}
}

// pushText is push for a text key that has just been read, by what it says
// rather than by how it is written.
func (c *cursor) pushText(key []byte) {
	if from := c.p - len(key); from >= 0 && bytes.Equal(c.b[min(from, len(c.b)):min(c.p, len(c.b))], key) {
		c.push(from, c.p)
	} else {
		c.push(c.at, c.p) // in pieces
	}
}

// unique fails if two of the keys that were pushed since mark are the same, and
// forgets them. It costs nothing but a walk where they ascend.
func (c *cursor) unique(mark int) {
	keys := c.keys[mark:]
	c.keys = c.keys[:mark]
	if c.err != nil {
		return
	}
	less := func(a, b span) int { return bytes.Compare(c.in(a), c.in(b)) }
	for i := 1; i < len(keys); i++ {
		if less(keys[i-1], keys[i]) >= 0 {
			slices.SortFunc(keys, less)
			for i := 1; i < len(keys); i++ {
				if less(keys[i-1], keys[i]) == 0 {
					at := max(keys[i-1].off, keys[i].off)
					c.malformed(int(at), "the same key a second time")
					return
				}
			}
			return
		}
	}
}

// in returns the bytes of s.
func (c *cursor) in(s span) []byte { return c.b[s.off : s.off+s.n : s.off+s.n] }

// validUTF8 is utf8.Valid with a short way for ASCII, eight bytes at a time.
func validUTF8(b []byte) bool {
	const high = 0x8080808080808080
	if len(b) < 8 {
		var all byte
		for _, x := range b {
			all |= x
		}
		return all < utf8.RuneSelf || utf8.Valid(b)
	}
	all := binary.LittleEndian.Uint64(b[len(b)-8:]) // the last eight, of which some are looked at twice
	for i := 0; i+8 < len(b); i += 8 {
		all |= binary.LittleEndian.Uint64(b[i:])
	}
	return all&high == 0 || utf8.Valid(b)
}
