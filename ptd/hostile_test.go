package ptd_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/tensor"
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

// A hostile file, named by the line of the attack checklist that it is for, and what is
// wrong with it.
type hostile struct {
	name   string
	change func(f *raw)
	class  error
	offset int64 // -2 where it is not worth a number here
	field  string
}

var (
	unsupported = errors.ErrUnsupported
	truncated   = io.ErrUnexpectedEOF
	bad         = tensor.ErrMalformed
	limit       = tensor.ErrLimit
)

func hostiles() []hostile {
	root := int(binary.LittleEndian.Uint32(with(func(*raw) {})))
	return []hostile{
		{"empty", cut(0), truncated, 0, ""},
		{"one byte", cut(1), truncated, 0, ""},
		{"seven bytes", cut(7), truncated, 0, ""},
		{"identifier only", cut(8), truncated, 0, ""},
		{"magic only", cut(12), truncated, 0, ""},
		{"47 bytes", cut(47), truncated, 0, ""},
		{"63 bytes", cut(63), truncated, 0, ""},
		{"without the last byte", func(f *raw) { f.patch = func(b []byte) []byte { return b[:len(b)-1] } }, truncated, 40, "header.segment_data_size"},
		{"ends inside the metadata", cut(100), truncated, 16, "header.flatbuffer_offset"},
		{"another version of the format", text(4, "FT02"), unsupported, 4, "identifier"},
		{"a program", text(4, "ET12"), bad, 4, "identifier"},
		{"another format", text(4, "RTEN"), bad, 4, "identifier"},
		{"the header of before 0.6", text(0, "FH01"), unsupported, 0, "header"},
		{"another version of the header", text(8, "FH02"), unsupported, 8, "header"},
		{"no header", text(8, "\x00\x00\x00\x00"), bad, 8, "header"},
		{"version 1", func(f *raw) { f.version = 1 }, unsupported, -2, "version"},
		{"header length 0", set32(12, 0), bad, 12, "header.length"},
		{"header length 39", set32(12, 39), bad, 12, "header.length"},
		{"header length beyond what was inserted", set32(12, 49), bad, 12, "header.length"},
		{"header length 2³¹", set32(12, 1<<31), bad, 12, "header.length"},
		{"flatbuffer_offset 0", set64(16, 0), bad, 16, "header.flatbuffer_offset"},
		{"flatbuffer_offset 39", set64(16, 39), bad, 16, "header.flatbuffer_offset"},
		{"flatbuffer_offset beyond the file", set64(16, 1<<20), truncated, 16, "header.flatbuffer_offset"},
		{"flatbuffer_offset wraps", set64(16, math.MaxUint64-100), bad, 16, "header.flatbuffer_offset"},
		{"flatbuffer_offset wraps when signed", set64(16, math.MaxInt64), truncated, 16, "header.flatbuffer_offset"},
		{"flatbuffer_size 0", set64(24, 0), bad, 24, "header.flatbuffer_size"},
		{"flatbuffer_size beyond the file", set64(24, 1<<20), truncated, 16, "header.flatbuffer_offset"},
		{"flatbuffer_size 2³¹", set64(24, 1<<31), limit, 24, "header.flatbuffer_size"},
		{"flatbuffer_size wraps", set64(24, math.MaxUint64), bad, 24, "header.flatbuffer_size"},
		{"flatbuffer_size too small", set64(24, 60), bad, -2, "segments"},
		{"segments inside the header", set64(32, 8), bad, 32, "header.segment_base_offset"},
		{"segments inside the metadata", set64(32, 100), bad, 32, "header.segment_base_offset"},
		{"segment_base_offset at the end", set64(32, 400), truncated, 40, "header.segment_data_size"},
		{"base and size wrap", set64(40, math.MaxInt64), bad, 40, "header.segment_data_size"},
		{"base and size wrap when unsigned", set64(40, math.MaxUint64-200), bad, 40, "header.segment_data_size"},
		{"segment_data_size too large", set64(40, 17), truncated, 40, "header.segment_data_size"},
		{"segment_data_size too small", set64(40, 15), bad, -2, "segments[0].size"},
		{"segment_data_size 0", set64(40, 0), bad, -2, "segments[0].size"},
		{"root offset 0", set32(0, 0), bad, 0, "root"},
		{"root inside the header", set32(0, 16), bad, 0, "root"},
		{"root in the first bytes", set32(0, 4), bad, 0, "root"},
		{"root odd", set32(0, uint32(root)+1), bad, int64(root) + 1, ""},
		{"root misaligned", set32(0, uint32(root)+2), bad, int64(root) + 2, ""},
		{"root past the end", set32(0, 4000), bad, 0, "root"},
		{"root at the end", set32(0, math.MaxUint32), bad, 0, "root"},
		{"vtable in the header", set32(root, uint32(root-16)), bad, int64(root), ""},
		{"vtable in the first bytes", set32(root, uint32(root)), bad, int64(root), ""},
		{"vtable past the end", set32(root, 1<<31), bad, int64(root), ""},
		{"vtable of its own table", set32(root, 0), bad, int64(root), ""},
		{"no segments", func(f *raw) { f.segments = nil }, bad, -2, "segments"},
		{"no entries", func(f *raw) { f.entries = nil }, bad, -2, "named_data"},
		{"no key", func(f *raw) { f.entries[0].key = nil }, bad, -2, "named_data[0].key"},
		{"no sizes", layout(&rawLayout{6, nil, []uint8{}}), bad, -2, "named_data[0].tensor_layout.sizes"},
		{"no dim_order", layout(&rawLayout{6, []int32{}, nil}), bad, -2, "named_data[0].tensor_layout.dim_order"},
		{"segment index is the count", func(f *raw) { f.entries[0].segment = 1 }, bad, -2, "named_data[0].segment_index"},
		{"segment index -1", func(f *raw) { f.entries[0].segment = math.MaxUint32 }, bad, -2, "named_data[0].segment_index"},
		{"segment beyond the data", func(f *raw) { f.segments[0][0] = 1 }, bad, -2, "segments[0].size"},
		{"segment beyond the data by its offset", func(f *raw) { f.segments[0][0] = 17 }, bad, -2, "segments[0].offset"},
		{"segment wraps", func(f *raw) { f.segments[0] = [2]uint64{math.MaxUint64 - 7, 16} }, bad, -2, "segments[0].offset"},
		{"segment of 2⁶⁴-1 bytes", func(f *raw) { f.segments[0][1] = math.MaxUint64 }, bad, -2, "segments[0].size"},
		{"negative size", layout(&rawLayout{6, []int32{2, -2}, []uint8{0, 1}}), bad, -2, "named_data[0].tensor_layout.sizes[1]"},
		{"rank 10⁶", layout(&rawLayout{6, make([]int32, 1e6), make([]uint8, 1e6)}), limit, -2, "named_data[0].tensor_layout.sizes"},
		{"product beyond 2⁶³", layout(&rawLayout{7, []int32{math.MaxInt32, math.MaxInt32, math.MaxInt32}, []uint8{0, 1, 2}}), bad, -2, "named_data[0].tensor_layout.sizes"},
		{"product wraps to 4", layout(&rawLayout{0, []int32{1 << 30, 1 << 30, 1 << 4, 1}, []uint8{0, 1, 2, 3}}), bad, -2, "named_data[0].tensor_layout.sizes"},
		{"product times width wraps", layout(&rawLayout{10, []int32{1 << 30, 1 << 30}, []uint8{0, 1}}), bad, -2, "named_data[0].tensor_layout.sizes"},
		{"product beyond 2⁶⁴ before a 0", layout(&rawLayout{6, []int32{math.MaxInt32, math.MaxInt32, math.MaxInt32, 0}, []uint8{0, 1, 2, 3}}), bad, -2, "named_data[0].tensor_layout.sizes"},
		{"product beyond 2⁶³ of no known type", layout(&rawLayout{44, []int32{math.MaxInt32, math.MaxInt32, math.MaxInt32}, []uint8{0, 1, 2}}), bad, -2, "named_data[0].tensor_layout.sizes"},
		{"dim_order too short", layout(&rawLayout{6, []int32{2, 2}, []uint8{0}}), bad, -2, "named_data[0].tensor_layout.dim_order"},
		{"dim_order too long", layout(&rawLayout{6, []int32{2, 2}, []uint8{0, 1, 2}}), bad, -2, "named_data[0].tensor_layout.dim_order"},
		{"dim_order beyond the rank", layout(&rawLayout{6, []int32{2, 2}, []uint8{0, 2}}), bad, -2, "named_data[0].tensor_layout.dim_order"},
		{"dim_order with a duplicate", layout(&rawLayout{6, []int32{2, 2}, []uint8{1, 1}}), bad, -2, "named_data[0].tensor_layout.dim_order"},
		{"fewer bytes than the layout needs", layout(&rawLayout{6, []int32{2, 3}, []uint8{0, 1}}), bad, -2, "named_data[0].tensor_layout.sizes"},
		{"a name twice", key("a", "b", "a"), bad, -2, "named_data[2].key"},
		{"a name with NUL", key("a\x00b"), bad, -2, "named_data[0].key"},
		{"a name that is not UTF-8", key("a\xff"), bad, -2, "named_data[0].key"},
		{"a name of more than 1 MiB", key(strings.Repeat("x", 1<<20+1)), limit, -2, "named_data[0].key"},
	}
}

