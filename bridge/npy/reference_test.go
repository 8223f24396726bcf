package npy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

// want is what interop/npy/make.py noted beside each file.
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

// NumPy's files, read and written back: the committed ones, and those of
// interop/npy.sh when TENSORFILE_NPY names their folder and TENSORFILE_NPY_OUT
// where the rewritten ones go.
func TestFilesOfNumPy(t *testing.T) {
	dir, out := "../../testdata/npy", t.TempDir()
	if d := os.Getenv("TENSORFILE_NPY"); d != "" {
		dir, out = d, os.Getenv("TENSORFILE_NPY_OUT")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.np?"))
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
			f, err := os.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			info, err := f.Stat()
			if err != nil {
				t.Fatal(err)
			}
			archive := strings.HasSuffix(name, ".npz")
			if DetectArchive(f, info.Size()) != archive || Detect(f, info.Size()) == archive {
				t.Error("not detected as what it is")
			}
			r, err := Open(name, &ReaderOptions{Strict: true})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if r.Len() != len(w.Tensors) || r.Version() != w.Version || r.Archive() != archive {
				t.Errorf("%d arrays of version %q, want %+v", r.Len(), r.Version(), w)
			}
			for x := range r.Tensors() {
				e, ok := w.Tensors[x.Name]
				if !ok || r.Tensor(x.Name) != x {
					t.Fatalf("%q is not in numpy's list", x.Name)
				}
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
				if x.DType.String() != e.DType || !x.Shape.Equal(e.Shape) || x.Size() != e.Bytes || hex.EncodeToString(sum[:]) != e.SHA256 || x.Order.RowMajor() == e.Column {
					t.Errorf("%q: %v %v %v %d bytes, numpy has %+v", x.Name, x.DType, x.Shape, x.Order, x.Size(), e)
				}
			}
			if err := r.Verify(t.Context(), nil); err != nil {
				t.Error(err)
			}
			again := filepath.Join(out, filepath.Base(name))
			if archive {
				err = WriteFile(t.Context(), again, tensor.Each(r.Tensors()), &WriterOptions{Compress: strings.Contains(name, "deflated")})
			} else {
				err = WriteArrayFile(again, r.Tensor(arrayName))
			}
			if err != nil {
				t.Fatal(err)
			}
			r2, err := Open(again, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer r2.Close()
			for x := range r2.Tensors() {
				st, _ := x.Data.Stored()
				if st.Encoding == "raw" && st.Offset%headerAlign != 0 {
					t.Errorf("%q lies at %d: not aligned", x.Name, st.Offset)
				}
				a, err1 := tensor.Float32s(x)
				b, err2 := tensor.Float32s(r.Tensor(x.Name))
				if len(a) != len(b) || (err1 == nil) != (err2 == nil) {
					t.Errorf("%q came back with %d values, not %d", x.Name, len(a), len(b))
				}
			}
			if theirs, err := os.ReadFile(name); err == nil && !archive && strings.HasPrefix(filepath.Base(name), "le-") {
				if ours, err := os.ReadFile(again); err != nil || string(ours) != string(theirs) {
					t.Errorf("what we write differs from what numpy wrote: %v", err)
				}
			}
		})
	}
}
