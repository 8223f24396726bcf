package v2

import (
	"bytes"
	"math"

	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
	"github.com/tensorfile/tensorfile/ztensor/internal/digest"
	"github.com/tensorfile/tensorfile/ztensor/internal/layouts"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
)

// A scan reads a manifest into the index of its file.
type scan struct {
	cbor.Cursor
	c     *Container
	r     *core.File
	end   int64 // of the last payload of this file so far
	dims  []uint64
	parts []scannedPart

	// The position for an error: key of the root, shard or object, part, field.
	top, item, part, field []byte
}

// A scannedPart is a part of the object that is being read.
type scannedPart struct {
	name []byte
	at   int
	b    *core.Payload
	size uint64 // decoded
}

// path returns the position as the Field of an error.
func (s *scan) path() string {
	if s.top == nil {
		return "manifest"
	}
	path := core.PathKey(s.top)
	if s.item != nil {
		path += "[" + naming.Quote(string(s.item)) + "]"
	}
	if s.part != nil {
		path += ".parts[" + naming.Quote(string(s.part)) + "]"
	}
	if s.field != nil {
		path += "." + core.PathKey(s.field)
	}
	return path
}

// run reads the whole manifest.
func (s *scan) run() error {
	var before []byte
	found := false
	for n := s.Container(cbor.Map); s.More(&n); {
		s.top, s.item, s.part, s.field = nil, nil, nil, nil
		s.top = s.Key(&before)
		switch string(s.top) {
		case "shards":
			s.shards()
		case "objects":
			found = true
			s.objects()
		case "attributes":
			s.r.Attributes = s.attributes()
		default:
			s.Skip()
		}
	}
	if s.Err == nil {
		s.top = nil
		if !found {
			s.BreakRule(rule.Schema, 0, "objects is missing")
		}
		s.End()
	}
	if s.Err != nil {
		return s.r.Locate(s.r.ManifestAt+int64(s.ErrAt), s.path(), s.Err)
	}
	var err error
	s.r.Overlaps(func(a, b *core.Payload) bool {
		err = s.overlap(a.Offset, a.Length, b)
		return false
	})
	return err
}

// overlap returns the error of two payloads that share some of their bytes but not all
// (§2.4).
func (s *scan) overlap(off, n int64, b *core.Payload) error {
	return core.Errs.Wrap(b.Offset, "", rule.Broken(rule.BlobOverlap,
		"%d bytes at %d and %d bytes at %d", n, off, b.Length, b.Offset))
}

// fieldKey reads the next key within an object, part or shard; nil if it is not text.
func (s *scan) fieldKey(before *[]byte) []byte {
	s.field = nil
	s.field = s.Key(before)
	return s.field
}

// nameKey reads the name of an object, a part or an attribute (§3.5).
func (s *scan) nameKey(before *[]byte, what string) []byte {
	at := s.Pos
	key := s.Key(before)
	switch {
	case s.Err != nil:
	case key == nil:
		s.BreakRule(rule.Schema, at, "the name of %s is not text", what)
	case len(key) == 0 || len(key) > maxName:
		s.BreakRule(rule.Name, at,
			"the name of %s has %d bytes, not 1 to %d", what, len(key), maxName)
	case bytes.IndexByte(key, 0) >= 0:
		s.BreakRule(rule.Name, at, "the name of %s has a NUL", what)
	case int64(len(key)) > s.r.Options.Limits.MaxName:
		s.Fail(at, "%w: a name of %d bytes", tensor.ErrLimit, len(key))
	}
	return key
}

// attributes checks a map of attributes and returns its CBOR.
func (s *scan) attributes() []byte {
	from := s.Pos
	var before []byte
	for n := s.Container(cbor.Map); s.More(&n); {
		s.nameKey(&before, "an attribute")
		s.Skip()
	}
	if s.Err != nil {
		return nil
	}
	return s.B[from:s.Pos:s.Pos]
}