func TestHostileFilesAreRefused(t *testing.T) {
	for _, h := range hostiles() {
		t.Run(h.name, func(t *testing.T) {
			data := with(h.change)
			_, err := ptd.OpenBytes(data, nil)
			check(t, err, h)
			if got := face(ptd.ReaderOptions{}).Same(t, data, func(*ptd.Reader) string { return "opened" }); got != err.Error() {
				t.Errorf("elsewhere: %s", got)
			}
		})
	}
}

func check(t *testing.T, err error, h hostile) {
	t.Helper()
	var fe *tensor.FormatError
	switch {
	case err == nil:
		t.Fatal("accepted")
	case !errors.As(err, &fe):
		t.Fatalf("%v is no FormatError", err)
	case !errors.Is(err, h.class):
		t.Errorf("%v: not %v", err, h.class)
	case fe.Format != "ptd" || fe.Field != h.field || h.offset > -2 && fe.Offset != h.offset:
		t.Errorf("got %q at %#x (%v), want %q at %#x", fe.Field, fe.Offset, err, h.field, h.offset)
	case fe.Offset < 0:
		t.Errorf("no offset: %v", err)
	}
}

// What the default reads with a warning and Strict refuses.
func TestDepartures(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(f *raw)
		field  string
	}{
		{"bytes behind the last segment", func(f *raw) { f.patch = func(b []byte) []byte { return append(b, 0) } }, ""},
		{"a zip behind the last segment", func(f *raw) { f.patch = func(b []byte) []byte { return append(b, "PK\x05\x06"...) } }, ""},
		{"segments out of order", func(f *raw) { f.segments = [][2]uint64{{8, 8}, {0, 8}}; f.entries[0].layout = nil }, "segments[1].offset"},
		{"segments that overlap", func(f *raw) { f.segments = [][2]uint64{{0, 16}, {8, 8}} }, "segments[1].offset"},
		{"a scalar type without a meaning", layout(&rawLayout{44, []int32{2}, []uint8{0}}), "named_data[0].tensor_layout.scalar_type"},
		{"a negative scalar type", layout(&rawLayout{-1, []int32{2}, []uint8{0}}), "named_data[0].tensor_layout.scalar_type"},
		{"rank 17", layout(&rawLayout{0, slices.Repeat([]int32{1}, 17), []uint8{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}}), "named_data[0].tensor_layout.sizes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			data := with(c.change)
			face(ptd.ReaderOptions{}).Each(t, data, func(t *testing.T, r *ptd.Reader) {
				if len(r.Warnings()) != 1 {
					t.Fatalf("warnings: %v", r.Warnings())
				}
				check(t, r.Warnings()[0], hostile{class: tensor.ErrMalformed, field: c.field, offset: -2})
				if _, err := r.Verify(t.Context(), nil); err != nil {
					t.Errorf("verify: %v", err)
				}
				if _, err := r.Verify(t.Context(), &tensor.VerifyOptions{Strict: true}); err == nil {
					t.Error("verify: strict finds nothing")
				}
			})
			_, err := ptd.OpenBytes(data, &ptd.ReaderOptions{Strict: true})
			check(t, err, hostile{class: tensor.ErrMalformed, field: c.field, offset: -2})
		})
	}
}

