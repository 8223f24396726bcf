package ztensor

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
)

// Append begins a new edition of the file of that name, with its tensors and
// attributes and those that are added. opts.Version must be that of the file or
// "", opts.Attributes are set beside the old ones. 1.0 to 1.2 and 2 can be
// appended to.
//
// Of version 1 the new edition appears in the place of the old one when Close
// succeeds; until then the old one stays as it is. So the data is copied once,
// where upstream's append cuts off the old manifest and loses the file if it is
// interrupted.
//
// To a file of version 2 data is added behind its end, and not a byte of it
// changes: who has it open can go on reading. From the first Add until Close
// succeeds nobody can open it; after an error, or Abort, it is what it was. Where
// the program, or the machine, does not come to either, [Recover] makes it so.
// Nobody else may append at the same time. The result is never in canonical form.
// opts.Alignment is that of the file unless it is given.
func Append(name string, opts *WriterOptions) (*Writer, error) {
	var o WriterOptions
	if opts != nil {
		o = *opts
	}
	r, err := Open(name, nil)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if o.Version != "" && o.Version != r.Version() {
		return nil, fmt.Errorf("ztensor: %w: appending as version %s to a file of version %s", errors.ErrUnsupported, o.Version, r.Version())
	}
	o.Version = r.Version()
	if o.Version == "2" {
		return append2(name, r.Size(), o)
	}
	m, err := r.readAmendable()
	if err != nil {
		return nil, err
	}
	w, err := m.edition(name, o)
	if err != nil {
		return nil, err
	}
	err = w.copyFrom(r, 0, r.manifestAt)
	for _, e := range m.entries {
		if err == nil {
			w.carry(e.name, e.object)
		}
	}
	if err == nil {
		err = r.Close() // before the file is replaced: Windows wants it so
	}
	if err != nil {
		w.Abort()
		return nil, err
	}
	return w, nil
}

// Remove writes the file in to out, which may be the same, without the tensors
// of these names. It works for versions 1.0 to 1.2, and is errors.ErrUnsupported
// for others. It is an error if one of them is not there. Stored bytes,
// digests, attributes, and what this library does not know of the manifest stay
// as they are; components move up.
func Remove(in, out string, names ...string) error {
	r, err := Open(in, nil)
	if err != nil {
		return err
	}
	defer r.Close()
	m, err := r.readAmendable()
	if err != nil {
		return err
	}
	for _, name := range names {
		if r.Tensor(name) == nil {
			return fmt.Errorf("ztensor: %w: no tensor %s", tensor.ErrNoTensor, tensor.Quote(name))
		}
	}
	w, err := m.edition(out, WriterOptions{Version: r.Version()})
	if err != nil {
		return err
	}
	defer w.Abort()
	kept := make([]edit, 0, len(m.entries))
	for _, e := range m.entries {
		if !slices.Contains(names, e.name) {
			kept = append(kept, edit{e, e.components()})
		}
	}
	places, err := w.copyComponents(r, kept)
	if err != nil {
		return err
	}
	for _, e := range kept {
		w.carry(e.name, e.moved(places))
	}
	if err := r.Close(); err != nil {
		return err
	}
	return w.Close()
}

