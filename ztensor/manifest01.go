package ztensor

import (
	"slices"

	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/tensor"
)

// entries reads the manifest of 0.1: an array of maps, each of a single blob.
func (s *scan) entries() {
	s.ownTypes = true
	if n := s.container(cborArray); s.plausible(n) {
		s.x.reserve(n)
		for s.more(&n) {
			s.entry()
			if s.err != nil {
				s.in("entries[%d]", s.r.tensors.used)
			}
		}
	}
	if s.err == nil && s.p < len(s.b) {
		s.malformed(s.p, "%d bytes behind the manifest's array", len(s.b)-s.p)
	}
	if s.err != nil {
		s.in("manifest")
		return
	}
	if !s.mixed {
		return
	}
	if dup := s.r.sortNames(); dup >= 0 {
		s.departAt(0, "entries", "tensor %s a second time: the first is served under the name", tensor.Quote(s.r.tensors.at(dup).Name))
	}
}

// entry reads one map. Custom fields are the tensor's
// attributes.
func (s *scan) entry() {
	from := s.p
	s.dims, s.roles = s.dims[:0], append(s.roles[:0], role{at: int32(from), name: "data", decoded: -1})
	w := &s.roles[0]
	var seen, null uint32
	var name, layout []byte
	var custom []byte // fields of a CBOR map without its head
	var product uint64
	mark := len(s.keys)
	for n := s.container(cborMap); s.more(&n); {
		at := s.p
		key := s.rawText()
		switch string(key) {
		case "name":
			s.once(&seen, keyName, at)
			name = s.text()
		case "offset":
			s.once(&seen, keyOffset, at)
			w.offset = s.uint()
		case "size":
			s.once(&seen, keyLength, at)
			w.length = s.uint()
		case "dtype":
			s.once(&seen, keyDType, at)
			w.dtype = le.String(s.text())
		case "layout":
			s.once(&seen, keyFormat, at)
			layout = s.text()
		case "shape":
			s.once(&seen, keyShape, at)
			product = s.shape()
		case "encoding":
			s.once(&seen, keyEncoding, at)
			if s.absent(key) {
				null |= keyEncoding
			} else {
				w.encoding = le.String(s.text())
			}
		case "data_endianness":
			s.once(&seen, keyEndian, at)
			if s.absent(key) {
				null |= keyEndian
			} else {
				w.endian = le.String(s.text())
			}
		case "checksum":
			s.once(&seen, keyDigest, at)
			if s.absent(key) {
				null |= keyDigest
			} else {
				w.digest = le.String(s.text())
			}
		default:
			if s.other(at, key); s.err == nil {
				custom = append(custom, s.b[at:s.p]...)
			}
		}
		if s.err != nil {
			s.in("entries[%d].%s", s.r.tensors.used, cutKey(key))
		}
	}
	s.unique(mark)
	w.has = seen &^ null
	s.need(w.has, entryKeys, from)
	if t := s.add(name, from); t != nil {
		if custom != nil {
			const indefiniteMap, end = cborMap<<5 | 31, 0xff
			custom = append(slices.Insert(custom, 0, indefiniteMap), end)
			s.r.ownAttrs = append(s.r.ownAttrs, ownAttributes{s.r.tensors.used - 1, custom})
		}
		s.assemble(t, "", false, le.String(layout), product)
		if s.err != nil {
			s.in("entries[%s]", tensor.Quote(t.Name))
		}
	}
}
