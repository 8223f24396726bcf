package v1

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"strconv"
	"strings"

	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/names"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
)

// A scan reads a manifest into the index of its Reader. Its state says where it
// is, so that an error can be told where it happened.
type scan struct {
	cbor.Cursor
	c       *container
	r       *core.File
	x       *core.Index // what is read goes there: that of r
	objects bool        // "objects", the manifest of 1.1 and 1.2, not "tensors" of 1.0
	minor   int         // of the manifest's version; -1 when it gives none

	ownTypes bool // a dtype stands on each component, not on the tensor
	short    bool // and is spelled f32, not float32

	name    []byte  // of the tensor that is being read
	where   string  // the field in which the cursor failed
	dims    []int64 // of the entry that is being read
	roles   []role
	end     int64  // of the last one so far
	jumbled bool   // components do not ascend in the file
	mixed   bool   // names do not ascend
	last    []byte // the name of the entry before
	noSize  string // the first zstd component without uncompressed_length
	notText string // the first attribute of the file that is not text
}

// done returns the error that stopped the scan.
func (s *scan) done() error {
	if s.Err == nil {
		return nil
	}
	var fe *tensor.FormatError
	if errors.As(s.Err, &fe) {
		return s.Err
	}
	return s.r.Bad(s.r.ManifestAt+int64(s.ErrAt), s.where, s.Err)
}

// in notes the field of a failure, if there is one and nothing nearer has been
// noted. It is called on the way out of each level.
func (s *scan) in(format string, args ...any) {
	if s.Err != nil && s.where == "" {
		s.where = fmt.Sprintf(format, args...)
	}
}

// depart notes a departure from the document: a warning, or in strict mode an
// error. off counts from the start of the file.
func (s *scan) depart(off int64, field, msg string, args ...any) {
	err := fmt.Errorf("%w: "+msg, append([]any{tensor.ErrMalformed}, args...)...)
	if s.r.Strict {
		if s.Err == nil {
			s.Fail(0, "%w", s.r.Bad(off, field, err))
		}
		return
	}
	s.r.WarningList.Add(off, field, err)
}

// departAt is depart for something in the manifest.
func (s *scan) departAt(at int, field, msg string, args ...any) {
	s.depart(s.r.ManifestAt+int64(at), field, msg, args...)
}

// once fails when the bit of a key is set already.
func (s *scan) once(seen *uint32, bit uint32, at int) {
	if *seen&bit != 0 {
		s.Malformed(at, "the same key a second time")
	}
	*seen |= bit
}

// absent consumes the null that optional fields may have in place of a value.
func (s *scan) absent(key []byte) bool {
	if s.P >= len(s.B) || s.B[s.P] != cbor.Null {
		return false
	}
	s.departAt(s.P, core.CutKey(key), "null")
	return s.Null()
}

// other walks over a key that this library does not know, and its value.
func (s *scan) other(at int, key []byte) {
	if !cbor.ValidUTF8(key) {
		s.Malformed(at, "a key that is not UTF-8")
	}
	s.PushText(key)
	s.Skip()
}

// root reads the manifest of 1.0, 1.1 or 1.2.
func (s *scan) root() {
	if s.B[0]>>5 == cbor.Tag {
		// Upstream's reader swallows a tag here, which makes a size that is
		// one too large pass.
		s.Malformed(0, "a tag before the manifest's map")
		if s.Err != nil {
			s.in("manifest")
		}
		return
	}
	var seen uint32
	var version []byte
	mark := len(s.Keys)
	var key []byte
	for n := s.Container(cbor.Map); s.More(&n); {
		at := s.P
		key = s.RawText()
		switch string(key) {
		case "version":
			s.once(&seen, 1, at)
			version = s.Text()
		case "generator":
			s.once(&seen, 2, at)
			if !s.absent(key) {
				s.r.Generator = s.r.Keep(s.Text())
			}
		case "attributes":
			s.once(&seen, 4, at)
			if !s.absent(key) {
				s.rootAttributes()
			}
		case "tensors", "objects":
			if seen&8 != 0 {
				s.Malformed(at, `"tensors" and "objects" side by side, or one of them twice`)
			}
			seen |= 8
			s.objects = string(key) == "objects"
			s.ownTypes, s.short = s.objects, s.objects
			if s.r.List = "tensors"; s.objects {
				s.r.List = "objects"
			}
			s.tensors()
		default:
			s.other(at, key)
		}
		if s.Err != nil {
			s.in("%s", core.CutKey(key))
		}
	}
	s.Unique(mark)
	if seen&8 == 0 {
		s.Malformed(0, `neither "tensors" nor "objects"`)
	}
	if s.Err != nil {
		s.in("manifest")
	}
	if s.Err != nil {
		return
	}
	s.version(version, seen&1 != 0)
	if s.P < len(s.B) {
		if s.objects && s.minor >= 2 { // as upstream's 1.2 reader does
			s.departAt(s.P, "manifest", "%d bytes behind the manifest's map", len(s.B)-s.P)
		} else {
			s.Malformed(s.P, "%d bytes behind the manifest's map", len(s.B)-s.P)
		}
		if s.Err != nil {
			s.in("manifest")
		}
	}
}

