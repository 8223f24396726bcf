package command

import (
	"iter"
	"slices"
	"strconv"

	"github.com/tensorfile/tensorfile/inspect"
	"github.com/tensorfile/tensorfile/primitiv"
	"github.com/tensorfile/tensorfile/pte"
	"github.com/tensorfile/tensorfile/ptn"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/torch"
	"github.com/tensorfile/tensorfile/ztensor"
)

// A row is a tensor as the commands list it.
type row struct {
	tensor  *tensor.Tensor
	name    string
	dtype   string
	bytes   int64 // decoded; -1 if it is known only after decoding
	stored  tensor.Stored
	inFile  bool // stored is valid
	empty   bool // state of a program without an initial value
	entries int  // the number of tensors in a folded row; 0 for other rows

	// For the formats that have them.
	method     *string // method and value identify a tensor of a .pte, whose name may repeat
	value      *int
	buffer     int
	mutable    bool
	aliasOf    string
	path       []string
	attributes inspect.AttributeList
}

// rows lists the tensors of a file.
func (in *input) rows() []row {
	rows := make([]row, 0, in.Len())
	for r := range in.eachRow() {
		rows = append(rows, *r)
	}
	return rows
}

// eachRow yields the rows one by one. A row is valid until the next one.
func (in *input) eachRow() iter.Seq[*row] {
	return func(yield func(*row) bool) {
		i := 0
		var r row
		var entries []*pte.Entry
		for t := range in.Tensors() {
			r = row{tensor: t, name: t.Name, dtype: dtypeOf(t.DType, t.Data),
				bytes: inspect.DecodedSize(t)}
			if !t.External && t.Dense() {
				r.stored, r.inFile = t.Data.Stored()
				r.inFile = r.inFile && (r.stored.Offset >= 0 || r.stored.Encoding != "")
				r.stored.File = inspect.FileOf(in.File, i, r.stored)
			}
			switch f := in.Sys().(type) {
			case *pte.Reader:
				if i == 0 {
					entries = slices.Collect(f.Entries())
				}
				r.ofProgram(entries[i])
			case *ptn.Reader:
				r.aliasOf, _ = f.Owner(t.Name)
			case *primitiv.Reader:
				if o, ok := primitiv.OriginOf(t); ok {
					r.path = o.Path
				}
			case *torch.Reader:
				r.path = f.Path(i)
			case *ztensor.Reader:
				r.attributes = inspect.TensorAttributes(f, t)
			}
			if i++; !yield(&r) {
				return
			}
		}
	}
}

// ofProgram sets the fields that only tensors of a .pte have.
func (r *row) ofProgram(e *pte.Entry) {
	method, value := e.Method.Name(), e.Value
	r.method, r.value = &method, &value
	r.buffer, r.mutable = int(e.Buffer), e.Role.Mutable()
	if e.Role == pte.RoleState && e.Buffer == 0 {
		r.empty, r.inFile = true, false // it has no bytes before the program runs
	}
}

// dtypeOf returns the name of a dtype, or the file's own name of an unknown dtype; "" if
// the file has none.
func dtypeOf(d tensor.DType, data tensor.Blob) string {
	if d.Known() {
		return d.String()
	}
	st, _ := data.Stored()
	return st.Type
}

// typeName returns the type as text: the dtype, and the scheme of a tensor that is not
// dense.
func (r *row) typeName() string {
	switch {
	case r.tensor.Dense() || r.tensor.Scheme == "":
		return r.dtype
	case r.dtype == "":
		return r.tensor.Scheme
	}
	return r.dtype + " (" + r.tensor.Scheme + ")"
}

// onlyPart returns where the only part of a tensor is in the file; false if it is dense
// or has several parts.
func (r *row) onlyPart() (st tensor.Stored, ok bool) {
	if r.tensor.Dense() || len(r.tensor.Parts) != 1 {
		return st, false
	}
	return r.tensor.Parts[0].Data.Stored()
}

func (r *row) scheme() string {
	if r.tensor.Dense() {
		return "dense"
	}
	return r.tensor.Scheme
}

