package ztensor

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"math/bits"
	"slices"

	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
)

// assemble makes a tensor of what its entry says, and checks it against the
// rules of the container and those of its layout.
func (s *scan2) assemble(t *tensor.Tensor, layout []byte, at int) {
	r := s.r
	defer s.inObject(t, "")
	shape := func(err error) {
		s.Fail(at, "%w", err)
		s.inObject(t, ".shape")
	}
	if s.rank > maxRank2 {
		shape(rule.Broken(rule.Shape, "%d dimensions, more than %d", s.rank, maxRank2))
		return
	}
	elements, widest := uint64(1), uint64(0)
	for _, d := range s.dims { // from the left, as the reference does: a later 0 does not help
		var ok bool
		if elements, ok = mul(elements, d); !ok {
			shape(rule.Broken(rule.Shape, "the product of the dimensions overflows"))
			return
		}
		widest = max(widest, d)
	}
	t.Shape = tensor.Shape{}
	if len(s.dims) > 0 {
		t.Shape = r.dims.take(len(s.dims))
		for i, d := range s.dims {
			t.Shape[i] = int64(d)
		}
	}
	blobs := r.blobs.take(len(s.parts))
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
	if max(widest, elements) > math.MaxInt64 || int64(s.rank) > r.limits.MaxRank {
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
func (s *scan2) arrange(t *tensor.Tensor, layout []byte, blobs []blob, elements uint64, at int) {
	r := s.r
	if string(layout) == "dense" {
		s.dense(t, &blobs[0], elements, at)
		return
	}
	if t.Scheme = r.keep(layout); t.Scheme == "" {
		// The specification has nothing against a layout without a name, and
		// Scheme has: empty, it says that the tensor is dense.
		t.Scheme = nameless
	}
	t.Parts = r.parts.take(len(s.parts))
	for i := range s.parts {
		t.Parts[i] = tensor.Part{Role: r.keep(s.parts[i].name), DType: blobs[i].dtype, Data: tensor.NewBlob(&blobs[i])}
	}
	s.profile(t, elements, at)
}

// dense applies the rule of the one core layout.
func (s *scan2) dense(t *tensor.Tensor, b *blob, elements uint64, at int) {
	if len(s.parts) != 1 || string(s.parts[0].name) != "data" {
		s.Refuse(rule.LayoutRule, at, "a dense object has one part, data")
		return
	}
	t.DType, t.Data = b.dtype, tensor.NewBlob(b)
	if b.dtype == tensor.Unknown {
		return
	}
	want, ok := mul(elements, uint64(b.dtype.Size()))
	if b.dtype.Bits() == 4 {
		want, ok = elements/2+elements%2, true
	}
	if !ok || want != s.parts[0].size() {
		s.Refuse(rule.DenseSize, s.parts[0].at, "%d bytes for %d elements of %v", s.parts[0].size(), elements, b.dtype)
		s.in(func() string { return partField(t.Name, "data") })
	}
}

// blob checks where a part lies and what it is.
func (s *scan2) blob(t *tensor.Tensor, b *blob, p *part2) {
	r := s.r
	end := uint64(r.src.Size() - footer2)
	in := func(field string) { s.in(func() string { return partField(t.Name, string(p.name)) + field }) }
	if p.offset%floor2 != 0 || p.offset < floor2 {
		s.Refuse(rule.BlobAlignment, p.at, "byte %d is no positive multiple of %d", p.offset, floor2)
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
		b.shard, s.foreign = int32(i+1), true
		end = uint64(s.two.list[i].size - footer2)
	}
	if p.offset > end || p.length > end-p.offset {
		s.Refuse(rule.BlobBounds, p.at, "%d bytes at %d of the %d before the footer", p.length, p.offset, end)
		in(".blob")
		return
	}
	b.r, b.t, b.offset, b.length, b.size = r, t, int64(p.offset), int64(p.length), int64(p.size())
	b.dtype = storageType2(p.dtype)
	if p.logical != nil {
		l := logicalType2(p.logical)
		switch {
		case l.name == "":
			b.rare().logical, b.more.storage = r.keep(p.logical), b.dtype
			b.dtype = tensor.Unknown
		case l.storage != b.dtype:
			s.Refuse(rule.Schema, p.at, "%s is stored as %v, not %v", l.name, l.storage, b.dtype)
			in(".type")
			return
		default:
			b.dtype = l.dtype
		}
	}
	if p.has&hasEncoding != 0 {
		b.encoded, b.rare().encoding = true, r.keep(p.encoding)
		if b.more.encoding != seekable {
			b.more.err = fmt.Errorf("%w: encoding %s", errors.ErrUnsupported, quote.Name(b.more.encoding))
		}
	}
	if p.digest != nil && !b.setHash(p.digest) {
		b.rare().digest = r.keep(p.digest)
	}
	s.placed(b)
}

// placed notes where a blob of this file lies.
func (s *scan2) placed(b *blob) {
	if b.length > 0 && b.shard == 0 {
		s.jumbled = s.jumbled || b.offset < s.end || b.offset+b.length > s.r.manifestAt
		s.end = b.offset + b.length
	}
}

// overlaps refuses blobs of one file that share some of their bytes but not
// all (§2.4). The manifest is one of those of this file.
func (s *scan2) overlaps() {
	r := s.r
	own := func(shard int32) iter.Seq[extent] {
		return func(yield func(extent) bool) {
			for b := range r.blobs.all() {
				if b.shard == shard && !yield(extent{b.offset, b.length}) {
					return
				}
			}
			if shard == 0 {
				yield(extent{r.manifestAt, r.manifestSize})
			}
		}
	}
	used := make([]bool, len(s.two.list)+1)
	used[0] = true
	for b := range r.blobs.all() {
		used[b.shard] = true
	}
	for shard := range used {
		if !used[shard] || disjoint(r.blobs.used+1, own(int32(shard))) {
			continue
		}
		all := slices.Collect(own(int32(shard)))
		overlaps(all, func(i, j int) bool {
			s.Fail(0, "%w", r.bad(all[j].off, "", rule.Broken(rule.BlobOverlap, "%d bytes at %d and %d bytes at %d", all[i].length, all[i].off, all[j].length, all[j].off)))
			return false
		})
	}
}

// bytesOf is how many bytes n elements take.
func bytesOf(d tensor.DType, n uint64) (uint64, bool) {
	if n > math.MaxInt64 {
		return 0, false
	}
	size, ok := d.Bytes(int64(n))
	return uint64(size), ok
}

func mul(a, b uint64) (uint64, bool) {
	if a <= math.MaxInt32 && b <= math.MaxInt32 {
		return a * b, true
	}
	hi, lo := bits.Mul64(a, b)
	return lo, hi == 0
}
