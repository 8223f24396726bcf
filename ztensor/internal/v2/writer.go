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
	"github.com/tensorfile/tensorfile/ztensor/internal/dtype"
	"github.com/tensorfile/tensorfile/ztensor/internal/layouts"
	"github.com/tensorfile/tensorfile/ztensor/internal/writer"
)

// A Writer writes version 2: parts as tensors are added, the manifest by Close. In
// canonical form parts are in the order of the names of their tensors: Add keeps tensors,
// and AddAll, Close and Create write them.
type Writer struct {
	writer.Writer
	canonical bool
	level     int
	align     int64

	attributes       []byte                    // of the file, a CBOR map; nil: none
	tensorAttributes map[string][]byte         // by name; CBOR maps
	withRules        map[string]*tensor.Tensor // added; their layout has rules for attributes
	carried          map[string]bool           // names of tensors that are carried over

	err     error          // of writing pending tensors; final
	pending []*writer.Item // to be written in canonical form
	last    string         // canonical: the name that was written last
	hasLast bool
	objects []entry
	shards  []cbor.Pair // by name
	others  []cbor.Pair // unknown fields of a manifest that is carried over

	written map[content][]writer.Part // parts that can be shared
	lengths map[int64]bool            // their sizes
	empty   int64                     // offset of empty parts; 0: not known yet
	encoder *zstd.Encoder             // nil: nothing is compressed
	group   []byte                    // that is to be compressed, of the part that is streamed
	spare   [][]byte                  // memory for compressed frames
}

// content is the key of parts that may have the same bytes.
type content struct {
	digest string
	length int64
}

// An entry is the entry of a tensor in the manifest.
type entry struct {
	name   string
	object []byte // encoded; nil: use objectFields
	objectFields
}

// objectFields are the fields of a tensor and partFields of a part, in the order of
// deterministic CBOR.
type objectFields struct {
	Parts      cbor.Item `cbor:"parts"`
	Shape      []int64   `cbor:"shape"`
	Layout     string    `cbor:"layout"`
	Attributes cbor.Item `cbor:"attributes,omitempty"`
}

type partFields struct {
	Blob          *[2]int64 `cbor:"blob,omitempty"`
	Type          string    `cbor:"type,omitempty"`
	DType         string    `cbor:"dtype"`
	Digest        string    `cbor:"digest"`
	Encoding      string    `cbor:"encoding,omitempty"`
	DecodedLength *int64    `cbor:"decoded_length,omitempty"`
}

// NewWriter returns a Writer to out. If owned is set, out is a format.Target, which Close
// and Abort end.
func NewWriter(out io.Writer, owned bool, o writer.Settings) *Writer {
	w := &Writer{canonical: o.Canonical, level: o.Level,
		align:            cmp.Or(o.Alignment, CanonicalAlignment),
		tensorAttributes: map[string][]byte{},
		withRules:        map[string]*tensor.Tensor{}, carried: map[string]bool{},
		written: map[content][]writer.Part{}, lengths: map[int64]bool{}}
	w.Magic, w.Limit = Magic2, maxPrepared
	o.Err = cmp.Or(o.Err, w.configure(o))
	w.Init(out, owned, o, format.Encoding[writer.Item]{Item: w.item, Check: w.checkItem,
		Examine: w.examine, Append: w.append, Encode: w.encode})
	return w
}

func (w *Writer) configure(o writer.Settings) (err error) {
	switch {
	case w.align < minAlignment || w.align&(w.align-1) != 0 || w.align > 1<<30:
		return core.Errs.New(fs.ErrInvalid, "WriterOptions.Alignment is %d, not a power of two "+
			"from %d to 1 GiB", o.Alignment, minAlignment)
	case w.canonical && (o.KeepOrder || w.level > 0 || w.align != CanonicalAlignment):
		return core.Errs.New(fs.ErrInvalid, "WriterOptions.Canonical excludes KeepOrder, Level "+
			"and Alignment")
	}
	if w.level > 0 {
		w.Compress, w.Stream = w.encodeFrames, w.newFrameWriter
		w.encoder, err = writer.NewEncoder(w.level, zstd.WithEncoderConcurrency(0),
			zstd.WithWindowSize(frameSize))
	}
	if err == nil && len(o.Attributes) > 0 {
		w.attributes, err = w.encodeAttributes(o.Attributes, 2)
	}
	return err
}

