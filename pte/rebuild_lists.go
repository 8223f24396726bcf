package pte

import (
	"fmt"
	"iter"
	"slices"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/pieces"
	"github.com/tensorfile/tensorfile/schema/ptefb"
)

// putLists makes the lists of constants and initial values anew, of what the tensors
// still refer to.
func (b *rebuild) putLists(alignment int64) error {
	constants, err := b.list(RoleConstant, alignment)
	if err != nil {
		return err
	}
	mutable, err := b.list(RoleState, alignment)
	if err != nil {
		return err
	}
	count := func(i uint64) (n int) {
		for x := range b.references() {
			if x == i {
				n++
			}
		}
		return n
	}
	// A list goes into the segment that it had, if nothing else is in that.
	segment := func(n *fb.Node, data dataSegment) uint64 {
		if n != nil && len(n.Bytes(ptefb.SlotSubsegmentOffsetsOffsets)) > 0 {
			if i := n.Scalar(ptefb.SlotSubsegmentOffsetsSegmentIndex,
				0); i < uint64(len(b.segments)) && count(i) == 1 {
				b.segments[i] = data
				return i
			}
		}
		b.segments = append(b.segments, data)
		return uint64(len(b.segments) - 1)
	}
	c := b.tree.Child(ptefb.SlotProgramConstantSegment)
	at := uint64(0)
	if len(constants.offsets) > 1 || c != nil && len(c.Bytes(ptefb.SlotSubsegmentOffsetsOffsets)) > 8 || len(b.segments) == 0 {
		at = segment(c, constants.data)
	} else if c != nil {
		at = c.Scalar(ptefb.SlotSubsegmentOffsetsSegmentIndex, 0)
	}
	b.tree.SetChild(ptefb.SlotProgramConstantSegment, subsegment(at, constants.offsets))
	if b.tree.Has(ptefb.SlotProgramConstantBuffer) {
		b.tree.SetChildren(ptefb.SlotProgramConstantBuffer, []*fb.Node{})
	}
	lists := b.tree.Children(ptefb.SlotProgramMutableDataSegments)
	if len(mutable.offsets) > 1 || len(lists) > 0 {
		var first *fb.Node
		if len(lists) > 0 {
			first = lists[0]
		}
		n := subsegment(segment(first, mutable.data), mutable.offsets)
		lists = append([]*fb.Node{n}, lists[min(1, len(lists)):]...)
		b.tree.SetChildren(ptefb.SlotProgramMutableDataSegments, lists)
	}
	return nil
}

func subsegment(segment uint64, offsets []uint64) *fb.Node {
	n := new(fb.Node)
	setDefault(n, ptefb.SlotSubsegmentOffsetsSegmentIndex, 4, segment)
	n.SetUint64s(ptefb.SlotSubsegmentOffsetsOffsets, offsets)
	return n
}

// references yields the segment of everything that refers to one.
func (b *rebuild) references() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		t := b.tree
		if c := t.Child(ptefb.SlotProgramConstantSegment); c != nil && len(c.Bytes(ptefb.SlotSubsegmentOffsetsOffsets)) > 0 &&
			!yield(c.Scalar(ptefb.SlotSubsegmentOffsetsSegmentIndex, 0)) {
			return
		}
		for _, c := range t.Children(ptefb.SlotProgramMutableDataSegments) {
			if !yield(c.Scalar(ptefb.SlotSubsegmentOffsetsSegmentIndex, 0)) {
				return
			}
		}
		for _, n := range t.Children(ptefb.SlotProgramNamedData) {
			if !yield(n.Scalar(ptefb.SlotNamedDataSegmentIndex, 0)) {
				return
			}
		}
		for _, plan := range t.Children(ptefb.SlotProgramExecutionPlan) {
			for _, d := range plan.Children(ptefb.SlotExecutionPlanDelegates) {
				p := d.Child(ptefb.SlotBackendDelegateProcessed)
				if p != nil && p.Scalar(ptefb.SlotBackendDelegateDataReferenceLocation, 0) != 0 &&
					!yield(p.Scalar(ptefb.SlotBackendDelegateDataReferenceIndex, 0)) {
					return
				}
			}
		}
	}
}

