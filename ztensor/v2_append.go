package ztensor

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/internal/limit"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
)

// manifestFields takes the manifest apart without understanding it: what this
// library does not know survives.
func manifestFields(r *file) ([]cbor.Pair, error) {
	b, err := r.src.Metadata(r.manifestAt, r.manifestSize)
	if err != nil {
		return nil, r.placed(r.manifestAt, "manifest", err)
	}
	c := cbor.NewStrict(b, r.limits)
	all := c.Pairs()
	if c.Err != nil { // the file has changed since it was opened
		return nil, r.placed(r.manifestAt, "manifest", c.Err)
	}
	return all, nil
}

// alignmentOf is the alignment to which the file keeps, as far as that shows.
func alignmentOf(r *file) int64 {
	all := uint64(r.manifestAt)
	for b := range r.blobs.all() {
		if b.shard == 0 {
			all |= uint64(b.offset)
		}
	}
	return int64(1) << min(bits.TrailingZeros64(all), 16) // canonical2 at most
}

// continues takes over what the manifest of r says.
func (l *layout2) continues(w *writer, r *file) error {
	fields, err := manifestFields(r)
	if err != nil {
		return err
	}
	for _, f := range fields {
		in := cbor.NewStrict(f.Value, r.limits)
		switch string(f.Key) {
		case "\x67objects":
			for _, o := range in.Pairs() {
				name := cbor.Cursor{B: o.Key}
				l.objects = append(l.objects, entry2{object: object{string(name.Text()), o.Value}})
			}
		case "\x66shards":
			l.shards = in.Pairs()
		case "\x6aattributes": // the Writer has them
		default:
			l.others = append(l.others, f)
		}
	}
	for _, o := range l.objects {
		w.names[o.name], w.kept[o.name] = true, true
	}
	known := map[int64]bool{}
	for b := range r.blobs.all() {
		if b.shard == 0 && b.length > 0 && b.hasHash && !b.encoded && !known[b.offset] {
			known[b.offset] = true
			l.keep(&payload2{hash: b.hash, size: b.size, offset: b.offset}, tensor.NewBlob(b))
		}
	}
	return nil
}

// lastEdition returns where the last complete edition within f ends, 0 where
// there is none.
func lastEdition(f io.ReaderAt, size int64) (int64, error) {
	const (
		step = 1 << 20
		most = 100 // of what looks like a footer and is none
	)
	tried := 0
	buf := make([]byte, step+footer2)
	for to := size; to >= least2; to -= step {
		from := max(0, to-step-footer2)
		p := buf[:to-from]
		if _, err := f.ReadAt(p, from); err != nil && err != io.EOF {
			return 0, err
		}
		for i := bytes.LastIndex(p, []byte(magic2)); i >= 0; i = bytes.LastIndex(p[:i+len(magic2)-1], []byte(magic2)) {
			end := from + int64(i+len(magic2))
			if end < least2 {
				break
			}
			if ok, err := isEdition(f, end); ok || err != nil {
				return end, err
			}
			if tried++; tried == most {
				return 0, nil
			}
		}
	}
	return 0, nil
}

// isEdition reports whether the first size bytes of f are a file.
func isEdition(f io.ReaderAt, size int64) (bool, error) {
	var b [footer2]byte
	if _, err := f.ReadAt(b[:], size-footer2); err != nil && err != io.EOF {
		return false, err
	}
	at, n := binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:])
	if n == 0 || at >= uint64(size) || n > uint64(size)-at || n > maxManifest2 {
		return false, nil // cheap to see; and a data shard has no editions
	}
	h := xxh3.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, int64(at), int64(n))); err != nil || h.Sum64() != binary.LittleEndian.Uint64(b[16:]) {
		return false, err
	}
	src, err := source.OfReaderAt(f, size)
	if err != nil {
		return false, err
	}
	return openShard(&file{src: src, limits: limit.Defaults()}) == nil, nil
}

// carry leaves what is in shards there.
func (l *layout2) carry(ctx context.Context, w *writer, r *file, names map[string]string) error {
	var order []extent
	for name := range names {
		for _, p := range partsOf(r.Tensor(name)) {
			if p.blob.shard == 0 {
				order = append(order, extent{p.blob.offset, p.blob.length})
			}
		}
	}
	places, err := w.copyExtents(ctx, r, order, l.align)
	if err != nil {
		return err
	}
	fields, err := manifestFields(r)
	if err != nil {
		return err
	}
	for _, f := range fields {
		in := cbor.NewStrict(f.Value, r.limits)
		switch string(f.Key) {
		case "\x67objects":
			for _, o := range in.Pairs() {
				key := cbor.NewStrict(o.Key, r.limits)
				if as, ok := names[string(key.Text())]; ok {
					value := cbor.NewStrict(o.Value, r.limits)
					moved := editParts(&value, func(part []cbor.Pair) []cbor.Pair { return movedPart(part, places) })
					l.objects = append(l.objects, entry2{object: object{as, cbor.AppendPairs(nil, moved)}})
					w.names[as] = true
				}
			}
		case "\x66shards":
			l.shards = in.Pairs()
		case "\x6aattributes": // the Writer has them
		default:
			l.others = append(l.others, f)
		}
	}
	return nil
}

// movedPart returns the fields of a part whose bytes are somewhere else.
func movedPart(part []cbor.Pair, places map[extent]int64) []cbor.Pair {
	if slices.ContainsFunc(part, func(f cbor.Pair) bool { return string(f.Key) == "\x65shard" }) {
		return part
	}
	for i, f := range part {
		if string(f.Key) != "\x64blob" {
			continue
		}
		c := cbor.NewStrict(f.Value, limit.Defaults())
		c.Container(cbor.Array)
		at, n := c.Uint(), c.Uint()
		b := cbor.AppendHead(nil, cbor.Array, 2)
		b = cbor.AppendHead(b, cbor.Uint, uint64(places[extent{int64(at), int64(n)}]))
		part[i].Value = cbor.AppendHead(b, cbor.Uint, n)
	}
	return part
}

func (c *container2) edition(o *settings) error {
	if c.data {
		return fmt.Errorf("ztensor: %w: an edition of a file without a manifest", errors.ErrUnsupported)
	}
	if o.Alignment == 0 {
		o.Alignment = alignmentOf(c.r)
	}
	o.Canonical = false // which has no second edition
	return nil
}

// extend adds after the end of the file.
func (c *container2) extend(name string, o settings) (*writer, error) {
	r := c.r
	if err := c.edition(&o); err != nil {
		return nil, err
	}
	l, err := newLayout2(o)
	if err != nil {
		return nil, err
	}
	w := &writer{old: r, flush: func() error { return nil }}
	if w.prepare(l, o); w.err != nil {
		return nil, w.err
	}
	if err := l.continues(w, r); err != nil {
		return nil, err
	}
	e, err := atomicfile.Extend(name)
	if err != nil {
		return nil, err
	}
	if e.Start() != r.Size() {
		e.Abort()
		return nil, fmt.Errorf("ztensor: %s has changed while it was opened", quote.Name(name))
	}
	w.w, w.file, w.off = e, e, r.Size()
	return w, nil
}
