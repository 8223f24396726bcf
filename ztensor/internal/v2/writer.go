package v2

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/xxh3"
	"golang.org/x/text/unicode/norm"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
	"github.com/tensorfile/tensorfile/ztensor/internal/digest"
	"github.com/tensorfile/tensorfile/ztensor/internal/layouts"
)

// A Writer writes version 2: parts as tensors are added, the manifest by Close. In
// canonical form the order of the tensors in the file is the order of their names, so
// that Add only keeps them; AddAll, Close and Create write what has to come first.
type Writer struct {
	core.Writer[item]
	canonical bool
	level     int
	align     int64

	attributes []byte                    // of the file, a CBOR map; nil: none
	own        map[string][]byte         // of tensors, by name
	profiled   map[string]*tensor.Tensor // whose layout has rules for them, once added
	taken      map[string]bool           // tensors that are taken over, with their attributes

	ready   *item // that is prepared
	out     *core.Out
	err     error   // of writing what was kept; final
	kept    []*item // to be written in canonical form
	last    string  // canonical: the name that was written last
	begun   bool    // there is one
	objects []entry
	shards  []cbor.Pair // names and what the manifest says of them
	edition *core.Edition
	others  []cbor.Pair // other fields of the manifest that is continued

	written map[content][]part // what can be shared
	lengths map[int64]bool     // of what can be shared
	empty   int64              // where parts of no bytes are; 0 is not known yet
	frames  *zstd.Encoder      // nil: nothing is compressed
	group   []byte             // that is to be compressed, of the part that is streamed
	used    [][]byte           // memory for compressed frames
}

// content is what two blobs have in common that may be the same.
type content struct {
	digest string
	length int64
}

// An entry is what the manifest says of a tensor.
type entry struct {
	name   string
	object []byte // encoded; nil: described is
	described
}

// described is what the manifest says of a tensor, and described parts are what it says
// of a part, with their keys in the order of deterministic CBOR.
type described struct {
	Parts      cbor.Item `cbor:"parts"`
	Shape      []int64   `cbor:"shape"`
	Layout     string    `cbor:"layout"`
	Attributes cbor.Item `cbor:"attributes,omitempty"`
}

type describedPart struct {
	Blob          *[2]int64 `cbor:"blob,omitempty"`
	Type          string    `cbor:"type,omitempty"`
	DType         string    `cbor:"dtype"`
	Digest        string    `cbor:"digest"`
	Encoding      string    `cbor:"encoding,omitempty"`
	DecodedLength *int64    `cbor:"decoded_length,omitempty"`
}

// An item is a tensor that is to be written, or one that is in a file already.
type item struct {
	w        *Writer
	t        *tensor.Tensor
	parts    []part // in the order of the file
	examined bool
	memory   format.Checksums

	name   string // of one that is taken over
	object []byte // of one whose data stays where it is
	kept   bool   // t is of the original of an edition
}

// A part is one that is to be written, or has been.
type part struct {
	role          string
	word, logical string // the storage type, and the logical one if it needs it
	check         core.Check
	data          tensor.Blob
	streamed      bool  // its data comes piece by piece, and cannot be read again
	early         bool  // it is prepared in memory
	memory        int64 // that this takes
	stored        []byte
	err           error // of preparing

	digest string
	before int64 // the end of the file before the padding of the part
	offset int64
	length int64 // stored
	size   int64 // decoded
}

// NewWriter returns a Writer to out, which it completes if owned is set: a format.Target.
func NewWriter(out io.Writer, owned bool, o core.Settings) *Writer {
	w := &Writer{canonical: o.Canonical, level: o.Level,
		align:    cmp.Or(o.Alignment, CanonicalAlignment),
		own:      map[string][]byte{},
		profiled: map[string]*tensor.Tensor{}, taken: map[string]bool{},
		written: map[content][]part{}, lengths: map[int64]bool{}}
	err := cmp.Or(o.Err, w.configure(o))
	w.Writer = core.NewWriter(out, owned, &format.Encoding[item]{Format: core.Errs, Err: err,
		Progress: o.Progress, Item: w.item, Check: w.checkItem, Examine: w.examine,
		Append: w.append, Encode: w.encode})
	return w
}

