package model

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/quant"
	"github.com/tensorfile/tensorfile/tensor"
)

// quantisedModel is a directory with a file that a reference package quantised.
func quantisedModel(t *testing.T, name string) map[string]any {
	t.Helper()
	files := map[string]any{}
	for from, to := range map[string]string{".safetensors": "model.safetensors",
		".json": "config.json"} {
		b, err := os.ReadFile("../testdata/quant/" + name + from)
		if err != nil {
			t.Fatal(err)
		}
		files[to] = string(b)
	}
	return files
}

// Parameters count weights, not what they are stored as; scales are none.
func TestParametersOfQuantisedModelsCountWeights(t *testing.T) {
	for _, c := range []struct {
		name       string
		parameters int64 // of the weight, and of what is stored as it is
		stored     int64
	}{
		{"gptq-4", 24 * 64, 64 + 8*24 + 2*3 + 2*24},
		{"bnb-nf4", 7 * 45, 158 + 5 + 16 + 76},
		{"ct-int4-group", 10 * 48, 10*6 + 10*3 + 2},
		{"fp8-block-ragged", 150*66 + 150, 150*66 + 150 + 9 + 1},
		{"gpt-oss", 3*64*20 + 3*20, 3*20*2*16 + 3*20*2 + 3*20},
		{"mlx-affine-4", 6*64 + 3, 6*8 + 2*6*2 + 3},
		// counted as they are stored elsewhere
		{"modelopt-nvfp4", 9 * 64, 9*32 + 9*4 + 1 + 1},
		{"mlx-nvfp4", 6*64 + 3, 6*8 + 6*4 + 3},
		{"awq", 24 * 64, 64*3 + 2*3 + 2*24},
		{"ct-int3-group", 10 * 48, 10*5 + 10*3 + 2},
		{"ct-mxfp6", 9 * 64, 9*48 + 9*2},
	} {
		m := openFixture(t, quantisedModel(t, c.name), ".", nil)
		s := m.Summary()
		r, err := m.Check(t.Context(), &CheckOptions{Deep: true, Values: true})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if s.Parameters != c.parameters || s.StoredElements != c.stored ||
			r.Parameters != s.Parameters || r.StoredElements != s.StoredElements ||
			r.Sets[0].Parameters != s.Parameters {
			t.Errorf("%s: %d parameters, %d stored; checked %d, %d", c.name, s.Parameters,
				s.StoredElements, r.Parameters, r.StoredElements)
		}
	}
}

func TestQuantisedWeightsAreChecked(t *testing.T) {
	const config = `{"quantization_config": {"quant_method": "fp8", "weight_block_size": [2, 2]}}`
	f8 := func(name string, codes ...byte) *tensor.Tensor {
		return &tensor.Tensor{Name: name, DType: tensor.F8E4M3FN,
			Shape: tensor.Shape{2, int64(len(codes) / 2)}, Data: tensor.BlobOf(codes)}
	}
	scale := func(name string, v ...float32) *tensor.Tensor {
		return tensor.New(name, tensor.Shape{1, int64(len(v))}, v)
	}
	for _, c := range []struct {
		name    string
		config  string
		tensors []*tensor.Tensor
		deep    bool
		want    []string
	}{
		{"sound", config, []*tensor.Tensor{f8("a.weight", 1, 2, 3, 4),
			scale("a.weight_scale_inv", 1)}, true, nil},
		{"a scale is missing", config, []*tensor.Tensor{f8("a.weight", 1, 2, 3, 4)}, false,
			[]string{"missing-scale model.safetensors a.weight"}},
		{"a scale of another shape", config, []*tensor.Tensor{f8("a.weight", 1, 2, 3, 4),
			scale("a.weight_scale_inv", 1, 1)}, false,
			[]string{"scale-shape model.safetensors a.weight"}},
		{"a scale of another dtype", config, []*tensor.Tensor{f8("a.weight", 1, 2, 3, 4),
			tensor.New("a.weight_scale_inv", tensor.Shape{1, 1}, []int64{1})}, false,
			[]string{"scale-dtype model.safetensors a.weight"}},
		{"a scale alone", config, []*tensor.Tensor{scale("a.weight_scale_inv", 1)}, false,
			[]string{"quantization-config config.json ",
				"orphan-scale model.safetensors a.weight_scale_inv"}},
		{"a size that cannot be", `{"quantization_config": {"quant_method": "fp8",
			"weight_block_size": [0, 2]}}`, []*tensor.Tensor{f8("a.weight", 1, 2, 3, 4),
			scale("a.weight_scale_inv", 1)}, false,
			[]string{"quantization-config model.safetensors a.weight"}},
		{"a method that is not known", `{"quantization_config": {"quant_method": "x"}}`,
			[]*tensor.Tensor{f8("a.weight", 1, 2, 3, 4)}, false,
			[]string{"unknown-quantization config.json "}},
		{"values are not read", config, []*tensor.Tensor{f8("a.weight", 0x7f, 2, 3, 4),
			scale("a.weight_scale_inv", 0)}, false, nil},
		{"values", config, []*tensor.Tensor{f8("a.weight", 0x7f, 2, 3, 4),
			scale("a.weight_scale_inv", 0)}, true,
			[]string{"nan model.safetensors a.weight", "scale-value model.safetensors a.weight"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := openFixture(t, map[string]any{"model.safetensors": fileOf(t, c.tensors...),
				"config.json": c.config}, ".", nil)
			r, _ := m.Check(t.Context(), &CheckOptions{Deep: c.deep})
			var got []string
			for _, f := range r.Findings {
				got = append(got, string(f.Code)+" "+f.File+" "+f.Tensor)
				if text := f.Err.Error(); strings.Contains(text, `tensor "a.weight"`) ||
					strings.HasPrefix(text, "malformed: ") {
					t.Errorf("the text repeats the tensor or the class: %v", f.Err)
				}
			}
			if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
				t.Errorf("%v, want %v", r.Findings, c.want)
			}
		})
	}
}

