package ptd_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/tensor"
)

// The helpers of tests in several files. More are in helpers_raw_test.go: files made by
// hand.

func many(n int) []ptd.Entry {
	data := tensor.BlobOf([]byte{1, 2, 3, 4})
	es := make([]ptd.Entry, n)
	l := float(1)
	for i := range es {
		es[i] = ptd.Entry{Name: fmt.Sprintf("layers.%d.w", i), Layout: l, Data: data}
	}
	return es
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

func readBytes(t testing.TB, b []byte, opts *ptd.ReaderOptions) *ptd.Reader {
	t.Helper()
	r, err := ptd.OpenBytes(b, opts)
	if err != nil {
		t.Fatal(err)
	}
	return r
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

func floats(v ...float32) tensor.Blob {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return tensor.BlobOf(b)
}

func float(sizes ...int32) *ptd.Layout {
	l := &ptd.Layout{ScalarType: 6, Sizes: sizes}
	for i := range sizes {
		l.DimOrder = append(l.DimOrder, uint8(i))
	}
	return l
}

func api(opts ptd.ReaderOptions) readtest.API[*ptd.Reader] {
	return readtest.API[*ptd.Reader]{
		Open: func(name string, noMap bool) (*ptd.Reader, error) {
			o := opts
			o.NoMap = noMap
			return ptd.Open(name, &o)
		},
		OpenBytes: func(b []byte) (*ptd.Reader, error) { return ptd.OpenBytes(b, &opts) },
		NewReader: func(r io.ReaderAt, size int64) (*ptd.Reader, error) {
			return ptd.NewReader(r, size, &opts)
		},
	}
}

func compareEntries(t *testing.T, got, want []ptd.Entry) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d entries, want %d", len(got), len(want))
	}
	for i, e := range got {
		w := want[i]
		if e.Name != w.Name {
			t.Errorf("entry %d is %q, want %q", i, e.Name, w.Name)
		}
		if (e.Layout == nil) != (w.Layout == nil) ||
			e.Layout != nil &&
				(e.Layout.ScalarType != w.Layout.ScalarType ||
					!slices.Equal(e.Layout.Sizes, w.Layout.Sizes) ||
					!slices.Equal(e.Layout.DimOrder, w.Layout.DimOrder)) {
			t.Errorf("%q: layout %v, want %v", e.Name, e.Layout, w.Layout)
		}
		a, err := e.Data.ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		b, err := w.Data.ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a, b) {
			t.Errorf("%q: other bytes", e.Name)
		}
	}
}