// dropSegments empties the segments that nothing refers to any more. Their places in the
// table stay.
func (b *rebuild) dropSegments() {
	used := make(map[uint64]bool)
	for i := range b.references() {
		used[i] = true
	}
	for i := range b.segments {
		if !used[uint64(i)] {
			b.segments[i] = dataSegment{}
		}
	}
}

type dataList struct {
	data    dataSegment
	offsets []uint64
}

// list collects the bytes of all tensors of a role, those that were external after the
// rest, and gives the tensors their new indices. minAlign aligns each.
func (b *rebuild) list(role Role, minAlign int64) (dataList, error) {
	l := dataList{offsets: []uint64{0}}
	type old struct {
		buffer uint32
		size   int64
		index  int
	}
	// The length of a stored piece is that of the longest of its tensors.
	var stored []*old
	byBuffer := make(map[uint32]*old)
	each := func(visit func(node *fb.Node, info TensorInfo, method Method,
		value int) error) error {
		for m := range b.r.Program().Methods() {
			for i, node := range b.values[m.index] {
				if node == nil || node.Scalar(ptefb.SlotTensorDataBufferIdx,
					0) == 0 || roleOfNode(node) != role {
					continue
				}
				info, _ := m.Value(i).Tensor()
				if err := visit(node, info, m, i); err != nil {
					return err
				}
			}
		}
		return nil
	}
	err := each(func(node *fb.Node, info TensorInfo, m Method, i int) error {
		if b.added[node] != nil {
			return nil
		}
		size, ok := info.Bytes()
		if !ok {
			return malformed(-1, m.field("values[%d].val", i), "%v has no size", info)
		}
		o := byBuffer[info.Buffer]
		if o == nil {
			o = &old{buffer: info.Buffer}
			byBuffer[info.Buffer] = o
			stored = append(stored, o)
		}
		o.size = max(o.size, size)
		return nil
	})
	if err != nil {
		return l, err
	}
	slices.SortFunc(stored, func(a, b *old) int { return int(int64(a.buffer) - int64(b.buffer)) })
	put := func(data []pieces.Piece, size, alignment int64) (int, error) {
		off, err := l.data.append(data, size, alignment)
		l.offsets = append(l.offsets, uint64(off))
		return len(l.offsets) - 1, err
	}
	for _, o := range stored {
		x, bad := b.r.stored(role, o.buffer)
		if bad == nil && o.size > x.size {
			bad = &fault{text: fmt.Sprintf(tooLong, o.size, x.size)}
		}
		if bad != nil {
			return l, b.r.fault(bad, 0, fmt.Sprintf("buffer %d", o.buffer))
		}
		alignment := max(minAlign, min(powerOfTwo(x.off-b.r.at), 4096))
		if o.index, err = put(b.e.original(x.off, o.size, 0), o.size, alignment); err != nil {
			return l, err
		}
	}
	shared := store{}
	err = each(func(node *fb.Node, info TensorInfo, m Method, i int) error {
		if t := b.added[node]; t != nil {
			at, dup, err := shared.share(t.Data, "", len(l.offsets))
			if err == nil && !dup {
				at, err = put(whole(t.Name, t.Data), t.Data.Size(), max(minAlign, int64(t.DType.Align())))
			}
			node.SetScalar(ptefb.SlotTensorDataBufferIdx, 4, uint64(at))
			return err
		}
		node.SetScalar(ptefb.SlotTensorDataBufferIdx, 4, uint64(byBuffer[info.Buffer].index))
		return nil
	})
	if len(l.offsets) > 1 {
		l.data.hold()
	}
	return l, err
}
