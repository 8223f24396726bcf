package command

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// copyDir copies the files of a directory, and returns the copy.
func copyDir(t *testing.T, from string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestFindingsNameTheFile damages one file of several, and looks for its name in what
// verify says of the directory, as text and as JSON.
func TestFindingsNameTheFile(t *testing.T) {
	tensors := tensor.Of(tensor.New("a", tensor.Shape{64}, make([]bool, 64)),
		tensor.New("b", tensor.Shape{64}, make([]bool, 64)))
	last := func(b []byte) []byte {
		b[len(b)-1] ^= 2
		return b
	}
	sharded := map[string]func(name string) error{
		"safetensors": func(name string) error {
			_, err := safetensors.WriteShards(t.Context(), name+".safetensors",
				tensors, &safetensors.ShardOptions{MaxSize: 64})
			return err
		},
		"ztensor": func(name string) error {
			_, err := ztensor.WriteShards(t.Context(), name+".zt",
				tensors, &ztensor.ShardOptions{MaxSize: 64})
			return err
		},
	}
	made := func(format string) string {
		dir := t.TempDir()
		if err := sharded[format](filepath.Join(dir, "model")); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	for _, c := range []struct {
		name, dir, file string
		damage          func(b []byte) []byte
		code            string
	}{
		{"an index and a shard with a bool that is none", made("safetensors"),
			"model-00002-of-00002.safetensors", last, ""},
		{"an index and a shard that ends early", made("safetensors"),
			"model-00002-of-00002.safetensors", func(b []byte) []byte { return b[:len(b)-1] },
			"truncated"},
		{"a root and a shard of other bytes", made("ztensor"), "model-00002.zt",
			func(b []byte) []byte {
				b[len(b)/2] ^= 1
				return b
			}, ""},
		{"a checkpoint of several files", copyDir(t, "../../testdata/torch/dcp"), "__1_0.distcp",
			func(b []byte) []byte {
				return bytes.Replace(b, []byte("data.pkl"), []byte("data.pkX"), 1)
			}, ""},
		{"checkpoints with an index", pickleDir(t), "b.bin", func(b []byte) []byte {
			b[offsetOf(t, "../../testdata/torch/protocol5.pt")] ^= 1
			return b
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			if s := run(t.Context(), []string{"verify", c.dir}, nil, &out, &out,
				os.Getenv); s != statusOK {
				t.Fatalf("undamaged: exit status %d\n%s", s, &out)
			}
			at := filepath.Join(c.dir, c.file)
			b, err := os.ReadFile(at)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(at, c.damage(b), 0o600); err != nil {
				t.Fatal(err)
			}
			out.Reset()
			run(t.Context(), []string{"verify", "--json", c.dir}, nil, &out, &out, os.Getenv)
			var d verifyDocument
			if err := json.Unmarshal(out.Bytes(), &d); err != nil || len(d.Findings) == 0 {
				t.Fatalf("%v\n%s", err, &out)
			}
			for _, f := range d.Findings {
				if f.File != c.file || f.Code != c.code {
					t.Errorf("a finding of the file %q with the code %q: %s", f.File, f.Code,
						f.Message)
				}
			}
			out.Reset()
			run(t.Context(), []string{"verify", c.dir}, nil, &out, &out, os.Getenv)
			if n := strings.Count(out.String(), c.file); n != len(d.Findings) {
				t.Errorf("%d findings name the file:\n%s", n, &out)
			}
		})
	}
}

// pickleDir makes a model of two checkpoints and an index.
func pickleDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	weights := map[string]string{}
	for name, from := range map[string]string{"a.bin": "one.pt", "b.bin": "protocol5.pt"} {
		b, err := os.ReadFile("../../testdata/torch/" + from)
		if err != nil {
			t.Fatal(err)
		}
		f, err := tensorfile.OpenBytes(b, nil)
		if err != nil {
			t.Fatal(err)
		}
		for x := range f.Tensors() {
			weights[x.Name] = name
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b, err := json.Marshal(map[string]any{"metadata": struct{}{}, "weight_map": weights})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "pytorch_model.bin.index.json"), b,
		0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// offsetOf returns where a tensor of a file begins.
func offsetOf(t *testing.T, name string) int64 {
	t.Helper()
	f, err := tensorfile.Open(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for x := range f.Tensors() {
		if st, ok := x.Data.Stored(); ok && st.Offset >= 0 {
			return st.Offset
		}
	}
	t.Fatal("no tensor")
	return 0
}

func TestAVersionOrByteOrderThatIsOnlyReadIsNamedWhereItChanges(t *testing.T) {
	b, err := os.ReadFile("../../testdata/gguf/metadata.gguf")
	if err != nil {
		t.Fatal(err)
	}
	b[4] = 2 // a version with the same layout
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in.gguf"), filepath.Join(dir, "out.gguf")
	if err := os.WriteFile(in, b, 0o666); err != nil {
		t.Fatal(err)
	}
	const note = "version 3; the version of the source, 2, is read and not written"
	checkCommand(t, 0, note, "edit", "--set", "a=b", in, out)
	checkCommand(t, 0, note, "convert", "--force", in, out)
	checkCommand(t, 0, "", "convert", "--force", out, filepath.Join(dir, "same.gguf"))
	const big, order = "../../testdata/gguf/order-big.gguf", "byte order of the source, big-endian"
	checkCommand(t, 0, order, "edit", "--force", "--set", "a=b", big, out)
	checkCommand(t, 0, order, "convert", "--force", big, out)
	checkCommand(t, 0, "byte_order: big-endian", "info", big)
	checkCommand(t, 0, "byte_order: little-endian", "info", out)
}
