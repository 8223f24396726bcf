package torch

import (
	"fmt"
	"io"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/internal/zipfile"
	"github.com/tensorfile/tensorfile/tensor"
)

// A dtype is one of torch's.
type dtype struct {
	d    tensor.DType // Unknown if this library does not know it
	name string       // torch's name
	size int64        // of an element in a storage
	// packed is the number of values of the last dimension in an element. A scalar has
	// the shape [packed].
	packed int64
}

// dtypeOf returns the dtype that has that name in torch.
func dtypeOf(name string) (dtype, bool) {
	switch name {
	case "float4_e2m1fn_x2":
		return dtype{d: tensor.F4E2M1FN, name: name, size: 1, packed: 2}, true
	case "quint4x2", "quint2x4", // torch packs them, and counts other elements than it stores
		"int1", "int2", "int3", "int4", "int5", "int6", "int7",
		"uint1", "uint2", "uint3", "uint4", "uint5", "uint6", "uint7":
		return dtype{name: name, size: 1, packed: 1}, true
	}
	d, err := tensor.ParseDType(name)
	if err != nil || d.String() != name || d.Size() == 0 {
		return dtype{}, false
	}
	return dtype{d: d, name: name, size: int64(d.Size()), packed: 1}, true
}

// unpacked returns the shape of the values of a tensor, false if it overflows.
func (d dtype) unpacked(shape tensor.Shape) (tensor.Shape, bool) {
	if d.packed <= 1 {
		return shape, true
	}
	if len(shape) == 0 {
		return tensor.Shape{d.packed}, true
	}
	last, ok := align.Mul(shape[len(shape)-1], d.packed)
	shape = slices.Clone(shape)
	shape[len(shape)-1] = last
	return shape, ok
}

// storageTypes has the dtypes of torch's classes of storages, by their names without
// "Storage".
var storageTypes = map[string]string{
	"Double": "float64", "Float": "float32", "Half": "float16", "BFloat16": "bfloat16",
	"Long": "int64", "Int": "int32", "Short": "int16",
	"Char": "int8", "Byte": "uint8", "Bool": "bool",
	"ComplexFloat": "complex64", "ComplexDouble": "complex128",
	"QInt8": "qint8", "QUInt8": "quint8", "QInt32": "qint32",
	"QUInt4x2": "quint4x2", "QUInt2x4": "quint2x4",
}

// storageType returns the dtype of a class of storages. untyped reports whether its
// elements are bytes.
func storageType(g *global) (d dtype, untyped, ok bool) {
	if g.kind != storageClass {
		return dtype{}, false, false
	}
	name, ok := storageTypes[strings.TrimSuffix(g.name, "Storage")]
	if !ok { // UntypedStorage, TypedStorage
		return dtype{d: tensor.U8, name: "uint8", size: 1, packed: 1}, true, true
	}
	d, ok = dtypeOf(name)
	return d, false, ok
}

// A storage is a run of elements that tensors share.
type storage struct {
	dtype
	payload *payload
	first   int64 // byte of the payload
	count   int64 // elements
}

// bytes returns the size of the storage in bytes; persistent has checked the product.
func (s *storage) bytes() int64 { return s.count * s.size }

// A payload is the bytes of a storage. A pickle names it before its place is known.
type payload struct {
	key    string
	size   int64
	count  int64           // elements of the first reference
	dtype  string          // of the first reference; "" for bytes
	src    *source.Source  // nil if blob has the bytes
	at     int64           // offset in the file
	stored int64           // bytes in the file; 0 if they are in the pickle
	file   string          // name of src; "" for the opened file
	member *zipfile.Member // nil if it is not in an archive
	blob   tensor.Blob
	bigEnd bool
	listed bool   // a listed tensor refers to it
	hidden string // name of its tensor, if that is not in the state_dict of its module
}

