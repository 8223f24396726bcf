package model

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

func TestSnapshotOfACacheIsCheckedByItsDigests(t *testing.T) {
	files := hub(with(tiny(t), map[string]any{"README.md": "tiny", "onnx/model.onnx": "x"}))
	for _, dir := range []string{repository, snapshot} {
		m := openFixture(t, files, dir, nil)
		wantFindings(t, m.Findings())
		r, err := m.Check(t.Context(), &CheckOptions{Deep: true})
		if err != nil || r.Kind != "hf-snapshot" || r.Repository != "acme/tiny" ||
			r.Commit != commit || r.Read.Hashed != 7 || r.Shards != 3 {
			t.Errorf("%+v, %v", r, err)
		}
	}
}

func blob(files map[string]any, name string) string {
	return path.Join(repository,
		strings.TrimPrefix(string(files[snapshot+"/"+name].(link)), "../../"))
}

func TestDamagedCachesAreFindings(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(files map[string]any)
		dir    string
		want   []string
		deep   []string
	}{
		{"a blob with other bytes", func(f map[string]any) {
			b := blob(f, shard2)
			f[b] = strings.Replace(f[b].(string), "\x00\x00\x80\x3f", "\x00\x00\x80\x3e", 1)
		}, repository, nil, []string{"blob-name " + shard2}},
		{"a cut blob", func(f map[string]any) { b := blob(f, shard2); f[b] = f[b].(string)[:200] },
			repository,
			[]string{"truncated " + shard2},
			[]string{"blob-name " + shard2, "truncated " + shard2}},
		{"a changed README", func(f map[string]any) { f[blob(f, "README.md")] = "other" },
			snapshot, nil, []string{"blob-name README.md"}},
		{"a blob is gone", func(f map[string]any) { delete(f, blob(f, shard2)) }, repository,
			[]string{"dangling-link " + shard2}, []string{"dangling-link " + shard2}},
		{"a ref without snapshot",
			func(f map[string]any) { f[repository+"/refs/pr/3"] = strings.Repeat("ab", 20) },
			repository,
			[]string{"missing-snapshot snapshots/" + strings.Repeat("ab", 20)},
			[]string{"missing-snapshot snapshots/" + strings.Repeat("ab", 20)}},
		{"main without snapshot, the only one is checked",
			func(f map[string]any) { f[repository+"/refs/main"] = strings.Repeat("ab", 20) },
			repository,
			[]string{"missing-snapshot snapshots/" + strings.Repeat("ab", 20)},
			[]string{"missing-snapshot snapshots/" + strings.Repeat("ab", 20)}},
		{"an incomplete download",
			func(f map[string]any) { f[repository+"/blobs/00.1a2b3c4d.incomplete"] = "x" },
			snapshot,
			[]string{"incomplete-download? ../../blobs/00.1a2b3c4d.incomplete"},
			[]string{"incomplete-download? ../../blobs/00.1a2b3c4d.incomplete"}},
		{"a tree with another size", func(f map[string]any) {
			f[repository+"/trees/"+commit+
				".json"] = `{"format_version":1,"files":{"README.md":{"size":5,"blob_id":"00"},"gone":{"size":5,"blob_id":"00"}}}`
		}, snapshot, []string{"size-mismatch README.md"}, []string{"size-mismatch README.md"}},
		{"a changed blob, which a tree lists too", func(f map[string]any) {
			b := blob(f, shard2)
			f[repository+"/trees/"+commit+
				".json"] = fmt.Sprintf(
				`{"files":{"%s":{"size":%d,"blob_id":"00","lfs_sha256":"%s"}}}`, shard2,
				len(f[b].(string)), path.Base(b))
			f[b] = strings.Replace(f[b].(string), "\x00\x00\x80\x3f", "\x00\x00\x80\x3e", 1)
		}, repository, nil, []string{"blob-name " + shard2}},
		{"a tree that is no JSON",
			func(f map[string]any) { f[repository+"/trees/"+commit+".json"] = `{` }, snapshot, nil,
			nil},
		{"a link out of the cache", func(f map[string]any) {
			f["other/model.safetensors"] = f[blob(f, shard2)]
			f[snapshot+"/"+shard2] = link("../../../../other/model.safetensors")
		}, snapshot, []string{"outside-link? " + shard2}, []string{"outside-link? " + shard2}},
		{"a store that repositories share", func(f map[string]any) {
			b := blob(f, shard2)
			f["hub/blobs/ab/abcd"] = f[b]
			f[b] = link("../../blobs/ab/abcd")
		}, snapshot, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := hub(with(tiny(t), map[string]any{"README.md": "tiny"}))
			c.change(files)
			m := openFixture(t, files, c.dir, nil)
			wantFindings(t, m.Findings(), c.want...)
			r, _ := m.Check(t.Context(), &CheckOptions{Deep: true})
			wantFindings(t, r.Findings, c.deep...)
		})
	}
}

