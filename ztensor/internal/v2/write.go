package v2

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"slices"
	"sort"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
	"github.com/tensorfile/tensorfile/ztensor/internal/layouts"
)

// A keptTensor waits for its turn in canonical form.
type keptTensor struct {
	*tensor.Tensor
	memory format.Checksums
}

// Add writes tensors; in canonical form it keeps them, and writes all that are kept only
// if these are all of a call of AddAll.
func (l *Layout) Add(ctx context.Context, w *core.Writer, ts iter.Seq2[*tensor.Tensor, error],
	all bool) error {
	if !l.canonical {
		return w.Pipe(ctx, ts, all)
	}
	for t, err := range ts {
		if err = cmp.Or(err, ctx.Err()); err == nil {
			t, err = l.take(ctx, w, t)
		}
		if err != nil {
			return err
		}
		k := keptTensor{Tensor: t}
		k.memory.AddTensor(t)
		l.kept = append(l.kept, k)
	}
	if !all {
		return nil
	}
	return l.flush(ctx, w, "")
}

// take checks a tensor and takes its name.
func (l *Layout) take(ctx context.Context, w *core.Writer,
	t *tensor.Tensor) (*tensor.Tensor, error) {
	t, err := core.Measured(ctx, t)
	if err == nil {
		err = w.CheckTensor(t)
	}
	if err != nil {
		return nil, err
	}
	if as := l.normalize(t); as.Scheme == layouts.CSR || as.Scheme == layouts.COO {
		if err := layouts.CheckData(ctx, as); err != nil {
			return nil, core.OfTensor(t.Name, err)
		}
	}
	if l.canonical && l.begun && t.Name <= l.last {
		return nil, core.OfTensor(t.Name, core.Unsupported("in canonical form it belongs before "+
			"%s, which has been written (WriterOptions.KeepOrder)", naming.Quote(l.last)))
	}
	if layouts.HasAttributes(t.Scheme) {
		l.profiled[t.Name] = t
	}
	w.Names[t.Name] = true
	return t, nil
}

// Plan lists the pieces of a tensor, which canonical form has checked when it kept it.
func (l *Layout) Plan(ctx context.Context, w *core.Writer,
	t *tensor.Tensor) (*tensor.Tensor, []core.Piece, error) {
	if !l.canonical {
		var err error
		if t, err = l.take(ctx, w, t); err != nil {
			return nil, nil, err
		}
	}
	all := l.payloads(t)
	for i := range all {
		all[i].Plan(l.level > 0, maxPrepared)
	}
	return t, all, nil
}

// Create writes the kept tensors that canonical form has before this one.
func (l *Layout) Create(ctx context.Context, w *core.Writer, t *tensor.Tensor) ([]core.Piece,
	error) {
	t, err := l.take(ctx, w, t)
	if err == nil && l.canonical {
		err = l.flush(ctx, w, t.Name)
	}
	if err != nil {
		return nil, err
	}
	return l.payloads(t), nil
}

// Prepare hashes and compresses a part in memory.
func (l *Layout) Prepare(ctx context.Context, w *core.Writer, p *core.Piece) error {
	all, err := p.Load(ctx)
	if err != nil {
		return err
	}
	p.Stored, p.Digest = all, core.DigestOf(core.XXH3, all)
	if l.level > 0 {
		p.Stored = encodeFrames(l.frames, all)
	}
	return nil
}

// flush writes the kept tensors, those whose names come before that one if it is not
// empty.
func (l *Layout) flush(ctx context.Context, w *core.Writer, before string) error {
	now := slices.Clone(l.kept)
	if before != "" {
		now = slices.DeleteFunc(now, func(k keptTensor) bool { return k.Name >= before })
		l.kept = slices.DeleteFunc(l.kept, func(k keptTensor) bool { return k.Name < before })
	} else {
		l.kept = nil
	}
	sort.Slice(now, func(i, j int) bool { return now[i].Name < now[j].Name })
	all := make([]*tensor.Tensor, len(now))
	for i := range now {
		if err := w.Unchanged(&now[i].memory); err != nil {
			return err
		}
		all[i] = now[i].Tensor
	}
	if f, ok := w.File.(*atomicfile.File); ok && len(now) > 1 {
		f.Reserve(l.end(w.Off, all))
	}
	return w.Pipe(ctx, tensor.Of(all...), false)
}

