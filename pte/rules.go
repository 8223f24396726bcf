package pte

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"slices"
	"unicode/utf8"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// Limits of the runtime that are not in the schema.
const (
	maxRank         = 16
	maxOperatorName = 99        // bytes of name.overload
	maxTables       = 1_000_000 // that its FlatBuffers verifier visits
	maxBuffer       = 1 << 56   // of a memory plan; the exporter's own tests have 2⁴⁸
)

// A checker reads every table of a verified program once, when it is opened. It records
// as findings what the runtime would not load or run. It fails only if a limit is
// exceeded.
type checker struct {
	r      *Reader
	out    *format.Findings
	stored []valueID // tensors that Reader.Tensors yields
	budget int64     // bytes that names may still add to a listing

	// The method being checked.
	m           Method
	n           int                // values of the method
	buffers     []int64            // sizes of the memory plan
	counts      []int              // arguments of the operators, 0 where not known
	copyIndexOp int                // the operator that is et_copy_index, -1 for none
	external    map[string]valueID // the first external tensor of a name
	changed     map[int]bool       // values that instructions write; nil until endless needs it

	// The value or instruction being checked, and tables to be read into.
	index      int
	chain      int
	op         Opcode
	args       flatbuffers.Table
	tensor     ptefb.Tensor
	extra      ptefb.ExtraTensorInfo
	allocation ptefb.AllocationDetails
	pointee    ptefb.EValue
}

// check checks the program into r.checked, and returns the tensors that Reader.Tensors
// yields.
func (r *Reader) check(seen fb.Summary) ([]valueID, error) {
	c := &checker{r: r, out: r.checked, budget: 64*int64(len(r.buf)) + 1<<20,
		external: make(map[string]valueID)}
	err := c.program(seen)
	return c.stored, err
}

// error records a finding: the runtime does not load or run this.
func (c *checker) error(class error, s location, format string, args ...any) {
	if !c.out.Full() {
		c.out.Error(c.r.error(class, s, format, args...))
	}
}

func (c *checker) malformed(s location, format string, args ...any) {
	c.error(tensor.ErrMalformed, s, format, args...)
}

func (c *checker) warn(s location, format string, args ...any) {
	c.out.Warn(c.r.malformed(s, format, args...))
}

// require records an error for each absent field, and reports whether all are present.
func (c *checker) require(s location, slots ...int) bool {
	all := true
	for _, slot := range slots {
		if fb.FieldPos(s.t, slot) == 0 {
			c.malformed(s.field(slot), "absent")
			all = false
		}
	}
	return all
}

// name checks a string that the runtime compares with C strings.
func (c *checker) name(b []byte, s location) {
	if bytes.IndexByte(b, 0) >= 0 {
		c.warn(s, "%s has a zero byte, where the runtime cuts it", naming.Quote(string(b)))
	}
	if !utf8.Valid(b) {
		c.warn(s, "%s is not UTF-8", naming.Quote(string(b)))
	}
}

// unique warns if an earlier entry has the same name: the runtime takes the first. seen
// maps names to their first index.
func (c *checker) unique(seen map[string]int, b []byte, i int, s location, what string) {
	if first, dup := seen[string(b)]; dup {
		c.warn(s, "%s is also the %s[%d], which the runtime takes", naming.Quote(string(b)), what,
			first)
	} else {
		seen[string(b)] = i
	}
}

