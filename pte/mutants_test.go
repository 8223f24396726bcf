package pte

import (
	"encoding/binary"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/schema/ptefb"
)

// offsets collects where a flatbuffer has offsets and lengths, vtables and tags.
type offsets struct {
	buf   []byte
	words map[int]bool // of four bytes
	short map[int]bool // of two bytes
	tags  map[int]bool // of one byte
}

func (o *offsets) table(t flatbuffers.Table, n int) {
	at := int(t.Pos)
	if o.words[at] {
		return
	}
	o.words[at] = true
	vtable := at - int(int32(binary.LittleEndian.Uint32(o.buf[at:])))
	for i := range int(binary.LittleEndian.Uint16(o.buf[vtable:])) / 2 {
		o.short[vtable+2*i] = true
	}
	for _, f := range ptefb.Schema.Tables[n].Fields {
		slot := int(f.Slot)
		if f.Kind == fb.Scalar {
			if p := fb.FieldPos(t, slot); p != 0 && f.Type == fb.Tag {
				o.tags[p] = true
			}
			continue
		}
		to, ok := fb.FieldTable(t, slot)
		if !ok {
			continue
		}
		o.words[fb.FieldPos(t, slot)] = true
		switch f.Kind {
		case fb.Child:
			o.table(to, int(f.Index))
		case fb.Union:
			members := ptefb.Schema.Unions[f.Index].Members
			if tag := int(o.buf[fb.FieldPos(t, slot-2)]); tag < len(members) {
				o.table(to, int(members[tag]))
			}
		case fb.Tables:
			first := int(to.Pos) + 4
			o.words[int(to.Pos)] = true
			for i := range int(binary.LittleEndian.Uint32(o.buf[to.Pos:])) {
				p := first + 4*i
				o.words[p] = true
				o.table(flatbuffers.Table{Bytes: o.buf, Pos: t.Indirect(flatbuffers.UOffsetT(p))},
					int(f.Index))
			}
		default:
			o.words[int(to.Pos)] = true
		}
	}
}

// TestEveryOffsetChangedIsReadOrRefused changes every offset, length, vtable entry and
// union tag of every golden, and walks what still opens through the public API.
func TestEveryOffsetChangedIsReadOrRefused(t *testing.T) {
	files, err := filepath.Glob("../testdata/pte/*pte")
	if err != nil || len(files) < 40 {
		t.Fatal(len(files), err)
	}
	total, opened := 0, 0
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		r, err := OpenBytes(data, nil)
		if err != nil {
			t.Fatal(err)
		}
		root := ptefb.TableProgram
		buf := r.buf
		if r.Bundle() != nil {
			root, buf = ptefb.TableBundledProgram, data
		}
		o := &offsets{buf, map[int]bool{0: true}, map[int]bool{}, map[int]bool{}}
		o.table(flatbuffers.Table{Bytes: buf, Pos: flatbuffers.GetUOffsetT(buf)}, root)
		try := func(pos, size int, values ...uint32) {
			old := [4]byte(data[pos : pos+4])
			v := binary.LittleEndian.Uint32(old[:])
			for _, x := range values {
				var b [4]byte
				binary.LittleEndian.PutUint32(b[:], v+x)
				copy(data[pos:pos+size], b[:])
				total++
				readtest.Survives(t, func() error {
					r, err := OpenBytes(data, nil)
					if err == nil {
						opened++
						walkAll(t, r)
					}
					return err
				}, "%s: %#x at %d", filepath.Base(name), x, pos)
				copy(data[pos:], old[:])
			}
		}
		turn := 0
		for pos := range slices.Sorted(maps.Keys(o.words)) {
			if turn++; turn%readtest.Stride() > 0 {
				continue
			}
			try(pos, 4, []uint32{4, 1 << 31, ^uint32(3), 1, 16}[turn%5],
				[]uint32{^uint32(15), 8, 1 << 20}[turn%3])
		}
		for pos := range slices.Sorted(maps.Keys(o.short)) {
			if turn++; turn%readtest.Stride() > 0 {
				continue
			}
			try(pos, 2, []uint32{4, ^uint32(3), 2, 1 << 12}[turn%4])
		}
		for pos := range slices.Sorted(maps.Keys(o.tags)) {
			if turn++; turn%readtest.Stride() > 0 {
				continue
			}
			try(pos, 1, 1, 100)
		}
	}
	t.Logf("%d of %d mutants open", opened, total)
	if total*readtest.Stride() < 25_000 || opened*readtest.Stride() < 1000 {
		t.Errorf("%d of %d mutants open", opened, total)
	}
}
