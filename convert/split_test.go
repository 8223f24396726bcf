package convert

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/model"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

func threeTensors() []*tensor.Tensor {
	var ts []*tensor.Tensor
	for _, name := range []string{"a", "b", "c"} {
		ts = append(ts, tensor.New(name, tensor.Shape{64}, make([]float32, 64)))
	}
	return ts
}

// Every format that is split counts the bytes that it has written.
func TestSplitReportsProgress(t *testing.T) {
	for _, f := range forms() {
		if f.caps().MaxTensors == 1 || f.caps().Program {
			continue
		}
		ts := threeTensors()
		if f.format == tensorfile.Primitiv {
			for _, x := range ts {
				x.Order = tensor.ColumnMajor(1)
			}
		}
		src := write(t, f, ts, nil)
		done, total := int64(0), int64(0)
		files, err := Split(t.Context(), src, filepath.Join(t.TempDir(), "x"), &SplitOptions{
			MaxSize: 600, Progress: func(d, of int64) {
				if d < done || d > of {
					t.Errorf("%v: %d of %d bytes after %d", f, d, of, done)
				}
				done, total = d, of
			}})
		if err != nil || len(files) < 2 || done < 3*256 || done != total {
			t.Errorf("%v: %q, %d of %d bytes, %v", f, files, done, total, err)
		}
	}
}

// The shards of a directory that are one model are split as a file is: with an index, or
// with the keys of gguf-split and the types of metadata.
func TestSplitTakesADirectoryAsOneModel(t *testing.T) {
	number, err := gguf.NewValue(uint32(7))
	if err != nil {
		t.Fatal(err)
	}
	metadata := []gguf.KeyValue{{Key: "k", Value: number}}
	for _, format := range []tensorfile.Format{tensorfile.Safetensors, tensorfile.GGUF} {
		dir, out := t.TempDir(), t.TempDir()
		name := filepath.Join(dir, "m"+format.Ext())
		ts := tensor.Of(threeTensors()...)
		if format == tensorfile.GGUF {
			_, err = gguf.WriteShards(t.Context(), name, ts, &gguf.ShardOptions{MaxTensors: 1,
				Writer: &gguf.WriterOptions{Metadata: metadata}})
		} else {
			_, err = safetensors.WriteShards(t.Context(), name, ts,
				&safetensors.ShardOptions{MaxSize: 256})
			err = errors.Join(err, os.Remove(name+".index.json")) // numbered files, as one model
		}
		if err != nil {
			t.Fatal(err)
		}
		m, err := model.Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if _, err := Split(t.Context(), m.File(), filepath.Join(out, "m"),
			&SplitOptions{MaxSize: 512}); err != nil {
			t.Fatal(err)
		}
		r, err := model.Check(t.Context(), out, nil)
		if err != nil || len(r.Findings) > 0 || r.Tensors != 3 || r.Shards != 2 {
			t.Errorf("%v: %+v, %v", format, r, err)
		}
		if format != tensorfile.GGUF {
			continue
		}
		var shards []*gguf.Reader
		for i := range 2 {
			r, err := gguf.Open(gguf.ShardName(filepath.Join(out, "m"), i, 2), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			shards = append(shards, r)
		}
		merged, _, err := gguf.Merge(shards...)
		if err != nil || len(merged) != 1 || merged[0].Value.Type() != gguf.TypeUint32 {
			t.Errorf("%v, %v", merged, err)
		}
	}
}

// A file of a version that is not written is split into files of the default version.
func TestSplitWritesTheDefaultVersionForOnesThatAreOnlyRead(t *testing.T) {
	for _, name := range []string{"crate-0.1.0-digests", "crate-0.1.0-dtypes", "crate-0.1.0-empty",
		"crate-0.1.0-fields", "crate-0.1.0-zstd", "wheel-0.1.4-numpy"} {
		src, err := tensorfile.Open(filepath.Join("..", "testdata", "ztensor", name+".zt"), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer src.Close()
		files, err := Split(t.Context(), src, filepath.Join(t.TempDir(), "x"),
			&SplitOptions{MaxSize: 40})
		if err != nil || len(files) < min(2, src.Len()) {
			t.Errorf("%s: %q, %v", name, files, err)
			continue
		}
		got, err := tensorfile.Open(files[len(files)-1], &tensorfile.Options{Strict: true})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		defer got.Close()
		if got.Version() != ztensor.Version2 || got.Len() != src.Len() {
			t.Errorf("%s: version %s, %d tensors of %d", name, got.Version(), got.Len(), src.Len())
		}
		for x := range src.Tensors() {
			y := got.Tensor(x.Name)
			if y == nil || x.Dense() && y.DType != x.DType || !y.Shape.Equal(x.Shape) ||
				y.Scheme != x.Scheme {
				t.Errorf("%s: %v is %v", name, x, y)
				continue
			}
			blobs := [][2]tensor.Blob{{x.Data, y.Data}}
			for i := range x.Parts {
				p := &x.Parts[i]
				blobs = append(blobs, [2]tensor.Blob{p.Data, y.Part(p.Role).Data})
			}
			for _, b := range blobs {
				want, err1 := b[0].ReadAll()
				have, err2 := b[1].ReadAll()
				if err := errors.Join(err1, err2); err != nil || !bytes.Equal(want, have) {
					t.Errorf("%s: %s has changed, %v", name, x.Name, err)
				}
			}
		}
		if _, err := got.Verify(t.Context(), nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
