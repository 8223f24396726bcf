package model

import (
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
)

// The helpers of tests in several files.

// file32 is a safetensors file of float32 tensors of shape [4, 4], whose elements differ.
func file32(t testing.TB, names ...string) string {
	t.Helper()
	var all []*tensor.Tensor
	for i, n := range names {
		data := make([]float32, 16)
		for k := range data {
			data[k] = float32(i*16 + k)
		}
		all = append(all, tensor.New(n, tensor.Shape{4, 4}, data))
	}
	return fileOf(t, all...)
}

func fileOf(t testing.TB, all ...*tensor.Tensor) string {
	t.Helper()
	var b bytes.Buffer
	w := safetensors.NewWriter(&b, nil)
	if err := w.AddAll(context.Background(), tensor.Of(all...)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// index maps tensors to files: "a=1.safetensors".
func index(total int64, entries ...string) string {
	weights := map[string]string{}
	for _, e := range entries {
		name, file, _ := strings.Cut(e, "=")
		weights[name] = file
	}
	b, err := json.Marshal(map[string]any{"metadata": map[string]any{"total_size": total},
		"weight_map": weights})
	if err != nil {
		panic(err)
	}
	return string(b)
}

// header is a safetensors file with that header and so many bytes of data.
func header(json string, data int) string {
	return string(binary.LittleEndian.AppendUint64(nil, uint64(len(json)))) + json +
		strings.Repeat("\x00", data)
}

// gguf is a file of version 3 with metadata of uint16 (no, count) and int32 values.
func ggufFile(tensors []string, keys ...any) string {
	b := []byte("GGUF")
	u32 := func(n uint32) { b = binary.LittleEndian.AppendUint32(b, n) }
	u64 := func(n uint64) { b = binary.LittleEndian.AppendUint64(b, n) }
	str := func(s string) { u64(uint64(len(s))); b = append(b, s...) }
	u32(3)
	u64(uint64(len(tensors)))
	u64(uint64(len(keys) / 2))
	for i := 0; i < len(keys); i += 2 {
		str(keys[i].(string))
		switch v := keys[i+1].(type) {
		case uint16:
			u32(2)
			b = binary.LittleEndian.AppendUint16(b, v)
		case int32:
			u32(5)
			u32(uint32(v))
		case string:
			u32(8)
			str(v)
		}
	}
	for i, name := range tensors {
		str(name)
		u32(1)
		u64(8) // elements of float32
		u32(0)
		u64(uint64(32 * i))
	}
	for len(b)%32 != 0 {
		b = append(b, 0)
	}
	return string(b) + strings.Repeat("\x01\x00\x00\x00", 8*len(tensors))
}

// checkpoint is a file that torch.save wrote.
func checkpoint(t testing.TB) string {
	t.Helper()
	b, err := os.ReadFile("../testdata/torch/one.pt")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// link is a file in a fixture that is a symbolic link.
type link string

// fixture makes a file system; a directory's name ends in a slash.
func fixture(files map[string]any) fstest.MapFS {
	fsys := fstest.MapFS{}
	for name, v := range files {
		switch v := v.(type) {
		case string:
			fsys[name] = &fstest.MapFile{Data: []byte(v), Mode: 0o644}
		case link:
			fsys[name] = &fstest.MapFile{Data: []byte(v), Mode: fs.ModeSymlink | 0o777}
		case nil:
			fsys[strings.TrimSuffix(name, "/")] = &fstest.MapFile{Mode: fs.ModeDir | 0o755}
		}
	}
	return fsys
}

func openFixture(t testing.TB, files map[string]any, dir string, opts *Options) *Model {
	t.Helper()
	m, err := OpenFS(fixture(files), dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// shown are findings as "code file tensor", with a ? for warnings.
func shown(all []Finding) []string {
	lines := []string{}
	for _, f := range all {
		line := string(f.Code)
		if f.Severity == tensor.SeverityWarning {
			line += "?"
		}
		lines = append(lines,
			strings.TrimSpace(strings.Join([]string{line, f.File, f.Tensor}, " ")))
	}
	return lines
}

func wantFindings(t *testing.T, got []Finding, want ...string) {
	t.Helper()
	if !slices.Equal(shown(got), append([]string{}, want...)) {
		t.Errorf("findings:\n  %s\nwant:\n  %s", strings.Join(shown(got), "\n  "),
			strings.Join(want, "\n  "))
		for _, f := range got {
			t.Log(f)
		}
	}
}

// tiny is a sound model of three shards with two tensors each.
func tiny(t testing.TB) map[string]any {
	files := map[string]any{}
	var entries []string
	for i := range 3 {
		name := fmt.Sprintf("model-%05d-of-00003.safetensors", i+1)
		a, b := fmt.Sprintf("a%d", i), fmt.Sprintf("b%d", i)
		files[name] = file32(t, a, b)
		entries = append(entries, a+"="+name, b+"="+name)
	}
	files["model.safetensors.index.json"] = index(6*64, entries...)
	files["config.json"] = `{"architectures": ["Tiny"], "dtype": "float32"}`
	return files
}

func with(files map[string]any, changes map[string]any) map[string]any {
	all := maps.Clone(files)
	for name, v := range changes {
		if v == nil {
			delete(all, name)
		} else {
			all[name] = v
		}
	}
	return all
}

const (
	shard1 = "model-00001-of-00003.safetensors"
	shard2 = "model-00002-of-00003.safetensors"
	shard3 = "model-00003-of-00003.safetensors"
	indexJ = "model.safetensors.index.json"
)

const commit = "c0ffee0000000000000000000000000000000000"

// hub lays files out as Hugging Face's cache does: weights under SHA-256, others under
// the digest of git.
func hub(files map[string]any) map[string]any {
	const repo = "hub/models--acme--tiny"
	all := map[string]any{repo + "/refs/main": commit}
	for name, v := range files {
		data := v.(string)
		digest := fmt.Sprintf("%x", sha256.Sum256([]byte(data)))
		if !isWeights(name) {
			digest = fmt.Sprintf("%x",
				sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(data), data)))
		}
		all[repo+"/blobs/"+digest] = data
		up := strings.Repeat("../", 2+strings.Count(name, "/"))
		all[repo+"/snapshots/"+commit+"/"+name] = link(up + "blobs/" + digest)
	}
	return all
}

const (
	repository = "hub/models--acme--tiny"
	snapshot   = repository + "/snapshots/" + commit
)

// A counted FS counts what is opened and read.
type counted struct {
	fs.FS
	mu     sync.Mutex
	opened []string
	bytes  int64
}

func (c *counted) Open(name string) (fs.File, error) {
	f, err := c.FS.Open(name)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return f, nil
	}
	c.mu.Lock()
	c.opened = append(c.opened, name)
	c.mu.Unlock()
	return &countedFile{f, c}, nil
}

func (c *counted) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(c.FS, name) }

func (c *counted) Stat(name string) (fs.FileInfo, error) { return fs.Stat(c.FS, name) }

func (c *counted) Lstat(name string) (fs.FileInfo, error) { return fs.Lstat(c.FS, name) }

func (c *counted) ReadLink(name string) (string, error) { return fs.ReadLink(c.FS, name) }

type countedFile struct {
	fs.File
	c *counted
}

func (f *countedFile) count(n int) {
	f.c.mu.Lock()
	f.c.bytes += int64(n)
	f.c.mu.Unlock()
}

func (f *countedFile) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	f.count(n)
	return n, err
}

func (f *countedFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.(interface {
		ReadAt(p []byte, off int64) (int, error)
	}).ReadAt(p, off)
	f.count(n)
	return n, err
}
