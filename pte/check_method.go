package pte

import (
	"fmt"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/ptefb"
)

func (c *checker) method() {
	t := &c.m.t
	for _, f := range [...]struct {
		slot int
		name string
	}{
		{ptefb.SlotExecutionPlanValues, "values"},
		{ptefb.SlotExecutionPlanInputs, "inputs"},
		{ptefb.SlotExecutionPlanOutputs, "outputs"},
		{ptefb.SlotExecutionPlanChains, "chains"},
		{ptefb.SlotExecutionPlanDelegates, "delegates"},
		{ptefb.SlotExecutionPlanNonConstBufferSizes, "non_const_buffer_sizes"},
	} {
		if !has(t, f.slot) {
			c.bad(pos(t), c.m.field("%s", f.name), "absent")
		}
	}
	c.indices(t.InputsLength(), t.Inputs, ptefb.SlotExecutionPlanInputs, "inputs")
	c.indices(t.OutputsLength(), t.Outputs, ptefb.SlotExecutionPlanOutputs, "outputs")
	c.operators()
	c.delegates()
	c.chains()
}

// indices checks inputs or outputs: the runtime ends the process for one out of range.
func (c *checker) indices(n int, index func(int) int32, slot int, name string) {
	for i := range n {
		if v := index(i); v < 0 || int(v) >= c.n {
			c.bad(dataAt(&c.m.t, slot)+4*i, c.m.field("%s[%d]", name, i),
				"%d of %d values", v, c.n)
		}
	}
}

func (c *checker) operators() {
	c.counts, c.copies = c.counts[:0], -1
	for i, t := range fb.Each(c.m.t.OperatorsLength(), c.m.t.Operators) {
		field := func() string { return c.m.field("operators[%d].name", i) }
		name, overload := t.Name(), t.Overload()
		if name == nil {
			c.bad(pos(t), field(), "absent")
		}
		if overload == nil {
			c.warn(pos(t), c.m.field("operators[%d].overload", i),
				"absent, where tools require an empty one")
		}
		full := Operator{string(name), string(overload)}.String()
		if len(full) > maxOperatorName {
			c.bad(at(t, ptefb.SlotOperatorName), field(),
				"%d bytes with the overload, and the runtime supports %d", len(full), maxOperatorName)
		}
		c.name(name, at(t, ptefb.SlotOperatorName), field)
		if string(name) == copyIndexOperator {
			c.copies = i
		}
		c.counts = append(c.counts, kernelArguments(full))
	}
}

func (c *checker) delegates() {
	for i, t := range fb.Each(c.m.t.DelegatesLength(), c.m.t.Delegates) {
		field := func(name string) string { return c.m.field("delegates[%d].%s", i, name) }
		if id := t.Id(); id == nil {
			c.bad(pos(t), field("id"), "absent")
		} else {
			c.name(id, at(t, ptefb.SlotBackendDelegateId), func() string { return field("id") })
		}
		c.payload(i, t, field)
		for k, s := range fb.Each(t.CompileSpecsLength(), t.CompileSpecs) {
			if !has(s, ptefb.SlotCompileSpecKey) {
				c.warn(pos(s), field(fmt.Sprintf("compile_specs[%d].key", k)), "absent")
			}
			if !has(s, ptefb.SlotCompileSpecValue) {
				c.bad(pos(s), field(fmt.Sprintf("compile_specs[%d].value", k)),
					"absent: the runtime's process would end")
			}
		}
	}
}

// payload checks where the payload of delegate i is.
func (c *checker) payload(i int, t *ptefb.BackendDelegate, field func(string) string) {
	if _, err := c.m.payload(i, t); err != nil {
		c.out.Error(err)
		return
	}
	p := t.Processed(nil)
	if p.Location() != ptefb.DataLocationSEGMENT {
		return
	}
	where := at(p, ptefb.SlotBackendDelegateDataReferenceIndex)
	if c.r.header.SegmentBase == 0 {
		c.bad(where, field("processed"), "a segment, but no extended header says where segments are")
	} else {
		c.outside(p.Index(), where, func() string { return field("processed.index") })
	}
}
