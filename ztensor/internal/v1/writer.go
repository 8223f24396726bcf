package v1

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
	"github.com/tensorfile/tensorfile/ztensor/internal/digest"
)

// maxPrepared is the size of the largest component that is read or compressed in memory
// before it is written; others are streamed.
const maxPrepared = 8 << 20

// A Writer writes 1.0: components as tensors are added, the manifest by Close.
type Writer struct {
	core.Writer[item]
	generator  string
	attributes []byte // a CBOR map
	digest     digest.Algorithm
	level      int
	encoder    *zstd.Encoder // of streams
	frames     *zstd.Encoder // of what is in memory

	ready   *item // that AddAll has planned
	out     *core.Out
	entries []cbor.Pair // of tensors, in the order in which they were added

	edition *core.Edition
	digests map[string]digest.Algorithm // digests of tensors that replace others, by name
}

// An item is a tensor that is to be written, or one of the original of an edition.
type item struct {
	w      *Writer
	t      *tensor.Tensor
	all    []component // in file order
	kept   bool        // of the original
	name   string      // if it is kept
	memory format.Checksums
}

// A component is a part of a tensor that is to be written, or has been.
type component struct {
	role   string
	check  core.Check
	data   tensor.Blob
	digest digest.Algorithm
	early  bool  // it is prepared in memory
	memory int64 // that this takes
	stored []byte
	err    error // of preparing

	place placed
}

// placed is what the manifest says of a component, with the keys in the order in which
// upstream declares them.
type placed struct {
	Offset   int64  `cbor:"offset"`
	Length   int64  `cbor:"length"`
	Encoding string `cbor:"encoding,omitempty"`
	Digest   string `cbor:"digest,omitempty"`
}

// described is what the manifest says of a tensor.
type described struct {
	DType      string    `cbor:"dtype"`
	Shape      []int64   `cbor:"shape"`
	Format     string    `cbor:"format"`
	Components cbor.Item `cbor:"components"`
}

// NewWriter returns a Writer to out, which it completes if owned is set: a format.Target.
func NewWriter(out io.Writer, owned bool, o core.Settings) *Writer {
	w := &Writer{generator: cmp.Or(o.Generator, "tensorfile"), digest: o.Digest, level: o.Level}
	err := cmp.Or(o.Err, w.configure(o))
	w.Writer = core.NewWriter(out, owned, &format.Encoding[item]{Format: core.Errs, Err: err,
		Progress: o.Progress, Item: w.item, Check: checkName, Examine: examine, Append: w.append,
		Encode: w.encode})
	return w
}

func (w *Writer) configure(o core.Settings) (err error) {
	if w.level > 0 {
		if w.encoder, err = core.NewEncoder(w.level); err != nil {
			return err
		}
		w.frames, err = core.NewEncoder(w.level, zstd.WithEncoderConcurrency(0))
		if err != nil {
			return err
		}
	}
	w.attributes, err = core.EncodeAttributes(o.Attributes, strings.Compare, checkText)
	return err
}

// checkText takes values that are text, which all attributes of 1.0 are.
func checkText(_ string, value []byte) ([]byte, error) {
	if _, ok := cbor.TextOf(value); !ok {
		return nil, fmt.Errorf("%w: it is not text, version 1.0 has no other",
			errors.ErrUnsupported)
	}
	return value, nil
}

// item returns what the file has of a tensor.
func (w *Writer) item(t *tensor.Tensor) (item, error) {
	if r := w.ready; r != nil && r.t == t {
		w.ready = nil
		return *r, nil
	}
	err := core.CheckContent(t)
	if err == nil {
		err = check(t)
	}
	if err != nil {
		return item{}, core.OfTensor(t.Name, err)
	}
	it := item{w: w, t: t, name: t.Name}
	if t.Dense() {
		it.all = append(it.all, w.component("data", t.DType, t.Data))
	}
	indexed := isSparse(t.Scheme)
	for _, p := range t.Parts {
		if indexed && slices.Contains(core.IndexRoles, p.Role) {
			p = sparse.Widen(context.Background(), p)
		}
		it.all = append(it.all, w.component(p.Role, p.DType, p.Data))
	}
	if d, ok := w.digests[t.Name]; ok {
		for i := range it.all {
			it.all[i].digest = d
		}
	}
	if indexed {
		slices.SortStableFunc(it.all,
			func(a, b component) int { return fileOrder(a.role) - fileOrder(b.role) })
	}
	return it, nil
}

func (w *Writer) component(role string, d tensor.DType, data tensor.Blob) component {
	c := component{role: role, check: core.Check{DType: d}, data: data, digest: w.digest}
	c.early, c.memory = core.Planned(data, w.level > 0, maxPrepared)
	return c
}

// fileOrder is the order in which upstream writes the components of sparse tensors.
func fileOrder(role string) int {
	if role == "values" {
		return -1
	}
	if i := slices.Index(core.IndexRoles, role); i >= 0 {
		return i
	}
	return len(core.IndexRoles)
}

