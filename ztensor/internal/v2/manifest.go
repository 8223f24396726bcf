package v2

import (
	"slices"

	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
)

// A scan reads a manifest of version 2 into the index of its Reader.
type scan struct {
	cbor.Cursor
	r       *core.File
	two     *Container
	where   string // the field in which it failed
	end     int64  // of the blob of this file that was read last
	jumbled bool   // blobs do not ascend in the file
	foreign bool   // blobs lie in shards

	dims  []uint64
	rank  int // how many dimensions there are, of which dims has no more than may be
	parts []rawPart
}

// A part2 is a part under construction, in the file's words; nil stands for a
// field that is not there.
type rawPart struct {
	at       int
	name     []byte
	dtype    []byte
	logical  []byte
	shard    []byte
	encoding []byte
	digest   []byte
	offset   uint64
	length   uint64
	decoded  uint64
	has      uint32
}

// size is how many bytes the part decodes to.
func (p *rawPart) size() uint64 {
	if p.has&hasDecoded != 0 {
		return p.decoded
	}
	return p.length
}

// done returns the error that stopped the scan.
func (s *scan) done() error {
	if s.Err == nil {
		return nil
	}
	return s.r.Placed(s.r.ManifestAt+int64(s.ErrAt), s.where, s.Err)
}

// in notes the field of a failure, unless something nearer has been noted.
func (s *scan) in(field func() string) {
	if s.Err != nil && s.where == "" {
		s.where = field()
	}
}

func (s *scan) inKey(path string, key []byte) {
	if s.Err != nil && s.where == "" {
		s.where = path + core.CutKey(key)
	}
}

// inObject notes that a failure is in a field of an object.
func (s *scan) inObject(t *tensor.Tensor, field string) {
	if s.Err != nil && s.where == "" {
		s.where = "objects[" + quote.Name(t.Name) + "]" + field
	}
}

// root reads the map that a manifest is.
func (s *scan) root() {
	var before []byte
	found := false
	for n := s.Container(cbor.Map); s.More(&n); {
		key, isText := s.Key(&before)
		switch {
		case isText && string(key) == "shards":
			s.shardTable()
		case isText && string(key) == "objects":
			found = true
			s.objects()
		case isText && string(key) == "attributes":
			s.r.Attributes = s.attributes()
		default:
			s.Skip()
		}
		s.inKey("", key)
	}
	s.finish(found)
}

// end2 checks what only the whole manifest tells.
func (s *scan) finish(found bool) {
	if !found {
		s.Refuse(rule.Schema, 0, "objects is missing")
	}
	s.Cursor.End()
	s.in(func() string { return "manifest" })
	s.r.Jumbled = s.jumbled || s.foreign
	if s.Err == nil && (s.jumbled || s.foreign) {
		s.overlaps()
	}
}

// attributes walks over a map of attributes and returns its CBOR.
func (s *scan) attributes() []byte {
	from := s.P
	var before []byte
	for n := s.Container(cbor.Map); s.More(&n); {
		at := s.P
		key, isText := s.Key(&before)
		s.name(at, key, isText, "an attribute")
		s.Skip()
	}
	if s.Err != nil {
		return nil
	}
	return s.r.KeepBytes(s.B[from:s.P:s.P])
}

// name checks the key of an object, a part or an attribute (§3.5).
func (s *scan) name(at int, key []byte, isText bool, what string) {
	switch {
	case s.Err != nil:
	case !isText:
		s.Refuse(rule.Schema, at, "the name of %s is no text", what)
	case len(key) == 0 || len(key) > maxName:
		s.Refuse(rule.Name, at, "the name of %s has %d bytes, not 1 to %d", what, len(key), maxName)
	case slices.Contains(key, 0):
		s.Refuse(rule.Name, at, "the name of %s has a NUL", what)
	case int64(len(key)) > s.r.Limits.MaxName:
		s.Fail(at, "%w: a name of %d bytes", tensor.ErrLimit, len(key))
	}
}

// The least that an object takes: a name, and a map of shape, layout and parts
// with one part of blob and dtype.
const minObject = 2 + 1 + 7 + 8 + 7 + 2 + 1 + 8 + 8

// objects reads the map of objects.
func (s *scan) objects() {
	n := s.Container(cbor.Map)
	switch {
	case n > (len(s.B)-s.P)/minObject:
		s.Refuse(rule.Schema, s.At, "%d objects in the %d bytes that are left", n, len(s.B)-s.P)
	case int64(n) > s.r.Limits.MaxTensors:
		s.Fail(s.At, "%w: %d objects of at most %d", tensor.ErrLimit, n, s.r.Limits.MaxTensors)
	}
	if n > 0 && s.Err == nil {
		s.r.Tensors.Reserve(n)
		s.r.Payloads.Reserve(n)
		s.r.Dims.Reserve(2 * n)
	}
	var before []byte
	for s.More(&n) {
		at := s.P
		key, isText := s.Key(&before)
		s.name(at, key, isText, "an object")
		if s.Err == nil {
			s.object(key, at)
		}
		s.inKey("objects.", key)
	}
}

// The fields of an object and of a part, as bits.
const (
	hasShape = 1 << iota
	hasLayout
	hasParts
	hasBlob
	hasDType
	hasEncoding
	hasDecoded
)

