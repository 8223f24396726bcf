// Package jsonheader reads the header of a safetensors file, for packages safetensors and
// ptn, and JSON text whose order and offsets count.
package jsonheader

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

const (
	// Start is where the JSON begins in a file, after its size.
	Start = 8
	// Max is the reference's bound for the JSON, on reading and writing.
	Max = 100_000_000
	// MetadataKey is the key that names no tensor.
	MetadataKey = "__metadata__"
)

// words are the reference's dtypes in its own order, which is also the
// order, from the last to the first, in which its writer lays tensors out.
var words = []struct {
	typeName string
	d        tensor.DType
}{
	{"BOOL", tensor.Bool},
	{"F4", tensor.F4E2M1FN},
	{"F6_E2M3", tensor.F6E2M3FN},
	{"F6_E3M2", tensor.F6E3M2FN},
	{"U8", tensor.U8},
	{"I8", tensor.I8},
	{"F8_E5M2", tensor.F8E5M2},
	{"F8_E4M3", tensor.F8E4M3FN},
	{"F8_E8M0", tensor.F8E8M0FNU},
	{"F8_E4M3FNUZ", tensor.F8E4M3FNUZ},
	{"F8_E5M2FNUZ", tensor.F8E5M2FNUZ},
	{"I16", tensor.I16},
	{"U16", tensor.U16},
	{"F16", tensor.F16},
	{"BF16", tensor.BF16},
	{"I32", tensor.I32},
	{"U32", tensor.U32},
	{"F32", tensor.F32},
	{"C64", tensor.C64},
	{"F64", tensor.F64},
	{"I64", tensor.I64},
	{"U64", tensor.U64},
}

func dtypeOf(word []byte) tensor.DType {
	for i := range words {
		if string(word) == words[i].typeName {
			return words[i].d
		}
	}
	return tensor.Unknown
}

// RankOf returns the place of a dtype in the reference's order, or -1.
func RankOf(d tensor.DType) int {
	for i := range words {
		if words[i].d == d {
			return i
		}
	}
	return -1
}

// DTypes returns the dtypes that a file can hold.
func DTypes() []tensor.DType {
	all := make([]tensor.DType, len(words))
	for i := range words {
		all[i] = words[i].d
	}
	return all
}

// An Extent is the data of one tensor, the file's word for a dtype that
// has no name here, and the shard that has it where an index was opened.
type Extent struct {
	source.Extent
	Shard    string
	typeName string
}

// Stored is for tensor.Blob.
func (e *Extent) Stored() (tensor.Stored, bool) {
	return tensor.Stored{Offset: e.Offset(), Size: e.Size(), Encoding: "raw", Type: e.typeName,
		File: e.Shard}, true
}

// An entry is one tensor of a header: a flat record without pointers but the
// name and, rarely, an unknown type.
type entry struct {
	name       string
	typeName   string
	begin, end int64
	dims       int // the first of its dimensions in header.dims
	rank       int
	at         int // where its name stands in the header
	d          tensor.DType
}

// A Header says what a safetensors file holds.
type Header struct {
	Metadata [][2]string
	Warnings []error // at most some hundred
	DataAt   int64   // where the data of the tensors begin

	format  string
	base    int64 // where the JSON begins
	entries []entry
	dims    []int64
}

// Read reads the header of the safetensors file that is the size bytes of src at off.
// Errors are of that format. head is the first Start+1 bytes of the file, or all of a
// shorter one.
func Read(format string, src *source.Source, off, size int64, head []byte,
	limits tensor.Limits) (*Header, error) {
	h := &Header{format: format, base: off + Start}
	n, err := Size(format, head, off, size, limits)
	if err != nil {
		return nil, err
	}
	if head[Start] != '{' {
		return nil, h.malformed(h.base, "header", "it does not begin with {")
	}
	b, err := src.Metadata(h.base, n)
	if err != nil {
		return nil, &tensor.FormatError{Format: format, Offset: h.base, Field: "header", Err: err}
	}
	h.DataAt = h.base + int64(len(b))
	return h, h.parse(b, size-Start-n, limits)
}

// Size returns the size of the JSON of the safetensors file that is the size bytes at off
// and begins with head, at least Start bytes.
func Size(format string, head []byte, off, size int64, limits tensor.Limits) (int64, error) {
	const field = "header size"
	h := &Header{format: format}
	if size < Start+1 {
		return 0, h.truncated(off, "header", "a file of %d bytes has no header", size)
	}
	switch n := binary.LittleEndian.Uint64(head); {
	case n > Max:
		return 0, h.malformed(off, field, "%d bytes, the format allows %d", n, Max)
	case int64(n) > limits.MaxMetadata:
		return 0, h.limit(off, field, "%d bytes, the limit is %d", n, limits.MaxMetadata)
	case int64(n) > size-Start:
		return 0, h.truncated(off, field, "%d bytes in a file of %d", n, size)
	default:
		return int64(n), nil
	}
}

