package pte

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/tensorfile/tensorfile/internal/executorch"
	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// A draft is a program on its way into a file: its tables, and what its segments hold. A
// Builder makes one of nothing, an Edit one of the program that it changes.
type draft struct {
	e        *Edit // nil for a Builder's
	tree     *fb.Node
	values   [][]*fb.Node                // tensors by method and value, nil for all else
	added    map[*fb.Node]*tensor.Tensor // the bytes of tensors that are not in a file yet
	segments []dataSegment
	inner    int    // what vectors inside the flatbuffer are aligned to
	tail     []byte // what a header of a newer version has after the fields that are known
	header   bool   // there is one even without bytes in segments
}

// isStored is the data_buffer_idx of a tensor in added: not its place, which putLists
// finds, but a mark that it has one.
const isStored = 1

// extraInfo is a tensor's extra information, which is made where there is none.
func extraInfo(n *fb.Node) *fb.Node {
	info := n.Child(ptefb.SlotTensorExtraTensorInfo)
	if info == nil {
		info = new(fb.Node)
		n.SetChild(ptefb.SlotTensorExtraTensorInfo, info)
	}
	return info
}

// addSegment stores a payload and returns the segment that has it.
func (d *draft) addSegment(seen store, name string, data tensor.Blob,
	alignment int64) (int, error) {
	at, shared := seen.share(data, len(d.segments))
	if !shared {
		d.segments = append(d.segments, dataSegment{})
		_, err := d.segments[at].append(whole(name, data), data.Size(), alignment)
		return at, err
	}
	a, ok := executorch.LCM(d.segments[at].align, alignment)
	if d.segments[at].align = a; !ok {
		return 0, fmt.Errorf("pte: alignment %d", alignment)
	}
	return at, nil
}

// putLists makes the lists of constants and initial values anew, of what the tensors
// still refer to.
func (d *draft) putLists(alignment int64) error {
	constants, err := d.list(RoleConstant, alignment)
	if err != nil {
		return err
	}
	mutable, err := d.list(RoleState, alignment)
	if err != nil {
		return err
	}
	count := func(i uint64) (n int) {
		for x := range d.references() {
			if x == i {
				n++
			}
		}
		return n
	}
	// A list goes into the segment that it had, if nothing else is in that.
	segment := func(n *fb.Node, data dataSegment) uint64 {
		if n != nil && len(n.Bytes(ptefb.SlotSubsegmentOffsetsOffsets)) > 0 {
			i := n.Scalar(ptefb.SlotSubsegmentOffsetsSegmentIndex, 0)
			if i < uint64(len(d.segments)) && count(i) == 1 {
				d.segments[i] = data
				return i
			}
		}
		d.segments = append(d.segments, data)
		return uint64(len(d.segments) - 1)
	}
	c := d.tree.Child(ptefb.SlotProgramConstantSegment)
	at := uint64(0)
	if len(constants.offsets) > 1 || len(d.segments) == 0 ||
		c != nil && len(c.Bytes(ptefb.SlotSubsegmentOffsetsOffsets)) > 8 {
		at = segment(c, constants.data)
	} else if c != nil {
		at = c.Scalar(ptefb.SlotSubsegmentOffsetsSegmentIndex, 0)
	}
	d.tree.SetChild(ptefb.SlotProgramConstantSegment, subsegment(at, constants.offsets))
	if d.tree.Has(ptefb.SlotProgramConstantBuffer) {
		d.tree.SetChildren(ptefb.SlotProgramConstantBuffer, []*fb.Node{})
	}
	lists := d.tree.Children(ptefb.SlotProgramMutableDataSegments)
	if len(mutable.offsets) > 1 || len(lists) > 0 {
		var first *fb.Node
		if len(lists) > 0 {
			first = lists[0]
		}
		n := subsegment(segment(first, mutable.data), mutable.offsets)
		lists = append([]*fb.Node{n}, lists[min(1, len(lists)):]...)
		d.tree.SetChildren(ptefb.SlotProgramMutableDataSegments, lists)
	}
	return nil
}

