package pte

import (
	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/ptefb"
)

// method checks an ExecutionPlan, except its values and its memory plan.
func (c *checker) method() {
	t := &c.m.t
	s := c.m.plan()
	c.require(s, ptefb.SlotExecutionPlanValues, ptefb.SlotExecutionPlanInputs,
		ptefb.SlotExecutionPlanOutputs, ptefb.SlotExecutionPlanDelegates,
		ptefb.SlotExecutionPlanNonConstBufferSizes)
	c.indices(t.InputsLength(), t.Inputs, s.field(ptefb.SlotExecutionPlanInputs))
	c.indices(t.OutputsLength(), t.Outputs, s.field(ptefb.SlotExecutionPlanOutputs))
	c.operators()
	c.delegates()
	s = s.field(ptefb.SlotExecutionPlanChains)
	if c.require(s, s.slot) && t.ChainsLength() == 0 {
		c.malformed(s, "empty")
	}
	for chain := range c.m.chains() {
		c.checkChain(chain)
	}
}

// indices checks inputs or outputs. The runtime ends the process if one is out of range.
func (c *checker) indices(n int, index func(int) int32, s location) {
	for i := range n {
		if v := index(i); v < 0 || int(v) >= c.n {
			c.malformed(s.item(i, 4), "%d of %d values", v, c.n)
		}
	}
}

// operators checks each Operator.
func (c *checker) operators() {
	c.counts, c.copyIndexOp = c.counts[:0], -1
	for i, t := range fb.Each(c.m.t.OperatorsLength(), c.m.t.Operators) {
		s := c.m.location(ptefb.TableOperator, t, planPath+".operators[%d]", i, 0)
		c.require(s, ptefb.SlotOperatorName)
		name, overload := t.Name(), t.Overload()
		if overload == nil {
			c.warn(s.field(ptefb.SlotOperatorOverload), "absent, where tools require an empty one")
		}
		s = s.field(ptefb.SlotOperatorName)
		full := Operator{string(name), string(overload)}.String()
		if len(full) > maxOperatorName {
			c.malformed(s, "%d bytes with the overload, and the runtime supports %d", len(full),
				maxOperatorName)
		}
		c.name(name, s)
		if string(name) == copyIndexOperator {
			c.copyIndexOp = i
		}
		c.counts = append(c.counts, kernelArguments(full))
	}
}

// delegates checks each BackendDelegate and CompileSpec.
func (c *checker) delegates() {
	for i, t := range fb.Each(c.m.t.DelegatesLength(), c.m.t.Delegates) {
		s := c.m.location(ptefb.TableBackendDelegate, t, delegatePath, i, 0)
		if c.require(s, ptefb.SlotBackendDelegateId) {
			c.name(t.Id(), s.field(ptefb.SlotBackendDelegateId))
		}
		c.payload(i, t)
		for k, x := range fb.Each(t.CompileSpecsLength(), t.CompileSpecs) {
			s := c.m.location(ptefb.TableCompileSpec, x, delegatePath+".compile_specs[%d]", i, k)
			if !has(x, ptefb.SlotCompileSpecKey) {
				c.warn(s.field(ptefb.SlotCompileSpecKey), "absent")
			}
			if !has(x, ptefb.SlotCompileSpecValue) {
				c.malformed(s.field(ptefb.SlotCompileSpecValue),
					"absent: the runtime's process would end")
			}
		}
	}
}

// payload checks the location of the payload of delegate i.
func (c *checker) payload(i int, t *ptefb.BackendDelegate) {
	_, s, err := c.m.payload(i, t)
	p := t.Processed(nil)
	switch {
	case err != nil:
		c.out.Error(err)
	case p.Location() != ptefb.DataLocationSEGMENT:
	case c.r.header.SegmentBase == 0:
		s = c.m.location(ptefb.TableBackendDelegate, t, delegatePath, i, 0)
		c.malformed(s.field(ptefb.SlotBackendDelegateProcessed),
			"a segment, but no extended header says where segments are")
	default:
		c.outside(p.Index(), s)
	}
}

// memory checks the memory plan, and each NonConstBufferDevice.
func (c *checker) memory() {
	t := &c.m.t
	c.buffers = c.buffers[:0]
	var total int64
	for i := range t.NonConstBufferSizesLength() {
		n := t.NonConstBufferSizes(i)
		c.buffers = append(c.buffers, n)
		if i == 0 {
			continue // reserved
		}
		sum, ok := align.Add(total, n)
		if !ok || n > maxBuffer {
			s := c.m.plan().field(ptefb.SlotExecutionPlanNonConstBufferSizes)
			c.malformed(s.item(i, 8), "%d bytes", n)
			continue
		}
		total = sum
	}
	for i, d := range fb.Each(t.NonConstBufferDeviceLength(), t.NonConstBufferDevice) {
		s := c.m.location(ptefb.TableNonConstBufferDevice, d,
			planPath+".non_const_buffer_device[%d]", i, 0)
		if k := d.BufferIdx(); k < 0 || int(k) >= len(c.buffers) {
			s = s.field(ptefb.SlotNonConstBufferDeviceBufferIdx)
			c.warn(s, "%d of %d buffers", k, len(c.buffers))
		}
		if x := d.DeviceType(); x > ptefb.DeviceTypeCUDA || x < 0 {
			c.warn(s.field(ptefb.SlotNonConstBufferDeviceDeviceType), "unknown device %d", int8(x))
		}
	}
}
