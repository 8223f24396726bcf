package pte

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// Externalize takes constants and initial values out of the program and answers them, under the keys that they must have
// in the .ptd which the runtime is then given beside the program. choose is asked for the key of each; the empty string
// leaves a tensor where it is. nil takes all constants, under the names that [Reader.Tensors] gives; state keeps its
// values.
//
// Tensors that agree in bytes, type, shape and order have one key, the first one's. Two tensors that differ cannot share
// a key, and no key may be that of a named blob, which the .ptd would hide from delegates.
func (e *Edit) Externalize(choose func(*Entry) string) ([]*tensor.Tensor, error) {
	if err := e.open(); err != nil {
		return nil, err
	}
	if choose == nil {
		choose = func(x *Entry) string {
			if x.Role == RoleConstant {
				return x.Name
			}
			return ""
		}
	}
	taken := make(map[string]*Entry)
	same := make(map[string]string) // what a tensor is → its key
	var order []*Entry
	keys := make(map[*Entry]string)
	of, outputs := -1, make(map[int]bool) // of a method
	for x := range e.r.Entries() {
		if x.External || x.Buffer == 0 {
			continue
		}
		node := e.values[x.Method.index][x.Value]
		if roleOfNode(node).External() {
			continue // by an earlier call
		}
		key := choose(x)
		if key == "" {
			continue
		}
		if strings.ContainsRune(key, 0) {
			return nil, fmt.Errorf("pte: the key %s has a zero byte", tensor.Quote(key))
		}
		if err := x.Check(); err != nil {
			return nil, err
		}
		if bad, ok := x.Data.Source().(*missing); ok {
			return nil, bad.err
		}
		what := fmt.Sprint(x.Role, x.Buffer, x.DType, x.Shape, x.Order)
		if k, ok := same[what]; ok {
			key = k
		} else if first, ok := taken[key]; ok {
			return nil, fmt.Errorf("pte: the key %s would be of %s, value %d, and of %s, value %d, which differ", tensor.Quote(key),
				tensor.Quote(first.Method.Name()), first.Value, tensor.Quote(x.Method.Name()), x.Value)
		} else {
			same[what], taken[key] = key, x
			keys[x] = key
			order = append(order, x)
		}
		info := node.Child(ptefb.SlotTensorExtraTensorInfo)
		if info == nil {
			info = new(fb.Node)
			node.SetChild(ptefb.SlotTensorExtraTensorInfo, info)
		}
		info.SetString(ptefb.SlotExtraTensorInfoFullyQualifiedName, key)
		info.SetScalar(ptefb.SlotExtraTensorInfoLocation, 1, uint64(ptefb.TensorDataLocationEXTERNAL))
		if of != x.Method.index {
			of = x.Method.index
			clear(outputs)
			for _, v := range x.Method.Outputs() {
				outputs[v.Index()] = true
			}
		}
		if outputs[x.Value] {
			node.SetScalar(ptefb.SlotTensorDataBufferIdx, 4, returned)
		} else {
			node.Remove(ptefb.SlotTensorDataBufferIdx)
		}
	}
	for d := range e.r.Program().NamedData() {
		if _, ok := taken[d.Key]; ok {
			return nil, fmt.Errorf("pte: the key %s is that of a named blob", tensor.Quote(d.Key))
		}
	}
	out := make([]*tensor.Tensor, len(order))
	for i, x := range order {
		t := *x.Tensor
		t.Name = keys[x]
		out[i] = &t
	}
	e.lists = e.lists || len(out) > 0
	return out, nil
}

// returned is the data_buffer_idx of an external constant that a method returns. The runtime ignores the number of an external
// tensor, but answers of one without that its memory is for the caller to give: callers then put empty memory in the place of
// the constant.
const returned = 1