// checkName takes any text.
func checkName(name string, _ *item) error {
	if !utf8.ValidString(name) {
		return core.Errs.Tensor(name, errors.ErrUnsupported, "the name is not UTF-8")
	}
	return nil
}

// check requires a dtype that 1.0 has: one for the tensor, which is the dtype of a sparse
// tensor's values, and none for other parts.
func check(t *tensor.Tensor) error {
	known := func(what string, d tensor.DType) error {
		if core.StorageWord(d, false) == "" {
			return fmt.Errorf("%w: %s of %v in version 1.0", errors.ErrUnsupported, what, d)
		}
		return nil
	}
	indexed := isSparse(t.Scheme)
	if !indexed {
		if err := known("elements", t.DType); err != nil {
			return err
		}
	}
	for _, p := range t.Parts {
		if err := format.CheckWritten(p.Role, 0); err != nil {
			return err
		}
		switch {
		case indexed && slices.Contains(core.IndexRoles, p.Role):
			// becomes uint64
		case indexed && p.Role == "values":
			if err := known("values", p.DType); err != nil {
				return err
			}
			if t.DType != tensor.Unknown && t.DType != p.DType {
				return fmt.Errorf("%w: values of %v in a tensor of %v", tensor.ErrMalformed,
					p.DType, t.DType)
			}
		case p.DType != tensor.Unknown && p.DType != t.DType:
			return fmt.Errorf("%w: version 1.0 cannot represent the dtype of part %s, %v",
				errors.ErrUnsupported,
				naming.Quote(p.Role), p.DType)
		}
	}
	return nil
}

// examine reads the indices of a sparse tensor.
func examine(ctx context.Context, it *item) error {
	if it.t == nil || !isSparse(it.t.Scheme) {
		return nil
	}
	if err := sparse.Check(ctx, it.t, nil); err != nil {
		return core.OfTensor(it.t.Name, err)
	}
	return nil
}

// AddAll adds the tensors of ts, prepared on all cores.
func (w *Writer) AddAll(ctx context.Context, ts iter.Seq2[*tensor.Tensor, error]) error {
	return w.Writer.AddAll(ctx, core.Ahead(ctx, ts, func(t *tensor.Tensor) (*item, error) {
		if err := w.Check(t); err != nil {
			return nil, err
		}
		it, err := w.item(t)
		it.memory.AddTensor(t)
		return &it, err
	}, func(it *item) { w.ready = it }))
}

// Cost returns the size of an item, and the memory that it takes once it is prepared.
func (it *item) Cost() (size, memory int64) {
	for _, c := range it.all {
		size, memory = size+max(c.data.Size(), 0), memory+c.memory
	}
	return size, memory
}

// Prepare reads, compresses and hashes what is written from memory.
func (it *item) Prepare(ctx context.Context) {
	for i := range it.all {
		if c := &it.all[i]; c.early && c.stored == nil && c.err == nil {
			c.err = it.w.prepare(ctx, c)
		}
	}
}

func (w *Writer) prepare(ctx context.Context, c *component) error {
	all, err := c.check.Load(ctx, c.data)
	if err != nil {
		return err
	}
	if w.level > 0 {
		all = w.frames.EncodeAll(all, make([]byte, 0, len(all)))
	}
	c.stored, c.place.Digest = all, digest.Of(c.digest, all)
	return nil
}

func (w *Writer) begin(to *format.Output) *core.Out {
	if w.out == nil {
		w.out = core.NewOut(to, 0)
		w.out.Write([]byte(Magic1))
	}
	return w.out
}

// append writes an item, and notes what the manifest says of it.
func (w *Writer) append(to *format.Output, it *item) error {
	ctx, out := format.ContextOf(to), w.begin(to)
	if it.kept {
		if err := w.edition.Copy(ctx, out, alignment); err != nil {
			return err
		}
		w.entries = append(w.entries, cbor.PairOf(it.name, w.edition.Object(it.t, offsetOf)))
		return nil
	}
	var size int64 // of the first, which is the data of a dense tensor
	for i := range it.all {
		n, err := w.store(ctx, out, &it.all[i])
		if i == 0 {
			size = n
		}
		if err == nil && i == len(it.all)-1 {
			err = cmp.Or(core.CheckLength(it.t, size), it.memory.Check())
		}
		if err != nil {
			return core.OfTensor(it.t.Name, err)
		}
	}
	return w.enter(it)
}

// store writes a component, and returns the size of its data.
func (w *Writer) store(ctx context.Context, out *core.Out, c *component) (int64, error) {
	if err := out.Pad(alignment); err != nil {
		return 0, err
	}
	c.place.Offset = out.Off
	size, err := c.data.Size(), c.err
	if c.early {
		if c.stored == nil && err == nil {
			err = w.prepare(ctx, c)
		}
		if err == nil {
			_, err = out.Write(c.stored)
		}
		c.stored = nil
	} else {
		size, err = w.stream(ctx, out, c)
	}
	c.place.Length = out.Off - c.place.Offset
	if w.level > 0 {
		c.place.Encoding = "zstd"
	}
	return size, err
}

