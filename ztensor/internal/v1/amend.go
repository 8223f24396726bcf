package v1

import (
	"context"
	"encoding/binary"

	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
)

// An amendable is the manifest of a file that a new edition is made of, taken
// apart but not understood: what this library does not know survives.
type amendable struct {
	r       *core.File
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
func readAmendable(r *core.File) (*amendable, error) {
	b, err := r.Src.Metadata(r.ManifestAt, r.ManifestSize)
	if err != nil {
		return nil, r.Placed(r.ManifestAt, "manifest", err)
	}
	m := &amendable{r: r, bytes: b}
	c := cbor.New(b, r.Limits)
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
		return nil, r.Bad(r.ManifestAt, "manifest", c.Err)
	}
	return m, nil
}

// keep takes an entry over as it stands.
func (l *Layout) keep(w *core.Writer, name string, object []byte) {
	from := len(l.manifest)
	l.manifest = append(l.manifest, object...)
	w.Names[name], w.Kept[name] = true, true
	l.entries = append(l.entries, entry{name: name, from: from, split: -1, to: len(l.manifest)})
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
func (e entryEdit) moved(places map[core.Extent]int64) []byte {
	var b []byte
	at := 0
	for _, p := range e.parts {
		b = append(b, e.object[at:p.offset.from]...)
		b = cbor.AppendHead(b, cbor.Uint, uint64(places[core.Extent{Off: int64(p.offset.value), Length: int64(p.length.value)}]))
		at = p.offset.to
	}
	return append(b, e.object[at:]...)
}

// footer1 is what comes behind a manifest of size bytes; with the second magic
// from 1.1 on.
func appendFooter(size int64, second bool) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(size))
	if second {
		b = append(b, core.Magic1...)
	}
	return b
}

func (l *Layout) Carry(ctx context.Context, w *core.Writer, r *core.File, names map[string]string) error {
	m, err := readAmendable(r)
	if err != nil {
		return err
	}
	l.others, l.otherCount = m.others, m.count
	var kept []entryEdit
	var order []core.Extent
	for _, entry := range m.entries {
		if _, ok := names[entry.name]; ok {
			k := entryEdit{entry, entry.components()}
			kept = append(kept, k)
			for _, p := range k.parts {
				order = append(order, core.Extent{Off: int64(p.offset.value), Length: int64(p.length.value)})
			}
		}
	}
	places, err := w.CopyExtents(ctx, r, order, alignment)
	if err != nil {
		return err
	}
	for _, k := range kept {
		l.keep(w, names[k.name], k.moved(places))
	}
	return nil
}

// Extend copies the data of the file and its manifest.
func (c *container) Extend(name string, o core.Settings) (*core.Writer, error) {
	r := c.r
	if err := c.Edition(&o); err != nil {
		return nil, err
	}
	m, err := readAmendable(r)
	if err != nil {
		return nil, err
	}
	l, err := NewLayout(o)
	if err != nil {
		return nil, err
	}
	f, err := atomicfile.Create(name)
	if err != nil {
		return nil, err
	}
	w := core.NewFileWriter(f)
	l.others, l.otherCount = m.others, m.count
	w.Prepare(l, o)
	err = w.CopyFrom(context.Background(), r, 0, r.ManifestAt)
	for _, e := range m.entries {
		if err == nil {
			l.keep(w, e.name, e.object)
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