// What looks odd and is as it should be.
func TestOddFilesAreRead(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(f *raw)
	}{
		{"as it is", func(f *raw) {}},
		{"a longer header", set32(12, 48)},
		{"an empty name", key("")},
		{"a path, an escape sequence, and twins by normalisation", key("../../x", "\x1b[31m", "e\u0301", "\u00e9")},
		{"a name of 1 MiB", key(strings.Repeat("x", 1<<20))},
		{"rank 0", layout(&rawLayout{6, []int32{}, []uint8{}})},
		{"a dimension of 0 before large ones", layout(&rawLayout{6, []int32{0, math.MaxInt32, math.MaxInt32, math.MaxInt32}, []uint8{0, 1, 2, 3}})},
		{"a dimension of 0 behind large ones", layout(&rawLayout{6, []int32{math.MaxInt32, math.MaxInt32, 3, 0}, []uint8{0, 1, 2, 3}})},
		{"rank 16", layout(&rawLayout{0, slices.Repeat([]int32{1}, 16), []uint8{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}})},
		{"more bytes than the layout needs", layout(&rawLayout{6, []int32{1}, []uint8{0}})},
		{"a segment that nobody uses, of no bytes", func(f *raw) { f.segments = append(f.segments, [2]uint64{16, 0}) }},
		{"nothing at the end", func(f *raw) { f.segments = [][2]uint64{{0, 16}, {16, 0}} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			face(ptd.ReaderOptions{Strict: true}).Each(t, with(c.change), func(t *testing.T, r *ptd.Reader) {
				for x := range r.Tensors() {
					if b, err := x.Data.ReadAll(); err != nil || int64(len(b)) != x.Size() {
						t.Errorf("%s: %d bytes of %d: %v", x.Name, len(b), x.Size(), err)
					}
				}
			})
		})
	}
}

