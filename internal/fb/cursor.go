package fb

import "encoding/binary"

// A Cursor is for a reader that wants everything of a buffer, once and fast: it verifies each table, string and vector when it
// comes to it, by the same steps as Verify, and answers positions in the buffer, at which the reader reads by itself. One pass
// over a long index takes half the time of verifying it and walking it. What is not visited is not verified.
//
// An error has no Path: the caller knows the way.
type Cursor struct{ v verifier }

// A Row says where the fields of one table lie.
type Row struct {
	Pos  uint32 // of the table
	offs *[rowFields]uint16
}

// rowFields is how many fields of a table a Row knows: all of our formats' indices have fewer.
const rowFields = 8

// At is the position of the field of that id: of a scalar, or of the offset that leads to anything else; 0 when it is absent.
func (r Row) At(id int) uint32 {
	if o := r.offs[id]; o != 0 {
		return r.Pos + uint32(o)
	}
	return 0
}

// Start begins at the root table, of which pos is the position and t the type, of a buffer in which an extended header was
// spliced: see VerifySpliced.
func (c *Cursor) Start(buf []byte, pos uint32, s *Schema, t int, l Limits) (Row, *Error) {
	if err := sized(buf); err != nil {
		return Row{}, err
	}
	if pos < 8 || int64(pos) > int64(len(buf))-4 {
		return Row{}, malformed(uint64(pos), "outside of the buffer")
	}
	c.v = *newVerifier(buf, s, l)
	c.v.first = 8
	return c.enter(uint64(pos), t)
}

// Root begins at the root table of buf, of type t, as Verify does.
func (c *Cursor) Root(buf []byte, s *Schema, t int, l Limits) (Row, *Error) {
	if err := sized(buf); err != nil {
		return Row{}, err
	}
	c.v = *newVerifier(buf, s, l)
	return c.Table(0, t)
}

// Follow answers where the offset at position at leads to: as much as can be known of a union's value whose type is not.
func (c *Cursor) Follow(at uint32) (uint32, *Error) {
	to, err := c.v.offset(uint64(at))
	return uint32(to), err
}

// Verify checks the table of type t that the offset at position at leads to, and all below it, for parts that the reader does
// not walk at once. depth is that of the table; the root's is 1. Its error has a Path, from that table on.
func (c *Cursor) Verify(at uint32, t, depth int) *Error {
	to, err := c.v.offset(uint64(at))
	if err != nil {
		return err
	}
	return c.v.table(to, t, depth)
}

// Buf is the buffer.
func (c *Cursor) Buf() []byte { return c.v.buf }

func (c *Cursor) enter(pos uint64, t int) (Row, *Error) {
	s, err := c.v.enter(pos, t)
	if err != nil {
		return Row{}, err
	}
	return Row{uint32(pos), &s.offs}, nil
}

// Table is the table of type t that the offset at position at leads to.
func (c *Cursor) Table(at uint32, t int) (Row, *Error) {
	to, err := c.v.offset(uint64(at))
	if err != nil {
		return Row{}, err
	}
	return c.enter(to, t)
}

// Vector answers the position of the first element, of size bytes, of the vector that the offset at position at leads to,
// and the number of elements. The elements of a vector of tables are offsets, for Table.
func (c *Cursor) Vector(at, size uint32) (first, n uint32, err *Error) {
	to, err := c.v.offset(uint64(at))
	if err != nil {
		return 0, 0, err
	}
	count, err := c.v.vector(to, uint64(size))
	return uint32(to) + 4, uint32(count), err
}

// String answers the bytes of the string that the offset at position at leads to. They alias the buffer.
func (c *Cursor) String(at uint32) ([]byte, *Error) {
	first, n, err := c.Vector(at, 1)
	if err != nil {
		return nil, err
	}
	end := uint64(first) + uint64(n)
	if end >= uint64(len(c.v.buf)) || c.v.buf[end] != 0 {
		return nil, malformed(uint64(first)-4, "string without its terminating zero")
	}
	return c.v.buf[first:end:end], nil
}

// Uint8 is the scalar at a position that a Row answered; 0 is the value of an absent field.
func (c *Cursor) Uint8(at uint32) uint8 {
	if at == 0 {
		return 0
	}
	return c.v.buf[at]
}

// Uint32 is the scalar at a position that a Row answered; 0 is the value of an absent field.
func (c *Cursor) Uint32(at uint32) uint32 {
	if at == 0 {
		return 0
	}
	return binary.LittleEndian.Uint32(c.v.buf[at:])
}

// Uint64 is the scalar at a position that a Row answered; 0 is the value of an absent field.
func (c *Cursor) Uint64(at uint32) uint64 {
	if at == 0 {
		return 0
	}
	return binary.LittleEndian.Uint64(c.v.buf[at:])
}
