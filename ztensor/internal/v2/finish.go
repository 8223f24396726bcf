package v2

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
)

// Enter encodes what the manifest says of a tensor.
func (l *Layout) Enter(t *tensor.Tensor, parts []core.Piece) {
	sort.Slice(parts, func(i, j int) bool { return byLength(parts[i].Role, parts[j].Role) < 0 })
	var object cbor.Builder
	object.Head("parts", cbor.Map, uint64(len(parts)))
	for _, p := range parts {
		var m cbor.Builder
		m.Head("blob", cbor.Array, 2)
		m.B = cbor.AppendHead(m.B, cbor.Uint, uint64(p.Offset))
		m.B = cbor.AppendHead(m.B, cbor.Uint, uint64(p.Length))
		if p.Type != "" {
			m.Text("type", p.Type)
		}
		m.Text("dtype", p.Word)
		m.Text("digest", fmt.Sprintf("%s%016x", core.PrefixXXH3, p.Hash))
		if l.level > 0 {
			m.Text("encoding", Seekable)
			m.Head("decoded_length", cbor.Uint, uint64(p.Size))
		}
		object.B = m.AppendTo(cbor.AppendText(object.B, p.Role))
	}
	object.Shape(t.Shape)
	object.Text("layout", layoutName(t.Scheme))
	l.objects = append(l.objects, entry{t.Name, object})
	l.last, l.begun = t.Name, true
}

// adopt enters an object that is encoded.
func (l *Layout) adopt(name string, object []byte) {
	c := cbor.Cursor{B: object, Deep: cbor.MaxStrictDepth}
	n := c.Container(cbor.Map)
	l.objects = append(l.objects, entry{name, cbor.Builder{B: object[c.P:], N: uint64(n)}})
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
func (l *Layout) created(t *tensor.Tensor, all []core.Piece) error {
	if p := &all[0]; l.canonical && p.Size > 0 {
		if len(l.stored[content{p.Hash, p.Size}]) > 0 {
			return fmt.Errorf("%w: its bytes seem to be those of another tensor, which in "+
				"canonical form it would have to share: add it in one piece",
				errors.ErrUnsupported)
		}
		l.keep(p, tensor.BlobFunc(-1, nil))
	}
	l.Enter(t, all)
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
	sort.Slice(l.objects,
		func(i, j int) bool { return byLength(l.objects[i].name, l.objects[j].name) < 0 })
	for _, o := range l.objects {
		size += len(o.name) + len(o.body.B) + len(w.Own[o.name]) + 32
	}
	b := cbor.AppendHead(make([]byte, 0, size), cbor.Map, uint64(len(l.objects)))
	for _, o := range l.objects {
		own := w.Own[o.name]
		if own != nil {
			o.body.N++
		}
		b = o.body.AppendTo(cbor.AppendText(b, o.name))
		if own != nil {
			b = append(cbor.AppendText(b, "attributes"), own...)
		}
	}
	root := slices.Clone(l.others)
	add := func(key string, value []byte) {
		root = append(root, cbor.Pair{Key: cbor.AppendText(nil, key), Value: value})
	}
	add("objects", b)
	if len(l.shards) > 0 {
		add("shards", cbor.AppendPairs(nil, l.shards, true))
	}
	if w.Attributes != nil {
		add("attributes", w.Attributes)
	}
	return cbor.AppendPairs(nil, root, true)
}
