package v1

import (
	"errors"
	"fmt"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
	"github.com/tensorfile/tensorfile/ztensor/internal/dtype"
)

// isPrimaryRole reports whether the component of that role has the elements of the
// tensor, so that both have one dtype (§4.2 and §4.3 of the document for sparse formats).
func isPrimaryRole(format, role string) bool {
	if isSparse(format) {
		return role == "values"
	}
	return role == "data"
}

func isSparse(format string) bool { return format == sparse.CSR || format == sparse.COO }

// isIndexRole reports whether a component has the indices of a sparse tensor.
func isIndexRole(format, role string) bool {
	return format == sparse.CSR && (role == "indices" || role == "indptr") ||
		format == sparse.COO && role == "coords"
}

// componentError fails for a field of the component w.
func (s *scan) componentError(w *fields, field, format string, args ...any) {
	if s.Err == nil {
		s.field = field
		s.Malformed(w.at, format, args...)
	}
}

// assemble completes a tensor from its fields and the fields of its components.
func (s *scan) assemble(t *tensor.Tensor, f *fields) {
	r := s.r
	dense := f.format == "dense"
	if !dense {
		t.Scheme = f.format
	}
	switch typed := f.has&keyDType != 0; {
	case f.format == "":
		s.Malformed(s.At, "an empty format")
	case typed:
		s.field = "dtype"
		t.DType = s.storageType(f.dtype)
		if s.componentTypes {
			s.deviationAt(s.At, "a dtype of the tensor; in this layout the components have dtypes")
		}
	case len(s.roles) == 0 && !s.componentTypes:
		s.Malformed(s.At, "dtype is missing")
	}
	t.Shape = r.Dims.Take(len(s.dims))
	copy(t.Shape, s.dims)
	others := len(s.roles)
	for i := range s.roles {
		if dense && s.roles[i].name == "data" {
			others--
		}
	}
	if others > 0 {
		t.Parts = r.Parts.Take(others)[:0]
	}
	for i := range s.roles {
		p, w := r.NewPayload(t), &s.roles[i]
		s.level, s.role, s.field = 2, w.name, ""
		s.setExtent(p, w)
		s.setType(t, p, w, f)
		if s.Err != nil {
			return
		}
		if s.componentTypes && isPrimaryRole(f.format, w.name) {
			t.DType = p.Dtype
		}
		if dense && w.name == "data" {
			t.DType, t.Data = p.Dtype, p.Blob()
			s.checkDense(p, w, f)
			continue
		}
		if r.Options.Strict && w.has&keyDType != 0 && p.Dtype != tensor.U64 &&
			isIndexRole(f.format, w.name) {
			s.field = "dtype"
			s.deviationAt(w.at, "indices that are not u64, which upstream reads them as")
		}
		t.Parts = append(t.Parts,
			tensor.Part{Role: w.name, DType: p.Dtype, Data: p.Blob()})
	}
	if s.Err == nil && dense && others == len(s.roles) && r.Options.Strict {
		s.level, s.field = 1, ""
		s.Malformed(s.At, "no component data")
	}
}

// setExtent checks the offset and length of a component, and sets them.
func (s *scan) setExtent(p *core.Payload, w *fields) {
	r := s.r
	size, end := uint64(r.Size()), uint64(r.ManifestAt)
	switch {
	case w.offset > size || w.length > size-w.offset:
		s.componentError(w, "length", "%d bytes at %d of a file of %d", w.length, w.offset, size)
	case w.length > 0 && w.offset < uint64(len(Magic1)):
		s.componentError(w, "offset", "byte %d is part of the magic", w.offset)
	case w.length > 0 && w.offset+w.length > end: // no overflow: both are within the file
		s.componentError(w, "length", "%d bytes at %d reach into the manifest at %d", w.length,
			w.offset, end)
	}
	if s.Err != nil {
		return
	}
	p.Offset, p.Length = int64(w.offset), int64(w.length)
	if p.Digest = w.digest; w.digest == "" && w.has&keyDigest != 0 {
		p.Digest = `""` // an empty digest is invalid, "" would mean none
	}
	s.field = "offset"
	if p.Offset%alignment != 0 {
		s.deviation(p.Offset, "%d is no multiple of %d", p.Offset, alignment)
	} else if r.Options.Strict && (p.Offset < alignment || w.offset > end) {
		s.deviation(p.Offset, "%d is outside of the data", p.Offset)
	}
	if p.Length > 0 {
		r.Unsorted = r.Unsorted || p.Offset < s.end
		s.end = p.Offset + p.Length
	}
}