// program checks the tables Program, SubsegmentOffsets, DataSegment and NamedData, and
// then each method.
func (c *checker) program(seen fb.Summary) error {
	root, s := c.r.root, c.r.location()
	for _, n := range seen.Newer {
		c.warn(location{at: int(n.Pos), path: ptefb.Schema.Tables[n.Table].Name}, "has fields "+
			"of a newer schema, which are not shown and keep the program from being rebuilt")
	}
	if v := root.Version(); v > 0 {
		c.error(errors.ErrUnsupported, s.field(ptefb.SlotProgramVersion),
			"%d: the runtime loads none above 0 since ExecuTorch 1.5.1", v)
	}
	if n := c.r.header.Length; n > 32 {
		c.warn(location{at: 12, path: "extended_header.length"},
			"%d bytes are more than the 32 of the newest known version", n)
	}
	c.data()
	c.segments()
	c.named()
	c.require(s, ptefb.SlotProgramExecutionPlan)
	names := make(map[string]int)
	for m := range c.r.Program().Methods() {
		c.m, c.n, c.changed = m, m.NumValues(), nil
		before := len(c.stored)
		if err := c.values(); err != nil {
			return err
		}
		if err := c.shown(len(c.stored) - before); err != nil {
			return err
		}
		if c.out.Full() { // enough findings; the tensors must still be collected
			continue
		}
		if s := m.plan().field(ptefb.SlotExecutionPlanName); c.require(s, s.slot) {
			c.name(m.t.Name(), s)
			c.unique(names, m.t.Name(), m.index, s, "name of execution_plan")
		}
		c.method()
	}
	if seen.Tables > maxTables {
		c.warn(location{}, "%d tables, but a runtime that verifies stops at %d", seen.Tables,
			maxTables)
	}
	return nil
}

// shown fails if a listing of the program would be much larger than the file: the names
// of n tensors and of each delegate of the method may repeat the method's name.
func (c *checker) shown(n int) error {
	t, size := &c.m.t, int64(len(c.m.t.Name()))
	s := c.m.plan().field(ptefb.SlotExecutionPlanName)
	if size > c.r.in.Options.Limits.MaxName {
		return c.r.error(tensor.ErrLimit, s, "%d bytes are more than the limit of %d", size,
			c.r.in.Options.Limits.MaxName)
	}
	if c.budget -= (size + 16) * int64(n+t.DelegatesLength()); c.budget < 0 {
		return c.r.error(tensor.ErrLimit, s, "%d bytes would be shown too often", size)
	}
	return nil
}

// named checks the named data.
func (c *checker) named() {
	root := c.r.root
	if has(root, ptefb.SlotProgramNamedData) && !has(root, ptefb.SlotProgramSegments) {
		c.malformed(c.r.location().field(ptefb.SlotProgramNamedData), "without segments")
	}
	keys := make(map[string]int)
	for i, t := range fb.Each(root.NamedDataLength(), root.NamedData) {
		s := rootLocation(ptefb.TableNamedData, t, "named_data[%d]", i).
			field(ptefb.SlotNamedDataKey)
		if c.require(s, s.slot) {
			n := len(keys)
			if c.unique(keys, t.Key(), i, s, "key of named_data"); len(keys) > n {
				c.name(t.Key(), s)
			}
		}
		s = s.field(ptefb.SlotNamedDataSegmentIndex)
		if _, err := c.r.segment(t.SegmentIndex(), s); err != nil {
			c.out.Error(err)
		} else {
			c.outside(t.SegmentIndex(), s)
		}
	}
}

// outside records an error if segment i, which holds a blob, starts beyond the file.
func (c *checker) outside(i uint32, s location) {
	if c.r.segments[i].outside {
		c.malformed(s, "segment %d starts beyond the file", i)
	}
}

// data checks the lists of constants and initial values.
func (c *checker) data() {
	r, root, s := c.r, c.r.root, c.r.location()
	switch n, inline := r.constants.len(), root.ConstantBufferLength(); {
	case n == 0:
		c.warn(s.field(ptefb.SlotProgramConstantSegment),
			"no offsets: the deprecated layout, which ExecuTorch's builds since 2025 refuse")
	case n > 1 && inline > 0:
		c.malformed(s.field(ptefb.SlotProgramConstantBuffer),
			"%d constants inside the flatbuffer, and %d in a segment", inline, n-1)
	}
	c.offsets(&r.constants)
	for i, t := range fb.Each(root.MutableDataSegmentsLength(), root.MutableDataSegments) {
		p := r.subsegments(t, "mutable_data_segments[%d]", i)
		if i == 1 {
			c.warn(p.location, "the runtime uses only the first")
		}
		c.require(p.location, ptefb.SlotSubsegmentOffsetsOffsets)
		c.offsets(&p)
	}
}

