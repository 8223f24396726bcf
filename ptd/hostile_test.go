package ptd_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/tensor"
)

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

// TestDuplicateNamesOf06AreRefused is of a tensor and a blob, which are in two vectors
// there.
func TestDuplicateNamesOf06AreRefused(t *testing.T) {
	var b fb.Builder
	b.Begin()
	b.Scalar(6, 8, 4, 0)
	segments := b.Offsets([]fb.Offset{b.End()})
	name, sizes, order := b.String("a"), b.Scalars(nil, 4, 0), b.Scalars(nil, 1, 0)
	b.Begin()
	b.Ref(10, order)
	b.Ref(8, sizes)
	b.Ref(4, name)
	b.Scalar(6, 1, 6, 0)
	tensors := b.Offsets([]fb.Offset{b.End()})
	b.Begin()
	b.Ref(4, name)
	named := b.Offsets([]fb.Offset{b.End()})
	b.Begin()
	b.Ref(12, named)
	b.Ref(10, segments)
	b.Ref(8, tensors)
	b.Scalar(6, 4, 4, 0)
	buf, err := b.Finish(b.End(), "FT01")
	if err != nil {
		t.Fatal(err)
	}
	_, err = ptd.OpenBytes(raw{data: 4}.wrap(buf), nil)
	const want = `duplicate name "a", first in tensors[0].fully_qualified_name`
	if !errors.Is(err, bad) || tensor.FindingOf(err).Field != "named_data[0].key" ||
		!strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
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

func TestHostileFilesAreRefused(t *testing.T) {
	for _, h := range hostiles() {
		t.Run(h.name, func(t *testing.T) {
			data := with(h.change)
			_, err := ptd.OpenBytes(data, nil)
			check(t, err, h)
			if got := api(ptd.ReaderOptions{}).Same(t, data,
				func(*ptd.Reader) string { return "opened" }); got != err.Error() {
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

// Files that the default reads with a warning and Strict refuses.
func TestDeviationsAreWarningsUnlessStrict(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(f *raw)
		field  string
	}{
		{"bytes behind the last segment",
			func(f *raw) { f.patch = func(b []byte) []byte { return append(b, 0) } }, ""},
		{"a zip behind the last segment",
			func(f *raw) { f.patch = func(b []byte) []byte { return append(b, "PK\x05\x06"...) } },
			""},
		{"segments out of order",
			func(f *raw) { f.segments = [][2]uint64{{8, 8}, {0, 8}}; f.entries[0].layout = nil },
			"segments[1].offset"},
		{"segments that overlap", func(f *raw) { f.segments = [][2]uint64{{0, 16}, {8, 8}} },
			"segments[1].offset"},
		{"a scalar type without a meaning", layout(&rawLayout{44, []int32{2}, []uint8{0}}),
			"named_data[0].tensor_layout.scalar_type"},
		{"a negative scalar type", layout(&rawLayout{-1, []int32{2}, []uint8{0}}),
			"named_data[0].tensor_layout.scalar_type"},
		{"rank 17", layout(&rawLayout{0, slices.Repeat([]int32{1}, 17),
			[]uint8{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}}),
			"named_data[0].tensor_layout.sizes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			data := with(c.change)
			api(ptd.ReaderOptions{}).Each(t, data, func(t *testing.T, r *ptd.Reader) {
				if len(r.Warnings()) != 1 {
					t.Fatalf("warnings: %v", r.Warnings())
				}
				check(t, r.Warnings()[0],
					hostile{class: tensor.ErrMalformed, field: c.field, offset: -2})
				if _, err := r.Verify(t.Context(), nil); err != nil {
					t.Errorf("verify: %v", err)
				}
				if _, err := r.Verify(t.Context(),
					&tensor.VerifyOptions{Strict: true}); err == nil {
					t.Error("verify: strict finds nothing")
				}
			})
			_, err := ptd.OpenBytes(data, &ptd.ReaderOptions{Strict: true})
			check(t, err, hostile{class: tensor.ErrMalformed, field: c.field, offset: -2})
		})
	}
}

// Files that look odd and are valid.
func TestOddFilesAreRead(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(f *raw)
	}{
		{"as it is", func(f *raw) {}},
		{"a longer header", set32(12, 48)},
		{"an empty name", key("")},
		{"a path, an escape sequence, and twins by normalisation",
			key("../../x", "\x1b[31m", "e\u0301", "\u00e9")},
		{"a name of 1 MiB", key(strings.Repeat("x", 1<<20))},
		{"rank 0", layout(&rawLayout{6, []int32{}, []uint8{}})},
		{"a dimension of 0 before large ones",
			layout(&rawLayout{6, []int32{0, math.MaxInt32, math.MaxInt32, math.MaxInt32},
				[]uint8{0, 1, 2, 3}})},
		{"a dimension of 0 behind large ones",
			layout(&rawLayout{6, []int32{math.MaxInt32, math.MaxInt32, 3, 0},
				[]uint8{0, 1, 2, 3}})},
		{"rank 16", layout(&rawLayout{0, slices.Repeat([]int32{1}, 16),
			[]uint8{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}})},
		{"more bytes than the layout needs", layout(&rawLayout{6, []int32{1}, []uint8{0}})},
		{"a segment that nobody uses, of no bytes",
			func(f *raw) { f.segments = append(f.segments, [2]uint64{16, 0}) }},
		{"nothing at the end", func(f *raw) { f.segments = [][2]uint64{{0, 16}, {16, 0}} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			api(ptd.ReaderOptions{Strict: true}).Each(t, with(c.change),
				func(t *testing.T, r *ptd.Reader) {
					for x := range r.Tensors() {
						if b, err := x.Data.ReadAll(); err != nil || int64(len(b)) != x.Size() {
							t.Errorf("%s: %d bytes of %d: %v", x.Name, len(b), x.Size(), err)
						}
					}
				})
		})
	}
}

// TestMalformedFilesOfTestdataAreThoseOfTheList holds testdata/malformed against the
// list above: the smaller files of it, for those who test the command or another
// reader. UPDATE=1 writes them.
func TestMalformedFilesOfTestdataAreThoseOfTheList(t *testing.T) {
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