// setType sets the dtype and the encoding of a component of t, whose fields are f.
func (s *scan) setType(t *tensor.Tensor, p *core.Payload, w, f *fields) {
	own, typed, primary := w.has&keyDType != 0, f.has&keyDType != 0,
		isPrimaryRole(f.format, w.name)
	if s.Err != nil {
		return
	}
	s.field = "dtype"
	typeName := w.dtype
	switch {
	case own && !s.componentTypes:
		s.deviationAt(w.at, "a dtype of the component; in this layout the tensor has the dtype")
	case own:
	case !typed:
		s.componentError(w, "dtype", "dtype is missing")
		return
	case isIndexRole(f.format, w.name):
		p.Dtype = tensor.U64 // the document's type of indices
	case primary && (f.format == "dense" || isSparse(f.format)):
		typeName = f.dtype
	}
	if own || typeName != "" {
		p.Dtype = s.storageType(typeName)
		if own && typed && primary && p.Dtype != t.DType {
			s.componentError(w, "dtype", "dtype %s here, %s on the tensor", naming.Quote(w.dtype),
				naming.Quote(f.dtype))
			return
		}
		if w.has&keyType != 0 {
			logical := dtype.LogicalNamed(w.logical, false)
			if typeName = w.logical; logical.Storage != p.Dtype {
				logical.DType = tensor.Unknown
			}
			p.Dtype = logical.DType
		}
		if p.Dtype == tensor.Unknown {
			p.EnsureExtra().TypeName = typeName
		}
	}
	s.setEncoding(p, w, f.format)
}

// setEncoding sets the decoded size of a component and how it is decoded.
func (s *scan) setEncoding(p *core.Payload, w *fields, format string) {
	unsupported := func(what, name string) {
		p.EnsureExtra().Err = fmt.Errorf("%w: %s %s", errors.ErrUnsupported, what,
			naming.Quote(name))
	}
	zstd, width := false, 0
	switch p.DecodedSize = p.Length; {
	case w.has&keyEncoding == 0 || w.encoding == "raw":
		if w.decoded >= 0 && w.decoded != p.Length {
			p.EnsureExtra().Err = fmt.Errorf(
				"%w: %d bytes stored raw, uncompressed_length says %d",
				tensor.ErrMalformed, p.Length, w.decoded)
		}
	case w.encoding == "zstd":
		zstd = true
		p.EnsureExtra().Encoding, p.DecodedSize = "zstd", w.decoded
		if w.decoded < 0 && s.zstdWithoutSize == "" {
			s.zstdWithoutSize = s.r.Field(s.item, w.name)
		}
	default:
		p.DecodedSize = w.decoded
		p.EnsureExtra().Encoding = w.encoding
		unsupported("encoding", w.encoding)
	}
	switch w.endian {
	case "", "little":
	case "big":
		if p.Dtype.Align() > 1 {
			width = p.Dtype.Align()
			if format != "dense" {
				unsupported("big-endian", format)
			}
		}
	default:
		unsupported("data_endianness", w.endian)
	}
	if zstd || width > 0 {
		p.EnsureExtra().Codec = &codec{s.c, zstd, width}
	}
}

// checkDense checks the data of a dense tensor against its shape. A wrong length makes
// opening fail only in strict mode; otherwise tensor.Check finds it when the tensor is
// used.
func (s *scan) checkDense(p *core.Payload, w, f *fields) {
	if p.Dtype == tensor.Unknown {
		return
	}
	want, ok := align.Mul(int64(f.product), int64(p.Dtype.Size()))
	if !ok {
		s.level = 1
		s.componentError(w, "shape", "%d elements of %v overflow", f.product, p.Dtype)
		return
	}
	if p.DecodedSize < 0 {
		p.DecodedSize = want
	}
	if s.r.Options.Strict && p.DecodedSize != want {
		s.componentError(w, "length", "%d bytes of data where the shape takes %d",
			p.DecodedSize, want)
	}
}

// storageType returns the storage type of that name; Unknown if there is none.
func (s *scan) storageType(typeName string) tensor.DType {
	d := dtype.StorageNamed(typeName, s.objects)
	if d == tensor.Unknown {
		if d = dtype.StorageNamed(typeName, !s.objects); d != tensor.Unknown {
			s.deviationAt(s.At, "dtype %s is not spelled as in this layout",
				naming.Quote(typeName))
		}
	}
	return d
}
