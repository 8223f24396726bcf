package convert

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/tensor"
)

// Metadata with the types that llama.cpp expects of its keys, and blocks of every
// registered type, survive the way through zTensor 2; types that it lacks become the
// usual ones.
func TestGGUFSurvivesConversionToZTensorAndBack(t *testing.T) {
	metadata := map[string]any{
		"general.architecture": "llama", "general.alignment": uint32(64),
		"llama.block_count":                      uint32(1),
		"llama.attention.layer_norm_rms_epsilon": float32(1e-5),
		"tokenizer.ggml.add_bos_token":           true,
		"tokenizer.ggml.tokens":                  []string{"a", "\n"},
		"tokenizer.ggml.scores":                  []float32{0, -1.1},
		"tokenizer.ggml.token_type":              []int32{1, 6}, "large": uint64(1 << 63),
		"negative": int32(-1),
		"double":   0.1000000001,
	}
	c := contents{attributes: metadata,
		tensors: []*tensor.Tensor{tensor.New("w", tensor.Shape{2}, []float32{1, 2})}}
	src := c.file(t, form{tensorfile.GGUF, ""})
	middle, p := run(t, src, version2, version2.options())
	end, q := run(t, middle, form{tensorfile.GGUF, ""}, nil)
	if l := append(p.Losses(), q.Losses()...); len(l) > 0 {
		t.Errorf("lost: %v", l)
	}
	r := end.Sys().(*gguf.Reader)
	for k, v := range src.Sys().(*gguf.Reader).Metadata() {
		got, _ := r.Value(k)
		if got.TypeName() != v.TypeName() || got.String() != v.String() {
			t.Errorf("%s: %s of %s became %s of %s", k, v, v.TypeName(), got, got.TypeName())
		}
	}
}

func TestDequantizeMakesFloatsOfBlocks(t *testing.T) {
	src := openFile(t, "../testdata/gguf/types.gguf")
	for _, to := range []form{{tensorfile.Safetensors, ""}, {tensorfile.NPZ, ""},
		{tensorfile.GGUF, ""}, version2} {
		for _, d := range []tensor.DType{tensor.F32, tensor.F16, tensor.BF16} {
			o := to.options()
			o.Dequantize, o.Allow = d, LossAttributes|LossOverflow // of random blocks
			if !to.caps().Holds(d) {
				o.Allow |= LossWiden
			}
			if !to.caps().Holds(tensor.BF16) {
				o.Allow |= LossWiden
			}
			end, p := run(t, src, to, o)
			for x := range src.Tensors() {
				y := end.Tensor(x.Name)
				if y == nil || !y.Dense() || !x.Dense() && to.caps().Holds(d) && y.DType != d {
					t.Fatalf("%v: %v became %v: %v", to, x, y, p.Losses())
				}
				if x.Dense() || y.DType != d {
					continue
				}
				want, err := tensor.As(x, d)
				if err != nil {
					t.Fatal(err)
				}
				a, err1 := want.Data.ReadAll()
				b, err2 := y.Data.ReadAll()
				if err1 != nil || err2 != nil || !bytes.Equal(a, b) {
					t.Errorf("%v: %s has other values: %v, %v", to, x.Name, err1, err2)
				}
			}
		}
	}
	if _, err := NewPlan(t.Context(), src, tensorfile.NPZ,
		&Options{Dequantize: tensor.I8}); err == nil {
		t.Error("int8 is a dtype for blocks")
	}
	p, err := NewPlan(t.Context(), src, tensorfile.Safetensors, nil)
	var le *LossError
	if err != nil || !errors.As(p.Err(), &le) {
		t.Errorf("blocks that the target lacks: %v, %v", err, le)
	} else if !slices.ContainsFunc(le.Losses,
		func(l Loss) bool { return l.Kind == LossTensors && l.Option == "Dequantize" }) {
		t.Errorf("no loss names the option that prevents it: %v", le.Losses)
	}
}

