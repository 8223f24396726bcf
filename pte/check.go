package pte

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/finding"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// Bounds of the runtime that are in no schema.
const (
	maxRank         = 16
	maxOperatorName = 99        // bytes of name.overload
	maxTables       = 1_000_000 // visits of its FlatBuffers verifier
	maxBuffer       = 1 << 56   // of a memory plan; the exporter's own tests have 2⁴⁸
)

// copyIndexOperator is the name of the kernel that writes a tensor into another one at an
// index.
const copyIndexOperator = "executorch_prim::et_copy_index"

// A checker reads every table of a verified program once, when it is opened. It notes
// what the runtime would not load or run, and refuses only what asks for too much.
type checker struct {
	r      *Reader
	out    *finding.List
	stored []place // tensors that Reader.Tensors yields
	budget int64   // of bytes to be shown

	// The method being checked.
	m        Method
	n        int              // values of the method
	buffers  []int64          // sizes of the memory plan
	counts   []int            // arguments of the operators, 0 where not known
	copies   int              // the operator that is et_copy_index, -1 for none
	external map[string]place // the first external tensor of a name
	changed  map[int]bool     // values that instructions write, once it is asked for

	// The value or instruction being checked, and tables to be read into.
	index, chain int
	tensor       ptefb.Tensor
	extra        ptefb.ExtraTensorInfo
	allocation   ptefb.AllocationDetails
	pointee      ptefb.EValue
}

// check returns the tensors that Reader.Tensors yields.
func (r *Reader) check(seen fb.Summary) ([]place, error) {
	c := &checker{r: r, out: r.checked, budget: 64*int64(len(r.buf)) + 1<<20,
		external: make(map[string]place)}
	err := c.program(seen)
	return c.stored, err
}

// error notes something at pos of the flatbuffer that the runtime does not load or run.
func (c *checker) error(class error, pos int, field, format string, args ...any) {
	if !c.out.Full() {
		c.out.Error(fail(class, c.r.at+int64(pos), field, format, args...))
	}
}

func (c *checker) bad(pos int, field, format string, args ...any) {
	c.error(tensor.ErrMalformed, pos, field, format, args...)
}

func (c *checker) warn(pos int, field, format string, args ...any) {
	c.out.Warn(c.r.malformed(pos, field, format, args...))
}

// name checks a string that the runtime compares with C strings.
func (c *checker) name(b []byte, pos int, field func() string) {
	if bytes.IndexByte(b, 0) >= 0 {
		c.warn(pos, field(),
			"%s has a zero byte, where the runtime cuts it", quote.Name(string(b)))
	}
	if !utf8.Valid(b) {
		c.warn(pos, field(), "%s is not UTF-8", quote.Name(string(b)))
	}
}

func (c *checker) program(seen fb.Summary) error {
	root := c.r.root
	for _, n := range seen.Newer {
		c.warn(int(n.Pos), ptefb.Schema.Tables[n.Table].Name,
			"has fields of a newer schema, which are not shown and keep the program from being rebuilt")
	}
	if v := root.Version(); v > 0 {
		c.error(errors.ErrUnsupported, at(root, ptefb.SlotProgramVersion), "version",
			"%d: the runtime loads none above 0 since ExecuTorch 1.5.1", v)
	}
	if n := c.r.header.Length; n > 32 {
		c.warn(12, "extended_header.length",
			"%d bytes are more than the 32 of the newest known version", n)
	}
	c.data()
	c.segments()
	c.named()
	if !has(root, ptefb.SlotProgramExecutionPlan) {
		c.bad(pos(root), "execution_plan", "absent")
	}
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
		if !c.out.Full() { // what is wrong was noted; what there is must still be counted
			c.methodName(names)
			c.method()
		}
	}
	if seen.Tables > maxTables {
		c.warn(0, "", "%d tables, but a runtime that verifies stops at %d", seen.Tables, maxTables)
	}
	return nil
}

// shown refuses programs that would make a listing much larger than the file: each tensor
// without a name, n of them here, and each delegate carry the name of their method.
func (c *checker) shown(n int) error {
	t, name := &c.m.t, c.m.t.Name()
	where := c.r.at + int64(at(t, ptefb.SlotExecutionPlanName))
	if int64(len(name)) > c.r.limits.MaxName {
		return fail(tensor.ErrLimit, where, c.m.field("name"),
			"%d bytes are more than the limit of %d", len(name), c.r.limits.MaxName)
	}
	if c.budget -= (int64(len(name)) + 16) * int64(n+t.DelegatesLength()); c.budget < 0 {
		return fail(tensor.ErrLimit, where, c.m.field("name"),
			"%d bytes would be shown too often", len(name))
	}
	return nil
}

func (c *checker) methodName(names map[string]int) {
	t, field := &c.m.t, func() string { return c.m.field("name") }
	b := t.Name()
	if b == nil {
		c.bad(pos(t), field(), "absent")
		return
	}
	where := at(t, ptefb.SlotExecutionPlanName)
	c.name(b, where, field)
	if first, dup := names[string(b)]; dup {
		c.warn(where, field(),
			"%s is also the name of execution_plan[%d], which the runtime takes",
			quote.Name(string(b)), first)
	} else {
		names[string(b)] = c.m.index
	}
}

// named checks the named data.
func (c *checker) named() {
	root := c.r.root
	if has(root, ptefb.SlotProgramNamedData) && !has(root, ptefb.SlotProgramSegments) {
		c.bad(at(root, ptefb.SlotProgramNamedData), "named_data", "without segments")
	}
	keys := make(map[string]int)
	for i, t := range fb.Each(root.NamedDataLength(), root.NamedData) {
		field := func() string { return fmt.Sprintf("named_data[%d].key", i) }
		if b := t.Key(); b == nil {
			c.bad(pos(t), field(), "absent")
		} else if first, dup := keys[string(b)]; dup {
			c.warn(at(t, ptefb.SlotNamedDataKey), field(),
				"%s is also the key of named_data[%d], which the runtime takes", quote.Name(string(b)), first)
		} else {
			keys[string(b)] = i
			c.name(b, at(t, ptefb.SlotNamedDataKey), field)
		}
		where := at(t, ptefb.SlotNamedDataSegmentIndex)
		index := func() string { return fmt.Sprintf("named_data[%d].segment_index", i) }
		if _, err := c.r.segment(t.SegmentIndex(), where, index); err != nil {
			c.out.Error(err)
		} else {
			c.outside(t.SegmentIndex(), where, index)
		}
	}
}

// outside notes that segment i, which holds a blob, starts beyond the file.
func (c *checker) outside(i uint32, pos int, field func() string) {
	if c.r.segments[i].outside {
		c.bad(pos, field(), "segment %d starts beyond the file", i)
	}
}