// A scale may be in a shard that is missing, which alone is reported.
func TestScalesOfMissingShardsAreNotReported(t *testing.T) {
	weight := &tensor.Tensor{Name: "a.weight", DType: tensor.F8E4M3FN, Shape: tensor.Shape{2, 2},
		Data: tensor.BlobOf(make([]byte, 4))}
	m := openFixture(t, map[string]any{
		"model-00001-of-00002.safetensors": fileOf(t, weight),
		"model.safetensors.index.json": `{"metadata": {"total_size": 8}, "weight_map": {
			"a.weight": "model-00001-of-00002.safetensors",
			"a.weight_scale_inv": "model-00002-of-00002.safetensors"}}`,
		"config.json": `{"quantization_config": {"quant_method": "fp8"}}`}, ".", nil)
	r, _ := m.Check(t.Context(), nil)
	for _, f := range r.Findings {
		if f.Code != MissingShard {
			t.Error(f)
		}
	}
	if len(r.Findings) != 1 {
		t.Error(r.Findings)
	}
}

// An index lists a scale that no shard has: the weight is not read without it.
func TestScaleThatNoShardHasIsMissing(t *testing.T) {
	const shard = "model-00001-of-00001.safetensors"
	weight := &tensor.Tensor{Name: "a.weight", DType: tensor.F8E4M3FN, Shape: tensor.Shape{2, 2},
		Data: tensor.BlobOf(make([]byte, 4))}
	m := openFixture(t, map[string]any{shard: fileOf(t, weight),
		"model.safetensors.index.json": `{"metadata": {"total_size": 4}, "weight_map": {
			"a.weight": "` + shard + `", "a.weight_scale_inv": "` + shard + `"}}`,
		"config.json": `{"quantization_config": {"quant_method": "fp8"}}`}, ".", nil)
	r, _ := m.Check(t.Context(), nil)
	var got []string
	for _, f := range r.Findings {
		got = append(got, string(f.Code)+" "+f.Tensor)
	}
	if want := []string{"missing-scale a.weight",
		"missing-tensor a.weight_scale_inv"}; !slices.Equal(got, want) {
		t.Errorf("%v", r.Findings)
	}
	for w := range quant.Weights(m.File(), m.Quantization()) {
		if v, err := tensor.Convert[float32](w.Tensor); err == nil {
			t.Errorf("%s: %v", w.Name, v)
		}
	}
}

// The index of a checkpoint lists tensors of subclasses by their names, not by what they
// have in their state.
func TestIndexListsSubclassesByTheirNames(t *testing.T) {
	b, err := os.ReadFile("../testdata/quant/ao-pickled-int8-channel.bin")
	if err != nil {
		t.Fatal(err)
	}
	for names, want := range map[string][]string{
		"m.weight m.bias":       nil,
		"m.weight m.bias other": {"missing-tensor other"},
		"m.weight":              {"unindexed-tensor m.bias"},
		"m.weight.qdata m.weight.scale m.weight.zero_point m.bias": nil,
		"m.bias": {"unindexed-tensor m.weight.qdata", "unindexed-tensor m.weight.scale",
			"unindexed-tensor m.weight.zero_point"},
	} {
		const shard = "pytorch_model-00001-of-00001.bin"
		index := map[string]any{"metadata": map[string]any{}, "weight_map": map[string]string{}}
		for name := range strings.FieldsSeq(names) {
			index["weight_map"].(map[string]string)[name] = shard
		}
		text, err := json.Marshal(index)
		if err != nil {
			t.Fatal(err)
		}
		m := openFixture(t, map[string]any{shard: string(b),
			"pytorch_model.bin.index.json": string(text)}, ".", nil)
		r, _ := m.Check(t.Context(), nil)
		var got []string
		for _, f := range r.Findings {
			if f.Code != Pickle {
				got = append(got, string(f.Code)+" "+f.Tensor)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", names, got, want)
		}
	}
}

// The weights of a model are found once.
func TestQuantizationOfAModelIsFoundOnce(t *testing.T) {
	m := openFixture(t, quantisedModel(t, "fp8-block-ragged"), ".", nil)
	if got := m.Quantization().Method(); got != "fp8" {
		t.Error(got)
	}
	set := quant.Find(m.File(), m.Quantization())
	if n, _ := set.Parameters(); n != m.Summary().Parameters {
		t.Errorf("%d parameters", n)
	}
}
