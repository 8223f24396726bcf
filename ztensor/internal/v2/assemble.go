package v2

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
	"github.com/tensorfile/tensorfile/ztensor/internal/layouts"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
)

// assemble makes a tensor of what its entry says, and checks it against the
// rules of the container and those of its layout.
func (s *scan) assemble(t *tensor.Tensor, layout []byte, at int) {
	r := s.r
	defer s.inObject(t, "")
	shape := func(err error) {
		s.Fail(at, "%w", err)
		s.inObject(t, ".shape")
	}
	if s.rank > maxRank {
		shape(rule.Broken(rule.Shape, "%d dimensions, more than %d", s.rank, maxRank))
		return
	}
	elements, widest := uint64(1), uint64(0)
	for _, d := range s.dims { // from the left, as the reference does: a later 0 does not help
		var ok bool
		if elements, ok = layouts.Mul(elements, d); !ok {
			shape(rule.Broken(rule.Shape, "the product of the dimensions overflows"))
			return
		}
		widest = max(widest, d)
	}
	t.Shape = tensor.Shape{}
	if len(s.dims) > 0 {
		t.Shape = r.Dims.Take(len(s.dims))
		for i, d := range s.dims {
			t.Shape[i] = int64(d)
		}
	}
	blobs := r.Payloads.Take(len(s.parts))
	for i := range s.parts {
		if s.blob(t, &blobs[i], &s.parts[i]); s.Err != nil {
			return
		}
	}
	s.arrange(t, layout, blobs, elements, at)
	if s.Err != nil {
		return
	}
	// The rules have an answer to any number. What has 64 bits can only be refused when it keeps them all.
	if max(widest, elements) > math.MaxInt64 || int64(s.rank) > r.Limits.MaxRank {
		shape(fmt.Errorf("%w: %d elements in %d dimensions of up to %d", tensor.ErrLimit, elements, s.rank, widest))
		return
	}
	for i := range s.parts {
		if p := &s.parts[i]; p.size() > math.MaxInt64 {
			s.Fail(p.at, "%w: decodes to %d bytes", tensor.ErrLimit, p.decoded)
			s.in(func() string { return partField(t.Name, string(p.name)) + ".decoded_length" })
			return
		}
	}
}

// arrange gives a tensor its parts, and applies the rules of its layout.
func (s *scan) arrange(t *tensor.Tensor, layout []byte, blobs []core.Payload, elements uint64, at int) {
	r := s.r
	if string(layout) == "dense" {
		s.dense(t, &blobs[0], elements, at)
		return
	}
	if t.Scheme = r.Keep(layout); t.Scheme == "" {
		// The specification has nothing against a layout without a name, and
		// Scheme has: empty, it says that the tensor is dense.
		t.Scheme = nameless
	}
	t.Parts = r.Parts.Take(len(s.parts))
	for i := range s.parts {
		t.Parts[i] = tensor.Part{Role: r.Keep(s.parts[i].name), DType: blobs[i].Dtype, Data: tensor.NewBlob(&blobs[i])}
	}
	s.profile(t, elements, at)
}

// dense applies the rule of the one core layout.
func (s *scan) dense(t *tensor.Tensor, b *core.Payload, elements uint64, at int) {
	if len(s.parts) != 1 || string(s.parts[0].name) != "data" {
		s.Refuse(rule.LayoutRule, at, "a dense object has one part, data")
		return
	}
	t.DType, t.Data = b.Dtype, tensor.NewBlob(b)
	if b.Dtype == tensor.Unknown {
		return
	}
	want, ok := layouts.Mul(elements, uint64(b.Dtype.Size()))
	if b.Dtype.Bits() == 4 {
		want, ok = elements/2+elements%2, true
	}
	if !ok || want != s.parts[0].size() {
		s.Refuse(rule.DenseSize, s.parts[0].at, "%d bytes for %d elements of %v", s.parts[0].size(), elements, b.Dtype)
		s.in(func() string { return partField(t.Name, "data") })
	}
}

