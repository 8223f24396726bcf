package onnx

import (
	"encoding/binary"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// The wire types of protobuf.
const (
	varint     = 0
	fixed64    = 1
	delimited  = 2 // a length and that many bytes: text, a message or packed numbers
	startGroup = 3
	endGroup   = 4
	fixed32    = 5
)

// maxMessages is the nesting of messages and groups that protobuf's own parsers allow.
const maxMessages = 100

// A field is one field of a message.
type field struct {
	key uint32 // number << 3 | wire type
	v   uint64 // the number, if it is one
	at  int64  // offset of the tag
	off int64  // offset of the bytes of a delimited field
	n   int64  // number of bytes
}

// A message is a byte range of the file whose fields are read one after the other.
type message struct{ next, end int64 }

// A cursor reads messages of a file, through a window in memory. After the first error it
// reads nothing more.
type cursor struct {
	src    *source.Source // nil if the window is all of the file
	window []byte
	buf    []byte
	base   int64 // offset of the window
	pos    int64 // offset of the next byte
	size   int64
	limits tensor.Limits
	walked int64 // bytes that were parsed: neither elements of tensors nor unknown fields
	path   []step
	texts  textArena
	err    error
}

// A step of a path leads to a field of a message; index is negative unless it repeats.
type step struct {
	name  string
	index int
}

// fieldPath returns the path of a field of the current message, with the names of
// onnx.proto.
func (c *cursor) fieldPath(name string) string {
	var b []byte
	for _, s := range c.path {
		b = append(append(b, s.name...), '.')
		if s.index >= 0 {
			b = append(strconv.AppendInt(append(b[:len(b)-1], '['), int64(s.index), 10), "]."...)
		}
	}
	if b = append(b, name...); name == "" && len(b) > 0 {
		b = b[:len(b)-1]
	}
	return string(b)
}

// fail sets the error of a field of the current message.
func (c *cursor) fail(class error, off int64, name, format string, args ...any) {
	if c.err == nil {
		c.err = errs.At(off, c.fieldPath(name), class, format, args...)
	}
}

// failTruncated sets the error of a part that does not end before end, the end of its
// message.
func (c *cursor) failTruncated(off int64, what string, end int64) {
	class := tensor.ErrMalformed
	if end == c.size {
		class = io.ErrUnexpectedEOF
	}
	c.fail(class, off, "", "%s does not end with its message, at byte %d", what, end)
}

// peek returns the next n bytes, or fewer if end comes first. They are valid until the
// next call.
func (c *cursor) peek(n, end int64) []byte {
	n = min(n, end-c.pos)
	if at := c.pos - c.base; at < 0 || n > int64(len(c.window))-at {
		if c.src == nil || c.err != nil {
			return nil
		}
		c.readWindow(n)
	}
	at := c.pos - c.base
	if c.err != nil {
		return nil
	}
	return c.window[at : at+n : at+n]
}

// readWindow reads a window of at least n bytes at pos: a small window after a skipped
// payload, and a larger one if it follows the last window.
func (c *cursor) readWindow(n int64) {
	const minWindow, maxWindow = 4 << 10, 256 << 10
	next := int64(minWindow)
	if c.pos > c.base && c.pos <= c.base+int64(len(c.window)) {
		next = min(2*int64(len(c.window)), maxWindow)
	}
	next = min(max(next, n), c.size-c.pos)
	if int64(cap(c.buf)) < next {
		c.buf = make([]byte, next)
	}
	b := c.buf[:next]
	if _, err := c.src.ReadAt(b, c.pos); err != nil && c.err == nil {
		c.err = &tensor.FormatError{Format: formatName, Offset: c.pos, Field: c.fieldPath(""),
			Err: err}
	}
	c.window, c.base = b, c.pos
}

// number reads a varint.
func (c *cursor) number(end int64) (v uint64) {
	at := uint64(c.pos - c.base)
	if at < uint64(len(c.window)) && c.pos < end && c.window[at] < 0x80 && c.err == nil {
		c.pos++
		return uint64(c.window[at])
	}
	b := c.peek(binary.MaxVarintLen64, end)
	v, n := binary.Uvarint(b)
	switch {
	case n > 0:
		c.pos += int64(n)
		return v
	case n < 0 || len(b) == binary.MaxVarintLen64:
		c.fail(tensor.ErrMalformed, c.pos, "", "a number of more than 64 bits")
	default:
		c.failTruncated(c.pos, "a number", end)
	}
	return 0
}

// fixed reads a number of n bytes.
func (c *cursor) fixed(n, end int64) (v uint64) {
	b := c.peek(n, end)
	if int64(len(b)) < n {
		c.failTruncated(c.pos, "a number", end)
		return 0
	}
	c.pos += n
	if n == 4 {
		return uint64(binary.LittleEndian.Uint32(b))
	}
	return binary.LittleEndian.Uint64(b)
}

// tag reads the number and the wire type of a field.
func (c *cursor) tag(end int64) (key uint32) {
	at := c.pos
	v := c.number(end)
	switch {
	case c.err != nil:
	case v>>3 == 0 || v >= 1<<32:
		c.fail(tensor.ErrMalformed, at, "", "a field of number %d", v>>3)
	case v&7 > fixed32:
		c.fail(tensor.ErrMalformed, at, "", "field %d has the wire type %d", v>>3, v&7)
	}
	return uint32(v)
}

// next reads the next field of a message, except the bytes of a delimited field. It skips
// groups: no known field is one. It returns false at the end, and after an error.
func (c *cursor) next(m *message) (f field, ok bool) {
	for c.err == nil {
		if c.pos = m.next; c.pos == m.end {
			return f, false
		}
		f.at = c.pos
		f.key = c.tag(m.end)
		switch f.key & 7 {
		case varint:
			f.v = c.number(m.end)
		case fixed64:
			f.v = c.fixed(8, m.end)
		case fixed32:
			f.v = c.fixed(4, m.end)
		case delimited:
			f.n = c.length(m.end)
			f.off = c.pos
		case startGroup:
			c.group(f.key, m.end)
			m.next = c.pos
			continue
		case endGroup:
			c.fail(tensor.ErrMalformed, f.at, "", "the end of a group that has no start")
		}
		c.walked += c.pos - f.at
		if m.next = c.pos; f.key&7 == delimited {
			m.next += f.n
		}
		if c.walked > c.limits.MaxMetadata {
			c.fail(tensor.ErrLimit, f.at, "", "more than %d bytes of metadata",
				c.limits.MaxMetadata)
		}
		return f, c.err == nil
	}
	return f, false
}

// length reads the number of bytes that follow.
func (c *cursor) length(end int64) int64 {
	at := c.pos
	n := c.number(end)
	if c.err == nil && n > uint64(end-c.pos) {
		c.failTruncated(at, fmt.Sprintf("a field of %d bytes", n), end)
	}
	return int64(n)
}

// group skips a group, whose first tag has been read.
func (c *cursor) group(key uint32, end int64) {
	at := c.pos
	for open := []uint32{key >> 3}; len(open) > 0 && c.err == nil; {
		if c.pos == end {
			c.failTruncated(at, fmt.Sprintf("the group of number %d", open[0]), end)
			return
		}
		at := c.pos
		key := c.tag(end)
		switch key & 7 {
		case varint:
			c.number(end)
		case fixed64:
			c.fixed(8, end)
		case fixed32:
			c.fixed(4, end)
		case delimited:
			n := c.length(end)
			c.pos += n
		case startGroup:
			if open = append(open, key>>3); len(open)+len(c.path) > c.depth() {
				c.tooDeep(at)
			}
		case endGroup:
			if key>>3 != open[len(open)-1] {
				c.fail(tensor.ErrMalformed, at, "", "the end of group %d within group %d", key>>3,
					open[len(open)-1])
			}
			open = open[:len(open)-1]
		}
	}
}

// depth returns how deep messages may be nested.
func (c *cursor) depth() int { return int(min(c.limits.MaxDepth, maxMessages)) }

func (c *cursor) tooDeep(off int64) {
	c.fail(tensor.ErrLimit, off, "", "messages are nested deeper than %d", c.depth())
}

// enter returns the message in a field, and appends the field to the path of errors.
// index is its index among the fields of that name. leave removes it from the path.
func (c *cursor) enter(f field, name string, index int) message {
	c.path = append(c.path, step{name, index})
	if len(c.path) > c.depth() {
		c.tooDeep(f.at)
	}
	return message{f.off, f.off + f.n}
}

func (c *cursor) leave() { c.path = c.path[:len(c.path)-1] }

// content returns the bytes of a field. They are valid until the next call.
func (c *cursor) content(f field) []byte {
	c.walked += f.n
	if c.src == nil || f.n <= 64<<10 {
		c.pos = f.off
		return c.peek(f.n, f.off+f.n)
	}
	b, err := c.src.Metadata(f.off, f.n) // it allocates as bytes arrive
	if err != nil && c.err == nil {
		c.err = &tensor.FormatError{Format: formatName, Offset: f.off, Field: c.fieldPath(""),
			Err: err}
	}
	return b
}

// text returns the bytes of a field as a string, a copy.
func (c *cursor) text(f field) string {
	if f.n > c.limits.MaxMetadata-c.walked {
		c.fail(tensor.ErrLimit, f.at, "", "more than %d bytes of metadata", c.limits.MaxMetadata)
	}
	if c.err != nil {
		return ""
	}
	return c.texts.add(c.content(f))
}

// A textArena makes short strings in few large allocations.
type textArena struct{ b strings.Builder }

func (t *textArena) add(b []byte) string {
	const piece, short = 64 << 10, 1 << 10
	if len(b) > short {
		return string(b)
	}
	if len(b) > t.b.Cap()-t.b.Len() {
		size := min(piece, max(short, 2*t.b.Cap()))
		t.b = strings.Builder{}
		t.b.Grow(size)
	}
	at := t.b.Len()
	t.b.Write(b)
	return t.b.String()[at:]
}

// name returns text of at most MaxName bytes.
func (c *cursor) name(f field) string {
	if f.n > c.limits.MaxName {
		c.fail(tensor.ErrLimit, f.at, "", "a name of %d bytes, the limit is %d", f.n,
			c.limits.MaxName)
	}
	return c.text(f)
}

// packed calls use with each number of a field: one number, or packed numbers of type
// wire.
func (c *cursor) packed(f field, wire int, use func(v uint64)) {
	if f.key&7 != delimited {
		use(f.v)
		return
	}
	c.walked += f.n
	c.pos = f.off
	for end := f.off + f.n; c.pos < end && c.err == nil; {
		switch wire {
		case fixed32:
			use(c.fixed(4, end))
		case fixed64:
			use(c.fixed(8, end))
		default:
			use(c.number(end))
		}
	}
}
