package v1

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
)

// A role is a component under construction, with the file's words for it, of
// which has tells whether they are there. They point into the manifest.
type role struct {
	name     string
	dtype    string
	logical  string // "type"
	encoding string
	digest   string
	endian   string // 0.1: "data_endianness"
	offset   uint64
	length   uint64
	decoded  int64 // "uncompressed_length"; -1 when absent
	at       int32 // in the manifest
	has      uint32
}

// leads reports whether the elements of a tensor of that format are those of
// the component in this role, so that the tensor's dtype is the component's
// (§4.2 and §4.3 of the document for the sparse ones).
func leads(scheme, role string) bool {
	switch scheme {
	case sparse.CSR, sparse.COO:
		return role == "values"
	}
	return role == "data"
}

// indexRole reports whether a component has the indices of a sparse tensor.
func indexRole(scheme, role string) bool {
	switch scheme {
	case sparse.CSR:
		return role == "indices" || role == "indptr"
	case sparse.COO:
		return role == "coords"
	}
	return false
}

// assemble makes a tensor of what its entry says. dtype is the word that stands
// on the tensor itself, if typed; product that of s.dims.
func (s *scan) assemble(t *tensor.Tensor, dtype string, typed bool, scheme string, product uint64) {
	r := s.r
	dense := scheme == "dense"
	if !dense {
		if t.Scheme = r.KeepString(scheme); scheme == "" {
			s.Malformed(s.At, "an empty format")
			return
		}
	}
	if typed {
		t.DType = s.element(dtype)
		if s.ownTypes {
			s.departAt(s.At, r.List+"["+quote.Name(t.Name)+"].dtype", "in this layout the dtype stands on each component")
		}
	} else if len(s.roles) == 0 && !s.ownTypes {
		s.Malformed(s.At, "dtype is missing")
		return
	}
	components := r.Payloads.Take(len(s.roles))
	t.Shape = r.Shape(s.dims)
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
		c, w := &components[i], &s.roles[i]
		s.place(t, c, w)
		s.decoding(t, c, w, dtype, typed, leads(scheme, w.name), dense)
		if s.Err != nil {
			return
		}
		if s.ownTypes && leads(scheme, w.name) {
			t.DType = c.Dtype
		}
		if dense && w.name == "data" {
			t.DType, t.Data = c.Dtype, tensor.NewBlob(c)
			s.dense(t, c, w, product)
			continue
		}
		if r.Strict && w.has&keyDType != 0 && c.Dtype != tensor.U64 && indexRole(scheme, w.name) {
			s.departAt(int(w.at), r.Field(t.Name, w.name)+".dtype", "indices that are not u64, which upstream reads them as")
		}
		t.Parts = append(t.Parts, tensor.Part{Role: r.KeepString(w.name), DType: c.Dtype, Data: tensor.NewBlob(c)})
	}
	if dense && others == len(s.roles) && r.Strict {
		s.Malformed(s.At, "no component data")
	}
}

// place checks where a component lies, and sets that.
func (s *scan) place(t *tensor.Tensor, c *core.Payload, w *role) {
	r := s.r
	size, end := uint64(r.Src.Size()), uint64(r.ManifestAt)
	switch {
	case w.offset > size || w.length > size-w.offset:
		s.Malformed(int(w.at), "%d bytes at %d of a file of %d", w.length, w.offset, size)
		s.inComponent(t, w, "length")
		return
	case w.length > 0 && w.offset < uint64(len(core.Magic1)):
		s.Malformed(int(w.at), "byte %d is part of the magic", w.offset)
		s.inComponent(t, w, "offset")
		return
	case w.length > 0 && w.offset+w.length > end: // no overflow: both are within the file
		s.Malformed(int(w.at), "%d bytes at %d reach into the manifest at %d", w.length, w.offset, end)
		s.inComponent(t, w, "length")
		return
	}
	c.R, c.T, c.Offset, c.Length = r, t, int64(w.offset), int64(w.length)
	if w.has&keyDigest != 0 {
		core.SetDigest(c, w.digest)
	}
	if c.Offset%alignment != 0 {
		s.depart(c.Offset, r.Field(t.Name, w.name)+".offset", "%d is no multiple of %d", c.Offset, alignment)
	} else if r.Strict && (c.Offset < alignment || w.offset > end) {
		s.depart(c.Offset, r.Field(t.Name, w.name)+".offset", "%d is outside of the data", c.Offset)
	}
	if c.Length > 0 {
		s.lies(c)
	}
}

// lies notes where a component that is not empty is.
func (s *scan) lies(c *core.Payload) {
	s.jumbled = s.jumbled || c.Offset < s.end
	s.end = c.Offset + c.Length
}

func (s *scan) inComponent(t *tensor.Tensor, w *role, key string) {
	if s.Err != nil {
		s.in("%s.%s", s.r.Field(t.Name, w.name), key)
	}
}

