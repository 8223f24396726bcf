package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/tensor"
)

// ggufKeyType cuts a KEY:TYPE of --set. The type is "" where the key has none.
func ggufKeyType(key string) (name, typeName string) {
	i := strings.LastIndexByte(key, ':')
	if i < 0 {
		return key, ""
	}
	elem := strings.TrimPrefix(key[i+1:], "[]")
	for t := gguf.TypeUint8; t <= gguf.TypeFloat64; t++ {
		if elem == t.String() && t != gguf.TypeArray {
			return key[:i], key[i+1:]
		}
	}
	return key, ""
}

// typesOf returns the types of the keys of a .gguf.
func typesOf(r *gguf.Reader) map[string]string {
	types := map[string]string{}
	for key, v := range r.Metadata() {
		types[key] = v.TypeName()
		if _, n, ok := v.Array(); ok {
			types[key] += fmt.Sprintf(", %d", n)
		}
	}
	return types
}

// ggufDefined returns the type that files have for a key that GGUF defines, "" for
// strings and other keys.
func ggufDefined(key string) string {
	_, name, _ := strings.Cut(key, ".") // after general, tokenizer, or an architecture
	switch name {
	case "alignment", "quantization_version", "file_type", "context_length",
		"embedding_length", "block_count", "feed_forward_length", "leading_dense_block_count",
		"vocab_size", "expert_count", "expert_used_count", "expert_shared_count",
		"attention.head_count", "attention.head_count_kv", "attention.key_length",
		"attention.value_length", "attention.sliding_window", "rope.dimension_count",
		"rope.scaling.original_context_length", "ggml.bos_token_id", "ggml.eos_token_id",
		"ggml.eot_token_id", "ggml.unknown_token_id", "ggml.separator_token_id",
		"ggml.padding_token_id", "ggml.mask_token_id":
		return gguf.TypeUint32.String()
	case "attention.layer_norm_epsilon", "attention.layer_norm_rms_epsilon",
		"attention.max_alibi_bias", "attention.clamp_kqv", "attention.scale", "rope.freq_base",
		"rope.scaling.factor", "rope.scaling.attn_factor":
		return gguf.TypeFloat32.String()
	case "use_parallel_residual", "rope.scaling.finetuned", "attention.causal",
		"ggml.add_bos_token", "ggml.add_eos_token", "ggml.add_space_prefix":
		return gguf.TypeBool.String()
	}
	return ""
}

// A ggufEdit knows the types of --set KEY:TYPE=VALUE.
type ggufEdit struct {
	tensorfile.Edit
	own   *gguf.Edit
	types map[string]string // by key
}

func (e *ggufEdit) SetAttribute(key, value string) error {
	typeName, ok := e.types[key]
	if !ok {
		return e.own.SetAttribute(key, value)
	}
	v, err := gguf.ParseValue(typeName, value)
	if err != nil {
		return err
	}
	return e.own.SetValue(key, v)
}

// cutTypes takes the types of a .gguf out of the keys of --set.
func (e *editing) cutTypes(has func(key string) bool) map[string]string {
	types := map[string]string{}
	for i := range e.attributes {
		c := &e.attributes[i]
		if c.value == nil {
			continue
		}
		key, typeName := ggufKeyType(c.key)
		if typeName == "" && !has(key) {
			typeName = ggufDefined(key)
		}
		if c.key = key; typeName != "" {
			types[key] = typeName
		} else {
			delete(types, key)
		}
	}
	return types
}

// adviseGGUF notes keys whose change does not mean what it seems to.
func (a *app) adviseGGUF(in *input, c *changes, types map[string]string) {
	if in.Format() != tensorfile.GGUF {
		return
	}
	for _, k := range c.keys {
		if strings.HasPrefix(k, "split.") || k == "general.quantization_version" {
			a.note("%s: %s describes how the tensors are stored, which does not change",
				display(in.name), quote(k))
		}
		v := c.attributes[k]
		if v == nil || types[k] != "" || in.hasAttribute(k) {
			continue
		}
		if _, err := strconv.ParseFloat(*v, 64); err == nil {
			a.note("%s: %s becomes a string; %s:uint32=%s for a number, or another type",
				display(in.name), quote(k), k, *v)
		}
	}
}

func (in *input) hasAttribute(key string) bool {
	for k := range in.Attributes() {
		if k == key {
			return true
		}
	}
	return false
}

// overwriteHeader makes the changes without copying the data.
func overwriteHeader(name string, ed tensorfile.Edit) error {
	e, ok := ed.Sys().(*gguf.Edit)
	if !ok {
		return fmt.Errorf("%w: --header-only is for .gguf files", errors.ErrUnsupported)
	}
	return suggest("--in-place without --header-only, which writes a new file",
		e.WriteHeader(name))
}

// readFiles reads the values that are in files.
func (e *editing) readFiles() error {
	for i := range e.attributes {
		c := &e.attributes[i]
		if !c.isFile {
			continue
		}
		text, err := readLimited(*c.value, 64<<20)
		if err != nil {
			return onFile(*c.value, err)
		}
		value := string(text)
		c.value, c.isFile = &value, false
	}
	return nil
}

// readLimited reads a small file whole.
func readLimited(name string, limit int64) ([]byte, error) {
	name, err := onDisk(name)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%w: more than %d bytes", tensor.ErrLimit, limit)
	}
	return b, err
}
