package v2

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
		b = cbor.AppendHead(cbor.AppendHead(b, cbor.Uint, uint64(p.offset)), cbor.Uint, uint64(p.length))
		if p.typ != "" {
			b = cbor.AppendText(cbor.AppendText(b, "type"), p.typ)
		}
		b = cbor.AppendText(cbor.AppendText(b, "dtype"), p.dtype)
		b = cbor.AppendText(cbor.AppendText(b, "digest"), fmt.Sprintf("%s%016x", core.PrefixXXH3, p.hash))
		if l.level > 0 {
			b = cbor.AppendText(cbor.AppendText(b, "encoding"), Seekable)
			b = cbor.AppendHead(cbor.AppendText(b, "decoded_length"), cbor.Uint, uint64(p.size))
		}
	}
	o := entry{Object: core.Object{Name: t.Name}, parts: b}
	o.rest = cbor.AppendText(cbor.AppendText(appendShape(nil, t.Shape), "layout"), layoutName(t.Scheme))
	l.objects = append(l.objects, o)
	l.last, l.begun = t.Name, true
}

// byLength is the order of CBOR's keys: shorter text first.
func byLength(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) }

// Create begins a dense tensor that comes piece by piece.
func (l *Layout) Create(w *core.Writer, t *tensor.Tensor, size int64) (io.WriteCloser, error) {
	if l.canonical {
		if l.begun && t.Name <= l.last {
			return nil, fmt.Errorf("ztensor: tensor %s: %w: in canonical form it belongs before %s, which has been written", quote.Name(t.Name), errors.ErrUnsupported, quote.Name(l.last))
		}
		if err := l.flushBefore(context.Background(), w, t.Name); err != nil {
			return nil, err
		}
	}
	w.Names[t.Name] = true
	p := &core.Part{W: w, T: t, Want: size}
	all := l.payloads(t)
	if l.level > 0 {
		frames, err := l.frameSink(w)
		if err != nil {
			return nil, w.Fail(err)
		}
		p.Feed = core.Feed{Out: frames, Dtype: t.DType, Odd: core.HalfByte(t)}
		p.Finish = func() error { return frames.end(&all[0], func() { l.enter(t, all) }) }
	} else {
		if err := w.Pad(l.align); size > 0 && err != nil {
			return nil, err
		}
		offset, s := w.Off, l.sink(w)
		p.Feed = core.Feed{Out: s, Dtype: t.DType, Odd: core.HalfByte(t)}
		p.Finish = func() error { return l.created(w, t, all, s, offset) }
	}
	w.Part = p
	return p, nil
}

// created enters a tensor that came piece by piece.
func (l *Layout) created(w *core.Writer, t *tensor.Tensor, all []outPart, s *core.Sink, offset int64) error {
	one := &all[0]
	one.hash, one.size, one.length, one.offset = binary.BigEndian.Uint64(s.Hash.Sum(nil)), s.Size, s.Size, offset
	if one.size == 0 {
		if err := l.nothing(w, one); err != nil {
			return err
		}
		l.enter(t, all)
		return nil
	}
	if l.canonical && len(l.stored[content{one.hash, one.size}]) > 0 {
		return fmt.Errorf("%w: its bytes seem to be those of another tensor, which in canonical form it would have to share: add it in one piece", errors.ErrUnsupported)
	}
	if l.canonical {
		l.keep(one, tensor.BlobFunc(-1, nil))
	}
	l.enter(t, all)
	return nil
}

// Finish writes the manifest and the footer.
func (l *Layout) Finish(w *core.Writer) error {
	if err := l.flushBefore(context.Background(), w, ""); err != nil {
		return err
	}
	b := l.manifest(w)
	if len(b) > maxManifest {
		return fmt.Errorf("ztensor: %w: a manifest of %d bytes, readers take 1 GiB", tensor.ErrLimit, len(b))
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
	slices.SortFunc(l.objects, func(a, b entry) int { return byLength(a.Name, b.Name) })
	for _, o := range l.objects {
		size += len(o.Name) + len(o.Whole) + len(o.parts) + len(o.rest) + len(w.Own[o.Name]) + 32
	}
	b := cbor.AppendHead(make([]byte, 0, size), cbor.Map, uint64(len(l.objects)))
	for _, o := range l.objects {
		b = cbor.AppendText(b, o.Name)
		if o.Whole != nil {
			b = append(b, o.Whole...)
			continue
		}
		own := w.Own[o.Name]
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
	if w.Attributes != nil {
		root = append(root, cbor.Pair{Key: cbor.AppendText(nil, "attributes"), Value: w.Attributes})
	}
	return cbor.AppendPairs(nil, root)
}
