package repotest

import (
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"path/filepath"
	"testing"

	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/npy"
	"github.com/tensorfile/tensorfile/primitiv"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// A source of tensors that fails midway leaves no file, and the error is the source's.
func TestFailingSequenceLeavesNoFile(t *testing.T) {
	cause := errors.New("the source failed")
	failing := func(yield func(*tensor.Tensor, error) bool) {
		_ = yield(tensor.New("a", tensor.Shape{2}, []float32{1, 2}), nil) && yield(nil, cause)
	}
	type sequence = iter.Seq2[*tensor.Tensor, error]
	for name, write := range map[string]func(context.Context, string, sequence) error{
		"npz": func(ctx context.Context, name string, ts sequence) error {
			return npy.WriteFile(ctx, name, ts, nil)
		},
		"gguf": func(ctx context.Context, name string, ts sequence) error {
			return gguf.WriteFile(ctx, name, ts, nil)
		},
		"gguf shards": func(ctx context.Context, name string, ts sequence) error {
			_, err := gguf.WriteShards(ctx, name, ts, &gguf.ShardOptions{MaxTensors: 1})
			return err
		},
		"safetensors": func(ctx context.Context, name string, ts sequence) error {
			return safetensors.WriteFile(ctx, name, ts, nil)
		},
		"primitiv": func(ctx context.Context, name string, ts sequence) error {
			return primitiv.WriteFile(ctx, name, ts, nil)
		},
		"ptd": func(ctx context.Context, name string, ts sequence) error {
			return ptd.WriteFile(ctx, name, ts, nil)
		},
		"ztensor 1.0": func(ctx context.Context, name string, ts sequence) error {
			return ztensor.WriteFile(ctx, name, ts,
				&ztensor.WriterOptions{Version: "1.0", Digest: ztensor.CRC32C})
		},
		"ztensor 2": func(ctx context.Context, name string, ts sequence) error {
			return ztensor.WriteFile(ctx, name, ts, &ztensor.WriterOptions{Version: "2", Level: 1})
		},
		"ztensor shards": func(ctx context.Context, name string, ts sequence) error {
			_, err := ztensor.WriteShards(ctx, name, ts, &ztensor.ShardOptions{MaxSize: 4})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := write(t.Context(), filepath.Join(dir, "out"), failing); !errors.Is(err,
				cause) {
				t.Errorf("%v, want the error of the source", err)
			}
			left, err := os.ReadDir(dir)
			if err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			err = write(ctx, filepath.Join(dir, "out"),
				tensor.Of(tensor.New("a", tensor.Shape{1}, []int8{1})))
			if !errors.Is(err, context.Canceled) {
				t.Errorf("after cancelling: %v", err)
			}
			if _, err := os.Stat(filepath.Join(dir, "out")); err == nil {
				t.Error("a cancelled write left a file")
			}
		})
	}
	w := ztensor.NewWriter(io.Discard, nil)
	if err := w.AddAll(t.Context(), failing); !errors.Is(err, cause) {
		t.Errorf("AddAll: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Errorf("Close after a source that failed: %v", err)
	}
}
