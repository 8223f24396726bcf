package ztensor

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"
	"golang.org/x/text/unicode/norm"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/internal/parallel"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
)

// layout2 writes version 2. In canonical form the order of the tensors in the
// file is that of their names, so Add only keeps them; Close, AddAll and Create
// write what has to come first. Otherwise Add writes.
type layout2 struct {
	canonical bool
	level     int
	align     int64

	kept     []*tensor.Tensor // canonical, or batching: to be written
	batching bool             // addAll is at work, and compresses
	last     string           // canonical: the name that was written last
	begun    bool             // there is one
	objects  []object2
	shards   []cbor.Pair                // names and what the manifest says of them
	others   []cbor.Pair                // other fields of the manifest that is continued
	stored   map[content2][]tensor.Blob // what can be shared, by hash and length
	lengths  map[int64]bool             // of what can be shared
	places   map[content2][]int64       // where those of stored lie
	empty    int64                      // where parts of no bytes lie; 0 is not known yet
	frames   *compressor                // nil before it is needed
	feedBuf  []byte

	own      map[string][]byte         // attributes of tensors: those of the Writer
	profiled map[string]*tensor.Tensor // whose layout has rules for them, once added
}

// content2 is what two blobs have in common that may be the same.
type content2 struct {
	hash   uint64
	length int64
}

// An object2 is an entry of the manifest.
type object2 struct {
	name  string
	whole []byte // all that is said of it, encoded; nil where the following have it
	parts []byte // the map of parts
	rest  []byte // shape and layout
}

// A payload2 is a part that is to be written.
type payload2 struct {
	role   string
	dtype  string
	typ    string // the logical type; "" for none
	check  tensor.DType
	odd    bool // half of the last byte must be zero
	data   tensor.Blob
	err    error // of preparing it
	hash   uint64
	hashed bool
	offset int64
	length int64
	size   int64
}

func newLayout2(o WriterOptions, own map[string][]byte) (layout, error) {
	l := &layout2{
		level: o.Level, align: cmp.Or(o.Alignment, canonical2),
		own: own, profiled: map[string]*tensor.Tensor{}, stored: map[content2][]tensor.Blob{}, places: map[content2][]int64{}, lengths: map[int64]bool{},
	}
	switch {
	case o.Digest != NoDigest && o.Digest != XXH3:
		return nil, fmt.Errorf("ztensor: %w: WriterOptions.Digest %v is for versions 1.0 to 1.2; version 2 has xxh3", errors.ErrUnsupported, o.Digest)
	case l.align < floor2 || l.align&(l.align-1) != 0 || l.align > 1<<30:
		return nil, fmt.Errorf("ztensor: WriterOptions.Alignment is %d, not a power of two from %d to 1 GiB", o.Alignment, floor2)
	}
	if l.canonical = o.Canonical; l.canonical && (o.KeepOrder || l.level > 0 || l.align != canonical2) {
		return nil, errors.New("ztensor: WriterOptions.Canonical excludes KeepOrder, Level and Alignment")
	}
	return l, nil
}

func (l *layout2) magic() string    { return magic2 }
func (l *layout2) alignment() int64 { return l.align }

// appendEntry is not used: add does its own entering.
func (l *layout2) appendEntry(b []byte, t *tensor.Tensor, components []written) ([]byte, int) {
	return b, len(b)
}

// scheme2 is the layout that a Scheme stands for, that of version 1 included.
func scheme2(scheme string) string {
	switch scheme {
	case "":
		return "dense"
	case sparse.CSR:
		return layoutCSR
	case sparse.COO:
		return layoutCOO
	case nameless:
		return ""
	}
	return scheme
}

