package pte

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// A rebuild is a program that was taken apart.
type rebuild struct {
	draft
	r     *Reader
	named []*fb.Node // named data of the original
	lists bool       // constants or initial values were changed
}

func newRebuild(e *Edit) (*rebuild, error) {
	r := e.r
	inline := r.inlineAlignment()
	tree, err := fb.Take(r.buf, &ptefb.Schema, ptefb.TableProgram, func(table, slot int) int {
		if table == ptefb.TableBuffer || table == ptefb.TableBackendDelegateInlineData {
			return inline
		}
		return 1
	})
	if errors.Is(err, fb.ErrUnknown) {
		return nil, fmt.Errorf("pte: %w: the program cannot be rebuilt without loss: %w",
			errors.ErrUnsupported, err)
	} else if err != nil {
		return nil, err
	}
	b := &rebuild{r: r, named: tree.Children(ptefb.SlotProgramNamedData),
		draft: draft{e: e, tree: tree, inner: inline, added: make(map[*fb.Node]*tensor.Tensor),
			header: r.header.SegmentBase > 0 && r.delegatesInSegments()}}
	if n := r.header.Length; n > headerLength {
		b.tail = r.buf[8+headerLength : 8+n]
	}
	for _, plan := range tree.Children(ptefb.SlotProgramExecutionPlan) {
		values := plan.Children(ptefb.SlotExecutionPlanValues)
		tensors := make([]*fb.Node, len(values))
		for i, v := range values {
			if Kind(v.Scalar(ptefb.SlotEValueValType, 0)) == KindTensor {
				tensors[i] = v.Child(ptefb.SlotEValueVal)
			}
		}
		b.values = append(b.values, tensors)
	}
	return b, nil
}

// node is the tensor at a place of the original.
func (b *rebuild) node(p place) *fb.Node { return b.values[p.method][p.value] }

// maxSeenAlignment bounds what the offset of a segment is taken to be aligned to: the
// file does not say.
const maxSeenAlignment = 16384

// powerOfTwo returns the largest power of two that divides all offsets, given what they
// have together; 0 has none, and gives max.
func powerOfTwo(offsets, max int64) int64 {
	if offsets == 0 {
		return max
	}
	return min(offsets&-offsets, max)
}

// inlineAlignment is what all payloads inside the flatbuffer are aligned to: 16, or as
// much more as they all have.
func (r *Reader) inlineAlignment() int {
	all := int64(0)
	add := func(t flatbuffers.Table, slot int) {
		if x, _ := r.inline(t, slot); x.size > 0 {
			all |= x.off - r.at
		}
	}
	for _, t := range fb.Each(r.root.ConstantBufferLength(), r.root.ConstantBuffer) {
		add(t.Table(), ptefb.SlotBufferStorage)
	}
	for _, t := range fb.Each(r.root.BackendDelegateDataLength(), r.root.BackendDelegateData) {
		add(t.Table(), ptefb.SlotBackendDelegateInlineDataData)
	}
	if all == 0 {
		return 16
	}
	return int(max(16, powerOfTwo(all, 4096)))
}

// segmentAlignment is what all segments and their base are aligned to, as far as can be
// seen.
func (r *Reader) segmentAlignment() int64 {
	all := r.header.SegmentBase
	for _, s := range r.segments {
		if s.size > 0 {
			all |= s.off - r.at
		}
	}
	if all == 0 {
		return defaultSegmentAlignment
	}
	return powerOfTwo(all, maxSeenAlignment)
}

// load makes the segments of the original, with what is replaced.
func (b *rebuild) load(alignment int64) {
	r := b.r
	b.segments = make([]dataSegment, len(r.segments))
	for i, s := range r.segments {
		x := &b.segments[i]
		if s.size > 0 {
			x.pieces = b.e.over.Section(s.off, s.size, 0)
		}
		x.size = s.size
		x.align = powerOfTwo(s.off-r.at, min(max(alignment, 4096), maxSeenAlignment))
	}
}

// inlined puts what is replaced into the constants inside the flatbuffer.
func (b *rebuild) inlined() error {
	nodes := b.tree.Children(ptefb.SlotProgramConstantBuffer)
	for i, t := range fb.Each(len(nodes), b.r.root.ConstantBuffer) {
		x, _ := b.r.inline(t.Table(), ptefb.SlotBufferStorage)
		if !b.e.over.Changes(x.off, x.size) {
			continue
		}
		data := make([]byte, x.size)
		for _, p := range b.e.over.Section(x.off, x.size, 0) {
			if err := p.Data.ReadInto(data[p.Off : p.Off+p.Size]); err != nil {
				return err
			}
		}
		nodes[i].SetBytes(ptefb.SlotBufferStorage, data, b.inner)
	}
	return nil
}

// rename gives tensors their new names.
func (b *rebuild) rename() error {
	if err := b.e.finalNames(); err != nil {
		return err
	}
	for p, name := range b.e.renamed {
		extraInfo(b.node(p)).SetString(ptefb.SlotExtraTensorInfoFullyQualifiedName, name)
	}
	return b.renameBlobs()
}

// output applies all changes.
func (b *rebuild) output(opts *WriterOptions) (*output, error) {
	alignment := opts.SegmentAlignment
	if alignment == 0 {
		alignment = b.r.segmentAlignment()
	}
	original := b.tree // from which another Write of the Edit starts
	b.tree = original.Clone()
	defer func() { b.tree = original }()
	b.load(alignment)
	if err := errors.Join(b.inlined(), b.rename()); err != nil {
		return nil, err
	}
	b.setGetters()
	if b.lists {
		if err := b.putLists(max(opts.TensorAlignment, defaultTensorAlignment)); err != nil {
			return nil, err
		}
	}
	o, err := b.finish(alignment)
	if err != nil {
		return nil, err
	}
	if b.r.header.Length > 0 { // bytes after the last segment stay
		end := b.r.dataEnd()
		o.pieces = append(o.pieces, b.e.over.Section(end, b.r.size-end, o.size)...)
		var ok bool
		if o.size, ok = align.Add(o.size, b.r.size-end); !ok {
			return nil, fmt.Errorf("pte: %w: a file of more than 2^63 bytes", tensor.ErrLimit)
		}
	}
	return o, nil
}

// delegatesInSegments reports whether a payload of a delegate is a segment, which may be
// empty. The runtime looks for it only where a header says where segments are.
func (r *Reader) delegatesInSegments() bool {
	return slices.ContainsFunc(r.Program().Segments(), func(s Segment) bool {
		return slices.ContainsFunc(s.Roles, func(role string) bool {
			return strings.HasPrefix(role, delegatePrefix)
		})
	})
}