// Keys that describe the quantisation of a file go with it, and the keys of a split when
// shards become one file.
func TestMetadataOfQuantisationAndSplitIsDropped(t *testing.T) {
	shard := func(name string, metadata map[string]any) *tensorfile.File {
		c := contents{attributes: metadata,
			tensors: []*tensor.Tensor{tensor.New(name, tensor.Shape{1}, []float32{1})}}
		return c.file(t, form{tensorfile.GGUF, ""})
	}
	keys := func(f *tensorfile.File) (all []string) {
		for k := range f.Attributes() {
			all = append(all, k)
		}
		return all
	}
	a := shard("a", map[string]any{"general.file_type": uint32(7),
		"general.quantization_version": uint32(2), "k": "v", "split.no": uint16(0)})
	b := shard("b", map[string]any{"split.no": uint16(1)})
	end, _ := run(t, a, form{tensorfile.GGUF, ""}, &Options{Dequantize: tensor.F32})
	if got := keys(end); !slices.Equal(got, []string{"k", "split.no"}) {
		t.Errorf("dequantised: %q", got)
	}
	end, p := run(t, a, form{tensorfile.GGUF, ""}, &Options{More: []*tensorfile.File{b}})
	if got := keys(end); !slices.Equal(got,
		[]string{"general.file_type", "general.quantization_version", "k"}) || end.Len() != 2 {
		t.Errorf("merged: %q, %v", got, p.Losses())
	}
}

