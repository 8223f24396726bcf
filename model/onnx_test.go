package model

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

// onnxFile is a file of testdata/onnx: external.onnx has 5 tensors in external.bin, of
// 177 bytes.
func onnxFile(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("../testdata/onnx/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// checked returns the findings in a directory, each as a line.
func checked(t *testing.T, dir string) (lines []string, r *Report) {
	t.Helper()
	r, err := Check(t.Context(), dir, nil)
	if r == nil {
		t.Fatal(err)
	}
	for _, f := range r.Findings {
		lines = append(lines, f.Severity.String()+" "+f.File+" "+string(f.Code)+": "+f.Err.Error())
	}
	return lines, r
}

func TestCheckFindsWhatIsWrongWithTheDataOfAnONNXModel(t *testing.T) {
	model, data := onnxFile(t, "external.onnx"), onnxFile(t, "external.bin")
	replaced := func(old, new string) []byte {
		if len(old) != len(new) || strings.Count(string(model), old) != 5 {
			t.Fatalf("%q is not %q", new, old)
		}
		return []byte(strings.ReplaceAll(string(model), old, new))
	}
	aligned := "note external.bin unaligned-data: tensors begin at multiples of 1 bytes, not of " +
		"4096, as the format recommends"
	for what, c := range map[string]struct {
		model []byte
		data  []byte
		name  string // of data, if it is not external.bin
		want  []string
		also  string // what the last finding begins with
	}{
		"a sound model": {model: model, data: data, want: []string{aligned}},
		"no data": {model: model, want: []string{
			"error external.bin missing-shard: named by model.onnx for 5 tensors"}},
		"data that ends early": {model: model, data: data[:100], want: []string{
			"error external.bin truncated: 100 bytes, the tensors of model.onnx end at 177"}},
		"a pointer of Git LFS": {model: model,
			data: []byte("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 177\n"),
			want: []string{"error external.bin pointer-file: a pointer of Git LFS: the file " +
				"itself " +
				"was not fetched"}},
		"an HTML page": {model: model, data: []byte("<!DOCTYPE html><p>not found"), want: []string{
			"error external.bin wrong-format: an HTML page under this name"}},
		"a path out of the directory": {model: replaced("external.bin", "../tern1.bin"),
			data: data,
			want: slices.Repeat([]string{"error model.onnx unsafe-path"}, 5),
			also: "warning external.bin pickle"},
		"a directory below": {model: replaced("external.bin", "./ab/cd1.bin"), data: data,
			name: "ab/cd1.bin", want: []string{strings.Replace(aligned, "external.bin",
				"ab/cd1.bin", 1)}},
		"a name that a root of zTensor would give": {model: replaced("external.bin",
			"shard-02.bin"),
			data: data, name: "model-shard-02.bin", want: []string{
				"error shard-02.bin missing-shard: named by model.onnx for 5 tensors"},
			also: "warning model-shard-02.bin pickle"},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			write := func(name string, b []byte) {
				path := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, b, 0o666); err != nil {
					t.Fatal(err)
				}
			}
			write("model.onnx", c.model)
			if c.name == "" {
				c.name = "external.bin"
			}
			if c.data != nil {
				write(c.name, c.data)
			}
			got, r := checked(t, dir)
			if c.also != "" {
				i := slices.IndexFunc(got, func(s string) bool {
					return strings.HasPrefix(s,
						c.also)
				})
				if i < 0 {
					t.Fatalf("%q, not %q", got, c.also)
				}
				got = slices.Delete(got, i, i+1)
			}
			if len(got) != len(c.want) {
				t.Fatalf("%q, want %q", got, c.want)
			}
			for i := range got {
				if !strings.HasPrefix(got[i], c.want[i]) {
					t.Errorf("%q, want %q", got[i], c.want[i])
				}
			}
			hasErrors := slices.ContainsFunc(r.Findings, func(f Finding) bool {
				return f.Severity == tensor.SeverityError
			})
			if r.OK == hasErrors || len(r.Sets) == 0 || r.Tensors != 5 {
				t.Errorf("OK is %v, %d sets, %d tensors", r.OK, len(r.Sets), r.Tensors)
			}
		})
	}
}