// Replace puts other elements in the place of those of a dense tensor that is
// stored raw, as many bytes as before, and renews its digest, if it has one. It
// works for versions 1.0 to 1.2, and is errors.ErrUnsupported for others. The
// new edition of the file appears whole or not at all.
func Replace(name, tensorName string, elements tensor.Blob) error {
	r, err := Open(name, nil)
	if err != nil {
		return err
	}
	defer r.Close()
	m, err := r.readAmendable()
	if err != nil {
		return err
	}
	fail := func(err error) error { return fmt.Errorf("ztensor: tensor %s: %w", tensor.Quote(tensorName), err) }
	t := r.Tensor(tensorName)
	if t == nil {
		return fail(tensor.ErrNoTensor)
	}
	c, ok := t.Data.Source().(*component)
	if !ok || !t.Dense() || c.encoding != encodingRaw || c.readable() != nil {
		return fail(fmt.Errorf("%w: it is not dense and raw", errors.ErrUnsupported))
	}
	if elements.Size() != c.length {
		return fail(fmt.Errorf("%w: %d bytes in the place of %d", tensor.ErrMalformed, elements.Size(), c.length))
	}
	for o := range r.components.all() {
		if o != c && o.offset < c.offset+c.length && c.offset < o.offset+o.length {
			return fail(fmt.Errorf("%w: %s shares its bytes", errors.ErrUnsupported, r.path(o)))
		}
	}
	alg := NoDigest
	if want, ok, err := c.wanted(); err != nil {
		return fail(err)
	} else if ok {
		alg = want.alg
	}
	f, err := atomicfile.Create(name)
	if err != nil {
		return err
	}
	w := &Writer{w: f, file: f, flush: func() error { return nil }}
	defer w.Abort()
	if err := w.copyFrom(r, 0, c.offset); err != nil {
		return err
	}
	s := sink{w: writerFunc(func(p []byte) (int, error) { return len(p), w.write(p) }), h: newHasher(alg)}
	in := feed{out: &s, dtype: c.dtype}
	if err := in.from(context.Background(), elements, &w.buf); err != nil {
		return fail(err)
	}
	if err := w.copyFrom(r, c.offset+c.length, r.manifestAt); err != nil {
		return err
	}
	w.write(m.withDigest(tensorName, string(s.h.appendText(nil))))
	size := w.off - r.manifestAt
	w.write(footer1(size, r.Version() != "1.0"))
	if err := r.Close(); err != nil {
		return err
	}
	w.done = true
	if w.err != nil {
		f.Abort()
		return w.err
	}
	return f.Close()
}

// An amendable is the manifest of a file that a new edition is made of, taken
// apart but not understood: what this library does not know survives.
type amendable struct {
	r       *Reader
	bytes   []byte
	entries []rawEntry
	others  []byte // root keys that this library does not know, with their values
	count   uint64 // how many
}

// A rawEntry is a tensor of the manifest.
type rawEntry struct {
	name   string
	object []byte // CBOR
	at     int    // in the manifest
}

// readAmendable reads the manifest again. The Reader has checked it.
func (r *Reader) readAmendable() (*amendable, error) {
	if r.version != "1.0" && r.version != "1.1" && r.version != "1.2" {
		return nil, fmt.Errorf("ztensor: %w: a new edition of version %s", errors.ErrUnsupported, r.version)
	}
	b, err := r.src.Metadata(r.manifestAt, r.manifestSize)
	if err != nil {
		return nil, r.placed(r.manifestAt, "manifest", err)
	}
	m := &amendable{r: r, bytes: b}
	c := cbor.New(b, r.limits)
	for n := c.Container(cbor.Map); c.More(&n); {
		from := c.P
		switch key := c.Text(); string(key) {
		case "version", "generator", "attributes":
			c.Skip()
		case "tensors", "objects":
			for n := c.Container(cbor.Map); c.More(&n); {
				name := c.Text()
				from := c.P
				c.Skip()
				m.entries = append(m.entries, rawEntry{string(name), c.B[from:c.P:c.P], from})
			}
		default:
			c.Skip()
			m.others = append(m.others, c.B[from:c.P]...)
			m.count++
		}
	}
	if c.Err != nil {
		return nil, r.bad(r.manifestAt, "manifest", c.Err)
	}
	return m, nil
}

// edition begins a file with the attributes and the generator of the old one.
func (m *amendable) edition(name string, o WriterOptions) (*Writer, error) {
	all := map[string]any{}
	for k, v := range m.r.AttributeValues() {
		all[k] = v
	}
	for k, v := range o.Attributes {
		all[k] = v
	}
	o.Attributes = all
	if o.Generator == "" {
		o.Generator = m.r.generator
	}
	if _, err := newLayout(o); err != nil {
		return nil, err
	}
	f, err := atomicfile.Create(name)
	if err != nil {
		return nil, err
	}
	w := &Writer{w: f, file: f, flush: func() error { return nil }}
	if w.prepare(&o); w.err != nil {
		f.Abort()
		return nil, w.err
	}
	w.others, w.otherCount = m.others, m.count
	return w, nil
}

// carry takes an entry over as it stands.
func (w *Writer) carry(name string, object []byte) {
	from := len(w.manifest)
	w.manifest = append(w.manifest, object...)
	w.names[name] = true
	w.entries = append(w.entries, entry{name: name, from: from, split: -1, to: len(w.manifest)})
}

