package pte

import (
	"errors"
	"fmt"
	"io"
	"math"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// An Edit is a changed program on its way into another file. Without any change it writes the same bytes. Changes that
// leave the flatbuffer alone, [Edit.UpgradeHeader], [Edit.Align] where the segments allow it and [Edit.DropTrailing], keep
// all of it, also what this package does not know. The others take the flatbuffer apart and write it again, behind a
// header of ExecuTorch 1.0: nothing that the schema knows is lost, and a program with content of a newer schema is refused
// with errors.ErrUnsupported.
//
// The Reader must stay open until the file is written. Of a .bpte the program is written, without its bundle. An Edit is
// for one goroutine at a time. After an error its state is not defined.
type Edit struct {
	r          *Reader
	tree       *fb.Node // nil as long as the flatbuffer stays as it is
	segments   []dataSegment
	values     [][]*fb.Node                // tensors by method and value, nil for all else
	added      map[*fb.Node]*tensor.Tensor // bytes of tensors that were kept elsewhere
	lists      bool                        // constants or initial values were changed
	header     bool                        // wanted with 32 bytes
	noTrailing bool
	align      int64 // of base and segments; 0 as they are
}

// NewEdit begins to change a program.
func NewEdit(r *Reader) *Edit { return &Edit{r: r} }

// UpgradeHeader writes the extended header of ExecuTorch 1.0, with the size of all segments, in place of an older one.
func (e *Edit) UpgradeHeader() { e.header = true }

// DropTrailing leaves out bytes behind the last segment.
func (e *Edit) DropTrailing() { e.noTrailing = true }

// Align makes the file offsets of all segments multiples of n, such as 16384 for a file that is mapped on iOS. Constants
// inside a segment stay where they are in it.
func (e *Edit) Align(n int64) error {
	if n < 1 || n > maxAlignment {
		return fmt.Errorf("pte: alignment %d", n)
	}
	e.align = n
	for _, s := range e.r.segments {
		if s.size > 0 && !align.Is(s.off-e.r.at-e.r.header.SegmentBase, n) {
			return e.open() // offsets are in the flatbuffer
		}
	}
	return nil
}

// open takes the flatbuffer apart.
func (e *Edit) open() error {
	if e.tree != nil {
		return nil
	}
	r := e.r
	inline := e.inlineAlignment()
	tree, err := fb.Take(r.buf, &ptefb.Schema, ptefb.TableProgram, func(table, slot int) int {
		if table == ptefb.TableBuffer || table == ptefb.TableBackendDelegateInlineData {
			return inline
		}
		return 1
	})
	if errors.Is(err, fb.ErrUnknown) {
		return fmt.Errorf("pte: %w: the program cannot be rebuilt without loss: %w", errors.ErrUnsupported, err)
	} else if err != nil {
		return err
	}
	e.tree = tree
	e.segments = make([]dataSegment, len(r.segments))
	common := e.segmentAlignment()
	for i := range e.segments {
		off, size := r.segments[i].off, r.segments[i].size
		s := &e.segments[i]
		if size > 0 {
			s.pieces = []piece{{0, r.blob(off, size), size}}
		}
		s.size, s.align = size, min(powerOfTwo(off-r.at), max(common, 4096))
	}
	plans := tree.Children(ptefb.SlotProgramExecutionPlan)
	e.values = make([][]*fb.Node, len(plans))
	for m, plan := range plans {
		values := plan.Children(ptefb.SlotExecutionPlanValues)
		e.values[m] = make([]*fb.Node, len(values))
		for i, v := range values {
			if Kind(v.Scalar(ptefb.SlotEValueValType, 0)) == KindTensor {
				e.values[m][i] = v.Child(ptefb.SlotEValueVal)
			}
		}
	}
	return nil
}

// powerOfTwo is the alignment that a segment at that offset may have asked for: the file does not say.
func powerOfTwo(off int64) int64 {
	const most = 16384
	if off == 0 {
		return most
	}
	return min(off&-off, most)
}

// inlineAlignment is what all payloads inside the flatbuffer are aligned to: 16, or as much more as they all have.
func (e *Edit) inlineAlignment() int {
	a := int64(0)
	add := func(t flatbuffers.Table, slot int) {
		if b, _ := fb.FieldBytes(t, slot, 1); len(b) > 0 {
			a |= int64(fb.FieldTarget(t, slot)) + 4
		}
	}
	for _, t := range fb.Each(e.r.root.ConstantBufferLength(), e.r.root.ConstantBuffer) {
		add(t.Table(), ptefb.SlotBufferStorage)
	}
	for _, t := range fb.Each(e.r.root.BackendDelegateDataLength(), e.r.root.BackendDelegateData) {
		add(t.Table(), ptefb.SlotBackendDelegateInlineDataData)
	}
	if a == 0 {
		return 16
	}
	return int(max(16, min(a&-a, 4096)))
}

// segmentAlignment is what all segments and their base are aligned to, as far as can be seen.
func (e *Edit) segmentAlignment() int64 {
	if e.align > 0 {
		return e.align
	}
	a := e.r.header.SegmentBase
	for _, s := range e.r.segments {
		if s.size > 0 {
			a |= s.off - e.r.at
		}
	}
	if a == 0 {
		return defaultSegmentAlignment
	}
	return min(a&-a, 16384)
}

// StripDelegates replaces the payloads of all delegates with empty ones, and, if specs is set, drops their compile
// specs, which may contain keys and paths. The result is for looking at: it does not run.
func (e *Edit) StripDelegates(specs bool) error {
	if err := e.open(); err != nil {
		return err
	}
	empty := -1
	inline := e.tree.Children(ptefb.SlotProgramBackendDelegateData)
	for _, plan := range e.tree.Children(ptefb.SlotProgramExecutionPlan) {
		for _, d := range plan.Children(ptefb.SlotExecutionPlanDelegates) {
			if empty < 0 {
				n := new(fb.Node)
				n.SetBytes(ptefb.SlotBackendDelegateInlineDataData, []byte{}, 16)
				empty = 0
				inline = []*fb.Node{n}
			}
			p := new(fb.Node)
			p.SetScalar(ptefb.SlotBackendDelegateDataReferenceIndex, 4, uint64(empty))
			d.SetChild(ptefb.SlotBackendDelegateProcessed, p)
			if specs {
				d.SetChildren(ptefb.SlotBackendDelegateCompileSpecs, []*fb.Node{})
			}
		}
	}
	if empty >= 0 {
		e.tree.SetChildren(ptefb.SlotProgramBackendDelegateData, inline)
		e.dropSegments()
	}
	return nil
}

// dropSegments empties the segments that nothing refers to any more. Their places in the table stay.
func (e *Edit) dropSegments() {
	used := make(map[uint64]bool)
	if c := e.tree.Child(ptefb.SlotProgramConstantSegment); c != nil && len(c.Bytes(ptefb.SlotSubsegmentOffsetsOffsets)) > 0 {
		used[c.Scalar(ptefb.SlotSubsegmentOffsetsSegmentIndex, 0)] = true
	}
	for _, c := range e.tree.Children(ptefb.SlotProgramMutableDataSegments) {
		used[c.Scalar(ptefb.SlotSubsegmentOffsetsSegmentIndex, 0)] = true
	}
	for _, n := range e.tree.Children(ptefb.SlotProgramNamedData) {
		used[n.Scalar(ptefb.SlotNamedDataSegmentIndex, 0)] = true
	}
	for _, plan := range e.tree.Children(ptefb.SlotProgramExecutionPlan) {
		for _, d := range plan.Children(ptefb.SlotExecutionPlanDelegates) {
			if p := d.Child(ptefb.SlotBackendDelegateProcessed); p != nil && p.Scalar(ptefb.SlotBackendDelegateDataReferenceLocation, 0) != 0 {
				used[p.Scalar(ptefb.SlotBackendDelegateDataReferenceIndex, 0)] = true
			}
		}
	}
	for i := range e.segments {
		if !used[uint64(i)] {
			e.segments[i] = dataSegment{}
		}
	}
}

// DropUnused empties segments that nothing refers to.
func (e *Edit) DropUnused() error {
	if err := e.open(); err != nil {
		return err
	}
	e.dropSegments()
	return nil
}

// Write writes the program. It never seeks.
func (e *Edit) Write(w io.Writer) error {
	o, err := e.output()
	if err != nil {
		return err
	}
	_, err = o.writeTo(w)
	return err
}

// WriteFile writes the program into a file, which appears whole or not at all. It may be the file that is being read: the
// Reader goes on with the old one.
func (e *Edit) WriteFile(name string) error {
	o, err := e.output()
	if err != nil {
		return err
	}
	return o.writeFile(name)
}

func (e *Edit) output() (*output, error) {
	if e.tree == nil {
		return e.unchanged()
	}
	return e.rebuilt()
}

// unchanged keeps the flatbuffer as it is.
func (e *Edit) unchanged() (*output, error) {
	r, h := e.r, e.r.header
	end := r.dataEnd()
	last := r.size
	if e.noTrailing && h.Length > 0 {
		last = min(end, r.size)
	}
	head := append([]byte(nil), r.buf...)
	o := &output{head: head, size: last - r.at}
	if h.Length == 0 {
		return o, nil
	}
	base := h.SegmentBase
	if base == 0 {
		base = h.ProgramSize // no segments: what follows is trailing
	}
	moved := base
	if e.align > 0 && h.SegmentBase > 0 {
		var ok bool
		a := e.align
		if !align.Is(base, a) {
			a, ok = lcm(a, powerOfTwo(base)) // what the file had, it keeps
			if ok {
				moved, ok = align.Up(h.ProgramSize, a)
			}
			if !ok {
				return nil, fmt.Errorf("pte: alignment %d", e.align)
			}
		}
	}
	data := end - r.at - base
	if e.header && h.Length < headerLength || moved != base {
		length := uint32(h.Length)
		size := h.SegmentDataSize
		if e.header && h.Length < headerLength {
			length, size = headerLength, data
			root := uint32(head[0]) | uint32(head[1])<<8 | uint32(head[2])<<16 | uint32(head[3])<<24
			if root < 8+headerLength {
				return nil, malformed(r.at, "root", "no room for a header of %d bytes before the table at %d", headerLength, root)
			}
		}
		if h.SegmentBase == 0 {
			moved, size = 0, 0
		}
		putHeader(head, length, moved, size)
		if moved == 0 {
			moved = base
		}
	}
	// What lies between flatbuffer and base is padding; if the base stays, it stays as it is.
	if moved == base && base > h.ProgramSize {
		o.pieces = append(o.pieces, piece{h.ProgramSize, r.blob(r.at+h.ProgramSize, base-h.ProgramSize), base - h.ProgramSize})
	}
	if n := last - r.at - base; n > 0 {
		o.pieces = append(o.pieces, piece{moved, r.blob(r.at+base, n), n})
	}
	o.size = moved + max(last-r.at-base, 0)
	return o, nil
}

// rebuilt writes the flatbuffer anew and lays the segments out.
func (e *Edit) rebuilt() (*output, error) {
	if e.lists {
		if err := e.putLists(); err != nil {
			return nil, err
		}
	}
	size, base, err := layOut(e.segments, e.segmentAlignment())
	if err != nil {
		return nil, err
	}
	nodes := e.tree.Children(ptefb.SlotProgramSegments)
	for len(nodes) < len(e.segments) {
		nodes = append(nodes, new(fb.Node))
	}
	if len(nodes) > 0 || e.tree.Has(ptefb.SlotProgramSegments) {
		e.tree.SetChildren(ptefb.SlotProgramSegments, nodes)
	}
	for i, n := range nodes {
		setDefault(n, ptefb.SlotDataSegmentOffset, 8, uint64(e.segments[i].off))
		setDefault(n, ptefb.SlotDataSegmentSize, 8, uint64(e.segments[i].size))
	}
	var b fb.Builder
	program, err := b.Finish(e.tree.Write(&b), "ET12")
	if errors.Is(err, fb.ErrTooLarge) {
		return nil, fmt.Errorf("pte: %w: %w", tensor.ErrLimit, err)
	} else if err != nil {
		return nil, err
	}
	var tail []byte
	if n := e.r.header.Length; n > headerLength {
		tail = e.r.buf[8+headerLength : 8+n]
	}
	o, err := finish(program, e.segments, size, base, e.inlineAlignment(), tail)
	if err != nil {
		return nil, err
	}
	trailing := e.r.size - e.r.dataEnd()
	if e.r.header.Length > 0 && trailing > 0 && !e.noTrailing {
		if trailing > math.MaxInt64-o.size {
			return nil, fmt.Errorf("pte: %w: a file of more than 2^63 bytes", tensor.ErrLimit)
		}
		o.pieces = append(o.pieces, piece{o.size, e.r.blob(e.r.dataEnd(), trailing), trailing})
		o.size += trailing
	}
	return o, nil
}

// setDefault stores a number, or leaves it out if it is zero and was not stored before.
func setDefault(n *fb.Node, slot, size int, bits uint64) {
	if bits != 0 || n.Has(slot) {
		n.SetScalar(slot, size, bits)
	}
}
