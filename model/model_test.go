package model

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"regexp"

	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/bridge/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
)

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

func TestSoundDirectories(t *testing.T) {
	weights := file32(t, "a", "b")
	for name, files := range map[string]map[string]any{
		"shards and an index": tiny(t),
		"one file":            {"model.safetensors": weights, "README.md": "x"},
		"an adapter": {"adapter_model.safetensors": weights,
			"adapter_config.json": "{}"},
		"an index of one file": {"m.safetensors": weights,
			indexJ: index(128, "a=m.safetensors", "b=m.safetensors")},
		"an index into a directory": {"sub/m.safetensors": weights,
			indexJ: index(128, "a=sub/m.safetensors", "b=./sub/m.safetensors")},
		"a variant of the index": {"model.fp16-00001-of-00001.safetensors": weights,
			"model.safetensors.index.fp16.json": index(128,
				"a=model.fp16-00001-of-00001.safetensors",
				"b=model.fp16-00001-of-00001.safetensors")},
		"two layouts": with(tiny(t),
			map[string]any{"consolidated.safetensors": weights,
				"model.fp16.safetensors": weights}),
		"GGUF splits": {"m-00001-of-00002.gguf": ggufFile([]string{"a"}, "split.no", uint16(0),
			"split.count", uint16(2), "split.tensors.count", int32(2)),
			"m-00002-of-00002.gguf": ggufFile([]string{"b"}, "split.no", uint16(1), "split.count",
				uint16(2), "split.tensors.count", int32(2))},
		"a GGUF file": {"m.gguf": ggufFile([]string{"a"})},
		"a trainer's state": {"model.safetensors": weights, "optimizer.bin": "",
			"rng_state_0.pth": "", "training_args.bin": "x"},
		"an index with float": {"m.safetensors": weights,
			indexJ: `{"metadata":{"total_size":128.0},"weight_map":{"a":"m.safetensors","b":"m.safetensors"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			m := openFixture(t, files, ".", nil)
			wantFindings(t, m.Findings())
			if r, err := m.Check(t.Context(),
				&CheckOptions{Deep: true, Values: true}); err != nil || !r.OK || r.Tensors < 1 {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

func TestFindingsOfHeaders(t *testing.T) {
	weights := file32(t, "a", "b")
	for _, c := range []struct {
		name  string
		files map[string]any
		want  []string
	}{
		{"nothing", map[string]any{"README.md": "x"}, []string{"no-weights"}},
		{"a shard is missing", with(tiny(t), map[string]any{shard2: nil}),
			[]string{"missing-shard " + shard2}},
		{"a shard is a directory", with(tiny(t), map[string]any{shard2: nil, shard2 + "/x": "x"}),
			[]string{"missing-shard " + shard2}},
		{"a sibling is missing",
			map[string]any{"m-00001-of-00003.safetensors": weights,
				"m-00003-of-00003.safetensors": file32(t, "c")},
			[]string{"missing-shard m-00002-of-00003.safetensors"}},
		{"a link is dangling", with(tiny(t), map[string]any{shard2: link("../nowhere")}),
			[]string{"dangling-link " + shard2}},
		{"the only file is a dangling link", map[string]any{"model.safetensors": link("gone")},
			[]string{"dangling-link model.safetensors"}},
		{"an empty shard", with(tiny(t), map[string]any{shard2: ""}),
			[]string{"empty-file " + shard2}},
		{"a pointer of LFS",
			with(tiny(t), map[string]any{shard2: "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n"}), []string{"pointer-file " + shard2}},
		{"an index that is a pointer of LFS",
			map[string]any{indexJ: "version https://git-lfs.github.com/spec/v1\n",
				"model.safetensors": weights}, []string{"pointer-file " + indexJ}},
		{"HTML", map[string]any{"model.safetensors": "<!DOCTYPE html><html>not found</html>"},
			[]string{"wrong-format model.safetensors"}},
		{"JSON", map[string]any{"model.safetensors": `{"error": "not found"}`},
			[]string{"wrong-format model.safetensors"}},
		{"zip", map[string]any{"model.safetensors": "PK\x03\x04" + strings.Repeat("x", 100)},
			[]string{"wrong-format model.safetensors"}},
		{"pickle", map[string]any{"model.safetensors": "\x80\x02}q\x00" + strings.Repeat("x",
			100)}, []string{"wrong-format model.safetensors"}},
		{"GGUF as safetensors", map[string]any{"model.safetensors": ggufFile([]string{"a"})},
			[]string{"wrong-format model.safetensors"}},
		{"safetensors as GGUF", map[string]any{"model.gguf": weights},
			[]string{"wrong-format model.gguf"}},
		{"safetensors as pickle", map[string]any{"pytorch_model.bin": weights},
			[]string{"wrong-format pytorch_model.bin"}},
		{"HTML as pickle", map[string]any{"pytorch_model.bin": "<html>"},
			[]string{"wrong-format pytorch_model.bin"}},
		{"a cut shard", with(tiny(t), map[string]any{shard2: file32(t, "a1", "b1")[:200]}),
			[]string{"truncated " + shard2}},
		{"a shard cut in its header",
			with(tiny(t), map[string]any{shard2: file32(t, "a1", "b1")[:60]}),
			[]string{"truncated " + shard2}},
		{"a cut GGUF", map[string]any{"m.gguf": ggufFile([]string{"a", "b"})[:130]},
			[]string{"truncated m.gguf"}},
		{"bytes after the last tensor",
			with(tiny(t), map[string]any{shard2: file32(t, "a1", "b1") + "x"}),
			[]string{"trailing-bytes " + shard2}},
		{"bytes after the last tensor of GGUF",
			map[string]any{"m.gguf": ggufFile([]string{"a"}) + strings.Repeat("x", 64)},
			[]string{"trailing-bytes m.gguf"}},
		{"a hole", map[string]any{"model.safetensors": header(
			`{"a":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}`, 3)},
			[]string{"malformed model.safetensors"}},
		{"a header that begins with {",
			map[string]any{"model.safetensors": header(
				`{"a":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}`+strings.Repeat(" ",
					'{'-53), 3)}, []string{"malformed model.safetensors"}},
		{"an unknown dtype",
			map[string]any{"model.safetensors": header(
				`{"a":{"dtype":"Q9","shape":[2],"data_offsets":[0,3]}}`, 3)},
			[]string{"unknown-dtype model.safetensors a"}},
		{"an index that is no JSON", with(tiny(t), map[string]any{indexJ: `{"weight_map":`}),
			[]string{"index-malformed " + indexJ}},
		{"an index with a duplicate key",
			with(tiny(t), map[string]any{
				indexJ: `{"metadata":{},"weight_map":{"a":"x","a":"y"}}`}),
			[]string{"index-malformed " + indexJ}},
		{"an empty index", with(tiny(t), map[string]any{indexJ: ""}),
			[]string{"empty-file " + indexJ}},
		{"an index without metadata",
			map[string]any{"m.safetensors": weights,
				indexJ: `{"weight_map":{"a":"m.safetensors","b":"m.safetensors"}}`},
			[]string{"index-no-metadata? " + indexJ}},
		{"another extension", map[string]any{"m.bin": "\x80\x02x", indexJ: index(0, "a=m.bin")},
			[]string{"pickle? m.bin", "wrong-extension m.bin"}},
		{"a tensor in no shard",
			with(tiny(t), map[string]any{shard2: file32(t, "a1"),
				indexJ: strings.Replace(tiny(t)[indexJ].(string), "384", "320", 1)}),
			[]string{"missing-tensor " + shard2 + " b1"}},
		{"a tensor in another shard",
			with(tiny(t), map[string]any{shard2: file32(t, "a1"),
				shard3: file32(t, "a2", "b1", "b2")}),
			[]string{"misplaced-tensor " + shard3 + " b1"}},
		{"a tensor in two shards",
			with(tiny(t), map[string]any{shard3: file32(t, "a2", "b2", "b1")}),
			[]string{"duplicate-tensor " + shard3 + " b1"}},
		{"a tensor in two shards without index",
			map[string]any{"m-00001-of-00002.safetensors": weights,
				"m-00002-of-00002.safetensors": file32(t, "b")},
			[]string{"no-index? m-00001-of-00002.safetensors",
				"duplicate-tensor m-00002-of-00002.safetensors b"}},
		{"a tensor not in the index",
			with(tiny(t), map[string]any{shard2: file32(t, "a1", "b1", "c"),
				indexJ: strings.Replace(tiny(t)[indexJ].(string), "384", "448", 1)}),
			[]string{"unindexed-tensor? " + shard2 + " c"}},
		{"no index", map[string]any{"m-00001-of-00001.safetensors": weights},
			[]string{"no-index? m-00001-of-00001.safetensors"}},
		{"an orphan", with(tiny(t),
			map[string]any{"mtp.safetensors": weights,
				"model-00004-of-00004.safetensors": weights}),
			[]string{"orphan-file? model-00004-of-00004.safetensors",
				"orphan-file? mtp.safetensors"}},
		{"a shadowed index", with(tiny(t), map[string]any{"model.safetensors": weights}),
			[]string{"shadowed-index model.safetensors"}},
		{"numbers of two sets",
			map[string]any{"m-00001-of-00002.safetensors": file32(t, "a"),
				"m-00002-of-00003.safetensors": file32(t, "b"),
				indexJ: index(128, "a=m-00001-of-00002.safetensors",
					"b=m-00002-of-00003.safetensors")}, []string{"shard-numbering? " + indexJ}},
		{"no numbers", map[string]any{"x.safetensors": file32(t, "a"),
			"y.safetensors": file32(t, "b"),
			indexJ:          index(128, "a=x.safetensors", "b=y.safetensors")},
			[]string{"shard-numbering? " + indexJ}},
		{"a wrong total", with(tiny(t),
			map[string]any{indexJ: strings.Replace(tiny(t)[indexJ].(string), "384", "1", 1)}),
			[]string{"total-size? " + indexJ}},
		{"a total that is no number",
			with(tiny(t), map[string]any{indexJ: strings.Replace(tiny(t)[indexJ].(string), "384",
				`"384"`, 1)}), []string{"total-size? " + indexJ}},
		{"no tensors", map[string]any{"model.safetensors": header("{}", 0)},
			[]string{"no-tensors? model.safetensors"}},
		{"no tensors in an index", map[string]any{indexJ: index(0)},
			[]string{"no-tensors? " + indexJ}},
		{"config.json is a list",
			map[string]any{"model.safetensors": weights, "config.json": "[]"},
			[]string{"config-malformed config.json"}},
		{"config.json is null",
			map[string]any{"model.safetensors": weights, "config.json": "null"},
			[]string{"config-malformed config.json"}},
		{"config.json is cut",
			map[string]any{"model.safetensors": weights, "config.json": `{"a": `},
			[]string{"config-malformed config.json"}},
		{"another dtype", map[string]any{"model.safetensors": weights,
			"config.json": `{"torch_dtype": "torch.bfloat16"}`},
			[]string{"config-dtype? config.json"}},
		{"another dtype of text",
			map[string]any{"model.safetensors": weights,
				"config.json": `{"text_config": {"dtype": "bfloat16"}}`},
			[]string{"config-dtype? config.json"}},
		{"another dtype, quantised",
			map[string]any{"model.safetensors": weights,
				"config.json": `{"dtype": "bfloat16", "quantization_config": {"quant_method": "x"}}`}, nil},
		{"dtype auto", map[string]any{"model.safetensors": weights,
			"config.json": `{"dtype": "auto"}`}, nil},
		{"dtype null", map[string]any{"model.safetensors": weights,
			"config.json": `{"dtype": null, "architectures": 5}`}, nil},
		{"a checkpoint of PyTorch", map[string]any{"pytorch_model.bin": checkpoint(t)},
			[]string{"pickle? pytorch_model.bin"}},
		{"a cut checkpoint of PyTorch", map[string]any{"pytorch_model.bin": checkpoint(t)[:700]},
			[]string{"pickle? pytorch_model.bin", "truncated pytorch_model.bin"}},
		{"pickles", map[string]any{"pytorch_model.bin": "PK\x03\x04x"},
			[]string{"pickle? pytorch_model.bin"}},
		{"an index of pickles",
			map[string]any{"pytorch_model.bin.index.json": index(5,
				"a=pytorch_model-00001-of-00002.bin", "b=pytorch_model-00002-of-00002.bin"),
				"pytorch_model-00001-of-00002.bin": "\x80\x02x"},
			[]string{"pickle? pytorch_model-00001-of-00002.bin",
				"missing-shard pytorch_model-00002-of-00002.bin"}},
		{"a link out of the directory",
			map[string]any{"model.safetensors": link("../../other/model.safetensors")},
			[]string{"dangling-link model.safetensors"}},
		{"a split of another place",
			map[string]any{"m-00001-of-00001.gguf": ggufFile([]string{"a"}, "split.no", uint16(1),
				"split.count", uint16(1))}, []string{"gguf-split m-00001-of-00001.gguf"}},
		{"a split without keys", map[string]any{"m-00001-of-00001.gguf": ggufFile([]string{"a"})},
			[]string{"gguf-split m-00001-of-00001.gguf"}},
		{"a split of another count",
			map[string]any{"m-00001-of-00001.gguf": ggufFile([]string{"a"}, "split.no", uint16(0),
				"split.count", uint16(2))}, []string{"gguf-split m-00001-of-00001.gguf"}},
		{"a split under the name of a whole",
			map[string]any{"m.gguf": ggufFile([]string{"a"}, "split.no", uint16(0), "split.count",
				uint16(2))}, []string{"gguf-split m.gguf"}},
		{"a wrong sum of splits",
			map[string]any{"m-00001-of-00001.gguf": ggufFile([]string{"a"}, "split.no", uint16(0),
				"split.count", uint16(1), "split.tensors.count", int32(2))},
			[]string{"gguf-split m-00001-of-00001.gguf"}},
		{"a component is missing",
			map[string]any{"model_index.json": `{"_class_name": "P", "unet": ["diffusers", "U"], "vae": ["diffusers", "V"], "safety_checker": [null, null]}`,
				"unet/diffusion_pytorch_model.safetensors": weights},
			[]string{"missing-component vae"}},
		{"a component elsewhere",
			map[string]any{"model_index.json": `{"../x": ["diffusers", "U"], "unet": ["diffusers", "U"]}`,
				"unet/diffusion_pytorch_model.safetensors": weights},
			[]string{"unsafe-path model_index.json"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := openFixture(t, c.files, ".", nil)
			wantFindings(t, m.Findings(), c.want...)
		})
	}
}

func TestUnsafePathsAreNotOpened(t *testing.T) {
	for _, name := range []string{"../out.safetensors", "/out.safetensors", "", ".",
		"sub/../../out.safetensors", `..\out.safetensors`,
		"C:out.safetensors", "out\x00.safetensors"} {
		inner := fixture(map[string]any{"out.safetensors": file32(t, "a"),
			"m/" + indexJ: index(64, "a="+name)})
		fsys := &counted{FS: inner}
		m, err := OpenFS(fsys, "m", nil)
		if err != nil {
			t.Fatal(err)
		}
		wantFindings(t, m.Findings(), "unsafe-path "+indexJ)
		if f := m.Findings()[0]; f.Field != `weight_map["a"]` || f.Tensors != 1 {
			t.Errorf("%+v", f)
		}
		for _, opened := range fsys.opened {
			if strings.Contains(opened, "out") {
				t.Errorf("%q: %s was opened", name, opened)
			}
		}
	}
}

func TestPrimarySet(t *testing.T) {
	weights := file32(t, "a")
	shards := map[string]any{"model-00001-of-00001.safetensors": weights,
		indexJ: index(64, "a=model-00001-of-00001.safetensors")}
	for _, c := range []struct {
		files map[string]any
		want  string
	}{
		{map[string]any{"a.safetensors": weights, "model.safetensors": weights},
			"model.safetensors"},
		{map[string]any{"model.gguf": ggufFile([]string{"a"}), "z.safetensors": weights},
			"z.safetensors"},
		{map[string]any{"model.fp16.safetensors": weights, "model.safetensors": weights},
			"model.safetensors"},
		{map[string]any{"consolidated.safetensors": weights, "adapter_model.safetensors": weights},
			"consolidated.safetensors"},
		{map[string]any{"b.safetensors": weights, "a.safetensors": weights}, "a.safetensors"},
		{map[string]any{"pytorch_model.bin": "\x80\x02", "x.gguf": ggufFile([]string{"a"})},
			"x.gguf"},
		{with(shards, map[string]any{"model.safetensors": weights}), "model.safetensors"},
		{with(shards, map[string]any{"consolidated.safetensors": weights}),
			"model-00001-of-00001.safetensors"},
	} {
		m := openFixture(t, c.files, ".", nil)
		for s := range m.Sets() {
			if !s.Primary || s.Files[0] != c.want {
				t.Errorf("%v: %+v", slices.Collect(maps.Keys(c.files)), s)
			}
			break
		}
	}
}

func TestWhole(t *testing.T) {
	weights := file32(t, "a")
	for _, c := range []struct {
		name  string
		files map[string]any
		want  string // its first file
		err   error
	}{
		{"one file", map[string]any{"x.safetensors": weights}, "x.safetensors", nil},
		{"a stem that comes first", map[string]any{"a.safetensors": weights,
			"model.safetensors": weights}, "model.safetensors", nil},
		{"files of equal rank", map[string]any{"a.safetensors": weights,
			"b.safetensors": weights}, "", ErrNoModel},
		{"no weights", map[string]any{"config.json": "{}"}, "", ErrNoModel},
		{"a missing shard", map[string]any{
			indexJ: index(64, "a=model-00001-of-00001.safetensors")}, "", fs.ErrNotExist},
		{"components", map[string]any{"model_index.json": `{"a": ["d", "A"], "b": ["d", "B"]}`,
			"a/model.safetensors": weights, "b/model.safetensors": weights}, "", nil},
	} {
		s, err := openFixture(t, c.files, ".", nil).Whole()
		switch {
		case !errors.Is(err, c.err):
			t.Errorf("%s: %v", c.name, err)
		case (s != nil) != (c.want != "") || s != nil && s.Files[0] != c.want:
			t.Errorf("%s: %+v", c.name, s)
		}
	}
}

func TestSummaryOfShards(t *testing.T) {
	m := openFixture(t, tiny(t), ".", nil)
	s := m.Summary()
	if s.Shards != 3 || s.Tensors != 6 || s.Parameters != 96 || s.Logical != 96 ||
		s.Bytes != 384 || s.ByDType[tensor.F32].Tensors != 6 {
		t.Errorf("%+v", s)
	}
	var files int64
	for _, name := range []string{shard1, shard2, shard3} {
		files += int64(len(tiny(t)[name].(string)))
	}
	if s.Size != files {
		t.Errorf("size %d, want %d", s.Size, files)
	}
	f := m.File()
	if f.Len() != 6 || f.Tensor("b2") == nil {
		t.Errorf("%d tensors", f.Len())
	}
	v, err := tensor.Load[float32](f.Tensor("b2"))
	if err != nil || v[0] != 16 {
		t.Errorf("%v, %v", v, err)
	}
	if r, err := m.Check(t.Context(), nil); err != nil || r.Shards != 3 ||
		r.Figures.Figure != (Figure{6, 96, 384}) {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestDistributedCheckpoint(t *testing.T) {
	m, err := Open("../testdata/torch/dcp", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	wantFindings(t, m.Findings())
	if s := m.Summary(); s.Tensors == 0 || s.Format != tensorfile.Torch {
		t.Errorf("%+v", s)
	}
	b, err := os.ReadFile("../testdata/torch/dcp/.metadata")
	if err != nil {
		t.Fatal(err)
	}
	alone := openFixture(t, map[string]any{".metadata": string(b)}, ".", nil)
	wantFindings(t, alone.Findings(), "missing-shard .metadata")
}

func TestComponentsAddUp(t *testing.T) {
	m := openFixture(t, map[string]any{
		"model_index.json":                         `{"unet": ["diffusers", "U"], "vae": ["diffusers", "V"], "scheduler": ["diffusers", "S"]}`,
		"unet/diffusion_pytorch_model.safetensors": file32(t, "a", "b"),
		"vae/diffusion_pytorch_model.safetensors":  file32(t, "a"),
		"scheduler/scheduler_config.json":          "{}",
	}, ".", nil)
	wantFindings(t, m.Findings())
	if s := m.Summary(); s.Tensors != 3 || s.Parameters != 48 || s.Shards != 2 ||
		s.ByDType[tensor.F32].Bytes != 192 {
		t.Errorf("%+v", s)
	}
	var names []string
	for x := range m.Tensors() {
		names = append(names, x.Name)
	}
	if !slices.Equal(names, []string{"unet/a", "unet/b", "vae/a"}) {
		t.Errorf("%q", names)
	}
}

func TestManyFindingsAreCut(t *testing.T) {
	m := openFixture(t, map[string]any{"m-00001-of-99999.safetensors": file32(t, "a")}, ".", nil)
	all := m.Findings()
	if len(all) != maxFindings+1 || all[maxFindings].Code != Limit {
		t.Errorf("%d findings, the last %v", len(all), all[len(all)-1])
	}
	if s := m.Summary(); s.Shards != 99999 {
		t.Errorf("%d shards", s.Shards)
	}
}

func TestFindingJSON(t *testing.T) {
	m := openFixture(t, with(tiny(t), map[string]any{shard2: nil}), ".", nil)
	b, err := json.Marshal(m.Findings())
	want := `[{"severity":"error","code":"missing-shard","class":"truncated","file":"` + shard2 +
		`","tensors":2,"message":"named by model.safetensors.index.json for 2 tensors"}]`
	if err != nil || string(b) != want {
		t.Errorf("%s, %v", b, err)
	}
}

func TestReportJSON(t *testing.T) {
	m := openFixture(t, map[string]any{"model.safetensors": file32(t, "a")}, ".", nil)
	r, err := m.Check(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(r)
	const figures = `"tensors":1,"parameters":16,"bytes":64,"dtypes":{"float32":{"tensors":1,"parameters":16,"bytes":64}}`
	want := `{"ok":true,"kind":"directory","deep":false,"values":false,"shards":1,` + figures +
		`,"sets":[{"name":"model","format":"safetensors","primary":true,"files":["model.safetensors"],` + figures +
		`}],"read":{"files":1,"bytes":`
	if got := string(b); err != nil || !strings.HasPrefix(got, want) ||
		!strings.HasSuffix(got, `,"hashed":0},"findings":[]}`) {
		t.Errorf("%s, %v", got, err)
	}
}

func TestLimitsAreFindings(t *testing.T) {
	m := openFixture(t, map[string]any{"model.safetensors": file32(t, "a", "b")}, ".",
		&Options{Limits: tensor.Limits{MaxTensors: 1}})
	wantFindings(t, m.Findings(), "limit model.safetensors")
	if _, err := OpenFS(fixture(tiny(t)), ".",
		&Options{Limits: tensor.Limits{MaxTensors: -1}}); err == nil {
		t.Error("a negative limit is accepted")
	}
}

func TestOpenFails(t *testing.T) {
	if _, err := Open(t.TempDir()+"/gone", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := OpenFS(fixture(tiny(t)), "gone", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestDocumentedCodes holds docs/check.md to the codes and their severities.
func TestDocumentedCodes(t *testing.T) {
	b, err := os.ReadFile("../docs/check.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("code.go")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, row := range regexp.MustCompile(
		"(?m)^\\| `([a-z-]+)` \\| (error|warning) \\|").FindAllStringSubmatch(string(b), -1) {
		documented[row[1]] = row[2]
	}
	for _, c := range regexp.MustCompile(`Code = "([a-z-]+)"`).FindAllStringSubmatch(
		string(source), -1) {
		if severity, _ := Code(c[1]).properties(); documented[c[1]] != severity.String() {
			t.Errorf("%s is documented as %q, and is a %v", c[1], documented[c[1]], severity)
		}
		delete(documented, c[1])
	}
	for c := range documented {
		t.Errorf("%s is documented and does not exist", c)
	}
}

func TestSetAsOneFile(t *testing.T) {
	m := openFixture(t, map[string]any{
		"m-00001-of-00002.gguf": ggufFile([]string{"a"}, "split.no", uint16(0), "split.count",
			uint16(2), "split.tensors.count", int32(2)),
		"m-00002-of-00002.gguf": ggufFile([]string{"b"}, "split.no", uint16(1), "split.count",
			uint16(2), "split.tensors.count", int32(2)),
	}, ".", nil)
	f := m.File()
	if f.Format() != tensorfile.GGUF || f.Version() != "3" || f.Size() != m.Summary().Size ||
		f.Size() == 0 || f.Len() != 2 {
		t.Errorf("%v %s, %d bytes, %d tensors", f.Format(), f.Version(), f.Size(), f.Len())
	}
	last := int64(0)
	r, err := f.Verify(t.Context(), &tensor.VerifyOptions{Progress: func(done, total int64) {
		if done < last || done > total || total != f.Size() {
			t.Errorf("%d after %d of %d", done, last, total)
		}
		last = done
	}})
	if err != nil || len(r.Findings) != 0 {
		t.Errorf("%v, %v", r, err)
	}
	bools := fileOf(t, tensor.New("b", tensor.Shape{2}, []bool{true, false}))
	m = openFixture(t, map[string]any{"m-00001-of-00001.safetensors": bools[:len(bools)-1] +
		"\x07"}, ".", nil)
	if r, err := m.File().Verify(t.Context(), nil); err == nil || len(r.Findings) != 1 {
		t.Errorf("%v, %v", r, err)
	}
}
