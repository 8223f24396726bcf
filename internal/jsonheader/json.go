package jsonheader

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile/tensor"
)

// A Scanner walks JSON text once, without reflection, and allocates only for
// strings that hold escapes. The first error stops it: every later step does
// nothing, so that callers ask once.
type Scanner struct {
	b      []byte
	i      int
	format string // of errors
	field  string // of errors about syntax
	base   int64  // offset of b[0] in the file
	err    error
	lax    int // where white space other than a trailing space was first seen, or -1
}

// NewScanner returns a Scanner of the text b, which begins at byte base of a file of that
// format. Errors about syntax name the field.
func NewScanner(format, field string, b []byte, base int64) *Scanner {
	return &Scanner{b: b, format: format, field: field, base: base, lax: -1}
}

// Err returns the first error.
func (s *Scanner) Err() error { return s.err }

// Pos returns the index of the next byte in the text.
func (s *Scanner) Pos() int { return s.i }

// Text returns the text from index from to the next byte.
func (s *Scanner) Text(from int) []byte { return s.b[from:s.i] }

// Fail stops the Scanner with an error of the class tensor.ErrMalformed about the byte at
// index at.
func (s *Scanner) Fail(at int, field, format string, args ...any) {
	s.stop(tensor.ErrMalformed, at, field, format, args...)
}

// Exceed stops the Scanner with an error of the class tensor.ErrLimit.
func (s *Scanner) Exceed(at int, field, format string, args ...any) {
	s.stop(tensor.ErrLimit, at, field, format, args...)
}

func (s *Scanner) stop(class error, at int, field, format string, args ...any) {
	if s.err == nil {
		s.err = formatError(s.format, class, s.base+int64(at), field, format, args...)
	}
}

// End takes the white space that may follow the value, and fails if anything else does.
func (s *Scanner) End() {
	if s.Peek(); s.i < len(s.b) {
		s.Fail(s.i, s.field, "bytes after the object")
	}
}

// Peek skips white space and returns the next byte, 0 at the end.
func (s *Scanner) Peek() byte {
	for s.err == nil && s.i < len(s.b) {
		switch c := s.b[s.i]; c {
		case ' ', '\t', '\n', '\r':
			if s.lax < 0 {
				s.lax = s.i
			}
			s.i++
		default:
			return c
		}
	}
	return 0
}

// Expect takes the byte c.
func (s *Scanner) Expect(c byte) {
	if got := s.Peek(); s.err == nil {
		if got != c || s.i == len(s.b) {
			s.Fail(s.i, s.field, "expected %q", c)
			return
		}
		s.i++
	}
}

// Next is for the elements of an object or array whose opening was taken: it
// takes the comma before all but the first, or the closing byte and is false.
func (s *Scanner) Next(first *bool, closing byte) bool {
	c := s.Peek()
	if s.err != nil {
		return false
	}
	if c == closing && s.i < len(s.b) {
		s.i++
		return false
	}
	if !*first {
		s.Expect(',')
		if s.Peek() == closing {
			s.Fail(s.i, s.field, "a comma before %q", closing)
		}
	}
	*first = false
	return s.err == nil
}

// Str takes a string. The result aliases the text unless it has escapes.
func (s *Scanner) Str() []byte {
	s.Expect('"')
	if s.err != nil {
		return nil
	}
	start := s.i
	for i := start; ; i++ {
		if i += plainRun(s.b[i:]); i == len(s.b) {
			break
		}
		switch c := s.b[i]; {
		case c == '"':
			s.i = i + 1
			return s.b[start:i:i]
		case c < 0x20:
			s.Fail(i, s.field, "control character %#02x in a string", c)
			return nil
		default: // a backslash, or beyond ASCII
			return s.slowly(start, i)
		}
	}
	s.Fail(start-1, s.field, "a string does not end")
	return nil
}

// plainRun counts the bytes before the first that is a quote, a backslash, a
// control character or beyond ASCII, eight at a time.
func plainRun(b []byte) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; len(b)-i >= 8; i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		quote, back := x^('"'*ones), x^('\\'*ones)
		// Each term has the high bit of a byte set where the byte is special;
		// borrows can set more of them, but only above a true one.
		hit := (x | (x - 0x20*ones) | (quote - ones) | (back - ones)) & highs
		if hit != 0 {
			if k := bits.TrailingZeros64(hit) / 8; special(b[i+k]) {
				return i + k
			}
			break
		}
	}
	for i < len(b) && !special(b[i]) {
		i++
	}
	return i
}