// check says what of a tensor version 2 cannot hold.
func (l *layout2) check(t *tensor.Tensor) error {
	if err := l.checkName(t.Name, "the name"); err != nil {
		return err
	}
	switch {
	case len(t.Shape) > maxRank2:
		return fmt.Errorf("%w: %d dimensions, version 2 has at most %d", errors.ErrUnsupported, len(t.Shape), maxRank2)
	case t.Dense() && len(t.Parts) > 0:
		return fmt.Errorf("%w: parts beside the data in version 2", errors.ErrUnsupported)
	case !t.Dense() && len(t.Parts) == 0:
		return fmt.Errorf("%w: %s without parts in version 2", errors.ErrUnsupported, quote.Name(t.Scheme))
	case !t.Dense() && t.Data.Size() != 0:
		return fmt.Errorf("%w: data beside the parts in version 2", errors.ErrUnsupported)
	}
	elements := uint64(1)
	for _, d := range t.Shape {
		var ok bool
		if elements, ok = mul(elements, uint64(d)); !ok {
			return fmt.Errorf("%w: the product of %v from the left overflows", errors.ErrUnsupported, t.Shape)
		}
	}
	for i := range t.Parts {
		if err := l.checkName(t.Parts[i].Role, "the name of a part"); err != nil {
			return err
		}
	}
	for _, p := range l.payloads(t) {
		if p.dtype == "" {
			return fmt.Errorf("%w: part %s of %v in version 2", errors.ErrUnsupported, quote.Name(p.role), p.check)
		}
	}
	if t.Dense() || t.Size() < 0 {
		return nil
	}
	return checkLayout(l.as2(t), elements, l.own[t.Name])
}

// checkAttributes holds a tensor that has been added against other attributes.
func (l *layout2) checkAttributes(name string, attributes []byte) error {
	t := l.profiled[name]
	if t == nil {
		return nil
	}
	elements, _ := t.Shape.Elements()
	if err := checkLayout(t, uint64(elements), attributes); err != nil {
		return fmt.Errorf("ztensor: tensor %s: %w", quote.Name(name), err)
	}
	return nil
}

// halfByte reports whether half a byte of a tensor's data means nothing, and must be
// zero.
func halfByte(t *tensor.Tensor) bool {
	n, _ := t.Shape.Elements()
	return t.Dense() && t.DType == tensor.F4E2M1FN && n%2 == 1
}

func (l *layout2) checkName(name, what string) error {
	switch {
	case len(name) == 0 || len(name) > maxName2 || strings.IndexByte(name, 0) >= 0:
		return fmt.Errorf("%w: %s is not one of version 2, which has 1 to %d bytes without NUL", errors.ErrUnsupported, what, maxName2)
	case l.canonical && !norm.NFC.IsNormalString(name):
		return fmt.Errorf("%w: %s %s is not in NFC, as canonical form wants it", errors.ErrUnsupported, what, quote.Name(name))
	}
	return nil
}

// as2 is t in the words of version 2. The indices of version 1, which 1.0 gives
// no type and 1.2 any, are uint64 unless they are uint32.
func (l *layout2) as2(t *tensor.Tensor) *tensor.Tensor {
	if t.Scheme != sparse.CSR && t.Scheme != sparse.COO {
		return t
	}
	as := *t
	as.Scheme = scheme2(t.Scheme)
	as.Parts = slices.Clone(t.Parts)
	wide := false // one of the indices is of a type that version 2 does not have for them, or of another than the rest
	var first tensor.DType
	for i := range as.Parts {
		p := &as.Parts[i]
		index := slices.Contains(indexRoles, p.Role)
		if p.DType == tensor.Unknown && index {
			p.DType = tensor.U64
		} else if p.DType == tensor.Unknown && p.Role == "values" {
			p.DType = t.DType
		}
		if index {
			first = cmp.Or(first, p.DType)
			wide = wide || p.DType != first || p.DType != tensor.U32 && p.DType != tensor.U64
		}
	}
	for i := range as.Parts {
		if p := &as.Parts[i]; wide && slices.Contains(indexRoles, p.Role) {
			*p = sparse.Widen(context.Background(), *p)
		}
	}
	return &as
}

// payloads lists the parts in the order in which they lie in the file.
func (l *layout2) payloads(t *tensor.Tensor) []payload2 {
	one := func(role string, d tensor.DType, data tensor.Blob) payload2 {
		p := payload2{role: role, check: d, data: data}
		if p.dtype, p.typ = typeWords2(d); d == tensor.Unknown {
			if b, ok := data.Source().(*blob); ok && b.more != nil && b.more.logical != "" { // nobody's, and not ours to drop
				p.dtype, _ = typeWords2(b.more.storage)
				p.typ = b.more.logical
			}
		}
		return p
	}
	if t.Dense() {
		p := one("data", t.DType, t.Data)
		p.odd = halfByte(t)
		return []payload2{p}
	}
	t = l.as2(t)
	all := make([]payload2, len(t.Parts))
	for i, p := range t.Parts {
		all[i] = one(p.Role, p.DType, p.Data)
	}
	slices.SortFunc(all, func(a, b payload2) int { return strings.Compare(a.role, b.role) })
	return all
}