// layoutName returns the layout in the manifest for a Scheme.
func layoutName(scheme string) string {
	switch scheme {
	case "":
		return "dense"
	case nameless:
		return ""
	}
	return scheme
}

// checkTensor fails for a tensor that version 2 cannot represent. It does not check
// dtypes.
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
func (w *Writer) checkItem(name string, it *writer.Item) error {
	err := w.checkName(name, "the name")
	if err == nil && w.canonical && w.hasLast && name <= w.last {
		err = fmt.Errorf("%w: in canonical form it belongs before %s, which has been written "+
			"(WriterOptions.KeepOrder)", errors.ErrUnsupported, naming.Quote(w.last))
	}
	if err != nil {
		return writer.TensorError(name, err)
	}
	return nil
}

func (w *Writer) checkName(name, what string) error {
	switch {
	case !utf8.ValidString(name):
		return fmt.Errorf("%w: %s is not UTF-8", errors.ErrUnsupported, what)
	case len(name) == 0 || len(name) > maxName || strings.IndexByte(name, 0) >= 0:
		return fmt.Errorf("%w: %s is not one of version 2, which has 1 to %d bytes without NUL",
			errors.ErrUnsupported, what, maxName)
	case w.canonical && !norm.NFC.IsNormalString(name):
		return fmt.Errorf("%w: %s %s is not in NFC, as canonical form requires",
			errors.ErrUnsupported, what, naming.Quote(name))
	}
	return nil
}

// item lists the parts of a tensor in the order of the file.
func (w *Writer) item(t *tensor.Tensor) (it writer.Item, err error) {
	if err := w.checkTensor(t); err != nil {
		return it, err
	}
	add := func(role string, d tensor.DType, data tensor.Blob) {
		p := w.NewPart(t, role, d, data, digest.XXH3)
		if p.TypeName, p.Logical = typeNames(d); d == tensor.Unknown {
			if b, ok := core.PayloadOf(data); ok && b.Extra != nil && b.Extra.TypeName != "" {
				p.TypeName, _ = typeNames(b.Extra.Storage) // an unknown type is carried over
				p.Logical = b.Extra.TypeName
			}
		}
		if p.TypeName == "" && err == nil {
			err = fmt.Errorf("%w: part %s of %v in version 2", errors.ErrUnsupported,
				naming.Quote(role), d)
		}
		it.Parts = append(it.Parts, p)
	}
	if t.Dense() {
		add("data", t.DType, t.Data)
		return it, err
	}
	as := layouts.Normalize(t)
	for _, p := range as.Parts {
		add(p.Role, p.DType, p.Data)
	}
	slices.SortFunc(it.Parts,
		func(a, b writer.Part) int { return strings.Compare(a.Role, b.Role) })
	if err == nil && t.Size() >= 0 {
		elements, _ := t.Shape.Elements()
		err = layouts.Check(as, uint64(elements), w.tensorAttributes[t.Name])
	}
	return it, err
}

// typeNames returns the names of the storage type and the logical type of d; "" for the
// logical type if d is a storage type, and for both if version 2 does not have d.
func typeNames(d tensor.DType) (storage, logical string) {
	l := dtype.LogicalOf(d)
	return dtype.StorageName(l.Storage, true), l.Name
}

// examine measures parts of unknown size, and reads the indices of a sparse tensor.
func (w *Writer) examine(ctx context.Context, it *writer.Item) error {
	t, err := writer.Measure(ctx, it.T)
	if err != nil {
		return err
	}
	if t != it.T {
		measured, err := w.item(t)
		if it.T, it.Parts = t, measured.Parts; err != nil {
			return writer.TensorError(t.Name, err)
		}
	}
	if as := layouts.Normalize(t); as.Scheme == layouts.CSR || as.Scheme == layouts.COO {
		if err := layouts.CheckData(ctx, as); err != nil {
			return writer.TensorError(t.Name, err)
		}
	}
	return nil
}

