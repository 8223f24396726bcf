package pte

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"slices"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/executorch"
	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// A draft is a program that is being assembled for writing: its tables and its segments.
// A Builder starts from an empty draft, an Edit from the tables of the original.
type draft struct {
	e               *Edit // nil for a Builder's
	tree            *fb.Node
	tensors         [][]*tensorValue // by method and value; nil for other values
	listsChanged    bool             // the lists of constants and initial values are made anew
	segments        []dataSegment
	vectorAlignment int    // of vectors inside the flatbuffer
	headerTail      []byte // bytes of a newer header after the known fields
	needsHeader     bool   // even if no segment has bytes
}

// A tensorValue is a tensor of a draft.
type tensorValue struct {
	node *fb.Node
	role Role
	of   Value          // in the program that is edited
	data *tensor.Tensor // the new data, nil if the tensor keeps its own

	// For a Builder.
	shape  tensor.Shape
	bytes  int64
	placed bool // place was set by the caller
	place  Place
}

// extraInfo returns the tensor's ExtraTensorInfo, and adds one if there is none.
func (t *tensorValue) extraInfo() *fb.Node {
	info := t.node.Child(ptefb.SlotTensorExtraTensorInfo)
	if info == nil {
		info = new(fb.Node)
		t.node.SetChild(ptefb.SlotTensorExtraTensorInfo, info)
	}
	return info
}

// A dataSegment is a segment of a draft.
type dataSegment struct {
	sections []format.Section // offsets count from the start of the segment
	size     int64
	align    int64 // the largest alignment of a section
	off      int64 // from the segment base
}

// append adds data of size bytes to the end, and returns its offset in the segment.
func (s *dataSegment) append(data []format.Section, size, alignment int64) (int64, error) {
	off, ok := align.Up(s.size, alignment)
	if !ok || size < 0 || size > math.MaxInt64-off {
		return 0, errs.New(tensor.ErrLimit, "a segment of more than 2^63 bytes")
	}
	s.align = max(s.align, alignment)
	for _, p := range data {
		p.Off += off
		s.sections = append(s.sections, p)
	}
	s.size = off + size
	return off, nil
}

// blobSections returns one section with all of a blob.
func blobSections(name string, b tensor.Blob) []format.Section {
	return []format.Section{{Name: name, Size: b.Size(), Data: b}}
}

// A store holds the index under which each payload was stored, by its memory or source,
// so that a payload that is given twice is stored once.
type store map[any]int

// share returns the index of an earlier payload with the same memory or source. If there
// is none, it stores and returns i.
func (s store) share(b tensor.Blob, i int) (at int, shared bool) {
	id := b.Identity()
	if b.Size() == 0 || id == nil {
		return i, false
	}
	if at, shared = s[id]; !shared {
		s[id], at = i, i
	}
	return at, shared
}

// addSegment stores a payload in a segment of its own, or shares the segment of the same
// payload, and returns the index of the segment.
func (d *draft) addSegment(seen store, name string, data tensor.Blob,
	alignment int64) (int, error) {
	at, shared := seen.share(data, len(d.segments))
	if !shared {
		d.segments = append(d.segments, dataSegment{})
		_, err := d.segments[at].append(blobSections(name, data), data.Size(), alignment)
		return at, err
	}
	a, ok := executorch.LCM(d.segments[at].align, alignment)
	if d.segments[at].align = a; !ok {
		return 0, errs.New(errors.ErrUnsupported, "alignment %d", alignment)
	}
	return at, nil
}

// A dataList is a segment of tensors with the table of their offsets.
type dataList struct {
	dataSegment
	offsets []uint64 // index 0 is not used: it means that a tensor has no bytes
}

// put adds bytes and returns their index in the list.
func (l *dataList) put(data []format.Section, size, alignment int64) (int, error) {
	off, err := l.append(data, size, alignment)
	l.offsets = append(l.offsets, uint64(off))
	return len(l.offsets) - 1, err
}