// add takes a tensor that has been checked: keeps it, or writes it.
func (l *layout2) add(ctx context.Context, w *Writer, t *tensor.Tensor) error {
	t, err := measured(ctx, t)
	if err == nil {
		err = w.check(t)
	}
	if err != nil {
		return err
	}
	if as := l.as2(t); as.Scheme == layoutCSR || as.Scheme == layoutCOO {
		if err := checkData2(ctx, as); err != nil {
			return sparseError(t, err)
		}
	}
	if hasProfile(t.Scheme) {
		l.profiled[t.Name] = t
	}
	if l.canonical {
		if l.begun && t.Name <= l.last {
			return fmt.Errorf("ztensor: tensor %s: %w: in canonical form it belongs before %s, which has been written (WriterOptions.KeepOrder)",
				quote.Name(t.Name), errors.ErrUnsupported, quote.Name(l.last))
		}
		w.names[t.Name] = true
		l.kept = append(l.kept, fix(t))
		return nil
	}
	w.names[t.Name] = true
	if l.batching {
		l.kept = append(l.kept, fix(t))
		return nil
	}
	return l.write(ctx, w, []*tensor.Tensor{t})
}

// measured is t with parts whose size is known, which takes decoding the others.
func measured(ctx context.Context, t *tensor.Tensor) (*tensor.Tensor, error) {
	if t == nil || t.Dense() || t.Size() >= 0 {
		return t, nil
	}
	as := *t
	as.Parts = slices.Clone(t.Parts)
	for i := range as.Parts {
		p := &as.Parts[i]
		if p.Data.Size() >= 0 {
			continue
		}
		n, err := decodedSize(ctx, p.Data)
		if err != nil {
			return nil, err
		}
		p.Data = tensor.BlobFunc(n, p.Data.Open)
	}
	return &as, nil
}

// lineSize is about how many bytes of tensors go through one line of encoders, which would stand still in part between one and the next.
const lineSize = 64 << 20

// addAll adds tensors and writes all that are kept.
func (l *layout2) addAll(ctx context.Context, w *Writer, ts iter.Seq2[*tensor.Tensor, error]) error {
	flush := func() error {
		batch := l.kept
		l.kept = nil
		return l.write(ctx, w, batch)
	}
	l.batching = !l.canonical && l.level > 0
	defer func() { l.batching = false }()
	size := int64(0)
	for t, err := range ts {
		if err = cmp.Or(err, ctx.Err()); err == nil {
			err = l.add(ctx, w, t)
		}
		if err != nil {
			if l.batching && w.err == nil {
				flush() // what was added before it
			}
			return err
		}
		if size += max(0, t.Size()); l.batching && size >= lineSize {
			if err := flush(); err != nil {
				return err
			}
			size = 0
		}
	}
	return flush()
}

// flushBefore writes the kept tensors whose names come before that one, "" for
// all.
func (l *layout2) flushBefore(ctx context.Context, w *Writer, name string) error {
	var now, later []*tensor.Tensor
	for _, t := range l.kept {
		if name == "" || t.Name < name {
			now = append(now, t)
		} else {
			later = append(later, t)
		}
	}
	l.kept = later
	return l.write(ctx, w, now)
}

// write writes tensors, in canonical form in the order of their names. What is
// in memory is hashed on another core, a few parts ahead.
func (l *layout2) write(ctx context.Context, w *Writer, ts []*tensor.Tensor) error {
	if l.canonical {
		slices.SortFunc(ts, func(a, b *tensor.Tensor) int { return strings.Compare(a.Name, b.Name) })
	}
	if l.level > 0 {
		return l.writeFrames(ctx, w, ts)
	}
	if f, ok := w.file.(*atomicfile.File); ok && len(ts) > 1 {
		f.Reserve(l.end(w.off, ts))
	}
	line := parallel.New(ctx, 0, prepare2, func(j *job2) error { return l.writeJob(ctx, w, j) })
	defer line.Close()
	for len(ts) > 0 {
		n := 0
		for size := int64(0); n < len(ts) && size < jobSize; n++ {
			size += max(ts[n].Size(), 1<<10)
		}
		j := &job2{ts: ts[:n], parts: make([][]payload2, n)}
		for i, t := range j.ts {
			j.parts[i] = l.payloads(t)
		}
		if err := line.Put(j, 0); err != nil {
			return w.fail(err)
		}
		ts = ts[n:]
	}
	return w.fail(line.Flush())
}

