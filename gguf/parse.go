package gguf

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

const (
	magic            = "GGUF"
	defaultAlignment = 32
	alignmentKey     = "general.alignment"
	metadataField    = "metadata"
)

// A scanner reads the bytes of a header, or of one value. Its first error stops it.
type scanner struct {
	b        []byte
	i        int64    // next byte
	grow     extender // nil: b is complete
	limits   tensor.Limits
	version  uint32
	big      bool   // the header is big-endian: numbers are swapped in place
	depth    int64  // of nested arrays
	inEntry  bool   // a metadata entry is being read
	key      string // its key
	notText  bool   // it has a string that is not UTF-8
	warnings *format.Warnings
	err      error
}

// fail stops the scanner with an error at byte at.
func (s *scanner) fail(at int64, field string, class error, format string, args ...any) {
	if s.err == nil {
		s.err = errs.At(at, s.path(field), class, format, args...)
	}
}

// path adds the key to the field of a metadata entry.
func (s *scanner) path(field string) string {
	if field == metadataField && s.inEntry {
		return keyField(s.key)
	}
	return field
}

// warn adds a warning, unless problem is "".
func (s *scanner) warn(at int64, field, problem string) {
	if s.err == nil && problem != "" && s.warnings != nil {
		s.warnings.Add(errs.At(at, s.path(field), tensor.ErrMalformed, "%s", problem))
	}
}

// An extender returns b, the beginning of a file, with n or more bytes that follow it.
type extender func(b []byte, n int64) ([]byte, error)

// take returns the next n bytes.
func (s *scanner) take(n int64) []byte {
	if missing := n - (int64(len(s.b)) - s.i); s.err == nil && missing > 0 {
		if s.grow == nil {
			s.err = io.ErrUnexpectedEOF // never for a value that skip has checked
			return nil
		}
		s.b, s.err = s.grow(s.b, missing)
	}
	if s.err != nil {
		return nil
	}
	s.i += n
	return s.b[s.i-n : s.i : s.i]
}

// peek fails if there are not n more bytes.
func (s *scanner) peek(n int64) {
	s.take(n)
	if s.err == nil {
		s.i -= n
	}
}

// number returns the next number, of n bytes, in little-endian order.
func (s *scanner) number(n int64) []byte {
	b := s.take(n)
	if s.big {
		slices.Reverse(b)
	}
	return b
}

