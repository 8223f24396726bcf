package ptd

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/executorch"
	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/parallel"
	"github.com/tensorfile/tensorfile/schema/ptdfb"
	"github.com/tensorfile/tensorfile/tensor"
)

// A plan is a file of which all is known but the bytes of the segments.
type plan struct {
	head     []byte // up to the end of what is inserted into the FlatBuffer,
	rest     []byte // and the rest of it
	base     int64
	segments []format.Section // offsets count from the base
	aligns   []int64          // of the segments, as entries ask for
}

func newPlan(ctx context.Context, entries []Entry, opts *WriterOptions) (*plan, error) {
	p := new(plan)
	index, err := p.share(ctx, entries, opts)
	if err != nil {
		return nil, err
	}
	end, largest, err := p.place(opts)
	if err != nil {
		return nil, err
	}
	buf, err := encode(entries, index, p.segments, opts.Parity)
	if err != nil { // it is fb.ErrTooLarge
		return nil, fmt.Errorf("%w: the metadata of %d entries: %w", tensor.ErrLimit,
			len(entries), err)
	}
	// The header takes 40 bytes. Python rounds that up to 16; C++ to the alignment that
	// it was called with, and it rounds the rest of the metadata by itself.
	h := Header{Length: headerSize, FlatbufferOffset: 48, FlatbufferSize: int64(len(buf)),
		SegmentDataSize: end}
	if opts.Parity == ParityCPP {
		h.FlatbufferOffset, _ = align.Up(headerSize, opts.SegmentAlignment)
		h.SegmentBaseOffset, _ = align.Up(h.FlatbufferSize, opts.SegmentAlignment)
		h.SegmentBaseOffset += h.FlatbufferOffset
	} else {
		h.SegmentBaseOffset, _ = align.Up(h.metadataEnd(), largest)
	}
	p.base = h.SegmentBaseOffset
	if _, ok := align.Add(p.base, end); !ok {
		return nil, fmt.Errorf("%w: the file is beyond 2^63 bytes", tensor.ErrLimit)
	}
	p.head, p.rest = fb.Splice(buf[:8:8], int(h.FlatbufferOffset)), buf[8:]
	putHeader(p.head, h)
	return p, nil
}

// share decides which entries share a segment and returns the segment of each.
func (p *plan) share(ctx context.Context, entries []Entry, opts *WriterOptions) ([]int, error) {
	dedup := opts.Dedup
	if opts.Parity == ParityCPP {
		dedup = DedupNone
	}
	var sums map[int][sha256.Size]byte
	if dedup == DedupSHA256 {
		var err error
		if sums, err = hashes(ctx, entries); err != nil {
			return nil, err
		}
	}
	index := make([]int, len(entries))
	seen := map[any]int{}
	for i := range entries {
		e := &entries[i]
		var key any
		switch sum, hashed := sums[i]; {
		case hashed:
			key = sum
		case dedup == DedupIdentity:
			key = e.Data.Identity()
		}
		wish := cmp.Or(e.Alignment, opts.Alignment, 1)
		if key != nil {
			if s, ok := seen[key]; ok {
				if index[i] = s; opts.Parity == ParityNone {
					// Python takes that of the first name.
					p.aligns[s], _ = executorch.LCM(p.aligns[s], wish)
				}
				continue
			}
			seen[key] = len(p.segments)
		}
		index[i] = len(p.segments)
		p.segments = append(p.segments, format.Section{Name: e.Name, Data: e.Data,
			Size: e.Data.Size()})
		p.aligns = append(p.aligns, wish)
	}
	return index, nil
}

// hashes reads all data whose length is not unique, on all cores, and returns its
// SHA-256 by entry.
func hashes(ctx context.Context, entries []Entry) (map[int][sha256.Size]byte, error) {
	sizes := map[int64]int{}
	for i := range entries {
		sizes[entries[i].Data.Size()]++
	}
	var read []int
	for i := range entries {
		if size := entries[i].Data.Size(); size > 0 && sizes[size] > 1 {
			read = append(read, i)
		}
	}
	sums := make([][sha256.Size]byte, len(read))
	err := parallel.ForEach(ctx, len(read), func(ctx context.Context, k int) error {
		e, h := &entries[read[k]], sha256.New()
		err := format.WriteTo(ctx, h, func(out *format.Output) error {
			return format.WriteSections(out, nil,
				[]format.Section{{Name: e.Name, Size: e.Data.Size(), Data: e.Data}}, e.Data.Size())
		})
		h.Sum(sums[k][:0])
		return err
	})
	out := make(map[int][sha256.Size]byte, len(read))
	for k, i := range read {
		out[i] = sums[k]
	}
	return out, err
}

