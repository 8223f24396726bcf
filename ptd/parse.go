package ptd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/limit"
	"github.com/tensorfile/tensorfile/internal/names"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/schema/ptdfb"
	"github.com/tensorfile/tensorfile/tensor"
)

// firstRead is how much opening asks for before it knows how long the metadata is.
const firstRead = 64 << 10

// newReader reads the metadata of src and takes src over if it succeeds. all is what
// src has, if it is in memory that nobody changes; from a file the metadata is copied.
func newReader(src *source.Source, all []byte, opts *ReaderOptions) (r *Reader, err error) {
	p := parser{r: &Reader{src: src}}
	if opts != nil {
		p.opts = *opts
	}
	if p.limits, err = limit.Complete(p.opts.Limits); err != nil {
		return nil, err
	}
	// Whatever is wrong in a file is an error before it can panic: this is for a bug of
	// ours.
	defer func() {
		if e := recover(); e != nil {
			r, err = nil, failure(-1, "", fmt.Errorf("%w: a bug in tensorfile: %v", tensor.ErrMalformed, e))
		}
	}()
	head := all
	if all == nil {
		n := int64(firstRead)
		if src.Mapped() {
			n = headSize // another read costs nothing
		}
		if head, err = src.Metadata(0, min(src.Size(), n)); err != nil {
			return nil, err
		}
	}
	h, err := parseHeader(head[:min(headSize, len(head))], src.Size(), p.limits)
	if err != nil {
		return nil, err
	}
	if end := h.metadataEnd(); end > int64(len(head)) {
		if head, err = src.Extend(head, end); err != nil {
			return nil, err
		}
	}
	if err := p.metadata(h, head[:h.metadataEnd()]); err != nil {
		return nil, err
	}
	return p.r, nil
}

// A parser fills a Reader from verified metadata.
type parser struct {
	opts   ReaderOptions
	limits tensor.Limits
	r      *Reader
	shift  int64 // from a position in the FlatBuffer to one in the file
	names  int64 // bytes of names so far

	// What belongs to entries, in one piece of memory each, which reserve made.
	payloads []payload
	dims     []int64
	orders   []int
}

// metadata parses the bytes of the file up to the end of the FlatBuffer.
func (p *parser) metadata(h Header, head []byte) error {
	p.r.header, p.shift = h, h.FlatbufferOffset
	root := binary.LittleEndian.Uint32(head)
	if int64(root) < h.FlatbufferOffset+8 {
		return malformed(0, "root", "the root table at byte %d is not after the header, which ends at %d", root, h.FlatbufferOffset+8)
	}
	if int64(root) > int64(len(head))-4 {
		return malformed(0, "root", "the root table at byte %d is not in the metadata, which ends at %d", root, len(head))
	}
	if h.FlatbufferOffset%8 != 0 {
		if err := p.warn(16, "header.flatbuffer_offset", "%d is not a multiple of 8 and takes the flatbuffer out of alignment", h.FlatbufferOffset); err != nil {
			return err
		}
	}
	if over := p.r.src.Size() - h.SegmentBaseOffset - h.SegmentDataSize; over > 0 && h.SegmentBaseOffset > 0 {
		if err := p.warn(h.SegmentBaseOffset+h.SegmentDataSize, "", "%d bytes after the last segment", over); err != nil {
			return err
		}
	}
	table := flatbuffers.Table{Bytes: head[h.FlatbufferOffset:], Pos: flatbuffers.UOffsetT(root) - flatbuffers.UOffsetT(h.FlatbufferOffset)}
	err := verify(table, ptdfb.TableFlatTensor)
	// Only verification against both separates the generations.
	if (err != nil || fb.FieldPos(table, ptdfb.SlotLegacyFlatTensorSegments) != 0) &&
		verify(table, ptdfb.TableLegacyFlatTensor) == nil && fb.FieldPos(table, ptdfb.SlotLegacyFlatTensorSegments) != 0 {
		return p.legacy(table)
	}
	if err != nil {
		return p.refused(err)
	}
	return p.current(table)
}

// verify checks all that is reachable from the root table, as one of that type.
func verify(root flatbuffers.Table, table int) error {
	return fb.VerifySpliced(root.Bytes, uint32(root.Pos), &ptdfb.Schema, table, fb.Limits{MaxTables: math.MaxInt32})
}

