package model

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/quant"
	"github.com/tensorfile/tensorfile/tensor"
)

// Config is what config.json says of the weights, and of the model: 0 where it does not
// say it.
type Config struct {
	ModelType     string   `json:"model_type,omitempty"`
	DType         string   `json:"dtype,omitempty"`
	Architectures []string `json:"architectures,omitempty"`
	// TieWordEmbeddings: the output layer may be absent.
	TieWordEmbeddings bool   `json:"tie_word_embeddings"`
	Quantization      string `json:"quantization,omitempty"` // the method

	Layers        int64 `json:"num_hidden_layers,omitempty"`
	Heads         int64 `json:"num_attention_heads,omitempty"`
	KeyValueHeads int64 `json:"num_key_value_heads,omitempty"`
	Hidden        int64 `json:"hidden_size,omitempty"`
	Vocabulary    int64 `json:"vocab_size,omitempty"`
	MaxPositions  int64 `json:"max_position_embeddings,omitempty"`

	quantized bool
}

// configJSON is the part of config.json that is read. A value of another type than
// expected is left out: transformers reads it, not we.
type configJSON map[string]json.RawMessage

func (c configJSON) get(v any, keys ...string) {
	for _, k := range keys {
		if raw, ok := c[k]; ok && string(raw) != "null" && json.Unmarshal(raw, v) == nil {
			return
		}
	}
}

// readConfig returns nil if there is no config.json, or if it is invalid, which is a
// finding.
func (m *Model) readConfig(part string) *Config {
	name := path.Join(part, "config.json")
	top := m.readObject(name)
	if top == nil {
		return nil
	}
	text := configJSON{}
	top.get(&text, "text_config") // of a model that has more than text
	c := &Config{}
	for _, from := range []configJSON{text, top} {
		from.get(&c.ModelType, "model_type")
		from.get(&c.DType, "dtype", "torch_dtype")
		from.get(&c.Architectures, "architectures")
		from.get(&c.TieWordEmbeddings, "tie_word_embeddings")
		from.get(&c.Layers, "num_hidden_layers", "n_layer", "num_layers")
		from.get(&c.Heads, "num_attention_heads", "n_head", "num_heads")
		from.get(&c.KeyValueHeads, "num_key_value_heads")
		from.get(&c.Hidden, "hidden_size", "n_embd", "d_model")
		from.get(&c.Vocabulary, "vocab_size")
		from.get(&c.MaxPositions, "max_position_embeddings", "n_positions")
		quantization := configJSON{}
		if from.get(&quantization, "quantization_config", "quantization"); len(quantization) > 0 {
			c.quantized = true
			quantization.get(&c.Quantization, "quant_method")
		}
	}
	return c
}

// readQuantization returns the configuration of quantised weights of a part.
func (m *Model) readQuantization(part string) *quant.Config {
	cfg, err := quant.ReadConfig(func(base string) (io.ReadCloser, error) {
		e := m.look(path.Join(part, base))
		if !e.regular || e.outside && m.noLinks {
			return nil, fs.ErrNotExist
		}
		return m.fsys.Open(m.path(e.name))
	})
	if err != nil && m.configs[part] != nil { // which is well-formed
		m.found.add(findingOf(QuantizationConfig, path.Join(part, "config.json"), err))
	}
	return cfg
}

// readObject reads a JSON object; nil where there is no such file, or a finding says
// that it is not one.
func (m *Model) readObject(name string) configJSON {
	if m.entry(name).missing() {
		return nil
	}
	b := m.readJSON(name, ConfigMalformed)
	if b == nil {
		return nil
	}
	object := configJSON{}
	err := json.Unmarshal(b, &object)
	if isType := new(json.UnmarshalTypeError); object == nil || errors.As(err, &isType) {
		err = errNoObject
	}
	if err != nil {
		m.note(ConfigMalformed, name, "", "%v", err)
		return nil
	}
	return object
}

var errNoObject = errors.New("not a JSON object")

// checkConfig compares the dtype that a model is to be loaded as with the dtype of most
// bytes.
func (m *Model) checkConfig(s *Set) {
	c := m.configs[s.part]
	if c == nil || c.quantized || c.DType == "" || c.DType == "auto" {
		return
	}
	name := strings.TrimPrefix(c.DType, "torch.")
	said, err := tensor.ParseDType(name)
	stored, most := tensor.Unknown, int64(0)
	for d, n := range s.summary.ByDType {
		if d.IsFloat() && (n.Bytes > most || n.Bytes == most && d < stored) {
			stored, most = d, n.Bytes
		}
	}
	if most > 0 && (err != nil || stored != said) {
		m.note(ConfigDType, path.Join(s.part, "config.json"), "",
			"dtype is %s, most weights are %v", naming.Quote(name), stored)
	}
}

// components returns the directories that a pipeline's model_index.json names: values
// that are [library, class]. nil is for a directory that is no pipeline.
func (m *Model) components() []string {
	const name = "model_index.json"
	index := m.readObject(name)
	var parts []string
	for key, raw := range index {
		var class []*string
		if strings.HasPrefix(key, "_") || json.Unmarshal(raw, &class) != nil || len(class) != 2 ||
			class[0] == nil || class[1] == nil {
			continue
		}
		if !isElement(key) {
			m.note(UnsafePath, name, "", "%s does not name a directory", naming.Quote(key))
			continue
		}
		if e := m.look(key); e.outside && m.noLinks { // a finding of its own
			continue
		}
		if !isDir(m.fsys, m.path(key)) {
			m.note(MissingComponent, key, "", "named by %s", name)
			continue
		}
		parts = append(parts, key)
	}
	slices.Sort(parts)
	return parts
}
