package command

import (
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/tensor"
)

// A nameMap has renames from names of tensors at Hugging Face to their names in .gguf
// files.
type nameMap []rename

var nameMaps = map[string]*nameMap{"hf-gguf": {
	{old: "model.embed_tokens.*", new: "token_embd.*"},
	{old: "model.norm.*", new: "output_norm.*"},
	{old: "lm_head.*", new: "output.*"},
	{old: "model.layers.*.input_layernorm.*", new: "blk.*.attn_norm.*"},
	{old: "model.layers.*.self_attn.q_proj.*", new: "blk.*.attn_q.*"},
	{old: "model.layers.*.self_attn.k_proj.*", new: "blk.*.attn_k.*"},
	{old: "model.layers.*.self_attn.v_proj.*", new: "blk.*.attn_v.*"},
	{old: "model.layers.*.self_attn.o_proj.*", new: "blk.*.attn_output.*"},
	{old: "model.layers.*.self_attn.q_norm.*", new: "blk.*.attn_q_norm.*"},
	{old: "model.layers.*.self_attn.k_norm.*", new: "blk.*.attn_k_norm.*"},
	{old: "model.layers.*.post_attention_layernorm.*", new: "blk.*.ffn_norm.*"},
	{old: "model.layers.*.mlp.gate_proj.*", new: "blk.*.ffn_gate.*"},
	{old: "model.layers.*.mlp.up_proj.*", new: "blk.*.ffn_up.*"},
	{old: "model.layers.*.mlp.down_proj.*", new: "blk.*.ffn_down.*"},
	{old: "model.layers.*.mlp.gate.*", new: "blk.*.ffn_gate_inp.*"},
	{old: "model.layers.*.mlp.experts.gate_proj.*", new: "blk.*.ffn_gate_exps.*"},
	{old: "model.layers.*.mlp.experts.up_proj.*", new: "blk.*.ffn_up_exps.*"},
	{old: "model.layers.*.mlp.experts.down_proj.*", new: "blk.*.ffn_down_exps.*"},
	{old: "model.layers.*.mlp.shared_expert_gate.*", new: "blk.*.ffn_gate_inp_shexp.*"},
	{old: "model.layers.*.mlp.shared_expert.gate_proj.*", new: "blk.*.ffn_gate_shexp.*"},
	{old: "model.layers.*.mlp.shared_expert.up_proj.*", new: "blk.*.ffn_up_shexp.*"},
	{old: "model.layers.*.mlp.shared_expert.down_proj.*", new: "blk.*.ffn_down_shexp.*"},
	{old: "model.layers.*.block_sparse_moe.gate.*", new: "blk.*.ffn_gate_inp.*"},
	{old: "model.layers.*.block_sparse_moe.experts.w1.*", new: "blk.*.ffn_gate_exps.*"},
	{old: "model.layers.*.block_sparse_moe.experts.w3.*", new: "blk.*.ffn_up_exps.*"},
	{old: "model.layers.*.block_sparse_moe.experts.w2.*", new: "blk.*.ffn_down_exps.*"},
}}

// mapNames adds the renames of --map. It fails if a --rename applies to no name of A, or
// the files do not fit --map.
func (c *comparison) mapNames(a *app, x, y *input) error {
	used := make([]bool, len(c.renames))
	for name := range x.names() {
		c.renames.newName(name, used)
	}
	if err := c.renames.unused(used); err != nil || c.nameMap == nil {
		return err
	}
	c.opts.IgnoreAttributes = true
	hf, other := x, y // other is the .gguf
	if x.Format() == tensorfile.GGUF {
		hf, other = y, x
	}
	if other.Format() != tensorfile.GGUF || hf.Format() == tensorfile.GGUF {
		return wrong("--rename", "--map hf-gguf compares a .gguf with a file of another format")
	}
	known := []string{"llama", "qwen2", "qwen3", "qwen2moe", "qwen3moe"}
	architecture, _ := attribute(other.File, "general.architecture")
	if !slices.Contains(known, architecture) {
		a.note("%s: values of the architecture %s may be stored in another way, which --map does "+
			"not know", display(other.name), quote(architecture))
	}
	heads := map[string]int64{}
	if architecture == known[0] {
		for part, key := range map[string]string{"q": "llama.attention.head_count",
			"k": "llama.attention.head_count_kv"} {
			n, _ := attribute(other.File, key)
			heads[part], _ = strconv.ParseInt(n, 10, 32)
		}
		if heads["k"] == 0 {
			heads["k"] = heads["q"]
		}
	}
	tensors := llamaTensors(hf, heads)
	hf.File = hf.WithTensors(tensors)
	used = make([]bool, len(*c.nameMap)) // only renames that apply are added
	for _, t := range tensors {
		renames(*c.nameMap).newName(t.Name, used)
	}
	for i, r := range *c.nameMap {
		if hf == y {
			r = rename{old: r.new, new: r.old}
		}
		if used[i] {
			c.renames = append(c.renames, r)
		}
	}
	return nil
}

