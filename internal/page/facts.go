package page

import (
	"context"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile/inspect"
	"github.com/tensorfile/tensorfile/model"
	"github.com/tensorfile/tensorfile/tensor"
)

// maxText is how many bytes of an attribute the page shows: some are vocabularies.
const maxText = 2000

// facts are the result of the method facts, which the page shows when it opens.
type facts struct {
	Name       string         `json:"name"`
	Path       string         `json:"path,omitempty"`
	Remote     bool           `json:"remote"`
	Title      string         `json:"title"` // of the format
	Info       *inspect.Info  `json:"info"`
	Attributes [][2]string    `json:"attributes"`
	Usage      *inspect.Usage `json:"usage"`
	Checked    bool           `json:"checked"` // verify also checks the directory
}

func (f *file) facts() facts {
	info := inspect.NewInfo(f.File, f.Config)
	out := facts{f.Name, f.Path, f.Remote, f.File.Format().Title(), info, [][2]string{},
		inspect.NewUsage(f.File, &inspect.UsageOptions{Config: f.Config}), f.Model != nil}
	for _, a := range info.Attributes {
		text, ok := a.Value.(string)
		if !ok {
			b, err := json.Marshal(a.Value)
			if err != nil {
				b = []byte(err.Error())
			}
			text = string(b)
		}
		out.Attributes = append(out.Attributes, [2]string{a.Key, cut(text)})
	}
	info.Attributes = nil
	return out
}

// cut returns the first maxText bytes of a long text, up to the end of a character.
func cut(text string) string {
	if len(text) <= maxText {
		return text
	}
	n := maxText
	for n > maxText-utf8.UTFMax && !utf8.RuneStart(text[n]) {
		n--
	}
	return fmt.Sprintf("%s… (%d bytes)", text[:n], len(text))
}

// A row is a tensor or a blob in the table.
type row struct {
	Index    int          `json:"index"` // of the tensor; -1 for a blob
	Name     string       `json:"name"`
	DType    string       `json:"dtype,omitempty"` // "blob" for a blob
	Shape    tensor.Shape `json:"shape,omitzero"`
	Order    tensor.Order `json:"order,omitempty"`
	Bytes    int64        `json:"bytes"`  // decoded; -1 if it is known only after decoding
	Stored   int64        `json:"stored"` // in the file; -1 if it is not known
	Offset   int64        `json:"offset"` // -1 if there is none
	Encoding string       `json:"encoding,omitempty"`
	Shard    string       `json:"shard,omitempty"`
	Digest   string       `json:"digest,omitempty"`
	Scheme   string       `json:"scheme,omitempty"`
	External bool         `json:"external,omitempty"`
	Parts    []part       `json:"parts,omitempty"`
	Of       []int        `json:"of,omitempty"` // indices of the parts of a quantised weight
}

// A part is a part of a tensor that is not dense, or of a quantised weight.
type part struct {
	Role  string `json:"role"`
	DType string `json:"dtype,omitempty"`
	Bytes int64  `json:"bytes"`
}

func (f *file) rows() []row {
	rows := make([]row, 0, len(f.tensors))
	for i, t := range f.tensors {
		r := row{Index: i, Name: t.Name, DType: dtypeOf(t.DType, t.Data), Shape: t.Shape,
			Bytes: inspect.DecodedSize(t), Offset: -1, Stored: -1, External: t.External}
		if r.Shape == nil {
			r.Shape = tensor.Shape{}
		}
		if !t.Order.RowMajor() {
			r.Order = t.Order
		}
		if t.Dense() {
			if !t.External {
				r.place(t.Data)
				r.Shard = inspect.FileOf(f.File, i, tensor.Stored{File: r.Shard})
			}
		} else {
			r.Scheme = t.Scheme
		}
		for j := range t.Parts {
			p := &t.Parts[j]
			of := row{Offset: -1, Stored: -1}
			of.place(p.Data)
			if !t.Dense() && of.Stored >= 0 {
				r.Stored = max(r.Stored, 0) + of.Stored
			}
			if !t.Dense() && of.Offset >= 0 && (r.Offset < 0 || of.Offset < r.Offset) {
				r.Offset, r.Shard = of.Offset, of.Shard
			}
			r.Parts = append(r.Parts, part{p.Role, dtypeOf(p.DType, p.Data), p.Data.Size()})
		}
		rows = append(rows, r)
	}
	for name, b := range f.File.Blobs() {
		r := row{Index: -1, Name: name, DType: "blob", Bytes: b.Size(), Offset: -1, Stored: -1}
		r.place(b)
		rows = append(rows, r)
	}
	return rows
}

// weightRows returns the rows of quantised weights, each with the tensors that are its
// parts.
func (f *file) weightRows() []row {
	rows, index := []row{}, map[string]int{}
	for i, t := range f.tensors {
		if _, ok := index[t.Name]; !ok {
			index[t.Name] = i
		}
	}
	for i, w := range f.weights() {
		r := row{Index: len(f.tensors) + i, Name: w.Name, DType: w.DType.String(),
			Shape: w.Tensor.Shape, Offset: -1, Stored: -1, Scheme: w.Scheme}
		if r.Shape == nil {
			r.Shape = tensor.Shape{}
		}
		for _, p := range w.Parts {
			n := max(inspect.DecodedSize(p.Tensor), 0)
			r.Bytes += n
			r.Parts = append(r.Parts, part{p.Role, p.Tensor.DTypeName(), n})
			r.Of = append(r.Of, index[p.Tensor.Name])
		}
		rows = append(rows, r)
	}
	return rows
}

// place sets where and how the bytes of a row are in the file.
func (r *row) place(b tensor.Blob) {
	st, ok := b.Stored()
	if !ok || st.Offset < 0 && st.Encoding == "" {
		return
	}
	r.Offset, r.Stored, r.Shard, r.Digest = st.Offset, st.Size, st.File, st.Digest
	if st.Encoding != "raw" {
		r.Encoding = st.Encoding
	}
}

// dtypeOf returns the name of a dtype, or the file's own name of an unknown dtype.
func dtypeOf(d tensor.DType, data tensor.Blob) string {
	if d.Known() {
		return d.String()
	}
	st, _ := data.Stored()
	return st.Type
}

// findings is the result of verify.
type findings struct {
	Findings []tensor.Finding `json:"findings"`
	Model    []model.Finding  `json:"model"` // of a directory
}

// verify verifies the whole file. It fails only if ctx ends. For a directory it also
// checks names, sizes, links and indexes.
func (f *file) verify(ctx context.Context, progress Progress) (*findings, error) {
	report, _ := f.File.Verify(ctx, &tensor.VerifyOptions{
		Strict: f.Strict, External: f.External, Progress: progress,
	})
	out := &findings{append([]tensor.Finding{}, report.Findings...), []model.Finding{}}
	if f.Model != nil && ctx.Err() == nil {
		if r, _ := f.Model.Check(ctx, nil); r != nil {
			out.Model = append(out.Model, r.Findings...)
		}
	}
	return out, ctx.Err()
}
