package pte

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/ptefb"
)

// data checks where constants and initial values are.
func (c *checker) data() {
	r, root := c.r, c.r.root
	switch n, inline := r.constants.len(), root.ConstantBufferLength(); {
	case n == 0:
		c.warn(at(root, ptefb.SlotProgramConstantSegment), "constant_segment.offsets",
			"absent or empty: the deprecated layout, which ExecuTorch's builds since 2025 refuse")
	case n > 1 && inline > 0:
		c.bad(at(root, ptefb.SlotProgramConstantBuffer), "constant_buffer",
			"%d constants inside the flatbuffer, and %d in a segment", inline, n-1)
	}
	c.offsets(&r.constants)
	for i, t := range fb.Each(root.MutableDataSegmentsLength(), root.MutableDataSegments) {
		p := r.pool(t, fmt.Sprintf("mutable_data_segments[%d]", i))
		if i == 1 {
			c.warn(pos(t), p.name, "the runtime uses only the first")
		}
		if !has(t, ptefb.SlotSubsegmentOffsetsOffsets) {
			c.bad(pos(t), p.name+".offsets", "absent")
		}
		c.offsets(&p)
	}
}

// offsets checks a list of starts in a segment. Their order does not matter.
func (c *checker) offsets(p *pool) {
	if p.len() <= 1 {
		return
	}
	if p.bad != nil {
		c.bad(p.bad.pos, p.bad.field, "%s", p.bad.text)
		return
	}
	if p.segment.size == 0 {
		c.bad(pos(p.t), p.name,
			"%d tensors in an empty segment, where the runtime finds none, even without elements",
			p.len()-1)
	}
	for k := 1; k < p.len(); k++ {
		if _, bad := p.piece(uint32(k)); bad != nil {
			c.bad(bad.pos, bad.field, "%s", bad.text)
		}
	}
}

func (c *checker) segments() {
	r := c.r
	end, sorted := int64(0), true
	for _, s := range r.segments {
		if s.size > 0 {
			sorted = sorted && s.off >= end
			end = max(end, s.off+s.size)
		}
	}
	if !sorted {
		c.disorder()
	}
	if h := r.header; h.Length > 0 {
		declared := r.at + max(h.ProgramSize, h.SegmentBase+h.SegmentDataSize)
		if end = max(end, declared); r.size > end {
			c.out.Warn(malformed(end, "", "%d bytes after the end of the program", r.size-end))
		}
	}
}

// disorder notes which segments are not where the one before ends.
func (c *checker) disorder() {
	type numbered struct {
		extent
		i int
	}
	where := func(i int) int {
		var t ptefb.DataSegment
		c.r.root.Segments(&t, i)
		return pos(&t)
	}
	var all []numbered
	for i, s := range c.r.segments {
		if s.size == 0 {
			continue
		}
		if n := len(all); n > 0 && s.off < all[n-1].off {
			c.warn(where(i), fmt.Sprintf("segments[%d]", i), "is before segments[%d]", all[n-1].i)
		}
		all = append(all, numbered{s.extent, i})
	}
	slices.SortFunc(all, func(a, b numbered) int {
		return cmp.Or(cmp.Compare(a.off, b.off), cmp.Compare(a.i, b.i))
	})
	for k := 1; k < len(all); k++ {
		if a, b := all[k-1], all[k]; b.off < a.off+a.size {
			c.warn(where(b.i), fmt.Sprintf("segments[%d]", b.i), "overlaps segments[%d]", a.i)
			if a.off+a.size > b.off+b.size {
				all[k] = a // whatever follows may overlap the longer one
			}
		}
	}
}