func write(t testing.TB, entries []ptd.Entry, opts ptd.WriterOptions) []byte {
	t.Helper()
	var out bytes.Buffer
	w := ptd.NewWriter(&out, &opts)
	for _, e := range entries {
		if err := w.AddEntry(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// checkpoint is a file of n small tensors, each with a segment of its own.
func checkpoint(b testing.TB, n int) []byte {
	es := make([]ptd.Entry, n)
	for i := range es {
		data := tensor.BlobOf(make([]byte, 64))
		es[i] = ptd.Entry{Name: fmt.Sprintf("model.layers.%d.attn.w%d.weight", i/8, i%8),
			Layout: float(4, 4), Data: data}
	}
	return write(b, es, ptd.WriterOptions{SegmentAlignment: 64})
}

var sink int

// metadataEnd returns where the FlatBuffer of a file ends.
func metadataEnd(data []byte) int64 {
	return int64(binary.LittleEndian.Uint64(data[16:]) + binary.LittleEndian.Uint64(data[24:]))
}

func open(t testing.TB, name string) *ptd.Reader {
	t.Helper()
	r, err := ptd.Open(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// sharedSegments returns, by segment, the names of the entries that share it.
func sharedSegments(r *ptd.Reader) map[int][]string {
	all := map[int][]string{}
	for e := range r.Entries() {
		all[e.Segment] = append(all[e.Segment], e.Name)
	}
	maps.DeleteFunc(all, func(_ int, names []string) bool { return len(names) < 2 })
	return all
}

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
		{"without the last byte",
			func(f *raw) { f.patch = func(b []byte) []byte { return b[:len(b)-1] } }, truncated,
			40, "header.segment_data_size"},
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
		{"flatbuffer_offset beyond the file", set64(16, 1<<20), truncated, 16,
			"header.flatbuffer_offset"},
		{"flatbuffer_offset wraps", set64(16, math.MaxUint64-100), bad, 16,
			"header.flatbuffer_offset"},
		{"flatbuffer_offset wraps when signed", set64(16, math.MaxInt64), truncated, 16,
			"header.flatbuffer_offset"},
		{"flatbuffer_size 0", set64(24, 0), bad, 24, "header.flatbuffer_size"},
		{"flatbuffer_size beyond the file", set64(24, 1<<20), truncated, 16,
			"header.flatbuffer_offset"},
		{"flatbuffer_size 2³¹", set64(24, 1<<31), limit, 24, "header.flatbuffer_size"},
		{"flatbuffer_size wraps", set64(24, math.MaxUint64), bad, 24, "header.flatbuffer_size"},
		{"flatbuffer_size too small", set64(24, 60), bad, -2, "segments"},
		{"segments inside the header", set64(32, 8), bad, 32, "header.segment_base_offset"},
		{"segments inside the metadata", set64(32, 100), bad, 32, "header.segment_base_offset"},
		{"segment_base_offset at the end", set64(32, 400), truncated, 40,
			"header.segment_data_size"},
		{"base and size wrap", set64(40, math.MaxInt64), bad, 40, "header.segment_data_size"},
		{"base and size wrap when unsigned", set64(40, math.MaxUint64-200), bad, 40,
			"header.segment_data_size"},
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
		{"no sizes", layout(&rawLayout{6, nil, []uint8{}}), bad, -2,
			"named_data[0].tensor_layout.sizes"},
		{"no dim_order", layout(&rawLayout{6, []int32{}, nil}), bad, -2,
			"named_data[0].tensor_layout.dim_order"},
		{"segment index is the count", func(f *raw) { f.entries[0].segment = 1 }, bad, -2,
			"named_data[0].segment_index"},
		{"segment index -1", func(f *raw) { f.entries[0].segment = math.MaxUint32 }, bad, -2,
			"named_data[0].segment_index"},
		{"segment beyond the data", func(f *raw) { f.segments[0][0] = 1 }, bad, -2,
			"segments[0].size"},
		{"segment beyond the data by its offset", func(f *raw) { f.segments[0][0] = 17 }, bad, -2,
			"segments[0].offset"},
		{"segment wraps", func(f *raw) { f.segments[0] = [2]uint64{math.MaxUint64 - 7, 16} }, bad,
			-2, "segments[0].offset"},
		{"segment of 2⁶⁴-1 bytes", func(f *raw) { f.segments[0][1] = math.MaxUint64 }, bad, -2,
			"segments[0].size"},
		{"negative size", layout(&rawLayout{6, []int32{2, -2}, []uint8{0, 1}}), bad, -2,
			"named_data[0].tensor_layout.sizes[1]"},
		{"rank 10⁶", layout(&rawLayout{6, make([]int32, 1e6), make([]uint8, 1e6)}), limit, -2,
			"named_data[0].tensor_layout.sizes"},
		{"product beyond 2⁶³",
			layout(&rawLayout{7, []int32{math.MaxInt32, math.MaxInt32, math.MaxInt32},
				[]uint8{0, 1, 2}}), bad, -2, "named_data[0].tensor_layout.sizes"},
		{"product wraps to 4",
			layout(&rawLayout{0, []int32{1 << 30, 1 << 30, 1 << 4, 1}, []uint8{0, 1, 2, 3}}), bad,
			-2, "named_data[0].tensor_layout.sizes"},
		{"product times width wraps",
			layout(&rawLayout{10, []int32{1 << 30, 1 << 30}, []uint8{0, 1}}), bad, -2,
			"named_data[0].tensor_layout.sizes"},
		{"product beyond 2⁶⁴ before a 0",
			layout(&rawLayout{6, []int32{math.MaxInt32, math.MaxInt32, math.MaxInt32, 0},
				[]uint8{0, 1, 2, 3}}), bad, -2, "named_data[0].tensor_layout.sizes"},
		{"product beyond 2⁶³ of no known type",
			layout(&rawLayout{44, []int32{math.MaxInt32, math.MaxInt32, math.MaxInt32},
				[]uint8{0, 1, 2}}), bad, -2, "named_data[0].tensor_layout.sizes"},
		{"dim_order too short", layout(&rawLayout{6, []int32{2, 2}, []uint8{0}}), bad, -2,
			"named_data[0].tensor_layout.dim_order"},
		{"dim_order too long", layout(&rawLayout{6, []int32{2, 2}, []uint8{0, 1, 2}}), bad, -2,
			"named_data[0].tensor_layout.dim_order"},
		{"dim_order beyond the rank", layout(&rawLayout{6, []int32{2, 2}, []uint8{0, 2}}), bad, -2,
			"named_data[0].tensor_layout.dim_order"},
		{"dim_order with a duplicate", layout(&rawLayout{6, []int32{2, 2}, []uint8{1, 1}}), bad,
			-2, "named_data[0].tensor_layout.dim_order"},
		{"fewer bytes than the layout needs", layout(&rawLayout{6, []int32{2, 3}, []uint8{0, 1}}),
			bad, -2, "named_data[0].tensor_layout.sizes"},
		{"a name twice", key("a", "b", "a"), bad, -2, "named_data[2].key"},
		{"a name with NUL", key("a\x00b"), bad, -2, "named_data[0].key"},
		{"a name that is not UTF-8", key("a\xff"), bad, -2, "named_data[0].key"},
		{"a name of more than 1 MiB", key(strings.Repeat("x", 1<<20+1)), limit, -2,
			"named_data[0].key"},
	}
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
