package v1

import (
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
)

// entries reads the manifest of 0.1: an array of maps, each of a tensor with one
// component.
func (s *scan) entries() {
	s.componentTypes = true
	if n := s.Container(cbor.Array); s.reserve(n) {
		for s.More(&n) {
			s.readEntry()
		}
	}
	s.moveToRoot("")
	if s.Err == nil && s.Pos < len(s.B) {
		s.Malformed(s.Pos, "%d bytes after the manifest's array", len(s.B)-s.Pos)
	}
	if s.namesUnsorted && s.Err == nil {
		if dup := s.duplicate(); dup >= 0 {
			s.moveToRoot("entries")
			s.deviationAt(0, "tensor %s a second time: the first is served under the name",
				naming.Quote(s.r.Tensors[dup].Name))
		}
	}
}

// readEntry reads one map. Unknown fields become attributes of the tensor.
func (s *scan) readEntry() {
	r := s.r
	s.level, s.entry, s.field = 0, len(r.Tensors), ""
	s.dims = s.dims[:0]
	f := fields{at: s.Pos, decoded: -1}
	s.readFields(&f, entryKeys, requiredInEntry)
	t := s.add(f.name, f.at)
	if t == nil {
		return
	}
	if f.custom != nil {
		const indefiniteMap, end = cbor.Map<<5 | 31, 0xff
		r.TensorAttributes[t] = append(append([]byte{indefiniteMap}, f.custom...), end)
	}
	s.level, s.item = 1, f.name
	component := f
	component.name = "data"
	s.roles = append(s.roles[:0], component)
	f.has = 0
	s.assemble(t, &f)
}