// AddAll adds the tensors of ts, after preparing their parts on all cores. In canonical
// form it then writes all pending tensors.
func (w *Writer) AddAll(ctx context.Context, ts iter.Seq2[*tensor.Tensor, error]) error {
	if !w.canonical {
		return w.Writer.AddAll(ctx, ts)
	}
	return w.Writer.Writer.AddAll(ctx, func(yield func(*tensor.Tensor, error) bool) {
		for t, err := range ts {
			if !yield(t, err) {
				return
			}
		}
		if w.Out == nil { // there was no tensor
			return
		}
		if err := w.flush(ctx, ""); err != nil {
			yield(nil, err)
		}
	})
}

// append writes an item. In canonical form it adds the item to the pending ones, unless
// its bytes are streamed.
func (w *Writer) append(to *format.Output, it *writer.Item) error {
	ctx := format.ContextOf(to)
	w.Begin(to)
	if err := cmp.Or(w.err, w.CopyCarried(ctx, it, w.align, blobOf)); err != nil {
		return err
	}
	if it.Object != nil {
		w.objects = append(w.objects, entry{name: it.Name, object: it.Object})
		w.carried[it.Name] = true
		return nil
	}
	if layouts.HasAttributes(it.T.Scheme) {
		w.withRules[it.Name] = it.T
	}
	if w.canonical && !writer.Streamed(it.T.Data) {
		it.Memory = format.Checksums{}
		it.Memory.AddTensor(it.T)
		copied := *it
		w.pending = append(w.pending, &copied)
		return nil
	}
	if w.canonical {
		if err := w.flush(ctx, it.Name); err != nil {
			return err
		}
	}
	return w.write(ctx, it)
}

// flush writes the pending tensors whose names come before that name; all if it is "".
func (w *Writer) flush(ctx context.Context, before string) error {
	var now, later []*writer.Item
	for _, it := range w.pending {
		if before == "" || it.Name < before {
			now = append(now, it)
		} else {
			later = append(later, it)
		}
	}
	w.pending = later
	w.err = cmp.Or(w.err, w.writePending(ctx, now))
	return w.err
}

