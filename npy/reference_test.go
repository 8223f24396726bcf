package npy

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/tensor"
)

// want is what interop/npy/make.py recorded for each file.
type want struct {
	Version string
	Tensors map[string]struct {
		DType  string
		Shape  []int64
		Column bool
		Bytes  int64
		SHA256 string
	}
}

// NumPy's arrays, read and written again: the committed ones, and the arrays of
// interop/npy.sh when TENSORFILE_NPY names their directory and TENSORFILE_NPY_OUT where
// the rewritten ones go.
func TestArraysOfNumPyHaveItsValues(t *testing.T) {
	dir, out := "../testdata/npy", t.TempDir()
	if d := os.Getenv("TENSORFILE_NPY"); d != "" {
		dir, out = d, os.Getenv("TENSORFILE_NPY_OUT")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.npy"))
	if err != nil || len(files) < 30 {
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
			x, e := r.Array(), w.Tensors[arrayName]
			if r.Len() != 1 || r.Version() != w.Version || r.Tensor(arrayName) != x ||
				r.Tensor("x") != nil {
				t.Errorf("version %q, want %q", r.Version(), w.Version)
			}
			b, err := x.Data.ReadAll()
			if err != nil {
				t.Fatal(err)
			}
			into := make([]byte, len(b))
			if err := x.Data.ReadInto(into); err != nil || string(into) != string(b) {
				t.Errorf("ReadInto differs from ReadAll: %v", err)
			}
			for off := range x.Size() {
				p := make([]byte, 1)
				if _, err := x.Data.ReadAt(p, off); err != nil || p[0] != b[off] {
					t.Errorf("byte %d is %#x by itself, %v", off, p, err)
				}
			}
			sum := sha256.Sum256(b)
			if x.DType.String() != e.DType || !x.Shape.Equal(e.Shape) || x.Size() != e.Bytes ||
				hex.EncodeToString(sum[:]) != e.SHA256 || x.Order.RowMajor() == e.Column {
				t.Errorf("%v %v %v %d bytes, numpy has %+v", x.DType, x.Shape, x.Order, x.Size(),
					e)
			}
			if _, err := r.Verify(t.Context(), nil); err != nil {
				t.Error(err)
			}
			again := filepath.Join(out, filepath.Base(name))
			if err := WriteFile(t.Context(), again, tensor.Of(x), nil); err != nil {
				t.Fatal(err)
			}
			ours, err := os.ReadFile(again)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(filepath.Base(name), "le-") && string(ours) != string(theirs) {
				t.Error("what we write differs from what numpy wrote")
			}
			r2, err := OpenBytes(ours, &ReaderOptions{Strict: true})
			if err != nil {
				t.Fatal(err)
			}
			if p, err := r2.Array().Data.ReadAll(); err != nil || string(p) != string(b) {
				t.Errorf("other elements after writing: %v", err)
			}
		})
	}
}

func TestSlicesAreRowMajor(t *testing.T) {
	column := tensor.New("", tensor.Shape{2, 3}, []int16{1, 4, 2, 5, 3, 6})
	column.Order = tensor.ColumnMajor(2)
	name := filepath.Join(t.TempDir(), "w.npy")
	if err := WriteFile(t.Context(), name, tensor.Of(column), nil); err != nil {
		t.Fatal(err)
	}
	values, shape, err := Read[int16](name)
	if err != nil || !slices.Equal(values, []int16{1, 2, 3, 4, 5, 6}) ||
		!shape.Equal(column.Shape) {
		t.Errorf("%v %v %v", values, shape, err)
	}
	if _, _, err := Read[float32](name); !errors.Is(err, tensor.ErrDType) {
		t.Errorf("as float32: %v", err)
	}
	if err := Write(name, tensor.Shape{3}, []int16{1}); !errors.Is(err, tensor.ErrMalformed) {
		t.Errorf("a wrong shape: %v", err)
	}
	if err := Write(name, tensor.Shape{1}, []tensor.BFloat16{1}); !errors.Is(err,
		errors.ErrUnsupported) {
		t.Errorf("bfloat16: %v", err)
	}
	if again, _, err := Read[int16](name); err != nil || len(again) != 6 {
		t.Errorf("the file changed: %v, %v", again, err)
	}
}

func TestNothingToWriteIsAnError(t *testing.T) {
	name := filepath.Join(t.TempDir(), "w.npy")
	if err := WriteFile(t.Context(), name, tensor.Of(), nil); !errors.Is(err, tensor.ErrNoTensor) {
		t.Errorf("no tensor: %v", err)
	}
	x := tensor.New("", nil, []int8{1})
	if err := WriteFile(t.Context(), name, tensor.Of(x, x), nil); !errors.Is(err,
		tensor.ErrDuplicate) {
		t.Errorf("two tensors: %v", err)
	}
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file appeared: %v", err)
	}
	var out bytes.Buffer
	if err := NewWriter(&out, nil).Close(); !errors.Is(err, tensor.ErrNoTensor) || out.Len() != 0 {
		t.Errorf("Close: %d bytes, %v", out.Len(), err)
	}
}

func TestAccessorsAreSafeForConcurrentUse(t *testing.T) {
	for _, name := range []string{"be-c16.npy", "le-f4.npy", "column.npy"} {
		api.Each(t, golden(t, name), func(t *testing.T, r *Reader) {
			if called := readtest.Accessors(t, r, arrayName); !called["*npy.Reader.Verify"] {
				t.Errorf("called: %v", called)
			}
		})
	}
}
