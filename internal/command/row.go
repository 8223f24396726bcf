package command

import (
	"encoding/hex"
	"iter"
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
	for r := range in.eachRow() {
		rows = append(rows, *r)
	}
	return rows
}

// eachRow yields the same one by one; a row is gone when the next one comes.
func (in *input) eachRow() iter.Seq[*row] {
	return func(yield func(*row) bool) {
		i := 0
		var r row
		for t := range in.Tensors() {
			r = row{tensor: t, name: t.Name, dtype: dtypeOf(t.DType, t.Data), bytes: bytesOf(t)}
			if !t.External && t.Dense() {
				r.stored, r.inFile = t.Data.Stored()
			}
			if in.view.row != nil {
				in.view.row(i, t, &r)
			}
			if i++; !yield(&r) {
				return
			}
		}
	}
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

// appendJSON writes the row as ls --json has it. Files have many: nothing is
// allocated for one.
func (r *row) appendJSON(b []byte) []byte {
	t := r.tensor
	b = append(b, `{"name": `...)
	b = appendString(b, r.name)
	if !utf8.ValidString(r.name) {
		b = append(b, `, "name_hex": "`...)
		b = hex.AppendEncode(b, []byte(r.name))
		b = append(b, '"')
	}
	if r.entries > 0 {
		b = appendInt(b, "count", int64(r.entries))
	}
	b = appendFields(b, r.ids)
	if r.dtype != "" {
		b = appendText(b, "dtype", r.dtype)
	}
	b = append(b, `, "shape": `...)
	b = appendInts(b, t.Shape)
	if !t.Order.RowMajor() {
		b = append(b, `, "order": `...)
		b = appendInts(b, t.Order)
	}
	b = appendText(b, "scheme", r.scheme())
	if r.bytes >= 0 {
		b = appendInt(b, "bytes", r.bytes)
	}
	if r.entries == 0 {
		if r.inFile {
			b = appendStored(b, &r.stored)
		}
		if t.External {
			b = append(b, `, "external": true`...)
		}
		if len(t.Parts) > 0 {
			b = append(b, `, "parts": [`...)
			for i := range t.Parts {
				if i > 0 {
					b = append(b, ", "...)
				}
				b = appendPart(b, &t.Parts[i])
			}
			b = append(b, ']')
		}
	}
	b = appendFields(b, r.extra)
	return append(b, '}')
}

func appendPart(b []byte, p *tensor.Part) []byte {
	b = append(b, `{"role": `...)
	b = appendString(b, p.Role)
	if d := dtypeOf(p.DType, p.Data); d != "" {
		b = appendText(b, "dtype", d)
	}
	if n := p.Data.Size(); n >= 0 {
		b = appendInt(b, "bytes", n)
	}
	if st, ok := p.Data.Stored(); ok {
		b = appendStored(b, &st)
	}
	return append(b, '}')
}

func appendStored(b []byte, st *tensor.Stored) []byte {
	if st.Offset < 0 && st.Encoding == "" {
		return b // of bytes that are not there, only the type is known
	}
	if st.Offset >= 0 {
		b = appendInt(b, "offset", st.Offset)
	}
	b = appendInt(b, "stored", st.Size)
	b = appendText(b, "encoding", st.Encoding)
	if st.Digest != "" {
		b = appendText(b, "digest", st.Digest)
	}
	if st.File != "" {
		b = appendText(b, "shard", st.File)
	}
	return b
}

// The fields of an object after its first.
func appendText(b []byte, key, v string) []byte {
	b = append(append(append(b, `, "`...), key...), `": `...)
	return appendString(b, v)
}

func appendInt(b []byte, key string, v int64) []byte {
	b = append(append(append(b, `, "`...), key...), `": `...)
	return strconv.AppendInt(b, v, 10)
}

func appendFields(b []byte, o object) []byte {
	for _, f := range o {
		b = append(append(append(b, `, "`...), f.key...), `": `...)
		b = appendJSON(b, f.value)
	}
	return b
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

// print adds the row to the table of ls: name, dtype, shape, bytes, offset,
// encoding.
func (r *row) print(t *table) {
	x := r.tensor
	b := appendEscaped(t.row(), r.name)
	if len(r.ids) > 0 {
		b = append(append(append(b, " ("...), inline(r.ids)...), ')')
	}
	if r.entries > 0 {
		b = strconv.AppendInt(append(b, " ×"...), int64(r.entries), 10)
	}
	b = t.cell(b)
	if r.dtype != "" {
		b = appendEscaped(b, r.dtype)
	}
	b = appendInts(t.cell(b), x.Shape)
	if !x.Order.RowMajor() {
		b = appendInts(append(b, " order "...), x.Order)
	}
	if b = t.cell(b); r.bytes >= 0 {
		b = strconv.AppendInt(b, r.bytes, 10)
	}
	b = t.cell(b)
	switch {
	case x.External:
		b = append(t.cell(b), "external"...)
	case !x.Dense():
		b = appendEscaped(t.cell(b), x.Scheme)
	case r.empty:
		b = append(t.cell(b), "no initial value"...)
	case r.inFile && r.entries == 0:
		b = storedCells(t, b, &r.stored)
	default:
		b = t.cell(b)
	}
	t.done(b)
}

// storedCells are the columns of where and how something lies in the file.
func storedCells(t *table, b []byte, st *tensor.Stored) []byte {
	if st.Offset >= 0 {
		b = strconv.AppendInt(b, st.Offset, 10)
	}
	b = appendEscaped(t.cell(b), st.Encoding)
	if st.Encoding != "raw" {
		b = append(append(b, ' '), human(st.Size)...)
	}
	const most = len("sha256:0123456789abcdef")
	if b = t.cell(b); st.Digest != "" {
		b = appendEscaped(b, st.Digest[:min(len(st.Digest), most)])
	}
	if len(st.Digest) > most {
		b = append(b, "…"...)
	}
	return b
}

// blobRow is the row of what is no tensor: a part, or a blob.
func blobRow(t *table, indent, name, dtype string, data tensor.Blob) {
	b := t.cell(appendEscaped(append(t.row(), indent...), name))
	if dtype != "" {
		b = append(b, dtype...)
	}
	b = t.cell(t.cell(b))
	if n := data.Size(); n >= 0 {
		b = strconv.AppendInt(b, n, 10)
	}
	b = t.cell(b)
	if st, ok := data.Stored(); ok {
		b = storedCells(t, b, &st)
	} else {
		b = t.cell(b)
	}
	t.done(b)
}

// label is the name for people.
func (r *row) label() string {
	s := escape(r.name)
	if len(r.ids) == 0 {
		return s
	}
	return s + " (" + inline(r.ids) + ")"
}

// A rowName identifies a tensor in JSON.
type rowName struct {
	nameField
	Method *string `json:"method,omitempty"`
	Value  *int    `json:"value,omitempty"`
}

func (r *row) rowName() *rowName {
	n := &rowName{nameField: nameOf(r.name)}
	if len(r.ids) == 2 {
		method, value := r.ids[0].value.(string), r.ids[1].value.(int)
		n.Method, n.Value = &method, &value
	}
	return n
}

// shapeOf is the shape for JSON, never null.
func shapeOf(t *tensor.Tensor) *tensor.Shape {
	s := t.Shape
	if s == nil {
		s = tensor.Shape{}
	}
	return &s
}
