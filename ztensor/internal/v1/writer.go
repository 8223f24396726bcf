package v1

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
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
	"github.com/tensorfile/tensorfile/ztensor/internal/dtype"
	"github.com/tensorfile/tensorfile/ztensor/internal/writer"
)

// maxPrepared is the size of the largest component that is read or compressed in memory
// before it is written; others are streamed.
const maxPrepared = 8 << 20

// A Writer writes 1.0: components as tensors are added, the manifest by Close.
type Writer struct {
	writer.Writer
	generator  string
	attributes []byte // a CBOR map
	digest     digest.Algorithm
	level      int

	entries []cbor.Pair                 // of tensors, in the order in which they were added
	others  []cbor.Pair                 // other fields of the original's manifest
	digests map[string]digest.Algorithm // of tensors that replace others, by name
}

// componentFields are the fields of a component, in upstream's order.
type componentFields struct {
	Offset   int64  `cbor:"offset"`
	Length   int64  `cbor:"length"`
	Encoding string `cbor:"encoding,omitempty"`
	Digest   string `cbor:"digest,omitempty"`
}

// tensorFields are the fields of a tensor, in upstream's order.
type tensorFields struct {
	DType      string    `cbor:"dtype"`
	Shape      []int64   `cbor:"shape"`
	Format     string    `cbor:"format"`
	Components cbor.Item `cbor:"components"`
}

// NewWriter returns a Writer to out. If owned is set, out is a format.Target, which Close
// and Abort end.
func NewWriter(out io.Writer, owned bool, o writer.Settings) *Writer {
	w := &Writer{generator: cmp.Or(o.Generator, "tensorfile"), digest: o.Digest, level: o.Level}
	w.Magic, w.Limit, w.DigestsStored = Magic1, maxPrepared, true
	o.Err = cmp.Or(o.Err, w.configure(o))
	w.Init(out, owned, o, format.Encoding[writer.Item]{Item: w.item, Check: checkName,
		Examine: examine, Append: w.append, Encode: w.encode})
	return w
}

func (w *Writer) configure(o writer.Settings) (err error) {
	if w.level > 0 {
		stream, err := writer.NewEncoder(w.level)
		if err != nil {
			return err
		}
		whole, err := writer.NewEncoder(w.level, zstd.WithEncoderConcurrency(0))
		if err != nil {
			return err
		}
		w.Compress = func(all []byte) []byte {
			return whole.EncodeAll(all, make([]byte, 0, len(all)))
		}
		w.Stream = func(_ context.Context, size int64, out io.Writer) io.WriteCloser {
			stream.ResetContentSize(out, size)
			return stream
		}
	}
	w.attributes, err = writer.Attributes(o.Attributes, strings.Compare, checkText)
	return err
}

// checkText refuses a value that is not text: attributes of 1.0 are text.
func checkText(_ string, value []byte) ([]byte, error) {
	if _, ok := cbor.TextOf(value); !ok {
		return nil, fmt.Errorf("%w: it is not text, version 1.0 has no other",
			errors.ErrUnsupported)
	}
	return value, nil
}

// item lists the components of a tensor in the order of the file.
func (w *Writer) item(t *tensor.Tensor) (it writer.Item, err error) {
	if err := check(t); err != nil {
		return it, err
	}
	a := w.digest
	if replaced, ok := w.digests[t.Name]; ok {
		a = replaced
	}
	if t.Dense() {
		it.Parts = append(it.Parts, w.NewPart(t, "data", t.DType, t.Data, a))
	}
	indexed := isSparse(t.Scheme)
	for _, p := range t.Parts {
		if indexed && slices.Contains(core.IndexRoles, p.Role) {
			p = sparse.Widen(context.Background(), p)
		}
		it.Parts = append(it.Parts, w.NewPart(t, p.Role, p.DType, p.Data, a))
	}
	if indexed {
		slices.SortStableFunc(it.Parts,
			func(a, b writer.Part) int { return fileOrder(a.Role) - fileOrder(b.Role) })
	}
	return it, nil
}

// fileOrder returns the position of a role in the order in which upstream writes the
// components of sparse tensors.
func fileOrder(role string) int {
	if role == "values" {
		return -1
	}
	if i := slices.Index(core.IndexRoles, role); i >= 0 {
		return i
	}
	return len(core.IndexRoles)
}

// checkName refuses a name that is not UTF-8.
func checkName(name string, _ *writer.Item) error {
	if !utf8.ValidString(name) {
		return core.Errs.Tensor(name, errors.ErrUnsupported, "the name is not UTF-8")
	}
	return nil
}

// check requires that 1.0 has the dtype of the tensor, and that parts have no other
// dtype. The dtype of a sparse tensor is the dtype of its values; its indices become
// uint64.
func check(t *tensor.Tensor) error {
	known := func(what string, d tensor.DType) error {
		if dtype.StorageName(d, false) == "" {
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
				errors.ErrUnsupported, naming.Quote(p.Role), p.DType)
		}
	}
	return nil
}

