package safetensors

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/names"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

const (
	formatName  = "safetensors"
	headerStart = 8
	// maxHeader is the reference's bound, on reading and writing.
	maxHeader   = 100_000_000
	metadataKey = "__metadata__"
)

// words are the reference's dtypes in its own order, which is also the
// order, from the last to the first, in which its writer lays tensors out.
var words = []struct {
	word string
	d    tensor.DType
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
		if string(word) == words[i].word {
			return words[i].d
		}
	}
	return tensor.Unknown
}

// rankOf is the place of a dtype in words, or -1.
func rankOf(d tensor.DType) int {
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

// An extent is the data of one tensor, the file's word for a dtype that
// has no name here, and the shard that has it where an index was opened.
type extent struct {
	source.Extent
	word, shard string
}

// Stored is for tensor.Blob.
func (e *extent) Stored() tensor.Stored {
	return tensor.Stored{Offset: e.Offset(), Size: e.Size(), Encoding: "raw", Type: e.word,
		File: e.shard}
}

// An entry is one tensor of a header: a flat record without pointers but the
// name and, rarely, an unknown type.
type entry struct {
	name       string
	word       string
	begin, end int64
	dims       int // the first of its dimensions in header.dims
	rank       int
	at         int // where its name stands in the header
	d          tensor.DType
}

type header struct {
	entries  []entry
	dims     []int64
	metadata [][2]string
	warnings []error
	dataAt   int64
}

// parse reads the JSON object b, which starts at byte 8 of a file whose data is
// dataSize bytes long.
func parse(b []byte, dataSize int64, limits tensor.Limits) (*header, error) {
	h := &header{dataAt: headerStart + int64(len(b))}
	if len(b) == 0 || b[0] != '{' {
		return nil, malformed(headerStart, "header", "it does not begin with {")
	}
	body := bytes.TrimRight(b, " ")
	s := &scanner{b: body, base: headerStart, lax: -1}
	// An entry has a brace and at least 49 bytes: about right for a genuine file,
	// and bounded by the bytes that are there for the others.
	n := min(bytes.Count(body, []byte("{")), len(body)/49+1)
	n = int(min(int64(n), limits.MaxTensors))
	h.entries = make([]entry, 0, n)
	h.dims = make([]int64, 0, 2*n)
	hasMetadata, first := false, true
	s.expect('{')
	for s.next(&first, '}') {
		at := s.i
		name := s.str()
		s.expect(':')
		if string(name) == metadataKey {
			if hasMetadata {
				s.fail(at, metadataKey, "a duplicate key")
			}
			hasMetadata = true
			h.scanMetadata(s)
			continue
		}
		if int64(len(name)) > limits.MaxName {
			return nil, limitError(headerStart+int64(at), "header",
				"a name of %d bytes, the limit is %d", len(name), limits.MaxName)
		}
		if int64(len(h.entries)) >= limits.MaxTensors {
			return nil, limitError(headerStart+int64(at), "header", "more than %d tensors",
				limits.MaxTensors)
		}
		h.entries = append(h.entries, entry{name: le.String(name), at: at})
		h.scanEntry(s, &h.entries[len(h.entries)-1], limits)
	}
	if s.peek(); s.err == nil && s.i < len(body) {
		s.fail(s.i, "header", "bytes after the object")
	}
	if s.err != nil {
		return nil, s.err
	}
	if s.lax >= 0 {
		h.warn(headerStart+int64(s.lax), "header", "white space other than trailing spaces")
	}
	return h, h.check(dataSize)
}

func limitError(off int64, field, format string, args ...any) error {
	return &tensor.FormatError{Format: formatName, Offset: off, Field: field,
		Err: fmt.Errorf("%w: "+format, append([]any{tensor.ErrLimit}, args...)...)}
}

func (h *header) warn(off int64, field, format string, args ...any) {
	if len(h.warnings) < 100 {
		h.warnings = append(h.warnings, malformed(off, field, format, args...))
	}
}

// warnDType notes a dtype that the reference does not know: it refuses the file, and
// Verify reports it as an error.
func (h *header) warnDType(off int64, e *entry) {
	if len(h.warnings) < 100 || !slices.ContainsFunc(h.warnings, isUnknownDType) {
		h.warnings = append(h.warnings,
			&tensor.FormatError{Format: formatName, Offset: off, Field: e.field(".dtype"),
				Err: fmt.Errorf("%w %s", errUnknownDType, quote.Name(e.word))})
	}
}

var errUnknownDType = fmt.Errorf("%w: unknown dtype", tensor.ErrMalformed)

func isUnknownDType(err error) bool { return errors.Is(err, errUnknownDType) }

func (h *header) scanMetadata(s *scanner) {
	if s.peek() != '{' {
		if s.literal("null") {
			h.warn(s.base+int64(s.i), metadataKey, "null in place of an object")
			return
		}
		s.fail(s.i, metadataKey, "not an object")
		return
	}
	s.i++
	first := true
	for s.next(&first, '}') {
		key := s.str()
		s.expect(':')
		if s.peek() != '"' {
			s.fail(s.i, metadataKey, "the value of %s is not a string", quote.Name(string(key)))
			return
		}
		h.metadata = append(h.metadata, [2]string{string(key), string(s.str())})
	}
	if s.err != nil {
		return
	}
	if _, dup := names.Build(len(h.metadata),
		func(i int) string { return h.metadata[i][0] }); dup >= 0 {
		s.fail(s.i, metadataKey, "%s is a duplicate key", quote.Name(h.metadata[dup][0]))
	}
}

func (e *entry) field(part string) string {
	return fmt.Sprintf("header[%s]%s", quote.Name(e.name), part)
}

// scanEntry reads one tensor's object. Field names are only put together where
// something is wrong.
func (h *header) scanEntry(s *scanner, e *entry, limits tensor.Limits) {
	const dtype, shape, offsets = 1, 2, 4
	seen := 0
	take := func(bit int, key string) bool {
		if seen&bit != 0 {
			s.fail(s.i, e.field("."+key), "a duplicate key")
		}
		seen |= bit
		return s.err == nil
	}
	s.expect('{')
	first := true
	for s.next(&first, '}') {
		at := s.i
		key := s.str()
		s.expect(':')
		switch string(key) {
		case "dtype":
			if take(dtype, "dtype") {
				word := s.str()
				if e.d = dtypeOf(word); e.d == tensor.Unknown && s.err == nil {
					e.word = string(word)
					h.warnDType(s.base+int64(at), e)
				}
			}
		case "shape":
			if take(shape, "shape") {
				s.expect('[')
				e.dims = len(h.dims)
				for one := true; s.next(&one, ']'); {
					h.dims = append(h.dims, s.size("shape"))
				}
				e.rank = len(h.dims) - e.dims
				if int64(e.rank) > limits.MaxRank && s.err == nil {
					s.err = limitError(s.base+int64(at), e.field(".shape"),
						"%d dimensions, the limit is %d", e.rank, limits.MaxRank)
				}
			}
		case "data_offsets":
			if take(offsets, "data_offsets") {
				s.expect('[')
				e.begin = s.size("data_offsets")
				s.expect(',')
				e.end = s.size("data_offsets")
				s.expect(']')
			}
		default:
			if s.err == nil {
				h.warn(s.base+int64(at), e.field(""), "the key %s is unknown",
					quote.Name(string(key)))
			}
			s.skip(limits.MaxDepth)
		}
	}
	if s.err == nil && seen != dtype|shape|offsets {
		s.fail(e.at, e.field(""), "dtype, shape or data_offsets is missing")
	}
}

// check applies the rules that concern all tensors together: sorted by offset
// they cover the data without hole or overlap, and each is as long as its type
// and shape say. It leaves the entries in that order.
func (h *header) check(dataSize int64) error {
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
		off := headerStart + int64(e.at)
		if e.begin != at || e.end < e.begin {
			what := "a hole or an overlap: data ended at"
			if e.end < e.begin {
				what = "it ends before it begins; data ended at"
			}
			return malformed(off, e.field(".data_offsets"), "[%d, %d]: %s %d", e.begin, e.end,
				what, at)
		}
		at = e.end
		if at > dataSize {
			return truncated(off, e.field(".data_offsets"),
				"it ends at %d, the file has %d bytes of data", at, dataSize)
		}
		shape := tensor.Shape(h.dims[e.dims : e.dims+e.rank])
		n, ok := shape.Elements()
		if !ok {
			return malformed(off, e.field(".shape"), "%v is beyond 2^63 elements", shape)
		}
		if !e.d.Known() {
			continue
		}
		size, ok := e.d.Bytes(n)
		if !ok || size != e.end-e.begin {
			return malformed(off, e.field(".data_offsets"), "%d bytes where %v of %v takes %d",
				e.end-e.begin, shape, e.d, size)
		}
		if bits := int64(e.d.Bits()); bits%8 != 0 && n%8*bits%8 != 0 {
			return malformed(off, e.field(".shape"), "%v of %v does not end at a byte", shape, e.d)
		}
	}
	if at != dataSize {
		return malformed(h.dataAt+at, "data", "%d bytes after the last tensor", dataSize-at)
	}
	if _, dup := names.Build(len(h.entries),
		func(i int) string { return h.entries[i].name }); dup >= 0 {
		e := &h.entries[dup]
		return malformed(headerStart+int64(e.at), e.field(""), "a duplicate name")
	}
	return nil
}

// tensors turns the records into what the Reader hands out: three allocations.
func (h *header) tensors(src *source.Source) ([]tensor.Tensor, error) {
	ts := make([]tensor.Tensor, len(h.entries))
	extents := make([]extent, len(h.entries))
	for i := range h.entries {
		e := &h.entries[i]
		off, ok := align.Add(h.dataAt, e.begin)
		if !ok {
			return nil, malformed(-1, e.field(".data_offsets"), "beyond 2^63")
		}
		x, err := src.Extent(off, e.end-e.begin)
		if err != nil {
			return nil, &tensor.FormatError{Format: formatName,
				Offset: headerStart + int64(e.at), Field: e.field(".data_offsets"), Err: err}
		}
		extents[i] = extent{Extent: x, word: e.word}
		ts[i] = tensor.Tensor{Name: e.name, DType: e.d, Data: tensor.NewBlob(&extents[i]),
			Shape: tensor.Shape(h.dims[e.dims : e.dims+e.rank : e.dims+e.rank])}
	}
	return ts, nil
}
