package command

import (
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/tensor"
)

// A nameMap has the names of the same tensors at Hugging Face and in .gguf files, as the
// renames that make the second of the first.
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
}}

// mapNames adds --map to the renames of a, and checks that each of these applies.
func (c *comparison) mapNames(a *app, x, y *input) error {
	used := make([]bool, len(c.renames))
	for name := range x.names() {
		c.renames.newName(name, used)
	}
	if err := c.renames.unused(used); err != nil || c.nameMap == nil {
		return err
	}
	c.opts.IgnoreAttributes = true
	hf, other := x, y // of which the second one is a .gguf
	for _, r := range *c.nameMap {
		if x.Format() == tensorfile.GGUF {
			hf, other, r = y, x, rename{old: r.new, new: r.old}
		}
		c.renames = append(c.renames, r)
	}
	if other.Format() != tensorfile.GGUF || hf.Format() == tensorfile.GGUF {
		return wrong("--rename", "--map hf-gguf compares a .gguf with a file of another format")
	}
	known := []string{"llama", "qwen2", "qwen3", "qwen2moe", "qwen3moe"}
	architecture := other.attribute("general.architecture")
	if !slices.Contains(known, architecture) {
		a.note("%s: values of the architecture %s may be stored in another way, which --map does "+
			"not know", display(other.name), quote(architecture))
	}
	if architecture == known[0] {
		heads := map[string]int64{}
		for part, key := range map[string]string{"q": "llama.attention.head_count",
			"k": "llama.attention.head_count_kv"} {
			heads[part], _ = strconv.ParseInt(other.attribute(key), 10, 32)
		}
		if heads["k"] == 0 {
			heads["k"] = heads["q"]
		}
		hf.File = tensorfile.FromReader(&headRows{hf.File, heads})
	}
	return nil
}

func (in *input) attribute(key string) string {
	for k, v := range in.Attributes() {
		if k == key {
			return v
		}
	}
	return ""
}

// headRows is a Reader of a model whose query and key weights have the rows of each head
// in the order of llama.cpp: rows of its two halves alternate.
type headRows struct {
	*tensorfile.File
	heads map[string]int64 // of "q" and "k"
}

func (h *headRows) Tensors() iter.Seq[*tensor.Tensor] {
	return func(yield func(*tensor.Tensor) bool) {
		for t := range h.File.Tensors() {
			for part, n := range h.heads {
				if strings.Contains(t.Name, ".self_attn."+part+"_proj.") {
					t = byTurns(t, n)
				}
			}
			if !yield(t) {
				return
			}
		}
	}
}

// byTurns returns t with the rows of the two halves of each head by turns, if it has that
// many heads.
func byTurns(t *tensor.Tensor, heads int64) *tensor.Tensor {
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