// parse reads the JSON object b, which is followed by dataSize bytes.
func (h *Header) parse(b []byte, dataSize int64, limits tensor.Limits) error {
	if len(b) == 0 || b[0] != '{' {
		return h.malformed(h.base, "header", "it does not begin with {")
	}
	body := bytes.TrimRight(b, " ")
	s := NewScanner(h.format, "header", body, h.base)
	// An entry has a brace and at least 49 bytes: about right for a valid file, and
	// bounded by the bytes that are there for the others.
	n := min(bytes.Count(body, []byte("{")), len(body)/49+1)
	n = int(min(int64(n), limits.MaxTensors))
	h.entries = make([]entry, 0, n)
	h.dims = make([]int64, 0, 2*n)
	hasMetadata, first := false, true
	s.Expect('{')
	for s.Next(&first, '}') {
		at := s.i
		name := s.Str()
		s.Expect(':')
		if string(name) == MetadataKey {
			if hasMetadata {
				s.Fail(at, MetadataKey, "a duplicate key")
			}
			hasMetadata = true
			h.scanMetadata(s)
			continue
		}
		if int64(len(name)) > limits.MaxName {
			s.Exceed(at, "header", "a name of %d bytes, the limit is %d", len(name),
				limits.MaxName)
		}
		if int64(len(h.entries)) >= limits.MaxTensors {
			s.Exceed(at, "header", "more than %d tensors", limits.MaxTensors)
		}
		h.entries = append(h.entries, entry{name: le.String(name), at: at})
		h.scanEntry(s, &h.entries[len(h.entries)-1], limits)
	}
	if s.End(); s.err != nil {
		return s.err
	}
	if s.lax >= 0 {
		h.warn(h.base+int64(s.lax), "header", "white space other than trailing spaces")
	}
	return h.check(dataSize)
}

func formatError(name string, class error, off int64, field, format string,
	args ...any) error {
	return &tensor.FormatError{Format: name, Offset: off, Field: field,
		Err: fmt.Errorf("%w: "+format, append([]any{class}, args...)...)}
}

func (h *Header) malformed(off int64, field, format string, args ...any) error {
	return formatError(h.format, tensor.ErrMalformed, off, field, format, args...)
}

func (h *Header) limit(off int64, field, format string, args ...any) error {
	return formatError(h.format, tensor.ErrLimit, off, field, format, args...)
}

func (h *Header) truncated(off int64, field, format string, args ...any) error {
	return &tensor.FormatError{Format: h.format, Offset: off, Field: field,
		Err: fmt.Errorf(format+": %w", append(args, io.ErrUnexpectedEOF)...)}
}

func (h *Header) warn(off int64, field, format string, args ...any) {
	if len(h.Warnings) < 100 {
		h.Warnings = append(h.Warnings, h.malformed(off, field, format, args...))
	}
}

// warnDType notes a dtype that the reference does not know: it refuses the file, and
// Verify reports it as an error.
func (h *Header) warnDType(off int64, e *entry) {
	if len(h.Warnings) < 100 || !slices.ContainsFunc(h.Warnings, IsUnknownDType) {
		h.Warnings = append(h.Warnings,
			&tensor.FormatError{Format: h.format, Offset: off, Field: e.field(".dtype"),
				Err: fmt.Errorf("%w %s", errUnknownDType, naming.Quote(e.typeName))})
	}
}

var errUnknownDType = fmt.Errorf("%w: unknown dtype", tensor.ErrMalformed)

// IsUnknownDType reports whether a warning is about a dtype that the reference does not
// know.
func IsUnknownDType(err error) bool { return errors.Is(err, errUnknownDType) }

func (h *Header) scanMetadata(s *Scanner) {
	if s.Peek() != '{' {
		if s.literal("null") {
			h.warn(s.base+int64(s.i), MetadataKey, "null in place of an object")
			return
		}
		s.Fail(s.i, MetadataKey, "not an object")
		return
	}
	s.i++
	first := true
	for s.Next(&first, '}') {
		key := s.Str()
		s.Expect(':')
		if s.Peek() != '"' {
			s.Fail(s.i, MetadataKey, "the value of %s is not a string", naming.Quote(string(key)))
			return
		}
		h.Metadata = append(h.Metadata, [2]string{string(key), string(s.Str())})
	}
	if s.err != nil {
		return
	}
	if _, dup := naming.Build(len(h.Metadata),
		func(i int) string { return h.Metadata[i][0] }); dup >= 0 {
		s.Fail(s.i, MetadataKey, "%s is a duplicate key", naming.Quote(h.Metadata[dup][0]))
	}
}

func (e *entry) field(part string) string { return Field(e.name) + part }

// Field returns where a header describes the tensor of that name, for errors.
func Field(name string) string { return "header[" + naming.Quote(name) + "]" }