// Lenient makes blobs of entries whose layout is wrong, as the reference's own test
// payload has one.
func TestLenient(t *testing.T) {
	for _, h := range hostiles() {
		if !strings.Contains(h.field, "tensor_layout") || h.class != tensor.ErrMalformed {
			continue
		}
		t.Run(h.name, func(t *testing.T) {
			r := readBytes(t, with(h.change), &ptd.ReaderOptions{Lenient: true})
			check(t, r.Warnings()[0], h)
			if r.Len() != 0 || r.Tensor("w") != nil {
				t.Error("still a tensor")
			}
			for name, b := range r.Blobs() {
				if name != "w" || b.Size() != 16 {
					t.Errorf("blob %s of %d bytes", name, b.Size())
				}
			}
		})
	}
}

// walk uses everything that a Reader has.
func walk(t testing.TB, r *ptd.Reader) {
	for x := range r.Tensors() {
		if err := x.Check(); err != nil {
			t.Errorf("%s: %v", x.Name, err)
		}
		if r.Tensor(x.Name) != x {
			t.Errorf("%s is another tensor by name", x.Name)
		}
		if _, err := x.Data.ReadAll(); err != nil {
			t.Errorf("%s: %v", x.Name, err)
		}
	}
	for e := range r.Entries() {
		if b, err := e.Data.ReadAll(); err != nil || int64(len(b)) != e.Data.Size() {
			t.Errorf("%s: %v", e.Name, err)
		}
	}
	r.Alignment()
	r.Verify(t.Context(), nil)
}

func goldens(t testing.TB) map[string][]byte {
	files, err := filepath.Glob("../testdata/ptd/*.ptd")
	if err != nil || len(files) == 0 {
		t.Fatal("no goldens")
	}
	out := map[string][]byte{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(f)] = b
	}
	return out
}