// section returns n bytes, which are inside the payload. If the payload is not
// compressed, they are a range of the file.
func (p *payload) section(off, n int64) (tensor.Blob, error) {
	if p.src == nil {
		return p.blob.Section(off, n)
	}
	x, err := p.src.Extent(p.at+off, n)
	if err != nil || n == 0 {
		return tensor.Blob{}, err
	}
	if p.member == nil && p.file == "" {
		return tensor.NewBlob(&x), nil
	}
	return tensor.NewBlob(&inMember{x, p}), nil
}

// An inMember is a range of another file, or of a member, whose local header is checked
// before it is read.
type inMember struct {
	source.Extent
	payload *payload
}

// check checks the local header of the member.
func (p *payload) check() error {
	if p.member == nil {
		return nil
	}
	return p.member.CheckHeader()
}

func (e *inMember) Stored() (tensor.Stored, bool) {
	st, ok := e.Extent.Stored()
	st.File = e.payload.file
	return st, ok
}

func (e *inMember) Bytes() ([]byte, bool) {
	if e.payload.check() != nil {
		return nil, false // ReadAt has the error
	}
	return e.Extent.Bytes()
}

// Memory returns the bytes if they are memory of the caller.
func (e *inMember) Memory() ([]byte, bool) {
	if e.payload.check() != nil {
		return nil, false
	}
	return e.Extent.Memory()
}

func (e *inMember) ReadAt(p []byte, off int64) (int, error) {
	if err := e.payload.check(); err != nil {
		return 0, err
	}
	return e.Extent.ReadAt(p, off)
}

func (e *inMember) ReadInto(p []byte) error      { return tensor.ReadFull(e, p) }
func (e *inMember) Open() (io.ReadCloser, error) { return tensor.Stream(e), nil }

// storages are the storages that a pickle names.
type storages struct {
	byKey map[string]*payload
	order []*payload
	warn  func(text string)
	views bool // a persistent id may be of a part of a storage
}

func (s *storages) add(p *payload) {
	if s.byKey == nil {
		s.byKey = map[string]*payload{}
	}
	s.byKey[p.key] = p
	s.order = append(s.order, p)
}

// maxKey is the maximum length of the key of a storage, which is a number.
const maxKey = 1 << 8

// persistent returns the storage of a persistent id: ("storage", class, key, location,
// elements). In a legacy stream the last item is None, or (key, first, elements) of a
// view.
func (s *storages) persistent(id any) (any, error) {
	items, ok := tupleOf(id)
	if !ok || len(items) == 0 {
		return nil, malformed("a persistent id that is not a tuple")
	}
	kind, _ := textOf(items[0])
	if kind == "module" && s.views && len(items) > 1 {
		return items[1], nil // without its source code
	}
	want := 5
	if s.views {
		want = 6
	}
	if kind != "storage" || len(items) != want && len(items) != 5 {
		return nil, malformed("a persistent id that is not of a storage")
	}
	class, ok := items[1].(*global)
	if !ok {
		return nil, malformed("a storage without a class")
	}
	key, ok1 := textOf(items[2])
	_, ok2 := textOf(items[3]) // the device, which has no meaning here
	count, ok3 := countOf(items[4])
	if !ok1 || !ok2 || !ok3 || len(key) > maxKey {
		return nil, malformed("a storage without key, location and number of elements")
	}
	d, untyped, ok := storageType(class)
	if !ok {
		return nil, malformed("%v is not a class of storages", class)
	}
	st := &storage{dtype: d, count: count}
	size, ok := align.Mul(count, d.size)
	if !ok {
		return nil, malformed("a storage of %d elements", count)
	}
	if d.name == "quint4x2" || d.name == "quint2x4" {
		untyped = true
	}
	elements := d.name
	if untyped {
		elements = ""
	}
	p := s.byKey[key]
	switch {
	case p == nil:
		p = &payload{key: key, size: size, count: count, dtype: elements}
		s.add(p)
	case p.size != size:
		return nil, malformed("storage %s has %d bytes, and had %d before", naming.Quote(key),
			size, p.size)
	case p.dtype != elements && p.dtype != "" && elements != "" && size > 0:
		s.warn(fmt.Sprintf("storage %s is of %s and of %s", naming.Quote(key), p.dtype, elements))
	}
	st.payload = p
	if len(items) == 6 && items[5] != nil {
		return st, st.view(items[5])
	}
	return st, nil
}

