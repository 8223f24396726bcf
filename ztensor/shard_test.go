package ztensor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
	"github.com/tensorfile/tensorfile/ztensor/internal/v2"
)

// sharded copies the sharded file of upstream to a directory of its own, in which
// change may do harm.
func sharded(t *testing.T, change func(dir string)) (*Reader, error) {
	t.Helper()
	return openSharded(t, nil, change)
}

func openSharded(t *testing.T, opts *ReaderOptions, change func(dir string)) (*Reader, error) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"crate-2.1.1-sharded.zt", "crate-2.1.1-sharded-00001.zt",
		"crate-2.1.1-sharded-vision.zt"} {
		b, err := os.ReadFile("../testdata/ztensor/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	change(dir)
	r, err := Open(filepath.Join(dir, "crate-2.1.1-sharded.zt"), opts)
	if err == nil {
		t.Cleanup(func() { r.Close() })
	}
	return r, err
}

func TestShardsThatAreNotWhatTheRootSaysAreRefused(t *testing.T) {
	const one = "crate-2.1.1-sharded-00001.zt"
	rename := func(to string) func(dir string) {
		return func(dir string) {
			to := filepath.Join(dir, to)
			if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(filepath.Join(dir, one), to); err != nil {
				t.Fatal(err)
			}
		}
	}
	edit := func(f func(b []byte) []byte) func(dir string) {
		return func(dir string) {
			name := filepath.Join(dir, one)
			b, err := os.ReadFile(name)
			if err == nil {
				err = os.WriteFile(name, f(b), 0o666)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name   string
		change func(dir string)
		read   bool   // its tensors can be read
		rule   string // of the finding; "" for none but that it is not there
		fine   bool   // nothing is found
	}{
		{"as it should be", func(string) {}, true, "", true},
		{"in a store", rename(
			"store/blobs/sha256/423d889f0340097e518ae70d1adf33f96f4b218594fe1c414678909a2244830c"),
			true, "", true},
		{"in a store of blobs",
			rename("blobs/sha256/423d889f0340097e518ae70d1adf33f96f4b218594fe1c414678909a2244830c"), true, "", true},
		{"under another name", rename("x.bin"), true, "", true},
		{"missing", func(dir string) { os.Remove(filepath.Join(dir, one)) }, false, "", false},
		{"in another directory", rename("deep/down/x.zt"), false, "", false},
		{"too short", edit(func(b []byte) []byte { return b[:len(b)-1] }), false,
			rule.ShardIdentity, false},
		{"of another format", edit(func(b []byte) []byte { return make([]byte, len(b)) }), false,
			rule.ShardIdentity, false},
		{"its manifest changed", edit(func(b []byte) []byte { b[len(b)-41] ^= 1; return b }),
			false, rule.ShardIdentity, false},
		{"its padding changed", edit(func(b []byte) []byte { b[100] ^= 1; return b }), true,
			rule.ShardIdentity, false},
		{"the root itself", func(dir string) {
			b, err := os.ReadFile(filepath.Join(dir, "crate-2.1.1-sharded.zt"))
			if err != nil {
				t.Fatal(err)
			}
			edit(func([]byte) []byte { return b })(dir)
		}, false, rule.ShardIdentity, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := sharded(t, c.change)
			if err != nil {
				t.Fatal("listing needs no shard:", err)
			}
			if _, err := r.Tensor("00001.w").Data.ReadAll(); err == nil != c.read {
				t.Error("reading:", err)
			}
			if _, err := r.Tensor("vision.z").Data.ReadAll(); err != nil {
				t.Error("the other shard:", err)
			}
			_, err = r.Verify(t.Context(), nil)
			var broken *rule.Error
			switch {
			case c.fine && err != nil, !c.fine && err == nil:
				t.Error(err)
			case c.rule != "" && (!errors.As(err, &broken) || broken.Rule != c.rule):
				t.Errorf("%v, not %s", err, c.rule)
			case !c.fine && c.rule == "" && !errors.Is(err, fs.ErrNotExist):
				t.Error(err)
			}
		})
	}
}

// A root may name any number of shards of the size of a file next to it: that file
// is read once for each algorithm nevertheless.
func TestShardsAreLookedForOnce(t *testing.T) {
	const n = 500
	dir := t.TempDir()
	shards := pairList{}
	for i := range n {
		shards = append(shards, fmt.Sprintf("s%03d", i),
			pairList{"size", 1 << 16, "digest",
				fmt.Sprintf("%s:%016x", []string{"xxh3", "sha256"}[i%2], i)})
	}
	root := filepath.Join(dir, "root.zt")
	if err := os.WriteFile(root,
		made{manifest: pairList{"shards", shards, "objects", pairList{}}}.file(),
		0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "big"), make([]byte, 1<<16), 0o666); err != nil {
		t.Fatal(err)
	}
	r, err := Open(root, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	report, err := r.Verify(t.Context(), nil)
	if got := len(report.Findings); got != n || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%d findings: %v", got, err)
	}
	second := r.f.Generation.(*v2.Container)
	if sums := second.Siblings.Sums; len(sums) != 2 {
		t.Errorf("digests of the file by two algorithms: %v", sums)
	}
	if err := os.Remove(filepath.Join(dir, "big")); err != nil { // it is not read again
		t.Fatal(err)
	}
	for i := range second.List {
		for name := range second.Siblings.Known(r.f.Input, &second.List[i]) {
			t.Errorf("%s is shard %d", name, i)
		}
	}
	if sums := second.Siblings.Sums; len(sums) != 2 {
		t.Errorf("digests of the file by two algorithms: %v", sums)
	}
}

// In Hugging Face's cache the files of a model are links to blobs.
func TestShardsThatAreLinksAreFollowed(t *testing.T) {
	outside := t.TempDir()
	names := []string{"crate-2.1.1-sharded.zt", "crate-2.1.1-sharded-00001.zt",
		"crate-2.1.1-sharded-vision.zt"}
	link := func(dir string) {
		for i, name := range names {
			blob := filepath.Join(outside, fmt.Sprint("sha", i))
			name = filepath.Join(dir, name)
			if err := os.Rename(name, blob); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(blob, name); err != nil {
				t.Skip("no links here: ", err)
			}
		}
	}
	for _, opts := range []*ReaderOptions{nil, {NoMap: true}} {
		r, err := openSharded(t, opts, link)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := r.Tensor("00001.w").Data.ReadAll(); err != nil || len(b) == 0 {
			t.Errorf("%d bytes, %v", len(b), err)
		}
		if _, err := r.Verify(t.Context(), nil); err != nil {
			t.Error(err)
		}
	}
	r, err := openSharded(t, &ReaderOptions{NoLinks: true}, link)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := r.Tensor("00001.w").Data.ReadAll(); err == nil {
		t.Errorf("%d bytes through a link", len(b))
	}
	if _, err := r.Verify(t.Context(), nil); err == nil {
		t.Error("a shard that is a link was verified")
	}
}

// From bytes there is no way to other files, unless the caller has one.
func TestShardsOfBytesAreNowhere(t *testing.T) {
	b, err := os.ReadFile("../testdata/ztensor/crate-2.1.1-sharded.zt")
	if err != nil {
		t.Fatal(err)
	}
	r, err := OpenBytes(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Tensor("00001.w").Data.ReadAll(); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := tensor.View[float32](r.Tensor("00001.w")); err == nil {
		t.Error("a view of what is not there")
	}
}

// A store of content may be a link, or below one.
func TestStoresThatAreLinksAreFollowedUnlessNoLinks(t *testing.T) {
	const sum = "423d889f0340097e518ae70d1adf33f96f4b218594fe1c414678909a2244830c"
	for _, link := range []string{"store", "store/blobs", "store/blobs/sha256", "blobs",
		"blobs/sha256"} {
		for _, noLinks := range []bool{false, true} {
			outside := t.TempDir()
			r, err := openSharded(t, &ReaderOptions{NoLinks: noLinks}, func(dir string) {
				full := "store/blobs/sha256/" + sum
				if link[0] == 'b' {
					full = full[len("store/"):]
				}
				inside := filepath.Join(outside, full[len(link):])
				if err := os.MkdirAll(filepath.Dir(inside), 0o777); err != nil {
					t.Fatal(err)
				}
				if err := os.Rename(filepath.Join(dir, "crate-2.1.1-sharded-00001.zt"),
					inside); err != nil {
					t.Fatal(err)
				}
				if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, link)), 0o777); err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink(outside, filepath.Join(dir, link)); err != nil {
					t.Skip("no links here: ", err)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if b, err := r.Tensor("00001.w").Data.ReadAll(); (err != nil) != noLinks {
				t.Errorf("%s: %d bytes, %v", link, len(b), err)
			}
		}
	}
}

// Two files that are each other's shards, and one that is its own: each is read
// once, and what a shard refers to is not followed.
func TestShardsInACircleAreReadOnce(t *testing.T) {
	dir := t.TempDir()
	root := func(name, shard string, size int) made {
		m := made{manifest: pairList{
			"shards", pairList{shard, pairList{"size", size, "digest", "xxh3:00"}},
			"objects", pairList{"w",
				object2Of("dense", []any{1}, "data",
					pairList{"blob", []any{4096, 1}, "dtype", "u8", "shard", shard})},
		}}
		if err := os.WriteFile(filepath.Join(dir, name), m.file(), 0o666); err != nil {
			t.Fatal(err)
		}
		return m
	}
	size := len(root("a.zt", "b", 1<<20).file()) // the number is as long as the right one
	root("a.zt", "b", size)
	root("a-b.zt", "a", size)
	root("x.zt", "x", size)
	root("x-x.zt", "x", size)
	for _, name := range []string{"a.zt", "x.zt"} {
		r, err := Open(filepath.Join(dir, name), nil)
		if err != nil {
			t.Fatal(err)
		}
		// byte 4096 of the other file
		if b, err := r.Tensor("w").Data.ReadAll(); err != nil || len(b) != 1 || b[0] != 0 {
			t.Error(b, err)
		}
		var broken *rule.Error
		if _, err := r.Verify(t.Context(), nil); !errors.As(err, &broken) ||
			broken.Rule != rule.ShardIdentity {
			t.Error("no file has the digest that it names:", err)
		}
		r.Close()
	}
}