// place lays the segments out and returns where the last one ends, from the base, and
// what the base is aligned to.
func (p *plan) place(opts *WriterOptions) (end, base int64, err error) {
	base = opts.SegmentAlignment
	for i := range p.segments {
		s, own := &p.segments[i], p.aligns[i]
		if opts.Parity == ParityCPP {
			own = 1
		}
		var a int64
		var ok bool
		if s.Off, end, a, ok = executorch.Place(end, s.Size, opts.SegmentAlignment, own); !ok {
			return 0, 0, fmt.Errorf("%w: the segments are beyond 2^63 bytes", tensor.ErrLimit)
		}
		if opts.Parity == ParityNone {
			base = max(base, a) // all are powers of two
		}
	}
	return end, base, nil
}

// encode makes the FlatBuffer. Parts are stored in the order of their creation, from the
// end: Python creates all segments first, C++ evaluates arguments from right to left.
func encode(entries []Entry, index []int, segments []format.Section, parity Parity) ([]byte,
	error) {
	var b fb.Builder
	b.Grow(minSize(entries, segments))
	segment := func(s *format.Section) fb.Offset {
		return b.Table(fb.Number(ptdfb.SlotDataSegmentSize, 8, uint64(s.Size)),
			fb.Number(ptdfb.SlotDataSegmentOffset, 8, uint64(s.Off)))
	}
	layout := func(l *Layout) fb.Offset {
		var sizes, order fb.Offset
		if parity == ParityCPP {
			order = b.Scalars(l.DimOrder, 1, 0)
			sizes = int32s(&b, l.Sizes)
		} else {
			sizes = int32s(&b, l.Sizes)
			order = b.Scalars(l.DimOrder, 1, 0)
		}
		return b.Table(fb.Ref(ptdfb.SlotTensorLayoutDimOrder, order),
			fb.Ref(ptdfb.SlotTensorLayoutSizes, sizes),
			fb.Number(ptdfb.SlotTensorLayoutScalarType, 1, uint64(uint8(l.ScalarType))))
	}
	named := func(e *Entry, s int) fb.Offset {
		key := b.String(e.Name)
		var l fb.Offset
		if e.Layout != nil {
			l = layout(e.Layout)
		}
		return b.Table(fb.Ref(ptdfb.SlotNamedDataTensorLayout, l),
			fb.Number(ptdfb.SlotNamedDataSegmentIndex, 4, uint64(s)),
			fb.Ref(ptdfb.SlotNamedDataKey, key))
	}
	segmentRefs, namedRefs := make([]fb.Offset, len(segments)), make([]fb.Offset, len(entries))
	var segmentVector fb.Offset
	if parity != ParityCPP {
		for i := range segments {
			segmentRefs[i] = segment(&segments[i])
		}
		segmentVector = b.Offsets(segmentRefs)
	}
	for i := range entries {
		namedRefs[i] = named(&entries[i], index[i])
		if parity == ParityCPP {
			segmentRefs[i] = segment(&segments[i])
		}
	}
	namedVector := b.Offsets(namedRefs)
	if parity == ParityCPP {
		segmentVector = b.Offsets(segmentRefs)
	}
	return b.Finish(b.Table(fb.Ref(ptdfb.SlotFlatTensorNamedData, namedVector),
		fb.Ref(ptdfb.SlotFlatTensorSegments, segmentVector)), identifier)
}

// minSize returns what the FlatBuffer takes at least: references, tables and vectors. So
// what cannot be is refused before memory is taken for it.
func minSize(entries []Entry, segments []format.Section) int64 {
	n := 8 * int64(len(segments))
	for i := range entries {
		n += 4*4 + int64(len(entries[i].Name)) + 1
		if l := entries[i].Layout; l != nil {
			n += 6*4 + 5*int64(len(l.Sizes))
		}
	}
	return n
}

func int32s(b *fb.Builder, v []int32) fb.Offset {
	p := make([]byte, 0, 64)
	for _, n := range v {
		p = append(p, byte(n), byte(n>>8), byte(n>>16), byte(n>>24))
	}
	return b.Scalars(p, 4, 0)
}
