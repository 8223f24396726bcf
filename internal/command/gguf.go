package command

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/bridge/gguf"
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

// A ggufEdit knows the types of --set KEY:TYPE=VALUE.
type ggufEdit struct {
	*gguf.Edit
	types map[string]string // by key
}

func (e *ggufEdit) SetAttribute(key, value string) error {
	typeName, ok := e.types[key]
	if !ok {
		return e.Edit.SetAttribute(key, value)
	}
	v, err := gguf.ParseValue(typeName, value)
	if err != nil {
		return err
	}
	return e.SetValue(key, v)
}

// cutTypes takes the types of a .gguf out of the keys of --set.
func (e *editing) cutTypes() map[string]string {
	types := map[string]string{}
	for i := range e.attributes {
		c := &e.attributes[i]
		if c.value == nil {
			continue
		}
		key, typeName := ggufKeyType(c.key)
		if c.key = key; typeName != "" {
			types[key] = typeName
		} else {
			delete(types, key)
		}
	}
	return types
}

// adviseGGUF says what llama.cpp makes of changed keys.
func (a *app) adviseGGUF(name string, c *changes) {
	for _, k := range c.keys {
		if strings.HasPrefix(k, "split.") || k == "general.quantization_version" {
			a.message("%s: %s describes how the tensors are stored, which does not change", display(name), quote(k))
		}
	}
}

func splitGGUF(a *app, r *gguf.Reader, base string, limit int64, force bool) ([]string, error) {
	o := &gguf.ShardOptions{MaxSize: limit, NoReplace: !force, Writer: &gguf.WriterOptions{}}
	for k, v := range r.Metadata() {
		o.Writer.Metadata = append(o.Writer.Metadata, gguf.KeyValue{Key: k, Value: v})
	}
	return gguf.WriteShards(a.ctx, base+".gguf", tensor.Each(r.Tensors()), o)
}

// withSiblings returns the input and the other shards of a split model, which it opens.
func (a *app) withSiblings(first *input) ([]*input, error) {
	all := []*input{first}
	r, _ := first.Sys().(*gguf.Reader)
	no, count, ok := 0, 0, false
	if r != nil {
		no, count, ok = r.Split()
	}
	if !ok || no != 0 {
		return all, wrong("tensorfile merge IN... OUT",
			"merge takes several inputs, or the first shard of a split .gguf")
	}
	prefix, ok := strings.CutSuffix(first.name, gguf.ShardName("", no, count))
	if !ok {
		return all, onFile(first.name, fmt.Errorf("%w: the first of %d shards is not named %s",
			tensor.ErrMalformed, count, gguf.ShardName("NAME", no, count)))
	}
	for i := 1; i < count; i++ {
		name := gguf.ShardName(prefix, i, count)
		in, err := a.open(name)
		if err != nil {
			return all, onFile(name, err)
		}
		all = append(all, in)
	}
	return all, nil
}

// shardsOfGGUF returns the Readers of files if one of them is a shard of a split model and
// all are .gguf.
func shardsOfGGUF(files []*tensorfile.File) (shards []*gguf.Reader) {
	split := false
	for _, f := range files {
		r, ok := f.Sys().(*gguf.Reader)
		if !ok {
			return nil
		}
		_, _, isShard := r.Split()
		split = split || isShard
		shards = append(shards, r)
	}
	if !split {
		return nil
	}
	return shards
}

// mergeGGUF writes the shards of a split model as one file.
func (a *app) mergeGGUF(metadata []gguf.KeyValue, ts iter.Seq2[*tensor.Tensor, error],
	w io.Writer) error {
	gw := gguf.NewWriter(w, &gguf.WriterOptions{Metadata: metadata})
	if err := gw.AddAll(a.ctx, ts); err != nil {
		return err
	}
	return gw.Close()
}

// overwriteHeader makes the changes without copying the data.
func (a *app) overwriteHeader(name string, ed editor) error {
	e, ok := ed.(*ggufEdit)
	if !ok {
		return onFile(name, fmt.Errorf("%w: --header-only is for .gguf files", errors.ErrUnsupported))
	}
	if err := e.WriteHeader(name); err != nil {
		return onFile(name, suggest("--in-place without --header-only, which writes a new file", err))
	}
	return nil
}

// readValue returns the content of a file that --set-file names.
func readValue(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	const limit = 64 << 20
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && len(b) > limit {
		err = fmt.Errorf("%w: a value of more than %d bytes", tensor.ErrLimit, limit)
	}
	return string(b), err
}