// examine reads the indices of a sparse tensor.
func examine(ctx context.Context, it *writer.Item) error {
	if !isSparse(it.T.Scheme) {
		return nil
	}
	if err := sparse.Check(ctx, it.T, nil); err != nil {
		return writer.TensorError(it.Name, err)
	}
	return nil
}

// append writes the components of an item, and adds its entry of the manifest.
func (w *Writer) append(to *format.Output, it *writer.Item) error {
	ctx := format.ContextOf(to)
	w.Begin(to)
	if err := w.CopyCarried(ctx, it, alignment, offsetOf); err != nil {
		return err
	}
	if it.Object != nil {
		w.entries = append(w.entries, cbor.PairOf(it.Name, it.Object))
		return nil
	}
	for i := range it.Parts {
		err := w.store(ctx, &it.Parts[i])
		if err == nil && i == len(it.Parts)-1 {
			err = it.CheckWritten()
		}
		if err != nil {
			return writer.TensorError(it.Name, err)
		}
	}
	return w.addEntry(it)
}

// store writes a component.
func (w *Writer) store(ctx context.Context, p *writer.Part) error {
	if err := cmp.Or(w.Prepare(ctx, p), w.Out.Pad(alignment)); err != nil {
		return err
	}
	return w.Put(ctx, p)
}

// addEntry adds the entry of a tensor whose components have been written. It sorts them
// by role.
func (w *Writer) addEntry(it *writer.Item) error {
	slices.SortFunc(it.Parts,
		func(a, b writer.Part) int { return strings.Compare(a.Role, b.Role) })
	d, all := it.T.DType, make([]cbor.Pair, len(it.Parts))
	for i, p := range it.Parts {
		if p.Role == "values" && d == tensor.Unknown {
			d = p.DType
		}
		c := componentFields{Offset: p.Offset, Length: p.Length, Digest: p.Digest}
		if w.level > 0 {
			c.Encoding = "zstd"
		}
		b, err := cbor.MarshalFields(c)
		if err != nil {
			return err
		}
		all[i] = cbor.PairOf(p.Role, b)
	}
	b, err := cbor.MarshalFields(tensorFields{dtype.StorageName(d, false),
		append([]int64{}, it.T.Shape...), cmp.Or(it.T.Scheme, "dense"),
		cbor.AppendPairs(nil, all, false)})
	w.entries = append(w.entries, cbor.PairOf(it.T.Name, b))
	return err
}

// encode writes the manifest and the footer. The document requires the manifest to be
// smaller than the file by more than 16 bytes: if there are no components, padding does
// that.
func (w *Writer) encode(to *format.Output, _ []writer.Item) error {
	w.Begin(to)
	out := w.Out
	if out.Off < alignment {
		out.Pad(alignment)
	}
	slices.SortFunc(w.entries, func(a, b cbor.Pair) int { return strings.Compare(a.Name, b.Name) })
	root := []cbor.Pair{cbor.PairOf("version", cbor.AppendText(nil, "1.0")),
		cbor.PairOf("generator", cbor.AppendText(nil, w.generator)),
		cbor.PairOf("attributes", w.attributes)}
	for _, f := range w.others {
		if f.Name != "version" && f.Name != "generator" && f.Name != "attributes" {
			root = append(root, f)
		}
	}
	root = append(root, cbor.PairOf("tensors", cbor.AppendPairs(nil, w.entries, false)))
	b := cbor.AppendPairs(nil, root, false)
	if err := w.PutManifest(b); err != nil {
		return err
	}
	out.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(b))))
	return out.Flush()
}

// TensorAttributes fails: 1.0 has none.
func (w *Writer) TensorAttributes(string, map[string]any) error {
	return core.Errs.New(errors.ErrUnsupported, "attributes of a tensor in version 1.0")
}

// Apply writes the file of an Edit of r. A tensor that replaces another has a digest of
// the same algorithm, unless the Writer has one.
func (w *Writer) Apply(ctx context.Context, r *core.File, e *format.Edit) error {
	return w.Writer.Apply(ctx, r, e, func(others []cbor.Pair,
		replaced map[string]*tensor.Tensor) {
		w.others, w.digests = others, map[string]digest.Algorithm{}
		for name, t := range replaced {
			if w.digest == digest.None {
				w.digests[name] = digestOf(t)
			}
		}
	})
}

// digestOf returns the algorithm of the first digest of a tensor.
func digestOf(t *tensor.Tensor) digest.Algorithm {
	for _, p := range core.PayloadsOf(t) {
		if d, err := digest.Parse(p.Digest, false); err == nil && p.Digest != "" {
			return d.Algorithm
		}
	}
	return digest.None
}

// offsetOf returns the field offset of a component.
func offsetOf(_ *core.Payload, at int64) cbor.Pair {
	b, _ := cbor.Marshal(at) // never fails for a number
	return cbor.PairOf("offset", b)
}

// Continue returns a Writer to out that writes all tensors of r, and the ones that are
// added.
func Continue(r *core.File, out format.Target, o writer.Settings) (*Writer, error) {
	w := NewWriter(out, true, o)
	var err error
	if w.others, err = w.CarryAll(r); err != nil {
		w.Abort()
		return nil, err
	}
	return w, nil
}
