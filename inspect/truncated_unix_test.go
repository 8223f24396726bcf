//go:build unix

package inspect

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// TestStatsOfATruncatedMappingAreAnError: workers read the mapping in place, frames of
// zTensor included, and a page that is gone is an error.
func TestStatsOfATruncatedMappingAreAnError(t *testing.T) {
	if os.Getenv("TENSORFILE_EMULATOR") != "" {
		t.Skip("qemu does not pass faults of a mapping on")
	}
	values := make([]float32, 1<<20)
	for i := range values {
		values[i] = float32(i * i)
	}
	x := tensor.New("x", tensor.Shape{1 << 20}, values)
	dir := t.TempDir()
	plain, frames := filepath.Join(dir, "x.safetensors"), filepath.Join(dir, "x.zt")
	if err := errors.Join(
		safetensors.WriteFile(t.Context(), plain, tensor.Of(x), nil),
		ztensor.WriteFile(t.Context(), frames, tensor.Of(x), &ztensor.WriterOptions{Level: 1}),
	); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{plain, frames} {
		f, err := tensorfile.Open(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		// The table of frames is read now, at the end of the file.
		if _, err := f.Tensor("x").Data.ReadAt(make([]byte, 1), 0); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(name, 8<<10); err != nil {
			t.Fatal(err)
		}
		if _, err := Stats(t.Context(), f.Tensor("x"), nil); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %v", filepath.Ext(name), err)
		}
	}
}