// A job2 is tensors whose parts are hashed, where they are in memory, before they are written.
type job2 struct {
	ts    []*tensor.Tensor
	parts [][]payload2
}

func prepare2(ctx context.Context, j *job2) error {
	for i := range j.parts {
		for k := range j.parts[i] {
			p := &j.parts[i][k]
			if p.err = p.prepare(ctx); p.err != nil {
				return nil // in its turn
			}
		}
	}
	return nil
}

func (l *layout2) writeJob(ctx context.Context, w *Writer, j *job2) error {
	for i, t := range j.ts {
		for k := range j.parts[i] {
			p := &j.parts[i][k]
			if err := ctx.Err(); err != nil {
				return err
			}
			if p.err == nil {
				p.err = l.part(ctx, w, t, p)
			}
			if p.err != nil {
				return w.broken(t, p.role, p.err)
			}
		}
		l.enter(t, j.parts[i])
	}
	return nil
}

// end is where the file will be when these tensors have been written, as far as
// their sizes tell.
func (l *layout2) end(off int64, ts []*tensor.Tensor) int64 {
	for _, t := range ts {
		up, ok := align.Up(off, l.align)
		size := max(0, t.Size())
		if !ok || size > math.MaxInt64-up {
			return 0
		}
		off = up + size
	}
	return off
}

// hashOf is the XXH3 of b. What comes in pieces the Hasher copies, but for the first: they are large, but not so large that ctx would wait.
func hashOf(ctx context.Context, b []byte) (uint64, error) {
	const piece = 512 << 20
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if len(b) <= piece {
		return xxh3.Hash(b), nil
	}
	h := xxh3.New()
	for ; len(b) > 0; b = b[min(piece, len(b)):] {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		h.Write(b[:min(piece, len(b))])
	}
	return h.Sum64(), nil
}

// prepare hashes what is in memory.
func (p *payload2) prepare(ctx context.Context) error {
	b, ok := p.data.Memory()
	if !ok {
		return nil
	}
	hash, err := hashOf(ctx, b)
	if err != nil {
		return err
	}
	if f, ok := p.data.Source().(*fixed); ok {
		if err := f.check(hash); err != nil {
			return err
		}
	}
	p.hash, p.hashed, p.size = hash, true, int64(len(b))
	if p.odd && len(b) > 0 {
		return oddNibble(b[len(b)-1], 1)
	}
	if p.check == tensor.Bool {
		return isBools(b)
	}
	return nil
}

// part stores one part: shares what is there already, or writes it.
func (l *layout2) part(ctx context.Context, w *Writer, t *tensor.Tensor, p *payload2) error {
	shared, err := l.shared(ctx, p, &w.buf)
	if err != nil || shared {
		return err
	}
	size := p.data.Size()
	if size == 0 {
		return l.nothing(w, p)
	}
	if err := w.pad(l.align); err != nil {
		return err
	}
	p.offset = w.off
	if b, ok := p.data.Memory(); ok {
		if !p.hashed {
			if err := p.prepare(ctx); err != nil {
				return err
			}
		}
		for rest := b; len(rest) > 0; {
			if err := ctx.Err(); err != nil {
				return err
			}
			n := min(len(rest), pieceSize)
			if err := w.write(rest[:n]); err != nil {
				return err
			}
			rest = rest[n:]
		}
	} else {
		s := l.sink(w)
		f := feed{out: s, dtype: p.check, odd: p.odd}
		if err := f.from(ctx, p.data, &w.buf); err != nil {
			return err
		}
		p.hash, p.hashed, p.size = s.h.xxh.Sum64(), true, s.n
	}
	p.length = p.size
	if p.size == 0 {
		return l.nothing(w, p)
	}
	if l.canonical { // else the data may be gone when it is to be compared
		l.keep(p, p.data)
	}
	return nil
}

func (l *layout2) sink(w *Writer) *sink {
	return &sink{w: writerFunc(func(p []byte) (int, error) {
		if err := w.write(p); err != nil {
			return 0, err
		}
		return len(p), nil
	}), h: newHasher(XXH3)}
}

