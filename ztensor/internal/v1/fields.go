package v1

import (
	"math"
	"slices"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
)

// A key is a known key of a map of the manifest, as a bit.
type key uint32

const (
	keyDType key = 1 << iota
	keyShape
	keyFormat
	keyComponents
	keyAttributes
	keyOffset
	keyLength
	keyEncoding
	keyDigest
	keyType
	keyDecoded
	keyName
	keyEndian
	keyVersion
	keyGenerator
	keyTensors

	// nullable keys are optional, and their value may be null.
	nullable = keyAttributes | keyGenerator |
		keyEncoding | keyDigest | keyType | keyDecoded | keyEndian
)

// A knownKey is a known key and its name.
type knownKey struct {
	name string
	key  key
}

// The keys of each kind of map, in the order in which programs write them.
var (
	rootKeys = []knownKey{{"version", keyVersion}, {"generator", keyGenerator},
		{"attributes", keyAttributes}, {"tensors", keyTensors}, {"objects", keyTensors}}
	tensorKeys = []knownKey{{"dtype", keyDType}, {"shape", keyShape}, {"format", keyFormat},
		{"components", keyComponents}, {"attributes", keyAttributes}}
	componentKeys = []knownKey{{"dtype", keyDType}, {"type", keyType}, {"offset", keyOffset},
		{"length", keyLength}, {"uncompressed_length", keyDecoded},
		{"encoding", keyEncoding}, {"digest", keyDigest}}
	entryKeys = []knownKey{{"name", keyName}, {"offset", keyOffset}, {"size", keyLength},
		{"dtype", keyDType}, {"layout", keyFormat}, {"shape", keyShape},
		{"encoding", keyEncoding}, {"data_endianness", keyEndian}, {"checksum", keyDigest}}
)

// The required keys of each kind of map.
// The required keys of each kind of map.
const (
	requiredInTensor    = keyShape | keyFormat | keyComponents
	requiredInComponent = keyOffset | keyLength
	requiredInEntry     = keyName | keyOffset | keyLength | keyDType | keyFormat | keyShape
)

// fields are the fields of the root, a tensor or a component. The strings point into the
// manifest.
type fields struct {
	at        int // offset in the manifest
	seen, has key // keys of the map; has leaves out keys whose value is null

	name, version, dtype, format, logical, encoding, digest, endian string

	offset, length uint64
	decoded        int64  // -1 if absent
	product        uint64 // of the dimensions
	attributes     []byte
	custom         []byte // of 0.1: unknown fields, without the head of a map
}

// readFields reads a map, whose known keys are keys, into f. It fails if a required key
// is missing.
func (s *scan) readFields(f *fields, keys []knownKey, required key) {
	mark, next := len(s.Keys), 0
	for n := s.Container(cbor.Map); s.More(&n); {
		at := s.Pos
		name := s.RawText()
		s.field = le.String(name)
		k := key(0)
		for range keys { // begin after the previous key: maps mostly have this order
			candidate := &keys[next]
			if next++; next == len(keys) {
				next = 0
			}
			if candidate.name == s.field {
				k = candidate.key
				break
			}
		}
		switch {
		case k == 0:
			s.unknownKey(at, name)
			if s.entry >= 0 && s.Err == nil {
				f.custom = append(f.custom, s.B[at:s.Pos]...)
			}
		case f.seen&k != 0:
			s.Malformed(at, "the same key a second time")
		case k&nullable != 0 && s.Pos < len(s.B) && s.B[s.Pos] == cbor.Null:
			f.seen |= k
			s.deviationAt(s.Pos, "null")
			s.Skip()
		default:
			f.seen |= k
			f.has |= k
			s.value(k, f)
		}
	}
	if s.Err == nil {
		s.field = ""
	}
	s.Unique(mark)
	if missing := required &^ f.has; missing != 0 {
		i := slices.IndexFunc(keys, func(k knownKey) bool { return k.key&missing != 0 })
		s.Malformed(f.at, "%s is missing", keys[i].name)
	}
}

// value reads the value of a known key.
func (s *scan) value(k key, f *fields) {
	switch k {
	case keyVersion:
		f.version = s.text()
	case keyName:
		f.name = s.text()
	case keyDType:
		f.dtype = s.text()
	case keyFormat:
		f.format = s.text()
	case keyType:
		f.logical = s.text()
	case keyEncoding:
		f.encoding = s.text()
	case keyDigest:
		f.digest = s.text()
	case keyEndian:
		f.endian = s.text()
	case keyGenerator:
		s.r.Generator = s.text()
	case keyOffset:
		f.offset = s.Uint()
	case keyLength:
		f.length = s.Uint()
	case keyDecoded:
		v := s.Uint()
		if v > math.MaxInt64 {
			s.Malformed(s.At, "%d bytes", v)
		}
		f.decoded = int64(v)
	case keyShape:
		f.product = s.shape()
	case keyAttributes:
		f.attributes = s.readAttributes()
	case keyComponents:
		s.components()
	case keyTensors:
		s.tensors()
	}
}

func (s *scan) text() string { return le.String(s.Text()) }

// unknownKey checks a key that this library does not know, and skips its value.
func (s *scan) unknownKey(at int, key []byte) {
	if !utf8.Valid(key) {
		s.Malformed(at, "a key that is not UTF-8")
	}
	s.Push(key)
	s.Skip()
}
