package ptd

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/tensor"
)

// A plan is a file of which all is known but the bytes of the segments.
type plan struct {
	head     []byte // up to the end of what is inserted into the FlatBuffer,
	rest     []byte // and the rest of it
	base     int64
	segments []planned
	size     int64 // of the file
}

type planned struct {
	name   string // of the first entry
	data   tensor.Blob
	size   int64
	align  int64
	offset int64 // from the base
}

func newPlan(entries []Entry, opts *WriterOptions) (*plan, error) {
	p := new(plan)
	index, err := p.share(entries, opts)
	if err != nil {
		return nil, err
	}
	end, largest, err := p.place(opts)
	if err != nil {
		return nil, err
	}
	buf, err := encode(entries, index, p.segments, opts.Parity)
	if errors.Is(err, fb.ErrTooLarge) {
		return nil, fmt.Errorf("%w: the metadata of %d entries: %w", tensor.ErrLimit, len(entries), err)
	} else if err != nil {
		return nil, err
	}
	// The header takes 40 bytes. Python rounds that up to 16; C++ to the alignment that it was called with, and it rounds the
	// rest of the metadata by itself.
	h := Header{Length: headerSize, FlatbufferOffset: 48, FlatbufferSize: int64(len(buf)), SegmentDataSize: end}
	if opts.Parity == ParityCPP {
		h.FlatbufferOffset, _ = align.Up(headerSize, opts.SegmentAlignment)
		h.SegmentBaseOffset, _ = align.Up(h.FlatbufferSize, opts.SegmentAlignment)
		h.SegmentBaseOffset += h.FlatbufferOffset
	} else {
		h.SegmentBaseOffset, _ = align.Up(h.metadataEnd(), largest)
	}
	p.base = h.SegmentBaseOffset
	sum, ok := align.Add(p.base, end)
	if !ok {
		return nil, fmt.Errorf("%w: the file is beyond 2^63 bytes", tensor.ErrLimit)
	}
	p.size = sum
	p.head, p.rest = fb.Splice(buf[:8:8], int(h.FlatbufferOffset)), buf[8:]
	putHeader(p.head, h)
	return p, nil
}

// share decides which entries share a segment and answers the segment of each.
func (p *plan) share(entries []Entry, opts *WriterOptions) ([]int, error) {
	dedup := opts.Dedup
	if opts.Parity == ParityCPP {
		dedup = DedupNone
	}
	var sums map[int][sha256.Size]byte
	if dedup == DedupSHA256 {
		var err error
		if sums, err = hashes(entries); err != nil {
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
		wish := max(e.Alignment, 1)
		if e.Alignment == 0 && opts.Alignment > 0 {
			wish = opts.Alignment
		}
		if key != nil {
			if s, ok := seen[key]; ok {
				if index[i] = s; opts.Parity == ParityNone {
					p.segments[s].align = lcm(p.segments[s].align, wish) // Python takes the first name's
				}
				continue
			}
			seen[key] = len(p.segments)
		}
		index[i] = len(p.segments)
		p.segments = append(p.segments, planned{name: e.Name, data: e.Data, size: e.Data.Size(), align: wish})
	}
	return index, nil
}

// hashes reads all data whose length is not unique, on all cores, and answers its SHA-256 by entry.
func hashes(entries []Entry) (map[int][sha256.Size]byte, error) {
	sizes := map[int64]int{}
	for i := range entries {
		sizes[entries[i].Data.Size()]++
	}
	var (
		work     = make(chan int)
		mu       sync.Mutex
		wg       sync.WaitGroup
		sums     = map[int][sha256.Size]byte{}
		first    error
		panicked any
	)
	one := func(i int) {
		// A source that panics must do so on the caller's goroutine, where it can be recovered from.
		defer func() {
			if p := recover(); p != nil {
				mu.Lock()
				panicked = p
				mu.Unlock()
			}
		}()
		h := sha256.New()
		n, err := entries[i].Data.WriteTo(h)
		if err == nil && n != entries[i].Data.Size() {
			err = io.ErrUnexpectedEOF
		}
		mu.Lock()
		defer mu.Unlock()
		sums[i] = [sha256.Size]byte(h.Sum(nil))
		if err != nil && first == nil {
			first = fmt.Errorf("entry %s: %w", tensor.Quote(entries[i].Name), err)
		}
	}
	for range runtime.GOMAXPROCS(0) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range work {
				one(i)
			}
		}()
	}
	for i := range entries {
		if size := entries[i].Data.Size(); size > 0 && sizes[size] > 1 {
			work <- i
		}
	}
	close(work)
	wg.Wait()
	if panicked != nil {
		panic(panicked)
	}
	return sums, first
}