// nothing places a part of no bytes: where the next blob will begin, and all of
// them at the same place.
func (l *layout2) nothing(w *Writer, p *payload2) error {
	if l.empty == 0 {
		at, ok := align.Up(w.off, l.align)
		if !ok {
			return fmt.Errorf("%w: a file beyond 2^63 bytes", tensor.ErrLimit)
		}
		l.empty = at
	}
	p.offset, p.length, p.size, p.hash = l.empty, 0, 0, xxh3.Hash(nil)
	return nil
}

// keep remembers a blob that later ones may share.
func (l *layout2) keep(p *payload2, data tensor.Blob) {
	key := content2{p.hash, p.size}
	l.stored[key] = append(l.stored[key], data)
	l.places[key] = append(l.places[key], p.offset)
	l.lengths[p.size] = true
}

// shared looks for the same bytes among what has been written. A hash alone is
// no proof: they are compared.
func (l *layout2) shared(ctx context.Context, p *payload2, buf *[]byte) (bool, error) {
	size := p.data.Size()
	if size <= 0 || !l.lengths[size] {
		return false, nil
	}
	if !p.hashed {
		if b, ok := p.data.Source().(*blob); ok && b.hasHash {
			if _, there := l.stored[content2{b.hash, size}]; !there {
				return false, nil // its file says what its hash is
			}
		}
		h := xxh3.New()
		if err := (&feed{out: h}).from(ctx, p.data, buf); err != nil {
			return false, err
		}
		p.hash, p.hashed, p.size = h.Sum64(), true, size
	}
	key := content2{p.hash, size}
	for i, other := range l.stored[key] {
		if other.Size() != size { // what was streamed is not there to be compared
			return false, fmt.Errorf("%w: its bytes seem to be those of a tensor that was written piece by piece, and cannot be compared", errors.ErrUnsupported)
		}
		same, err := sameBytes(ctx, other, p.data)
		if err == nil && !same {
			err = unchanged(other)
		}
		if err != nil {
			return false, err
		}
		if same {
			p.offset, p.length, p.size = l.places[key][i], size, size
			return true, nil
		}
	}
	return false, nil
}

// enter encodes what the manifest says of a tensor.
func (l *layout2) enter(t *tensor.Tensor, parts []payload2) {
	slices.SortFunc(parts, func(a, b payload2) int { return byLength(a.role, b.role) })
	b := cbor.AppendHead(nil, cbor.Map, uint64(len(parts)))
	for _, p := range parts {
		fields := uint64(3)
		if p.typ != "" {
			fields++
		}
		if l.level > 0 {
			fields += 2
		}
		b = cbor.AppendHead(cbor.AppendText(b, p.role), cbor.Map, fields)
		b = cbor.AppendHead(cbor.AppendText(b, "blob"), cbor.Array, 2)
		b = cbor.AppendHead(cbor.AppendHead(b, cbor.Uint, uint64(p.offset)), cbor.Uint, uint64(p.length))
		if p.typ != "" {
			b = cbor.AppendText(cbor.AppendText(b, "type"), p.typ)
		}
		b = cbor.AppendText(cbor.AppendText(b, "dtype"), p.dtype)
		b = cbor.AppendText(cbor.AppendText(b, "digest"), fmt.Sprintf("%s%016x", prefixXXH3, p.hash))
		if l.level > 0 {
			b = cbor.AppendText(cbor.AppendText(b, "encoding"), seekable)
			b = cbor.AppendHead(cbor.AppendText(b, "decoded_length"), cbor.Uint, uint64(p.size))
		}
	}
	o := object2{name: t.Name, parts: b}
	o.rest = cbor.AppendText(cbor.AppendText(appendShape(nil, t.Shape), "layout"), scheme2(t.Scheme))
	l.objects = append(l.objects, o)
	l.last, l.begun = t.Name, true
}

// byLength is the order of CBOR's keys: shorter text first.
func byLength(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) }

// create begins a dense tensor that comes piece by piece.
func (l *layout2) create(w *Writer, t *tensor.Tensor, size int64) (io.WriteCloser, error) {
	if l.canonical {
		if l.begun && t.Name <= l.last {
			return nil, fmt.Errorf("ztensor: tensor %s: %w: in canonical form it belongs before %s, which has been written", quote.Name(t.Name), errors.ErrUnsupported, quote.Name(l.last))
		}
		if err := l.flushBefore(context.Background(), w, t.Name); err != nil {
			return nil, err
		}
	}
	w.names[t.Name] = true
	p := &part{w: w, t: t, want: size, two: l}
	if l.level > 0 {
		var err error
		if p.frames, err = l.frameSink(w); err != nil {
			return nil, w.fail(err)
		}
		p.feed = feed{out: p.frames, dtype: t.DType, odd: halfByte(t)}
	} else {
		if err := w.pad(l.align); size > 0 && err != nil {
			return nil, err
		}
		p.c.offset = w.off
		p.sink = l.sink(w)
		p.feed = feed{out: p.sink, dtype: t.DType, odd: halfByte(t)}
	}
	w.part = p
	return p, nil
}