// decoding sets what the bytes of a component are and how they are decoded, as
// far as the component alone can tell. common is the dtype of the tensor, if
// typed.
func (s *scan) decoding(t *tensor.Tensor, c *core.Payload, w *role, common string, typed, leading, dense bool) {
	own := w.has&keyDType != 0
	word := w.dtype
	switch {
	case s.Err != nil:
		return
	case !own && !typed:
		s.Malformed(int(w.at), "dtype is missing")
		s.inComponent(t, w, "dtype")
		return
	case !own && leading && (dense || t.Scheme == sparse.CSR || t.Scheme == sparse.COO):
		word = common
	case own && !s.ownTypes:
		s.departAt(int(w.at), s.r.Field(t.Name, w.name)+".dtype", "in this layout the dtype stands on the tensor")
	}
	if !own && indexRole(t.Scheme, w.name) {
		c.Dtype = tensor.U64 // as the format has them where it gives no dtype
	}
	if own || word != "" {
		c.Dtype = s.element(word)
		if w.has&keyType != 0 {
			logical := core.LogicalNamed(w.logical, false)
			if logical.Storage != c.Dtype {
				logical.DType = tensor.Unknown
			}
			c.Dtype = logical.DType
		}
	}
	if leading && own && typed && s.element(w.dtype) != t.DType {
		s.Malformed(int(w.at), "dtype %s here, %s on the tensor", quote.Name(w.dtype), quote.Name(common))
		s.inComponent(t, w, "dtype")
		return
	}
	if c.Dtype == tensor.Unknown && (own || word != "") {
		if w.has&keyType != 0 {
			word = w.logical
		}
		core.RareOf(c).Word = strings.Clone(word)
	}
	c.DecodedSize = c.Length
	switch {
	case w.has&keyEncoding == 0 || w.encoding == "raw":
		if w.decoded >= 0 && w.decoded != c.Length {
			core.RareOf(c).Err = fmt.Errorf("%w: %d bytes stored raw, uncompressed_length says %d", tensor.ErrMalformed, c.Length, w.decoded)
		}
	case w.encoding == "zstd":
		core.RareOf(c).Encoding, c.DecodedSize = "zstd", w.decoded
		c.More.Codec = &codec{c: s.c, zstd: true}
		if w.decoded < 0 && s.noSize == "" {
			s.noSize = s.r.Field(t.Name, w.name)
		}
	default:
		c.DecodedSize = w.decoded
		core.RareOf(c).Encoding = strings.Clone(w.encoding)
		core.RareOf(c).Err = fmt.Errorf("%w: encoding %s", errors.ErrUnsupported, quote.Name(w.encoding))
	}
	switch w.endian {
	case "", "little":
	case "big":
		if c.Dtype.Align() > 1 {
			core.RareOf(c).Codec = &codec{c: s.c, zstd: w.encoding == "zstd", width: c.Dtype.Align()}
			if !dense {
				core.RareOf(c).Err = fmt.Errorf("%w: big-endian %s", errors.ErrUnsupported, quote.Name(t.Scheme))
			}
		}
	default:
		core.RareOf(c).Err = fmt.Errorf("%w: data_endianness %s", errors.ErrUnsupported, quote.Name(w.endian))
	}
}

// dense holds the data of a dense tensor against its shape. A length that does
// not fit is an error of opening only in strict mode; otherwise tensor.Check
// finds it when the tensor is used (T9).
func (s *scan) dense(t *tensor.Tensor, c *core.Payload, w *role, product uint64) {
	if c.Dtype == tensor.Unknown {
		return
	}
	want, ok := align.Mul(int64(product), int64(c.Dtype.Size()))
	if !ok {
		s.Malformed(int(w.at), "%d elements of %v overflow", product, c.Dtype)
		s.in("%s[%s].shape", s.r.List, quote.Name(t.Name))
		return
	}
	if c.DecodedSize < 0 {
		c.DecodedSize = want
	}
	if s.r.Strict && c.DecodedSize != want {
		s.Malformed(int(w.at), "%d bytes of data where the shape takes %d", c.DecodedSize, want)
		s.inComponent(t, w, "length")
	}
}

// finish checks what only the whole manifest can tell.
func (s *scan) finish() {
	r := s.r
	if s.Err != nil {
		return
	}
	if r.Version != "0.1" { // whose every entry is of indefinite length
		s.footer()
		if s.Odd&cbor.OddIndefinite != 0 {
			s.departAt(0, "manifest", "items of indefinite length")
		}
		if s.notText != "" && r.Version != "1.2" {
			s.departAt(0, "attributes["+quote.Name(s.notText)+"]", "a value that is not text")
		}
		if s.noSize != "" && r.Version == "1.2" {
			s.departAt(0, s.noSize, "zstd without uncompressed_length")
		}
	}
	if s.Odd&cbor.OddTag != 0 {
		s.departAt(0, "manifest", "tagged items")
	}
	r.Jumbled = s.jumbled
	if s.jumbled && r.Strict && s.Err == nil {
		r.Overlaps(func(a, b *core.Payload) bool {
			s.depart(b.Offset, r.Path(b), "overlaps %s", r.Path(a))
			return false
		})
	}
}

// element is the storage type that a word names; Unknown where it names none.
func (s *scan) element(word string) tensor.DType {
	d := core.StorageType(word, s.short)
	if d == tensor.Unknown {
		if d = core.StorageType(word, !s.short); d != tensor.Unknown {
			s.departAt(s.At, s.r.List, "dtype %s is not spelled as in this layout", quote.Name(word))
		}
	}
	return d
}