// end returns about where the file will end when these tensors have been written.
func (l *Layout) end(off int64, ts []*tensor.Tensor) int64 {
	for _, t := range ts {
		var ok bool
		if off, ok = align.Add(off+align.Padding(off, l.align), max(0, t.Size())); !ok {
			return 0
		}
	}
	return off
}

// Place shares what is there already, or begins a part where one may.
func (l *Layout) Place(ctx context.Context, w *core.Writer, p *core.Piece) (bool, error) {
	p.Before = w.Off
	if shared, err := l.shared(ctx, w, p); shared || err != nil {
		return shared, err
	}
	if p.Data.Size() == 0 && l.level == 0 { // all of them are at the same place
		at, ok := align.Up(w.Off, l.align)
		if !ok {
			return false, core.Limited("a file beyond 2^63 bytes")
		}
		l.empty = cmp.Or(l.empty, at)
		p.Offset = l.empty
		return false, nil
	}
	err := w.Pad(l.align)
	p.Offset = w.Off
	return false, err
}

func (l *Layout) Sink(ctx context.Context, w *core.Writer, p *core.Piece) (io.WriteCloser,
	error) {
	if l.level > 0 {
		return &framer{ctx: ctx, l: l, w: w, p: p, hash: xxh3.New()}, nil
	}
	return w.Sink(p, core.XXH3), nil
}

// Written remembers the bytes of a part, which later ones may share. In a file it shares
// those of an earlier part, and takes back what was written. Without canonical form the
// data may be gone when it is to be compared.
func (l *Layout) Written(ctx context.Context, w *core.Writer, p *core.Piece) error {
	if !l.canonical || p.Size == 0 {
		return nil
	}
	if len(l.stored[content{p.Digest, p.Size}]) > 0 {
		file, ok := w.File.(core.Rewinder)
		if !ok && p.Streamed {
			return core.Unsupported(
				"its bytes seem to be those of another tensor, which in canonical form it " +
					"would have to share: add it in one piece")
		}
		if ok {
			shared, err := l.share(ctx, w, p, writtenBytes(file, p))
			if err == nil && shared {
				w.Off, err = p.Before, file.Truncate(p.Before)
			}
			if shared || err != nil {
				return err
			}
		}
	}
	l.keep(p)
	return nil
}

// writtenBytes are the bytes of a part that is in the file.
func writtenBytes(file io.ReaderAt, p *core.Piece) tensor.Blob {
	off, n := p.Offset, p.Length
	return tensor.BlobFunc(n, func() (io.ReadCloser, error) {
		return io.NopCloser(io.NewSectionReader(file, off, n)), nil
	})
}

// keep remembers a part that later ones may share.
func (l *Layout) keep(p *core.Piece) {
	key := content{p.Digest, p.Size}
	l.stored[key] = append(l.stored[key], *p)
	l.lengths[p.Size] = true
}

// shared looks for the same bytes among what has been written, before a part is. Where
// that takes reading data that is computed, or read, once more, it is left to Written if
// what was written can be taken back.
func (l *Layout) shared(ctx context.Context, w *core.Writer, p *core.Piece) (bool, error) {
	size := p.Data.Size()
	if size <= 0 || !l.lengths[size] || l.level > 0 || p.Streamed {
		return false, nil
	}
	if p.Digest == "" {
		if b, ok := p.Data.Source().(*core.Payload); ok && b.HasXXH3() &&
			len(l.stored[content{b.Digest, size}]) == 0 {
			return false, nil // its file says what its hash is
		}
		if _, ok := w.File.(core.Rewinder); ok && l.canonical {
			return false, nil
		}
		h := xxh3.New()
		if err := p.Feed(ctx, h); err != nil {
			return false, err
		}
		p.Digest = core.DigestText(core.XXH3, h)
	}
	data := p.Data
	if p.Stored != nil {
		data = tensor.BlobOf(p.Stored)
	}
	return l.share(ctx, w, p, data)
}

// share makes p a part that has been written, if that has the same data. A hash alone is
// no proof: the bytes are compared.
func (l *Layout) share(ctx context.Context, w *core.Writer, p *core.Piece,
	data tensor.Blob) (bool, error) {
	file, inFile := w.File.(core.Rewinder)
	for _, other := range l.stored[content{p.Digest, data.Size()}] {
		before := other.Data
		if inFile {
			before = writtenBytes(file, &other)
		} else if other.Streamed {
			return false, core.Unsupported(
				"its bytes seem to be those of a tensor " +
					"that was written piece by piece, and cannot be compared")
		}
		same, err := format.SameBytes(ctx, before, data)
		if err == nil && !same {
			err = stillHas(before, p.Digest)
		}
		if err != nil {
			return false, err
		}
		if same {
			p.Offset, p.Length, p.Size = other.Offset, data.Size(), data.Size()
			return true, nil
		}
	}
	return false, nil
}

