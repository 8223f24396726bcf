package ptd_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/tensor"
)

func parent(t *testing.T, dir string) []string {
	t.Helper()
	es, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range es {
		out = append(out, e.Name())
	}
	return out
}

// writeFile writes a file of entries.
func writeFile(name string, entries []ptd.Entry) error {
	w, err := ptd.Create(name, nil)
	if err != nil {
		return err
	}
	defer w.Abort()
	for _, e := range entries {
		if err := w.AddEntry(e); err != nil {
			return err
		}
	}
	return w.Close()
}

// A writer that fails at any byte, and one that claims less than it got.
func TestWriterFailsAtEveryByte(t *testing.T) {
	do := func(w io.Writer) error {
		x := ptd.NewWriter(w, &ptd.WriterOptions{SegmentAlignment: 16})
		for _, e := range []ptd.Entry{
			{Name: "a", Layout: float(2), Data: floats(1, 2)},
			{Name: "b", Data: tensor.BlobFunc(100,
				func() (io.ReadCloser,
					error) {
					return io.NopCloser(strings.NewReader(strings.Repeat("x", 100))), nil
				})},
		} {
			if err := x.AddEntry(e); err != nil {
				return err
			}
		}
		err := x.Close()
		if again := x.Close(); again != err {
			t.Errorf("Close returns %v, and then %v", err, again)
		}
		return err
	}
	if err := readtest.FailedWrites(do); err != nil {
		t.Error(err)
	}
	if err := do(readtest.ShortWriter(io.Discard, 100)); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("a short write: %v", err)
	}
}

// Sources that are shorter or longer than promised, fail, or panic. Nothing appears,
// and what was there stays.
func TestSourceThatFailsLeavesTheOldFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "x.ptd")
	if err := os.WriteFile(name, []byte("old"), 0o666); err != nil {
		t.Fatal(err)
	}
	source := func(size int64, r func() io.Reader) tensor.Blob {
		return tensor.BlobFunc(size,
			func() (io.ReadCloser, error) { return io.NopCloser(r()), nil })
	}
	text := func(s string) func() io.Reader {
		return func() io.Reader { return strings.NewReader(s) }
	}
	for what, c := range map[string]struct {
		data tensor.Blob
		want error
	}{
		"shorter": {source(10, text("123456789")), io.ErrUnexpectedEOF},
		"longer":  {source(10, text("12345678901")), tensor.ErrMalformed},
		"failing": {source(10,
			func() io.Reader { return io.MultiReader(strings.NewReader("12345"), failing{}) }),
			readtest.ErrInjected},
		"closed": {tensor.BlobFunc(10,
			func() (io.ReadCloser, error) { return nil, fs.ErrClosed }), fs.ErrClosed},
	} {
		err := writeFile(name, []ptd.Entry{{Name: "a", Data: floats(1)},
			{Name: "b", Data: c.data}, {Name: "c", Data: tensor.BlobOf(make([]byte, 10))}})
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic of a source is lost")
			}
		}()
		bad := source(10, func() io.Reader { return panicking{} })
		writeFile(name, []ptd.Entry{{Name: "a", Data: bad}, {Name: "b", Data: bad}})
	}()
	if b, _ := os.ReadFile(name); string(b) != "old" {
		t.Errorf("the old file is %q", b)
	}
	if got := parent(t, dir); !slices.Equal(got, []string{"x.ptd"}) {
		t.Errorf("left behind: %v", got)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, readtest.ErrInjected }

type panicking struct{}

func (panicking) Read([]byte) (int, error) { panic("mine") }

