package ztensor

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
)

// enter encodes what the manifest says of a tensor.
func (l *layout2) enter(t *tensor.Tensor, parts []payload2) {
	slices.SortFunc(parts, func(a, b payload2) int { return byLength(a.role, b.role) })
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
		b = cbor.AppendHead(cbor.AppendHead(b, cbor.Uint, uint64(p.offset)), cbor.Uint, uint64(p.length))
		if p.typ != "" {
			b = cbor.AppendText(cbor.AppendText(b, "type"), p.typ)
		}
		b = cbor.AppendText(cbor.AppendText(b, "dtype"), p.dtype)
		b = cbor.AppendText(cbor.AppendText(b, "digest"), fmt.Sprintf("%s%016x", prefixXXH3, p.hash))
		if l.level > 0 {
			b = cbor.AppendText(cbor.AppendText(b, "encoding"), seekable)
			b = cbor.AppendHead(cbor.AppendText(b, "decoded_length"), cbor.Uint, uint64(p.size))
		}
	}
	o := entry2{object: object{name: t.Name}, parts: b}
	o.rest = cbor.AppendText(cbor.AppendText(appendShape(nil, t.Shape), "layout"), scheme2(t.Scheme))
	l.objects = append(l.objects, o)
	l.last, l.begun = t.Name, true
}

// byLength is the order of CBOR's keys: shorter text first.
func byLength(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) }

// create begins a dense tensor that comes piece by piece.
func (l *layout2) create(w *writer, t *tensor.Tensor, size int64) (io.WriteCloser, error) {
	if l.canonical {
		if l.begun && t.Name <= l.last {
			return nil, fmt.Errorf("ztensor: tensor %s: %w: in canonical form it belongs before %s, which has been written", quote.Name(t.Name), errors.ErrUnsupported, quote.Name(l.last))
		}
		if err := l.flushBefore(context.Background(), w, t.Name); err != nil {
			return nil, err
		}
	}
	w.names[t.Name] = true
	p := &part{w: w, t: t, want: size}
	all := l.payloads(t)
	if l.level > 0 {
		frames, err := l.frameSink(w)
		if err != nil {
			return nil, w.fail(err)
		}
		p.feed = feed{out: frames, dtype: t.DType, odd: halfByte(t)}
		p.finish = func() error { return frames.end(&all[0], func() { l.enter(t, all) }) }
	} else {
		if err := w.pad(l.align); size > 0 && err != nil {
			return nil, err
		}
		offset, s := w.off, l.sink(w)
		p.feed = feed{out: s, dtype: t.DType, odd: halfByte(t)}
		p.finish = func() error { return l.created(w, t, all, s, offset) }
	}
	w.part = p
	return p, nil
}

// created enters a tensor that came piece by piece.
func (l *layout2) created(w *writer, t *tensor.Tensor, all []payload2, s *sink, offset int64) error {
	one := &all[0]
	one.hash, one.size, one.length, one.offset = s.h.xxh.Sum64(), s.n, s.n, offset
	if one.size == 0 {
		if err := l.nothing(w, one); err != nil {
			return err
		}
		l.enter(t, all)
		return nil
	}
	if l.canonical && len(l.stored[content2{one.hash, one.size}]) > 0 {
		return fmt.Errorf("%w: its bytes seem to be those of another tensor, which in canonical form it would have to share: add it in one piece", errors.ErrUnsupported)
	}
	if l.canonical {
		l.keep(one, tensor.BlobFunc(-1, nil))
	}
	l.enter(t, all)
	return nil
}

// finish writes the manifest and the footer.
func (l *layout2) finish(w *writer) error {
	if err := l.flushBefore(context.Background(), w, ""); err != nil {
		return err
	}
	b := l.manifest(w)
	if len(b) > maxManifest2 {
		return fmt.Errorf("ztensor: %w: a manifest of %d bytes, readers take 1 GiB", tensor.ErrLimit, len(b))
	}
	w.pad(l.align)
	at := w.off
	w.writePieces(b)
	if e, ok := w.file.(*atomicfile.Extension); ok && w.err == nil {
		// The footer makes a file of what was appended: it must not reach the
		// disk before that.
		w.fail(e.Sync())
	}
	f := binary.LittleEndian.AppendUint64(nil, uint64(at))
	f = binary.LittleEndian.AppendUint64(f, uint64(len(b)))
	f = binary.LittleEndian.AppendUint64(f, xxh3.Hash(b))
	f = binary.LittleEndian.AppendUint32(f, 2)
	f = binary.LittleEndian.AppendUint32(f, 0)
	return w.write(append(f, magic2...))
}

// manifest encodes what has been written, and what was there before.
func (l *layout2) manifest(w *writer) []byte {
	size := 64
	slices.SortFunc(l.objects, func(a, b entry2) int { return byLength(a.name, b.name) })
	for _, o := range l.objects {
		size += len(o.name) + len(o.whole) + len(o.parts) + len(o.rest) + len(w.own[o.name]) + 32
	}
	b := cbor.AppendHead(make([]byte, 0, size), cbor.Map, uint64(len(l.objects)))
	for _, o := range l.objects {
		b = cbor.AppendText(b, o.name)
		if o.whole != nil {
			b = append(b, o.whole...)
			continue
		}
		own := w.own[o.name]
		fields := uint64(3)
		if own != nil {
			fields++
		}
		b = cbor.AppendHead(b, cbor.Map, fields)
		b = append(cbor.AppendText(b, "parts"), o.parts...)
		b = append(b, o.rest...)
		if own != nil {
			b = append(cbor.AppendText(b, "attributes"), own...)
		}
	}
	root := append(l.others[:len(l.others):len(l.others)], cbor.Pair{Key: cbor.AppendText(nil, "objects"), Value: b})
	if len(l.shards) > 0 {
		root = append(root, cbor.Pair{Key: cbor.AppendText(nil, "shards"), Value: cbor.AppendPairs(nil, l.shards)})
	}
	if w.attributes != nil {
		root = append(root, cbor.Pair{Key: cbor.AppendText(nil, "attributes"), Value: w.attributes})
	}
	return cbor.AppendPairs(nil, root)
}
