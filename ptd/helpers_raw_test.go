package ptd_test

import (
	"encoding/binary"

	"github.com/tensorfile/tensorfile/internal/fb"
)

// A raw file is put together without any check.
type raw struct {
	version  uint32
	segments [][2]uint64 // offset, size; nil: absent
	entries  []rawEntry  // nil: absent
	data     int         // bytes behind the metadata
	header   func(h *[4]uint64)
	patch    func(b []byte) []byte
}

type rawEntry struct {
	key     any // a string, or nil for none
	segment uint32
	layout  *rawLayout
}

type rawLayout struct {
	scalar int8
	sizes  []int32 // nil: absent
	order  []uint8 // nil: absent
}

func (f raw) bytes() []byte {
	var b fb.Builder
	var segments, named fb.Offset
	if f.segments != nil {
		var v []fb.Offset
		for _, s := range f.segments {
			b.Begin()
			b.Scalar(6, 8, s[1], 0)
			b.Scalar(4, 8, s[0], 0)
			v = append(v, b.End())
		}
		segments = b.Offsets(v)
	}
	if f.entries != nil {
		var v []fb.Offset
		for _, e := range f.entries {
			var key, layout fb.Offset
			if s, ok := e.key.(string); ok {
				key = b.String(s)
			}
			if l := e.layout; l != nil {
				var sizes, order fb.Offset
				if l.sizes != nil {
					var p []byte
					for _, n := range l.sizes {
						p = binary.LittleEndian.AppendUint32(p, uint32(n))
					}
					sizes = b.Scalars(p, 4, 0)
				}
				if l.order != nil {
					order = b.Scalars(l.order, 1, 0)
				}
				b.Begin()
				b.Ref(8, order)
				b.Ref(6, sizes)
				b.Scalar(4, 1, uint64(uint8(l.scalar)), 0)
				layout = b.End()
			}
			b.Begin()
			b.Ref(8, layout)
			b.Scalar(6, 4, uint64(e.segment), 0)
			b.Ref(4, key)
			v = append(v, b.End())
		}
		named = b.Offsets(v)
	}
	b.Begin()
	b.Ref(8, named)
	b.Ref(6, segments)
	b.Scalar(4, 4, uint64(f.version), 0)
	buf, err := b.Finish(b.End(), "FT01")
	if err != nil {
		panic(err)
	}
	return f.wrap(buf)
}

// wrap puts the header into a FlatBuffer and data behind it.
func (f raw) wrap(buf []byte) []byte {
	base := (48 + len(buf) + 127) &^ 127
	h := [4]uint64{48, uint64(len(buf)), uint64(base), uint64(f.data)}
	if f.header != nil {
		f.header(&h)
	}
	out := fb.Splice(buf, 48)
	copy(out[8:], "FH01\x28")
	for i, n := range h {
		binary.LittleEndian.PutUint64(out[16+8*i:], n)
	}
	out = append(out, make([]byte, base-len(out)+f.data)...)
	if f.patch != nil {
		out = f.patch(out)
	}
	return out
}

// good is a file of one tensor; every hostile file below departs from it in one thing.
func good() raw {
	return raw{
		segments: [][2]uint64{{0, 16}},
		entries:  []rawEntry{{"w", 0, &rawLayout{6, []int32{2, 2}, []uint8{0, 1}}}},
		data:     16,
	}
}

func with(change func(f *raw)) []byte {
	f := good()
	change(&f)
	return f.bytes()
}

// set32 and set64 change a number of the file.
func set32(off int, x uint32) func(f *raw) {
	return func(f *raw) {
		f.patch = func(b []byte) []byte { binary.LittleEndian.PutUint32(b[off:], x); return b }
	}
}

func set64(off int, x uint64) func(f *raw) {
	return func(f *raw) {
		f.patch = func(b []byte) []byte { binary.LittleEndian.PutUint64(b[off:], x); return b }
	}
}

func text(off int, s string) func(f *raw) {
	return func(f *raw) { f.patch = func(b []byte) []byte { copy(b[off:], s); return b } }
}

func layout(l *rawLayout) func(f *raw) { return func(f *raw) { f.entries[0].layout = l } }

func key(names ...string) func(f *raw) {
	return func(f *raw) {
		f.entries = nil
		for _, n := range names {
			f.entries = append(f.entries, rawEntry{n, 0, nil})
		}
	}
}

func cut(n int) func(f *raw) {
	return func(f *raw) { f.patch = func(b []byte) []byte { return b[:n] } }
}
