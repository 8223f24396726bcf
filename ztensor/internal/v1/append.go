package v1

import (
	"context"

	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
)

// Carry takes over what an edition keeps of its original, under new names.
func (l *Layout) Carry(ctx context.Context, w *core.Writer, r *core.File,
	names map[string]string) error {
	others, err := w.Carry(ctx, r, names, alignment, moved, func(name string, object []byte) {
		start := len(l.manifest)
		l.manifest = append(l.manifest, object...)
		l.entries = append(l.entries,
			entry{name: name, from: start, split: -1, to: len(l.manifest)})
	})
	for _, f := range others {
		switch key, _ := cbor.TextOf(f.Key); key {
		case "version", "generator", "attributes": // the Writer has them
		default:
			l.others.Add(key, f.Value)
		}
	}
	return err
}

// moved returns the fields of a component whose bytes are somewhere else.
func moved(part []cbor.Pair, places map[core.Extent]int64) []cbor.Pair {
	var e core.Extent
	var offset *cbor.Pair
	for i, f := range part {
		c := cbor.Cursor{B: f.Value}
		switch key, _ := cbor.TextOf(f.Key); key {
		case "offset":
			offset, e.Off = &part[i], int64(c.Uint())
		case "length":
			e.Length = int64(c.Uint())
		}
	}
	if offset == nil {
		return part // the file has changed since it was opened
	}
	offset.Value = cbor.AppendHead(nil, cbor.Uint, uint64(places[e]))
	return part
}

// Extend copies the file.
func (c *container) Extend(name string, o core.Settings) (*core.Writer, error) {
	l, err := NewLayout(o)
	if err != nil {
		return nil, err
	}
	f, err := atomicfile.Create(name)
	if err != nil {
		return nil, err
	}
	w := core.NewFileWriter(f)
	w.Begin(l, o)
	all := map[string]string{}
	for _, t := range c.r.Tensors {
		all[t.Name] = t.Name
	}
	if err = l.Carry(context.Background(), w, c.r, all); err == nil {
		err = c.r.Close() // before the file is replaced: Windows requires it
	}
	if err != nil {
		w.Abort()
		return nil, err
	}
	return w, nil
}