// Internalize takes tensors that are kept elsewhere into the program: those for whose names lookup has one. Each must have
// exactly the type, shape and order that the program wants. They keep their names. It answers how many it took; the
// tensors that lookup gave must stay readable until the program is written.
func (e *Edit) Internalize(lookup func(name string) *tensor.Tensor) (int, error) {
	if err := e.open(); err != nil {
		return 0, err
	}
	n := 0
	for x := range e.r.Entries() {
		node := e.values[x.Method.index][x.Value]
		if !x.External || !roleOfNode(node).External() {
			continue
		}
		t := lookup(x.Name)
		if t == nil {
			continue
		}
		if err := t.Check(); err != nil {
			return n, err
		}
		if err := sameLayout(x.Tensor, t); err != nil {
			return n, fmt.Errorf("pte: %w: %w", tensor.ErrMalformed, err)
		}
		if t.External {
			return n, fmt.Errorf("pte: %w: external tensor %s is kept in yet another file", errors.ErrUnsupported, tensor.Quote(t.Name))
		}
		node.Child(ptefb.SlotTensorExtraTensorInfo).Remove(ptefb.SlotExtraTensorInfoLocation)
		if e.added == nil {
			e.added = make(map[*fb.Node]*tensor.Tensor)
		}
		e.added[node] = t
		// Not its place, which putLists finds, but a mark that it is stored.
		node.SetScalar(ptefb.SlotTensorDataBufferIdx, 4, 1)
		n++
	}
	e.lists = e.lists || n > 0
	return n, nil
}

// Modernize moves constants that are inside the flatbuffer, as ExecuTorch wrote them until 0.3, into a segment: today's
// runtime refuses to load them where they are.
func (e *Edit) Modernize() error {
	if err := e.open(); err != nil {
		return err
	}
	if c := e.tree.Child(ptefb.SlotProgramConstantSegment); c == nil || len(c.Bytes(ptefb.SlotSubsegmentOffsetsOffsets)) == 0 {
		e.lists = true
	}
	return nil
}

// putLists makes the lists of constants and initial values anew, of what the tensors still refer to.
func (e *Edit) putLists() error {
	constants, err := e.list(RoleConstant)
	if err != nil {
		return err
	}
	mutable, err := e.list(RoleState)
	if err != nil {
		return err
	}
	// A list goes into the segment that it had, if nothing else is in that.
	segment := func(n *fb.Node, data dataSegment) uint64 {
		if n != nil && len(n.Bytes(ptefb.SlotSubsegmentOffsetsOffsets)) > 0 {
			if i := n.Scalar(ptefb.SlotSubsegmentOffsetsSegmentIndex, 0); i < uint64(len(e.segments)) && e.references(i) == 1 {
				e.segments[i] = data
				return i
			}
		}
		e.segments = append(e.segments, data)
		return uint64(len(e.segments) - 1)
	}
	c := e.tree.Child(ptefb.SlotProgramConstantSegment)
	at := uint64(0)
	if len(constants.offsets) > 1 || c != nil && len(c.Bytes(ptefb.SlotSubsegmentOffsetsOffsets)) > 8 || len(e.segments) == 0 {
		at = segment(c, constants.data)
	} else if c != nil {
		at = c.Scalar(ptefb.SlotSubsegmentOffsetsSegmentIndex, 0)
	}
	e.tree.SetChild(ptefb.SlotProgramConstantSegment, subsegment(at, constants.offsets))
	if e.tree.Has(ptefb.SlotProgramConstantBuffer) {
		e.tree.SetChildren(ptefb.SlotProgramConstantBuffer, []*fb.Node{})
	}
	lists := e.tree.Children(ptefb.SlotProgramMutableDataSegments)
	if len(mutable.offsets) > 1 || len(lists) > 0 {
		var first *fb.Node
		if len(lists) > 0 {
			first = lists[0]
		}
		n := subsegment(segment(first, mutable.data), mutable.offsets)
		lists = append([]*fb.Node{n}, lists[min(1, len(lists)):]...)
		e.tree.SetChildren(ptefb.SlotProgramMutableDataSegments, lists)
	}
	e.lists = false
	return nil
}

