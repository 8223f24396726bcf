package ptd_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/tensor"
)

// checkpointOf is a file whose metadata is longer than the first read.
func bigMetadata(t testing.TB) []byte { return write(t, many(3000), ptd.WriterOptions{}) }

func TestOpeningTakesTwoReadsAtMost(t *testing.T) {
	for want, data := range map[int][]byte{1: write(t, many(10), ptd.WriterOptions{}),
		2: bigMetadata(t)} {
		c := readtest.Count(bytes.NewReader(data))
		r, err := ptd.NewReader(c, int64(len(data)), nil)
		if err != nil {
			t.Fatal(err)
		}
		for range r.Tensors() {
		}
		if got := c.Calls(); got != want {
			t.Errorf("%d reads of a file of %d bytes, want %d", got, len(data), want)
		}
	}
}

// A dozen allocations a file, whatever it has; for a file, in addition to the allocations
// of opening it.
func TestAllocationsDoNotDependOnTheNumberOfEntries(t *testing.T) {
	list := func(r *ptd.Reader, err error) {
		if err != nil {
			t.Fatal(err)
		}
		for x := range r.Tensors() {
			sink += len(x.Name)
		}
		r.Close()
	}
	views := func(n int) []byte { // of segments that are longer, channels last
		es := make([]ptd.Entry, n)
		for i := range es {
			es[i] = ptd.Entry{Name: fmt.Sprint("view", i),
				Layout: &ptd.Layout{ScalarType: 6, Sizes: []int32{1, 2, 1, 1},
					DimOrder: []uint8{0, 2, 3, 1}}, Data: floats(1, 2, 3)}
		}
		return write(t, es, ptd.WriterOptions{})
	}
	for name, data := range map[string][]byte{
		"100 tensors": checkpoint(t, 100), "3,000 tensors": checkpoint(t, 3_000),
		"30,000 tensors": checkpoint(t, readtest.Entries(30_000)),
		"20,000 views":   views(readtest.Entries(20_000)),
	} {
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
		const limit = 100
		if got := readtest.Allocations(func() { list(ptd.OpenBytes(data, nil)) }); got > limit {
			t.Errorf("%s: %d allocations", name, got)
		}
		from := bytes.NewReader(data)
		if got := readtest.Allocations(func() {
			list(ptd.NewReader(from, int64(len(data)), nil))
		}); got > limit {
			t.Errorf("%s: %d allocations from a reader", name, got)
		}
		for _, noMap := range []bool{false, true} {
			opening := readtest.Allocations(func() {
				src, err := source.Open(path, noMap)
				if err != nil {
					t.Fatal(err)
				}
				src.Close()
			})
			if got := readtest.Allocations(func() {
				list(ptd.Open(path, &ptd.ReaderOptions{NoMap: noMap}))
			}); got > opening+limit {
				t.Errorf("%s: %d allocations from a file, of which opening it takes %d", name, got,
					opening)
			}
		}
	}
}

func TestLookUpAllocatesNothing(t *testing.T) {
	r := readBytes(t, checkpoint(t, 100), nil)
	readtest.AllocatesNothing(t, func() {
		if r.Tensor("model.layers.3.attn.w1.weight") == nil || r.Tensor("none") != nil {
			t.Fatal("look-up")
		}
	})
}

// Every kind of source, and what it may be asked.
func TestEverySourceReadsTheSame(t *testing.T) {
	data, err := os.ReadFile("../testdata/ptd/et-1.5.1-blobs.ptd")
	if err != nil {
		t.Fatal(err)
	}
	if !ptd.Detect(bytes.NewReader(data), int64(len(data))) {
		t.Error("not detected")
	}
	api(ptd.ReaderOptions{}).Each(t, data, func(t *testing.T, r *ptd.Reader) {
		if r.Version() != "0" || r.Schema() != "0.7" || r.Len() != 1 || r.Alignment() != 128 {
			t.Errorf("version %s, schema %s, %d tensors, aligned to %d", r.Version(), r.Schema(),
				r.Len(), r.Alignment())
		}
		x := r.Tensor("tensor")
		if x == nil || r.Tensor("blob") != nil || r.Tensor("none") != nil {
			t.Fatal("look-up by name")
		}
		if v, err := tensor.Load[float32](x); err != nil || len(v) != 3 {
			t.Errorf("%v, %v", v, err)
		}
		var names []string
		for name, b := range r.Blobs() {
			names = append(names, fmt.Sprint(name, b.Size()))
		}
		if want := []string{"blob100", "aligned17", "nothing0", "much5"}; !slices.Equal(names,
			want) {
			t.Errorf("blobs %v", names)
		}
		if e, ok := r.Entry("aligned"); !ok || e.Layout != nil || e.Segment != 1 {
			t.Errorf("entry %+v", e)
		}
		if _, ok := r.Entry("none"); ok {
			t.Error("an entry that is not there")
		}
		var segments []ptd.Segment
		for i, s := range r.Segments() {
			if i != len(segments) {
				t.Errorf("segment %d comes as number %d", i, len(segments))
			}
			segments = append(segments, s)
		}
		if len(segments) != 5 || segments[1] != (ptd.Segment{Offset: 640, Size: 17}) {
			t.Errorf("segments %v", segments)
		}
		for range r.Attributes() {
			t.Error("an attribute")
		}
		// Breaking off is allowed everywhere.
		for range r.Tensors() {
			break
		}
		for range r.Blobs() {
			break
		}
		for range r.Entries() {
			break
		}
		for range r.Segments() {
			break
		}
	})
}

