package v2

import (
	"cmp"
	"context"
	"encoding/binary"
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
		m.Add("blob", appendBlob(nil, p.Offset, p.Length))
		if p.Type != "" {
			m.Text("type", p.Type)
		}
		m.Text("dtype", p.Word)
		m.Text("digest", p.Digest)
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
	l.objects = append(l.objects, entry{name, cbor.Opened(object)})
}

// byLength is the order of CBOR's keys: shorter text first.
func byLength(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) }

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
	w.Write(b)
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
	root = append(root, cbor.PairOf("objects", b))
	if len(l.shards) > 0 {
		root = append(root, cbor.PairOf("shards", cbor.AppendPairs(nil, l.shards, true)))
	}
	if w.Attributes != nil {
		root = append(root, cbor.PairOf("attributes", w.Attributes))
	}
	return cbor.AppendPairs(nil, root, true)
}