// shards reads the table of shards, which comes before the objects.
func (s *scan) shards() {
	n := s.Container(cbor.Map)
	if int64(n) > s.r.Options.Limits.MaxTensors {
		s.Fail(s.At, "%w: %d shards", tensor.ErrLimit, n)
	}
	var before []byte
	for s.More(&n) {
		s.item, s.field = nil, nil
		at := s.Pos
		switch s.item = s.Key(&before); {
		case s.Err != nil:
		case s.item == nil:
			s.BreakRule(rule.Schema, at, "the name of a shard is not text")
		case !isShardName(s.item):
			s.BreakRule(rule.ShardName, at, "shard %s", naming.Quote(string(s.item)))
		default:
			s.shard(at)
		}
	}
}

func (s *scan) shard(at int) {
	var before, sum []byte
	size, hasSize := uint64(0), false
	for n := s.Container(cbor.Map); s.More(&n); {
		switch string(s.fieldKey(&before)) {
		case "size":
			hasSize, size = true, s.Uint()
		case "digest":
			if sum = s.Text(); s.Err == nil && !digest.IsWellFormed(sum) {
				s.BreakRule(rule.Schema, s.At, "digest %s", naming.Quote(string(sum)))
			}
		default:
			s.Skip()
		}
	}
	switch {
	case s.Err != nil:
	case !hasSize || sum == nil:
		s.BreakRule(rule.Schema, at, "a shard has a size and a digest")
	case size < MinSize:
		s.BreakRule(rule.Schema, at, "a size of %d, and the shortest file has %d", size, MinSize)
	case size > math.MaxInt64:
		s.Fail(at, "%w: a shard of %d bytes", tensor.ErrLimit, size)
	default:
		id := core.ShardID{Name: le.String(s.item), Size: int64(size), Digest: le.String(sum)}
		s.r.Shards = append(s.r.Shards, id)
		s.c.List = append(s.c.List, shard{ShardID: id})
	}
}

// minObject is the min size of an object: a name, and a map of shape, layout and parts
// with one part of blob and dtype.
const minObject = 2 + 1 + 7 + 8 + 7 + 2 + 1 + 8 + 8

// objects reads the map of objects.
func (s *scan) objects() {
	n := s.Container(cbor.Map)
	switch {
	case n > (len(s.B)-s.Pos)/minObject:
		s.BreakRule(rule.Schema, s.At, "%d objects in the %d bytes that are left", n,
			len(s.B)-s.Pos)
	case int64(n) > s.r.Options.Limits.MaxTensors:
		s.Fail(s.At, "%w: %d objects, limit %d", tensor.ErrLimit, n, s.r.Options.Limits.MaxTensors)
	case n > 0 && s.Err == nil:
		s.r.Reserve(n)
	}
	var before []byte
	for s.More(&n) {
		s.item, s.part, s.field = nil, nil, nil
		at := s.Pos
		if s.item = s.nameKey(&before, "an object"); s.Err == nil {
			s.object(at)
		}
	}
}

// object reads one object.
func (s *scan) object(at int) {
	t := s.r.NewTensor(le.String(s.item))
	s.dims, s.parts = s.dims[:0], s.parts[:0]
	rank := -1
	var before, layout, attributes []byte
	for n := s.Container(cbor.Map); s.More(&n); {
		switch string(s.fieldKey(&before)) {
		case "shape":
			rank = s.Container(cbor.Array)
			for n := rank; s.More(&n); {
				if d := s.Uint(); len(s.dims) < maxRank {
					s.dims = append(s.dims, d)
				}
			}
		case "layout":
			layout = s.Text()
		case "parts":
			s.readParts(t)
		case "attributes":
			attributes = s.attributes()
			s.r.TensorAttributes[t] = attributes
		default:
			s.Skip()
		}
	}
	if s.Err != nil {
		return
	}
	s.field = nil
	switch {
	case rank < 0:
		s.BreakRule(rule.Schema, at, "shape is missing")
	case layout == nil:
		s.BreakRule(rule.Schema, at, "layout is missing")
	case len(s.parts) == 0:
		s.BreakRule(rule.Schema, at, "parts are missing")
	case rank > maxRank:
		s.BreakRule(rule.Shape, at, "%d dimensions, more than %d", rank, maxRank)
	default:
		s.assemble(t, layout, attributes, at)
	}
}