// object reads one entry of objects.
func (s *scan) object(name []byte, at int) {
	r := s.r
	t := &r.Tensors.Take(1)[0]
	t.Name = r.Keep(name)
	s.dims, s.rank, s.parts = s.dims[:0], 0, s.parts[:0]
	var before, layout []byte
	has := 0
	for n := s.Container(cbor.Map); s.More(&n); {
		key, isText := s.Key(&before)
		if !isText {
			s.Skip()
			continue
		}
		switch string(key) {
		case "shape":
			has |= hasShape
			s.shape()
		case "layout":
			has |= hasLayout
			layout = s.Text()
		case "parts":
			has |= hasParts
			s.partTable(t)
		case "attributes":
			encoded := s.attributes()
			if s.Err == nil {
				r.OwnAttrs = append(r.OwnAttrs, core.OwnAttributes{Tensor: r.Tensors.Used - 1, Encoded: encoded})
			}
		default:
			s.Skip()
		}
		if s.Err != nil {
			s.inObject(t, "."+core.CutKey(key))
		}
	}
	for _, field := range []struct {
		bit  int
		name string
	}{{hasShape, "shape"}, {hasLayout, "layout"}, {hasParts, "parts"}} {
		if has&field.bit == 0 {
			s.Refuse(rule.Schema, at, "%s is missing", field.name)
		}
	}
	s.inObject(t, "")
	if s.Err == nil {
		s.assemble(t, layout, at)
	}
}

// shape reads the dimensions.
func (s *scan) shape() {
	s.rank = s.Container(cbor.Array)
	for n := s.rank; s.More(&n); {
		if d := s.Uint(); len(s.dims) < maxRank {
			s.dims = append(s.dims, d)
		}
	}
}

// partTable reads the parts of an object.
func (s *scan) partTable(t *tensor.Tensor) {
	n := s.Container(cbor.Map)
	if n == 0 {
		s.Refuse(rule.Schema, s.At, "an object without parts")
	}
	var before []byte
	for s.More(&n) {
		if int64(len(s.parts)+s.r.Payloads.Used) >= s.r.Limits.MaxTensors {
			s.Fail(s.P, "%w: more than %d parts", tensor.ErrLimit, s.r.Limits.MaxTensors)
			return
		}
		at := s.P
		key, isText := s.Key(&before)
		s.name(at, key, isText, "a part")
		s.parts = append(s.parts, rawPart{at: at, name: key})
		s.part(&s.parts[len(s.parts)-1])
		s.in(func() string { return partField(t.Name, string(key)) })
	}
}

// part reads the fields of one part.
func (s *scan) part(p *rawPart) {
	var before []byte
	for n := s.Container(cbor.Map); s.More(&n); {
		key, isText := s.Key(&before)
		if !isText {
			s.Skip()
			continue
		}
		switch string(key) {
		case "blob":
			p.has |= hasBlob
			if n := s.Container(cbor.Array); n != 2 {
				s.Refuse(rule.Schema, s.At, "a blob of %d numbers, not of offset and length", n)
			}
			p.offset, p.length = s.Uint(), s.Uint()
			s.Deep++ // the array ends
		case "type":
			p.logical = s.Text()
		case "dtype":
			p.has |= hasDType
			if p.dtype = s.Text(); s.Err == nil && storageTypeOf(p.dtype) == tensor.Unknown {
				s.Refuse(rule.Schema, s.At, "dtype %s", quote.Name(string(p.dtype)))
			}
		case "shard":
			if p.shard = s.Text(); s.Err == nil && !isShardName(p.shard) {
				s.Refuse(rule.ShardName, s.At, "shard %s", quote.Name(string(p.shard)))
			}
		case "digest":
			p.digest = s.Text()
			s.digest(p.digest)
		case "encoding":
			p.has |= hasEncoding
			p.encoding = s.Text()
		case "decoded_length":
			p.has |= hasDecoded
			p.decoded = s.Uint()
		default:
			s.Skip()
		}
	}
	switch {
	case s.Err != nil:
	case p.has&hasBlob == 0:
		s.Refuse(rule.Schema, p.at, "blob is missing")
	case p.has&hasDType == 0:
		s.Refuse(rule.Schema, p.at, "dtype is missing")
	case p.has&hasEncoding != 0 != (p.has&hasDecoded != 0):
		s.Refuse(rule.Schema, p.at, "encoding and decoded_length do not come together")
	}
}

// digest checks the form of a digest, algorithm:hexadecimal.
func (s *scan) digest(text []byte) {
	if s.Err == nil && !isDigest(text) {
		s.Refuse(rule.Schema, s.At, "digest %s", quote.Name(string(text)))
	}
}

func isDigest(text []byte) bool {
	colon := slices.Index(text, ':')
	if colon <= 0 || colon == len(text)-1 {
		return false
	}
	for i, c := range text {
		lower, digit := c >= 'a' && c <= 'z', c >= '0' && c <= '9'
		if i != colon && !digit && !(lower && (i < colon || c <= 'f')) {
			return false
		}
	}
	return true
}

func partField(object, part string) string {
	return "objects[" + quote.Name(object) + "].parts[" + quote.Name(part) + "]"
}
