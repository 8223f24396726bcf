package ztensor

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
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
		if t.Scheme = r.keepString(scheme); scheme == "" {
			s.Malformed(s.At, "an empty format")
			return
		}
	}
	if typed {
		t.DType = s.element(dtype)
		if s.ownTypes {
			s.departAt(s.At, r.list+"["+quote.Name(t.Name)+"].dtype", "in this layout the dtype stands on each component")
		}
	} else if len(s.roles) == 0 && !s.ownTypes {
		s.Malformed(s.At, "dtype is missing")
		return
	}
	components := r.components.take(len(s.roles))
	var first *component
	if len(components) > 0 {
		first = &components[0]
	}
	t.Shape = r.shape(first, s.dims)
	others := len(s.roles)
	for i := range s.roles {
		if dense && s.roles[i].name == "data" {
			others--
		}
	}
	if others > 0 {
		t.Parts = r.parts.take(others)[:0]
	}
	for i := range s.roles {
		c, w := &components[i], &s.roles[i]
		s.place(t, c, w)
		s.decoding(t, c, w, dtype, typed, leads(scheme, w.name), dense)
		if s.Err != nil {
			return
		}
		if s.ownTypes && leads(scheme, w.name) {
			t.DType = c.dtype
		}
		if dense && w.name == "data" {
			t.DType, t.Data = c.dtype, tensor.NewBlob(c)
			s.dense(t, c, w, product)
			continue
		}
		if r.strict && w.has&keyDType != 0 && c.dtype != tensor.U64 && indexRole(scheme, w.name) {
			s.departAt(int(w.at), r.field(t.Name, w.name)+".dtype", "indices that are not u64, which upstream reads them as")
		}
		t.Parts = append(t.Parts, tensor.Part{Role: r.keepString(w.name), DType: c.dtype, Data: tensor.NewBlob(c)})
	}
	if dense && others == len(s.roles) && r.strict {
		s.Malformed(s.At, "no component data")
	}
}

// place checks where a component lies, and sets that.
func (s *scan) place(t *tensor.Tensor, c *component, w *role) {
	r := s.r
	size, end := uint64(r.src.Size()), uint64(r.manifestAt)
	switch {
	case w.offset > size || w.length > size-w.offset:
		s.Malformed(int(w.at), "%d bytes at %d of a file of %d", w.length, w.offset, size)
		s.inComponent(t, w, "length")
		return
	case w.length > 0 && w.offset < uint64(len(magic1)):
		s.Malformed(int(w.at), "byte %d is part of the magic", w.offset)
		s.inComponent(t, w, "offset")
		return
	case w.length > 0 && w.offset+w.length > end: // no overflow: both are within the file
		s.Malformed(int(w.at), "%d bytes at %d reach into the manifest at %d", w.length, w.offset, end)
		s.inComponent(t, w, "length")
		return
	}
	c.r, c.t, c.offset, c.length = r, t, int64(w.offset), int64(w.length)
	if w.has&keyDigest != 0 {
		c.setDigest(w.digest)
	}
	if c.offset%alignment != 0 {
		s.depart(c.offset, r.field(t.Name, w.name)+".offset", "%d is no multiple of %d", c.offset, alignment)
	} else if r.strict && (c.offset < alignment || w.offset > end) {
		s.depart(c.offset, r.field(t.Name, w.name)+".offset", "%d is outside of the data", c.offset)
	}
	if c.length > 0 {
		s.lies(c)
	}
}

// lies notes where a component that is not empty is.
func (s *scan) lies(c *component) {
	s.jumbled = s.jumbled || c.offset < s.end
	s.end = c.offset + c.length
}

func (s *scan) inComponent(t *tensor.Tensor, w *role, key string) {
	if s.Err != nil {
		s.in("%s.%s", s.r.field(t.Name, w.name), key)
	}
}

