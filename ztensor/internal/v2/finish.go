package v2

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
)

// enter encodes what the manifest says of a tensor.
func (l *Layout) enter(t *tensor.Tensor, parts []outPart) {
	slices.SortFunc(parts, func(a, b outPart) int { return byLength(a.role, b.role) })
	b := cbor.AppendHead(nil, cbor.Map, uint64(len(parts)))
	for _, p := range parts {
		fields := uint64(3)
		if p.typ != "" {
			fields++
		}
		if l.level > 0 {
			fields += 2
		}
		b = cbor.AppendHead(cbor.AppendText(b, p.role), cbor.Map, fields)
		b = cbor.AppendHead(cbor.AppendText(b, "blob"), cbor.Array, 2)
		b = cbor.AppendHead(cbor.AppendHead(b, cbor.Uint, uint64(p.offset)), cbor.Uint,
			uint64(p.length))
		if p.typ != "" {
			b = cbor.AppendText(cbor.AppendText(b, "type"), p.typ)
		}
		b = cbor.AppendText(cbor.AppendText(b, "dtype"), p.dtype)
		b = cbor.AppendText(cbor.AppendText(b,
			"digest"), fmt.Sprintf("%s%016x", core.PrefixXXH3, p.hash))
		if l.level > 0 {
			b = cbor.AppendText(cbor.AppendText(b, "encoding"), Seekable)
			b = cbor.AppendHead(cbor.AppendText(b, "decoded_length"), cbor.Uint, uint64(p.size))
		}
	}
	body := append(cbor.AppendText(nil, "parts"), b...)
	body = cbor.AppendText(cbor.AppendText(appendShape(body, t.Shape),
		"layout"), layoutName(t.Scheme))
	l.objects = append(l.objects, entry{t.Name, 3, body})
	l.last, l.begun = t.Name, true
}

// adopt enters an object that is encoded.
func (l *Layout) adopt(name string, object []byte) {
	c := cbor.Cursor{B: object, Deep: cbor.MaxStrictDepth}
	n := c.Container(cbor.Map)
	l.objects = append(l.objects, entry{name, n, object[c.P:]})
}

// byLength is the order of CBOR's keys: shorter text first.
func byLength(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) }

// Create begins a dense tensor that comes piece by piece.
func (l *Layout) Create(w *core.Writer, t *tensor.Tensor) (*core.Part, error) {
	if err := l.inOrder(t); err != nil {
		return nil, err
	}
	ctx := context.Background()
	if l.canonical {
		if err := l.flush(ctx, w, t.Name); err != nil {
			return nil, err
		}
	}
	w.Names[t.Name] = true
	all := l.payloads(t)
	s, err := l.sink(ctx, w, &all[0])
	if err != nil {
		return nil, w.Fail(err)
	}
	finish := func() error {
		err := s.end(&all[0], func() error { return l.created(t, all) })
		if err == nil && l.frames != nil {
			err = l.frames.flush(ctx)
		}
		return err
	}
	return &core.Part{Feed: core.Feed{Out: s, Dtype: t.DType, Odd: core.HalfByte(t)},
		Finish: finish}, nil
}

// created enters a tensor that came piece by piece.
func (l *Layout) created(t *tensor.Tensor, all []outPart) error {
	if p := &all[0]; l.canonical && p.size > 0 {
		if len(l.stored[content{p.hash, p.size}]) > 0 {
			return fmt.Errorf("%w: its bytes seem to be those of another tensor, which in "+
				"canonical form it would have to share: add it in one piece",
				errors.ErrUnsupported)
		}
		l.keep(p, tensor.BlobFunc(-1, nil))
	}
	l.enter(t, all)
	return nil
}

// Finish writes the manifest and the footer.
func (l *Layout) Finish(w *core.Writer) error {
	if err := l.flush(context.Background(), w, ""); err != nil {
		return err
	}
	b := l.manifest(w)
	if len(b) > maxManifest {
		return fmt.Errorf("ztensor: %w: a manifest of %d bytes, readers take 1 GiB",
			tensor.ErrLimit, len(b))
	}
	w.Pad(l.align)
	at := w.Off
	w.WritePieces(b)
	if e, ok := w.File.(*atomicfile.Extension); ok && w.Err == nil {
		// The footer makes a file of what was appended: it must not reach the
		// disk before that.
		w.Fail(e.Sync())
	}
	f := binary.LittleEndian.AppendUint64(nil, uint64(at))
	f = binary.LittleEndian.AppendUint64(f, uint64(len(b)))
	f = binary.LittleEndian.AppendUint64(f, xxh3.Hash(b))
	f = binary.LittleEndian.AppendUint32(f, 2)
	f = binary.LittleEndian.AppendUint32(f, 0)
	return w.Write(append(f, core.Magic2...))
}

// manifest encodes what has been written, and what was there before.
func (l *Layout) manifest(w *core.Writer) []byte {
	size := 64
	slices.SortFunc(l.objects, func(a, b entry) int { return byLength(a.name, b.name) })
	for _, o := range l.objects {
		size += len(o.name) + len(o.body) + len(w.Own[o.name]) + 32
	}
	b := cbor.AppendHead(make([]byte, 0, size), cbor.Map, uint64(len(l.objects)))
	for _, o := range l.objects {
		own := w.Own[o.name]
		if own != nil {
			o.fields++
		}
		b = append(cbor.AppendHead(cbor.AppendText(b, o.name), cbor.Map, uint64(o.fields)),
			o.body...)
		if own != nil {
			b = append(cbor.AppendText(b, "attributes"), own...)
		}
	}
	root := append(l.others[:len(l.others):len(l.others)], cbor.Pair{Key: cbor.AppendText(nil,
		"objects"), Value: b})
	if len(l.shards) > 0 {
		root = append(root, cbor.Pair{Key: cbor.AppendText(nil,
			"shards"), Value: cbor.AppendPairs(nil, l.shards)})
	}
	if w.Attributes != nil {
		root = append(root, cbor.Pair{Key: cbor.AppendText(nil,
			"attributes"), Value: w.Attributes})
	}
	return cbor.AppendPairs(nil, root)
}