func TestQuantizeMakesBlocksOfFloats(t *testing.T) {
	x := sample(tensor.F32, tensor.Shape{3, 64})
	x.Name = "w"
	half := sample(tensor.F16, tensor.Shape{64})
	half.Name = "norm"
	column := sample(tensor.F32, tensor.Shape{64, 32})
	column.Name, column.Order = "column", tensor.ColumnMajor(2)
	src := tensorfile.FromTensors([]*tensor.Tensor{x, half, column}, nil)
	matrices := func(t *tensor.Tensor) string {
		if len(t.Shape) == 2 {
			return "q8_0"
		}
		return ""
	}
	for _, to := range []form{{tensorfile.GGUF, ""}, version2} {
		o := to.options()
		o.Quantize, o.Allow = matrices, LossReorder|LossOverflow
		end, p := run(t, src, to, o)
		for _, l := range p.Losses() {
			if !(l.Kind == LossNarrow && l.Requested && l.Reason == "float32 becomes Q8_0") &&
				(l.Kind != LossReorder || l.Field != `tensors["column"]`) {
				t.Errorf("%v: %v", to, l)
			}
		}
		for _, in := range []*tensor.Tensor{x, column} {
			row, err := tensor.Reordered(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			want, err := gguf.Quantize(row, "Q8_0")
			if err != nil {
				t.Fatal(err)
			}
			a, err1 := want.Parts[0].Data.ReadAll()
			b, err2 := end.Tensor(in.Name).Parts[0].Data.ReadAll()
			if err1 != nil || err2 != nil || !bytes.Equal(a, b) {
				t.Errorf("%v: %s has other blocks: %v, %v", to, in.Name, err1, err2)
			}
		}
		if y := end.Tensor("norm"); y.DType != tensor.F16 {
			t.Errorf("%v: norm is %v", to, y)
		}
	}
	// zTensor 2 registers no layout for these blocks: they stay opaque.
	wide := sample(tensor.F32, tensor.Shape{2, 256})
	wide.Name = "wide"
	o := version2.options()
	o.Quantize, o.Allow = func(*tensor.Tensor) string { return "TQ2_0" }, LossOverflow
	end, p := run(t, tensorfile.FromTensors([]*tensor.Tensor{wide}, nil), version2, o)
	if y := end.Tensor("wide"); len(requests(p)) != 1 || y == nil || y.Scheme != "TQ2_0" {
		t.Errorf("TQ2_0 in zTensor 2: %v, %v", y, p.Losses())
	}

	for name, c := range map[string]struct {
		to   form
		kind string
	}{
		"no blocks in the target": {form{tensorfile.Safetensors, ""}, "Q8_0"},
		"another row length":      {form{tensorfile.GGUF, ""}, "TQ2_0"},
		"no such type":            {form{tensorfile.GGUF, ""}, "Q9"},
		"no encoder":              {form{tensorfile.GGUF, ""}, "Q4_K"},
	} {
		o := c.to.options()
		o.Quantize = func(*tensor.Tensor) string { return c.kind }
		var oe *OptionError
		if _, err := NewPlan(t.Context(), src, c.to.format, o); !errors.As(err, &oe) ||
			oe.Option != "Quantize" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The gguf package for Python cannot open a file with a bfloat16 without dimensions.
func TestBFloat16ScalarsGetADimensionInGGUF(t *testing.T) {
	src := tensorfile.FromTensors([]*tensor.Tensor{
		tensor.New("brain", tensor.Shape{}, []tensor.BFloat16{tensor.NewBFloat16(1)}),
		tensor.New("single", tensor.Shape{}, []float32{1}),
	}, nil)
	p, err := NewPlan(t.Context(), src, tensorfile.GGUF, nil)
	if err != nil {
		t.Fatal(err)
	}
	if l := p.Losses(); len(l) != 1 || l[0].Kind != LossShape ||
		l[0].Field != fieldOf(src.Tensor("brain")) {
		t.Errorf("losses: %v", l)
	}
	var out bytes.Buffer
	if p, err = NewPlan(t.Context(), src, tensorfile.GGUF,
		&Options{Allow: LossShape}); err != nil {
		t.Fatal(err)
	}
	if err := p.Write(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	f, err := tensorfile.OpenBytes(out.Bytes(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if x := f.Tensor("brain"); !x.Shape.Equal(tensor.Shape{1}) || x.Size() != 2 {
		t.Errorf("bfloat16: %v, %d bytes", x.Shape, x.Size())
	}
	if x := f.Tensor("single"); len(x.Shape) != 0 {
		t.Errorf("float32: %v", x.Shape)
	}
}

// Blocks are made after Map and Dequantize, whatever these return.
func TestQuantizeFollowsMapAndDequantize(t *testing.T) {
	x := tensor.New("w", tensor.Shape{2, 32}, slices.Repeat([]float32{1, 2.5, -3, 1.0 / 3}, 16))
	half, err := tensor.As(x, tensor.BF16)
	if err != nil {
		t.Fatal(err)
	}
	blocks, err := gguf.Quantize(x, "Q4_0")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		src    *tensor.Tensor
		to     tensor.DType // of Map; Unknown: there is none
		number tensor.DType // of Dequantize
		gets   tensor.DType // what Quantize is called with
		losses string
	}{
		"as it is":       {x, 0, 0, tensor.F32, "float32 becomes Q8_0"},
		"the same dtype": {x, tensor.F32, 0, tensor.F32, "float32 becomes Q8_0"},
		"another dtype": {x, tensor.BF16, 0, tensor.BF16,
			"float32 becomes bfloat16; bfloat16 becomes Q8_0"},
		"a wider dtype": {half, tensor.F32, 0, tensor.F32, "float32 becomes Q8_0"},
		"blocks":        {blocks, 0, tensor.F32, tensor.F32, "float32 becomes Q8_0"},
		"blocks, narrower": {blocks, 0, tensor.F16, tensor.F16,
			"Q4_0 becomes float16; float16 becomes Q8_0"},
		"blocks by Map": {blocks, tensor.F32, 0, tensor.F32, "float32 becomes Q8_0"},
	} {
		for _, to := range []form{{tensorfile.GGUF, ""}, version2} {
			o := to.options()
			o.Dequantize = c.number
			if c.to != tensor.Unknown || name == "as it is" {
				o.Map = func(t *tensor.Tensor) (string, tensor.DType, bool) {
					return "new", c.to, true
				}
			}
			var got []tensor.DType
			o.Quantize = func(y *tensor.Tensor) string {
				got = append(got, y.DType)
				if y.Name != "w" || !y.Dense() {
					t.Errorf("%s: Quantize of %v", name, y)
				}
				return "Q8_0"
			}
			end, p := run(t, tensorfile.FromTensors([]*tensor.Tensor{c.src}, nil), to, o)
			y := first(t, end)
			if kind, ok := format.BlocksOf(y); !ok || kind.Name != "Q8_0" {
				t.Errorf("%s to %v: %v", name, to, y)
			}
			var reasons []string
			for _, l := range requests(p) {
				reasons = append(reasons, l.Reason)
			}
			if all := strings.Join(reasons, "; "); all != c.losses ||
				len(p.Losses()) != len(reasons) {
				t.Errorf("%s to %v: %v", name, to, p.Losses())
			}
			if !slices.Equal(got, []tensor.DType{c.gets}) {
				t.Errorf("%s to %v: Quantize of %v", name, to, got)
			}
		}
	}
	for _, m := range []tensor.DType{tensor.Unknown, tensor.F32} {
		o := &Options{Quantize: func(*tensor.Tensor) string { return "Q9" }}
		o.Map = func(t *tensor.Tensor) (string, tensor.DType, bool) { return t.Name, m, true }
		var oe *OptionError
		if _, err := NewPlan(t.Context(), tensorfile.FromTensors([]*tensor.Tensor{x}, nil),
			tensorfile.GGUF, o); !errors.As(err, &oe) || oe.Option != "Quantize" ||
			!strings.Contains(err.Error(), `"Q9"`) {
			t.Errorf("Q9: %v", err)
		}
	}
}