// blob checks where a part lies and what it is.
func (s *scan) blob(t *tensor.Tensor, b *core.Payload, p *rawPart) {
	r := s.r
	end := uint64(r.Src.Size() - FooterSize)
	in := func(field string) { s.in(func() string { return partField(t.Name, string(p.name)) + field }) }
	if p.offset%MinAlignment != 0 || p.offset < MinAlignment {
		s.Refuse(rule.BlobAlignment, p.at, "byte %d is no positive multiple of %d", p.offset, MinAlignment)
		in(".blob")
		return
	}
	if p.shard != nil {
		i := s.two.find(string(p.shard))
		if i < 0 {
			s.Refuse(rule.ShardRef, p.at, "there is no shard %s", quote.Name(string(p.shard)))
			in(".shard")
			return
		}
		b.Shard, s.foreign = int32(i+1), true
		end = uint64(s.two.List[i].size - FooterSize)
	}
	if p.offset > end || p.length > end-p.offset {
		s.Refuse(rule.BlobBounds, p.at, "%d bytes at %d of the %d before the footer", p.length, p.offset, end)
		in(".blob")
		return
	}
	b.R, b.T, b.Offset, b.Length, b.DecodedSize = r, t, int64(p.offset), int64(p.length), int64(p.size())
	b.Dtype = storageTypeOf(p.dtype)
	if p.logical != nil {
		l := core.LogicalNamed(string(p.logical), true)
		switch {
		case l.Name == "":
			core.RareOf(b).Word, b.More.Storage = r.Keep(p.logical), b.Dtype
			b.Dtype = tensor.Unknown
		case l.Storage != b.Dtype:
			s.Refuse(rule.Schema, p.at, "%s is stored as %v, not %v", l.Name, l.Storage, b.Dtype)
			in(".type")
			return
		default:
			b.Dtype = l.DType
		}
	}
	if p.has&hasEncoding != 0 {
		core.RareOf(b).Encoding = r.Keep(p.encoding)
		if b.More.Codec = (&frames{b: b, cache: &s.two.cache}); b.More.Encoding != Seekable {
			b.More.Err = fmt.Errorf("%w: encoding %s", errors.ErrUnsupported, quote.Name(b.More.Encoding))
		}
	}
	if p.digest != nil {
		core.SetDigest(b, le.String(p.digest))
	}
	s.placed(b)
}

// placed notes where a blob of this file lies.
func (s *scan) placed(b *core.Payload) {
	if b.Length > 0 && b.Shard == 0 {
		s.jumbled = s.jumbled || b.Offset < s.end || b.Offset+b.Length > s.r.ManifestAt
		s.end = b.Offset + b.Length
	}
}

// overlaps refuses blobs of one file that share some of their bytes but not
// all (§2.4). The manifest is one of those of this file.
func (s *scan) overlaps() {
	r := s.r
	own := func(shard int32) iter.Seq[core.Extent] {
		return func(yield func(core.Extent) bool) {
			for b := range r.Payloads.All() {
				if b.Shard == shard && !yield(core.Extent{Off: b.Offset, Length: b.Length}) {
					return
				}
			}
			if shard == 0 {
				yield(core.Extent{Off: r.ManifestAt, Length: r.ManifestSize})
			}
		}
	}
	used := make([]bool, len(s.two.List)+1)
	used[0] = true
	for b := range r.Payloads.All() {
		used[b.Shard] = true
	}
	for shard := range used {
		if !used[shard] || core.Disjoint(r.Payloads.Used+1, own(int32(shard))) {
			continue
		}
		all := slices.Collect(own(int32(shard)))
		core.Overlaps(all, func(i, j int) bool {
			s.Fail(0, "%w", r.Bad(all[j].Off, "", rule.Broken(rule.BlobOverlap, "%d bytes at %d and %d bytes at %d", all[i].Length, all[i].Off, all[j].Length, all[j].Off)))
			return false
		})
	}
}

// profile applies the metadata rules of a registered layout. Those of sparse_csr
// are upstream's too. The other ones no upstream program has held a file against
// yet, its own examples among them: what departs from them is opened, with a
// warning, unless the reader is strict.
func (s *scan) profile(t *tensor.Tensor, elements uint64, at int) {
	var attributes []byte
	if own := s.r.OwnAttrs; len(own) > 0 && own[len(own)-1].Tensor == s.r.Tensors.Used-1 {
		attributes = own[len(own)-1].Encoded
	}
	err := layouts.Check(t, elements, attributes)
	switch {
	case err == nil:
	case t.Scheme == layouts.CSR || s.r.Strict:
		s.Fail(at, "%w", err)
	default:
		s.r.WarningList.Add(s.r.ManifestAt+int64(at), "objects["+quote.Name(t.Name)+"]", err)
	}
	if s.Err == nil && (t.Scheme == layouts.CSR || t.Scheme == layouts.COO) {
		if values := t.Part("values"); values != nil {
			t.DType = values.DType
		}
	}
}
