package v1

import (
	"context"

	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
)

// takeOver takes the manifest of r apart without understanding it, so that what this
// library does not know survives. It keeps the tensors that names has, under their new
// names and with their components at places; nil keeps all of them as they are.
func (l *Layout) takeOver(w *core.Writer, r *core.File, names map[string]string,
	places map[core.Extent]int64) error {
	b, err := r.Src.Metadata(r.ManifestAt, r.ManifestSize)
	if err != nil {
		return r.Placed(r.ManifestAt, "manifest", err)
	}
	c := cbor.New(b, r.Limits)
	for n := c.Container(cbor.Map); c.More(&n); {
		from := c.P
		switch key := c.Text(); string(key) {
		case "version", "generator", "attributes":
			c.Skip()
		case "tensors", "objects":
			for n := c.Container(cbor.Map); c.More(&n); {
				name := string(c.Text())
				from := c.P
				c.Skip()
				object, as, kept := c.B[from:c.P], name, true
				if names != nil {
					as, kept = names[name]
					object = moved(object, places)
				}
				if kept {
					start := len(l.manifest)
					l.manifest = append(l.manifest, object...)
					l.entries = append(l.entries,
						entry{name: as, from: start, split: -1, to: len(l.manifest)})
					w.Names[as], w.Kept[as] = true, true
				}
			}
		default:
			c.Skip()
			l.others.B = append(l.others.B, c.B[from:c.P]...)
			l.others.N++
		}
	}
	return r.Placed(r.ManifestAt, "manifest", c.Err) // the file has changed since it was opened
}

// moved returns the CBOR of a tensor with the offsets of places.
func moved(object []byte, places map[core.Extent]int64) []byte {
	var b []byte
	done := 0
	c := cbor.Cursor{B: object, Deep: cbor.MaxNesting}
	for n := c.Container(cbor.Map); c.More(&n); {
		if string(c.Text()) != "components" {
			c.Skip()
			continue
		}
		for n := c.Container(cbor.Map); c.More(&n); {
			var e core.Extent
			var from, to int // of the offset
			c.Text()
			for n := c.Container(cbor.Map); c.More(&n); {
				switch string(c.Text()) {
				case "offset":
					from = c.P
					e.Off, to = int64(c.Uint()), c.P
				case "length":
					e.Length = int64(c.Uint())
				default:
					c.Skip()
				}
			}
			b = cbor.AppendHead(append(b, object[done:from]...), cbor.Uint, uint64(places[e]))
			done = to
		}
	}
	return append(b, object[done:]...)
}

// Carry takes over what an edition keeps of its original, under new names.
func (l *Layout) Carry(ctx context.Context, w *core.Writer, r *core.File,
	names map[string]string) error {
	var order []core.Extent
	for name := range names {
		for _, p := range core.PayloadsOf(r.Tensor(name)) {
			order = append(order, core.Extent{Off: p.Offset, Length: p.Length})
		}
	}
	places, err := w.CopyExtents(ctx, r, order, alignment)
	if err != nil {
		return err
	}
	return l.takeOver(w, r, names, places)
}

// Extend copies the data of the file and its manifest.
func (c *container) Extend(name string, o core.Settings) (*core.Writer, error) {
	r := c.r
	if err := c.Edition(&o); err != nil {
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
	w.Prepare(l, o)
	err = w.CopyFrom(context.Background(), r, 0, r.ManifestAt)
	if err == nil {
		err = l.takeOver(w, r, nil, nil)
	}
	if err == nil {
		err = r.Close() // before the file is replaced: Windows requires it
	}
	if err != nil {
		w.Abort()
		return nil, err
	}
	return w, nil
}