func TestDamage(t *testing.T) {
	for name, data := range goldens(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			end := int(openEnd(t, data))
			opened, mutants := 0, 0
			try := func(what string, i int, b []byte) {
				mutants++
				err := readtest.Survives(t, func() error {
					r, err := ptd.OpenBytes(b, nil)
					if err == nil {
						walk(t, r)
						opened++
					}
					return err
				}, "%s %d", what, i)
				var fe *tensor.FormatError
				if err != nil && !errors.As(err, &fe) {
					t.Fatalf("%s %d: %v is no FormatError", what, i, err)
				}
			}
			for n, b := range readtest.Truncations(data) {
				if _, err := ptd.OpenBytes(b, nil); err == nil {
					t.Errorf("opened when cut to %d of %d bytes", n, len(data))
				}
			}
			lo := 0
			if end > 4<<10 {
				lo = end - 2<<10 // and the header, below
				for i, b := range readtest.BitFlips(data, 0, 256) {
					try("bit", i, b)
				}
			}
			for i, b := range readtest.BitFlips(data, lo, end) {
				try("bit", i, b)
			}
			for i, b := range readtest.ByteSets(data, lo, end, 0, 0xff) {
				try("byte", i, b)
			}
			for i := end; i < len(data); i += 1 + len(data)/100 {
				b := bytes.Clone(data)
				b[i] ^= 0x10
				try("data byte", i, b)
			}
			t.Logf("%d of %d mutants open", opened, mutants)
		})
	}
}

func openEnd(t testing.TB, data []byte) int64 {
	h := readBytes(t, data, nil).Header()
	return h.FlatbufferOffset + h.FlatbufferSize
}

// Every word of the metadata, and every number of the header, takes every value that
// has ever broken a parser.
func TestEveryFieldTakesExtremeValues(t *testing.T) {
	values := []uint64{0, 1, 2, 3, 4, 1<<16 - 1, 1<<31 - 1, 1 << 31, 1<<31 + 1, 1<<32 - 4, 1<<32 - 1, 1 << 32, 1 << 63, math.MaxUint64 - 7, math.MaxUint64}
	for name, data := range goldens(t) {
		end := int(openEnd(t, data))
		if end > 2<<10 {
			continue
		}
		for off := 0; off+8 <= end; off += 4 {
			for _, x := range values {
				for _, width := range []int{4, 8} {
					b := bytes.Clone(data)
					if width == 4 {
						binary.LittleEndian.PutUint32(b[off:], uint32(x))
					} else {
						binary.LittleEndian.PutUint64(b[off:], x)
					}
					readtest.Survives(t, func() error {
						r, err := ptd.OpenBytes(b, nil)
						if err == nil {
							walk(t, r)
						}
						return err
					}, "%s: %#x at %#x", name, x, off)
				}
			}
		}
	}
}

// Offsets that go back, wrap, or lead to what is something else, at every word of the
// FlatBuffer.
func TestEveryOffsetLeadsAstray(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for name, data := range goldens(t) {
		end := int(openEnd(t, data))
		step := max(3, end/30) // so that long ones take as long
		for off := 56; off+4 <= end; off += 4 * readtest.Stride() {
			for to := 4 * rng.IntN(step); to < end; to += 4 * (1 + rng.IntN(step)) {
				b := bytes.Clone(data)
				binary.LittleEndian.PutUint32(b[off:], uint32(to-off))
				readtest.Survives(t, func() error {
					r, err := ptd.OpenBytes(b, nil)
					if err == nil {
						walk(t, r)
					}
					return err
				}, "%s: word at %#x leads to %#x", name, off, to)
			}
		}
	}
}

// What lies behind the file in the same memory never shows.
func TestCanary(t *testing.T) {
	for _, data := range goldens(t) {
		end := int(openEnd(t, data))
		for i, m := range readtest.BitFlips(data, 0, min(end, 600)) {
			b := readtest.WithCanary(m)
			r, err := ptd.OpenBytes(b, nil)
			if err != nil {
				if strings.Contains(err.Error(), readtest.Canary) {
					t.Fatalf("bit %d: %v", i, err)
				}
				continue
			}
			for e := range r.Entries() {
				p, _ := e.Data.ReadAll()
				if strings.Contains(e.Name, readtest.Canary) || bytes.Contains(p, []byte(readtest.Canary)) {
					t.Fatalf("bit %d: %s shows the canary", i, e.Name)
				}
			}
		}
	}
}

