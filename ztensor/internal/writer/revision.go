package writer

import (
	"cmp"
	"context"
	"slices"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
)

// A revision has the tensors that a new file carries over from r: their data and entries
// stay as they are, but for the offsets.
type revision struct {
	r       *core.File
	extents []core.Extent             // of the data, in the order of the file
	objects map[*tensor.Tensor][]byte // entries of the manifest of r
	offsets map[core.Extent]int64     // in the new file; nil before copy
}

// beginRevision makes w carry over tensors of r. It returns the fields of r's manifest
// that are not tensors.
func (w *Writer) beginRevision(r *core.File, carried []*tensor.Tensor) (others []cbor.Pair,
	err error) {
	e := &revision{r: r, objects: make(map[*tensor.Tensor][]byte, len(carried))}
	w.revision = e
	named := make(map[string]*tensor.Tensor, len(carried))
	for _, t := range carried {
		named[t.Name] = t
		for _, p := range core.PayloadsOf(t) {
			if p.Shard == 0 {
				e.extents = append(e.extents, core.Extent{Off: p.Offset, Length: p.Length})
			}
		}
	}
	slices.SortFunc(e.extents, func(a, b core.Extent) int {
		return cmp.Or(cmp.Compare(a.Off, b.Off), cmp.Compare(a.Length, b.Length))
	})
	e.extents = slices.Compact(e.extents)
	return Objects(r, func(name string, object []byte) {
		if t := named[name]; t != nil {
			e.objects[t] = object
		}
	})
}

// Apply writes the file of an Edit of r. It first calls begin with the other fields of
// the manifest, and with the tensors that are replaced, by their new names.
func (w *Writer) Apply(ctx context.Context, r *core.File, e *format.Edit,
	begin func(others []cbor.Pair, replaced map[string]*tensor.Tensor)) error {
	var order, last []int // last: tensors that are replaced
	var carried []*tensor.Tensor
	replaced := map[string]*tensor.Tensor{}
	for i, t := range r.Tensors {
		switch c, err := format.ChangeOf(e, i, t.Name); {
		case err != nil:
			w.Abort()
			return err
		case c.Removed:
		case c.Tensor != nil:
			last = append(last, i)
			replaced[c.Name] = t
		default:
			order, carried = append(order, i), append(carried, t)
		}
	}
	others, err := w.beginRevision(r, carried)
	if err != nil {
		w.Abort()
		return err
	}
	begin(others, replaced)
	return format.Apply(ctx, e, &w.Writer, append(order, last...),
		func(i int, name string) (Item, error) {
			return Item{Name: name, T: r.Tensors[i], carried: true}, nil
		})
}

// CarryAll adds all tensors of r as they are. It returns the other fields of its
// manifest.
func (w *Writer) CarryAll(r *core.File) (others []cbor.Pair, err error) {
	others, err = w.beginRevision(r, r.Tensors)
	for _, t := range r.Tensors {
		if err == nil {
			err = format.Register(&w.Writer, t.Name, Item{Name: t.Name, T: t, carried: true})
		}
	}
	return others, err
}

// CopyCarried sets the Object of an item that is carried over. The first call copies the
// data of all carried tensors, each payload at a multiple of align. field returns the
// field of a part that has the offset.
func (w *Writer) CopyCarried(ctx context.Context, it *Item, align int64,
	field func(p *core.Payload, at int64) cbor.Pair) error {
	if !it.carried {
		return nil
	}
	e := w.revision
	if err := e.copy(ctx, w.Out, align); err != nil {
		return err
	}
	it.Object = EditParts(e.r, e.objects[it.T], func(role string, part []cbor.Pair) []cbor.Pair {
		for _, p := range core.PayloadsOf(it.T) {
			if p.Shard == 0 && p.Role() == role {
				moved := field(p, e.offsets[core.Extent{Off: p.Offset, Length: p.Length}])
				i := slices.IndexFunc(part, func(f cbor.Pair) bool { return f.Name == moved.Name })
				if i >= 0 { // else the file has changed since it was opened
					part[i] = moved
				}
			}
		}
		return part
	})
	return nil
}

// copy copies the data of all carried tensors, the first time.
func (e *revision) copy(ctx context.Context, out *Out, align int64) error {
	if e.offsets != nil {
		return nil
	}
	e.offsets = make(map[core.Extent]int64, len(e.extents))
	for _, x := range e.extents {
		if err := out.Pad(align); err != nil {
			return err
		}
		e.offsets[x] = out.Off
		from, err := e.r.Extent(x.Off, x.Length)
		if err == nil {
			_, err = format.CopyBlob(format.Until(ctx, out), tensor.NewBlob(&from), x.Length)
		}
		if err != nil {
			return e.r.Locate(x.Off, "", err)
		}
	}
	return nil
}

// Objects splits the manifest of r without decoding it, so that unknown fields survive.
// It calls use with the entry of each tensor, and returns the other fields.
func Objects(r *core.File, use func(name string, object []byte)) (others []cbor.Pair, err error) {
	b, err := r.Metadata(r.ManifestAt, r.ManifestSize)
	if err != nil {
		return nil, r.Locate(r.ManifestAt, "manifest", err)
	}
	c := cursor(r, b)
	for _, f := range c.Pairs() {
		if f.Name != r.List {
			others = append(others, f)
			continue
		}
		in := cursor(r, f.Value)
		for _, o := range in.Pairs() {
			use(o.Name, o.Value)
		}
	}
	return others, r.Locate(r.ManifestAt, "manifest", c.Err) // changed since it was opened
}

func cursor(r *core.File, b []byte) cbor.Cursor {
	if r.IsVersion2 {
		return cbor.NewStrict(b, r.Options.Limits)
	}
	return cbor.New(b, r.Options.Limits)
}

// EditParts returns the entry of a tensor with the fields of each part that edit returns.
func EditParts(r *core.File, object []byte,
	edit func(role string, part []cbor.Pair) []cbor.Pair) []byte {
	c := cursor(r, object)
	fields := c.Pairs()
	for i, f := range fields {
		if f.Name != r.Roles {
			continue
		}
		in := cursor(r, f.Value)
		parts := in.Pairs()
		for k := range parts {
			p := &parts[k]
			in := cursor(r, p.Value)
			p.Value = cbor.AppendPairs(nil, edit(p.Name, in.Pairs()), r.IsVersion2)
		}
		fields[i].Value = cbor.AppendPairs(nil, parts, false)
	}
	return cbor.AppendPairs(nil, fields, false)
}
