package primitiv

import (
	"fmt"
	"io"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// A family is a set of MessagePack types that may replace each other. The reference is
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

// families are the type codes of the families. A Decoder takes more: it is asked only
// after the code was found here.
var families = [...]struct {
	name  string
	fixed byte  // first of the codes that contain their number
	fixes int   // how many those are
	code  byte  // first of the codes that their number follows
	sizes []int // of the headers with those codes, in their order
}{
	familyUint:  {"uint 32", 0, 0, 0xce, []int{5}},
	familyFloat: {"float 32", 0, 0, 0xca, []int{5}},
	familyStr:   {"a string", 0xa0, 32, 0xd9, []int{2, 3, 5}},
	familyBin:   {"binary data", 0, 0, 0xc4, []int{2, 3, 5}},
	familyArray: {"an array", 0x90, 16, 0xdc, []int{3, 5}},
	familyMap:   {"a map", 0x80, 16, 0xde, []int{3, 5}},
	familyOther: {"an integer", 0x00, 128, 0xcc, []int{2, 3, 5, 9}},
}

// size returns the size of an item with that code, or of the header of one; 0 if the
// family does not have the code.
func (f family) size(code byte) int64 {
	form := &families[f]
	if i := int(code) - int(form.code); i >= 0 && i < len(form.sizes) {
		return int64(form.sizes[i])
	}
	if i := int(code) - int(form.fixed); i >= 0 && i < form.fixes {
		return 1
	}
	return 0
}

// codeName names what a type code means.
func codeName(code byte) string {
	name := "a type that the format does not use"
	for f := range families {
		if family(f).size(code) > 0 {
			name = families[f].name
			break
		}
	}
	return fmt.Sprintf("%s (0x%02x)", name, code)
}

// windowSize is what is read at a time where the file is not in memory: enough for the
// headers between two payloads.
const windowSize = 4 << 10

// An items reads the MessagePack items of a file, one after the other. It is the
// io.Reader and io.ByteScanner of its Decoder, which therefore reads no byte ahead.
type items struct {
	dec *msgpack.Decoder
	at  int64 // where the last item begins that was asked for

	b      []byte // the file, or a window of it
	p      int    // the next byte in b
	base   int64  // where b begins in the file
	size   int64  // of the file
	src    *source.Source
	window []byte // nil where b is the whole file
}

func (in *items) offset() int64 { return in.base + int64(in.p) }
func (in *items) left() int64   { return in.size - in.offset() }

// ReadByte implements io.ByteReader.
func (in *items) ReadByte() (byte, error) {
	if in.p == len(in.b) {
		if err := in.need(1); err != nil {
			return 0, err
		}
	}
	in.p++
	return in.b[in.p-1], nil
}

// UnreadByte implements io.ByteScanner.
func (in *items) UnreadByte() error {
	in.p--
	return nil
}

// Read implements io.Reader. It reads all of p, or nothing.
func (in *items) Read(p []byte) (int, error) {
	if err := in.need(int64(len(p))); err != nil {
		return 0, err
	}
	n := copy(p, in.b[in.p:])
	in.p += n
	return n, nil
}

// need makes sure that the next n bytes are in b.
func (in *items) need(n int64) (err error) {
	if n <= int64(len(in.b)-in.p) {
		return nil
	}
	if in.window == nil || n > in.left() {
		return io.ErrUnexpectedEOF
	}
	in.base, in.b, in.p = in.offset(), nil, 0
	if n > windowSize {
		in.b, err = in.src.Metadata(in.base, n)
		return err
	}
	window := in.window[:min(windowSize, in.left())]
	if _, err = in.src.ReadAt(window, in.base); err == nil {
		in.b = window
	}
	return err
}

// skip passes over n bytes, which are in the file, without touching them.
func (in *items) skip(n int64) {
	if n <= int64(len(in.b)-in.p) {
		in.p += int(n)
		return
	}
	in.base, in.b, in.p = in.offset()+n, nil, 0
}

// tooShort returns the error of a file that ends before the item does.
func (in *items) tooShort(what string) error {
	return fmt.Errorf("%w: the file has %d bytes, which is too short for %s",
		io.ErrUnexpectedEOF, in.size, what)
}

// expect returns an error unless the next item is of the family, and its header, or all
// of a number, is in the file.
func (in *items) expect(f family) error {
	in.at = in.offset()
	if in.left() == 0 {
		return in.tooShort(families[f].name)
	}
	code, err := in.dec.PeekCode()
	if err != nil {
		return err
	}
	switch size := f.size(code); {
	case size == 0:
		return fmt.Errorf("%w: %s where %s belongs", tensor.ErrMalformed, codeName(code),
			families[f].name)
	case size > in.left():
		return in.tooShort(families[f].name)
	}
	return nil
}

func (in *items) uint32() (uint32, error) {
	if err := in.expect(familyUint); err != nil {
		return 0, err
	}
	return in.dec.DecodeUint32()
}

// float32 reads a floating point number with all its bits.
func (in *items) float32() (float32, error) {
	if err := in.expect(familyFloat); err != nil {
		return 0, err
	}
	return in.dec.DecodeFloat32()
}

// length reads the header of an item, and returns the number in it. Nothing has compared
// it with the file yet.
func (in *items) length(f family) (int64, error) {
	err := in.expect(f)
	if err != nil {
		return 0, err
	}
	var n int // which is negative beyond 2^31 where an int has 32 bits
	switch f {
	case familyArray:
		n, err = in.dec.DecodeArrayLen()
	case familyMap:
		n, err = in.dec.DecodeMapLen()
	default:
		n, err = in.dec.DecodeBytesLen()
	}
	return int64(uint32(n)), err
}

// str reads a string of at most limit bytes. The slice is valid until the next item is
// read.
func (in *items) str(limit int64) ([]byte, error) {
	n, err := in.length(familyStr)
	switch {
	case err != nil:
		return nil, err
	case n > in.left():
		return nil, in.tooShort(fmt.Sprintf("a string of %d bytes", n))
	case n > limit:
		return nil, fmt.Errorf("%w: a name of %d bytes, the limit is %d", tensor.ErrLimit, n,
			limit)
	}
	if err := in.need(n); err != nil {
		return nil, err
	}
	in.p += int(n)
	return in.b[in.p-int(n) : in.p], nil
}