// place lays the segments out and answers where the last one ends, from the base, and what the base is aligned to.
func (p *plan) place(opts *WriterOptions) (end, base int64, err error) {
	base = opts.SegmentAlignment
	for i := range p.segments {
		s := &p.segments[i]
		a := opts.SegmentAlignment
		if opts.Parity != ParityCPP {
			a = lcm(a, s.align)
		}
		if opts.Parity == ParityNone {
			base = max(base, a) // all are powers of two
		}
		if s.offset, err = up(end, a); err != nil {
			return 0, 0, err
		}
		var ok bool
		if end, ok = align.Add(s.offset, s.size); !ok {
			return 0, 0, fmt.Errorf("%w: the segments are beyond 2^63 bytes", tensor.ErrLimit)
		}
	}
	return end, base, nil
}

// lcm is the least common multiple of two positive numbers of at most 2^30.
func lcm(a, b int64) int64 {
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	return a / x * b
}

// encode makes the FlatBuffer. The order in which its parts are created is the order in which they lie, from the end, and so
// it is part of parity: Python creates all segments first, and the parts of an entry from the key on; C++ evaluates the
// arguments of its calls from right to left.
func encode(entries []Entry, index []int, segments []planned, parity Parity) ([]byte, error) {
	var b fb.Builder
	b.Grow(leastSize(entries, segments))
	segment := func(s *planned) fb.Offset {
		b.Begin()
		b.Scalar(slot(segmentSize), 8, uint64(s.size), 0)
		b.Scalar(slot(segmentOffset), 8, uint64(s.offset), 0)
		return b.End()
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
		b.Begin()
		b.Ref(slot(layoutDimOrder), order)
		b.Ref(slot(layoutSizes), sizes)
		b.Scalar(slot(layoutType), 1, uint64(uint8(l.ScalarType)), 0)
		return b.End()
	}
	named := func(e *Entry, s int) fb.Offset {
		key := b.String(e.Name)
		var l fb.Offset
		if e.Layout != nil {
			l = layout(e.Layout)
		}
		b.Begin()
		b.Ref(slot(namedLayout), l)
		b.Scalar(slot(namedSegment), 4, uint64(s), 0)
		b.Ref(slot(namedKey), key)
		return b.End()
	}
	segmentRefs, namedRefs := make([]fb.Offset, len(segments)), make([]fb.Offset, len(entries))
	var segmentVector, namedVector fb.Offset
	if parity == ParityCPP {
		for i := range entries {
			namedRefs[i] = named(&entries[i], index[i])
			segmentRefs[i] = segment(&segments[i])
		}
		namedVector = b.Offsets(namedRefs)
		segmentVector = b.Offsets(segmentRefs)
	} else {
		for i := range segments {
			segmentRefs[i] = segment(&segments[i])
		}
		segmentVector = b.Offsets(segmentRefs)
		for i := range entries {
			namedRefs[i] = named(&entries[i], index[i])
		}
		namedVector = b.Offsets(namedRefs)
	}
	b.Begin()
	b.Ref(slot(flatTensorNamed), namedVector)
	b.Ref(slot(flatTensorSegments), segmentVector)
	return b.Finish(b.End(), identifier)
}

// leastSize is what the FlatBuffer takes at least: references, tables and vectors, without padding and vtables. So what cannot
// be is refused before memory is taken for it, and what can be is made in one piece.
func leastSize(entries []Entry, segments []planned) int64 {
	n := int64(0)
	stored := func(x int64, size int64) {
		if x != 0 {
			n += size
		}
	}
	for i := range segments {
		n += 4 + 4
		stored(segments[i].size, 8)
		stored(segments[i].offset, 8)
	}
	for i := range entries {
		e := &entries[i]
		n += 4 + 4 + 4 + 4 + int64(len(e.Name)) + 1
		if l := e.Layout; l != nil {
			n += 4 + 4 + 4 + 4 + 4 + 4 + 5*int64(len(l.Sizes))
			stored(int64(l.ScalarType), 1)
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