func (w *Writer) writePending(ctx context.Context, now []*writer.Item) error {
	slices.SortFunc(now, func(a, b *writer.Item) int { return strings.Compare(a.Name, b.Name) })
	for _, it := range now {
		if err := it.Memory.Check(); err != nil {
			return core.Errs.Wrap(-1, "", err)
		}
		it.Memory = format.Checksums{}
	}
	if f, ok := w.Out.Written().(*atomicfile.File); ok && len(now) > 1 {
		f.Reserve(w.estimateEnd(now))
	}
	for it, err := range w.PrepareAhead(ctx, func(yield func(*writer.Item, error) bool) {
		for _, it := range now {
			if !yield(it, context.Cause(ctx)) {
				return
			}
		}
	}) {
		if err == nil {
			err = w.write(ctx, it)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// estimateEnd returns about where the file will end when these tensors have been written.
func (w *Writer) estimateEnd(all []*writer.Item) int64 {
	off := w.Out.Off
	for _, it := range all {
		var ok bool
		if off, ok = align.Add(off+align.Padding(off, w.align), max(0, it.T.Size())); !ok {
			return 0
		}
	}
	return off
}

// write writes the parts of a tensor, and adds its entry of the manifest.
func (w *Writer) write(ctx context.Context, it *writer.Item) error {
	for i := range it.Parts {
		err := cmp.Or(context.Cause(ctx), w.store(ctx, &it.Parts[i]))
		if err == nil && i == len(it.Parts)-1 {
			err = it.CheckWritten()
		}
		if err != nil {
			return writer.TensorError(it.Name, err)
		}
	}
	return w.addObject(it)
}

// store writes a part, or makes it share the bytes of an equal part.
func (w *Writer) store(ctx context.Context, p *writer.Part) error {
	if err := w.Prepare(ctx, p); err != nil {
		return err
	}
	before := w.Out.Off
	if shared, err := w.shared(ctx, p); shared || err != nil {
		return err
	}
	if p.Data.Size() == 0 && w.level == 0 {
		return w.storeEmpty(ctx, p)
	}
	if err := cmp.Or(w.Out.Pad(w.align), w.Put(ctx, p)); err != nil {
		return err
	}
	return w.remember(ctx, p, before)
}

// storeEmpty stores a part of no bytes. All such parts have one offset.
func (w *Writer) storeEmpty(ctx context.Context, p *writer.Part) error {
	at, ok := align.Up(w.Out.Off, w.align)
	if !ok {
		return fmt.Errorf("%w: a file beyond 2^63 bytes", tensor.ErrLimit)
	}
	err := w.Put(ctx, p)
	w.empty = cmp.Or(w.empty, at)
	p.Offset = w.empty
	return err
}

// addObject adds the entry of a tensor whose parts have been written.
func (w *Writer) addObject(it *writer.Item) error {
	slices.SortFunc(it.Parts, func(a, b writer.Part) int { return byLength(a.Role, b.Role) })
	all := make([]cbor.Pair, len(it.Parts))
	for i, p := range it.Parts {
		d := partFields{Blob: &[2]int64{p.Offset, p.Length}, Type: p.Logical, DType: p.TypeName,
			Digest: p.Digest}
		if w.level > 0 {
			d.Encoding, d.DecodedLength = seekable, &p.Size
		}
		b, err := cbor.MarshalFields(d)
		if err != nil {
			return err
		}
		all[i] = cbor.PairOf(p.Role, b)
	}
	w.objects = append(w.objects, entry{name: it.T.Name, objectFields: objectFields{
		Parts: cbor.AppendPairs(nil, all, false), Shape: append([]int64{}, it.T.Shape...),
		Layout: layoutName(layouts.RegisteredScheme(it.T.Scheme))}})
	w.last, w.hasLast = it.T.Name, true
	return nil
}

// byLength compares text in the order of deterministic CBOR: shorter text first.
func byLength(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) }

// encode writes the pending tensors, the manifest and the footer.
func (w *Writer) encode(to *format.Output, _ []writer.Item) error {
	w.Begin(to)
	out := w.Out
	if err := w.flush(format.ContextOf(to), ""); err != nil {
		return err
	}
	b, err := w.manifest()
	if err != nil {
		return err
	}
	out.Pad(w.align)
	at := out.Off
	if err := w.PutManifest(b); err != nil {
		return err
	}
	if e, ok := format.Underlying(to).(*atomicfile.Extension); ok {
		// The footer makes the appended bytes a revision: they must be on the disk first.
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

// manifest encodes the manifest of all tensors, written and carried over.
func (w *Writer) manifest() ([]byte, error) {
	slices.SortFunc(w.objects, func(a, b entry) int { return byLength(a.name, b.name) })
	all := make([]cbor.Pair, len(w.objects))
	for i, o := range w.objects {
		if o.object == nil {
			var err error
			o.Attributes = w.tensorAttributes[o.name]
			if o.object, err = cbor.MarshalFields(o.objectFields); err != nil {
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

// encodeAttributes encodes a map as deterministic CBOR. depth is the depth of its values
// in the manifest.
func (w *Writer) encodeAttributes(attributes map[string]any, depth int) ([]byte, error) {
	return writer.Attributes(attributes, byLength,
		func(name string, value []byte) ([]byte, error) {
			if err := w.checkName(name, "the name of an attribute"); err != nil {
				return nil, err
			}
			value, err := cbor.Deterministic(value)
			if err == nil {
				c := cbor.Cursor{B: value, DepthLeft: cbor.MaxStrictDepth - depth, Strict: true}
				c.Skip() // too deep, or a simple value that version 2 does not have
				err = c.Err
			}
			if err != nil {
				return nil, fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
			}
			return value, nil
		})
}

// TensorAttributes sets the attributes of the tensor of that name.
func (w *Writer) TensorAttributes(name string, attributes map[string]any) error {
	if w.carried[name] {
		return core.Errs.Tensor(name, errors.ErrUnsupported,
			"other attributes of a tensor that is carried over")
	}
	b, err := w.encodeAttributes(attributes, 4)
	if err != nil {
		return err
	}
	if len(attributes) == 0 {
		b = nil
	}
	if t := w.withRules[name]; t != nil {
		elements, _ := t.Shape.Elements()
		if err := layouts.Check(t, uint64(elements), b); err != nil {
			return writer.TensorError(name, err)
		}
	}
	w.tensorAttributes[name] = b
	return nil
}