func (w *Writer) configure(o core.Settings) (err error) {
	switch {
	case w.align < MinAlignment || w.align&(w.align-1) != 0 || w.align > 1<<30:
		return core.Errs.New(fs.ErrInvalid, "WriterOptions.Alignment is %d, not a power of two "+
			"from %d to 1 GiB", o.Alignment, MinAlignment)
	case w.canonical && (o.KeepOrder || w.level > 0 || w.align != CanonicalAlignment):
		return core.Errs.New(fs.ErrInvalid, "WriterOptions.Canonical excludes KeepOrder, Level "+
			"and Alignment")
	}
	if w.level > 0 {
		w.frames, err = core.NewEncoder(w.level, zstd.WithEncoderConcurrency(0),
			zstd.WithWindowSize(frameSize))
	}
	if err == nil && len(o.Attributes) > 0 {
		w.attributes, err = w.encodeAttributes(o.Attributes, 2)
	}
	return err
}

// layoutName returns the layout of a file that a Scheme stands for.
func layoutName(scheme string) string {
	switch scheme {
	case "":
		return "dense"
	case nameless:
		return ""
	}
	return scheme
}

// item returns what the file has of a tensor.
func (w *Writer) item(t *tensor.Tensor) (item, error) {
	if r := w.ready; r != nil && r.t == t {
		w.ready = nil
		return *r, nil
	}
	it := item{w: w, t: t}
	err := core.CheckContent(t)
	if err == nil {
		err = w.checkTensor(t)
	}
	if err == nil {
		it.parts, err = w.partsOf(t)
	}
	if err == nil && !t.Dense() && t.Size() >= 0 {
		elements, _ := t.Shape.Elements()
		err = layouts.Check(layouts.Normalized(t), uint64(elements), w.own[t.Name])
	}
	if err != nil {
		return it, core.OfTensor(t.Name, err)
	}
	return it, nil
}

// checkTensor returns what of a tensor version 2 cannot represent, whatever its dtypes.
func (w *Writer) checkTensor(t *tensor.Tensor) error {
	switch {
	case len(t.Shape) > maxRank:
		return fmt.Errorf("%w: %d dimensions, version 2 has at most %d", errors.ErrUnsupported,
			len(t.Shape), maxRank)
	case t.Dense() && len(t.Parts) > 0:
		return fmt.Errorf("%w: parts in addition to the data in version 2", errors.ErrUnsupported)
	case !t.Dense() && len(t.Parts) == 0:
		return fmt.Errorf("%w: %s without parts in version 2", errors.ErrUnsupported,
			naming.Quote(t.Scheme))
	case !t.Dense() && t.Data.Size() != 0:
		return fmt.Errorf("%w: data in addition to the parts in version 2", errors.ErrUnsupported)
	}
	for i := range t.Parts {
		if err := w.checkName(t.Parts[i].Role, "the name of a part"); err != nil {
			return err
		}
	}
	return nil
}

// checkItem applies the rules for names of objects (§3.5), and the order of canonical
// form.
func (w *Writer) checkItem(name string, it *item) error {
	err := w.checkName(name, "the name")
	if err == nil && w.canonical && w.begun && name <= w.last {
		err = fmt.Errorf("%w: in canonical form it belongs before %s, which has been written "+
			"(WriterOptions.KeepOrder)", errors.ErrUnsupported, naming.Quote(w.last))
	}
	if err != nil {
		return core.OfTensor(name, err)
	}
	return nil
}

func (w *Writer) checkName(name, what string) error {
	switch {
	case !utf8.ValidString(name):
		return fmt.Errorf("%w: %s is not UTF-8", errors.ErrUnsupported, what)
	case len(name) == 0 || len(name) > maxName || strings.IndexByte(name, 0) >= 0:
		return fmt.Errorf("%w: %s is not one of version 2, which has 1 to %d bytes without NUL",
			errors.ErrUnsupported,
			what, maxName)
	case w.canonical && !norm.NFC.IsNormalString(name):
		return fmt.Errorf("%w: %s %s is not in NFC, as canonical form requires",
			errors.ErrUnsupported, what,
			naming.Quote(name))
	}
	return nil
}

// partsOf lists the parts in the order in which they lie in the file.
func (w *Writer) partsOf(t *tensor.Tensor) (all []part, err error) {
	add := func(role string, d tensor.DType, data tensor.Blob) {
		p := part{role: role, check: core.Check{DType: d}, data: data,
			streamed: core.IsPart(data)}
		if p.word, p.logical = typeWords(d); d == tensor.Unknown {
			if b, ok := core.PayloadOf(data); ok && b.More != nil && b.More.Word != "" {
				p.word, _ = typeWords(b.More.Storage) // an unknown type is kept
				p.logical = b.More.Word
			}
		}
		if p.word == "" && err == nil {
			err = fmt.Errorf("%w: part %s of %v in version 2", errors.ErrUnsupported,
				naming.Quote(role), d)
		}
		p.early, p.memory = core.Planned(data, w.level > 0, maxPrepared)
		all = append(all, p)
	}
	if t.Dense() {
		add("data", t.DType, t.Data)
		all[0].check.Odd = core.OddHalf(t)
		return all, err
	}
	for _, p := range layouts.Normalized(t).Parts {
		add(p.Role, p.DType, p.Data)
	}
	slices.SortFunc(all, func(a, b part) int { return strings.Compare(a.role, b.role) })
	return all, err
}