func special(c byte) bool { return c < 0x20 || c == '"' || c == '\\' || c >= utf8.RuneSelf }

// slowly takes the rest of a string of which everything before i is plain.
func (s *Scanner) slowly(start, i int) []byte {
	for i < len(s.b) && s.b[i] >= utf8.RuneSelf || i < len(s.b) && !special(s.b[i]) {
		i++
	}
	if i < len(s.b) && s.b[i] == '"' {
		s.i = i + 1
		if !utf8.Valid(s.b[start:i]) {
			s.Fail(start, s.field, "a string is not UTF-8")
		}
		return s.b[start:i:i]
	}
	text := bytes.Clone(s.b[start:i])
	for i < len(s.b) {
		c := s.b[i]
		switch {
		case c == '"':
			s.i = i + 1
			if !utf8.Valid(text) {
				s.Fail(start, s.field, "a string is not UTF-8")
			}
			return text
		case c < 0x20:
			s.Fail(i, s.field, "control character %#02x in a string", c)
			return nil
		case c != '\\':
			text = append(text, c)
			i++
			continue
		}
		if i+1 == len(s.b) {
			break
		}
		const plain, meant = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
		if k := bytes.IndexByte([]byte(plain), s.b[i+1]); k >= 0 {
			text = append(text, meant[k])
			i += 2
			continue
		}
		r, ok := hex4(s.b[i:])
		width := 6
		if ok && utf16.IsSurrogate(r) {
			var low rune
			if low, ok = hex4(s.b[i+6:]); ok {
				r = utf16.DecodeRune(r, low)
				ok = r != utf8.RuneError
				width = 12
			}
		}
		if !ok {
			s.Fail(i, s.field, "a string holds a bad escape")
			return nil
		}
		text = utf8.AppendRune(text, r)
		i += width
	}
	s.Fail(start-1, s.field, "a string does not end")
	return nil
}

// hex4 reads \uXXXX.
func hex4(b []byte) (r rune, ok bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	for _, c := range b[2:6] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// size takes an integer from 0 to 2^63-1, written as JSON writes one: no sign,
// no fraction, no exponent, no leading zero.
func (s *Scanner) size(field string) int64 {
	s.Peek()
	start, n := s.i, int64(0)
	for ; s.err == nil && s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9'; s.i++ {
		d := int64(s.b[s.i] - '0')
		if n > (math.MaxInt64-d)/10 {
			s.Fail(start, field, "a number beyond 2^63")
			return 0
		}
		n = n*10 + d
	}
	if s.err != nil {
		return 0
	}
	bad := s.i == start || s.b[start] == '0' && s.i > start+1
	if s.i < len(s.b) {
		switch s.b[s.i] {
		case '.', 'e', 'E':
			bad = true
		}
	}
	if bad {
		s.Fail(start, field, "not a plain integer")
	}
	return n
}

// literal takes null, true or false.
func (s *Scanner) literal(word string) bool {
	s.Peek()
	if s.err != nil || !bytes.HasPrefix(s.b[s.i:], []byte(word)) {
		return false
	}
	s.i += len(word)
	return true
}

// Skip takes any value and throws it away.
func (s *Scanner) Skip(depth int64) {
	if depth == 0 {
		s.Fail(s.i, s.field, "values nested too deep")
	}
	first := true
	switch c := s.Peek(); {
	case s.err != nil:
	case c == '"':
		s.Str()
	case c == '{':
		s.i++
		for s.Next(&first, '}') {
			s.Str()
			s.Expect(':')
			s.Skip(depth - 1)
		}
	case c == '[':
		s.i++
		for s.Next(&first, ']') {
			s.Skip(depth - 1)
		}
	case s.literal("null"), s.literal("true"), s.literal("false"):
	default:
		s.number()
	}
}

// number takes any JSON number.
func (s *Scanner) number() {
	start := s.i
	digits := func() int {
		from := s.i
		for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' {
			s.i++
		}
		return s.i - from
	}
	at := func(set string) bool {
		if s.i < len(s.b) && bytes.IndexByte([]byte(set), s.b[s.i]) >= 0 {
			s.i++
			return true
		}
		return false
	}
	at("-")
	zero := s.i < len(s.b) && s.b[s.i] == '0'
	n := digits()
	ok := n > 0 && (!zero || n == 1)
	if ok && at(".") {
		ok = digits() > 0
	}
	if ok && at("eE") {
		at("+-")
		ok = digits() > 0
	}
	if !ok {
		s.Fail(start, s.field, "not a JSON value")
	}
}