func many(n int) []ptd.Entry {
	data := tensor.BlobOf([]byte{1, 2, 3, 4})
	es := make([]ptd.Entry, n)
	l := float(1)
	for i := range es {
		es[i] = ptd.Entry{Name: fmt.Sprintf("layers.%d.w", i), Layout: l, Data: data}
	}
	return es
}

// scalars is a file of n scalars of the shortest names, which all lie in one segment:
// 48 bytes of metadata each. change may make others of them.
func scalars(n int, change func(i int, e *rawEntry)) []byte {
	f := raw{segments: [][2]uint64{{0, 4}}, entries: make([]rawEntry, n), data: 4}
	one := &rawLayout{6, []int32{}, []uint8{}}
	for i := range f.entries {
		f.entries[i] = rawEntry{short(i), 0, one}
		if change != nil {
			change(i, &f.entries[i])
		}
	}
	return f.bytes()
}

// short is a name of up to three bytes for up to a quarter of a million.
func short(i int) string {
	const digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"
	b := []byte{digits[i>>12&63], digits[i>>6&63], digits[i&63]}
	return string(b)
}

// legacyScalars is a file of 0.6 of n scalars, each at a place of its own.
func legacyScalars(n int) []byte {
	var b fb.Builder
	b.Begin()
	b.Scalar(6, 8, uint64(4*n), 0)
	segments := b.Offsets([]fb.Offset{b.End()})
	v := make([]fb.Offset, n)
	for i := range v {
		name := b.String(short(i))
		sizes, order := b.Scalars(nil, 4, 0), b.Scalars(nil, 1, 0)
		b.Begin()
		b.Scalar(14, 8, uint64(4*i), 0)
		b.Ref(10, order)
		b.Ref(8, sizes)
		b.Ref(4, name)
		b.Scalar(6, 1, 6, 0)
		v[i] = b.End()
	}
	tensors, named := b.Offsets(v), b.Offsets(nil)
	b.Begin()
	b.Ref(12, named)
	b.Ref(10, segments)
	b.Ref(8, tensors)
	b.Scalar(6, 4, 4, 0)
	buf, err := b.Finish(b.End(), "FT01")
	if err != nil {
		panic(err)
	}
	return raw{data: 4 * n}.wrap(buf)
}

// sharing is a file of n entries of one layout and one segment, with the shortest names.
func sharing(n int, layout bool) []byte {
	var b fb.Builder
	b.Begin()
	seg := b.Offsets([]fb.Offset{b.End()})
	sizes, order := b.Scalars(make([]byte, 4*200), 4, 0), b.Scalars(identity(200), 1, 0)
	b.Begin()
	b.Ref(8, order)
	b.Ref(6, sizes)
	l := b.End()
	if !layout {
		l = 0
	}
	v := make([]fb.Offset, n)
	for i := range v {
		k := b.String(short(i))
		b.Begin()
		b.Ref(8, l)
		b.Ref(4, k)
		v[i] = b.End()
	}
	named := b.Offsets(v)
	b.Begin()
	b.Ref(8, named)
	b.Ref(6, seg)
	buf, _ := b.Finish(b.End(), "FT01")
	return raw{}.wrap(buf)
}

