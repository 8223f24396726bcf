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
	others, err := w.Carry(ctx, r, names, alignment, offsetOf, func(name string, object []byte) {
		l.entries = append(l.entries, entry{name: name, head: cbor.Opened(object)})
	})
	for _, f := range others {
		switch f.Name {
		case "version", "generator", "attributes": // the Writer has them
		default:
			l.others.Add(f.Name, f.Value)
		}
	}
	return err
}

// offsetOf is the field that says where a component is.
func offsetOf(_ *core.Payload, at int64) cbor.Pair {
	return cbor.PairOf("offset", cbor.AppendHead(nil, cbor.Uint, uint64(at)))
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