// assemble completes a tensor, and checks its shape and the rules of its layout.
func (s *scan) assemble(t *tensor.Tensor, layout, attributes []byte, at int) {
	elements, largest := uint64(1), uint64(0)
	t.Shape = tensor.Shape{}
	if len(s.dims) > 0 {
		t.Shape = s.r.Dims.Take(len(s.dims))
	}
	for i, d := range s.dims { // from the left, as the reference does: a later 0 does not help
		var ok bool
		if elements, ok = layouts.Mul(elements, d); !ok {
			s.BreakRule(rule.Shape, at, "the product of the dimensions overflows")
			return
		}
		largest = max(largest, d)
		t.Shape[i] = int64(d)
	}
	if string(layout) == "dense" {
		s.dense(t, elements, at)
	} else {
		s.layout(t, le.String(layout), attributes, elements, at)
	}
	// A number of more than 63 bits exceeds a limit only if it breaks no rule.
	if s.Err == nil && (max(largest,
		elements) > math.MaxInt64 || int64(len(s.dims)) > s.r.Options.Limits.MaxRank) {
		s.Fail(at, "%w: %d elements in %d dimensions of up to %d", tensor.ErrLimit, elements,
			len(s.dims), largest)
	}
	for _, p := range s.parts {
		if p.size > math.MaxInt64 {
			s.Fail(p.at, "%w: part %s decodes to %d bytes", tensor.ErrLimit,
				naming.Quote(string(p.name)), p.size)
		}
	}
}

// dense applies the rules of dense objects.
func (s *scan) dense(t *tensor.Tensor, elements uint64, at int) {
	p := s.parts[0]
	if len(s.parts) != 1 || string(p.name) != "data" {
		s.BreakRule(rule.LayoutRule, at, "a dense object has one part, data")
		return
	}
	t.DType, t.Data = p.b.Dtype, p.b.Blob()
	want, ok := layouts.Mul(elements, uint64(t.DType.Size()))
	if t.DType.Bits() == 4 {
		want, ok = elements/2+elements%2, true
	}
	if t.DType != tensor.Unknown && (!ok || want != p.size) {
		s.part = p.name
		s.BreakRule(rule.DenseSize, p.at, "%d bytes for %d elements of %v", p.size, elements,
			t.DType)
	}
}

// layout sets the parts of a tensor and applies the rules of its layout. Upstream's
// programs enforce the rules of CSR only: an object that breaks rules of another layout
// is opened with a warning, unless the reader is strict.
func (s *scan) layout(t *tensor.Tensor, name string, attributes []byte, elements uint64, at int) {
	if t.Scheme = name; name == "" {
		t.Scheme = nameless
	}
	t.Parts = s.r.Parts.Take(len(s.parts))
	for i, p := range s.parts {
		t.Parts[i] = tensor.Part{Role: le.String(p.name), DType: p.b.Dtype,
			Data: p.b.Blob()}
	}
	if err := layouts.Check(t, elements, attributes); err != nil {
		if t.Scheme == layouts.CSR || s.r.Options.Strict {
			s.Fail(at, "%w", err)
			return
		}
		s.r.Warnings.Add(core.Errs.Wrap(s.r.ManifestAt+int64(at), s.path(), err))
	}
	sparse := t.Scheme == layouts.CSR || t.Scheme == layouts.COO
	if values := t.Part("values"); sparse && values != nil {
		t.DType = values.DType
	}
}
