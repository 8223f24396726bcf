package pte

import (
	"errors"
	"slices"
	"strings"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// newDraft parses the program that e changes. It fails with errors.ErrUnsupported if the
// program has content that the schema does not describe.
func newDraft(e *Edit) (*draft, error) {
	r := e.r
	inline := r.inlineAlignment()
	tree, err := fb.Take(r.buf, &ptefb.Schema, ptefb.TableProgram, func(table, slot int) int {
		if table == ptefb.TableBuffer || table == ptefb.TableBackendDelegateInlineData {
			return inline
		}
		return 1
	})
	if errors.Is(err, fb.ErrUnknown) {
		return nil, errs.New(errors.ErrUnsupported,
			"the program cannot be rebuilt without loss: %w", err)
	} else if err != nil {
		return nil, err
	}
	d := &draft{e: e, tree: tree, vectorAlignment: inline}
	for _, s := range r.Program().Segments() {
		// An empty payload of a delegate needs a header too: the runtime reads the
		// segment base there.
		d.needsHeader = d.needsHeader || r.header.SegmentBase > 0 && slices.ContainsFunc(s.Roles,
			func(role string) bool { return strings.HasPrefix(role, delegatePrefix) })
	}
	if n := r.header.Length; n > headerLength {
		d.headerTail = r.buf[8+headerLength : 8+n]
	}
	for i, plan := range tree.Children(ptefb.SlotProgramExecutionPlan) {
		m, values := r.Program().method(i), plan.Children(ptefb.SlotExecutionPlanValues)
		tensors := make([]*tensorValue, len(values))
		for k, v := range values {
			if info, ok := m.Value(k).Tensor(); ok {
				tensors[k] = &tensorValue{node: v.Child(ptefb.SlotEValueVal), role: info.Role,
					of: m.Value(k)}
			}
		}
		d.tensors = append(d.tensors, tensors)
	}
	return d, nil
}

// maxSeenAlignment bounds the alignment that is inferred from the offset of a segment.
const maxSeenAlignment = 16384

// powerOfTwo returns the largest power of two, up to max, that divides an offset, or all
// of several offsets that were combined with |.
func powerOfTwo(offsets, max int64) int64 {
	if offsets == 0 {
		return max
	}
	return min(offsets&-offsets, max)
}

// inlineAlignment returns the alignment that payloads inside the flatbuffer have: 16 or
// more.
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

// segmentAlignment returns the alignment that all segments and their base have.
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

// loadSegments sets the segments to the segments of the original, with replaced bytes.
func (d *draft) loadSegments(alignment int64) {
	r := d.e.r
	d.segments = make([]dataSegment, len(r.segments))
	for i, s := range r.segments {
		x := &d.segments[i]
		if s.size > 0 {
			x.sections = d.e.patched.Sections(s.off, s.size, 0)
		}
		x.size = s.size
		x.align = powerOfTwo(s.off-r.at, min(max(alignment, 4096), maxSeenAlignment))
	}
}

// patchInlineConstants replaces bytes of constants inside the flatbuffer.
func (d *draft) patchInlineConstants() error {
	nodes := d.tree.Children(ptefb.SlotProgramConstantBuffer)
	for i, t := range fb.Each(len(nodes), d.e.r.root.ConstantBuffer) {
		x, _ := d.e.r.inline(t.Table(), ptefb.SlotBufferStorage)
		if !d.e.patched.Changes(x.off, x.size) {
			continue
		}
		data := make([]byte, x.size)
		for _, p := range d.e.patched.Sections(x.off, x.size, 0) {
			if err := p.Data.ReadInto(data[p.Off : p.Off+p.Size]); err != nil {
				return err
			}
		}
		nodes[i].SetBytes(ptefb.SlotBufferStorage, data, d.vectorAlignment)
	}
	return nil
}

// rebuilt applies all changes to a copy of the draft, and writes the flatbuffer anew.
func (e *Edit) rebuilt(opts WriterOptions) (*output, error) {
	r, alignment := e.r, opts.SegmentAlignment
	if alignment == 0 {
		alignment = r.segmentAlignment()
	}
	d := *e.draft // a copy, so that Write can be called again
	d.tree = d.tree.Clone()
	d.loadSegments(alignment)
	if err := errors.Join(d.patchInlineConstants(), d.rename()); err != nil {
		return nil, err
	}
	d.setGetters()
	if d.listsChanged {
		if err := d.putLists(max(opts.Alignment, defaultTensorAlignment)); err != nil {
			return nil, err
		}
	}
	o, err := d.finish(alignment)
	if err != nil {
		return nil, err
	}
	if r.header.Length > 0 { // bytes after the last segment stay
		end := r.dataEnd()
		o.sections = append(o.sections, e.patched.Sections(end, r.end-end, o.size)...)
		var ok bool
		if o.size, ok = align.Add(o.size, r.end-end); !ok {
			return nil, errs.New(tensor.ErrLimit, "a file of more than 2^63 bytes")
		}
	}
	return o, nil
}
