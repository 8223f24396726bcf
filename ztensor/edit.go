package ztensor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/internal/limit"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
)

// An Edit is a new edition of a file of version 1.0, 1.1, 1.2 or 2. Stored bytes,
// digests and attributes that it does not change stay as they are, and so does
// what this library does not know of the manifest. Names are those of the
// original, and all changes apply at once, when it is written: two tensors can
// swap their names. It is for one goroutine at a time.
type Edit struct {
	r       *Reader
	changes map[string]tensorChange
	order   []string // of the tensors that are replaced
	set     map[string]string
	unset   map[string]bool
}

// A tensorChange is what becomes of a tensor of the original.
type tensorChange struct {
	removed bool
	renamed bool
	name    string         // if renamed
	tensor  *tensor.Tensor // that replaces it
}

// NewEdit begins an edition of the file of r, which must stay open until it is
// written.
func NewEdit(r *Reader) *Edit {
	return &Edit{r: r, changes: map[string]tensorChange{}, set: map[string]string{}, unset: map[string]bool{}}
}

func (e *Edit) update(name string, f func(c *tensorChange)) error {
	if e.r.Tensor(name) == nil {
		return fmt.Errorf("ztensor: %w: %s", tensor.ErrNoTensor, quote.Name(name))
	}
	c := e.changes[name]
	f(&c)
	e.changes[name] = c
	return nil
}

// Rename gives a tensor another name. It fails with tensor.ErrNoTensor where the
// original has no such tensor; that the new name is taken is tensor.ErrDuplicate
// from Write.
func (e *Edit) Rename(old, new string) error {
	return e.update(old, func(c *tensorChange) { c.renamed, c.name = true, new })
}

// Remove leaves a tensor out.
func (e *Edit) Remove(name string) error {
	return e.update(name, func(c *tensorChange) { c.removed, c.tensor = true, nil })
}

// Replace stores t, whose Name does not matter, in place of a tensor, which keeps
// its attributes. Its Data must stay readable until Write.
func (e *Edit) Replace(name string, t *tensor.Tensor) error {
	if err := t.Check(); err != nil {
		return err
	}
	return e.update(name, func(c *tensorChange) {
		if c.tensor == nil {
			e.order = append(e.order, name)
		}
		c.removed, c.tensor = false, t
	})
}

// SetAttribute sets an attribute of the file to a text.
func (e *Edit) SetAttribute(key, value string) error {
	e.set[key] = value
	delete(e.unset, key)
	return nil
}

// RemoveAttribute leaves out an attribute of the file, if there is one.
func (e *Edit) RemoveAttribute(key string) error {
	e.unset[key] = true
	delete(e.set, key)
	return nil
}

// Write writes the edition to w, which it neither seeks nor closes. opts may be
// nil; its Version must be that of the file or "", its Attributes are set in
// addition, and the others are for tensors that are replaced. The result is not
// in canonical form.
func (e *Edit) Write(ctx context.Context, w io.Writer, opts *WriterOptions) error {
	o, err := e.options(opts)
	if err != nil {
		return err
	}
	out := newWriter(w)
	if out.prepare(&o); out.err == nil {
		out.write([]byte(out.layout.magic()))
	}
	return e.write(ctx, out, opts)
}

// WriteFile writes the edition as a file, atomically as [Create] does. name may be
// that of the original.
func (e *Edit) WriteFile(ctx context.Context, name string, opts *WriterOptions) error {
	o, err := e.options(opts)
	if err != nil {
		return err
	}
	if err := o.Check(); err != nil {
		return err
	}
	f, err := atomicfile.Create(name)
	if err != nil {
		return err
	}
	return e.write(ctx, fileWriter(f, &o), opts)
}

// options returns those of the new file.
func (e *Edit) options(opts *WriterOptions) (WriterOptions, error) {
	r := e.r
	var o WriterOptions
	if opts != nil {
		o = *opts
	}
	switch r.version {
	case Version10, Version11, Version12:
		if o.Generator == "" {
			o.Generator = r.generator
		}
	case Version2:
		if r.two.data {
			return o, fmt.Errorf("ztensor: %w: an edition of a file without a manifest", errors.ErrUnsupported)
		}
		if o.Alignment == 0 {
			o.Alignment = r.alignment2()
		}
	default:
		return o, fmt.Errorf("ztensor: %w: an edition of version %s", errors.ErrUnsupported, r.version)
	}
	if o.Version != "" && o.Version != r.version {
		return o, fmt.Errorf("ztensor: %w: an edition as version %s of a file of version %s", errors.ErrUnsupported, o.Version, r.version)
	}
	o.Version, o.Canonical = r.version, false
	all := map[string]any{}
	for k, v := range r.AttributeValues() {
		all[k] = v
	}
	for k, v := range o.Attributes {
		all[k] = v
	}
	for k, v := range e.set {
		all[k] = v
	}
	for k := range e.unset {
		delete(all, k)
	}
	o.Attributes = all
	return o, nil
}

// write fills and closes w.
func (e *Edit) write(ctx context.Context, w *Writer, opts *WriterOptions) error {
	defer w.Abort()
	if err := w.usable(); err != nil {
		return err
	}
	names, err := e.names()
	if err != nil {
		return err
	}
	if err := w.layout.carry(ctx, w, e, names); err != nil {
		return err
	}
	for _, name := range e.order {
		c := e.changes[name]
		if c.tensor == nil {
			continue
		}
		t := *c.tensor
		t.Name = e.newName(name)
		if own := e.r.ownCBOR(name); own != nil {
			w.own[t.Name] = own
		}
		if opts == nil || opts.Digest == NoDigest {
			w.digest = e.r.digestOf(name)
		}
		if err := w.AddAll(ctx, tensor.Of(&t)); err != nil {
			return err
		}
	}
	return w.Close()
}

