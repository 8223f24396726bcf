package command

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/npy"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// --map finds the tensors of a .gguf that llama.cpp makes of a model of Hugging Face,
// from either side, and the rows that it moves.
func TestDiffMapsNames(t *testing.T) {
	const heads, shared, size = 4, 2, 6 // of queries, of keys; rows of a head
	values := func(rows int, order func(row int) int) []float32 {
		var all []float32
		for row := range rows {
			for column := range 3 {
				all = append(all, float32(100*order(row)+column))
			}
		}
		return all
	}
	same := func(row int) int { return row }
	turned := func(row int) int { // 0 3 1 4 2 5 of each head
		head, i := row/size, row%size
		return head*size + i%2*size/2 + i/2
	}
	weight := func(name string, rows int, order func(int) int) *tensor.Tensor {
		return tensor.New(name, tensor.Shape{int64(rows), 3}, values(rows, order))
	}
	metadata := func(architecture string) []gguf.KeyValue {
		var all []gguf.KeyValue
		for _, kv := range []struct {
			key   string
			value any
		}{{"general.architecture", architecture}, {"llama.attention.head_count", uint32(heads)},
			{"llama.attention.head_count_kv", uint32(shared)}} {
			all = append(all, gguf.KeyValue{Key: kv.key, Value: valueOf(t, kv.value)})
		}
		return all
	}
	dir := t.TempDir()
	hf := created(t, dir, "hf.safetensors", st(safetensorsOptions),
		weight("model.embed_tokens.weight", 5, same),
		weight("model.layers.10.self_attn.q_proj.weight", heads*size, same),
		weight("model.layers.10.self_attn.k_proj.weight", shared*size, same),
		weight("model.layers.10.mlp.up_proj.weight", 8, same),
		weight("model.norm.weight", 1, same), weight("lm_head.weight", 5, same))
	made := func(name, architecture string, order func(int) int) string {
		return created(t, dir, name, func(w io.Writer) writer {
			return gguf.NewWriter(w, &gguf.WriterOptions{Metadata: metadata(architecture)})
		}, weight("token_embd.weight", 5, same), weight("blk.10.attn_q.weight", heads*size, order),
			weight("blk.10.attn_k.weight", shared*size, order),
			weight("blk.10.ffn_up.weight", 8, same), weight("output_norm.weight", 1, same),
			weight("output.weight", 5, same))
	}
	llama, other := made("llama.gguf", "llama", turned), made("qwen3.gguf", "qwen3", same)
	for _, file := range []string{llama, other} {
		checkCommand(t, 0, "the same: 6 tensors", "diff", "--map", "hf-gguf", hf, file)
		checkCommand(t, 0, "the same: 6 tensors", "diff", "--map", "hf-gguf", file, hf)
	}
	checkCommand(t, 1, "2 of 6 tensors differ", "diff", "--map", "hf-gguf", hf,
		made("plain.gguf", "llama", same))
	checkCommand(t, 0, "architecture \"gemma\" may", "diff", "--map", "hf-gguf", hf,
		made("gemma.gguf", "gemma", same))
	checkCommand(t, 2, "a .gguf with a file of another format", "diff", "--map", "hf-gguf", hf, hf)
	checkCommand(t, 2, "a .gguf with a file of another format", "diff", "--map", "hf-gguf", llama,
		other)
}

func valueOf(t *testing.T, x any) gguf.Value {
	t.Helper()
	v, err := gguf.NewValue(x)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// The pairs are one model each as transformers wrote it, and as it loads it from a .gguf
// (interop/quant/pairs.py).
func TestDiffMapsModelsThatTransformersLoadsAsTheSame(t *testing.T) {
	pairs, err := filepath.Glob("../../testdata/pairs/*.gguf")
	if err != nil || len(pairs) == 0 {
		t.Fatal(pairs, err)
	}
	for _, file := range pairs {
		hf := strings.TrimSuffix(file, ".gguf") + ".safetensors"
		checkCommand(t, 0, "the same: ", "diff", "--map", "hf-gguf", hf, file)
		checkCommand(t, 0, "the same: ", "diff", "--map", "hf-gguf", file, hf)
	}
}

func TestDiffMapsExpertsOfALayerToOneTensor(t *testing.T) {
	dir := t.TempDir()
	experts := func(numbers ...int) (all []*tensor.Tensor) {
		for _, i := range numbers {
			all = append(all, tensor.New(fmt.Sprintf(
				"model.layers.0.block_sparse_moe.experts.%d.w2.weight", i),
				tensor.Shape{2, 1}, []float32{float32(i), float32(-i)}))
		}
		return all
	}
	numbers := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10} // 10 is before 2 in a .safetensors
	values := make([]float32, 0, 2*len(numbers))
	for _, i := range numbers {
		values = append(values, float32(i), float32(-i))
	}
	file := created(t, dir, "moe.gguf", func(w io.Writer) writer {
		return gguf.NewWriter(w, &gguf.WriterOptions{Metadata: []gguf.KeyValue{
			{Key: "general.architecture", Value: valueOf(t, "llama")}}})
	}, tensor.New("blk.0.ffn_down_exps.weight", tensor.Shape{11, 2, 1}, values))
	all := created(t, dir, "all.safetensors", st(safetensorsOptions), experts(numbers...)...)
	checkCommand(t, 0, "the same: 1 tensor", "diff", "--map", "hf-gguf", all, file)
	checkCommand(t, 0, "the same: 1 tensor", "diff", "--map", "hf-gguf", file, all)
	gaps := created(t, dir, "gaps.safetensors", st(safetensorsOptions), experts(0, 2)...)
	checkCommand(t, 1, "2 only in a, 1 only in b", "diff", "--map", "hf-gguf", gaps, file)
}