func subsegment(segment uint64, offsets []uint64) *fb.Node {
	n := new(fb.Node)
	setDefault(n, ptefb.SlotSubsegmentOffsetsSegmentIndex, 4, segment)
	n.SetUint64s(ptefb.SlotSubsegmentOffsetsOffsets, offsets)
	return n
}

// references counts what refers to a segment.
func (e *Edit) references(i uint64) (n int) {
	if c := e.tree.Child(ptefb.SlotProgramConstantSegment); c != nil && len(c.Bytes(ptefb.SlotSubsegmentOffsetsOffsets)) > 0 && c.Scalar(ptefb.SlotSubsegmentOffsetsSegmentIndex, 0) == i {
		n++
	}
	for _, c := range e.tree.Children(ptefb.SlotProgramMutableDataSegments) {
		if c.Scalar(ptefb.SlotSubsegmentOffsetsSegmentIndex, 0) == i {
			n++
		}
	}
	for _, d := range e.tree.Children(ptefb.SlotProgramNamedData) {
		if d.Scalar(ptefb.SlotNamedDataSegmentIndex, 0) == i {
			n++
		}
	}
	for _, plan := range e.tree.Children(ptefb.SlotProgramExecutionPlan) {
		for _, d := range plan.Children(ptefb.SlotExecutionPlanDelegates) {
			if p := d.Child(ptefb.SlotBackendDelegateProcessed); p != nil && p.Scalar(ptefb.SlotBackendDelegateDataReferenceLocation, 0) != 0 && p.Scalar(ptefb.SlotBackendDelegateDataReferenceIndex, 0) == i {
				n++
			}
		}
	}
	return n
}

type dataList struct {
	data    dataSegment
	offsets []uint64
}

// list collects the bytes of all tensors of a role, those that came from elsewhere behind the others, and gives the
// tensors their new indices.
func (e *Edit) list(role Role) (dataList, error) {
	l := dataList{offsets: []uint64{0}}
	type old struct {
		buffer uint32
		size   int64
		index  int
	}
	// How long each stored piece is, only its tensors tell: the longest one does.
	var pieces []*old
	byBuffer := make(map[uint32]*old)
	each := func(visit func(node *fb.Node, info TensorInfo, method Method, value int) error) error {
		for m := range e.r.Program().Methods() {
			for i, node := range e.values[m.index] {
				if node == nil || node.Scalar(ptefb.SlotTensorDataBufferIdx, 0) == 0 || roleOfNode(node) != role {
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
		if e.added[node] != nil {
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
			pieces = append(pieces, o)
		}
		o.size = max(o.size, size)
		return nil
	})
	if err != nil {
		return l, err
	}
	slices.SortFunc(pieces, func(a, b *old) int { return int(int64(a.buffer) - int64(b.buffer)) })
	put := func(data tensor.Blob, alignment int64) (int, error) {
		off, err := l.data.append(data, alignment)
		l.offsets = append(l.offsets, uint64(off))
		return len(l.offsets) - 1, err
	}
	for _, o := range pieces {
		x, bad := e.r.stored(role, o.buffer)
		if bad == nil && o.size > x.size {
			bad = &fault{text: fmt.Sprintf(tooLong, o.size, x.size)}
		}
		if bad != nil {
			return l, e.r.fault(bad, 0, fmt.Sprintf("buffer %d", o.buffer))
		}
		alignment := max(defaultTensorAlignment, min(powerOfTwo(x.off-e.r.at), 4096))
		if o.index, err = put(e.r.blob(x.off, o.size), alignment); err != nil {
			return l, err
		}
	}
	shared := store{}
	err = each(func(node *fb.Node, info TensorInfo, m Method, i int) error {
		if t := e.added[node]; t != nil {
			at, dup, err := shared.share(t.Data, "", len(l.offsets))
			if err == nil && !dup {
				at, err = put(t.Data, max(defaultTensorAlignment, int64(t.DType.Align())))
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