// newName returns the name that a tensor of the original has in the edition.
func (e *Edit) newName(name string) string {
	if c := e.changes[name]; c.renamed {
		return c.name
	}
	return name
}

// names returns the new names of the tensors that are kept as they are.
func (e *Edit) names() (map[string]string, error) {
	kept, taken := map[string]string{}, map[string]bool{}
	for t := range e.r.Tensors() {
		c := e.changes[t.Name]
		if c.removed {
			continue
		}
		as := e.newName(t.Name)
		if taken[as] {
			return nil, fmt.Errorf("ztensor: %w: %s", tensor.ErrDuplicate, quote.Name(as))
		}
		taken[as] = true
		if c.tensor == nil {
			kept[t.Name] = as
		}
	}
	return kept, nil
}

// ownCBOR returns the attributes of the tensor of that name, encoded.
func (r *Reader) ownCBOR(name string) []byte {
	i := r.find(name)
	for _, own := range r.ownAttrs {
		if own.tensor == i {
			return own.encoded
		}
	}
	return nil
}

// digestOf returns the algorithm of the digest of a tensor of version 1.
func (r *Reader) digestOf(name string) Digest {
	t := r.Tensor(name)
	blobs := []tensor.Blob{t.Data}
	for i := range t.Parts {
		blobs = append(blobs, t.Parts[i].Data)
	}
	for _, b := range blobs {
		if c, ok := b.Source().(*component); ok {
			if want, ok, err := c.wanted(); ok && err == nil {
				return want.alg
			}
		}
	}
	return NoDigest
}

func (l *layout1) carry(ctx context.Context, w *Writer, e *Edit, names map[string]string) error {
	m, err := e.r.readAmendable()
	if err != nil {
		return err
	}
	w.others, w.otherCount = m.others, m.count
	var kept []entryEdit
	var order []extent
	for _, entry := range m.entries {
		if _, ok := names[entry.name]; ok {
			k := entryEdit{entry, entry.components()}
			kept = append(kept, k)
			for _, p := range k.parts {
				order = append(order, extent{int64(p.offset.value), int64(p.length.value)})
			}
		}
	}
	places, err := w.copyExtents(ctx, e.r, order, alignment)
	if err != nil {
		return err
	}
	for _, k := range kept {
		w.carry(names[k.name], k.moved(places))
	}
	return nil
}

// carry leaves what is in shards there.
func (l *layout2) carry(ctx context.Context, w *Writer, e *Edit, names map[string]string) error {
	r := e.r
	var order []extent
	for name := range names {
		for _, p := range r.parts2(r.Tensor(name)) {
			if p.blob.shard == 0 {
				order = append(order, extent{p.blob.offset, p.blob.length})
			}
		}
	}
	places, err := w.copyExtents(ctx, r, order, l.align)
	if err != nil {
		return err
	}
	fields, err := r.manifestFields()
	if err != nil {
		return err
	}
	for _, f := range fields {
		in := cbor.NewStrict(f.Value, r.limits)
		switch string(f.Key) {
		case "\x67objects":
			for _, o := range in.Pairs() {
				key := cbor.NewStrict(o.Key, r.limits)
				if as, ok := names[string(key.Text())]; ok {
					object := cbor.NewStrict(o.Value, r.limits)
					moved := editParts(&object, func(part []cbor.Pair) []cbor.Pair { return movedPart(part, places) })
					l.objects = append(l.objects, object2{name: as, whole: cbor.AppendPairs(nil, moved)})
					w.names[as] = true
				}
			}
		case "\x66shards":
			l.shards = in.Pairs()
		case "\x6aattributes": // the Writer has them
		default:
			l.others = append(l.others, f)
		}
	}
	return nil
}

// movedPart returns the fields of a part whose bytes are somewhere else.
func movedPart(part []cbor.Pair, places map[extent]int64) []cbor.Pair {
	if slices.ContainsFunc(part, func(f cbor.Pair) bool { return string(f.Key) == "\x65shard" }) {
		return part
	}
	for i, f := range part {
		if string(f.Key) != "\x64blob" {
			continue
		}
		c := cbor.NewStrict(f.Value, limit.Defaults())
		c.Container(cbor.Array)
		at, n := c.Uint(), c.Uint()
		b := cbor.AppendHead(nil, cbor.Array, 2)
		b = cbor.AppendHead(b, cbor.Uint, uint64(places[extent{int64(at), int64(n)}]))
		part[i].Value = cbor.AppendHead(b, cbor.Uint, n)
	}
	return part
}

// copyExtents writes pieces of r in the order in which they are there, those of
// several tensors once, and returns where they are now.
func (w *Writer) copyExtents(ctx context.Context, r *Reader, order []extent, alignment int64) (map[extent]int64, error) {
	slices.SortFunc(order, extent.compare)
	places := map[extent]int64{}
	for _, e := range slices.Compact(order) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if e.length == 0 {
			at, ok := align.Up(w.off, alignment)
			if !ok {
				return nil, fmt.Errorf("ztensor: %w: a file beyond 2^63 bytes", tensor.ErrLimit)
			}
			places[e] = at
			continue
		}
		if err := w.pad(alignment); err != nil {
			return nil, err
		}
		places[e] = w.off
		if err := w.copyFrom(ctx, r, e.off, e.off+e.length); err != nil {
			return nil, err
		}
	}
	return places, nil
}