// scanEntry reads one tensor's object. Field names are only put together where
// something is wrong.
func (h *Header) scanEntry(s *Scanner, e *entry, limits tensor.Limits) {
	const dtype, shape, offsets = 1, 2, 4
	seen := 0
	take := func(bit int, key string) bool {
		if seen&bit != 0 {
			s.Fail(s.i, e.field("."+key), "a duplicate key")
		}
		seen |= bit
		return s.err == nil
	}
	s.Expect('{')
	first := true
	for s.Next(&first, '}') {
		at := s.i
		key := s.Str()
		s.Expect(':')
		switch string(key) {
		case "dtype":
			if take(dtype, "dtype") {
				word := s.Str()
				if e.d = dtypeOf(word); e.d == tensor.Unknown && s.err == nil {
					e.typeName = string(word)
					h.warnDType(s.base+int64(at), e)
				}
			}
		case "shape":
			if take(shape, "shape") {
				s.Expect('[')
				e.dims = len(h.dims)
				for one := true; s.Next(&one, ']'); {
					h.dims = append(h.dims, s.size("shape"))
				}
				e.rank = len(h.dims) - e.dims
				if int64(e.rank) > limits.MaxRank {
					s.Exceed(at, e.field(".shape"), "%d dimensions, the limit is %d", e.rank,
						limits.MaxRank)
				}
			}
		case "data_offsets":
			if take(offsets, "data_offsets") {
				s.Expect('[')
				e.begin = s.size("data_offsets")
				s.Expect(',')
				e.end = s.size("data_offsets")
				s.Expect(']')
			}
		default:
			if s.err == nil {
				h.warn(s.base+int64(at), e.field(""), "the key %s is unknown",
					naming.Quote(string(key)))
			}
			s.Skip(limits.MaxDepth)
		}
	}
	if s.err == nil && seen != dtype|shape|offsets {
		s.Fail(e.at, e.field(""), "dtype, shape or data_offsets is missing")
	}
}

// check applies the rules that concern all tensors together: sorted by offset
// they cover the data without hole or overlap, and each is as long as its type
// and shape say. It leaves the entries in that order.
func (h *Header) check(dataSize int64) error {
	byOffset := func(i, j int) bool {
		a, b := &h.entries[i], &h.entries[j]
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end)) < 0
	}
	if !sort.SliceIsSorted(h.entries, byOffset) {
		sort.SliceStable(h.entries, byOffset)
	}
	at := int64(0)
	for i := range h.entries {
		e := &h.entries[i]
		off := h.base + int64(e.at)
		if e.begin != at || e.end < e.begin {
			what := "a hole or an overlap: data ended at"
			if e.end < e.begin {
				what = "it ends before it begins; data ended at"
			}
			return h.malformed(off, e.field(".data_offsets"), "[%d, %d]: %s %d", e.begin, e.end,
				what, at)
		}
		at = e.end
		if at > dataSize {
			return h.truncated(off, e.field(".data_offsets"),
				"it ends at %d, the file has %d bytes of data", at, dataSize)
		}
		shape := tensor.Shape(h.dims[e.dims : e.dims+e.rank])
		n, ok := shape.Elements()
		if !ok {
			return h.malformed(off, e.field(".shape"), "%v is beyond 2^63 elements", shape)
		}
		if !e.d.Known() {
			continue
		}
		size, ok := e.d.Bytes(n)
		if !ok || size != e.end-e.begin {
			return h.malformed(off, e.field(".data_offsets"), "%d bytes where %v of %v takes %d",
				e.end-e.begin, shape, e.d, size)
		}
		if bits := int64(e.d.Bits()); bits%8 != 0 && n%8*bits%8 != 0 {
			return h.malformed(off, e.field(".shape"), "%v of %v does not end at a byte", shape,
				e.d)
		}
	}
	if at != dataSize {
		return h.malformed(h.DataAt+at, "data", "%d bytes after the last tensor", dataSize-at)
	}
	if _, dup := naming.Build(len(h.entries),
		func(i int) string { return h.entries[i].name }); dup >= 0 {
		e := &h.entries[dup]
		return h.malformed(h.base+int64(e.at), e.field(""), "a duplicate name")
	}
	return nil
}

// Tensors returns the tensors in the order of their offsets, with three allocations.
func (h *Header) Tensors(src *source.Source) ([]tensor.Tensor, error) {
	ts := make([]tensor.Tensor, len(h.entries))
	extents := make([]Extent, len(h.entries))
	for i := range h.entries {
		e := &h.entries[i]
		off, ok := align.Add(h.DataAt, e.begin)
		if !ok {
			return nil, h.malformed(-1, e.field(".data_offsets"), "beyond 2^63")
		}
		x, err := src.Extent(off, e.end-e.begin)
		if err != nil {
			return nil, &tensor.FormatError{Format: h.format,
				Offset: h.base + int64(e.at), Field: e.field(".data_offsets"), Err: err}
		}
		extents[i] = Extent{Extent: x, typeName: e.typeName}
		ts[i] = tensor.Tensor{Name: e.name, DType: e.d, Data: tensor.NewBlob(&extents[i]),
			Shape: tensor.Shape(h.dims[e.dims : e.dims+e.rank : e.dims+e.rank])}
	}
	return ts, nil
}