// refused turns what the verifier says into an error of the file.
func (p *parser) refused(err error) error {
	var e *fb.Error
	if !errors.As(err, &e) {
		return failure(-1, "", err)
	}
	class := tensor.ErrMalformed
	if e.Limit {
		class = tensor.ErrLimit
	}
	return failure(p.shift+e.Offset, e.Path, fmt.Errorf("%w: %s", class, e.Reason))
}

// current reads a FlatTensor of 0.7 and later.
func (p *parser) current(table flatbuffers.Table) error {
	var root ptdfb.FlatTensor
	root.Init(table.Bytes, table.Pos)
	if err := p.version(root.Version(), p.at(table, ptdfb.SlotFlatTensorVersion)); err != nil {
		return err
	}
	for _, f := range []struct {
		slot int
		name string
	}{{ptdfb.SlotFlatTensorSegments, "segments"}, {ptdfb.SlotFlatTensorNamedData, "named_data"}} {
		if fb.FieldPos(table, f.slot) == 0 {
			return malformed(p.at(table, f.slot), f.name, "absent")
		}
	}
	at := p.at(table, ptdfb.SlotFlatTensorNamedData)
	var nd ptdfb.NamedData
	var l ptdfb.TensorLayout
	need := needs{entries: root.NamedDataLength(), segments: root.SegmentsLength()}
	for i := range need.entries {
		if root.NamedData(&nd, i); nd.TensorLayout(&l) != nil {
			need.add(layoutOf(&l))
		}
	}
	if err := p.reserve(need, at, "named_data"); err != nil {
		return err
	}
	if err := p.segments(&root); err != nil {
		return err
	}
	place := place{vector: "named_data", key: ".key", below: ".tensor_layout"}
	for place.i = range need.entries {
		root.NamedData(&nd, place.i)
		e := &p.r.entries[place.i]
		err := p.name(e, nd.Key(), place, p.at(nd.Table(), ptdfb.SlotNamedDataKey))
		if err == nil {
			err = p.segmentOf(e, nd.SegmentIndex(), place, p.at(nd.Table(), ptdfb.SlotNamedDataSegmentIndex))
		}
		if err != nil {
			return err
		}
		data := &p.r.segments[e.segment]
		e.Data = tensor.NewBlob(data)
		if nd.TensorLayout(&l) == nil {
			continue
		}
		n, ok, err := p.tensor(e, layoutOf(&l), place, data.Size())
		if err != nil {
			return err
		}
		if ok {
			p.payload(e, data.Offset(), n, ScalarType(l.ScalarType()))
		}
	}
	return p.finish(at, func(i int) (int64, string) {
		root.NamedData(&nd, i)
		return p.at(nd.Table(), ptdfb.SlotNamedDataKey), at1("named_data", i) + ".key"
	})
}

// finish makes the table of names, and refuses a duplicate: ExecuTorch's readers
// disagree about which of the two it means. where returns the place of a name.
func (p *parser) finish(offset int64, where func(i int) (int64, string)) error {
	r := p.r
	if p.names > r.header.FlatbufferSize {
		return failure(offset, "", fmt.Errorf("%w: the names share their bytes: together they are longer than the metadata", tensor.ErrLimit))
	}
	var dup int
	r.table, dup = names.Build(len(r.entries), func(i int) string { return r.entries[i].Name })
	if dup >= 0 {
		name := r.entries[dup].Name
		_, first := where(r.table.Lookup(name))
		off, field := where(dup)
		return malformed(off, field, "duplicate name %s, first in %s", quote.Name(name), first)
	}
	for i := range r.entries {
		if r.entries[i].isTensor {
			r.tensors++
		}
	}
	return nil
}

// needs counts what entries take in memory.
type needs struct{ entries, segments, tensors, dims, orders int }

func (n *needs) add(l layout) {
	n.tensors++
	n.dims += len(l.sizes) / 4
	if !rowMajor(l.order) {
		n.orders += len(l.order)
	}
}

// bytes is the memory for what was counted.
func (n *needs) bytes() int64 {
	return int64(n.entries)*(sizeOf[entry]()+names.Each) + int64(n.segments)*sizeOf[source.Extent]() +
		int64(n.tensors)*sizeOf[payload]() + int64(n.dims)*8 + int64(n.orders)*sizeOf[int]()
}