// typeWords returns the storage type of d, and its logical type if it needs one; "" where
// it has none.
func typeWords(d tensor.DType) (dtype, logical string) {
	l := core.LogicalOf(d, true)
	return core.StorageWord(l.Storage, true), l.Name
}

// examine measures parts of unknown size, and reads the indices of a sparse tensor.
func (w *Writer) examine(ctx context.Context, it *item) error {
	if it.examined || it.t == nil {
		return nil
	}
	it.examined = true
	t, err := core.Measured(ctx, it.t)
	if err == nil && t != it.t {
		memory := it.memory
		if *it, err = w.item(t); err == nil {
			it.examined, it.memory = true, memory
		}
	}
	if err != nil {
		return err
	}
	if as := layouts.Normalized(t); as.Scheme == layouts.CSR || as.Scheme == layouts.COO {
		if err := layouts.CheckData(ctx, as); err != nil {
			return core.OfTensor(t.Name, err)
		}
	}
	return nil
}

// AddAll adds the tensors of ts, prepared on all cores. In canonical form it then writes
// all that are kept.
func (w *Writer) AddAll(ctx context.Context, ts iter.Seq2[*tensor.Tensor, error]) error {
	if !w.canonical {
		return w.Writer.AddAll(ctx, core.Ahead(ctx, ts, func(t *tensor.Tensor) (*item, error) {
			if err := w.Check(t); err != nil {
				return nil, err
			}
			it, err := w.item(t)
			if err == nil {
				err = w.examine(ctx, &it)
			}
			it.memory.AddTensor(t)
			return &it, err
		}, func(it *item) { w.ready = it }))
	}
	return w.Writer.AddAll(ctx, func(yield func(*tensor.Tensor, error) bool) {
		for t, err := range ts {
			if !yield(t, err) {
				return
			}
		}
		if w.out == nil { // there was no tensor
			return
		}
		if err := w.flush(ctx, ""); err != nil {
			yield(nil, err)
		}
	})
}

// Cost returns the size of an item, and the memory that it takes once it is prepared.
func (it *item) Cost() (size, memory int64) {
	for _, p := range it.parts {
		size, memory = size+max(p.data.Size(), 0), memory+p.memory
	}
	return size, memory
}

// Prepare reads, hashes and compresses what is written from memory.
func (it *item) Prepare(ctx context.Context) {
	for i := range it.parts {
		if p := &it.parts[i]; p.early && p.stored == nil && p.err == nil {
			it.w.prepare(ctx, p)
		}
	}
}

func (w *Writer) prepare(ctx context.Context, p *part) {
	var all []byte
	if all, p.err = p.check.Load(ctx, p.data); p.err != nil {
		return
	}
	p.stored, p.digest = all, digest.Of(digest.XXH3, all)
	if w.level > 0 {
		p.stored = encodeFrames(w.frames, all)
	}
	if p.stored == nil {
		p.stored = []byte{}
	}
}

// begin returns the file, which it begins.
func (w *Writer) begin(to *format.Output) *core.Out {
	if w.out == nil {
		w.out = core.NewOut(to, 0)
		w.out.Write([]byte(Magic2))
	}
	return w.out
}

// append writes an item; in canonical form it keeps it, unless its bytes come now.
func (w *Writer) append(to *format.Output, it *item) error {
	ctx := format.ContextOf(to)
	w.begin(to)
	switch {
	case w.err != nil:
		return w.err
	case it.kept:
		if err := w.edition.Copy(ctx, w.out, w.align); err != nil {
			return err
		}
		it.object = w.edition.Object(it.t, blobOf)
		fallthrough
	case it.object != nil:
		w.objects = append(w.objects, entry{name: it.name, object: it.object})
		w.taken[it.name] = true
		return nil
	}
	if layouts.HasAttributes(it.t.Scheme) {
		w.profiled[it.t.Name] = it.t
	}
	if w.canonical && !core.IsPart(it.t.Data) {
		it.memory = format.Checksums{}
		it.memory.AddTensor(it.t)
		kept := *it
		w.kept = append(w.kept, &kept)
		return nil
	}
	if w.canonical {
		if err := w.flush(ctx, it.t.Name); err != nil {
			return err
		}
	}
	return w.write(ctx, it)
}

