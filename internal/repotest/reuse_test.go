package repotest

import (
	"context"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// A buffer of which one element changes before Close leaves no wrong values in a file:
// they are those at Add, or there is no file.
func TestBuffersUsedAgainLeaveNoWrongValues(t *testing.T) {
	for _, format := range tensorfile.Formats() {
		for _, version := range format.Writes() {
			if format == tensorfile.NPY || format == tensorfile.PTE {
				continue // of one tensor, or of a program
			}
			for _, n := range []int{4, 100_000} {
				name := filepath.Join(t.TempDir(), "file"+format.Ext())
				w, err := tensorfile.Create(name, format,
					&tensorfile.WriterOptions{Version: version})
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
				f, err := tensorfile.Open(name, nil)
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

// Tensors that share the buffer of their sequence are not divided into shards, which are
// written when all tensors are known.
func TestBuffersUsedAgainAreNotDividedIntoShards(t *testing.T) {
	buf := make([]int8, 400_000) // in memory as in files, whatever the byte order
	ts := iter.Seq2[*tensor.Tensor, error](func(yield func(*tensor.Tensor, error) bool) {
		for i, name := range []string{"a", "b", "c"} {
			buf[len(buf)/3] = int8(i)
			if !yield(tensor.New(name, tensor.Shape{int64(len(buf))}, buf), nil) {
				return
			}
		}
	})
	for name, write := range map[string]func(context.Context, string) ([]string, error){
		"x.safetensors": func(ctx context.Context, name string) ([]string, error) {
			return safetensors.WriteShards(ctx, name, ts,
				&safetensors.ShardOptions{MaxSize: 500_000})
		},
		"x.gguf": func(ctx context.Context, name string) ([]string, error) {
			return gguf.WriteShards(ctx, name, ts, &gguf.ShardOptions{MaxSize: 500_000})
		},
		"x.zt": func(ctx context.Context, name string) ([]string, error) {
			return ztensor.WriteShards(ctx, name, ts, &ztensor.ShardOptions{MaxSize: 500_000})
		},
	} {
		dir := t.TempDir()
		_, err := write(t.Context(), filepath.Join(dir, name))
		if !errors.Is(err, tensor.ErrChecksum) {
			t.Errorf("%s: %v", name, err)
		}
		if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
			t.Errorf("%s: %v was written, %v", name, files, err)
		}
	}
}
