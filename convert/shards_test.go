package convert

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// sharded writes a model of four tensors as several files of a format, by its own
// package, and returns their names.
func shardsIn(t *testing.T, dir string, f tensorfile.Format) []string {
	t.Helper()
	var ts []*tensor.Tensor
	for i := range 4 {
		ts = append(ts, tensor.New(fmt.Sprintf("t%d", i), tensor.Shape{16},
			slices.Repeat([]float32{float32(i)}, 16)))
	}
	src := tensorfile.FromTensors(ts, nil)
	whole := filepath.Join(dir, "whole"+f.Ext())
	p, err := NewPlan(t.Context(), src, f, nil)
	if err == nil {
		err = p.WriteFile(t.Context(), whole)
	}
	if err != nil {
		t.Fatal(err)
	}
	file := openFile(t, whole)
	names, err := Split(t.Context(), file, filepath.Join(dir, "m"), &SplitOptions{MaxSize: 64})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// The first shard takes the others along; another alone, or the first without the others,
// is no model.
func TestFirstShardTakesTheOthersAlong(t *testing.T) {
	for _, f := range []tensorfile.Format{tensorfile.GGUF, tensorfile.Safetensors, tensorfile.NPZ,
		tensorfile.Primitiv} {
		dir := t.TempDir()
		names := shardsIn(t, dir, f)
		isShard := func(name string) bool { return strings.Contains(name, "-of-") }
		names = slices.DeleteFunc(names, func(name string) bool { return !isShard(name) })
		out := filepath.Join(dir, "out.zt")
		if err := File(t.Context(), names[0], out, nil); err != nil {
			t.Fatalf("%v: %v", f, err)
		}
		joined := openFile(t, out)
		if joined.Len() != 4 {
			t.Errorf("%v: %d tensors", f, joined.Len())
		}
		for key := range joined.Attributes() {
			t.Errorf("%v: the attribute %s", f, key)
		}
		for _, name := range names[1:] {
			out := filepath.Join(dir, "none"+f.Ext())
			var le *LossError
			if err := File(t.Context(), name, out, nil); !errors.As(err, &le) ||
				len(le.Losses) != 1 || le.Losses[0].Kind != LossTensors ||
				le.Losses[0].Field != "shards" {
				t.Errorf("%s: %v", name, err)
			}
			if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: written", name)
			}
			if err := File(t.Context(), name, out, &Options{Allow: LossTensors}); err != nil {
				t.Errorf("%s: allowed: %v", name, err)
			}
			part := openFile(t, out)
			if part.Len() == 4 {
				t.Errorf("%s: %d tensors", name, part.Len())
			}
			for key := range part.Attributes() {
				t.Errorf("%s: the attribute %s", name, key)
			}
			part.Close()
			os.Remove(out)
		}
		if err := os.Remove(names[2]); err != nil {
			t.Fatal(err)
		}
		err := File(t.Context(), names[0], filepath.Join(dir, "none.zt"), &Options{})
		if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), names[2]) {
			t.Errorf("%v, one is absent: %v", f, err)
		}
	}
}

func TestShardsOfZTensorAreCountedByTheirRoot(t *testing.T) {
	dir := t.TempDir()
	names := shardsIn(t, dir, tensorfile.ZTensor)
	for _, name := range names {
		f := openFile(t, name)
		got, count := Shards(name, f)
		isRoot := filepath.Base(name) == "m.zt"
		if len(got) != 1 || got[0] != name || (count == 1) != isRoot ||
			!isRoot && count != len(names) {
			t.Errorf("%s: %v, %d", name, got, count)
		}
	}
	other := filepath.Join(dir, "m-other.zt")
	if err := ztensor.WriteFile(t.Context(), other, tensor.Of(), nil); err != nil {
		t.Fatal(err)
	}
	if _, count := Shards(other, openFile(t, other)); count != 1 {
		t.Errorf("a file that the root does not name: %d", count)
	}
}

// A split .gguf says so itself, whatever its name is.
func TestShardsOfGGUFAreFoundByItsKeys(t *testing.T) {
	names := shardsIn(t, t.TempDir(), tensorfile.GGUF)
	for i, name := range names {
		f := openFile(t, name)
		if got, count := Shards("renamed.gguf", f); len(got) != 1 || count != len(names) {
			t.Errorf("%v, %d", got, count)
		}
		p, err := NewPlan(t.Context(), f, tensorfile.Safetensors, &Options{Allow: LossAttributes})
		var le *LossError
		if err != nil || !errors.As(p.Err(), &le) || le.Losses[0].Field != "shards" {
			t.Errorf("shard %d: %v, %v", i, err, le)
		}
		if _, err := Split(t.Context(), f, filepath.Join(t.TempDir(), "x"),
			&SplitOptions{MaxSize: 64}); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("split of shard %d: %v", i, err)
		}
		if no, count, _ := f.Sys().(*gguf.Reader).Split(); no != i || count != len(names) {
			t.Errorf("shard %d says %d of %d", i, no, count)
		}
	}
}