// list makes the list of all tensors of a role, and gives the tensors their indices in
// it. Bytes of the original come first. minAlign is the alignment that each tensor has at
// least.
func (d *draft) list(role Role, minAlign int64) (dataList, error) {
	l := dataList{offsets: []uint64{0}}
	users, sizes, err := d.users(role)
	if err != nil {
		return l, err
	}
	indices := make(map[uint32]int) // in the new list, by the index in the original
	for _, buffer := range slices.Sorted(maps.Keys(sizes)) {
		r, size := d.e.r, sizes[buffer]
		x, err := r.locate(role, buffer, size,
			location{path: "buffer %d", index: [3]int{int(buffer)}})
		if err != nil {
			return l, err
		}
		alignment := max(minAlign, powerOfTwo(x.off-r.at, 4096))
		indices[buffer], err = l.put(d.e.patched.Sections(x.off, size, 0), size, alignment)
		if err != nil {
			return l, err
		}
	}
	seen := make(store)
	for _, t := range users {
		info, _ := t.of.Tensor()
		index, shared := indices[info.Buffer], true
		if t.data != nil {
			index, shared = seen.share(t.data.Data, len(l.offsets))
		}
		if !shared {
			data, alignment := t.data.Data, max(minAlign, int64(t.data.DType.Align()))
			sections := blobSections(t.data.Name, data)
			if _, err := l.put(sections, data.Size(), alignment); err != nil {
				return l, err
			}
		}
		t.node.SetScalar(ptefb.SlotTensorDataBufferIdx, 4, uint64(index))
	}
	if len(l.offsets) > 1 && l.size == 0 {
		// The runtime finds no tensor in an empty segment, not even one without elements.
		l.sections, l.size = blobSections("empty segment", tensor.BlobOf([]byte{0})), 1
	}
	return l, nil
}

// users returns the tensors of a role that have bytes, and the sizes of the bytes that
// come from the original, by data_buffer_idx. Tensors that share bytes may differ in
// size: the largest counts.
func (d *draft) users(role Role) (users []*tensorValue, sizes map[uint32]int64, err error) {
	sizes = make(map[uint32]int64)
	for _, t := range slices.Concat(d.tensors...) {
		if t == nil || t.role != role {
			continue
		}
		if info, _ := t.of.Tensor(); t.data == nil {
			if info.Buffer == 0 {
				continue
			}
			size, ok := info.Bytes()
			if !ok {
				return nil, nil, errs.Malformed(-1, t.of.path(), "%v has no size", info)
			}
			sizes[info.Buffer] = max(sizes[info.Buffer], size)
		}
		users = append(users, t)
	}
	return users, sizes, nil
}

// putLists makes the lists of constants and initial values, and stores each in a segment.
func (d *draft) putLists(alignment int64) error {
	constants, err := d.list(RoleConstant, alignment)
	if err != nil {
		return err
	}
	mutable, err := d.list(RoleState, alignment)
	if err != nil {
		return err
	}
	c := cmp.Or(d.tree.Child(ptefb.SlotProgramConstantSegment), new(fb.Node))
	at := c.Scalar(ptefb.SlotSubsegmentOffsetsSegmentIndex, 0)
	if len(constants.offsets) > 1 || len(d.segments) == 0 ||
		len(c.Bytes(ptefb.SlotSubsegmentOffsetsOffsets)) > 8 {
		at = d.segmentOf(c, constants.dataSegment)
	}
	d.tree.SetChild(ptefb.SlotProgramConstantSegment, subsegmentsNode(at, constants.offsets))
	if d.tree.Has(ptefb.SlotProgramConstantBuffer) {
		d.tree.SetChildren(ptefb.SlotProgramConstantBuffer, nil)
	}
	lists := slices.Clone(d.tree.Children(ptefb.SlotProgramMutableDataSegments))
	if len(mutable.offsets) > 1 && len(lists) == 0 {
		lists = append(lists, new(fb.Node))
	}
	if len(lists) > 0 {
		lists[0] = subsegmentsNode(d.segmentOf(lists[0], mutable.dataSegment), mutable.offsets)
		d.tree.SetChildren(ptefb.SlotProgramMutableDataSegments, lists)
	}
	return nil
}

// segmentOf puts data into the segment of a list, or into a new segment if the list has
// none or shares it, and returns the segment's index.
func (d *draft) segmentOf(list *fb.Node, data dataSegment) uint64 {
	i := list.Scalar(ptefb.SlotSubsegmentOffsetsSegmentIndex, 0)
	if len(list.Bytes(ptefb.SlotSubsegmentOffsetsOffsets)) == 0 || i >= uint64(len(d.segments)) ||
		d.references()[i] > 1 {
		i = uint64(len(d.segments))
		d.segments = append(d.segments, dataSegment{})
	}
	d.segments[i] = data
	return i
}

