package ztensor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
)

// The numbers of the container of version 2 (§2 and §3 of its specification).
const (
	footer2       = 40
	least2        = 8 + footer2 // a file of nothing
	floor2        = 4096        // where blobs and the manifest may begin: at multiples of it
	canonical2    = 65536       // where they do in canonical form
	maxManifest2  = 1 << 30
	maxName2      = 1024
	maxShardName2 = 64
	maxRank2      = 64
)

// nameless is the Scheme of a tensor whose layout is the empty text.
const nameless = "?"

// A container2 is what version 2 has beyond the index of all versions.
type container2 struct {
	blobs  slab[blob]
	shards []shard // in the order of the manifest
	order  []int32 // of them by name
	data   bool    // a data shard: no manifest
	beside folder
}

func (c *container2) stored() (n int64) {
	for b := range c.blobs.all() {
		n += b.length
	}
	return n
}

// elsewhere returns the size of all shards.
func (c *container2) elsewhere() (n int64) {
	for i := range c.shards {
		var ok bool
		if n, ok = align.Add(n, c.shards[i].size); !ok {
			return math.MaxInt64
		}
	}
	return n
}

func (c *container2) window() uint64 {
	if strconv.IntSize < 64 {
		return maxWindow
	}
	return maxFrameWindow
}

func (c *container2) verifyFile(v *verifier) error             { return v.shards() }
func (c *container2) verifyTensor(w *worker, t *tensor.Tensor) { w.tensor2(t) }
func (c *container2) verifyForm(v *verifier) error             { return v.canonical() }

// find returns the index of the shard of that name, or -1.
func (c *container2) find(name string) int {
	i, ok := slices.BinarySearchFunc(c.order, name, func(i int32, name string) int { return strings.Compare(c.shards[i].name, name) })
	if !ok {
		return -1
	}
	return int(c.order[i])
}

// open2 reads the container of version 2.
func (r *Reader) open2() error {
	size := r.src.Size()
	r.version, r.list, r.two = "2", "objects", new(container2)
	r.generation = r.two
	if size < least2 {
		return r.bad(size, "", rule.Broken(rule.FileTooSmall, "%d bytes, and the shortest file has %d", size, least2))
	}
	t, err := r.readTail(footer2)
	if err != nil {
		return err
	}
	f, at := t.last(footer2), size-footer2
	off, n, hash := binary.LittleEndian.Uint64(f), binary.LittleEndian.Uint64(f[8:]), binary.LittleEndian.Uint64(f[16:])
	switch version := binary.LittleEndian.Uint32(f[24:]); {
	case string(f[32:]) != magic2:
		return r.bad(size-8, "magic", rule.Broken(rule.FooterMagic, "the file does not end with the magic number (truncated, or an append that was interrupted?)"))
	case version != 2:
		return r.bad(at+24, "version", rule.Broken(rule.Version, "container version %d", version))
	case n == 0 && (off != 0 || hash != 0):
		return r.bad(at, "manifest_offset", rule.Broken(rule.ManifestBounds, "no manifest, and yet a place or a hash for it"))
	case n == 0:
		r.two.data = true
		return nil
	case n > maxManifest2:
		return r.bad(at+8, "manifest_length", rule.Broken(rule.ManifestTooLarge, "%d bytes of at most %d", n, maxManifest2))
	case off%floor2 != 0 || off < floor2:
		return r.bad(at, "manifest_offset", rule.Broken(rule.BlobAlignment, "the manifest begins at %d, no positive multiple of %d", off, floor2))
	case off > uint64(at) || n > uint64(at)-off:
		return r.bad(at, "manifest_offset", rule.Broken(rule.ManifestBounds, "%d bytes at %d of the %d before the footer", n, off, at))
	}
	return r.manifest(t, int64(off), int64(n), func(b []byte) error {
		if have := xxh3.Hash(b); have != hash {
			return r.bad(at+16, "manifest_hash", rule.Broken(rule.ManifestHash, "xxh3 is %016x, the footer says %016x", have, hash))
		}
		s := &scan2{Cursor: cbor.NewStrict(b, r.limits), r: r}
		s.root()
		return s.done()
	})
}

// A scan2 reads a manifest of version 2 into the index of its Reader.
type scan2 struct {
	cbor.Cursor
	r       *Reader
	where   string // the field in which it failed
	end     int64  // of the blob of this file that was read last
	jumbled bool   // blobs do not ascend in the file
	foreign bool   // blobs lie in shards

	dims  []uint64
	rank  int // how many dimensions there are, of which dims has no more than may be
	parts []part2
}

// A part2 is a part under construction, in the file's words; nil stands for a
// field that is not there.
type part2 struct {
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
func (p *part2) size() uint64 {
	if p.has&hasDecoded != 0 {
		return p.decoded
	}
	return p.length
}

// done returns the error that stopped the scan.
func (s *scan2) done() error {
	if s.Err == nil {
		return nil
	}
	return s.r.placed(s.r.manifestAt+int64(s.ErrAt), s.where, s.Err)
}

// in notes the field of a failure, unless something nearer has been noted.
func (s *scan2) in(field func() string) {
	if s.Err != nil && s.where == "" {
		s.where = field()
	}
}

func (s *scan2) inKey(path string, key []byte) {
	if s.Err != nil && s.where == "" {
		s.where = path + cutKey(key)
	}
}

// inObject notes that a failure is in a field of an object.
func (s *scan2) inObject(t *tensor.Tensor, field string) {
	if s.Err != nil && s.where == "" {
		s.where = "objects[" + quote.Name(t.Name) + "]" + field
	}
}

// root reads the map that a manifest is.
func (s *scan2) root() {
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
			s.r.attributes = s.attributes()
		default:
			s.Skip()
		}
		s.inKey("", key)
	}
	s.end2(found)
}

