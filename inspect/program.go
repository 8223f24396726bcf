package inspect

import (
	"encoding/json"
	"slices"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/onnx"
	"github.com/tensorfile/tensorfile/pte"
	"github.com/tensorfile/tensorfile/ptn"
	"github.com/tensorfile/tensorfile/rten"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// An Attribute is an attribute of a file. Value is a string, or in a zTensor file a
// ztensor.Value that is not a string.
type Attribute struct {
	Key   string
	Value any
}

// Attributes returns the attributes of a file, in file order.
func Attributes(f *tensorfile.File) AttributeList {
	all := AttributeList{}
	if r, ok := f.Sys().(*ztensor.Reader); ok {
		for k, v := range r.AttributeValues() {
			all = append(all, ztensorAttribute(k, v))
		}
		return all
	}
	for k, v := range f.Attributes() {
		all = append(all, Attribute{k, v})
	}
	return all
}

// TensorAttributes returns the attributes of one tensor of a zTensor file.
func TensorAttributes(r *ztensor.Reader, t *tensor.Tensor) (all AttributeList) {
	for k, v := range r.TensorAttributes(t) {
		all = append(all, ztensorAttribute(k, v))
	}
	return all
}

func ztensorAttribute(k string, v ztensor.Value) Attribute {
	if s, ok := v.Text(); ok {
		return Attribute{k, s}
	}
	return Attribute{k, v}
}

// contentAttributes returns the attributes to compare: without total_size of an index,
// and with numbers, bools and arrays of a .gguf as JSON, so that they differ from
// strings.
func contentAttributes(f *tensorfile.File) []Attribute {
	files := []*tensorfile.File{f}
	if r, ok := f.Sys().(joined); ok {
		files = r.Files()
	}
	types := map[string]gguf.ValueType{}
	for _, file := range slices.Backward(files) {
		if r, ok := file.Sys().(*gguf.Reader); ok {
			for k, v := range r.Metadata() {
				types[k] = v.Type()
			}
		}
	}
	var all []Attribute
	sharded := Shards(f) != nil
	for _, a := range Attributes(f) {
		text, _ := a.Value.(string)
		switch t, ok := types[a.Key]; {
		case ok && t != gguf.TypeString && json.Valid([]byte(text)):
			all = append(all, Attribute{a.Key, json.RawMessage(text)})
		case !sharded || a.Key != "total_size":
			all = append(all, a)
		}
	}
	return all
}

// Program returns the content of a program, without tensors, blobs and attributes: an
// entry for each value and instruction, or node. It does not depend on how the program is
// stored. It supports .pte, .bpte with its test cases, .ptn, .rten and .onnx, and returns
// nil for other formats.
func Program(f *tensorfile.File) []Attribute {
	switch r := f.Sys().(type) {
	case *pte.Reader:
		all := pteContent(r)
		if b := r.Bundle(); b != nil {
			all = append(all, pteCases(b)...)
		}
		return all
	case *ptn.Reader:
		return ptnContent(r)
	case *rten.Reader:
		return rtenContent(r)
	case *onnx.Reader:
		return onnxContent(r)
	}
	return nil
}

// programText collects the entries of Program.
type programText []Attribute

func (w *programText) set(key string, value string) { *w = append(*w, Attribute{key, value}) }
