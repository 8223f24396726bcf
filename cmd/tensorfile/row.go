package main

import (
	"encoding/hex"
	"strconv"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile/tensor"
)

// A row is what ls says about a tensor, and hash, stats and diff repeat as far as
// it identifies the tensor.
type row struct {
	tensor *tensor.Tensor
	name   string
	dtype  string
	bytes  int64 // decoded; -1 when only decoding tells
	stored tensor.Stored
	inFile bool // stored is meant
	empty  bool // there are no bytes anywhere: state that a program fills when it runs
	extra  object

	// For the formats that have them.
	ids     object // what identifies a tensor beside its name: method and value of a .pte
	entries int    // of a folded row
}

// rows lists the tensors of a file.
func (in *input) rows() []row {
	rows := make([]row, 0, in.Len())
	for t := range in.Tensors() {
		r := row{tensor: t, name: t.Name, dtype: dtypeOf(t.DType, t.Data), bytes: bytesOf(t)}
		if !t.External && t.Dense() {
			r.stored, r.inFile = t.Data.Stored()
		}
		if in.view.row != nil {
			in.view.row(len(rows), t, &r)
		}
		rows = append(rows, r)
	}
	return rows
}

// bytesOf is the decoded size of a tensor: of its elements, or of all its parts
// where it is not dense.
func bytesOf(t *tensor.Tensor) int64 {
	switch {
	case t.External:
		n, _ := t.Shape.Elements()
		if size, ok := t.DType.Bytes(n); ok {
			return size
		}
		return -1
	case t.Dense():
		return t.Data.Size()
	}
	return t.Size()
}

// dtypeOf is the name of an element type, or the file's own word for one that we
// do not know; "" where the file says nothing.
func dtypeOf(d tensor.DType, data tensor.Blob) string {
	if d.Known() {
		return d.String()
	}
	st, _ := data.Stored()
	return st.Type
}

func (r *row) scheme() string {
	if r.tensor.Dense() {
		return "dense"
	}
	return r.tensor.Scheme
}

// object is the row as ls --json has it.
func (r *row) object() object {
	t := r.tensor
	o := make(object, 0, 16)
	o = appendName(o, r.name)
	if r.entries > 0 {
		o.set("count", r.entries)
	}
	o = append(o, r.ids...)
	if r.dtype != "" {
		o.set("dtype", r.dtype)
	}
	o.set("shape", t.Shape)
	if !t.Order.RowMajor() {
		o.set("order", t.Order)
	}
	o.set("scheme", r.scheme())
	if r.bytes >= 0 {
		o.set("bytes", r.bytes)
	}
	if r.entries == 0 {
		if r.inFile {
			o = appendStored(o, r.stored)
		}
		if t.External {
			o.set("external", true)
		}
		if len(t.Parts) > 0 {
			parts := make([]object, len(t.Parts))
			for i := range t.Parts {
				parts[i] = partObject(&t.Parts[i])
			}
			o.set("parts", parts)
		}
	}
	return append(o, r.extra...)
}

func partObject(p *tensor.Part) object {
	o := object{{"role", p.Role}}
	if d := dtypeOf(p.DType, p.Data); d != "" {
		o.set("dtype", d)
	}
	if n := p.Data.Size(); n >= 0 {
		o.set("bytes", n)
	}
	if st, ok := p.Data.Stored(); ok {
		o = appendStored(o, st)
	}
	return o
}

func appendStored(o object, st tensor.Stored) object {
	if st.Offset >= 0 {
		o.set("offset", st.Offset)
	}
	o.set("stored", st.Size)
	o.set("encoding", st.Encoding)
	if st.Digest != "" {
		o.set("digest", st.Digest)
	}
	return o
}

// appendName shows a name that is not UTF-8 with its bytes beside.
func appendName(o object, name string) object {
	o.set("name", name)
	if !utf8.ValidString(name) {
		o.set("name_hex", hex.EncodeToString([]byte(name)))
	}
	return o
}

func blobObject(name string, b tensor.Blob) object {
	o := appendName(nil, name)
	if n := b.Size(); n >= 0 {
		o.set("bytes", n)
	}
	st, ok := b.Stored()
	if !ok {
		return o
	}
	if st.Offset >= 0 {
		o.set("offset", st.Offset)
	}
	if st.Encoding != "raw" {
		o.set("stored", st.Size)
		o.set("encoding", st.Encoding)
	}
	if st.Digest != "" {
		o.set("digest", st.Digest)
	}
	return o
}

// cells are the columns of ls for people.
func (r *row) cells() []string {
	t := r.tensor
	cells := []string{r.label(), r.dtype, t.Shape.String(), "", "", ""}
	if !t.Order.RowMajor() {
		cells[2] += " order " + string(appendInts(nil, t.Order))
	}
	if r.entries > 0 {
		cells[0] += " ×" + strconv.Itoa(r.entries)
	}
	if r.bytes >= 0 {
		cells[3] = strconv.FormatInt(r.bytes, 10)
	}
	switch {
	case t.External:
		cells[5] = "external"
	case !t.Dense():
		cells[5] = escape(t.Scheme)
	case r.empty:
		cells[5] = "no initial value"
	case r.inFile && r.entries == 0:
		cells[4], cells[5] = storedCells(r.stored)
	}
	return cells
}

func storedCells(st tensor.Stored) (offset, encoding string) {
	if st.Offset >= 0 {
		offset = strconv.FormatInt(st.Offset, 10)
	}
	encoding = escape(st.Encoding)
	if st.Encoding != "raw" {
		encoding += " " + human(st.Size)
	}
	return offset, encoding
}

// label is the name for people.
func (r *row) label() string {
	s := escape(r.name)
	if s == `""` || len(r.ids) == 0 {
		return s
	}
	return s + " (" + inline(r.ids) + ")"
}