// footer holds the end of the file against what the manifest turned out to be.
func (s *scan) footer() {
	r := s.r
	size := r.Src.Size()
	switch footer := size - r.ManifestAt - r.ManifestSize; {
	case s.objects && footer == minFooter:
		// No writer ends such a file here, and no reader of either layout takes
		// it: the second magic has been cut off.
		s.Fail(int(r.ManifestSize), "%w: a file of version %s ends with its magic", io.ErrUnexpectedEOF, r.Version)
		s.in("footer")
	case !s.objects && footer != minFooter:
		s.depart(r.ManifestAt, "footer", "a footer of version 1.1 around a manifest of version %s", r.Version)
	}
	if r.ManifestAt == int64(len(core.Magic1)) && size-r.ManifestSize == 16 {
		s.depart(size-minFooter, "manifest_size", "%d is not below the size of the file less 16", r.ManifestSize)
	}
}

// version judges the version that the manifest claims, and sets that of the
// layout: the content tells 1.0 from the others, and nothing but the claim tells
// 1.1 from 1.2.
func (s *scan) version(claim []byte, given bool) {
	r := s.r
	r.Version = "1.0"
	if s.objects {
		r.Version = "1.1"
	}
	if !given {
		s.departAt(0, "version", "the manifest gives no version")
		return
	}
	major, minor, ok := parseVersion(string(claim))
	switch {
	case !ok:
		s.departAt(0, "version", "%s is not a version", quote.Name(string(claim)))
		return
	case major != 1:
		s.Fail(0, "%w: version %s", errors.ErrUnsupported, quote.Name(string(claim)))
		if s.Err != nil {
			s.in("version")
		}
		return
	case minor > 2 || minor > 0 && !s.objects:
		// Nothing that a higher minor may add prevents reading, so this holds
		// in strict mode too (§6.1 of the document: warn and proceed).
		r.WarningList.Add(r.ManifestAt, "version", fmt.Errorf("version %s is newer than what is known of this layout", quote.Name(string(claim))))
	}
	s.minor = minor
	if s.objects && minor >= 2 {
		r.Version = "1.2"
	}
}

// parseVersion reads decimals separated by dots, of which the first two count.
func parseVersion(v string) (major, minor int, ok bool) {
	for i, more := 0, true; more; i++ {
		var f string
		f, v, more = strings.Cut(v, ".")
		n, err := strconv.ParseUint(f, 10, 31)
		if err != nil || f[0] == '+' {
			return 0, 0, false
		}
		switch i {
		case 0:
			major = int(n)
		case 1:
			minor = int(n)
		}
	}
	return major, minor, true
}

// rootAttributes looks through the file's attributes and remembers where they
// are.
func (s *scan) rootAttributes() {
	s.r.Attributes = s.attributes("attributes", func(name []byte) {
		if s.peek() != cbor.Text && s.notText == "" {
			s.notText = string(name)
		}
	})
}

// attributes walks over a map with text keys, calling look before each value,
// and returns its CBOR.
func (s *scan) attributes(field string, look func(name []byte)) []byte {
	from, mark := s.P, len(s.Keys)
	for n := s.Container(cbor.Map); s.More(&n); {
		name := s.Text()
		s.PushText(name)
		look(name)
		s.Skip()
		if s.Err != nil {
			s.in("%s[%s]", field, quote.Name(string(name)))
		}
	}
	s.Unique(mark)
	if s.Err != nil {
		s.in("%s", field)
		return nil
	}
	return s.r.KeepBytes(s.B[from:s.P:s.P])
}

// peek is the kind of the next item, tags included.
func (s *scan) peek() uint8 {
	if s.P >= len(s.B) {
		return cbor.Bad
	}
	return s.B[s.P] >> 5
}

// The least that an entry takes in the manifest: its name, and a map of shape,
// format and components.
const MinEntry = 1 + 1 + 7 + 8 + 12