// copyFrom writes the bytes of r from one offset to another.
func (w *Writer) copyFrom(r *Reader, from, to int64) error {
	if w.buf == nil {
		w.buf = make([]byte, pieceSize)
	}
	for from < to && w.err == nil {
		p := w.buf[:min(int64(len(w.buf)), to-from)]
		if _, err := r.src.ReadAt(p, from); err != nil {
			return w.fail(r.placed(from, "", err))
		}
		w.write(p)
		from += int64(len(p))
	}
	return w.err
}

// A number is an unsigned integer in the CBOR of an entry.
type number struct {
	from, to int // of the item
	value    uint64
}

// A rawComponent is what moves of a component.
type rawComponent struct {
	offset, length number
	digest         number // value unused; to is 0 where there is none
	role           string
	end            int // of the component's map
}

// An edit is an entry with its components.
type edit struct {
	rawEntry
	parts []rawComponent
}

// components finds the components in the CBOR of an entry.
func (e rawEntry) components() []rawComponent {
	var all []rawComponent
	c := cbor.Cursor{B: e.object, Deep: cbor.MaxNesting}
	for n := c.Container(cbor.Map); c.More(&n); {
		if string(c.Text()) != "components" {
			c.Skip()
			continue
		}
		for n := c.Container(cbor.Map); c.More(&n); {
			p := rawComponent{role: string(c.Text())}
			for n := c.Container(cbor.Map); c.More(&n); {
				key := string(c.Text())
				from := c.P
				switch key {
				case "offset":
					p.offset = number{from, 0, c.Uint()}
					p.offset.to = c.P
				case "length":
					p.length = number{from, 0, c.Uint()}
					p.length.to = c.P
				case "digest":
					c.Skip()
					p.digest = number{from: from, to: c.P}
				default:
					c.Skip()
				}
			}
			p.end = c.P
			all = append(all, p)
		}
	}
	return all
}

// copyComponents writes the stored bytes of all components in the order in which
// they lie in r, those of several only once, and returns where they are now.
func (w *Writer) copyComponents(r *Reader, all []edit) (map[extent]int64, error) {
	var order []extent
	for _, e := range all {
		for _, p := range e.parts {
			order = append(order, extent{int64(p.offset.value), int64(p.length.value)})
		}
	}
	slices.SortFunc(order, func(a, b extent) int {
		if a.off != b.off {
			return int(min(max(a.off-b.off, -1), 1))
		}
		return int(min(max(a.length-b.length, -1), 1))
	})
	places := map[extent]int64{}
	if err := w.write([]byte(w.layout.magic())); err != nil {
		return nil, err
	}
	for _, e := range slices.Compact(order) {
		if err := w.pad(w.layout.alignment()); err != nil {
			return nil, err
		}
		places[e] = w.off
		if err := w.copyFrom(r, e.off, e.off+e.length); err != nil {
			return nil, err
		}
	}
	return places, nil
}

// moved returns the entry's CBOR with the offsets of places.
func (e edit) moved(places map[extent]int64) []byte {
	var b []byte
	at := 0
	for _, p := range e.parts {
		b = append(b, e.object[at:p.offset.from]...)
		b = cbor.AppendHead(b, cbor.Uint, uint64(places[extent{int64(p.offset.value), int64(p.length.value)}]))
		at = p.offset.to
	}
	return append(b, e.object[at:]...)
}

// withDigest returns the manifest with another digest of a dense tensor's data,
// where there was one.
func (m *amendable) withDigest(name, digest string) []byte {
	for _, e := range m.entries {
		if e.name != name {
			continue
		}
		for _, p := range e.components() {
			if p.role == "data" && p.digest.to > 0 && digest != "" {
				b := append(m.bytes[:e.at+p.digest.from:e.at+p.digest.from], cbor.AppendText(nil, digest)...)
				return append(b, m.bytes[e.at+p.digest.to:]...)
			}
		}
	}
	return m.bytes
}

// footer1 is what comes behind a manifest of size bytes; with the second magic
// from 1.1 on.
func footer1(size int64, second bool) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(size))
	if second {
		b = append(b, magic1...)
	}
	return b
}