func TestNewReaderRefusesWrongArguments(t *testing.T) {
	if _, err := ptd.NewReader(nil, 100, nil); err == nil {
		t.Error("no reader, and no error")
	}
	if _, err := ptd.NewReader(strings.NewReader("x"), -1, nil); err == nil {
		t.Error("a negative size, and no error")
	}
}

// Files without a size.
func TestOpenRefusesIrregularFiles(t *testing.T) {
	dir := t.TempDir()
	if _, err := ptd.Open(dir, nil); err == nil {
		t.Error("a directory opens")
	}
	if _, err := ptd.Open(filepath.Join(dir, "none"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if runtime.GOOS == "linux" {
		for _, name := range []string{"/proc/self/status", "/dev/zero", "/dev/null"} {
			if _, err := ptd.Open(name, nil); err == nil {
				t.Errorf("%s opens", name)
			}
		}
	}
	// A segment beyond 4 GiB, in a file with a hole.
	if testing.Short() || runtime.GOOS == "plan9" || runtime.GOOS == "windows" {
		return
	}
	const size = 5 << 30
	f := good()
	f.segments[0][1] = size
	f.entries[0].layout = &rawLayout{0, []int32{5, 1 << 30}, []uint8{0, 1}}
	f.header = func(h *[4]uint64) { h[3] = size }
	name := filepath.Join(dir, "large.ptd")
	head := f.bytes()
	base := int64(binary.LittleEndian.Uint64(head[32:]))
	if err := os.WriteFile(name, head, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := ptd.Open(name, nil); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("5 GiB that are not there: %v", err)
	}
	if err := os.Truncate(name, base+size); err != nil {
		t.Skip(err)
	}
	w, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteAt([]byte("end"), base+size-3); err != nil {
		t.Skip(err)
	}
	w.Close()
	r, err := ptd.Open(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	last, err := r.Tensor("w").Data.Section(size-3, 3)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := last.ReadAll(); err != nil || string(b) != "end" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestLimitsAreKept(t *testing.T) {
	data := bigMetadata(t)
	for field, l := range map[string]tensor.Limits{
		"named_data": {MaxTensors: 2999}, "header.flatbuffer_size": {MaxMetadata: 1000},
		"named_data[0].key": {MaxName: 9},
	} {
		_, err := ptd.OpenBytes(data, &ptd.ReaderOptions{Limits: l})
		if !errors.Is(err, tensor.ErrLimit) || tensor.FindingOf(err).Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	ranks, err := os.ReadFile("../testdata/ptd/et-1.5.1-ranks.ptd")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ptd.OpenBytes(ranks,
		&ptd.ReaderOptions{Limits: tensor.Limits{MaxRank: 7}}); !errors.Is(err, tensor.ErrLimit) {
		t.Error(err)
	}
	if _, err := ptd.OpenBytes(data,
		&ptd.ReaderOptions{Limits: tensor.Limits{MaxName: -1}}); err == nil {
		t.Error("a negative limit")
	}
}

// Verify reports every finding, not the first.
func TestVerifyFindsAll(t *testing.T) {
	f := raw{
		segments: [][2]uint64{{0, 4}, {16, 4}, {32, 4}},
		entries: []rawEntry{
			{"a", 0, &rawLayout{11, []int32{4}, []uint8{0}}},
			{"b", 1, &rawLayout{11, []int32{4}, []uint8{0}}},
			{"", 1, nil},
		},
		data: 36,
	}
	data := f.bytes()
	base := int64(binary.LittleEndian.Uint64(data[32:]))
	data[50] = 9        // padding of the header
	data[base+1] = 2    // a bool of a
	data[base+5] = 1    // padding
	data[base+19] = 255 // a bool of b
	data = append(data, 1)
	api(ptd.ReaderOptions{}).Each(t, data, func(t *testing.T, r *ptd.Reader) {
		var seen []string
		done := int64(-1)
		report, err := r.Verify(t.Context(),
			&tensor.VerifyOptions{Progress: func(d, total int64) { done = d - total }})
		for _, f := range report.Findings {
			seen = append(seen, fmt.Sprintf("%v %s %#x", f.Severity, f.Field, f.Offset))
		}
		want := []string{
			fmt.Sprintf("warning  %#x", base+36), "warning named_data[2].key -0x1",
			fmt.Sprintf("warning segments[2] %#x", base+32),
			"warning padding of the header 0x32",
			fmt.Sprintf("warning padding of segments[0] %#x", base+5),
			fmt.Sprintf("error \"a\" %#x", base+1), fmt.Sprintf("error \"b\" %#x", base+19),
		}
		if !slices.Equal(seen, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(seen, "\n"), strings.Join(want, "\n"))
		}
		if !errors.Is(err, tensor.ErrMalformed) || done != 0 {
			t.Errorf("%v; progress ended %d short", err, done)
		}
		if _, err := r.Verify(t.Context(),
			&tensor.VerifyOptions{Depth: tensor.VerifyStructure}); err != nil {
			t.Errorf("structure alone: %v", err)
		}
	})
}

// A tensor of a type that is not known keeps its bytes, its number, and its shape.
func TestTensorsOfUnknownTypesKeepTheirBytes(t *testing.T) {
	r := readBytes(t, with(layout(&rawLayout{44, []int32{2, 3}, []uint8{1, 0}})), nil)
	x := r.Tensor("w")
	if x.DType != tensor.Unknown || !x.Shape.Equal(tensor.Shape{2, 3}) || x.Data.Size() != 16 {
		t.Errorf("%+v", x)
	}
	if st, ok := x.Data.Stored(); !ok || st.Type != "44" || st.Size != 16 || st.Encoding != "raw" {
		t.Errorf("%+v", st)
	}
	if e, _ := r.Entry("w"); e.Layout.ScalarType != 44 || e.Layout.ScalarType.String() != "44" ||
		!slices.Equal(e.Layout.DimOrder, []uint8{1, 0}) {
		t.Errorf("%+v", e.Layout)
	}
}

// The C++ writer takes any alignment; 3 puts the FlatBuffer where no verifier of a
// whole file would like it: after 42 bytes in place of 48.
func TestFlatBufferOutOfAlignmentIsReadWithAWarning(t *testing.T) {
	data := write(t, []ptd.Entry{{Name: "w", Layout: float(2), Data: floats(1, 2)}},
		ptd.WriterOptions{})
	data = slices.Delete(data, 50, 56)
	binary.LittleEndian.PutUint32(data, binary.LittleEndian.Uint32(data)-6)
	for at, change := range map[int]uint64{16: 6, 32: 6} {
		binary.LittleEndian.PutUint64(data[at:], binary.LittleEndian.Uint64(data[at:])-change)
	}
	r := readBytes(t, data, nil)
	if v, err := tensor.Load[float32](r.Tensor("w")); err != nil ||
		!slices.Equal(v, []float32{1, 2}) {
		t.Errorf("%v, %v", v, err)
	}
	if len(r.Warnings()) != 1 {
		t.Errorf("warnings %v", r.Warnings())
	}
	if _, err := ptd.OpenBytes(data, &ptd.ReaderOptions{Strict: true}); err == nil {
		t.Error("strict accepts it")
	}
}

func TestDetectKnowsTheFirstBytes(t *testing.T) {
	for _, c := range []struct {
		b    string
		want bool
	}{
		{"\x44\x00\x00\x00FT01FH01", true}, {"\x44\x00\x00\x00FT02FH01", true},
		{"\x44\x00\x00\x00FT01FH", true},
		{"\x44\x00\x00\x00FT01\x00\x00\x00\x00", true},
		{"FH01\x28\x00\x00\x00\x30\x00\x00\x00", true},
		{"\x44\x00\x00\x00FT02\x00\x00\x00\x00", false},
		{"\x44\x00\x00\x00FT02FH", false}, {"\x44\x00\x00\x00FT0", false},
		{"\x44\x00\x00\x00ET12eh00", false}, {"", false},
	} {
		if got := ptd.Detect(strings.NewReader(c.b), int64(len(c.b))); got != c.want {
			t.Errorf("%q: %v", c.b, got)
		}
	}
	if ptd.Detect(readtest.Failing(strings.NewReader("\x44\x00\x00\x00FT01FH01"), 3), 12) {
		t.Error("detected what cannot be read")
	}
}

func TestScalarTypesExistForMostDTypes(t *testing.T) {
	for _, d := range tensor.DTypes() {
		l, err := ptd.LayoutOf(&tensor.Tensor{DType: d, Shape: tensor.Shape{0}})
		if (err != nil) != slices.Contains([]tensor.DType{tensor.F8E8M0FNU, tensor.F6E2M3FN,
			tensor.F6E3M2FN, tensor.F4E2M1FN,
			tensor.I4, tensor.U4, tensor.I2, tensor.U2}, d) {
			t.Errorf("%v: %v", d, err)
		}
		if err == nil && l.ScalarType.DType() != d {
			t.Errorf("%v is %v is %v", d, l.ScalarType, l.ScalarType.DType())
		}
	}
	for s, want := range map[ptd.ScalarType]string{0: "BYTE", 6: "FLOAT", 29: "UINT64", 30: "30",
		-1: "-1"} {
		if s.String() != want {
			t.Errorf("%d is %s", int8(s), s)
		}
	}
	if ptd.ScalarType(math.MaxInt8).DType() != tensor.Unknown ||
		ptd.ScalarType(-1).DType() != tensor.Unknown {
		t.Error("a type without a meaning")
	}
}
