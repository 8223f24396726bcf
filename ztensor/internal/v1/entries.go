package v1

import (
	"slices"

	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
)

// entries reads the manifest of 0.1: an array of maps, each of a single blob.
func (s *scan) entries() {
	s.ownTypes = true
	if n := s.Container(cbor.Array); s.plausible(n) {
		s.x.Reserve(n)
		for s.More(&n) {
			s.entry()
			if s.Err != nil {
				s.in("entries[%d]", s.r.Tensors.Used)
			}
		}
	}
	if s.Err == nil && s.P < len(s.B) {
		s.Malformed(s.P, "%d bytes behind the manifest's array", len(s.B)-s.P)
	}
	if s.Err != nil {
		s.in("manifest")
		return
	}
	if !s.mixed {
		return
	}
	if dup := s.r.SortNames(); dup >= 0 {
		s.departAt(0, "entries", "tensor %s a second time: the first is served under the name", quote.Name(s.r.Tensors.At(dup).Name))
	}
}

// entry reads one map. Custom fields are the tensor's
// attributes.
func (s *scan) entry() {
	from := s.P
	s.dims, s.roles = s.dims[:0], append(s.roles[:0], role{at: int32(from), name: "data", decoded: -1})
	w := &s.roles[0]
	var seen, null uint32
	var name, layout []byte
	var custom []byte // fields of a CBOR map without its head
	var product uint64
	mark := len(s.Keys)
	for n := s.Container(cbor.Map); s.More(&n); {
		at := s.P
		key := s.RawText()
		switch string(key) {
		case "name":
			s.once(&seen, keyName, at)
			name = s.Text()
		case "offset":
			s.once(&seen, keyOffset, at)
			w.offset = s.Uint()
		case "size":
			s.once(&seen, keyLength, at)
			w.length = s.Uint()
		case "dtype":
			s.once(&seen, keyDType, at)
			w.dtype = le.String(s.Text())
		case "layout":
			s.once(&seen, keyFormat, at)
			layout = s.Text()
		case "shape":
			s.once(&seen, keyShape, at)
			product = s.shape()
		case "encoding":
			s.once(&seen, keyEncoding, at)
			if s.absent(key) {
				null |= keyEncoding
			} else {
				w.encoding = le.String(s.Text())
			}
		case "data_endianness":
			s.once(&seen, keyEndian, at)
			if s.absent(key) {
				null |= keyEndian
			} else {
				w.endian = le.String(s.Text())
			}
		case "checksum":
			s.once(&seen, keyDigest, at)
			if s.absent(key) {
				null |= keyDigest
			} else {
				w.digest = le.String(s.Text())
			}
		default:
			if s.other(at, key); s.Err == nil {
				custom = append(custom, s.B[at:s.P]...)
			}
		}
		if s.Err != nil {
			s.in("entries[%d].%s", s.r.Tensors.Used, core.CutKey(key))
		}
	}
	s.Unique(mark)
	w.has = seen &^ null
	s.need(w.has, entryKeys, from)
	if t := s.add(name, from); t != nil {
		if custom != nil {
			const indefiniteMap, end = cbor.Map<<5 | 31, 0xff
			custom = append(slices.Insert(custom, 0, indefiniteMap), end)
			s.r.OwnAttrs = append(s.r.OwnAttrs, core.OwnAttributes{Tensor: s.r.Tensors.Used - 1, Encoded: custom})
		}
		s.assemble(t, "", false, le.String(layout), product)
		if s.Err != nil {
			s.in("entries[%s]", quote.Name(t.Name))
		}
	}
}
