package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/tensor"
)

// interruptedInput is a file of five tensors; reading the fourth cancels the context that
// comes with it.
func interruptedInput(t *testing.T) (context.Context, *input) {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	var ts []*tensor.Tensor
	for i := range 5 {
		x := tensor.New(fmt.Sprintf("t%d", i), tensor.Shape{1}, []uint8{byte(i)})
		if i == 3 {
			x.Data = tensor.NewBlob(cancelling{cancel: cancel})
		}
		ts = append(ts, x)
	}
	return ctx, &input{File: tensorfile.FromTensors(ts, nil), name: "in"}
}

type cancelling struct {
	tensor.Computed
	cancel func()
}

func (cancelling) Size() int64                    { return 1 }
func (c cancelling) ReadInto(p []byte) error      { return tensor.ReadFull(c, p) }
func (c cancelling) Open() (io.ReadCloser, error) { return tensor.Stream(c), nil }
func (c cancelling) ReadAt(p []byte, _ int64) (int, error) {
	c.cancel()
	return len(p), nil
}

// The files that an interrupted extract has written are removed, with the directories
// that it made; what was there before stays.
func TestExtractRemovesWhatItMadeWhenInterrupted(t *testing.T) {
	for _, exists := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "a", "b")
		if exists {
			if err := os.MkdirAll(dir, 0o777); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"own.txt", "t1.npy"} {
				if err := os.WriteFile(filepath.Join(dir, name), nil, 0o666); err != nil {
					t.Fatal(err)
				}
			}
		}
		ctx, in := interruptedInput(t)
		var out strings.Builder
		x := extraction{app: newApp(ctx, nil, &out, &out, os.Getenv), dir: dir,
			outputs: outputs{force: exists}}
		if err := x.run(in); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(dir)
		var left []string
		for _, e := range entries {
			left = append(left, e.Name())
		}
		if exists && !slices.Equal(left, []string{"own.txt", "t1.npy"}) {
			t.Errorf("%q are left", left)
		}
		if _, above := os.Stat(filepath.Dir(dir)); !exists && (err == nil || above == nil) {
			t.Errorf("%s is left", dir)
		}
	}
}

// An interrupted split leaves no directory that it made.
func TestSplitRemovesWhatItMadeWhenInterrupted(t *testing.T) {
	dir := t.TempDir()
	file := created(t, dir, "x.safetensors", st(safetensorsOptions),
		tensor.New("w", tensor.Shape{2}, []float32{1, 2}))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out strings.Builder
	a := newApp(ctx, nil, &out, &out, os.Getenv)
	in, err := newApp(t.Context(), nil, &out, &out, os.Getenv).open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := a.split(in, filepath.Join(dir, "new", "deep", "x"), 4, &outputs{}); !errors.Is(err,
		context.Canceled) {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "new")); err == nil {
		t.Error("a directory is left")
	}
}