// offsets checks that a list of offsets stays in its segment. The order does not matter.
func (c *checker) offsets(p *subsegments) {
	if p.len() > 1 && p.found && p.segment.size == 0 {
		c.malformed(p.location, "%d tensors in an empty segment, where the runtime finds none, "+
			"even without elements", p.len()-1)
	}
	for k := 1; k < p.len(); k++ {
		if _, err := c.r.subsegment(p, uint32(k), location{}); err != nil {
			c.out.Error(err)
		}
		if !p.found {
			return
		}
	}
}

// readSegments reads the table of segments. It fails if one is not inside the file.
func (r *Reader) readSegments() error {
	h, end := r.header, r.end-r.at // counted from the start of the program
	r.segments = make([]segment, r.root.SegmentsLength())
	for i, t := range fb.Each(r.root.SegmentsLength(), r.root.Segments) {
		off, size := t.Offset(), t.Size()
		place := rootLocation(ptefb.TableDataSegment, t, "segments[%d]", i)
		switch {
		case off > 1<<63-1-uint64(h.SegmentBase) || size > 1<<63-1-uint64(h.SegmentBase)-off:
			return r.malformed(place, "offset %d and size %d overflow", off, size)
		case size > 0 && h.SegmentBase == 0:
			return r.malformed(place, "%d bytes, but no extended header says where segments are",
				size)
		}
		start, n := h.SegmentBase+int64(off), int64(size)
		switch {
		case n > 0 && !align.Within(start, n, end):
			class := tensor.ErrMalformed
			if h.SegmentDataSize == 0 { // an old header: only this shows a truncated file
				class = io.ErrUnexpectedEOF
			}
			return r.error(class, place, "%d bytes at %d, but the file has %d", n, r.at+start,
				r.end)
		case n == 0 && start > end:
			r.checked.Warn(r.malformed(place, "an empty segment at %d, beyond the file's %d bytes",
				r.at+start, r.end))
		case n > 0 && h.SegmentDataSize > 0 && int64(off)+n > h.SegmentDataSize:
			r.checked.Warn(r.malformed(place,
				"ends at %d, beyond the header's segment_data_size of %d", int64(off)+n,
				h.SegmentDataSize))
		}
		r.segments[i] = segment{extent{r.at + min(start, end), n}, start > end}
	}
	return nil
}

// segments warns of segments that are out of order or overlap, and of bytes after the
// last one.
func (c *checker) segments() {
	r := c.r
	warn := func(i int, format string, other int) {
		var t ptefb.DataSegment
		r.root.Segments(&t, i)
		c.warn(rootLocation(ptefb.TableDataSegment, &t, "segments[%d]", i), format, other)
	}
	var all []int // that have bytes
	for i, s := range r.segments {
		if s.size == 0 {
			continue
		}
		if n := len(all); n > 0 && s.off < r.segments[all[n-1]].off {
			warn(i, "is before segments[%d]", all[n-1])
		}
		all = append(all, i)
	}
	slices.SortStableFunc(all, func(a, b int) int {
		return cmp.Compare(r.segments[a].off, r.segments[b].off)
	})
	for k := 1; k < len(all); k++ {
		a, b := r.segments[all[k-1]], r.segments[all[k]]
		if b.off < a.off+a.size {
			warn(all[k], "overlaps segments[%d]", all[k-1])
			if a.off+a.size > b.off+b.size {
				all[k] = all[k-1] // the next segment may overlap this longer one
			}
		}
	}
	if end := r.dataEnd(); r.header.Length > 0 && r.end > end {
		c.out.Warn(errs.Malformed(end, "", "%d bytes after the end of the program", r.end-end))
	}
}