func TestRevisionsNameTheirSnapshot(t *testing.T) {
	files := hub(tiny(t))
	other := strings.Repeat("cd", 20)
	files[repository+"/snapshots/"+other+"/model.safetensors"] = file32(t, "z")
	files[repository+"/refs/pr/1"] = other + "\n"
	fsys := fixture(files)
	for revision, want := range map[string]string{"": commit, "main": commit, "pr/1": other,
		other: other} {
		m, err := OpenFS(fsys, repository, &Options{Revision: revision})
		if err != nil || m.cache.commit != want {
			t.Errorf("%s: %v", revision, err)
		}
	}
	for _, revision := range []string{"gone", "../..", "pr"} {
		if _, err := OpenFS(fsys, repository, &Options{Revision: revision}); err == nil {
			t.Errorf("revision %s is opened", revision)
		}
	}
	if _, err := OpenFS(fixture(tiny(t)), ".", &Options{Revision: "main"}); err == nil {
		t.Error("a plain directory has no revisions")
	}
	delete(fsys, repository+"/refs/main")
	if _, err := OpenFS(fsys, repository, nil); err == nil {
		t.Error("one of two snapshots was taken")
	}
	m, err := OpenFS(fstest.MapFS(fixture(map[string]any{repository + "/refs/main": commit,
		repository + "/snapshots/": nil})), repository, nil)
	if err != nil {
		t.Fatal(err)
	}
	wantFindings(t, m.Findings(), "missing-snapshot snapshots/"+commit)
}

func TestLocalDirectoryIsCheckedByItsDownloadMetadata(t *testing.T) {
	files := with(tiny(t), map[string]any{"README.md": "tiny"})
	const meta = ".cache/huggingface/download/"
	for name, v := range tiny(t) {
		if isWeights(name) {
			files[meta+name+".metadata"] = fmt.Sprintf("%s\n%x\n1700000000.0\n", commit,
				sha256.Sum256([]byte(v.(string))))
		}
	}
	files[meta+"README.md.metadata"] = commit + "\n" + strings.Repeat("00", 20) + "\n1.0\n"
	files[".cache/huggingface/trees/"+commit+
		".json"] = `{"files":{"README.md":{"size":5,"blob_id":"00"},"` + shard1 +
		`":{"size":5,"blob_id":"00"}}}`
	m := openFixture(t, files, ".", nil)
	wantFindings(t, m.Findings(), "size-mismatch? README.md", "size-mismatch "+shard1)
	files[shard2] = strings.Replace(files[shard2].(string), "\x00\x00\x80\x3f", "\x00\x00\x80\x3e",
		1)
	r, _ := openFixture(t, files, ".", nil).Check(t.Context(), &CheckOptions{Deep: true})
	wantFindings(t, r.Findings, "digest-mismatch? README.md", "size-mismatch? README.md",
		"size-mismatch "+shard1, "digest-mismatch "+shard2)
}

// TestCacheOnDiskIsFollowedThroughItsLinks does with links of the system what the other
// tests do without.
func TestCacheOnDiskIsFollowedThroughItsLinks(t *testing.T) {
	dir := t.TempDir()
	files := hub(with(tiny(t), map[string]any{"README.md": "tiny"}))
	files[snapshot+"/extra.safetensors"] = link(filepath.Join(dir, "elsewhere.safetensors"))
	files["elsewhere.safetensors"] = file32(t, "x")
	files["alias"] = link(snapshot)
	for name, v := range files {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		var err error
		switch v := v.(type) {
		case string:
			err = os.WriteFile(name, []byte(v), 0o644)
		case link:
			err = os.Symlink(filepath.FromSlash(string(v)), name)
		}
		if err != nil {
			t.Skip("no links here: ", err)
		}
	}
	for _, name := range []string{repository, snapshot, "alias"} {
		r, err := Check(t.Context(), filepath.Join(dir, filepath.FromSlash(name)),
			&CheckOptions{Deep: true})
		if err != nil || r.Commit != commit || r.Tensors != 6 || r.Read.Hashed != 6 {
			t.Fatalf("%s: %+v, %v", name, r, err)
		}
		wantFindings(t, r.Findings, "orphan-file? extra.safetensors",
			"outside-link? extra.safetensors")
	}
	circle := filepath.Join(dir, filepath.FromSlash(snapshot), "circle.safetensors")
	if err := os.Symlink("circle.safetensors", circle); err != nil {
		t.Fatal(err)
	}
	r, _ := Check(t.Context(), filepath.Dir(circle), nil)
	wantFindings(t, r.Findings, "dangling-link circle.safetensors",
		"orphan-file? circle.safetensors", "orphan-file? extra.safetensors",
		"outside-link? extra.safetensors")
	os.Remove(circle)
	m, err := Open(filepath.Join(dir, filepath.FromSlash(snapshot)), &Options{NoLinks: true})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	wantFindings(t, m.Findings(), "orphan-file? extra.safetensors",
		"outside-link extra.safetensors")
	if err := os.Remove(filepath.Join(dir, filepath.FromSlash(blob(files, shard2)))); err != nil {
		t.Fatal(err)
	}
	r, err = Check(t.Context(), filepath.Join(dir, filepath.FromSlash(repository)), nil)
	if err == nil {
		t.Error("no error")
	}
	wantFindings(t, r.Findings, "orphan-file? extra.safetensors",
		"outside-link? extra.safetensors", "dangling-link "+shard2)
}
