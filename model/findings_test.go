package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

func TestSoundDirectoriesHaveNoFindings(t *testing.T) {
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
		"numbers of shards that differ in their digits": {
			"model-00001-of-000002.safetensors": weights,
			"model-00002-of-000002.safetensors": file32(t, "c"),
			indexJ: index(192, "a=model-00001-of-000002.safetensors",
				"b=model-00001-of-000002.safetensors", "c=model-00002-of-000002.safetensors")},
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

func TestHeadersHaveTheFindingsOfTheTable(t *testing.T) {
	weights := file32(t, "a", "b")
	const suffix = ".tensorfile-journal"
	journal := func(index, file string) string {
		return fmt.Sprintf("tensorfile journal 1\nindex %q\n"+
			"rename \".%s.tensorfile-tmp-0000000000001\" %q 0\nend\n", index, file, file)
	}
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
		{"a shard is below a file",
			map[string]any{"README.md": "x", indexJ: index(64, "a=README.md/x.safetensors")},
			[]string{"missing-shard README.md/x.safetensors"}},
		{"an interrupted write", map[string]any{shard1: weights, shard2: file32(t, "c"),
			shard3: file32(t, "d"), "." + indexJ + suffix: journal(indexJ, indexJ)},
			[]string{"interrupted-write ." + indexJ + suffix, "no-index? " + shard1}},
		{"an interrupted write before the index was removed",
			with(tiny(t), map[string]any{"." + indexJ + suffix: journal(indexJ, indexJ)}),
			[]string{"interrupted-write? ." + indexJ + suffix}},
		{"a journal that is not complete: nothing was renamed",
			with(tiny(t), map[string]any{"." + indexJ + suffix: "tensorfile journal 1\n"}), nil},
		{"an interrupted write of a set without index",
			map[string]any{"m-00001-of-00002.npz": "",
				".m" + suffix:          journal("m", "m-00001-of-00002.npz"),
				"m-00002-of-00002.npz": "", ".x" + suffix: "something else",
				".m.journal": journal("m", "m-00001-of-00002.npz")},
			[]string{"interrupted-write .m" + suffix, "empty-file m-00001-of-00002.npz",
				"empty-file m-00002-of-00002.npz"}},
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
		{"a dtype that does not exist", map[string]any{"model.safetensors": weights,
			"config.json": `{"dtype": "float33\u001b"}`},
			[]string{"config-dtype? config.json"}},
		{"no dtype in particular", map[string]any{"model.safetensors": weights,
			"config.json": `{"dtype": "auto", "torch_dtype": "bfloat16"}`}, nil},
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
		{"a split whose keys are of other types",
			map[string]any{"m-00001-of-00001.gguf": ggufFile([]string{"a"}, "split.no", int32(0),
				"split.count", int32(1), "split.tensors.count", uint16(9))},
			[]string{"gguf-split m-00001-of-00001.gguf", "gguf-split m-00001-of-00001.gguf",
				"gguf-split m-00001-of-00001.gguf"}},
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
		"C:out.safetensors", "out\x00.safetensors", "out.safetensors/"} {
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

// TestLinksToNoRegularFileAreErrors checks that a link out of the directory to what is
// no file is not only a warning.
func TestLinksToNoRegularFileAreErrors(t *testing.T) {
	const device = "outside-link? "
	for _, c := range []struct {
		name string
		want []string
	}{
		{shard2, []string{"missing-shard " + shard2, device + shard2}},
		{indexJ, []string{"index-malformed " + indexJ, device + indexJ}},
		{"config.json", []string{device + "config.json"}},
	} {
		for _, noLinks := range []bool{false, true} {
			dir := t.TempDir()
			for name, v := range tiny(t) {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(v.(string)),
					0o644); err != nil {
					t.Fatal(err)
				}
			}
			link := filepath.Join(dir, c.name)
			if err := errors.Join(os.Remove(link), os.Symlink(t.TempDir(), link)); err != nil {
				t.Skip(err)
			}
			m, err := Open(dir, &Options{NoLinks: noLinks})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			want := c.want
			if noLinks {
				want = []string{"outside-link " + c.name}
			}
			wantFindings(t, m.Findings(), want...)
			if _, err := m.Whole(); err == nil && c.name != "config.json" {
				t.Errorf("%s: Whole returns no error", c.name)
			}
		}
	}
}

// TestNoLinksRefusesALinkInTheMiddleOfAPath checks that nothing is read through a link
// in the middle of a path.
func TestNoLinksRefusesALinkInTheMiddleOfAPath(t *testing.T) {
	root := t.TempDir()
	write := func(name, data string) {
		name = filepath.Join(root, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755),
			os.WriteFile(name, []byte(data), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	write("outside/a.safetensors", file32(t, "a"))
	write("index/"+indexJ, index(64, "a=sub/a.safetensors"))
	write("pipeline/model_index.json", `{"sub": ["diffusers", "X"]}`)
	write("cache/models--a--b/blobs/x", "")
	write("cache/models--a--b/refs/main", "c0ffee")
	write("cache/models--a--b/snapshots/x", "")
	for _, link := range []string{"../outside", strings.Repeat("./", 1500) + "../outside"} {
		for dir, want := range map[string]string{"index": "outside-link sub/a.safetensors",
			"pipeline": "outside-link sub"} {
			at := filepath.Join(root, dir, "sub")
			if err := os.Symlink(link, at); err != nil {
				t.Skip(err)
			}
			m, err := Open(filepath.Join(root, dir), &Options{NoLinks: true})
			if err != nil {
				t.Fatal(err)
			}
			if m.File().Len() != 0 || !slices.ContainsFunc(m.Findings(), func(f Finding) bool {
				return string(f.Code)+" "+f.File == want && f.Severity == tensor.SeverityError
			}) {
				t.Errorf("%s: %d tensors, %v", dir, m.File().Len(), m.Findings())
			}
			m.Close()
			os.Remove(at)
		}
	}
	if err := os.Symlink("../../../outside",
		filepath.Join(root, "cache/models--a--b/snapshots/c0ffee")); err != nil {
		t.Fatal(err)
	}
	for noLinks, isOpen := range map[bool]bool{false: true, true: false} {
		m, err := Open(filepath.Join(root, "cache/models--a--b"), &Options{NoLinks: noLinks})
		if (err == nil) != isOpen {
			t.Errorf("a snapshot that is a link out of the cache, NoLinks %v: %v", noLinks, err)
		}
		if err == nil {
			m.Close()
		}
	}
}

// TestMessagesNameWhatWasFound checks findings whose text differs by what was found.
func TestMessagesNameWhatWasFound(t *testing.T) {
	for want, files := range map[string]map[string]any{
		"split.no is 1 where the files mean 0": {"m-00001-of-00001.gguf": ggufFile([]string{"a"},
			"split.no", uint16(1), "split.count", uint16(1))},
		"split.count is 2 where the files mean none": {"m.gguf": ggufFile([]string{"a"},
			"split.count", uint16(2))},
		"split.count is absent where the files mean 1": {
			"m-00001-of-00001.gguf": ggufFile([]string{"a"})},
		"split.no is of type int32, not uint16": {"m-00001-of-00001.gguf": ggufFile([]string{"a"},
			"split.no", int32(0), "split.count", uint16(1))},
		"named by " + indexJ + " for 1 tensor": {indexJ: index(0, "a=x.safetensors")},
		"not a JSON object": {"model.safetensors": file32(t, "a"),
			"config.json": "[]"},
	} {
		m := openFixture(t, files, ".", nil)
		if all := m.Findings(); len(all) == 0 || !strings.HasSuffix(all[0].Err.Error(), want) {
			t.Errorf("%v, want %s", all, want)
		}
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

func TestFindingsAsJSONHaveCodeClassAndFile(t *testing.T) {
	m := openFixture(t, with(tiny(t), map[string]any{shard2: nil}), ".", nil)
	b, err := json.Marshal(m.Findings())
	want := `[{"severity":"error","code":"missing-shard","class":"truncated","file":"` + shard2 +
		`","tensors":2,"message":"named by model.safetensors.index.json for 2 tensors"}]`
	if err != nil || string(b) != want {
		t.Errorf("%s, %v", b, err)
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

// TestEveryCodeIsDocumented holds docs/check.md to the codes and their severities.
func TestEveryCodeIsDocumented(t *testing.T) {
	b, err := os.ReadFile("../docs/check.md")
	if err != nil {
		t.Fatal(err)
	}
	var source []byte
	for _, name := range []string{"code.go", "../tensor/finding.go",
		"../quant/weight.go"} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		source = append(source, b...)
	}
	documented := map[string]string{}
	for _, row := range regexp.MustCompile(
		"(?m)^\\| `([a-z-]+)` \\| (error|warning|note) \\|").FindAllStringSubmatch(string(b), -1) {
		documented[row[1]] = row[2]
	}
	seen := map[string]bool{}
	for _, c := range regexp.MustCompile(`Code\w* += "([a-z-]+)"`).FindAllStringSubmatch(
		string(source), -1) {
		if seen[c[1]] {
			continue
		}
		seen[c[1]] = true
		if severity, _ := Code(c[1]).properties(); documented[c[1]] != severity.String() {
			t.Errorf("%s is documented as %q, and is a %v", c[1], documented[c[1]], severity)
		}
		delete(documented, c[1])
	}
	for c := range documented {
		t.Errorf("%s is documented and does not exist", c)
	}
}
