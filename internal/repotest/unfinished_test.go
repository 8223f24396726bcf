package repotest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// killedSets makes directories of sets, of which a writer was killed after it had written
// its journal, and returns their indexes.
func killedSets(t *testing.T) []string {
	t.Helper()
	values := func(v float32) []*tensor.Tensor {
		eight := []float32{v, v, v, v, v, v, v, v}
		return []*tensor.Tensor{tensor.New("a", tensor.Shape{8}, eight),
			tensor.New("b", tensor.Shape{8}, eight)}
	}
	var indexes []string
	for _, write := range []func(dir string, v float32) ([]string, error){
		func(dir string, v float32) ([]string, error) {
			return safetensors.WriteShards(t.Context(), filepath.Join(dir, "m.safetensors"),
				tensor.Of(values(v)...), &safetensors.ShardOptions{MaxSize: 32})
		},
		func(dir string, v float32) ([]string, error) {
			return ztensor.WriteShards(t.Context(), filepath.Join(dir, "m.zt"),
				tensor.Of(values(v)...), &ztensor.ShardOptions{MaxSize: 32})
		},
	} {
		dir := t.TempDir()
		if _, err := write(dir, 1); err != nil {
			t.Fatal(err)
		}
		files, err := write(t.TempDir(), 2)
		if err != nil {
			t.Fatal(err)
		}
		index := filepath.Base(files[len(files)-1])
		journal := fmt.Sprintf("tensorfile journal 1\nindex %q\n", index)
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			name := filepath.Base(file)
			temp := "." + name + ".tensorfile-tmp-0000000000001"
			if err := os.WriteFile(filepath.Join(dir, temp), b, 0o666); err != nil {
				t.Fatal(err)
			}
			journal += fmt.Sprintf("rename %q %q %d\n", temp, name, len(b))
		}
		if err := os.WriteFile(filepath.Join(dir, "."+index+".tensorfile-journal"),
			[]byte(journal+"end\n"), 0o666); err != nil {
			t.Fatal(err)
		}
		indexes = append(indexes, filepath.Join(dir, index))
	}
	return indexes
}

// openers open a file by its name and in file systems of several kinds, the last of which
// has files without ReadAt.
func openers(t *testing.T, name string) map[string]func(o *tensorfile.Options) (*tensorfile.File,
	error) {
	t.Helper()
	dir, base := filepath.Split(name)
	mem := fstest.MapFS{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		mem["sub/"+e.Name()] = &fstest.MapFile{Data: b}
	}
	return map[string]func(o *tensorfile.Options) (*tensorfile.File,
		error){
		"Open": func(o *tensorfile.Options) (*tensorfile.File, error) {
			return tensorfile.Open(name, o)
		},
		"OpenFS, DirFS": func(o *tensorfile.Options) (*tensorfile.File, error) {
			return tensorfile.OpenFS(os.DirFS(dir), base,
				o)
		},
		"OpenFS, MapFS": func(o *tensorfile.Options) (*tensorfile.File, error) {
			return tensorfile.OpenFS(mem, "sub/"+base, o)
		},
		"OpenFS, streams": func(o *tensorfile.Options) (*tensorfile.File, error) {
			return tensorfile.OpenFS(streamFS{mem}, "sub/"+base, o)
		},
	}
}

// A streamFS has files without ReadAt.
type streamFS struct{ fs.FS }

func (s streamFS) Open(name string) (fs.File, error) {
	f, err := s.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return struct{ fs.File }{f}, nil
}

