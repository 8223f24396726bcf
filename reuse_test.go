package tensorfile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

// A buffer of which one element changes before Close leaves no wrong values in a file:
// they are those at Add, or there is no file.
func TestBuffersThatAreUsedAgain(t *testing.T) {
	for _, format := range Formats() {
		for _, version := range format.Writes() {
			if format == NPY || format == PTE {
				continue // of one tensor, or of a program
			}
			for _, n := range []int{4, 100_000} {
				name := filepath.Join(t.TempDir(), "file"+format.Ext())
				w, err := Create(name, format, &CreateOptions{Version: version})
				if err != nil {
					t.Fatal(format, version, err)
				}
				buf := make([]float32, n)
				for i, x := range []string{"a", "b"} {
					buf[n/3] = float32(i)
					if err = w.Add(tensor.New(x, tensor.Shape{int64(n)}, buf)); err != nil {
						t.Fatal(format, version, err)
					}
				}
				if err = w.Close(); err != nil {
					_, missing := os.Stat(name)
					if !errors.Is(err, tensor.ErrChecksum) || missing == nil {
						t.Errorf("%v %s: %v, file: %v", format, version, err, missing == nil)
					}
					continue
				}
				f, err := Open(name, nil)
				if err != nil {
					t.Fatal(format, version, err)
				}
				for i, x := range []string{"a", "b"} {
					values, err := tensor.Load[float32](f.Tensor(x))
					if err != nil || values[n/3] != float32(i) {
						t.Errorf("%v %s: %s: %v", format, version, x, err)
					}
				}
				f.Close()
			}
		}
	}
}