// Opening and listing takes no more than eight times the metadata and 1 MiB, whatever a
// file says, and every genuine file is read within that. Blobs with short names come
// closest.
func TestMemoryIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("many large files")
	}
	ofShape := func(n int, shape ...int32) []byte { // in one segment, as the writer makes them
		count := int32(1)
		for _, d := range shape {
			count *= d
		}
		es := make([]ptd.Entry, n)
		layout := &ptd.Layout{ScalarType: 6, Sizes: shape, DimOrder: identity(len(shape))}
		data := tensor.BlobOf(make([]byte, 4*count))
		for i := range es {
			es[i] = ptd.Entry{Name: fmt.Sprintf("%x", i), Layout: layout, Data: data}
		}
		return write(t, es, ptd.WriterOptions{Dedup: ptd.DedupIdentity})
	}
	const n = 10_000
	for _, f := range []struct {
		name    string
		data    []byte
		tensors int // -1: too much of the file is shared
	}{
		{"30,000 tensors", write(t, many(30_000), ptd.WriterOptions{}), 30_000},
		{"30,000 tensors, each with a segment", write(t, many(30_000), ptd.WriterOptions{Dedup: ptd.DedupNone}), 30_000},
		{"1,000 scalars", ofShape(1000), 1000},
		{"scalars", ofShape(n), n},
		{"vectors", ofShape(n, 4), n},
		{"matrices", ofShape(n, 2, 2), n},
		{"the smallest scalars", scalars(n, nil), n},
		{"more of the smallest scalars", scalars(100_000, nil), 100_000},
		{"scalars behind one of rank 16", scalars(n, func(i int, e *rawEntry) {
			if i == 0 {
				e.layout = &rawLayout{0, slices.Repeat([]int32{1}, 16), identity(16)}
			}
		}), n},
		{"scalars behind a blob", scalars(n, func(i int, e *rawEntry) {
			if i == 0 {
				e.layout = nil
			}
		}), n - 1},
		{"scalars and blobs", scalars(n, func(i int, e *rawEntry) {
			if i%10 == 3 {
				e.layout = nil
			}
		}), n - n/10},
		{"scalars of type byte, which take 44", scalars(n, func(i int, e *rawEntry) { e.layout = &rawLayout{0, []int32{}, []uint8{}} }), n},
		{"scalars without a type", scalars(n, func(i int, e *rawEntry) { e.layout = &rawLayout{44, []int32{}, []uint8{}} }), n},
		{"tensors of too many dimensions", scalars(n, func(i int, e *rawEntry) { e.layout = &rawLayout{0, slices.Repeat([]int32{1}, 17), identity(17)} }), n},
		{"tensors of more bytes than there are", scalars(n, func(i int, e *rawEntry) { e.layout = &rawLayout{6, []int32{2}, []uint8{0}} }), 0},
		{"segments in the wrong order", with(func(f *raw) { f.segments = slices.Repeat([][2]uint64{{0, 16}}, n) }), 1},
		{"scalars of 0.6", legacyScalars(n), n},
		{"100,000 blobs of one segment", sharing(100_000, false), 0},
		{"50,000 tensors of one layout", sharing(50_000, true), -1},
		{"100,000 segments of no bytes", with(func(f *raw) {
			f.segments = slices.Insert(slices.Repeat([][2]uint64{{16, 0}}, 100_000), 0, f.segments[0])
		}), 1},
	} {
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, f.data, 0o666); err != nil {
			t.Fatal(err)
		}
		for _, from := range []struct {
			name string
			open func() (*ptd.Reader, error)
		}{
			{"bytes", func() (*ptd.Reader, error) { return ptd.OpenBytes(f.data, &ptd.ReaderOptions{Lenient: true}) }},
			{"mapped", func() (*ptd.Reader, error) { return ptd.Open(path, &ptd.ReaderOptions{Lenient: true}) }},
			{"unmapped", func() (*ptd.Reader, error) { return ptd.Open(path, &ptd.ReaderOptions{Lenient: true, NoMap: true}) }},
			{"reader", func() (*ptd.Reader, error) {
				return ptd.NewReader(bytes.NewReader(f.data), int64(len(f.data)), &ptd.ReaderOptions{Lenient: true})
			}},
		} {
			t.Run(f.name+" from "+from.name, func(t *testing.T) {
				var err error
				var tensors int
				metadata := int64(binary.LittleEndian.Uint64(f.data[24:]))
				limit := 1<<20 + 8*metadata
				tensors = -1
				got := readtest.Allocated(func() {
					var r *ptd.Reader
					if r, err = from.open(); err == nil {
						tensors = 0
						for range r.Tensors() {
							tensors++
						}
						r.Close()
					}
				})
				if tensors != f.tensors || err != nil && !errors.Is(err, tensor.ErrLimit) {
					t.Fatalf("%d tensors, %v", tensors, err)
				}
				t.Logf("%.2f times the metadata", float64(got)/float64(metadata))
				if readtest.Measuring() && got > limit {
					t.Errorf("%d bytes allocated for %d bytes of metadata", got, metadata)
				}
			})
		}
	}
}