// tensors reads the map of tensors.
func (s *scan) tensors() {
	n := s.Container(cbor.Map)
	if !s.plausible(n) {
		return
	}
	s.x.Reserve(n)
	for s.More(&n) {
		at := s.P
		name := s.Text()
		s.tensor(name, at)
	}
	if !s.mixed || s.Err != nil {
		return
	}
	if dup := s.r.SortNames(); dup >= 0 {
		s.Malformed(0, "tensor %s a second time", quote.Name(s.r.Tensors.At(dup).Name))
		s.where = s.r.List
	}
}

// plausible reports whether the manifest can hold n tensors; -1 stands for a
// number that only the end tells.
func (s *scan) plausible(n int) bool {
	if n > (len(s.B)-s.P)/MinEntry {
		s.Malformed(s.At, "%d entries in the %d bytes that are left", n, len(s.B)-s.P)
	} else if int64(n) > s.r.Limits.MaxTensors {
		s.Fail(s.At, "%w: %d tensors of at most %d", tensor.ErrLimit, n, s.r.Limits.MaxTensors)
	}
	return s.Err == nil
}

// add appends a tensor to the index.
func (s *scan) add(name []byte, at int) *tensor.Tensor {
	r := s.r
	if int64(len(name)) > r.Limits.MaxName {
		s.Fail(at, "%w: a name of %d bytes", tensor.ErrLimit, len(name))
	}
	if int64(r.Tensors.Used) >= r.Limits.MaxTensors {
		s.Fail(at, "%w: more than %d tensors", tensor.ErrLimit, r.Limits.MaxTensors)
	}
	if s.Err != nil {
		return nil
	}
	return s.next(name)
}

// next appends a tensor of that name.
func (s *scan) next(name []byte) *tensor.Tensor {
	x := s.x
	// The names are compared where they lie, which was read already: what
	// has just been written is slow to read back.
	s.mixed = s.mixed || x.Tensors.Used > 0 && le.String(s.last) >= le.String(name)
	s.last = name
	t := &x.Tensors.Take(1)[0]
	t.Name = x.Keep(name)
	return t
}

// The keys of a tensor and of a component, as bits.
const (
	keyDType = 1 << iota
	keyShape
	keyFormat
	keyComponents
	keyAttributes
	keyOffset
	keyLength
	keyEncoding
	keyDigest
	keyType
	keyDecoded
	keyName
	keyEndian
)

// tensor reads one entry of "tensors" or "objects".
func (s *scan) tensor(name []byte, at int) {
	t := s.add(name, at)
	if t == nil {
		if s.Err != nil {
			s.in("%s[%s]", s.r.List, quote.Name(string(name)))
		}
		return
	}
	s.name, s.dims, s.roles = name, s.dims[:0], s.roles[:0]
	var seen uint32
	var dtype, scheme, key []byte
	elements := uint64(1)
	mark := len(s.Keys)
	for n := s.Container(cbor.Map); s.More(&n); {
		at := s.P
		key = s.RawText()
		switch string(key) {
		case "dtype":
			s.once(&seen, keyDType, at)
			dtype = s.Text()
		case "shape":
			s.once(&seen, keyShape, at)
			elements = s.shape()
		case "format":
			s.once(&seen, keyFormat, at)
			scheme = s.Text()
		case "components":
			s.once(&seen, keyComponents, at)
			s.components()
		case "attributes":
			s.once(&seen, keyAttributes, at)
			if !s.absent(key) {
				encoded := s.attributes(s.r.List+"["+quote.Name(string(name))+"].attributes", func([]byte) {})
				s.r.OwnAttrs = append(s.r.OwnAttrs, core.OwnAttributes{Tensor: s.r.Tensors.Used - 1, Encoded: encoded})
			}
		default:
			s.other(at, key)
		}
		if s.Err != nil {
			s.in("%s[%s].%s", s.r.List, quote.Name(string(name)), core.CutKey(key))
		}
	}
	s.Unique(mark)
	s.need(seen, tensorKeys, at)
	if s.Err != nil {
		s.in("%s[%s]", s.r.List, quote.Name(string(name)))
	}
	if s.Err != nil {
		return
	}
	s.assemble(t, le.String(dtype), seen&keyDType != 0, le.String(scheme), elements)
	if s.Err != nil {
		s.in("%s[%s]", s.r.List, quote.Name(string(name)))
	}
}

// A required is a key that an entry must have.
type required struct {
	bit uint32
	key string
}