// view narrows the storage to a part.
func (s *storage) view(v any) error {
	items, ok := tupleOf(v)
	if !ok || len(items) != 3 {
		return malformed("a view that is not a tuple of three")
	}
	first, ok1 := countOf(items[1])
	count, ok2 := countOf(items[2])
	if !ok1 || !ok2 || !align.Within(first, count, s.count) {
		return malformed("a view outside of its storage")
	}
	s.first, s.count = first*s.size, count
	return nil
}

// A stringSource is data in the pickle itself.
type stringSource string

func (s stringSource) Size() int64            { return int64(len(s)) }
func (s stringSource) Bytes() ([]byte, bool)  { return nil, false }
func (s stringSource) Memory() ([]byte, bool) { return nil, false }
func (s stringSource) Seekable() bool         { return true }
func (s stringSource) Identity() any          { return nil }

func (s stringSource) Stored() (tensor.Stored, bool) { return tensor.Stored{}, false }
func (s stringSource) ReadInto(p []byte) error       { return tensor.ReadFull(s, p) }
func (s stringSource) Open() (io.ReadCloser, error)  { return tensor.Stream(s), nil }

func (s stringSource) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off > int64(len(s)) {
		return 0, io.EOF
	}
	n := copy(p, s[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{tensor.ErrMalformed}, args...)...)
}

// unlisted yields a warning for each storage that no listed tensor refers to, and for
// each member with elements that no pickle names.
func (c *checkpoint) unlisted() iter.Seq[error] {
	return func(yield func(error) bool) {
		named := map[*zipfile.Member]bool{}
		for _, p := range slices.Concat(c.storages.order, c.constants) {
			named[p.member] = true
			if !p.listed && !c.yieldUnlisted(yield, p, p.member, p.at, p.size) {
				return
			}
		}
		for _, n := range c.archives {
			named[n.inside] = true
		}
		if c.zip == nil {
			return
		}
		for i := range c.zip.Members {
			m := &c.zip.Members[i]
			name := strings.TrimPrefix(m.File.Name, c.prefix)
			if named[m] || !c.isStorage(name) {
				continue
			}
			x := m.Extent()
			if !c.yieldUnlisted(yield, &payload{}, m, x.Offset(), m.Size()) {
				return
			}
		}
	}
}

// isStorage reports whether a member has elements of tensors.
func (c *checkpoint) isStorage(name string) bool {
	if c.version == "pt2" {
		return path.Ext(name) != ".json" && (strings.HasPrefix(name, "data/weights/") ||
			strings.HasPrefix(name, "data/constants/"))
	}
	return strings.HasPrefix(name, "data/") || strings.HasPrefix(name, "constants/")
}

// yieldUnlisted yields the warning for a storage, unless it has no bytes.
func (c *checkpoint) yieldUnlisted(yield func(error) bool, p *payload, m *zipfile.Member,
	at, size int64) bool {
	if size == 0 {
		return true
	}
	key, what := p.key, "that no tensor in the list refers to"
	if p.hidden != "" {
		what = "of " + printable(p.hidden) + ", which the state_dict of its module does not have"
	}
	if m != nil {
		key = strings.TrimPrefix(strings.TrimPrefix(m.File.Name, c.prefix), "data/")
	}
	field := "storage " + naming.Quote(key)
	if c.file != "" {
		field = c.file + ": " + field
	}
	return yield(&tensor.FormatError{Format: formatName, Offset: at, Field: field,
		Code: tensor.CodeUnlistedData,
		Err:  malformed("%d bytes %s", size, what)})
}
