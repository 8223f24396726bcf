package ztensor

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tensorfile/tensorfile/internal/atomicfile"
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
	err = w.copyFrom(context.Background(), r, 0, r.manifestAt)
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
	if _, err := newLayout(o, nil); err != nil {
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
func (w *Writer) copyFrom(ctx context.Context, r *Reader, from, to int64) error {
	if w.buf == nil {
		w.buf = make([]byte, pieceSize)
	}
	for from < to && w.err == nil {
		if err := ctx.Err(); err != nil {
			return w.fail(err)
		}
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
	role           string
	end            int // of the component's map
}

// An entryEdit is an entry with its components.
type entryEdit struct {
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

// moved returns the entry's CBOR with the offsets of places.
func (e entryEdit) moved(places map[extent]int64) []byte {
	var b []byte
	at := 0
	for _, p := range e.parts {
		b = append(b, e.object[at:p.offset.from]...)
		b = cbor.AppendHead(b, cbor.Uint, uint64(places[extent{int64(p.offset.value), int64(p.length.value)}]))
		at = p.offset.to
	}
	return append(b, e.object[at:]...)
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