func sizeOf[T any]() int64 { return int64(reflect.TypeFor[T]().Size()) }

// reserve allocates what entries take. A file that refers to the same table again and
// again could ask for many times its own size: that of a genuine one stays below 8
// times its metadata.
func (p *parser) reserve(need needs, offset int64, field string) error {
	r := p.r
	if int64(need.entries) > p.limits.MaxTensors {
		return failure(offset, field, fmt.Errorf("%w: %d entries, Limits.MaxTensors is %d", tensor.ErrLimit, need.entries, p.limits.MaxTensors))
	}
	// The metadata itself is kept too; a quarter of the 1 MiB is for what does not grow.
	if n := need.bytes(); n > 7*r.header.FlatbufferSize+3<<18 {
		return failure(offset, field, fmt.Errorf("%w: %d entries, more than %d bytes of metadata can describe without sharing them",
			tensor.ErrLimit, need.entries, r.header.FlatbufferSize))
	}
	r.entries, r.segments = make([]entry, need.entries), make([]source.Extent, need.segments)
	p.payloads, p.dims, p.orders = make([]payload, 0, need.tensors), make([]int64, 0, need.dims), make([]int, 0, need.orders)
	return nil
}

// A segmentList is the root table of either generation.
type segmentList interface {
	Segments(obj *ptdfb.DataSegment, j int) bool
	SegmentsLength() int
}

// segments reads where the segments are and compares them with the header.
func (p *parser) segments(root segmentList) error {
	r, h := p.r, p.r.header
	var s ptdfb.DataSegment
	limit, end := uint64(h.SegmentDataSize), uint64(0)
	for i := range r.segments {
		root.Segments(&s, i)
		off, size := s.Offset(), s.Size()
		offsetAt := func() int64 { return p.at(s.Table(), ptdfb.SlotDataSegmentOffset) }
		switch {
		case off > limit:
			return malformed(offsetAt(), at1("segments", i)+".offset", "%d bytes at %d of the %d that header.segment_data_size counts", size, off, limit)
		case size > limit-off:
			return malformed(p.at(s.Table(), ptdfb.SlotDataSegmentSize), at1("segments", i)+".size",
				"%d bytes at %d of the %d that header.segment_data_size counts", size, off, limit)
		case off < end:
			if err := p.warn(offsetAt(), at1("segments", i)+".offset", "%d, before the end of the segment listed before it, %d", off, end); err != nil {
				return err
			}
		}
		end = max(end, off+size)
		var err error
		if r.segments[i], err = r.src.Extent(h.SegmentBaseOffset+int64(off), int64(size)); err != nil {
			return failure(offsetAt(), at1("segments", i), err)
		}
	}
	return nil
}

func (p *parser) version(v uint32, at int64) error {
	if v != 0 {
		return failure(at, "version", fmt.Errorf("%w: version %d, only 0 is known", errors.ErrUnsupported, v))
	}
	return nil
}

// at is where a field of a table is in the file, or the table where the field is absent.
func (p *parser) at(t flatbuffers.Table, slot int) int64 {
	return p.shift + int64(fb.FieldPosOr(t, slot))
}

// at1 names an element of a vector.
func at1(vector string, i int) string { return vector + "[" + strconv.Itoa(i) + "]" }

// warn notes a departure from the format; it is an error if Strict.
func (p *parser) warn(offset int64, field, format string, args ...any) error {
	if p.silent() {
		return nil
	}
	return p.tolerate(malformed(offset, field, format, args...))
}

// maxWarnings are listed, and one that says that there are more.
const maxWarnings = 100

// silent reports whether one more warning would be listed nowhere.
func (p *parser) silent() bool { return !p.opts.Strict && len(p.r.warnings) > maxWarnings }

func (p *parser) tolerate(err error) error {
	r := p.r
	switch {
	case p.opts.Strict:
		return err
	case len(r.warnings) < maxWarnings:
		r.warnings = append(r.warnings, err)
	case len(r.warnings) == maxWarnings:
		r.warnings = append(r.warnings, fmt.Errorf("ptd: more than %d warnings, the rest is not listed", maxWarnings))
	}
	return nil
}