// label returns the name as text, for a .pte with method and value.
func (r *row) label() string { return string(r.appendLabel(nil)) }

func (r *row) appendLabel(b []byte) []byte {
	b = appendEscaped(b, r.name)
	if r.method != nil {
		b = appendEscaped(append(b, " (method="...), *r.method)
		b = strconv.AppendInt(append(b, " value="...), int64(*r.value), 10)
		b = append(b, ')')
	}
	return b
}

// A rowName identifies a tensor in JSON.
type rowName struct {
	nameField
	Method *string `json:"method,omitempty"`
	Value  *int    `json:"value,omitempty"`
}

func (r *row) rowName() *rowName { return &rowName{nameOf(r.name), r.method, r.value} }

// A knownSize is a number that is omitted where it is negative.
type knownSize int64

// IsZero reports whether the size is not known.
func (n knownSize) IsZero() bool { return n < 0 }

// A storedField says where and how a payload is in the file.
type storedField struct {
	Offset   knownSize `json:"offset,omitzero"`
	Stored   knownSize `json:"stored,omitzero"`
	Encoding string    `json:"encoding,omitempty"`
	Digest   string    `json:"digest,omitempty"`
	Shard    string    `json:"shard,omitempty"`
}

func storedOf(st tensor.Stored, ok bool) storedField {
	if !ok || st.Offset < 0 && st.Encoding == "" { // only a type
		return storedField{Offset: -1, Stored: -1}
	}
	return storedField{knownSize(st.Offset), knownSize(st.Size), st.Encoding, st.Digest, st.File}
}

// A tensorRow is an element of tensors in ls --json.
type tensorRow struct {
	nameField
	Count  int          `json:"count,omitempty"`
	Method *string      `json:"method,omitempty"`
	Value  *int         `json:"value,omitempty"`
	DType  string       `json:"dtype,omitempty"`
	Shape  tensor.Shape `json:"shape"`
	Order  tensor.Order `json:"order,omitempty"`
	Scheme string       `json:"scheme"`
	Bytes  knownSize    `json:"bytes,omitzero"`
	storedField
	External   bool                  `json:"external,omitempty"`
	Parts      []partRow             `json:"parts,omitempty"`
	Buffer     int                   `json:"buffer,omitempty"`
	Mutable    bool                  `json:"mutable,omitempty"`
	AliasOf    string                `json:"alias_of,omitempty"`
	Path       []string              `json:"path,omitempty"`
	Attributes inspect.AttributeList `json:"attributes,omitempty"`
}

// A partRow is an element of parts in ls --json.
type partRow struct {
	Role  string    `json:"role"`
	DType string    `json:"dtype,omitempty"`
	Bytes knownSize `json:"bytes,omitzero"`
	storedField
}

// A blobRow is an element of blobs in ls --json.
type blobRow struct {
	nameField
	DType string       `json:"dtype,omitempty"` // of a weight of a native delegate
	Shape tensor.Shape `json:"shape,omitzero"`
	Bytes knownSize    `json:"bytes,omitzero"`
	storedField
}

func (r *row) document() tensorRow {
	t := r.tensor
	d := tensorRow{
		nameField: nameOf(r.name), Count: r.entries, Method: r.method, Value: r.value,
		DType: r.dtype,
		Shape: *shapeOf(t), Scheme: r.scheme(), Bytes: knownSize(r.bytes),
		storedField: storedOf(tensor.Stored{}, false),
		Buffer:      r.buffer, Mutable: r.mutable, AliasOf: r.aliasOf, Path: r.path,
		Attributes: r.attributes,
	}
	if !t.Order.RowMajor() {
		d.Order = t.Order
	}
	if r.entries > 0 {
		return d
	}
	d.External = t.External
	d.storedField = storedOf(r.stored, r.inFile)
	for i := range t.Parts {
		p := &t.Parts[i]
		d.Parts = append(d.Parts, partRow{p.Role, dtypeOf(p.DType, p.Data),
			knownSize(p.Data.Size()), storedOf(p.Data.Stored())})
	}
	return d
}