// decoding sets what the bytes of a component are and how they are decoded, as
// far as the component alone can tell. common is the dtype of the tensor, if
// typed.
func (s *scan) decoding(t *tensor.Tensor, c *component, w *role, common string, typed, leading, dense bool) {
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
		s.departAt(int(w.at), s.r.field(t.Name, w.name)+".dtype", "in this layout the dtype stands on the tensor")
	}
	if !own && indexRole(t.Scheme, w.name) {
		c.dtype = tensor.U64 // as the format has them where it gives no dtype
	}
	if own || word != "" {
		c.dtype = s.element(word)
		if w.has&keyType != 0 {
			c.dtype = logicalType(c.dtype, w.logical)
		}
	}
	if leading && own && typed && s.element(w.dtype) != t.DType {
		s.Malformed(int(w.at), "dtype %s here, %s on the tensor", quote.Name(w.dtype), quote.Name(common))
		s.inComponent(t, w, "dtype")
		return
	}
	if c.dtype == tensor.Unknown && (own || word != "") {
		if w.has&keyType != 0 {
			word = w.logical
		}
		c.other().dtype = strings.Clone(word)
	}
	c.size = c.length
	switch {
	case w.has&keyEncoding == 0 || w.encoding == "raw":
		if w.decoded >= 0 && w.decoded != c.length {
			c.other().err = fmt.Errorf("%w: %d bytes stored raw, uncompressed_length says %d", tensor.ErrMalformed, c.length, w.decoded)
		}
	case w.encoding == "zstd":
		c.encoding, c.size = encodingZstd, w.decoded
		if w.decoded < 0 && s.noSize == "" {
			s.noSize = s.r.field(t.Name, w.name)
		}
	default:
		c.encoding, c.size = encodingUnknown, w.decoded
		c.other().encoding = strings.Clone(w.encoding)
		c.other().err = fmt.Errorf("%w: encoding %s", errors.ErrUnsupported, quote.Name(w.encoding))
	}
	switch w.endian {
	case "", "little":
	case "big":
		if c.dtype.Align() > 1 {
			c.big = true
			if !dense {
				c.other().err = fmt.Errorf("%w: big-endian %s", errors.ErrUnsupported, quote.Name(t.Scheme))
			}
		}
	default:
		c.other().err = fmt.Errorf("%w: data_endianness %s", errors.ErrUnsupported, quote.Name(w.endian))
	}
}

// dense holds the data of a dense tensor against its shape. A length that does
// not fit is an error of opening only in strict mode; otherwise tensor.Check
// finds it when the tensor is used (T9).
func (s *scan) dense(t *tensor.Tensor, c *component, w *role, product uint64) {
	if c.dtype == tensor.Unknown {
		return
	}
	want, ok := align.Mul(int64(product), int64(c.dtype.Size()))
	if !ok {
		s.Malformed(int(w.at), "%d elements of %v overflow", product, c.dtype)
		s.in("%s[%s].shape", s.r.list, quote.Name(t.Name))
		return
	}
	if c.size < 0 {
		c.size = want
	}
	if s.r.strict && c.size != want {
		s.Malformed(int(w.at), "%d bytes of data where the shape takes %d", c.size, want)
		s.inComponent(t, w, "length")
	}
}

// finish checks what only the whole manifest can tell.
func (s *scan) finish() {
	r := s.r
	if s.Err != nil {
		return
	}
	if r.version != "0.1" { // whose every entry is of indefinite length
		s.footer()
		if s.Odd&cbor.OddIndefinite != 0 {
			s.departAt(0, "manifest", "items of indefinite length")
		}
		if s.notText != "" && r.version != "1.2" {
			s.departAt(0, "attributes["+quote.Name(s.notText)+"]", "a value that is not text")
		}
		if s.noSize != "" && r.version == "1.2" {
			s.departAt(0, s.noSize, "zstd without uncompressed_length")
		}
	}
	if s.Odd&cbor.OddTag != 0 {
		s.departAt(0, "manifest", "tagged items")
	}
	r.jumbled = s.jumbled
	if s.jumbled && r.strict && s.Err == nil {
		r.overlaps(func(a, b *component) bool {
			s.depart(b.offset, r.path(b), "overlaps %s", r.path(a))
			return false
		})
	}
}

// element is the storage type that a word names; Unknown where it names none.
func (s *scan) element(word string) tensor.DType {
	d := storageType(word, s.short)
	if d == tensor.Unknown {
		if d = storageType(word, !s.short); d != tensor.Unknown {
			s.departAt(s.At, s.r.list, "dtype %s is not spelled as in this layout", quote.Name(word))
		}
	}
	return d
}
