package npz

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/numpy"
	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/tensor"
)

// want is what interop/npy/make.py recorded for each archive.
type want struct {
	Version string
	Tensors map[string]struct {
		DType  string
		Descr  string
		Shape  []int64
		Column bool
		Bytes  int64
		SHA256 string
	}
}

// NumPy's archives, read and written again: the committed ones, and the archives of
// interop/npy.sh when TENSORFILE_NPY names their directory and TENSORFILE_NPY_OUT where
// the rewritten ones go.
func TestArchivesOfNumPyHaveItsValues(t *testing.T) {
	dir, out := "../testdata/npy", t.TempDir()
	if d := os.Getenv("TENSORFILE_NPY"); d != "" {
		dir, out = d, os.Getenv("TENSORFILE_NPY_OUT")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.npz"))
	if err != nil || len(files) < 8 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			raw, err := os.ReadFile(name + ".json")
			if err != nil {
				t.Fatal(err)
			}
			var w want
			if err := json.Unmarshal(raw, &w); err != nil {
				t.Fatal(err)
			}
			theirs, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if !Detect(bytes.NewReader(theirs), int64(len(theirs))) {
				t.Error("not detected")
			}
			r, err := Open(name, &ReaderOptions{Strict: true})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if r.Len() != len(w.Tensors) || r.Version() != "" {
				t.Errorf("%d arrays of version %q, want %+v", r.Len(), r.Version(), w)
			}
			var numbers []*tensor.Tensor
			for x := range r.Tensors() {
				e, ok := w.Tensors[x.Name]
				if !ok || r.Tensor(x.Name) != x || x.DType.String() != e.DType ||
					!x.Shape.Equal(e.Shape) {
					t.Fatalf("%q: %v %v, numpy has %+v", x.Name, x.DType, x.Shape, e)
				}
				if st, _ := x.Data.Stored(); st.Type != e.Descr {
					t.Errorf("%q: type %q, numpy has %q", x.Name, st.Type, e.Descr)
				}
				if x.DType == tensor.Unknown {
					continue
				}
				numbers = append(numbers, x)
				b, err := x.Data.ReadAll()
				if err != nil {
					t.Fatal(err)
				}
				into := make([]byte, len(b))
				if err := x.Data.ReadInto(into); err != nil || string(into) != string(b) {
					t.Errorf("%q: ReadInto differs from ReadAll: %v", x.Name, err)
				}
				for _, off := range []int64{0, 1, 3, x.Size() - 1} {
					if off < 0 || off >= x.Size() {
						continue
					}
					p := make([]byte, 1)
					if _, err := x.Data.ReadAt(p, off); err != nil || p[0] != b[off] {
						t.Errorf("%q: byte %d is %#x by itself, %v", x.Name, off, p, err)
					}
				}
				sum := sha256.Sum256(b)
				if x.Size() != e.Bytes || hex.EncodeToString(sum[:]) != e.SHA256 ||
					x.Order.RowMajor() == e.Column {
					t.Errorf("%q: %v %d bytes, numpy has %+v", x.Name, x.Order, x.Size(), e)
				}
			}
			if _, err := r.Verify(t.Context(), nil); err != nil {
				t.Error(err)
			}
			again := filepath.Join(out, filepath.Base(name))
			opts := &WriterOptions{Compress: strings.Contains(name, "deflated")}
			if len(numbers) < r.Len() { // what is not numbers is copied
				err = NewEdit(r).WriteFile(t.Context(), again, nil)
			} else {
				err = WriteFile(t.Context(), again, tensor.Of(numbers...), opts)
			}
			if err != nil {
				t.Fatal(err)
			}
			r2, err := Open(again, &ReaderOptions{Strict: true})
			if err != nil {
				t.Fatal(err)
			}
			defer r2.Close()
			if r2.Len() != r.Len() {
				t.Errorf("%d arrays after writing %d", r2.Len(), r.Len())
			}
			for x := range r2.Tensors() {
				if st, _ := x.Data.Stored(); st.Encoding == "raw" &&
					st.Offset%numpy.Alignment != 0 {
					t.Errorf("%q begins at %d: not aligned", x.Name, st.Offset)
				}
				a, err1 := x.Data.ReadAll()
				b, err2 := r.Tensor(x.Name).Data.ReadAll()
				if string(a) != string(b) || err1 != nil || err2 != nil {
					t.Errorf("%q differs after writing: %v, %v", x.Name, err1, err2)
				}
			}
		})
	}
}

