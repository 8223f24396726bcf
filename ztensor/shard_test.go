package ztensor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

// sharded copies the sharded file of upstream to a folder of its own, in which
// change may do harm.
func sharded(t *testing.T, change func(dir string)) (*Reader, error) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"crate-2.1.1-sharded.zt", "crate-2.1.1-sharded-00001.zt", "crate-2.1.1-sharded-vision.zt"} {
		b, err := os.ReadFile("../testdata/ztensor/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	change(dir)
	r, err := Open(filepath.Join(dir, "crate-2.1.1-sharded.zt"), nil)
	if err == nil {
		t.Cleanup(func() { r.Close() })
	}
	return r, err
}

func TestShardsThatAreNotWhatTheRootSays(t *testing.T) {
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
		{"in a store", rename("store/blobs/sha256/423d889f0340097e518ae70d1adf33f96f4b218594fe1c414678909a2244830c"), true, "", true},
		{"in a store of blobs", rename("blobs/sha256/423d889f0340097e518ae70d1adf33f96f4b218594fe1c414678909a2244830c"), true, "", true},
		{"under another name", rename("x.bin"), true, "", true},
		{"missing", func(dir string) { os.Remove(filepath.Join(dir, one)) }, false, "", false},
		{"in another folder", rename("deep/down/x.zt"), false, "", false},
		{"too short", edit(func(b []byte) []byte { return b[:len(b)-1] }), false, ruleShardIdentity, false},
		{"of another format", edit(func(b []byte) []byte { return make([]byte, len(b)) }), false, ruleShardIdentity, false},
		{"its manifest changed", edit(func(b []byte) []byte { b[len(b)-41] ^= 1; return b }), false, ruleShardIdentity, false},
		{"its padding changed", edit(func(b []byte) []byte { b[100] ^= 1; return b }), true, ruleShardIdentity, false},
		{"the root itself", func(dir string) {
			b, err := os.ReadFile(filepath.Join(dir, "crate-2.1.1-sharded.zt"))
			if err != nil {
				t.Fatal(err)
			}
			edit(func([]byte) []byte { return b })(dir)
		}, false, ruleShardIdentity, false},
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
			err = r.Verify(t.Context(), nil)
			var rule *RuleError
			switch {
			case c.fine && err != nil, !c.fine && err == nil:
				t.Error(err)
			case c.rule != "" && (!errors.As(err, &rule) || rule.Rule != c.rule):
				t.Errorf("%v, not %s", err, c.rule)
			case !c.fine && c.rule == "" && !errors.Is(err, fs.ErrNotExist):
				t.Error(err)
			}
		})
	}
}

// A link to a file elsewhere is no way out of the folder.
func TestShardsDoNotLeadOutOfTheFolder(t *testing.T) {
	outside := t.TempDir()
	r, err := sharded(t, func(dir string) {
		name := filepath.Join(dir, "crate-2.1.1-sharded-00001.zt")
		if err := os.Rename(name, filepath.Join(outside, "x.zt")); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(outside, "x.zt"), name); err != nil {
			t.Skip("no links here: ", err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if b, err := r.Tensor("00001.w").Data.ReadAll(); err == nil {
		t.Errorf("%d bytes from outside of the folder", len(b))
	}
	if err := r.Verify(t.Context(), nil); err == nil {
		t.Error("a shard outside of the folder was verified")
	}
}

// From bytes there is no way to other files, unless the caller has one.
func TestShardsOfBytes(t *testing.T) {
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
