package ptd_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/tensor"
)

// The helpers of tests in several files.

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
