package ptd_test

import (
	"bytes"
	"encoding/json"
	"errors"
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