// end2 checks what only the whole manifest tells.
func (s *scan2) end2(found bool) {
	if !found {
		s.Refuse(rule.Schema, 0, "objects is missing")
	}
	s.Cursor.End()
	s.in(func() string { return "manifest" })
	s.r.jumbled = s.jumbled || s.foreign
	if s.Err == nil && (s.jumbled || s.foreign) {
		s.overlaps()
	}
}

// attributes walks over a map of attributes and returns its CBOR.
func (s *scan2) attributes() []byte {
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
	return s.r.keepBytes(s.B[from:s.P:s.P])
}

// name checks the key of an object, a part or an attribute (§3.5).
func (s *scan2) name(at int, key []byte, isText bool, what string) {
	switch {
	case s.Err != nil:
	case !isText:
		s.Refuse(rule.Schema, at, "the name of %s is no text", what)
	case len(key) == 0 || len(key) > maxName2:
		s.Refuse(rule.Name, at, "the name of %s has %d bytes, not 1 to %d", what, len(key), maxName2)
	case slices.Contains(key, 0):
		s.Refuse(rule.Name, at, "the name of %s has a NUL", what)
	case int64(len(key)) > s.r.limits.MaxName:
		s.Fail(at, "%w: a name of %d bytes", tensor.ErrLimit, len(key))
	}
}

// The least that an object takes: a name, and a map of shape, layout and parts
// with one part of blob and dtype.
const leastObject = 2 + 1 + 7 + 8 + 7 + 2 + 1 + 8 + 8

// objects reads the map of objects.
func (s *scan2) objects() {
	n := s.Container(cbor.Map)
	switch {
	case n > (len(s.B)-s.P)/leastObject:
		s.Refuse(rule.Schema, s.At, "%d objects in the %d bytes that are left", n, len(s.B)-s.P)
	case int64(n) > s.r.limits.MaxTensors:
		s.Fail(s.At, "%w: %d objects of at most %d", tensor.ErrLimit, n, s.r.limits.MaxTensors)
	}
	if n > 0 && s.Err == nil {
		s.r.tensors.reserve(n)
		s.r.two.blobs.reserve(n)
		s.r.dims.reserve(2 * n)
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
func (s *scan2) object(name []byte, at int) {
	r := s.r
	t := &r.tensors.take(1)[0]
	t.Name = r.keep(name)
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
				r.ownAttrs = append(r.ownAttrs, ownAttributes{r.tensors.used - 1, encoded})
			}
		default:
			s.Skip()
		}
		if s.Err != nil {
			s.inObject(t, "."+cutKey(key))
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
func (s *scan2) shape() {
	s.rank = s.Container(cbor.Array)
	for n := s.rank; s.More(&n); {
		if d := s.Uint(); len(s.dims) < maxRank2 {
			s.dims = append(s.dims, d)
		}
	}
}

// partTable reads the parts of an object.
func (s *scan2) partTable(t *tensor.Tensor) {
	n := s.Container(cbor.Map)
	if n == 0 {
		s.Refuse(rule.Schema, s.At, "an object without parts")
	}
	var before []byte
	for s.More(&n) {
		if int64(len(s.parts)+s.r.two.blobs.used) >= s.r.limits.MaxTensors {
			s.Fail(s.P, "%w: more than %d parts", tensor.ErrLimit, s.r.limits.MaxTensors)
			return
		}
		at := s.P
		key, isText := s.Key(&before)
		s.name(at, key, isText, "a part")
		s.parts = append(s.parts, part2{at: at, name: key})
		s.part(&s.parts[len(s.parts)-1])
		s.in(func() string { return partField(t.Name, string(key)) })
	}
}

func partField(object, part string) string {
	return "objects[" + quote.Name(object) + "].parts[" + quote.Name(part) + "]"
}

// part reads the fields of one part.
func (s *scan2) part(p *part2) {
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
			if p.dtype = s.Text(); s.Err == nil && storageType2(p.dtype) == tensor.Unknown {
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
func (s *scan2) digest(text []byte) {
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
	blobs := r.two.blobs.take(len(s.parts))
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
		i := r.two.find(string(p.shard))
		if i < 0 {
			s.Refuse(rule.ShardRef, p.at, "there is no shard %s", quote.Name(string(p.shard)))
			in(".shard")
			return
		}
		b.shard, s.foreign = int32(i+1), true
		end = uint64(r.two.shards[i].size - footer2)
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
			for b := range r.two.blobs.all() {
				if b.shard == shard && !yield(extent{b.offset, b.length}) {
					return
				}
			}
			if shard == 0 {
				yield(extent{r.manifestAt, r.manifestSize})
			}
		}
	}
	used := make([]bool, len(r.two.shards)+1)
	used[0] = true
	for b := range r.two.blobs.all() {
		used[b.shard] = true
	}
	for shard := range used {
		if !used[shard] || disjoint(r.two.blobs.used+1, own(int32(shard))) {
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
