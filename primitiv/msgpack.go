package primitiv

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// The type codes that occur. (Those of msgpcode are variables.)
const (
	codeFixMap   = 0x80 // and 15 more
	codeFixArray = 0x90
	codeFixStr   = 0xa0 // and 31 more
	codeBin8     = 0xc4
	codeBin16    = 0xc5
	codeBin32    = 0xc6
	codeFloat32  = 0xca
	codeUint8    = 0xcc
	codeUint16   = 0xcd
	codeUint32   = 0xce
	codeUint64   = 0xcf
	codeStr8     = 0xd9
	codeStr16    = 0xda
	codeStr32    = 0xdb
	codeArray16  = 0xdc
	codeArray32  = 0xdd
	codeMap16    = 0xde
	codeMap32    = 0xdf
)

// windowSize is what is read at a time where the file is not in memory: enough for the header between two payloads.
const windowSize = 4 << 10

// A family is a set of MessagePack types that may stand for each other. The reference is exact about the family, and
// about the width of numbers, and does not mind a header that is longer than it need be.
type family string

const (
	familyUint  family = "uint 32"
	familyFloat family = "float 32"
	familyStr   family = "a string"
	familyBin   family = "binary data"
	familyArray family = "an array"
	familyMap   family = "a map"
)

// A cursor takes MessagePack items from a file, one after the other. Its methods answer false when there is no such item
// at the cursor; at and err then say where and why.
//
// What the reference writes is decoded here, in a few instructions; for every other legal form of an item the code
// is looked at here, since msgpack's decoder is much more lenient than the reference, and the rest is left to it.
type cursor struct {
	b    []byte // the file, or a window of it
	p    int    // the cursor in b
	base int64  // where b begins in the file
	size int64  // of the file

	src    *source.Source // where windows come from; nil where b is the whole file
	window []byte

	allowCompact bool
	compact      int64 // offset of the first compact integer, -1 for none

	reader  bytes.Reader
	decoder *msgpack.Decoder

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

// truncated notes that the file ends before what is wanted does.
func (c *cursor) truncated(off int64, what string) bool {
	return c.fail(off, fmt.Errorf("%w: the file has %d bytes, which is too short for %s", io.ErrUnexpectedEOF, c.size, what))
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

// seek moves the cursor to off, which is in the file.
func (c *cursor) seek(off int64) {
	if c.src == nil {
		c.p = int(off)
		return
	}
	c.base, c.b, c.p = off, nil, 0
}

// uint32 takes an integer.
func (c *cursor) uint32() (uint32, bool) {
	if b := c.b[c.p:]; len(b) >= 5 && b[0] == codeUint32 {
		c.p += 5
		return binary.BigEndian.Uint32(b[1:]), true
	}
	return c.slowUint32()
}

func (c *cursor) slowUint32() (uint32, bool) {
	off := c.offset()
	d, code, ok := c.item(familyUint)
	if !ok {
		return 0, false
	}
	v, err := d.DecodeUint64()
	switch {
	case err != nil:
		return 0, c.fail(off, err)
	case v > math.MaxUint32:
		return 0, c.fail(off, fmt.Errorf("%w: %d is more than 32 bits", tensor.ErrMalformed, v))
	case code != codeUint32 && c.compact < 0:
		c.compact = off
	}
	return uint32(v), true
}

// float32 takes a floating point number, and with it all its bits.
func (c *cursor) float32() (float32, bool) {
	off := c.offset()
	d, _, ok := c.item(familyFloat)
	if !ok {
		return 0, false
	}
	v, err := d.DecodeFloat32()
	if err != nil {
		return 0, c.fail(off, err)
	}
	return v, true
}

// array takes the header of an array.
func (c *cursor) array() (int64, bool) {
	if c.p < len(c.b) && c.b[c.p]&0xf0 == codeFixArray {
		c.p++
		return int64(c.b[c.p-1] & 0x0f), true
	}
	return c.length(familyArray)
}

// maplen takes the header of a map.
func (c *cursor) maplen() (int64, bool) { return c.length(familyMap) }

// bin takes the header of binary data.
func (c *cursor) bin() (int64, bool) {
	b := c.b[c.p:]
	switch {
	case len(b) < 5:
	case b[0] == codeBin8:
		c.p += 2
		return int64(b[1]), true
	case b[0] == codeBin16:
		c.p += 3
		return int64(binary.BigEndian.Uint16(b[1:])), true
	case b[0] == codeBin32:
		c.p += 5
		return int64(binary.BigEndian.Uint32(b[1:])), true
	}
	return c.length(familyBin)
}

// str takes a string of at most limit bytes. The slice is good until the next item is taken.
func (c *cursor) str(limit int64) ([]byte, bool) {
	off := c.offset()
	var n int64
	switch b := c.b[c.p:]; {
	case len(b) >= 1 && b[0]&0xe0 == codeFixStr:
		n = int64(b[0] & 0x1f)
		c.p++
	case len(b) >= 2 && b[0] == codeStr8:
		n = int64(b[1])
		c.p += 2
	default:
		var ok bool
		if n, ok = c.length(familyStr); !ok {
			return nil, false
		}
	}
	switch {
	case n <= limit && n <= int64(len(c.b)-c.p):
	case n > c.left():
		return nil, c.truncated(off, fmt.Sprintf("a string of %d bytes", n))
	case n > limit:
		return nil, c.fail(off, fmt.Errorf("%w: a name of %d bytes, the limit is %d", tensor.ErrLimit, n, limit))
	case !c.need(n, "a string"):
		return nil, false
	}
	c.p += int(n)
	return c.b[c.p-int(n) : c.p], true
}

// length takes any legal header of the family.
func (c *cursor) length(f family) (int64, bool) {
	off := c.offset()
	d, _, ok := c.item(f)
	if !ok {
		return 0, false
	}
	var n int
	var err error
	switch f {
	case familyArray:
		n, err = d.DecodeArrayLen()
	case familyMap:
		n, err = d.DecodeMapLen()
	default:
		n, err = d.DecodeBytesLen()
	}
	if err != nil {
		return 0, c.fail(off, err)
	}
	return int64(uint32(n)), true // msgpack's int is negative above 2^31 on 32-bit machines
}

// item looks at the code at the cursor, moves over the item, or the header of it, and returns a decoder that has it
// before it, and nothing more.
func (c *cursor) item(f family) (d *msgpack.Decoder, code byte, ok bool) {
	off := c.offset()
	if !c.need(1, string(f)) {
		return nil, 0, false
	}
	code = c.b[c.p]
	width := c.width(f, code)
	if width == 0 {
		return nil, code, c.fail(off, fmt.Errorf("%w: %s where %s belongs", tensor.ErrMalformed, codeName(code), f))
	}
	if !c.need(width, string(f)) {
		return nil, code, false
	}
	c.reader.Reset(c.b[c.p : c.p+int(width)])
	c.p += int(width)
	if c.decoder == nil {
		c.decoder = msgpack.NewDecoder(&c.reader)
	} else {
		c.decoder.ResetReader(&c.reader)
	}
	return c.decoder, code, true
}

// width is the size of a number or a header of that code, 0 where the code is not of the family.
func (c *cursor) width(f family, code byte) int64 {
	switch f {
	case familyUint:
		switch {
		case code == codeUint32:
			return 5
		case !c.allowCompact:
			return 0
		case code < codeFixMap:
			return 1
		case code == codeUint8:
			return 2
		case code == codeUint16:
			return 3
		case code == codeUint64:
			return 9
		}
	case familyFloat:
		if code == codeFloat32 {
			return 5
		}
	case familyStr:
		switch {
		case code&0xe0 == codeFixStr:
			return 1
		case code == codeStr8:
			return 2
		case code == codeStr16:
			return 3
		case code == codeStr32:
			return 5
		}
	case familyBin:
		switch code {
		case codeBin8:
			return 2
		case codeBin16:
			return 3
		case codeBin32:
			return 5
		}
	case familyArray:
		switch {
		case code&0xf0 == codeFixArray:
			return 1
		case code == codeArray16:
			return 3
		case code == codeArray32:
			return 5
		}
	case familyMap:
		switch {
		case code&0xf0 == codeFixMap:
			return 1
		case code == codeMap16:
			return 3
		case code == codeMap32:
			return 5
		}
	}
	return 0
}

// codeName says what a type code stands for.
func codeName(code byte) string {
	name := "an integer of another width"
	switch {
	case code < codeFixMap || code >= 0xe0:
	case code < codeFixArray || code == codeMap16 || code == codeMap32:
		name = "a map"
	case code < codeFixStr || code == codeArray16 || code == codeArray32:
		name = "an array"
	case code < 0xc0 || code >= codeStr8 && code <= codeStr32:
		name = "a string"
	case code == 0xc0:
		name = "nil"
	case code == 0xc1:
		name = "a byte that is not MessagePack"
	case code <= 0xc3:
		name = "a bool"
	case code <= codeBin32:
		name = "binary data"
	case code == codeFloat32:
		name = "float 32"
	case code == 0xcb:
		name = "float 64"
	case code == codeUint32:
		name = "uint 32"
	case code <= 0xc9 || code >= 0xd4:
		name = "an extension"
	}
	return fmt.Sprintf("%s (0x%02x)", name, code)
}