// stream writes a component that is not in memory.
func (w *Writer) stream(ctx context.Context, out *core.Out, c *component) (int64, error) {
	sink := io.Writer(out)
	h := digest.New(c.digest)
	if h != nil {
		sink = io.MultiWriter(h, out)
	}
	var size int64
	var err error
	if w.level == 0 {
		size, err = c.check.Feed(ctx, c.data, sink)
	} else {
		w.encoder.ResetContentSize(sink, c.data.Size())
		if size, err = c.check.Feed(ctx, c.data, w.encoder); err == nil {
			err = w.encoder.Close()
		}
	}
	c.place.Digest = digest.Text(c.digest, h)
	return size, err
}

// enter notes a tensor whose components have been written, sorted by role.
func (w *Writer) enter(it *item) error {
	slices.SortFunc(it.all, func(a, b component) int { return strings.Compare(a.role, b.role) })
	d, all := it.t.DType, make([]cbor.Pair, len(it.all))
	for i, c := range it.all {
		if c.role == "values" && d == tensor.Unknown {
			d = c.check.DType
		}
		b, err := cbor.MarshalFields(c.place)
		if err != nil {
			return err
		}
		all[i] = cbor.PairOf(c.role, b)
	}
	b, err := cbor.MarshalFields(described{core.StorageWord(d, false),
		append([]int64{}, it.t.Shape...), cmp.Or(it.t.Scheme, "dense"),
		cbor.AppendPairs(nil, all, false)})
	w.entries = append(w.entries, cbor.PairOf(it.t.Name, b))
	return err
}

// encode writes manifest and footer. The document requires the size of the manifest to
// be below the size of the file less 16: without components that takes padding.
func (w *Writer) encode(to *format.Output, _ []item) error {
	out := w.begin(to)
	if out.Off < alignment {
		out.Pad(alignment)
	}
	slices.SortFunc(w.entries, func(a, b cbor.Pair) int { return strings.Compare(a.Name, b.Name) })
	root := []cbor.Pair{cbor.PairOf("version", cbor.AppendText(nil, "1.0")),
		cbor.PairOf("generator", cbor.AppendText(nil, w.generator)),
		cbor.PairOf("attributes", w.attributes)}
	if w.edition != nil {
		for _, f := range w.edition.Others {
			if f.Name != "version" && f.Name != "generator" && f.Name != "attributes" {
				root = append(root, f)
			}
		}
	}
	root = append(root, cbor.PairOf("tensors", cbor.AppendPairs(nil, w.entries, false)))
	b := cbor.AppendPairs(nil, root, false)
	if err := core.CheckManifest(b); err != nil {
		return err
	}
	out.Write(b)
	out.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(b))))
	return out.Flush()
}

// TensorAttributes fails: 1.0 has none.
func (w *Writer) TensorAttributes(string, map[string]any) error {
	return core.Errs.New(errors.ErrUnsupported, "attributes of a tensor in version 1.0")
}

// Apply writes what an Edit makes of r. Tensors that replace others have the digest of
// what they replace, unless the Writer has one.
func (w *Writer) Apply(ctx context.Context, r *core.File, e *format.Edit) error {
	order, kept, replaced, err := core.Order(r, e)
	if err == nil {
		w.edition, err = core.NewEdition(r, kept)
	}
	if err != nil {
		w.Abort()
		return err
	}
	if w.digest == digest.None {
		w.digests = map[string]digest.Algorithm{}
		for name, t := range replaced {
			w.digests[name] = digestOf(t)
		}
	}
	return format.Apply(ctx, e, &w.Writer.Writer, order, func(i int, name string) (item, error) {
		return item{w: w, t: r.Tensors[i], kept: true, name: name}, nil
	})
}

// digestOf returns the algorithm of the digest of a tensor.
func digestOf(t *tensor.Tensor) digest.Algorithm {
	for _, p := range core.PayloadsOf(t) {
		if d, err := digest.Parse(p.Digest, false); err == nil && p.Digest != "" {
			return d.Algorithm
		}
	}
	return digest.None
}

// offsetOf is the field that says where a component is.
func offsetOf(_ *core.Payload, at int64) cbor.Pair {
	b, _ := cbor.Marshal(at) // of a number, which does not fail
	return cbor.PairOf("offset", b)
}

// Continue returns a Writer of a new edition of a file, to out, with all its tensors.
func Continue(r *core.File, out format.Target, o core.Settings) (*Writer, error) {
	w := NewWriter(out, true, o)
	var err error
	w.edition, err = core.NewEdition(r, r.Tensors)
	for _, t := range r.Tensors {
		if err == nil {
			err = format.Register(&w.Writer.Writer, t.Name,
				item{w: w, t: t, kept: true, name: t.Name})
		}
	}
	if err != nil {
		w.Abort()
		return nil, err
	}
	return w, nil
}