// stillHas fails where the bytes of b are no longer those of the digest.
func stillHas(b tensor.Blob, digest string) error {
	h := xxh3.New()
	_, err := b.WriteTo(h)
	if err == nil && core.DigestText(core.XXH3, h) != digest {
		err = fmt.Errorf("%w: it has the bytes of a tensor whose memory has changed since",
			tensor.ErrChecksum)
	}
	return err
}

// Enter encodes what the manifest says of a tensor.
func (l *Layout) Enter(t *tensor.Tensor, parts []core.Piece) error {
	sort.Slice(parts, func(i, j int) bool { return byLength(parts[i].Role, parts[j].Role) < 0 })
	var object cbor.Builder
	object.Head("parts", cbor.Map, uint64(len(parts)))
	for _, p := range parts {
		var m cbor.Builder
		m.Add("blob", appendBlob(nil, p.Offset, p.Length))
		if p.Type != "" {
			m.Text("type", p.Type)
		}
		m.Text("dtype", p.Word)
		m.Text("digest", p.Digest)
		if l.level > 0 {
			m.Text("encoding", Seekable)
			m.Head("decoded_length", cbor.Uint, uint64(p.Size))
		}
		object.B = m.AppendTo(cbor.AppendText(object.B, p.Role))
	}
	object.Shape(t.Shape)
	object.Text("layout", layoutName(t.Scheme))
	l.objects = append(l.objects, entry{t.Name, object})
	l.last, l.begun = t.Name, true
	return nil
}

// adopt enters an object that is encoded.
func (l *Layout) adopt(name string, object []byte) {
	l.objects = append(l.objects, entry{name, cbor.Opened(object)})
}

// byLength is the order of CBOR's keys: shorter text first.
func byLength(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) }

// Finish writes the manifest and the footer.
func (l *Layout) Finish(w *core.Writer) error {
	if err := l.flush(context.Background(), w, ""); err != nil {
		return err
	}
	b := l.manifest(w)
	if len(b) > maxManifest {
		return fmt.Errorf("ztensor: %w: a manifest of %d bytes, readers take 1 GiB",
			tensor.ErrLimit, len(b))
	}
	w.Pad(l.align)
	at := w.Off
	w.Write(b)
	if e, ok := w.File.(*atomicfile.Extension); ok && w.Err == nil {
		// The footer makes a file of what was appended: it must not reach the
		// disk before that.
		w.Fail(e.Sync())
	}
	f := binary.LittleEndian.AppendUint64(nil, uint64(at))
	f = binary.LittleEndian.AppendUint64(f, uint64(len(b)))
	f = binary.LittleEndian.AppendUint64(f, xxh3.Hash(b))
	f = binary.LittleEndian.AppendUint32(f, 2)
	f = binary.LittleEndian.AppendUint32(f, 0)
	return w.Write(append(f, core.Magic2...))
}

// manifest encodes what has been written, and what was there before.
func (l *Layout) manifest(w *core.Writer) []byte {
	size := 64
	sort.Slice(l.objects,
		func(i, j int) bool { return byLength(l.objects[i].name, l.objects[j].name) < 0 })
	for _, o := range l.objects {
		size += len(o.name) + len(o.body.B) + len(w.Own[o.name]) + 32
	}
	b := cbor.AppendHead(make([]byte, 0, size), cbor.Map, uint64(len(l.objects)))
	for _, o := range l.objects {
		own := w.Own[o.name]
		if own != nil {
			o.body.N++
		}
		b = o.body.AppendTo(cbor.AppendText(b, o.name))
		if own != nil {
			b = append(cbor.AppendText(b, "attributes"), own...)
		}
	}
	root := slices.Clone(l.others)
	root = append(root, cbor.PairOf("objects", b))
	if len(l.shards) > 0 {
		root = append(root, cbor.PairOf("shards", cbor.AppendPairs(nil, l.shards, true)))
	}
	if w.Attributes != nil {
		root = append(root, cbor.PairOf("attributes", w.Attributes))
	}
	return cbor.AppendPairs(nil, root, true)
}