func (s *scanner) u32() uint32 {
	if b := s.number(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// size reads a count or length: 64 bits from version 2, 32 before.
func (s *scanner) size(field string) int64 {
	if s.version == 1 {
		return int64(s.u32())
	}
	at := s.i
	b := s.number(8)
	if b == nil {
		return 0
	}
	n := binary.LittleEndian.Uint64(b)
	if n > math.MaxInt64 {
		s.fail(at, field, tensor.ErrMalformed, "%d is beyond 2^63", n)
		return 0
	}
	return int64(n)
}

// count reads the number of tensors or of metadata entries.
func (s *scanner) count(field string, limit int64) int64 {
	at := s.i
	n := s.size(field)
	if n > limit {
		s.fail(at, field, tensor.ErrLimit, "%d, the limit is %d", n, limit)
	}
	return n
}

// str reads a string, which may have any bytes. It refers to s.b.
func (s *scanner) str(field string, limit int64) string {
	at := s.i
	n := s.size(field)
	if n > limit {
		s.fail(at, field, tensor.ErrLimit, "a string of %d bytes, the limit is %d", n, limit)
	}
	return le.String(s.take(n))
}

// skip checks a metadata value, after its type, and returns the type.
func (s *scanner) skip() ValueType {
	at := s.i
	t := ValueType(s.u32())
	s.skipValue(t, at)
	return t
}

// skipValue checks a value of type t. at is the offset for errors about the type.
func (s *scanner) skipValue(t ValueType, at int64) {
	const field = metadataField
	limits := s.limits
	switch {
	case s.err != nil:
	case t == TypeBool:
		if b := s.take(1); b != nil && b[0] > 1 {
			s.fail(s.i-1, field, tensor.ErrMalformed, "the bool %#02x", b[0])
		}
	case t.width() > 0:
		s.number(t.width())
	case t == TypeString:
		stringAt := s.i
		if v := s.str(field, limits.MaxMetadata); !s.notText && !utf8.ValidString(v) {
			s.warn(stringAt, field, "a string that is not UTF-8")
			s.notText = true // one warning for each entry
		}
	case t == TypeArray:
		if s.depth++; s.depth > limits.MaxDepth {
			s.fail(at, field, tensor.ErrLimit, "arrays nested deeper than %d", limits.MaxDepth)
		}
		elem := ValueType(s.u32())
		lengthAt := s.i
		n := s.size(field)
		if w := elem.width(); w > 0 && elem != TypeBool {
			if n > limits.MaxMetadata/w {
				s.fail(lengthAt, field, tensor.ErrLimit, "an array of %d elements", n)
			}
			if b := s.take(n * w); s.big {
				le.Swap(b, int(w))
			}
		} else {
			for range n {
				s.skipValue(elem, lengthAt)
				if s.err != nil {
					break
				}
			}
		}
		s.depth--
	default:
		s.fail(at, field, errors.ErrUnsupported, "values of type %d", t)
	}
}

// An attribute is a metadata entry. Its value is decoded when it is requested.
type attribute struct {
	key string
	at  int64 // offset in the file
	t   ValueType
	raw []byte
}

// An entry is the description of a tensor in the header.
type entry struct {
	name   string
	at     int64 // offset of the entry in the file
	shape  tensor.Shape
	kind   uint32
	offset int64 // from the start of the data
	t      storage
}

type header struct {
	warnings  format.Warnings
	version   uint32
	big       bool // the data is big-endian; values of metadata have been swapped
	metadata  []attribute
	entries   []entry
	alignment int64
	end       int64 // of the header, before padding
}

// parse reads the header.
func parse(grow extender, limits tensor.Limits) (*header, error) {
	h := &header{alignment: defaultAlignment, warnings: format.Warnings{Format: "gguf"}}
	s := &scanner{grow: grow, limits: limits, warnings: &h.warnings}
	m := s.take(4)
	if s.err == nil && string(m) != magic {
		return nil, errs.At(0, "magic", tensor.ErrMalformed, "not a GGUF file")
	}
	s.version = s.u32()
	if s.version != 0 && s.version&0xffff == 0 { // as all readers tell the byte order
		s.version, s.big = bits.ReverseBytes32(s.version), true
	}
	h.version, h.big = s.version, s.big
	switch {
	case s.err != nil:
	case s.big && s.version != 3:
		return nil, errs.At(4, "version", errors.ErrUnsupported, "big-endian version %d",
			s.version)
	case s.version == 0 || s.version > 3:
		return nil, errs.At(4, "version", errors.ErrUnsupported, "version %d", s.version)
	}
	tensors := s.count("tensor_count", limits.MaxTensors)
	entries := s.count("metadata_kv_count", limits.MaxTensors)
	if s.err != nil {
		return nil, s.err
	}
	// A declared number allocates no more entries than the bytes so far can hold.
	h.metadata = make([]attribute, 0, min(entries, int64(len(s.b))/12))
	for range entries {
		if a := s.attribute(h); s.err == nil {
			h.metadata = append(h.metadata, a)
		} else {
			return nil, s.err
		}
	}
	h.entries = make([]entry, 0, min(tensors, int64(len(s.b))/24))
	for range tensors {
		if e := s.entry(); s.err == nil {
			h.entries = append(h.entries, e)
		} else {
			return nil, s.err
		}
	}
	h.end = s.i
	return h, nil
}

// attribute reads a metadata entry. It sets h.alignment if it is general.alignment.
func (s *scanner) attribute(h *header) (a attribute) {
	a.at = s.i
	a.key = s.str(metadataField, s.limits.MaxName)
	s.inEntry, s.key, s.notText = s.err == nil, a.key, false
	s.warn(a.at, metadataField, checkKey(a.key))
	from := s.i
	a.t = s.skip()
	if s.err != nil {
		return a
	}
	a.raw = s.b[from+4 : s.i]
	if a.key == alignmentKey {
		n, ok := alignmentOf(Value{a, s.version})
		if !ok {
			s.fail(a.at, metadataField, tensor.ErrMalformed,
				"%s is not a power of two of type uint32", naming.Quote(a.text(s.version)))
		}
		s.warn(a.at, metadataField, checkAlignment(n))
		h.alignment = n
	}
	s.inEntry = false
	return a
}

// entry reads the description of a tensor.
func (s *scanner) entry() entry {
	e := entry{at: s.i, name: s.str("tensors", s.limits.MaxName)}
	rank := int64(s.u32())
	if rank > s.limits.MaxRank {
		s.fail(e.at, e.field(".n_dims"), tensor.ErrLimit, "%d dimensions, the limit is %d", rank,
			s.limits.MaxRank)
	}
	if s.peek(rank * 4); s.err != nil {
		return e
	}
	e.shape = make(tensor.Shape, rank)
	for k := range e.shape {
		e.shape[int(rank)-1-k] = s.size("tensors.ne")
	}
	e.kind = s.u32()
	e.t = storageOf(e.kind)
	if b := s.number(8); b != nil {
		off := binary.LittleEndian.Uint64(b)
		if off > math.MaxInt64 {
			s.fail(s.i-8, e.field(".offset"), tensor.ErrMalformed, "%d is beyond 2^63", off)
		}
		e.offset = int64(off)
	}
	for _, p := range []struct{ part, problem string }{{"", checkName(e.name)},
		{".n_dims", checkRank(len(e.shape))}, {".type", checkType(e.kind)}} {
		if p.problem != "" {
			s.warn(e.at, e.field(p.part), p.problem)
		}
	}
	return e
}

// text returns the value as [Value.String] does. skip has checked the value.
func (a attribute) text(version uint32) string {
	s := &scanner{b: a.raw, version: version}
	if a.t == TypeString {
		return s.text()
	}
	return string(s.appendValue(nil, a.t))
}

// appendValue appends the next value as JSON. NaN and infinities become {"$float": "nan"}
// and so on, strings that are not UTF-8 {"$bytes": "hex"}.
func (s *scanner) appendValue(b []byte, t ValueType) []byte {
	var raw [8]byte
	copy(raw[:], s.take(t.width()))
	bits := binary.LittleEndian.Uint64(raw[:])
	switch t {
	case TypeUint8, TypeUint16, TypeUint32, TypeUint64:
		return strconv.AppendUint(b, bits, 10)
	case TypeInt8, TypeInt16, TypeInt32, TypeInt64:
		unused := 64 - 8*t.width()
		return strconv.AppendInt(b, int64(bits<<unused)>>unused, 10)
	case TypeBool:
		return strconv.AppendBool(b, bits != 0)
	case TypeFloat32:
		return appendFloat(b, float64(math.Float32frombits(uint32(bits))), 32)
	case TypeFloat64:
		return appendFloat(b, math.Float64frombits(bits), 64)
	case TypeString:
		v := s.str("", math.MaxInt64)
		if !utf8.ValidString(v) {
			return fmt.Appendf(b, `{"$bytes":"%x"}`, v)
		}
		return appendJSON(b, v)
	case TypeArray:
		elem := ValueType(s.u32())
		b = append(b, '[')
		for i := range s.size("") {
			if i > 0 {
				b = append(b, ',')
			}
			b = s.appendValue(b, elem)
		}
		return append(b, ']')
	}
	return b
}

// appendFloat appends a number as encoding/json writes it.
func appendFloat(b []byte, v float64, bits int) []byte {
	switch {
	case math.IsNaN(v):
		return append(b, `{"$float":"nan"}`...)
	case math.IsInf(v, 1):
		return append(b, `{"$float":"inf"}`...)
	case math.IsInf(v, -1):
		return append(b, `{"$float":"-inf"}`...)
	}
	var x any = v
	if bits == 32 {
		x = float32(v)
	}
	text, err := json.Marshal(x)
	if err != nil { // a finite number always has a JSON form
		return b
	}
	return append(b, text...)
}

// appendJSON quotes a string, by encoding/json if it needs escapes.
func appendJSON(b []byte, v string) []byte {
	plain := true
	for i := range len(v) {
		if c := v[i]; c < 0x20 || c == '"' || c == '\\' {
			plain = false
			break
		}
	}
	if plain {
		b = append(b, '"')
		b = append(b, v...)
		return append(b, '"')
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil { // a string always has a JSON form
		return b
	}
	return append(b, bytes.TrimSuffix(out.Bytes(), []byte("\n"))...)
}
