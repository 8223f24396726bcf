package onnx

import (
	"io"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/source"
)

// Detect reports whether a file looks like a model, perhaps a damaged one. Protobuf has
// no magic number, so it checks the fields. For almost every model it reads the first 512
// bytes. Otherwise it reads from field to field, without payloads, until a field does not
// fit a model.
func Detect(r io.ReaderAt, size int64) bool {
	const headSize = 512
	src, err := source.OfReaderAt(r, size)
	if err != nil || size < 4 {
		return false
	}
	head, err := src.Metadata(0, min(size, headSize))
	if err != nil {
		return false
	}
	d := detector{}
	d.window, d.size, d.limits = head, size, format.DefaultLimits()
	if d.head() {
		return true
	}
	d = detector{}
	d.src, d.size, d.limits = src, size, format.DefaultLimits()
	return d.whole()
}

// A detector checks whether a file is a ModelProto.
type detector struct{ cursor }

// A wireTypes has the possible wire types of the fields of a message, by number, as a bit
// set; 0 for fields that the message does not have.
type wireTypes []uint8

const (
	isNumber = 1 << varint
	isBytes  = 1 << delimited
	anyInt   = isNumber | isBytes // single numbers or packed
)

var (
	modelFields = wireTypes{1: isNumber, isBytes, isBytes, isBytes, isNumber, isBytes, isBytes,
		isBytes, 14: isBytes, 20: isBytes, 25: isBytes, isBytes}
	opsetFields = wireTypes{1: isBytes, isNumber}
	graphFields = wireTypes{1: isBytes, isBytes, 5: isBytes, 10: isBytes, isBytes, isBytes,
		isBytes, isBytes, isBytes, isBytes}
	nodeFields = wireTypes{1: isBytes, isBytes, isBytes, isBytes, isBytes, isBytes, isBytes,
		isBytes, isBytes, isBytes}
	tensorFields = wireTypes{1: anyInt, isNumber, isBytes, isBytes | 1<<fixed32, anyInt, isBytes,
		anyInt, isBytes, isBytes, isBytes | 1<<fixed64, anyInt, isBytes, isBytes, isNumber,
		16: isBytes}
	sparseFields = wireTypes{1: isBytes, isBytes, anyInt}
	valueFields  = wireTypes{1: isBytes, isBytes, isBytes, isBytes}
	entryFields  = wireTypes{1: isBytes, isBytes}
)

// types returns the wire types of a field, 0 for a field that the message does not have.
func (l wireTypes) types(key uint32) uint8 {
	if key>>3 >= uint32(len(l)) {
		return 0
	}
	return l[key>>3]
}

// head reports whether the file begins like a model, up to the first field of its graph.
// It does not need the rest of the file.
func (d *detector) head() bool {
	hasVersion := false
	for d.pos < d.size {
		key := d.tag(d.size)
		if d.err != nil || modelFields.types(key)&(1<<(key&7)) == 0 {
			return false
		}
		n := d.number(d.size)
		switch {
		case d.err != nil:
			return false
		case key == 1<<3|varint:
			if hasVersion = plausibleVersion(n); !hasVersion {
				return false
			}
		case key&7 == varint:
		case key == 7<<3|delimited:
			return hasVersion && n < 1<<62 && d.graphBegins(d.pos+int64(n))
		case n > uint64(int64(len(d.window))-d.pos):
			return false
		default:
			text := d.peek(int64(n), d.size)
			if key>>3 <= 4 && !utf8.Valid(text) {
				return false
			}
			d.pos += int64(n)
		}
	}
	return false
}

func plausibleVersion(v uint64) bool { return v > 0 && v <= 1<<16 }

// graphBegins reports whether the first field of a graph that ends at end fits a graph.
func (d *detector) graphBegins(end int64) bool {
	key := d.tag(d.size)
	n := d.number(d.size)
	if d.err != nil || graphFields.types(key)&(1<<(key&7)) == 0 || end < d.pos ||
		n > uint64(end-d.pos) {
		return false
	}
	if int64(n) > int64(len(d.window))-d.pos {
		return true
	}
	return d.plausible(field{key: key, off: d.pos, n: int64(n)})
}

// plausible reports whether the content of a field fits a graph.
func (d *detector) plausible(f field) bool {
	switch f.key >> 3 {
	case 1:
		return d.has(f, nodeFields, 4) // op_type
	case 2, 10:
		return utf8.Valid(d.content(f))
	case 5:
		return d.has(f, tensorFields, 2) // data_type
	case 15:
		return d.has(f, sparseFields, 1) // values
	case 16:
		return d.has(f, entryFields, 1)
	}
	return d.has(f, valueFields, 1) // name
}

// has reports whether a message has a field of that number, and no known field has a
// wrong wire type.
func (d *detector) has(of field, l wireTypes, number uint32) bool {
	found := false
	m := message{of.off, of.off + of.n}
	for f, ok := d.next(&m); ok; f, ok = d.next(&m) {
		if types := l.types(f.key); types != 0 && types&(1<<(f.key&7)) == 0 {
			return false
		}
		found = found || f.key>>3 == number
	}
	return found && d.err == nil
}

// whole reports whether the whole file fits a model.
func (d *detector) whole() bool {
	version, graphs, opsets := uint64(0), 0, 0
	m := message{0, d.size}
	for f, ok := d.next(&m); ok; f, ok = d.next(&m) {
		if types := modelFields.types(f.key); types != 0 && types&(1<<(f.key&7)) == 0 {
			return false
		}
		switch f.key {
		case 1<<3 | varint:
			if version = f.v; !plausibleVersion(version) {
				return false
			}
		case 8<<3 | delimited:
			opsets++
			if f.n > 0 && !d.has(f, opsetFields, 2) {
				return false
			}
		case 7<<3 | delimited:
			graphs++
			g := message{f.off, f.off + f.n}
			children := 0
			for f, ok := d.next(&g); ok; f, ok = d.next(&g) {
				const maxChecked = 16
				if graphFields.types(f.key)&(1<<(f.key&7)) == 0 ||
					children < maxChecked && !d.plausible(f) {
					return false
				}
				children++
			}
		}
	}
	return d.err == nil && version > 0 && graphs > 0 && (opsets > 0 || version < 3)
}
