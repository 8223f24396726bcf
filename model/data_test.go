package model

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// large is a model of n shards of 1 MiB each.
func large(t testing.TB, n int) map[string]any {
	files := map[string]any{}
	var entries []string
	for i := range n {
		name, a := fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, n), fmt.Sprintf("t%d", i)
		files[name] = header(
			fmt.Sprintf(`{"%s":{"dtype":"F32","shape":[512,512],"data_offsets":[0,1048576]}}`, a),
			1<<20)
		entries = append(entries, a+"="+name)
	}
	files[indexJ] = index(int64(n)<<20, entries...)
	return files
}

func TestOpeningReadsHeadersOnce(t *testing.T) {
	const shards = 20
	fsys := &counted{FS: fixture(large(t, shards))}
	m, err := OpenFS(fsys, ".", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	wantFindings(t, m.Findings())
	if len(fsys.opened) != shards+1 {
		t.Errorf("%d files were opened: %q", len(fsys.opened), fsys.opened)
	}
	if limit := int64(shards*(64<<10) + 8<<10); fsys.bytes > limit {
		t.Errorf("%d bytes were read, more than %d", fsys.bytes, limit)
	}
	r, err := m.Check(t.Context(), nil)
	if err != nil || r.Read.Files != shards+1 || r.Read.Bytes > 8<<10 {
		t.Errorf("%+v, %v", r.Read, err)
	}
}

func TestDeepReadsEveryByteOnce(t *testing.T) {
	files := large(t, 3)
	var sums strings.Builder
	for name, data := range files {
		if strings.HasSuffix(name, ".safetensors") {
			fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256([]byte(data.(string))), name)
		}
	}
	fsys := &counted{FS: fixture(files)}
	m, err := OpenFS(fsys, ".", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	fsys.opened, fsys.bytes = nil, 0
	var progress []int64
	r, err := m.Check(t.Context(), &CheckOptions{Deep: true, Manifest: []byte(sums.String()),
		Progress: func(done, total int64) { progress = append(progress, done, total) }})
	if err != nil || r.Read.Hashed != 3 {
		t.Errorf("%+v, %v", r, err)
	}
	wantFindings(t, r.Findings, "manifest-extra? "+indexJ)
	if len(fsys.opened) != 3 {
		t.Errorf("%d files were opened to be hashed", len(fsys.opened))
	}
	n := len(progress)
	if n < 6 || progress[n-2] < progress[n-1]*9/10 {
		t.Errorf("progress %d", progress)
	}
}

func TestCheckEndsWithItsContext(t *testing.T) {
	m := openFixture(t, tiny(t), ".", nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r, err := m.Check(ctx, &CheckOptions{Deep: true}); r != nil ||
		!errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestManifestsAreCompared(t *testing.T) {
	files := tiny(t)
	sum := func(name string) string {
		return fmt.Sprintf("%x", sha256.Sum256([]byte(files[name].(string))))
	}
	git := func(name string) string {
		return fmt.Sprintf("%x",
			sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(files[name].(string)), files[name])))
	}
	size := func(name string) int { return len(files[name].(string)) }
	all := fmt.Sprintf("# made by sha256sum\n%s  %s\n%s *%s\nSHA256 (%s) = %s\n", sum(shard1),
		shard1, sum(shard2), shard2, shard3, sum(shard3))
	rest := fmt.Sprintf("%s  %s\n", sum(indexJ), indexJ)
	tree := func(shard2Size int, oid string) string {
		return fmt.Sprintf(`[{"type":"directory","path":"d","oid":"x"},{"type":"file","path":"%s","size":%d,"oid":"%s","lfs":{"oid":"%s","size":%d}},
			{"type":"file","path":"%s","size":%d,"oid":"00","lfs":{"oid":"%s","size":%d}}]
			[{"type":"file","path":"%s","size":%d,"oid":"00","lfs":{"oid":"%s","size":%d}},{"type":"file","path":"%s","size":%d,"oid":"%s"}]`,
			shard1, size(shard1), git(shard1), sum(shard1), size(shard1), shard2, shard2Size,
			sum(shard2), shard2Size,
			shard3, size(shard3), sum(shard3), size(shard3), indexJ, size(indexJ), oid)
	}
	stored := fmt.Sprintf(`{"format_version":1,"files":{"%s":{"size":%d,"blob_id":"00","lfs_sha256":"%s","lfs_size":%d},"%s":{"size":%d,"blob_id":"%s"},
		"%s":{"size":%d,"blob_id":"%s"},"%s":{"size":%d,"blob_id":"%s"}}}`,
		shard1, 130, sum(shard1), size(shard1), shard2, size(shard2), git(shard2), shard3,
		size(shard3), git(shard3), indexJ, size(indexJ), git(indexJ))
	changed := strings.Replace(all, sum(shard2), sum(shard1), 1)
	for _, c := range []struct {
		name, manifest string
		want           []string
		shallow        []string // where Deep is off
	}{
		{"sums", all + rest, nil, nil},
		{"CRLF and spaces", strings.ReplaceAll(all+rest, "\n", "\r\n") + "\n \n", nil, nil},
		{"a wrong sum", changed + rest, []string{"digest-mismatch " + shard2}, nil},
		{"not all weights", rest,
			[]string{"manifest-extra? " + shard1, "manifest-extra? " + shard2,
				"manifest-extra? " + shard3},
			[]string{"manifest-extra? " + shard1, "manifest-extra? " + shard2,
				"manifest-extra? " + shard3}},
		{"a file that is gone", all + rest + sum(shard1) + "  gone.safetensors\n",
			[]string{"manifest-missing gone.safetensors"},
			[]string{"manifest-missing gone.safetensors"}},
		{"lines that are none", "hello\n" + sum(shard1) + "\n" + all + rest,
			[]string{"manifest-malformed", "manifest-malformed"},
			[]string{"manifest-malformed", "manifest-malformed"}},
		{"a path out of the directory", sum(shard1) + "  ../x\n" + all + rest,
			[]string{"manifest-malformed"}, []string{"manifest-malformed"}},
		{"an escaped name", `\` + sum(shard1) + `  a\\b` + "\n" + all + rest,
			[]string{"manifest-malformed"}, []string{"manifest-malformed"}},
		{"a tree of the Hub", tree(size(shard2), git(indexJ)), nil, nil},
		{"a tree with another size", tree(5, git(indexJ)), []string{"size-mismatch " + shard2},
			[]string{"size-mismatch " + shard2}},
		{"a tree with another commit of the index", tree(size(shard2), git(shard1)),
			[]string{"digest-mismatch " + indexJ}, nil},
		{"a tree with more files",
			tree(size(shard2),
				git(indexJ)) + `[{"type":"file","path":"gone.bin","size":1,"oid":"00"}]`,
			[]string{"manifest-missing? gone.bin"}, []string{"manifest-missing? gone.bin"}},
		{"a cut tree", tree(size(shard2), git(indexJ)) + `[{"type"`,
			[]string{"manifest-malformed"}, []string{"manifest-malformed"}},
		{"a tree entry without size", `[{"path":"x"}]` + tree(size(shard2), git(indexJ)),
			[]string{"manifest-malformed"}, []string{"manifest-malformed"}},
		{"a stored tree", stored, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := openFixture(t, files, ".", nil)
			r, _ := m.Check(t.Context(), &CheckOptions{Deep: true, Manifest: []byte(c.manifest)})
			wantFindings(t, r.Findings, c.want...)
			r, _ = m.Check(t.Context(), &CheckOptions{Manifest: []byte(c.manifest)})
			wantFindings(t, r.Findings, c.shallow...)
			wantFindings(t, m.Findings())
		})
	}
}

func TestCheckFindsSuspiciousValues(t *testing.T) {
	inf := float32(math.Inf(1))
	same := func(v float32, n int) []float32 { return slices.Repeat([]float32{v}, n) }
	square := tensor.Shape{4, 4}
	files := map[string]any{
		"model.safetensors": fileOf(t,
			tensor.New("bias", tensor.Shape{16}, same(0, 16)),
			tensor.New("constant", square, same(2, 16)),
			tensor.New("few", tensor.Shape{3, 5}, same(0, 15)),
			tensor.New("half", tensor.Shape{2}, []tensor.Float16{0x7c01, 0x3c00}),
			tensor.New("inf", tensor.Shape{3}, []float32{inf, 1, -inf}),
			tensor.New("ints", square, make([]int32, 16)),
			tensor.New("nan", tensor.Shape{3}, []float64{1, math.NaN(), math.NaN()}),
			tensor.New("zero", square, same(0, 16))),
		"adapter_model.safetensors": fileOf(t, tensor.New("lora_B", square, same(0, 16))),
	}
	m := openFixture(t, files, ".", nil)
	r, err := m.Check(t.Context(), &CheckOptions{Values: true})
	wantFindings(t, r.Findings, "all-zero? model.safetensors zero",
		"constant? model.safetensors constant",
		"inf? model.safetensors inf", "nan model.safetensors half", "nan model.safetensors nan")
	if err == nil || r.OK {
		t.Error(err)
	}
	counts := map[string]int64{}
	for _, f := range r.Findings {
		counts[f.Tensor] = f.Count
	}
	if counts["nan"] != 2 || counts["half"] != 1 || counts["inf"] != 2 || counts["zero"] != 0 {
		t.Errorf("%v", counts)
	}
}

func TestDeepFindsDamageInside(t *testing.T) {
	bools := fileOf(t, tensor.New("b", tensor.Shape{2}, []bool{true, false}))
	m := openFixture(t, map[string]any{"model.safetensors": bools[:len(bools)-1] + "\x07"}, ".",
		nil)
	wantFindings(t, m.Findings())
	r, err := m.Check(t.Context(), &CheckOptions{Deep: true})
	wantFindings(t, r.Findings, "malformed model.safetensors b")
	if !errors.Is(err, tensor.ErrMalformed) {
		t.Error(err)
	}
}

// zt writes a root of zTensor 2 and its shards into a directory.
func zt(t *testing.T) (dir string, names []string) {
	t.Helper()
	dir = t.TempDir()
	w := func(name string, v float32) *tensor.Tensor {
		return tensor.New(name, tensor.Shape{4, 4}, slices.Repeat([]float32{v}, 16))
	}
	names = writeZT(t, filepath.Join(dir, "model.zt"), w("a", 1), w("b", 2), w("c", 3))
	if len(names) != 4 {
		t.Fatal(names)
	}
	return dir, names
}

func TestZTensorRootAndItsShardsAreChecked(t *testing.T) {
	dir, names := zt(t)
	for _, fsys := range []func() (*Model, error){
		func() (*Model, error) { return Open(dir, nil) },
		func() (*Model, error) {
			return OpenFS(os.DirFS(filepath.Dir(dir)), filepath.Base(dir),
				nil)
		},
	} {
		m, err := fsys()
		if err != nil {
			t.Fatal(err)
		}
		r, err := m.Check(t.Context(), &CheckOptions{Deep: true})
		if err != nil || r.Tensors != 3 || r.Shards != 4 || len(r.Sets) != 1 {
			t.Errorf("%+v, %v", r, err)
		}
		if v, err := tensor.Load[float32](m.File().Tensor("b")); err != nil || v[3] != 2 {
			t.Errorf("%v, %v", v, err)
		}
		m.Close()
	}
	damage(t, names[1])
	r, err := Check(t.Context(), dir, &CheckOptions{Deep: true})
	if err == nil || !slices.ContainsFunc(r.Findings,
		func(f Finding) bool { return f.Code == Checksum }) {
		t.Errorf("%v", shown(r.Findings))
	}
	if err := os.Remove(names[1]); err != nil {
		t.Fatal(err)
	}
	m, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	wantFindings(t, m.Findings(), "missing-shard "+filepath.Base(names[1]))
}

// damage changes a byte in the data of a file.
func damage(t *testing.T, name string) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	f, err := tensorfile.OpenBytes(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	at := int64(-1)
	for x := range f.Tensors() {
		if s, ok := x.Data.Stored(); ok && at < 0 {
			at = s.Offset
		}
	}
	b[at] ^= 1
	if err := os.WriteFile(name, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestErrorsOfFilesAreFindings(t *testing.T) {
	if os.Getuid() <= 0 {
		t.Skip("this user may read everything")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "model.safetensors"), []byte(file32(t, "a")),
		0); err != nil {
		t.Fatal(err)
	}
	m, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	wantFindings(t, m.Findings(), "unreadable model.safetensors")
}

func writeZT(t *testing.T, name string, ts ...*tensor.Tensor) []string {
	t.Helper()
	names, err := ztensor.WriteShards(t.Context(), name, tensor.Of(ts...),
		&ztensor.ShardOptions{MaxSize: 64})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestChecksMayWorkAtTheSameTime(t *testing.T) {
	m := openFixture(t, hub(tiny(t)), repository, nil)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			r, err := m.Check(context.Background(), &CheckOptions{Deep: true, Values: true,
				Manifest: []byte(`[{"path":"gone","size":1},{"path":"` + shard1 + `","size":1}]`)})
			if err == nil || len(r.Findings) != 5 {
				t.Errorf("%v, %v", shown(r.Findings), err)
			}
			for range m.Sets() {
				m.Summary()
			}
			m.File().Tensor("b2")
		})
	}
	wg.Wait()
}

// Every exported accessor is safe for concurrent use. The race detector reports what is
// not.
func TestAccessorsAreSafeForConcurrentUse(t *testing.T) {
	called := map[string]bool{}
	for dir, files := range map[string]map[string]any{repository: hub(tiny(t)), ".": tiny(t)} {
		m := openFixture(t, files, dir, nil)
		maps.Copy(called, readtest.Accessors(t, m, "b2"))
	}
	for _, method := range []string{"*model.Model.Check", "*model.Model.File",
		"*model.Model.Summary",
		"*tensorfile.File.Verify", "*tensor.Tensor.Check", "tensor.Blob.ReadAll"} {
		if !called[method] {
			t.Errorf("%s was not called, but %q", method, slices.Sorted(maps.Keys(called)))
		}
	}
}