// created enters a tensor that came piece by piece.
func (l *layout2) created(p *part) error {
	if err := p.feed.end(); err != nil {
		return err
	}
	all := l.payloads(p.t)
	one := &all[0]
	if p.frames != nil {
		return p.frames.end(one, func() { l.enter(p.t, all) })
	}
	one.hash, one.size, one.length, one.offset = p.sink.h.xxh.Sum64(), p.sink.n, p.sink.n, p.c.offset
	if one.size == 0 {
		if err := l.nothing(p.w, one); err != nil {
			return err
		}
		l.enter(p.t, all)
		return nil
	}
	if l.canonical && len(l.stored[content2{one.hash, one.size}]) > 0 {
		return fmt.Errorf("%w: its bytes seem to be those of another tensor, which in canonical form it would have to share: add it in one piece", errors.ErrUnsupported)
	}
	if l.canonical {
		l.keep(one, tensor.BlobFunc(-1, nil))
	}
	l.enter(p.t, all)
	return nil
}

// finish writes the manifest and the footer.
func (l *layout2) finish(w *Writer) error {
	if err := l.flushBefore(context.Background(), w, ""); err != nil {
		return err
	}
	b := l.manifest(w)
	if len(b) > maxManifest2 {
		return fmt.Errorf("ztensor: %w: a manifest of %d bytes, readers take 1 GiB", tensor.ErrLimit, len(b))
	}
	w.pad(l.align)
	at := w.off
	w.writePieces(b)
	if e, ok := w.file.(*atomicfile.Extension); ok && w.err == nil {
		// The footer makes a file of what was appended: it must not reach the
		// disk before that.
		w.fail(e.Sync())
	}
	f := binary.LittleEndian.AppendUint64(nil, uint64(at))
	f = binary.LittleEndian.AppendUint64(f, uint64(len(b)))
	f = binary.LittleEndian.AppendUint64(f, xxh3.Hash(b))
	f = binary.LittleEndian.AppendUint32(f, 2)
	f = binary.LittleEndian.AppendUint32(f, 0)
	return w.write(append(f, magic2...))
}

// manifest encodes what has been written, and what was there before.
func (l *layout2) manifest(w *Writer) []byte {
	size := 64
	slices.SortFunc(l.objects, func(a, b object2) int { return byLength(a.name, b.name) })
	for _, o := range l.objects {
		size += len(o.name) + len(o.whole) + len(o.parts) + len(o.rest) + len(w.own[o.name]) + 32
	}
	b := cbor.AppendHead(make([]byte, 0, size), cbor.Map, uint64(len(l.objects)))
	for _, o := range l.objects {
		b = cbor.AppendText(b, o.name)
		if o.whole != nil {
			b = append(b, o.whole...)
			continue
		}
		own := w.own[o.name]
		fields := uint64(3)
		if own != nil {
			fields++
		}
		b = cbor.AppendHead(b, cbor.Map, fields)
		b = append(cbor.AppendText(b, "parts"), o.parts...)
		b = append(b, o.rest...)
		if own != nil {
			b = append(cbor.AppendText(b, "attributes"), own...)
		}
	}
	root := append(l.others[:len(l.others):len(l.others)], cbor.Pair{Key: cbor.AppendText(nil, "objects"), Value: b})
	if len(l.shards) > 0 {
		root = append(root, cbor.Pair{Key: cbor.AppendText(nil, "shards"), Value: cbor.AppendPairs(nil, l.shards)})
	}
	if w.attributes != nil {
		root = append(root, cbor.Pair{Key: cbor.AppendText(nil, "attributes"), Value: w.attributes})
	}
	return cbor.AppendPairs(nil, root)
}

// decodedSize reads all of b, and returns how much that is.
func decodedSize(ctx context.Context, b tensor.Blob) (int64, error) {
	f := feed{out: io.Discard}
	var buf []byte
	err := f.from(ctx, b, &buf)
	return f.n, err
}
