package pte

import (
	"errors"

	"github.com/tensorfile/tensorfile/internal/executorch"
	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// copyIndexOperator is the name of the kernel that writes a tensor into another one at an
// index.
const copyIndexOperator = "executorch_prim::et_copy_index"

func (c *checker) method() {
	t := &c.m.t
	s := c.m.site(t, planPath, 0, 0)
	c.require(s, ptefb.SlotExecutionPlanValues, "values")
	c.require(s, ptefb.SlotExecutionPlanInputs, "inputs")
	c.require(s, ptefb.SlotExecutionPlanOutputs, "outputs")
	chains := c.require(s, ptefb.SlotExecutionPlanChains, "chains")
	c.require(s, ptefb.SlotExecutionPlanDelegates, "delegates")
	c.require(s, ptefb.SlotExecutionPlanNonConstBufferSizes, "non_const_buffer_sizes")
	c.indices(t.InputsLength(), t.Inputs, s.field(ptefb.SlotExecutionPlanInputs, "inputs"))
	c.indices(t.OutputsLength(), t.Outputs, s.field(ptefb.SlotExecutionPlanOutputs, "outputs"))
	c.operators()
	c.delegates()
	if chains && t.ChainsLength() == 0 {
		c.bad(s.field(ptefb.SlotExecutionPlanChains, "chains"), "empty")
	}
	for chain := range c.m.chains() {
		c.checkChain(chain)
	}
}

// indices checks inputs or outputs: the runtime ends the process for one out of range.
func (c *checker) indices(n int, index func(int) int32, s site) {
	for i := range n {
		if v := index(i); v < 0 || int(v) >= c.n {
			c.bad(s.element(i, 4), "%d of %d values", v, c.n)
		}
	}
}

func (c *checker) operators() {
	c.counts, c.copies = c.counts[:0], -1
	for i, t := range fb.Each(c.m.t.OperatorsLength(), c.m.t.Operators) {
		s := c.m.site(t, planPath+"operators[%d].", i, 0)
		c.require(s, ptefb.SlotOperatorName, "name")
		name, overload := t.Name(), t.Overload()
		if overload == nil {
			c.warn(s.named("overload"), "absent, where tools require an empty one")
		}
		s = s.field(ptefb.SlotOperatorName, "name")
		full := Operator{string(name), string(overload)}.String()
		if len(full) > maxOperatorName {
			c.bad(s, "%d bytes with the overload, and the runtime supports %d", len(full), maxOperatorName)
		}
		c.name(name, s)
		if string(name) == copyIndexOperator {
			c.copies = i
		}
		c.counts = append(c.counts, kernelArguments(full))
	}
}

func (c *checker) delegates() {
	for i, t := range fb.Each(c.m.t.DelegatesLength(), c.m.t.Delegates) {
		s := c.m.site(t, delegatePath, i, 0)
		if c.require(s, ptefb.SlotBackendDelegateId, "id") {
			c.name(t.Id(), s.field(ptefb.SlotBackendDelegateId, "id"))
		}
		c.payload(i, t)
		for k, x := range fb.Each(t.CompileSpecsLength(), t.CompileSpecs) {
			s := c.m.site(x, delegatePath+"compile_specs[%d].", i, k)
			if !has(x, ptefb.SlotCompileSpecKey) {
				c.warn(s.named("key"), "absent")
			}
			if !has(x, ptefb.SlotCompileSpecValue) {
				c.bad(s.named("value"), "absent: the runtime's process would end")
			}
		}
	}
}

// payload checks where the payload of delegate i is.
func (c *checker) payload(i int, t *ptefb.BackendDelegate) {
	_, s, err := c.m.payload(i, t)
	p := t.Processed(nil)
	switch {
	case err != nil:
		c.out.Error(err)
	case p.Location() != ptefb.DataLocationSEGMENT:
	case c.r.header.SegmentBase == 0:
		s.path, s.name = delegatePath, "processed"
		c.bad(s, "a segment, but no extended header says where segments are")
	default:
		c.outside(p.Index(), s)
	}
}

func (c *checker) checkChain(x chain) {
	const path = planPath + "chains[%d]."
	if !c.require(c.m.site(&x.t, path, x.index, 0), ptefb.SlotChainInstructions, "instructions") {
		return
	}
	back := false
	for k, t := range fb.Each(x.len(), x.t.Instructions) {
		if k%4096 == 4095 && c.out.Full() {
			return
		}
		back = c.instruction(t, c.m.site(t, path+"instructions[%d].", x.index, k), x.len()) || back
	}
	if back {
		c.endless(x)
	}
}

// instruction checks the instruction at s, of a chain of n, and reports whether it is a
// jump back.
func (c *checker) instruction(e *ptefb.Instruction, s site, n int) (back bool) {
	op, present := Opcode(e.InstrArgsType()), e.InstrArgs(&s.t)
	if !op.known() { // the verifier has not seen what is there
		s.t = e.Table()
		c.error(errors.ErrUnsupported, s.field(ptefb.SlotInstructionInstrArgsType, "instr_args_type"),
			"%v", op)
		return false
	}
	if op == OpNone || !present {
		s.t = e.Table()
		c.bad(s.named("instr_args"), "absent")
		return false
	}
	switch op {
	case OpKernelCall:
		i := c.called(s.field(ptefb.SlotKernelCallOpIndex, "index"), len(c.counts), "operators")
		s = s.field(ptefb.SlotKernelCallArgs, "args")
		args := c.args(s)
		if int(i) == c.copies {
			c.copyIndex(args, s)
		}
		if i >= 0 && int(i) < len(c.counts) && c.counts[i] > 0 && len(args)/4 != c.counts[i] {
			c.warn(s, "%d arguments, but the operator has %d", len(args)/4, c.counts[i])
		}
	case OpDelegateCall:
		c.called(s.field(ptefb.SlotDelegateCallDelegateIndex, "index"), c.m.t.DelegatesLength(),
			"delegates")
		c.args(s.field(ptefb.SlotDelegateCallArgs, "args"))
	case OpMove:
		c.operand(s.field(ptefb.SlotMoveCallMoveFrom, "move_from"))
		c.operand(s.field(ptefb.SlotMoveCallMoveTo, "move_to"))
	case OpJumpFalse:
		c.condition(s.field(ptefb.SlotJumpFalseCallCondValueIndex, "cond_value_index"))
		s = s.field(ptefb.SlotJumpFalseCallDestinationInstruction, "destination_instruction")
		to := int32Field(s.t, s.slot)
		if to < 0 || int(to) > n {
			c.bad(s, "%d of %d instructions", to, n)
			return false
		}
		return int(to) <= s.index[2]
	case OpFree:
		s = s.field(ptefb.SlotFreeCallValueIndex, "value_index")
		if v, ok := c.operand(s); ok && c.kind(v) != KindTensor {
			c.bad(s, "value %d is a %v, not a tensor", v, c.kind(v))
		}
	}
	return false
}

// called checks the index of one of n operators or delegates.
func (c *checker) called(s site, n int, what string) int32 {
	i := int32Field(s.t, s.slot)
	if i < 0 || int(i) >= n {
		c.bad(s, "%d of %d %s", i, n, what)
	}
	return i
}

// args checks the arguments of a call.
func (c *checker) args(s site) []byte {
	args, ok := fb.FieldBytes(s.t, s.slot, 4)
	if !ok {
		c.bad(s, "absent")
	}
	for k := range len(args) / 4 {
		if v := u32s(args, k); int64(v) >= int64(c.n) {
			c.bad(s.element(k, 4), "%d of %d values", int32(v), c.n)
		}
	}
	return args
}

// operand checks a value that an instruction names, and reports whether it is there.
func (c *checker) operand(s site) (int64, bool) {
	v := int32Field(s.t, s.slot)
	ok := v >= 0 && int(v) < c.n
	if !ok {
		c.bad(s, "%d of %d values", v, c.n)
	}
	return int64(v), ok
}

// condition checks what a jump depends on.
func (c *checker) condition(s site) {
	v, ok := c.operand(s)
	if !ok {
		return
	}
	switch k := c.kind(v); k {
	case KindBool, KindNull: // None until an instruction makes it a Bool
	case KindTensor:
		x, ok := c.m.Value(int(v)).table()
		if ok && executorch.DType(int8(x.ScalarType())) != tensor.Bool {
			c.bad(s, "value %d is a tensor of another type than bool", v)
		}
	default:
		c.bad(s, "value %d is a %v", v, k)
	}
}

// endless finds a jump back on a Bool that is false and that nothing ever changes.
func (c *checker) endless(x chain) {
	for i := range x.instructions() {
		cond, to := i.Jump()
		v := c.m.Value(cond)
		if to < 0 || to > i.Index() || v.Kind() != KindBool || v.Bool() {
			continue
		}
		if c.changed == nil {
			c.changed = make(map[int]bool)
			for i := range c.m.Instructions() {
				for k, v := range i.operands() {
					if op := i.Opcode(); op != OpJumpFalse && (op != OpMove || k == 1) {
						c.changed[v] = true
					}
				}
			}
		}
		if !c.changed[cond] {
			c.warn(c.m.site(&i.t, planPath+"chains[%d].instructions[%d]", x.index, i.Index()),
				"jumps back to %d for ever: value %d is false and stays so", to, cond)
		}
	}
}

// copyIndex checks a call that writes its second argument into the first one at an index,
// which old runtimes did not compare with the size (CVE-2025-54949).
func (c *checker) copyIndex(args []byte, s site) {
	if len(args) < 12 {
		return
	}
	to, index := c.m.Value(int(int32(u32s(args, 0)))), c.m.Value(int(int32(u32s(args, 2))))
	t, ok := to.table()
	if !ok || index.Kind() != KindInt {
		return
	}
	if i := index.Int(); i < 0 || t.SizesLength() == 0 || i >= int64(t.Sizes(0)) {
		c.bad(s.element(2, 4), "index %d, of a tensor of %v", i, to)
	}
}
