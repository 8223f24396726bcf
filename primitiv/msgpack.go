package primitiv

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

const codeUint32 = 0xce

// windowSize is what is read at a time where the file is not in memory: enough for the
// headers between two payloads.
const windowSize = 4 << 10

// A family is a set of MessagePack types that may stand for each other. The reference is
// exact about the family, and about the width of numbers, but accepts headers that are
// longer than needed.
type family uint8

const (
	familyUint family = iota
	familyFloat
	familyStr
	familyBin
	familyArray
	familyMap
	familyOther // integers of other widths, which errors name
)

func (f family) String() string { return forms[f].name }

// forms are the type codes of the families.
var forms = [...]struct {
	name  string
	fixed byte  // first of the codes that have their number in them
	fixes int   // how many those are
	code  byte  // first of the codes that their number follows
	sizes []int // of the headers with those codes, in their order
}{
	familyUint:  {"uint 32", 0, 0, codeUint32, []int{5}},
	familyFloat: {"float 32", 0, 0, 0xca, []int{5}},
	familyStr:   {"a string", 0xa0, 32, 0xd9, []int{2, 3, 5}},
	familyBin:   {"binary data", 0, 0, 0xc4, []int{2, 3, 5}},
	familyArray: {"an array", 0x90, 16, 0xdc, []int{3, 5}},
	familyMap:   {"a map", 0x80, 16, 0xde, []int{3, 5}},
	familyOther: {"an integer", 0x00, 128, 0xcc, []int{2, 3, 5, 9}},
}

// size returns how long an item with that code is, or the header of one; 0 if the family
// does not have the code.
func (f family) size(code byte) int {
	form := &forms[f]
	if i := int(code) - int(form.code); i >= 0 && i < len(form.sizes) {
		return form.sizes[i]
	}
	if i := int(code) - int(form.fixed); i >= 0 && i < form.fixes {
		return 1
	}
	return 0
}

// append adds the shortest item with the number n to b.
func (f family) append(b []byte, n uint32) []byte {
	form := &forms[f]
	if int64(n) < int64(form.fixes) {
		return append(b, form.fixed+byte(n))
	}
	i := 0
	for n>>(8*(form.sizes[i]-1)) > 0 {
		i++
	}
	b = append(b, form.code+byte(i))
	for shift := 8 * (form.sizes[i] - 2); shift >= 0; shift -= 8 {
		b = append(b, byte(n>>shift))
	}
	return b
}

// A cursor reads MessagePack items from a file, one after the other. Its methods return
// false when there is no such item at the cursor; at and err then give the place and the
// reason.
type cursor struct {
	b    []byte // the file, or a window of it
	p    int    // the cursor in b
	base int64  // where b begins in the file
	size int64  // of the file

	src    *source.Source // where windows come from; nil where b is the whole file
	window []byte

	at  int64
	err error
}

func (c *cursor) offset() int64 { return c.base + int64(c.p) }
func (c *cursor) left() int64   { return c.size - c.offset() }

// fail notes why the item that begins at off is refused.
func (c *cursor) fail(off int64, err error) bool {
	c.at, c.err = off, err
	return false
}

// truncated notes that the file ends before the expected item does.
func (c *cursor) truncated(off int64, what string) bool {
	return c.fail(off, fmt.Errorf("%w: the file has %d bytes, which is too short for %s",
		io.ErrUnexpectedEOF, c.size, what))
}

// need makes sure that the n bytes at the cursor are in b.
func (c *cursor) need(n int64, what string) bool {
	if int64(len(c.b)-c.p) >= n {
		return true
	}
	off := c.offset()
	if n > c.left() || c.src == nil {
		return c.truncated(off, what)
	}
	want := min(max(n, windowSize), c.left())
	var err error
	if want <= windowSize {
		if c.window == nil {
			c.window = make([]byte, windowSize)
		}
		c.b = c.window[:want]
		_, err = c.src.ReadAt(c.b, off)
	} else {
		c.b, err = c.src.Metadata(off, want)
	}
	c.base, c.p = off, 0
	if err != nil {
		c.b = nil
		return c.fail(off, err)
	}
	return true
}

// skip moves the cursor over n bytes, which are in the file, without touching them.
func (c *cursor) skip(n int64) {
	if n <= int64(len(c.b)-c.p) {
		c.p += int(n)
		return
	}
	c.base, c.b, c.p = c.offset()+n, nil, 0
}

// uint32 reads an integer.
func (c *cursor) uint32() (uint32, bool) {
	if b := c.b[c.p:]; len(b) >= 5 && b[0] == codeUint32 {
		c.p += 5
		return binary.BigEndian.Uint32(b[1:]), true
	}
	v, ok := c.number(familyUint)
	return uint32(v), ok
}

// float32 reads a floating point number with all its bits.
func (c *cursor) float32() (float32, bool) {
	v, ok := c.number(familyFloat)
	return math.Float32frombits(uint32(v)), ok
}

// str reads a string of at most limit bytes. The slice is valid until the next item is
// read.
func (c *cursor) str(limit int64) ([]byte, bool) {
	off := c.offset()
	n, ok := c.number(familyStr)
	switch {
	case !ok:
		return nil, false
	case n > c.left():
		return nil, c.truncated(off, fmt.Sprintf("a string of %d bytes", n))
	case n > limit:
		return nil, c.fail(off, fmt.Errorf("%w: a name of %d bytes, the limit is %d",
			tensor.ErrLimit, n, limit))
	case !c.need(n, "a string"):
		return nil, false
	}
	c.p += int(n)
	return c.b[c.p-int(n) : c.p], true
}

// number reads an item of the family, or the header of one, and returns the number in it.
func (c *cursor) number(f family) (v int64, ok bool) {
	off := c.offset()
	if c.p == len(c.b) && !c.need(1, f.String()) {
		return 0, false
	}
	code := c.b[c.p]
	size := f.size(code)
	if size == 0 {
		return 0, c.fail(off, fmt.Errorf("%w: %s where %s belongs",
			tensor.ErrMalformed, codeName(code), f))
	}
	if size > len(c.b)-c.p && !c.need(int64(size), f.String()) {
		return 0, false
	}
	if size == 1 {
		v = int64(code - forms[f].fixed)
	}
	for _, x := range c.b[c.p+1 : c.p+size] {
		v = v<<8 | int64(x)
	}
	c.p += size
	return v, true
}

// codeName names what a type code stands for.
func codeName(code byte) string {
	name := "a type that the format does not use"
	for f := range forms {
		if family(f).size(code) > 0 {
			name = forms[f].name
			break
		}
	}
	return fmt.Sprintf("%s (0x%02x)", name, code)
}