// The data is verified together with the model, and belongs to it.
func TestCheckReadsTheDataOfAnONNXModel(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"external.onnx", "external.bin"} {
		if err := os.WriteFile(filepath.Join(dir, name), onnxFile(t, name), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	m, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if r, err := m.Check(t.Context(), &CheckOptions{Deep: true}); err != nil ||
		len(r.Findings) != 1 {
		t.Error(r.Findings, err)
	}
	whole, err := m.Whole()
	if err != nil || !slices.Equal(whole.Files, []string{"external.onnx", "external.bin"}) {
		t.Fatal(whole, err)
	}
	if v, err := tensor.Convert[float32](m.File().Tensor("used")); err != nil || len(v) != 12 {
		t.Error(v, err)
	}
}

// A link is read, and a note says which programs refuse it.
func TestCheckNotesLinksToTheDataOfAnONNXModel(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("making links needs a privilege there")
	}
	const (
		onnx = "a link: onnx refuses to read it, onnxruntime does not"
		both = "a link out of the directory of \"model.onnx\": onnx and onnxruntime refuse to " +
			"read it"
	)
	for what, c := range map[string]struct {
		files map[string]string // what they are, or with -> a link
		dir   string
		want  string // of the note
	}{
		"no link": {map[string]string{"model.onnx": "model",
			"external.bin": "data"}, ".", ""},
		"a hard link": {map[string]string{"model.onnx": "model", "external.bin": "=>w"}, ".",
			"a file of several names: onnx refuses to read it, onnxruntime does not"},
		"in the directory": {map[string]string{"model.onnx": "model", "external.bin": "->w",
			"w": "data"}, ".", onnx},
		"out of it": {map[string]string{"m/model.onnx": "model",
			"m/external.bin": "->../w", "w": "data"}, "m", both},
		"the model is a link": {map[string]string{"m/model.onnx": "->../x", "x": "model",
			"m/external.bin": "data"}, "m", ""},
		"a snapshot of the Hub": {map[string]string{
			"models--o--m/refs/main": "c0", "models--o--m/blobs/x": "model",
			"models--o--m/blobs/w":                   "data",
			"models--o--m/snapshots/c0/model.onnx":   "->../../blobs/x",
			"models--o--m/snapshots/c0/external.bin": "->../../blobs/w"}, "models--o--m", onnx},
		"a store that repositories share": {map[string]string{
			"models--o--m/refs/main": "c0", "blobs/a/x": "model", "blobs/b/w": "data",
			"models--o--m/blobs/x":                   "->../../blobs/a/x",
			"models--o--m/blobs/w":                   "->../../blobs/b/w",
			"models--o--m/snapshots/c0/model.onnx":   "->../../blobs/x",
			"models--o--m/snapshots/c0/external.bin": "->../../blobs/w"}, "models--o--m", both},
	} {
		t.Run(what, func(t *testing.T) {
			root := t.TempDir()
			for name, content := range c.files {
				path := filepath.Join(root, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
					t.Fatal(err)
				}
				var err error
				switch target, isLink := strings.CutPrefix(content, "->"); {
				case isLink:
					err = os.Symlink(target, path)
				case content == "=>w":
					name := filepath.Join(root, "w")
					if err = os.WriteFile(name, onnxFile(t, "external.bin"), 0o666); err == nil {
						err = os.Link(name, path)
					}
				case content == "model":
					err = os.WriteFile(path, onnxFile(t, "external.onnx"), 0o666)
				case content == "data":
					err = os.WriteFile(path, onnxFile(t, "external.bin"), 0o666)
				default:
					err = os.WriteFile(path, []byte(content), 0o666)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			_, r := checked(t, filepath.Join(root, c.dir))
			note := ""
			for _, f := range r.Findings {
				if f.Code == RefusedLink {
					note = f.Err.Error()
				}
			}
			if note != c.want || !r.OK || r.Tensors != 5 {
				t.Errorf("%q, want %q; OK is %v, %d tensors: %v", note, c.want, r.OK, r.Tensors,
					r.Findings)
			}
		})
	}
}
