package onnx

import (
	"errors"
	"io"
	"slices"

	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
)

// maxRank is the largest number of dimensions of a tensor, as in NumPy.
const maxRank = 64

// An entry is a tensor of the file.
type entry struct {
	tensor  tensor.Tensor
	raw     source.Extent  // where tensor.Data reads, if that is plain bytes of the file
	at      int64          // offset of the field that has the tensor
	wrong   *[]error       // errors that Verify reports and reading does not
	parent  *tensor.Tensor // the sparse tensor of which this is a part
	unnamed bool           // an initializer that has no name in the file
}

// fillEntry sets e to the tensor of a TensorProto.
func (p *parser) fillEntry(e *entry, x *proto) {
	e.tensor.Shape = p.dimensions(x.at, x.dims)
	if p.err != nil {
		return
	}
	e.tensor.DType = dtypeOf(x.dataType)
	n, _ := e.tensor.Shape.Elements()
	if size, ok := e.tensor.DType.Bytes(n); ok {
		e.tensor.Data = p.denseBlob(e, x, n, size)
		return
	} else if e.tensor.DType.Known() {
		p.fail(tensor.ErrMalformed, x.at, "dims", "%v of %v is beyond 2^63 bytes",
			e.tensor.Shape, e.tensor.DType)
		return
	}
	e.tensor.Data = p.opaqueBlob(e, x, n)
}

// namedTensor returns the tensor whose name errors show: the sparse tensor for its parts.
func (e *entry) namedTensor() *tensor.Tensor {
	if e.parent != nil {
		return e.parent
	}
	return &e.tensor
}

// problems returns the errors of a tensor that Verify reports but reading does not.
func (e *entry) problems() []error {
	if e.wrong == nil {
		return nil
	}
	return *e.wrong
}

// note adds an error that does not prevent reading the tensor.
func (p *parser) note(e *entry, off int64, name, format string, args ...any) {
	p.charge(256)
	if e.wrong == nil {
		e.wrong = new([]error)
	}
	*e.wrong = append(*e.wrong, errs.Malformed(off, p.fieldPath(name), format, args...))
}

// unreadableBlob returns data of size bytes, -1 for strings, that fails when it is read.
func (p *parser) unreadableBlob(off, size int64, name, format string, args ...any) tensor.Blob {
	p.charge(256)
	u := &unreadable{size: size,
		err: errs.Malformed(off, p.fieldPath(name), format, args...)}
	if size < 0 {
		u.typeName = typeName(stringType)
	}
	return tensor.NewBlob(u)
}

// denseBlob returns the data of a tensor of n elements in size bytes.
func (p *parser) denseBlob(e *entry, x *proto, n, size int64) tensor.Blob {
	if x.segment {
		p.charge(256)
		return tensor.NewBlob(&unreadable{size: size, err: errs.At(x.at, p.fieldPath("segment"),
			errors.ErrUnsupported, "a tensor in segments")})
	}
	if x.strings > 0 {
		p.note(e, x.at, "string_data", "strings in a tensor of %v", e.tensor.DType)
	}
	own := dataTypes[x.dataType].field // the typed field for this dtype
	var typed *typedField
	for i := range x.typed {
		t := &x.typed[i]
		switch {
		case !hasEntries(t):
		case t.field == own:
			typed = t
		default:
			p.note(e, x.at, fieldNames[t.field], "elements of %v are in %s or raw_data",
				e.tensor.DType, fieldNames[own])
		}
	}
	if x.external {
		if x.raw.n > 0 || typed != nil {
			return p.unreadableBlob(x.at, size, "external_data",
				"elements in the file and in another one")
		}
		return p.externalBlob(e, x, size)
	}
	switch {
	case x.raw.n > 0 && typed != nil:
		p.note(e, x.at, fieldNames[own], "elements in raw_data as well, which count")
		fallthrough
	case x.raw.n > 0 || x.raw.n == 0 && size == 0:
		if x.raw.n != size {
			return p.unreadableBlob(x.raw.off, size, "raw_data",
				"%d bytes where %v of %v takes %d",
				x.raw.n, e.tensor.Shape, e.tensor.DType, size)
		}
		e.raw = p.extent(x.raw.off, x.raw.n)
		return tensor.NewBlob(&e.raw)
	case typed != nil:
		return p.typedBlob(e, x, typed, n, size)
	case size > 0:
		return p.unreadableBlob(x.at, size, "", "no elements where %v of %v takes %d bytes",
			e.tensor.Shape, e.tensor.DType, size)
	}
	return tensor.Blob{}
}