func subsegmentsNode(segment uint64, offsets []uint64) *fb.Node {
	return new(fb.Node).SetNumber(ptefb.SlotSubsegmentOffsetsSegmentIndex, 4, segment).
		SetVector(ptefb.SlotSubsegmentOffsetsOffsets, vector(offsets), 8)
}

// references counts the lists, blobs and delegates that refer to each segment.
func (d *draft) references() map[uint64]int {
	t, refs := d.tree, make(map[uint64]int)
	c := t.Child(ptefb.SlotProgramConstantSegment)
	if c != nil && len(c.Bytes(ptefb.SlotSubsegmentOffsetsOffsets)) > 0 {
		refs[c.Scalar(ptefb.SlotSubsegmentOffsetsSegmentIndex, 0)]++
	}
	for _, c := range t.Children(ptefb.SlotProgramMutableDataSegments) {
		refs[c.Scalar(ptefb.SlotSubsegmentOffsetsSegmentIndex, 0)]++
	}
	for _, n := range t.Children(ptefb.SlotProgramNamedData) {
		refs[n.Scalar(ptefb.SlotNamedDataSegmentIndex, 0)]++
	}
	for _, plan := range t.Children(ptefb.SlotProgramExecutionPlan) {
		for _, d := range plan.Children(ptefb.SlotExecutionPlanDelegates) {
			p := d.Child(ptefb.SlotBackendDelegateProcessed)
			if p != nil && p.Scalar(ptefb.SlotBackendDelegateDataReferenceLocation, 0) != 0 {
				refs[p.Scalar(ptefb.SlotBackendDelegateDataReferenceIndex, 0)]++
			}
		}
	}
	return refs
}

// finish writes the flatbuffer and places the segments after it. If no segment has bytes,
// there is no extended header, unless needsHeader is set.
func (d *draft) finish(alignment int64) (*output, error) {
	nodes := d.tree.Children(ptefb.SlotProgramSegments)
	for len(nodes) < len(d.segments) {
		nodes = append(nodes, new(fb.Node))
	}
	if len(nodes) > 0 || d.tree.Has(ptefb.SlotProgramSegments) {
		d.tree.SetChildren(ptefb.SlotProgramSegments, nodes)
	}
	size, base := int64(0), alignment // of all segments; base is the alignment of their base
	for i := range d.segments {
		s := &d.segments[i]
		off, end, a, ok := executorch.Place(size, s.size, alignment, max(s.align, 1))
		if ok {
			base, ok = executorch.LCM(base, a)
		}
		if !ok {
			return nil, errs.New(errors.ErrUnsupported,
				"alignments without a common multiple of 2^40 or less")
		}
		s.off, size = off, end
		nodes[i].SetNumber(ptefb.SlotDataSegmentOffset, 8, uint64(s.off)).
			SetNumber(ptefb.SlotDataSegmentSize, 8, uint64(s.size))
	}
	var w fb.Builder
	program, err := w.Finish(d.tree.Write(&w), "ET12")
	if err != nil {
		return nil, tooLarge(err)
	}
	if size == 0 && !d.needsHeader {
		return &output{head: program, size: int64(len(program))}, nil
	}
	length := headerLength + int64(len(d.headerTail))
	padding := align.Padding(length, int64(max(d.vectorAlignment, headerLength)))
	head := fb.Splice(program, int(length+padding))
	base, ok := align.Up(int64(len(head)), base)
	if !ok || size > math.MaxInt64-base || int64(len(head)) >= 1<<31 {
		return nil, errs.New(tensor.ErrLimit, "a program of %d bytes and %d of data",
			len(head), size)
	}
	Header{length, int64(len(head)), base, size}.put(head)
	copy(head[8+headerLength:], d.headerTail)
	o := &output{head: head, size: base + size}
	for _, s := range d.segments {
		for _, p := range s.sections {
			p.Off += base + s.off
			o.sections = append(o.sections, p)
		}
	}
	return o, nil
}
