package pte

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/tensorfile/tensorfile/internal/fb"
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
	if len(constants.offsets) > 1 || len(b.segments) == 0 ||
		c != nil && len(c.Bytes(ptefb.SlotSubsegmentOffsetsOffsets)) > 8 {
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
		if c := t.Child(ptefb.SlotProgramConstantSegment); c != nil &&
			len(c.Bytes(ptefb.SlotSubsegmentOffsetsOffsets)) > 0 &&
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

// list collects the bytes of all tensors of a role, those that were external after the
// rest, and gives the tensors their new indices. minAlign aligns each.
func (b *rebuild) list(role Role, minAlign int64) (dataList, error) {
	l := dataList{offsets: []uint64{0}}
	type user struct {
		node   *fb.Node
		buffer uint32
	}
	var users []user
	sizes := make(map[uint32]int64) // of what is stored: that of the longest of its tensors
	for m := range b.r.Program().Methods() {
		for i, node := range b.values[m.index] {
			if node == nil || roleOfNode(node) != role ||
				node.Scalar(ptefb.SlotTensorDataBufferIdx, 0) == 0 {
				continue
			}
			info, _ := m.Value(i).Tensor()
			users = append(users, user{node, info.Buffer})
			if b.added[node] != nil {
				continue
			}
			size, ok := info.Bytes()
			if !ok {
				return l, malformed(-1, m.field("values[%d].val", i), "%v has no size", info)
			}
			sizes[info.Buffer] = max(sizes[info.Buffer], size)
		}
	}
	indices := make(map[uint32]int)
	for _, buffer := range slices.Sorted(maps.Keys(sizes)) {
		size := sizes[buffer]
		x, err := b.r.locate(role, buffer, size, 0,
			func() string { return fmt.Sprintf("buffer %d", buffer) })
		if err != nil {
			return l, err
		}
		alignment := max(minAlign, min(powerOfTwo(x.off-b.r.at), 4096))
		if indices[buffer], err = l.put(b.e.original(x.off, size, 0), size, alignment); err != nil {
			return l, err
		}
	}
	shared := store{}
	for _, u := range users {
		index := indices[u.buffer]
		if t := b.added[u.node]; t != nil {
			at, dup, err := shared.share(t.Data, "", len(l.offsets))
			if err == nil && !dup {
				at, err = l.put(whole(t.Name, t.Data), t.Data.Size(), max(minAlign, int64(t.DType.Align())))
			}
			if err != nil {
				return l, err
			}
			index = at
		}
		u.node.SetScalar(ptefb.SlotTensorDataBufferIdx, 4, uint64(index))
	}
	l.hold()
	return l, nil
}