func hasEntries(t *typedField) bool {
	for _, x := range t.parts {
		if x.n > 0 {
			return true
		}
	}
	return false
}

// opaqueBlob returns the data of n elements that are strings or have an unknown dtype:
// the bytes as they are stored.
func (p *parser) opaqueBlob(e *entry, x *proto, n int64) tensor.Blob {
	p.charge(128)
	name := typeName(x.dataType)
	isString := x.dataType == stringType
	switch {
	case isString && (x.external || x.raw.n > 0 || len(x.typed) > 0):
		return p.unreadableBlob(x.at, -1, "data_type", "strings that are not in string_data")
	case isString && x.strings != n:
		return p.unreadableBlob(x.at, -1, "string_data", "%d strings where %v has %d", x.strings,
			e.tensor.Shape, n)
	case isString && !x.scattered:
		return tensor.NewBlob(&opaque{p.extent(x.text.off, x.text.n), name,
			fieldNames[stringData]})
	case !isString && !x.external && x.raw.n > 0:
		return tensor.NewBlob(&opaque{p.extent(x.raw.off, x.raw.n), name, "raw"})
	}
	return tensor.NewBlob(&unreadable{size: -1, typeName: name, err: errs.At(x.at,
		p.fieldPath("data_type"), errors.ErrUnsupported, "elements of the type %s in this form",
		name)})
}

// sparseEntry adds the tensor of a SparseTensorProto to the tensors of the file. It
// checks the shapes of its parts.
func (p *parser) sparseEntry(x *sparseParts, name string, index int) *entry {
	p.path = append(p.path, step{name, index})
	defer p.leave()
	e := p.addEntry(x.at)
	var wrong []error
	part := func(i int, role string) tensor.Part {
		if i == 1 && x.parts[1].dataType == 0 && len(x.parts[0].dims) == 1 &&
			x.parts[0].dims[0] == 0 {
			return tensor.Part{Role: role, DType: tensor.I64} // no values: indices may be absent
		}
		p.path = append(p.path, step{role, -1})
		sub := &entry{parent: &e.tensor}
		p.fillEntry(sub, &x.parts[i])
		p.leave()
		wrong = append(wrong, sub.problems()...)
		return tensor.Part{Role: role, DType: sub.tensor.DType, Data: sub.tensor.Data}
	}
	e.tensor.Shape = p.dimensions(x.at, x.dims)
	e.tensor.Scheme = sparse.COO
	e.tensor.Parts = []tensor.Part{part(0, "values"), part(1, "indices")}
	e.tensor.DType = e.tensor.Parts[0].DType
	if wrong != nil {
		e.wrong = &wrong
	}
	if slices.Contains(x.dims, 0) {
		p.note(e, x.at, "dims", "%v: a sparse tensor has no dimensions of 0", x.dims)
	}
	values, indices := x.parts[0].dims, x.parts[1].dims
	switch {
	case len(values) != 1:
		p.note(e, x.at, "values", "%d dimensions, not one", len(values))
	case x.parts[1].dataType == 0 && values[0] == 0:
	case len(indices) == 1 && indices[0] == values[0]:
	case len(indices) == 2 && indices[0] == values[0] && indices[1] == int64(len(x.dims)):
	default:
		p.note(e, x.at, "indices", "%v for %v values of %v", indices, values, x.dims)
	}
	if d := e.tensor.Parts[1].DType; d != tensor.I64 {
		p.note(e, x.at, "indices", "%s, not int64", typeName(x.parts[1].dataType))
	}
	return e
}

// unreadable is the data of a tensor that cannot be read.
type unreadable struct {
	tensor.Computed
	size     int64
	typeName string // of a string or unknown dtype
	err      error
}

func (u *unreadable) Size() int64                             { return u.size }
func (u *unreadable) ReadAt(p []byte, off int64) (int, error) { return 0, u.err }
func (u *unreadable) ReadInto(p []byte) error                 { return u.err }
func (u *unreadable) Open() (io.ReadCloser, error)            { return nil, u.err }
func (u *unreadable) Stored() (tensor.Stored, bool) {
	return tensor.Stored{Offset: -1, Type: u.typeName}, true
}

// opaque is elements that are strings or have an unknown dtype, as they are stored. Each
// string has its tag and its length before it.
type opaque struct {
	source.Extent
	typeName string
	encoding string
}

func (u *opaque) Stored() (tensor.Stored, bool) {
	st, ok := u.Extent.Stored()
	st.Encoding, st.Type = u.encoding, u.typeName
	return st, ok
}