// llamaTensors returns the tensors of a model as llama.cpp stores them: the rows of query
// and key weights in another order, and the experts of a layer as one tensor. heads has
// the number of heads of "q" and "k"; without it, rows keep their order.
func llamaTensors(hf *input, heads map[string]int64) (all []*tensor.Tensor) {
	experts := map[string]map[int]*tensor.Tensor{}
	for t := range hf.Tensors() {
		if name, i := expertOf(t.Name); i >= 0 {
			if experts[name] == nil {
				experts[name] = map[int]*tensor.Tensor{}
			}
			experts[name][i] = t
		}
	}
	layers := map[string]*tensor.Tensor{}
	for name, all := range experts {
		layers[name] = stack(name, all)
	}
	for t := range hf.Tensors() {
		for part, n := range heads {
			if strings.Contains(t.Name, ".self_attn."+part+"_proj.") {
				t = interleaveHalves(t, n)
			}
		}
		name, i := expertOf(t.Name)
		switch one := layers[name]; {
		case one == nil:
			all = append(all, t)
		case i == 0:
			all = append(all, one)
		}
	}
	return all
}

// expertOf returns the name of a tensor of an expert without the number of the expert,
// and the number; -1 for other tensors.
func expertOf(name string) (string, int) {
	before, rest, ok := strings.Cut(name, ".experts.")
	number, after, isOne := strings.Cut(rest, ".")
	i, err := strconv.Atoi(number)
	if !ok || !isOne || err != nil || i < 0 || strconv.Itoa(i) != number {
		return name, -1
	}
	return before + ".experts." + after, i
}

// stack returns tensors that are numbered from 0 as one, with another dimension before
// theirs; nil where one is missing or is not like the others.
func stack(name string, numbered map[int]*tensor.Tensor) *tensor.Tensor {
	first, all := numbered[0], make([]*tensor.Tensor, len(numbered))
	for i := range all {
		t := numbered[i]
		if t == nil || !t.Dense() || t.External || t.DType != first.DType ||
			!t.Shape.Equal(first.Shape) || !t.Order.RowMajor() ||
			t.Data.Size() != first.Data.Size() {
			return nil
		}
		all[i] = t
	}
	size, ok := align.Mul(first.Data.Size(), int64(len(all)))
	if !ok {
		return nil
	}
	return &tensor.Tensor{Name: name, DType: first.DType,
		Shape: append(tensor.Shape{int64(len(all))}, first.Shape...),
		Data: tensor.BlobFunc(size, func() (io.ReadCloser, error) {
			return &concatReader{rest: all}, nil
		})}
}

// concatReader reads the data of tensors, one after the other.
type concatReader struct {
	open io.ReadCloser // the current tensor; nil between two tensors
	rest []*tensor.Tensor
}

func (r *concatReader) Read(p []byte) (int, error) {
	for {
		if r.open == nil {
			if len(r.rest) == 0 {
				return 0, io.EOF
			}
			open, err := r.rest[0].Data.Open()
			if err != nil {
				return 0, err
			}
			r.open, r.rest = open, r.rest[1:]
		}
		n, err := r.open.Read(p)
		if n > 0 || err != nil && err != io.EOF {
			return n, err
		}
		if err == io.EOF {
			if err := r.Close(); err != nil {
				return 0, err
			}
		}
	}
}

func (r *concatReader) Close() error {
	if r.open == nil {
		return nil
	}
	err := r.open.Close()
	r.open = nil
	return err
}

// interleaveHalves returns t with the rows of the two halves of each head by turns, if it
// has that many heads.
func interleaveHalves(t *tensor.Tensor, heads int64) *tensor.Tensor {
	if !t.Dense() || len(t.Shape) == 0 || !t.Order.RowMajor() || heads <= 0 ||
		t.Shape[0]%(2*heads) != 0 {
		return t
	}
	x := *t
	x.Shape = append(tensor.Shape{heads, t.Shape[0] / heads / 2, 2}, t.Shape[1:]...)
	x.Order = tensor.Order{0, 2, 1}
	for d := 3; d < len(x.Shape); d++ {
		x.Order = append(x.Order, d)
	}
	sorted, err := tensor.Slice(&x)
	if err != nil {
		return t
	}
	sorted.Shape = t.Shape
	return sorted
}