func identity(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

// ratio is how many times as long b takes as a. They take turns, and of each the best
// round counts: other work on the machine only ever adds.
func ratio(a, b func()) float64 {
	best := [2]time.Duration{time.Hour, time.Hour}
	for range 10 {
		for k, do := range [2]func(){a, b} {
			start := time.Now()
			do()
			best[k] = min(best[k], time.Since(start))
		}
	}
	return float64(best[1]) / float64(best[0])
}

// Names that were chosen to collide cost what others do; internal/names has the proof
// by counting.
func TestNamesThatCollide(t *testing.T) {
	readtest.Measure(t)
	lookUp := func(name func(i int) string) func() {
		es := make([]ptd.Entry, 1<<14)
		for i := range es {
			es[i] = ptd.Entry{Name: name(i)}
		}
		data := write(t, es, ptd.WriterOptions{})
		return func() {
			r, err := ptd.OpenBytes(data, nil)
			if err != nil {
				t.Fatal(err)
			}
			for i := range es {
				if _, ok := r.Entry(es[i].Name); !ok {
					t.Fatal(es[i].Name)
				}
			}
		}
	}
	spread := lookUp(func(i int) string { return fmt.Sprintf("%028d", uint64(i)*0x9E3779B97F4A7C15) })
	same := lookUp(func(i int) string { // one sum, and one polynomial of 31
		var b []byte
		for k := range 14 {
			b = append(b, [...]string{"Aa", "BB"}[i>>k&1]...)
		}
		return string(b)
	})
	got := ratio(spread, same)
	t.Logf("%.2f", got)
	if got > 10 { // a chain of all would take some hundred times as long
		t.Errorf("%.1f times as long where names collide", got)
	}
}

// Ten times the entries take less than fifteen times as long. The other side opens ten
// files, so that other work on the machine comes between as often.
func TestTimeIsLinear(t *testing.T) {
	readtest.Measure(t)
	opening := func(n, times int) func() {
		data := write(t, many(n), ptd.WriterOptions{})
		return func() {
			for range times {
				if _, err := ptd.OpenBytes(data, nil); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	got := ratio(opening(5_000, 10), opening(50_000, 1))
	t.Logf("%.2f", 10*got)
	if got > 4 { // a square would be ten
		t.Errorf("%.1f times as long for ten times the entries", 10*got)
	}
}

// TestMalformedFiles holds testdata/malformed against the list above: the smaller files
// of it, for those who test the command or another reader. UPDATE=1 writes them.
func TestMalformedFiles(t *testing.T) {
	type expectation struct {
		File   string       `json:"file"`
		Class  tensor.Class `json:"class"`
		Offset int64        `json:"offset"`
		Field  string       `json:"field"`
	}
	dir := "../testdata/malformed/ptd"
	update := os.Getenv("UPDATE") != ""
	if update {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	same := func(name string, want []byte) {
		t.Helper()
		name = filepath.Join(dir, name)
		if update {
			if err := os.WriteFile(name, want, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what this test makes (UPDATE=1 writes it): %v", name, err)
		}
	}
	var index []expectation
	words := regexp.MustCompile(`[^a-z0-9]+`)
	for _, h := range hostiles() {
		data := with(h.change)
		if len(data) > 1000 {
			continue
		}
		_, err := ptd.OpenBytes(data, nil)
		f := tensor.FindingOf(err)
		name := strings.Trim(words.ReplaceAllString(strings.ToLower(h.name), "-"), "-") + ".ptd"
		index = append(index, expectation{name, f.Class, f.Offset, f.Field})
		same(name, data)
	}
	text, err := json.MarshalIndent(index, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	same("index.json", append(text, '\n'))
}