func TestDiffShowsNumbersAndTextApart(t *testing.T) {
	const in = "../../testdata/gguf/align4096.gguf"
	out := filepath.Join(t.TempDir(), "out.safetensors")
	checkCommand(t, 0, "of type", "convert", "--allow", "all", in, out)
	checkCommand(t, 1, `attribute general.alignment: 4096, "4096"`, "diff", in, out)
}

func TestDiffListsWhatTheOtherFormatCannotHold(t *testing.T) {
	dir := t.TempDir()
	x := tensor.New("x", tensor.Shape{2}, []float32{1, 2})
	npz := created(t, dir, "x.npz", func(w io.Writer) writer { return npy.NewWriter(w, nil) }, x)
	attributes := created(t, dir, "x.safetensors",
		st(safetensors.WriterOptions{Attributes: map[string]string{"license": "mit"}}), x)
	blobs := created(t, dir, "x.ptd", func(w io.Writer) writer {
		p := ptd.NewWriter(w, nil)
		if err := p.AddBlob("b", tensor.BlobOf([]byte{1})); err != nil {
			t.Fatal(err)
		}
		return p
	}, x)
	checkCommand(t, statusFound, "attribute license: only in a", "diff", attributes, npz)
	checkCommand(t, statusFound, "attribute license: only in b", "diff", npz, attributes)
	checkCommand(t, statusFound, "blob b: only in a", "diff", blobs, npz)
	checkCommand(t, statusFound, "blob b: only in a", "diff", blobs, attributes, "--ignore",
		"attributes")
	checkCommand(t, statusOK, "the same: 1 tensor\n", "diff", blobs, attributes, "--ignore",
		"blobs,attributes")
	checkCommand(t, statusUsage, "no kind is named", "diff", blobs, attributes, "--ignore",
		"names")
}

// Indices are compared as numbers, elements below a byte as what they are.
func TestDiffComparesIndicesAsNumbers(t *testing.T) {
	dir := t.TempDir()
	part := func(role string, d tensor.DType, b ...byte) tensor.Part {
		return tensor.Part{Role: role, DType: d, Data: tensor.BlobOf(b)}
	}
	csr := func(indptr, indices, values tensor.Part) *tensor.Tensor {
		return &tensor.Tensor{Name: "s", DType: values.DType, Shape: tensor.Shape{2, 2},
			Scheme: "zt.sparse_csr/1", Parts: []tensor.Part{indptr, indices, values}}
	}
	u32 := func(v ...byte) (b []byte) {
		for _, x := range v {
			b = append(b, x, 0, 0, 0)
		}
		return b
	}
	u64 := func(v ...byte) (b []byte) {
		for _, x := range v {
			b = append(b, x, 0, 0, 0, 0, 0, 0, 0)
		}
		return b
	}
	float4 := csr(part("indptr", tensor.U32, u32(0, 1, 2)...),
		part("indices", tensor.U32, u32(0, 1)...), part("values", tensor.F4E2M1FN, 0x21))
	name := created(t, dir, "f4.zt", zt(ztensor.WriterOptions{Version: "2", KeepOrder: true}),
		float4)
	checkCommand(t, statusOK, "the same", "diff", name, name)
	narrow := csr(part("indptr", tensor.U32, u32(0, 1, 2)...),
		part("indices", tensor.U32, u32(0, 1)...), part("values", tensor.U8, 7, 8))
	wide := csr(part("indptr", tensor.U64, u64(0, 1, 2)...),
		part("indices", tensor.U64, u64(0, 1)...), part("values", tensor.U8, 7, 8))
	other := csr(part("indptr", tensor.U64, u64(0, 1, 2)...),
		part("indices", tensor.U64, u64(1, 1)...), part("values", tensor.U8, 7, 8))
	a := created(t, dir, "a.zt", zt(ztensor.WriterOptions{Version: "2", KeepOrder: true}), narrow)
	b := created(t, dir, "b.zt", zt(ztensor.WriterOptions{Version: "2", KeepOrder: true}), wide)
	c := created(t, dir, "c.zt", zt(ztensor.WriterOptions{Version: "2", KeepOrder: true}), other)
	checkCommand(t, statusOK, "the same", "diff", a, b)
	checkCommand(t, statusFound, "tensor s:indices: 1 of 2 elements differ", "diff", a, c)
}

// A byte that is no bool has no value; the bytes can be copied and hashed.
func TestInvalidBoolsHaveNoValue(t *testing.T) {
	dir := t.TempDir()
	x := &tensor.Tensor{Name: "x", DType: tensor.Bool, Shape: tensor.Shape{4},
		Data: tensor.BlobOf([]byte{0, 1, 77, 1})}
	y := &tensor.Tensor{Name: "x", DType: tensor.Bool, Shape: tensor.Shape{4},
		Data: tensor.BlobOf([]byte{0, 1, 1, 1})}
	name := created(t, dir, "x.safetensors", st(safetensors.WriterOptions{}), x)
	other := created(t, dir, "y.safetensors", st(safetensors.WriterOptions{}), y)
	const want = "bool 0x4d"
	checkCommand(t, statusUnreadable, want, "cat", name, "x")
	checkCommand(t, statusUnreadable, want, "stats", name)
	checkCommand(t, statusUnreadable, want, "diff", name, other)
	checkCommand(t, statusOK, "\x00\x01\x4d\x01", "cat", "--raw", name, "x")
	checkCommand(t, statusOK, "x", "hash", name)
	checkCommand(t, statusOK, "the same", "diff", name, name)
}