func TestAbortLeavesNoFile(t *testing.T) {
	dir := t.TempDir()
	w, err := ptd.Create(filepath.Join(dir, "x.ptd"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Add(tensor.New("a", tensor.Shape{1}, []int8{1})); err != nil {
		t.Fatal(err)
	}
	w.Abort()
	w.Abort()
	if err := w.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Error(err)
	}
	if err := w.Add(tensor.New("b", tensor.Shape{1}, []int8{1})); !errors.Is(err, fs.ErrClosed) {
		t.Error(err)
	}
	if got := parent(t, dir); len(got) != 0 {
		t.Errorf("left behind: %v", got)
	}
}

// A tensor that cannot be written is an error when it is added.
func TestWriterRefusesWhatTheFormatLacks(t *testing.T) {
	bytesOf := func(n int) tensor.Blob { return tensor.BlobOf(make([]byte, n)) }
	for what, c := range map[string]struct {
		add  func(w *ptd.Writer) error
		want error
	}{
		"no tensor": {func(w *ptd.Writer) error { return w.Add(nil) }, fs.ErrInvalid},
		"an empty name": {func(w *ptd.Writer) error { return w.AddBlob("", bytesOf(1)) },
			errors.ErrUnsupported},
		"a NUL": {func(w *ptd.Writer) error { return w.AddBlob("a\x00", bytesOf(1)) },
			errors.ErrUnsupported},
		"not UTF-8": {func(w *ptd.Writer) error { return w.AddBlob("\xff", bytesOf(1)) },
			errors.ErrUnsupported},
		"a name twice": {func(w *ptd.Writer) error {
			return errors.Join(w.AddBlob("a", bytesOf(1)), w.AddBlob("a", bytesOf(1)))
		}, tensor.ErrDuplicate},
		"too few bytes": {func(w *ptd.Writer) error {
			return w.Add(&tensor.Tensor{Name: "a", DType: tensor.F32, Shape: tensor.Shape{2},
				Data: bytesOf(7)})
		}, tensor.ErrMalformed},
		"too many bytes": {func(w *ptd.Writer) error {
			return w.Add(&tensor.Tensor{Name: "a", DType: tensor.F32, Shape: tensor.Shape{2},
				Data: bytesOf(9)})
		}, tensor.ErrMalformed},
		"a sparse tensor": {func(w *ptd.Writer) error {
			return w.Add(&tensor.Tensor{Name: "a", DType: tensor.F32, Shape: tensor.Shape{2},
				Scheme: "csr"})
		}, errors.ErrUnsupported},
		"external": {func(w *ptd.Writer) error {
			return w.Add(&tensor.Tensor{Name: "a", DType: tensor.F32, Shape: tensor.Shape{2},
				External: true})
		}, errors.ErrUnsupported},
		"no such type": {func(w *ptd.Writer) error {
			return w.Add(&tensor.Tensor{Name: "a", DType: tensor.F8E8M0FNU, Shape: tensor.Shape{1},
				Data: bytesOf(1)})
		}, errors.ErrUnsupported},
		"unknown type": {func(w *ptd.Writer) error {
			return w.Add(&tensor.Tensor{Name: "a", Shape: tensor.Shape{1}, Data: bytesOf(1)})
		}, errors.ErrUnsupported},
		"beyond int32": {func(w *ptd.Writer) error {
			return w.Add(&tensor.Tensor{Name: "a", DType: tensor.U8,
				Shape: tensor.Shape{1 << 31, 0}})
		}, errors.ErrUnsupported},
		"300 dimensions": {func(w *ptd.Writer) error {
			return w.Add(&tensor.Tensor{Name: "a", DType: tensor.U8,
				Shape: slices.Repeat(tensor.Shape{1}, 300), Data: bytesOf(1)})
		}, errors.ErrUnsupported},
		"a bad order": {func(w *ptd.Writer) error {
			return w.Add(&tensor.Tensor{Name: "a", DType: tensor.U8, Shape: tensor.Shape{1, 1},
				Order: tensor.Order{1, 1}, Data: bytesOf(1)})
		}, tensor.ErrMalformed},
		"a bad layout": {func(w *ptd.Writer) error {
			return w.AddEntry(ptd.Entry{Name: "a", Layout: &ptd.Layout{Sizes: []int32{1}},
				Data: bytesOf(1)})
		}, tensor.ErrMalformed},
		"negative size": {func(w *ptd.Writer) error {
			return w.AddEntry(ptd.Entry{Name: "a",
				Layout: &ptd.Layout{Sizes: []int32{-1}, DimOrder: []uint8{0}}, Data: bytesOf(1)})
		}, tensor.ErrMalformed},
		"a small segment": {func(w *ptd.Writer) error {
			return w.AddEntry(ptd.Entry{Name: "a", Layout: float(3), Data: bytesOf(8)})
		}, tensor.ErrMalformed},
		"unknown size": {func(w *ptd.Writer) error {
			return w.AddBlob("a", tensor.BlobFunc(-1, nil))
		}, errors.ErrUnsupported},
		"alignment 3": {func(w *ptd.Writer) error {
			return w.AddEntry(ptd.Entry{Name: "a", Alignment: 3})
		}, nil},
		"alignment -1": {func(w *ptd.Writer) error {
			return w.AddEntry(ptd.Entry{Name: "a", Alignment: -1})
		}, nil},
	} {
		var out bytes.Buffer
		w := ptd.NewWriter(&out, nil)
		err := c.add(w)
		if err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v", what, err)
		} else if !strings.HasPrefix(err.Error(), "ptd: ") {
			t.Errorf("%s: the message does not begin with the format: %v", what, err)
		}
		// A refused tensor is not in the file.
		if err := w.Close(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if r := readBytes(t, out.Bytes(), nil); r.Len() != 0 {
			t.Errorf("%s: written nevertheless", what)
		}
	}
	for _, o := range []ptd.WriterOptions{{SegmentAlignment: 3}, {SegmentAlignment: -128},
		{Alignment: 48}, {SegmentAlignment: 1 << 40}} {
		if err := ptd.NewWriter(io.Discard, &o).Close(); err == nil {
			t.Errorf("%+v is taken", o)
		}
		if _, err := ptd.Create(filepath.Join(t.TempDir(), "x"), &o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

func TestEntriesOfTheSameMemoryShareASegment(t *testing.T) {
	one := floats(1, 2)
	es := []ptd.Entry{
		{Name: "a", Layout: float(2), Data: one},
		{Name: "same memory", Data: one, Alignment: 1024},
		{Name: "same bytes", Layout: float(1, 2), Data: floats(1, 2)},
		{Name: "other bytes", Layout: float(2), Data: floats(1, 3)},
		{Name: "empty", Layout: float(0), Data: tensor.Blob{}},
		{Name: "empty too", Layout: float(0, 7), Data: tensor.Blob{}},
	}
	r := readBytes(t, write(t, es, ptd.WriterOptions{}), &ptd.ReaderOptions{Strict: true})
	var got []int
	for e := range r.Entries() {
		got = append(got, e.Segment)
	}
	if want := []int{0, 0, 1, 2, 3, 4}; !slices.Equal(got, want) {
		t.Errorf("segments %v, want %v", got, want)
	}
	// The alignment of every name of a segment holds, in the file.
	e, _ := r.Entry("same memory")
	if st, _ := e.Data.Stored(); st.Offset%1024 != 0 {
		t.Errorf("at %d", st.Offset)
	}
	// Also where the same source is no memory.
	lazy := tensor.BlobFunc(8, func() (io.ReadCloser, error) { return one.Open() })
	r = readBytes(t, write(t, []ptd.Entry{{Name: "a", Data: lazy}, {Name: "b", Data: lazy}},
		ptd.WriterOptions{}), nil)
	if len(sharedSegments(r)) != 1 {
		t.Error("a source added twice is written twice")
	}
}

// NoReplace keeps a file that is there; the last call of Progress has all bytes of the
// file.
func TestNoReplaceKeepsTheFileAndProgressReachesTheTotal(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f.ptd")
	var done, total int64
	opts := &ptd.WriterOptions{NoReplace: true,
		Progress: func(d, t int64) { done, total = d, t }}
	a := tensor.New("a", tensor.Shape{2}, []float32{1, 2})
	if err := ptd.WriteFile(t.Context(), name, tensor.Of(a), opts); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(name); err != nil || done != total || total != info.Size() {
		t.Errorf("%d of %d bytes; %v, %v", done, total, info, err)
	}
	if _, err := ptd.Create(name, opts); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Create of a file that exists: %v", err)
	}
	if err := ptd.NewEdit(open(t, name)).WriteFile(t.Context(), name, opts); !errors.Is(err,
		fs.ErrExist) {
		t.Errorf("WriteFile of an Edit: %v", err)
	}
}

func TestAddAllStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := ptd.NewWriter(io.Discard, nil)
	n := 0
	err := w.AddAll(ctx, func(yield func(*tensor.Tensor, error) bool) {
		for yield(tensor.New(strings.Repeat("x", n+1), tensor.Shape{1}, []int8{1}), nil) {
			if n++; n == 3 {
				cancel()
			}
		}
	})
	if !errors.Is(err, context.Canceled) || n != 3 {
		t.Errorf("%v after %d", err, n)
	}
}

// A million entries, with TENSORFILE_LARGE=1.
func TestManyEntriesAreWrittenAndRead(t *testing.T) {
	n := 1_000_000
	if os.Getenv("TENSORFILE_LARGE") == "" {
		n = readtest.Entries(200_000)
	}
	data := write(t, many(n), ptd.WriterOptions{})
	r := readBytes(t, data, &ptd.ReaderOptions{Strict: true})
	if r.Len() != n || r.Tensor(fmt.Sprintf("layers.%d.w", n-1)) == nil ||
		r.Tensor("layers.x.w") != nil {
		t.Error("lost some")
	}
	i := 0
	for x := range r.Tensors() {
		if i%1000 == 0 && r.Tensor(x.Name) != x {
			t.Fatalf("%s is another tensor by name", x.Name)
		}
		i++
	}
}

// An index that no FlatBuffer can hold is refused before anything is written, and
// before memory is taken for it. The names are pieces of one string.
func TestIndexBeyond2GiBIsRefused(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	dir := t.TempDir()
	w, err := ptd.Create(filepath.Join(dir, "x.ptd"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2100 {
		if err := w.AddBlob(long[i:], tensor.Blob{}); err != nil {
			t.Fatal(err)
		}
	}
	if got := readtest.Allocated(func() { err = w.Close() }); got > 256<<20 {
		t.Errorf("%d bytes allocated", got)
	}
	if !errors.Is(err, tensor.ErrLimit) {
		t.Error(err)
	}
	if got := parent(t, dir); len(got) != 0 {
		t.Errorf("left behind: %v", got)
	}
}

// A pipe cannot seek, and takes what the other side has room for.
func TestPipesGetTheBytesOfAFile(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Skipf("no pipes here: %v", err)
	}
	defer r.Close()
	es := append(many(100), ptd.Entry{Name: "large",
		Data: tensor.BlobOf(bytes.Repeat([]byte("0123456789abcdef"), 1<<16))})
	done := make(chan error, 1)
	go func() {
		out := ptd.NewWriter(w, nil)
		for _, e := range es {
			if err := out.AddEntry(e); err != nil {
				done <- err
				return
			}
		}
		done <- errors.Join(out.Close(), w.Close())
	}()
	got, err := io.ReadAll(r)
	if err := errors.Join(err, <-done); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, write(t, es, ptd.WriterOptions{})) {
		t.Error("other bytes than elsewhere")
	}
}

// TestLargeFilesAreWrittenInLittleMemory writes a file of 4 GiB whose data is made
// while it is written.
func TestLargeFilesAreWrittenInLittleMemory(t *testing.T) {
	readtest.Measure(t)
	size := int64(64 << 20)
	if os.Getenv("TENSORFILE_LARGE") != "" {
		size = 4 << 30
	} else {
		t.Log("64 MiB; TENSORFILE_LARGE=1 makes it 4 GiB")
	}
	dir := t.TempDir()
	name := filepath.Join(dir, "large.ptd")
	const parts = 16
	peak := readtest.PeakHeap(func() {
		var es []ptd.Entry
		for i := range parts {
			es = append(es, ptd.Entry{
				Name: string(rune('a' + i)),
				Layout: &ptd.Layout{ScalarType: 0,
					Sizes: []int32{int32(size / parts >> 10), 1 << 10}, DimOrder: []uint8{0, 1}},
				Data: tensor.BlobFunc(size/parts,
					func() (io.ReadCloser,
						error) {
						return io.NopCloser(io.LimitReader(counting{}, size/parts)), nil
					}),
			})
		}
		if err := writeFile(name, es); err != nil {
			t.Fatal(err)
		}
	})
	if peak > 64<<20 {
		t.Errorf("%d MiB of heap", peak>>20)
	}
	fi, err := os.Stat(name)
	if err != nil || fi.Size() < size {
		t.Fatalf("%v, %v", fi, err)
	}
	t.Logf("%d MiB with %.1f MiB of heap", fi.Size()>>20, float64(peak)/(1<<20))
	if runtime.GOARCH == "386" && size > 1<<30 {
		return
	}
	open(t, name)
}

// counting is bytes without end.
type counting struct{}

func (counting) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(i)
	}
	return len(p), nil
}
