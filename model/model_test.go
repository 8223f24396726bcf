package model

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/tensor"
)

func TestPrimarySetFollowsNames(t *testing.T) {
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

func TestWholeRefusesDamagedAndSeveralSets(t *testing.T) {
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

// The error of a model that is not whole names the tensor that its finding is about.
func TestWholeNamesTheTensor(t *testing.T) {
	files := with(tiny(t), map[string]any{shard2: file32(t, "a1")})
	want := `"` + shard2 + `": "b1": missing-tensor: in the index, in no shard`
	if _, err := openFixture(t, files, ".", nil).Whole(); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestSummaryAddsUpShards(t *testing.T) {
	m := openFixture(t, tiny(t), ".", nil)
	s := m.Summary()
	if s.Shards != 3 || s.Tensors != 6 || s.Parameters != 96 || s.StoredElements != 96 ||
		s.Bytes != 384 || s.ByDType[tensor.F32].Tensors != 6 {
		t.Errorf("%+v", s)
	}
	var files int64
	for _, name := range []string{indexJ, shard1, shard2, shard3} {
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

func TestDistributedCheckpointsAreOneModel(t *testing.T) {
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
	wantFindings(t, alone.Findings(), "missing-shard __0_0.distcp")
	if _, err := alone.Whole(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Whole: %v", err)
	}
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

func TestReportAsJSONHasTheFigures(t *testing.T) {
	m := openFixture(t, map[string]any{"model.safetensors": file32(t, "a")}, ".", nil)
	r, err := m.Check(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(r)
	const figures = `"tensors":1,"parameters":16,"bytes":64,"stored_elements":16,"dtypes":{"float32":{"tensors":1,"parameters":16,"bytes":64}}`
	want := `{"ok":true,"kind":"directory","deep":false,"values":false,"shards":1,` + figures +
		`,"sets":[{"name":"model","format":"safetensors","primary":true,"files":["model.safetensors"],` + figures +
		`}],"read":{"files":1,"bytes":`
	if got := string(b); err != nil || !strings.HasPrefix(got, want) ||
		!strings.HasSuffix(got, `,"hashed":0},"findings":[]}`) {
		t.Errorf("%s, %v", got, err)
	}
}

func TestOpenFailsWhereNothingIs(t *testing.T) {
	if _, err := Open(t.TempDir()+"/gone", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := OpenFS(fixture(tiny(t)), "gone", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestSetOpensAsOneFile(t *testing.T) {
	m := openFixture(t, map[string]any{
		"m-00001-of-00002.gguf": ggufFile([]string{"a"}, "general.architecture", "llama",
			"split.no", uint16(0), "split.count", uint16(2), "split.tensors.count", int32(2)),
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

// TestCheckNamesTheTypesOfBlocks: as info does, not "unknown".
func TestCheckNamesTheTypesOfBlocks(t *testing.T) {
	b, err := os.ReadFile("../testdata/gguf/quantised.gguf")
	if err != nil {
		t.Fatal(err)
	}
	m := openFixture(t, map[string]any{"m.gguf": string(b)}, ".", nil)
	report, err := m.Check(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, figures := range []Figures{report.Figures, report.Sets[0].Figures} {
		q4 := figures.DTypes["Q4_0"]
		if _, unknown := figures.DTypes["unknown"]; unknown || q4 != (Figure{1, 512, 288}) ||
			figures.DTypes["float32"].Tensors != 8 {
			t.Errorf("%v", figures.DTypes)
		}
	}
}