func subsegment(segment uint64, offsets []uint64) *fb.Node {
	return new(fb.Node).SetNumber(ptefb.SlotSubsegmentOffsetsSegmentIndex, 4, segment).
		SetVector(ptefb.SlotSubsegmentOffsetsOffsets, vector(offsets), 8)
}

// references yields the segment of everything that refers to one.
func (d *draft) references() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		t := d.tree
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
func (d *draft) dropSegments() {
	used := make(map[uint64]bool)
	for i := range d.references() {
		used[i] = true
	}
	for i := range d.segments {
		if !used[uint64(i)] {
			d.segments[i] = dataSegment{}
		}
	}
}

// list collects the bytes of all tensors of a role, those that were external after the
// rest, and gives the tensors their new indices. minAlign aligns each.
func (d *draft) list(role Role, minAlign int64) (dataList, error) {
	l := dataList{offsets: []uint64{0}}
	type user struct {
		node   *fb.Node
		buffer uint32
	}
	var users []user
	sizes := make(map[uint32]int64) // of what is stored: that of the longest of its tensors
	for method, tensors := range d.values {
		for i, node := range tensors {
			if node == nil || roleOfNode(node) != role ||
				node.Scalar(ptefb.SlotTensorDataBufferIdx, 0) == 0 {
				continue
			}
			if d.added[node] != nil {
				users = append(users, user{node: node})
				continue
			}
			m := d.e.r.Program().method(method)
			info, _ := m.Value(i).Tensor()
			size, ok := info.Bytes()
			if !ok {
				return l, malformed(-1, m.field("values[%d].val", i), "%v has no size", info)
			}
			users = append(users, user{node, info.Buffer})
			sizes[info.Buffer] = max(sizes[info.Buffer], size)
		}
	}
	indices := make(map[uint32]int)
	for _, buffer := range slices.Sorted(maps.Keys(sizes)) {
		r, size := d.e.r, sizes[buffer]
		x, err := r.locate(role, buffer, size, site{path: "buffer %d", index: [3]int{int(buffer)}})
		if err != nil {
			return l, err
		}
		alignment := max(minAlign, powerOfTwo(x.off-r.at, 4096))
		indices[buffer], err = l.put(d.e.over.Section(x.off, size, 0), size, alignment)
		if err != nil {
			return l, err
		}
	}
	seen := make(store)
	for _, u := range users {
		index := indices[u.buffer]
		if t := d.added[u.node]; t != nil {
			at, shared := seen.share(t.Data, len(l.offsets))
			if index = at; !shared {
				alignment := max(minAlign, int64(t.DType.Align()))
				if _, err := l.put(whole(t.Name, t.Data), t.Data.Size(), alignment); err != nil {
					return l, err
				}
			}
		}
		u.node.SetScalar(ptefb.SlotTensorDataBufferIdx, 4, uint64(index))
	}
	l.ensureNonEmpty()
	return l, nil
}

// finish writes the flatbuffer and lays the segments out.
func (d *draft) finish(alignment int64) (*output, error) {
	size, base, err := layOut(d.segments, alignment)
	if err != nil {
		return nil, err
	}
	nodes := d.tree.Children(ptefb.SlotProgramSegments)
	for len(nodes) < len(d.segments) {
		nodes = append(nodes, new(fb.Node))
	}
	if len(nodes) > 0 || d.tree.Has(ptefb.SlotProgramSegments) {
		d.tree.SetChildren(ptefb.SlotProgramSegments, nodes)
	}
	for i, n := range nodes {
		n.SetNumber(ptefb.SlotDataSegmentOffset, 8, uint64(d.segments[i].off))
		n.SetNumber(ptefb.SlotDataSegmentSize, 8, uint64(d.segments[i].size))
	}
	var w fb.Builder
	program, err := w.Finish(d.tree.Write(&w), "ET12")
	if err != nil {
		return nil, tooLarge(err)
	}
	return finish(program, d.segments, size, base, d.inner, d.tail, d.header)
}