var (
	tensorKeys    = []required{{keyShape, "shape"}, {keyFormat, "format"}, {keyComponents, "components"}}
	componentKeys = []required{{keyOffset, "offset"}, {keyLength, "length"}}
	entryKeys     = []required{{keyName, "name"}, {keyOffset, "offset"}, {keyLength, "size"}, {keyDType, "dtype"}, {keyFormat, "layout"}, {keyShape, "shape"}}
)

// need fails unless all keys were seen.
func (s *scan) need(seen uint32, keys []required, at int) {
	for _, k := range keys {
		if seen&k.bit == 0 {
			s.Malformed(at, "%s is missing", k.key)
			return
		}
	}
}

// shape reads the dimensions into s.dims and returns their product. A product
// beyond 64 bits is refused even if a later dimension is 0 (T3): upstream
// multiplies from left to right.
func (s *scan) shape() uint64 {
	product, widest := uint64(1), uint64(0)
	n := s.Container(cbor.Array)
	at := s.At
	for s.More(&n) {
		d := s.Uint()
		hi, lo := bits.Mul64(product, d)
		if hi != 0 {
			s.Malformed(s.At, "the product of the dimensions overflows")
		}
		product, widest = lo, max(widest, d)
		s.dims = append(s.dims, int64(d))
		if int64(len(s.dims)) > s.r.Limits.MaxRank {
			s.Fail(s.At, "%w: more than %d dimensions", tensor.ErrLimit, s.r.Limits.MaxRank)
		}
	}
	if max(product, widest) > math.MaxInt64 { // which upstream counts with, and we do not
		s.Fail(at, "%w: a tensor of %d elements, a dimension of %d", tensor.ErrLimit, product, widest)
	}
	return product
}

// components reads the map from roles to components into s.roles.
func (s *scan) components() {
	n := s.Container(cbor.Map)
	ascending := true
	for s.More(&n) {
		if len(s.roles) > 0 && int64(len(s.roles)+s.r.Payloads.Used) >= s.r.Limits.MaxTensors {
			s.Fail(s.P, "%w: more than %d components", tensor.ErrLimit, s.r.Limits.MaxTensors)
			return
		}
		s.roles = append(s.roles, role{at: int32(s.P), decoded: -1})
		c := &s.roles[len(s.roles)-1]
		c.name = le.String(s.Text())
		if int64(len(c.name)) > s.r.Limits.MaxName {
			s.Fail(s.At, "%w: a role of %d bytes", tensor.ErrLimit, len(c.name))
		}
		s.component(c)
		if i := len(s.roles) - 1; i > 0 && s.roles[i-1].name >= s.roles[i].name {
			ascending = false
		}
	}
	if !ascending && s.Err == nil {
		roles := s.roles
		if _, dup := names.Build(len(roles), func(i int) string { return roles[i].name }); dup >= 0 {
			s.Malformed(int(roles[dup].at), "role %s a second time", quote.Name(roles[dup].name))
		}
	}
}

// component reads one component and checks where it lies.
func (s *scan) component(c *role) {
	var seen, null uint32
	var key []byte
	mark := len(s.Keys)
	for n := s.Container(cbor.Map); s.More(&n); {
		at := s.P
		key = s.RawText()
		switch string(key) {
		case "dtype":
			s.once(&seen, keyDType, at)
			c.dtype = le.String(s.Text())
		case "offset":
			s.once(&seen, keyOffset, at)
			c.offset = s.Uint()
		case "length":
			s.once(&seen, keyLength, at)
			c.length = s.Uint()
		case "encoding":
			s.once(&seen, keyEncoding, at)
			if s.absent(key) {
				null |= keyEncoding
			} else {
				c.encoding = le.String(s.Text())
			}
		case "digest":
			s.once(&seen, keyDigest, at)
			if s.absent(key) {
				null |= keyDigest
			} else {
				c.digest = le.String(s.Text())
			}
		case "type":
			s.once(&seen, keyType, at)
			if s.absent(key) {
				null |= keyType
			} else {
				c.logical = le.String(s.Text())
			}
		case "uncompressed_length":
			s.once(&seen, keyDecoded, at)
			if !s.absent(key) {
				v := s.Uint()
				if v > math.MaxInt64 {
					s.Malformed(s.At, "%d bytes", v)
				}
				c.decoded = int64(v)
			}
		default:
			s.other(at, key)
		}
		if s.Err != nil {
			s.in("%s.%s", s.r.Field(string(s.name), c.name), core.CutKey(key))
		}
	}
	s.Unique(mark)
	c.has = seen &^ null
	s.need(c.has, componentKeys, int(c.at))
	if s.Err != nil {
		s.in("%s", s.r.Field(string(s.name), c.name))
	}
}