func TestUnfinishedSetsAreReportedByAllWaysToOpen(t *testing.T) {
	for _, index := range killedSets(t) {
		for how, open := range openers(t, index) {
			f, err := open(nil)
			if err != nil {
				t.Errorf("%s: %s: %v", index, how, err)
				continue
			}
			warnings := f.Warnings()
			if len(warnings) != 1 || !errors.Is(warnings[0], tensor.ErrUnfinished) {
				t.Errorf("%s: %s: warnings %v", index, how, warnings)
			}
			report, err := f.Verify(t.Context(), nil)
			if err != nil || len(report.Findings) != 1 {
				t.Errorf("%s: %s: Verify: %v, %v", index, how, report.Findings,
					err)
			}
			f.Close()
			_, err = open(&tensorfile.Options{Strict: true})
			if !errors.Is(err, tensor.ErrUnfinished) {
				t.Errorf("%s: %s, Strict: %v", index, how, err)
			}
		}
		root, err := os.ReadFile(index)
		if err == nil {
			err = os.Remove(index)
		}
		if err != nil {
			t.Fatal(err)
		}
		for how, open := range openers(t, index) {
			_, err := open(nil)
			if tensor.ClassOf(err) != tensor.ClassUnfinished || errors.Is(err, fs.ErrNotExist) ||
				!strings.Contains(err.Error(), "tensorfile.Clean") {
				t.Errorf("%s: %s without an index: %v", index, how, err)
			}
		}
		// A journal that its writer did not complete: nothing was renamed.
		dir, base := filepath.Split(index)
		journal := filepath.Join(dir, "."+base+".tensorfile-journal")
		whole, err := os.ReadFile(journal)
		if err == nil {
			err = os.WriteFile(index, root, 0o666)
		}
		if err == nil {
			err = os.WriteFile(journal, whole[:len(whole)-1], 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
		for how, open := range openers(t, index) {
			f, err := open(&tensorfile.Options{Strict: true})
			if err != nil {
				t.Errorf("%s: %s, an incomplete journal: %v", index, how, err)
				continue
			}
			f.Close()
		}
		if err := os.WriteFile(journal, whole, 0o666); err != nil {
			t.Fatal(err)
		}
		list, err := tensorfile.Clean(t.Context(), dir, nil)
		if err != nil || len(list) != 4 || len(list[0].Writes) != 3 || list[0].Removes != nil {
			t.Errorf("%+v, %v", list, err)
		}
		list, err = tensorfile.Clean(t.Context(), dir, &tensorfile.CleanOptions{Remove: true})
		if err != nil || len(list) != 1 || list[0].State != "finished" {
			t.Errorf("%+v, %v", list, err)
		}
		for how, open := range openers(t, index) {
			f, err := open(&tensorfile.Options{Strict: true})
			if err != nil {
				t.Errorf("%s: %s, finished: %v", index, how, err)
				continue
			}
			if v, err := tensor.Load[float32](f.Tensor("b")); err != nil || v[0] != 2 {
				t.Errorf("%s: %s, finished: %v, %v", index, how, v, err)
			}
			f.Close()
		}
	}
}

// A file without ReadAt may have as many bytes as MaxDecoded says, and no more.
func TestOpenFSTakesFilesOfMaxDecodedBytes(t *testing.T) {
	b, err := os.ReadFile("testdata/safetensors/rank8.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	fsys := streamFS{fstest.MapFS{"x": {Data: b}, "empty": {}}}
	for _, c := range []struct {
		limit int
		fits  bool
	}{{len(b) - 1, false}, {len(b), true}, {len(b) + 1, true}, {1, false}} {
		f, err := tensorfile.OpenFS(fsys, "x",
			&tensorfile.Options{Limits: tensor.Limits{MaxDecoded: int64(c.limit)}})
		if c.fits != (err == nil) || err != nil && !errors.Is(err, tensor.ErrLimit) {
			t.Errorf("%d bytes, MaxDecoded is %d: %v", len(b), c.limit, err)
		}
		if err == nil {
			var got bytes.Buffer
			for x := range f.Tensors() {
				if _, err := x.Data.WriteTo(&got); err != nil {
					t.Error(err)
				}
			}
			if got.Len() != 32 {
				t.Errorf("%d bytes of data", got.Len())
			}
			f.Close()
		}
	}
}