func blobDocument(name string, b tensor.Blob, weight *tensor.Tensor) blobRow {
	d := blobRow{nameField: nameOf(name), Bytes: knownSize(b.Size()),
		storedField: storedOf(b.Stored())}
	if weight != nil {
		d.DType, d.Shape = weight.DType.String(), weight.Shape
	}
	if d.Encoding == "raw" {
		d.Stored, d.Encoding = -1, ""
	}
	return d
}

// shapeOf returns the shape for JSON, which is never null.
func shapeOf(t *tensor.Tensor) *tensor.Shape {
	s := t.Shape
	if s == nil {
		s = tensor.Shape{}
	}
	return &s
}

// print adds the row to the table of ls: name, dtype, shape, bytes, offset, encoding,
// digest.
func (r *row) print(a *app, t *table) {
	x := r.tensor
	b := r.appendLabel(t.row())
	if r.entries > 0 {
		b = strconv.AppendInt(append(b, " ×"...), int64(r.entries), 10)
	}
	b = t.cell(b)
	b = appendEscaped(b, r.typeName())
	b = appendInts(t.cell(b), x.Shape)
	if !x.Order.RowMajor() {
		b = appendInts(append(b, " order "...), x.Order)
	}
	b = a.appendSize(t.cell(b), r.bytes)
	b = t.cell(b)
	switch {
	case x.External:
		b = append(t.cell(b), "external"...)
	case !x.Dense() && r.entries == 0:
		if st, ok := r.onlyPart(); ok {
			b = storedCells(t, b, &st)
		} else {
			if at := r.offset(); at >= 0 {
				b = strconv.AppendInt(b, at, 10)
			}
			b = t.cell(b)
		}
	case r.empty:
		b = append(t.cell(b), "no initial value"...)
	case r.aliasOf != "" && r.entries == 0:
		b = strconv.AppendInt(b, r.stored.Offset, 10)
		b = appendEscaped(append(t.cell(b), "alias of "...), r.aliasOf)
	case r.inFile && r.entries == 0:
		b = storedCells(t, b, &r.stored)
	default:
		b = t.cell(b)
	}
	t.done(b)
}

// storedCells adds the cells offset, encoding and digest.
func storedCells(t *table, b []byte, st *tensor.Stored) []byte {
	if st.Offset >= 0 {
		b = strconv.AppendInt(b, st.Offset, 10)
	}
	b = appendEscaped(t.cell(b), st.Encoding)
	if st.Encoding != "raw" {
		b = append(append(b, ' '), human(st.Size)...)
	}
	const shown = len("sha256:0123456789abcdef")
	if b = t.cell(b); st.Digest != "" {
		b = appendEscaped(b, st.Digest[:min(len(st.Digest), shown)])
	}
	if len(st.Digest) > shown {
		b = append(b, "…"...)
	}
	return b
}

// printPayload adds the row of a part or a blob.
func (a *app) printPayload(t *table, indent, name, dtype string, data tensor.Blob) {
	b := t.cell(appendEscaped(append(t.row(), indent...), name))
	if dtype != "" {
		b = appendEscaped(b, dtype)
	}
	b = a.appendSize(t.cell(t.cell(b)), data.Size())
	b = t.cell(b)
	if st, ok := data.Stored(); ok {
		b = storedCells(t, b, &st)
	} else {
		b = t.cell(b)
	}
	t.done(b)
}

// appendSize appends a size for a table, such as 1.5 KiB, or with --bytes exactly;
// nothing if it is not known.
func (a *app) appendSize(b []byte, n int64) []byte {
	switch {
	case n < 0:
		return b
	case a.exact:
		return strconv.AppendInt(b, n, 10)
	}
	return append(b, human(n)...)
}

func (a *app) size(n int64) string { return string(a.appendSize(nil, n)) }

func appendInts[T int | int64](b []byte, s []T) []byte {
	b = append(b, '[')
	for i, d := range s {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = strconv.AppendInt(b, int64(d), 10)
	}
	return append(b, ']')
}