func TestNamesEndAtANUL(t *testing.T) {
	array := golden(t, "le-f4.npy")
	for name, c := range map[string]struct {
		b     []byte
		names string
		err   error
	}{
		"an array":          {archive(t, entry{"w\x00.npy", array, nil}), "w", nil},
		"before the suffix": {archive(t, entry{"w.npy\x00x", array, nil}), "w", nil},
		"a blob": {archive(t, entry{"w.npy", array, nil}, entry{"note\x00x", nil, nil}),
			"w note", nil},
		"two of one name": {archive(t, entry{"w.npy", array, nil},
			entry{"w\x00x.npy", array, nil}), "", tensor.ErrMalformed},
	} {
		r, err := OpenBytes(c.b, nil)
		if !errors.Is(err, c.err) {
			t.Errorf("%s: %v, want %v", name, err, c.err)
		}
		if err != nil {
			continue
		}
		var got []string
		for x := range r.Tensors() {
			got = append(got, x.Name)
		}
		for b := range r.Blobs() {
			got = append(got, b)
		}
		if strings.Join(got, " ") != c.names || len(r.Warnings()) != 1 {
			t.Errorf("%s: %q, %v", name, got, r.Warnings())
		}
		if _, err := OpenBytes(c.b, &ReaderOptions{Strict: true}); !errors.Is(err,
			tensor.ErrMalformed) {
			t.Errorf("%s, strict: %v", name, err)
		}
	}
}

func TestVerifyIsBoundedInAll(t *testing.T) {
	b := golden(t, "one-be-deflated.npz") // 8 bytes of elements
	for limit, want := range map[int64]error{7: tensor.ErrLimit, 8: nil} {
		r, err := OpenBytes(b, &ReaderOptions{Limits: tensor.Limits{MaxDecodedTotal: limit}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Verify(t.Context(), nil); !errors.Is(err, want) {
			t.Errorf("limit %d: %v, want %v", limit, err, want)
		}
	}
}

// Strict finds a wrong CRC in every way of reading, mapped or not.
func TestStrictChecksEveryRead(t *testing.T) {
	b := archive(t, entry{"w.npy", golden(t, "le-f4.npy"), func(h *zip.FileHeader) { h.CRC32++ }})
	for _, s := range readtest.Sources(t, b) {
		r, err := strict.OpenSource(s)
		if err != nil {
			t.Fatal(err)
		}
		x := r.Tensor("w").Data
		if _, ok := x.Bytes(); ok {
			t.Errorf("%s: borrowed", s.Name)
		}
		_, err1 := x.WriteTo(io.Discard)
		_, err2 := x.ReadAll()
		_, err3 := x.ReadAt(make([]byte, 1), 0)
		for i, err := range []error{err1, err2, err3} {
			if !errors.Is(err, tensor.ErrChecksum) {
				t.Errorf("%s: read %d: %v", s.Name, i, err)
			}
		}
		r.Close()
	}
}

var strict = readtest.API[*Reader]{
	Open: func(name string, noMap bool) (*Reader, error) {
		return Open(name, &ReaderOptions{NoMap: noMap, Strict: true})
	},
	OpenBytes: func(b []byte) (*Reader, error) {
		return OpenBytes(b, &ReaderOptions{Strict: true})
	},
	NewReader: func(r io.ReaderAt, size int64) (*Reader, error) {
		return NewReader(r, size, &ReaderOptions{Strict: true})
	},
}

func TestAccessorsAreSafeForConcurrentUse(t *testing.T) {
	for _, name := range []string{"stored.npz", "one-be-deflated.npz", "words.npz"} {
		for _, f := range []readtest.API[*Reader]{api, strict} {
			f.Each(t, golden(t, name), func(t *testing.T, r *Reader) {
				if called := readtest.Accessors(t, r, "be-f4",
					"a"); !called["*npz.Reader.Verify"] {
					t.Errorf("called: %v", called)
				}
			})
		}
	}
}