// flush writes the kept tensors, those whose names come before that one if it is not
// empty.
func (w *Writer) flush(ctx context.Context, before string) error {
	var now, later []*item
	for _, it := range w.kept {
		if before == "" || it.t.Name < before {
			now = append(now, it)
		} else {
			later = append(later, it)
		}
	}
	w.kept = later
	w.err = cmp.Or(w.err, w.writeKept(ctx, now))
	return w.err
}

func (w *Writer) writeKept(ctx context.Context, now []*item) error {
	slices.SortFunc(now, func(a, b *item) int { return strings.Compare(a.t.Name, b.t.Name) })
	all := make([]*tensor.Tensor, len(now))
	for i, it := range now {
		if err := it.memory.Check(); err != nil {
			return core.Errs.Wrap(-1, "", err)
		}
		all[i], it.memory = it.t, format.Checksums{}
	}
	if f, ok := w.out.Written().(*atomicfile.File); ok && len(now) > 1 {
		f.Reserve(w.end(all))
	}
	i := -1
	var ready *item
	for _, err := range core.Ahead(ctx, tensor.Of(all...), func(*tensor.Tensor) (*item, error) {
		i++
		return now[i], nil
	}, func(it *item) { ready = it }) {
		if err == nil {
			err = w.write(ctx, ready)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// end returns about where the file will end when these tensors have been written.
func (w *Writer) end(ts []*tensor.Tensor) int64 {
	off := w.out.Off
	for _, t := range ts {
		var ok bool
		if off, ok = align.Add(off+align.Padding(off, w.align), max(0, t.Size())); !ok {
			return 0
		}
	}
	return off
}

// write writes the parts of a tensor, and notes what the manifest says of it.
func (w *Writer) write(ctx context.Context, it *item) error {
	for i := range it.parts {
		p := &it.parts[i]
		err := cmp.Or(context.Cause(ctx), w.store(ctx, p))
		if err == nil && i == len(it.parts)-1 {
			err = cmp.Or(core.CheckLength(it.t, it.parts[0].size), it.memory.Check())
		}
		if err != nil {
			return core.OfTensor(it.t.Name, err)
		}
	}
	return w.enter(it)
}

// store writes a part, unless its bytes are there already.
func (w *Writer) store(ctx context.Context, p *part) error {
	if p.early && p.stored == nil && p.err == nil {
		w.prepare(ctx, p)
	}
	if p.err != nil {
		return p.err
	}
	out := w.out
	p.before = out.Off
	if shared, err := w.shared(ctx, p); shared || err != nil {
		return err
	}
	if err := w.place(p); err != nil {
		return err
	}
	start := out.Off
	var err error
	switch {
	case p.early:
		p.size = p.data.Size()
		_, err = out.Write(p.stored)
	case w.level > 0:
		f := &framer{ctx: ctx, w: w, hash: xxh3.New()}
		if p.size, err = p.check.Feed(ctx, p.data, f); err == nil {
			err = f.close()
		}
		p.digest = digest.Text(digest.XXH3, f.hash)
	case p.digest != "":
		p.size, err = p.check.Feed(ctx, p.data, out)
	default:
		h := xxh3.New()
		p.size, err = p.check.Feed(ctx, p.data, io.MultiWriter(h, out))
		p.digest = digest.Text(digest.XXH3, h)
	}
	p.stored = nil
	if err != nil {
		return err
	}
	p.length = out.Off - start
	return w.remember(ctx, p)
}

// place begins a part where one may.
func (w *Writer) place(p *part) error {
	if p.data.Size() == 0 && w.level == 0 { // all of them are at the same place
		at, ok := align.Up(w.out.Off, w.align)
		if !ok {
			return fmt.Errorf("%w: a file beyond 2^63 bytes", tensor.ErrLimit)
		}
		w.empty = cmp.Or(w.empty, at)
		p.offset = w.empty
		return nil
	}
	err := w.out.Pad(w.align)
	p.offset = w.out.Off
	return err
}

// enter notes what the manifest says of a tensor.
func (w *Writer) enter(it *item) error {
	slices.SortFunc(it.parts, func(a, b part) int { return byLength(a.role, b.role) })
	all := make([]cbor.Pair, len(it.parts))
	for i, p := range it.parts {
		d := describedPart{Blob: &[2]int64{p.offset, p.length}, Type: p.logical, DType: p.word,
			Digest: p.digest}
		if w.level > 0 {
			d.Encoding, d.DecodedLength = Seekable, &p.size
		}
		b, err := cbor.MarshalFields(d)
		if err != nil {
			return err
		}
		all[i] = cbor.PairOf(p.role, b)
	}
	w.objects = append(w.objects, entry{name: it.t.Name, described: described{
		Parts: cbor.AppendPairs(nil, all, false), Shape: append([]int64{}, it.t.Shape...),
		Layout: layoutName(layouts.Registered(it.t.Scheme))}})
	w.last, w.begun = it.t.Name, true
	return nil
}

// byLength is the order of CBOR's keys: shorter text first.
func byLength(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) }

// encode writes what was kept, the manifest and the footer.
func (w *Writer) encode(to *format.Output, _ []item) error {
	out := w.begin(to)
	if err := w.flush(format.ContextOf(to), ""); err != nil {
		return err
	}
	b, err := w.manifest()
	if err == nil {
		err = core.CheckManifest(b)
	}
	if err != nil {
		return err
	}
	out.Pad(w.align)
	at := out.Off
	out.Write(b)
	if e, ok := format.Underlying(to).(*atomicfile.Extension); ok {
		// The footer makes a file of what was appended: it must not reach the
		// disk before that.
		if err := cmp.Or(out.Flush(), e.Sync()); err != nil {
			return err
		}
	}
	f := binary.LittleEndian.AppendUint64(nil, uint64(at))
	f = binary.LittleEndian.AppendUint64(f, uint64(len(b)))
	f = binary.LittleEndian.AppendUint64(f, xxh3.Hash(b))
	f = binary.LittleEndian.AppendUint32(f, 2)
	f = binary.LittleEndian.AppendUint32(f, 0)
	out.Write(append(f, Magic2...))
	return out.Flush()
}

// manifest encodes what has been written, and what was there before.
func (w *Writer) manifest() ([]byte, error) {
	slices.SortFunc(w.objects, func(a, b entry) int { return byLength(a.name, b.name) })
	all := make([]cbor.Pair, len(w.objects))
	for i, o := range w.objects {
		if o.object == nil {
			var err error
			o.Attributes = w.own[o.name]
			if o.object, err = cbor.MarshalFields(o.described); err != nil {
				return nil, err
			}
		}
		all[i] = cbor.PairOf(o.name, o.object)
	}
	root := append(slices.Clone(w.others),
		cbor.PairOf("objects", cbor.AppendPairs(nil, all, false)))
	if len(w.shards) > 0 {
		root = append(root, cbor.PairOf("shards", cbor.AppendPairs(nil, w.shards, true)))
	}
	if w.attributes != nil {
		root = append(root, cbor.PairOf("attributes", w.attributes))
	}
	return cbor.AppendPairs(nil, root, true), nil
}

// encodeAttributes encodes a map in the one form of version 2. Its values are that deep
// in the manifest.
func (w *Writer) encodeAttributes(attributes map[string]any, depth int) ([]byte, error) {
	return core.EncodeAttributes(attributes, byLength,
		func(name string, value []byte) ([]byte, error) {
			if err := w.checkName(name, "the name of an attribute"); err != nil {
				return nil, err
			}
			value, err := cbor.Deterministic(value)
			if err == nil {
				c := cbor.Cursor{B: value, Deep: cbor.MaxStrictDepth - depth, Strict: true}
				c.Skip() // too deep, or a simple value that version 2 does not have
				err = c.Err
			}
			if err != nil {
				return nil, fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
			}
			return value, nil
		})
}

// TensorAttributes describes the tensor of that name.
func (w *Writer) TensorAttributes(name string, attributes map[string]any) error {
	if w.taken[name] {
		return core.Errs.Tensor(name, errors.ErrUnsupported,
			"other attributes of what was there before")
	}
	b, err := w.encodeAttributes(attributes, 4)
	if err != nil {
		return err
	}
	if len(attributes) == 0 {
		b = nil
	}
	if t := w.profiled[name]; t != nil {
		elements, _ := t.Shape.Elements()
		if err := layouts.Check(t, uint64(elements), b); err != nil {
			return core.OfTensor(name, err)
		}
	}
	w.own[name] = b
	return nil
}
