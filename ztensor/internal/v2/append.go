package v2

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
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
)

// manifestFields takes the manifest apart without understanding it: what this
// library does not know survives.
func manifestFields(r *core.File) ([]cbor.Pair, error) {
	b, err := r.Src.Metadata(r.ManifestAt, r.ManifestSize)
	if err != nil {
		return nil, r.Placed(r.ManifestAt, "manifest", err)
	}
	c := cbor.NewStrict(b, r.Limits)
	all := c.Pairs()
	if c.Err != nil { // the file has changed since it was opened
		return nil, r.Placed(r.ManifestAt, "manifest", c.Err)
	}
	return all, nil
}

// AlignmentOf is the alignment to which the file keeps, as far as that shows.
func AlignmentOf(r *core.File) int64 {
	all := uint64(r.ManifestAt) | CanonicalAlignment
	for _, b := range r.Payloads {
		if b.Shard == 0 {
			all |= uint64(b.Offset)
		}
	}
	return int64(1) << bits.TrailingZeros64(all)
}

// carry takes over the objects of r that are in names, under their new names, and all
// else that its manifest says. object returns what becomes of an object.
func (l *Layout) carry(w *core.Writer, r *core.File, rename func(name string) (as string, ok bool),
	object func(encoded []byte) []byte) error {
	fields, err := manifestFields(r)
	if err != nil {
		return err
	}
	for _, f := range fields {
		in := cbor.NewStrict(f.Value, r.Limits)
		switch string(f.Key) {
		case "\x67objects":
			for _, o := range in.Pairs() {
				old, _ := cbor.TextOf(o.Key)
				if name, ok := rename(old); ok {
					l.adopt(name, object(o.Value))
					w.Names[name], w.Kept[name] = true, true
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

// LastEdition returns where the last complete edition within f ends, 0 where
// there is none.
func LastEdition(f io.ReaderAt, size int64) (int64, error) {
	const (
		step = 1 << 20
		most = 100 // of what looks like a footer and is none
	)
	tried := 0
	buf := make([]byte, step+FooterSize)
	for to := size; to >= MinSize; to -= step {
		from := max(0, to-step-FooterSize)
		p := buf[:to-from]
		if _, err := f.ReadAt(p, from); err != nil && err != io.EOF {
			return 0, err
		}
		magic := []byte(core.Magic2)
		i := bytes.LastIndex(p, magic)
		for ; i >= 0; i = bytes.LastIndex(p[:i+len(magic)-1], magic) {
			end := from + int64(i+len(magic))
			if end < MinSize {
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
	var b [FooterSize]byte
	if _, err := f.ReadAt(b[:], size-FooterSize); err != nil && err != io.EOF {
		return false, err
	}
	at, n := binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:])
	if n == 0 || at >= uint64(size) || n > uint64(size)-at || n > maxManifest {
		return false, nil // cheap to see; and a data shard has no editions
	}
	h := xxh3.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, int64(at),
		int64(n))); err != nil || h.Sum64() != binary.LittleEndian.Uint64(b[16:]) {
		return false, err
	}
	src, err := source.OfReaderAt(f, size)
	if err != nil {
		return false, err
	}
	return openShard(&core.File{Src: src, Limits: limit.Defaults()}) == nil, nil
}

// Carry leaves what is in shards there.
func (l *Layout) Carry(ctx context.Context, w *core.Writer, r *core.File,
	names map[string]string) error {
	var order []core.Extent
	for name := range names {
		for _, p := range core.PayloadsOf(r.Tensor(name)) {
			if p.Shard == 0 {
				order = append(order, core.Extent{Off: p.Offset, Length: p.Length})
			}
		}
	}
	places, err := w.CopyExtents(ctx, r, order, l.align)
	if err != nil {
		return err
	}
	return l.carry(w, r, func(name string) (string, bool) {
		as, ok := names[name]
		return as, ok
	}, func(encoded []byte) []byte {
		return editParts(encoded, func(part []cbor.Pair) []cbor.Pair {
			return movedPart(part,
				places)
		})
	})
}

// movedPart returns the fields of a part whose bytes are somewhere else.
func movedPart(part []cbor.Pair, places map[core.Extent]int64) []cbor.Pair {
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
		b = cbor.AppendHead(b, cbor.Uint, uint64(places[core.Extent{Off: int64(at),
			Length: int64(n)}]))
		part[i].Value = cbor.AppendHead(b, cbor.Uint, n)
	}
	return part
}

func (c *Container) Edition(o *core.Settings) error {
	if c.data {
		return fmt.Errorf("ztensor: %w: an edition of a file without a manifest",
			errors.ErrUnsupported)
	}
	if o.Alignment == 0 {
		o.Alignment = AlignmentOf(c.r)
	}
	o.Canonical = false // which has no second edition
	return nil
}

// Extend adds after the end of the file.
func (c *Container) Extend(name string, o core.Settings) (*core.Writer, error) {
	r := c.r
	if err := c.Edition(&o); err != nil {
		return nil, err
	}
	l, err := NewLayout(o)
	if err != nil {
		return nil, err
	}
	w := &core.Writer{Old: r, Flush: func() error { return nil }}
	if w.Prepare(l, o); w.Err != nil {
		return nil, w.Err
	}
	if err := l.carry(w, r, func(name string) (string, bool) { return name, true },
		func(encoded []byte) []byte { return encoded }); err != nil {
		return nil, err
	}
	known := map[int64]bool{}
	for _, b := range r.Payloads {
		sum, ok := b.XXH3()
		if ok && b.Shard == 0 && b.Length > 0 && !b.Encoded() && !known[b.Offset] {
			known[b.Offset] = true
			l.keep(&outPart{hash: sum, size: b.DecodedSize, offset: b.Offset}, tensor.NewBlob(b))
		}
	}
	e, err := atomicfile.Extend(name)
	if err != nil {
		return nil, err
	}
	if e.Start() != r.Size() {
		e.Abort()
		return nil, fmt.Errorf("ztensor: %s has changed while it was opened", quote.Name(name))
	}
	w.W, w.File, w.Off = e, e, r.Size()
	return w, nil
}
