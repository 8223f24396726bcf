package pte

import (
	"errors"

	flatbuffers "github.com/google/flatbuffers/go"

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
		c.chain, c.index = x.index, k
		back = c.instruction(t, x.len()) || back
	}
	if back {
		c.endless(x)
	}
}

// step is a field of the instruction that is being checked, in the table t.
func (c *checker) step(t flatbuffers.Table, slot int, name string) site {
	return site{t: t, path: planPath + "chains[%d].instructions[%d].",
		index: [3]int{c.m.index, c.chain, c.index}, slot: slot, name: name}
}

// instruction checks an instruction of a chain of n, and reports whether it is a jump
// back.
func (c *checker) instruction(e *ptefb.Instruction, n int) (back bool) {
	var x flatbuffers.Table
	op, present := Opcode(e.InstrArgsType()), e.InstrArgs(&x)
	if !op.known() { // the verifier has not seen what is there
		c.error(errors.ErrUnsupported,
			c.step(e.Table(), ptefb.SlotInstructionInstrArgsType, "instr_args_type"), "%v", op)
		return false
	}
	if op == OpNone || !present {
		c.bad(c.step(e.Table(), itself, "instr_args"), "absent")
		return false
	}
	switch op {
	case OpKernelCall:
		const slot = ptefb.SlotKernelCallArgs
		i := c.called(x, ptefb.SlotKernelCallOpIndex, len(c.counts), "operators")
		args := c.args(x, slot)
		if int(i) == c.copies {
			c.copyIndex(args, x)
		}
		if i >= 0 && int(i) < len(c.counts) && c.counts[i] > 0 && len(args)/4 != c.counts[i] {
			c.warn(c.step(x, slot, "args"), "%d arguments, but the operator has %d", len(args)/4, c.counts[i])
		}
	case OpDelegateCall:
		c.called(x, ptefb.SlotDelegateCallDelegateIndex, c.m.t.DelegatesLength(), "delegates")
		c.args(x, ptefb.SlotDelegateCallArgs)
	case OpMove:
		c.operand(x, ptefb.SlotMoveCallMoveFrom, "move_from")
		c.operand(x, ptefb.SlotMoveCallMoveTo, "move_to")
	case OpJumpFalse:
		c.condition(x)
		const slot = ptefb.SlotJumpFalseCallDestinationInstruction
		to := int32Field(x, slot)
		if to < 0 || int(to) > n {
			c.bad(c.step(x, slot, "destination_instruction"), "%d of %d instructions", to, n)
			return false
		}
		return int(to) <= c.index
	case OpFree:
		const slot, name = ptefb.SlotFreeCallValueIndex, "value_index"
		if v, ok := c.operand(x, slot, name); ok && c.kind(v) != KindTensor {
			c.bad(c.step(x, slot, name), "value %d is a %v, not a tensor", v, c.kind(v))
		}
	}
	return false
}

// called checks the index of one of n operators or delegates.
func (c *checker) called(t flatbuffers.Table, slot, n int, what string) int32 {
	i := int32Field(t, slot)
	if i < 0 || int(i) >= n {
		c.bad(c.step(t, slot, "index"), "%d of %d %s", i, n, what)
	}
	return i
}

// args checks the arguments of a call.
func (c *checker) args(t flatbuffers.Table, slot int) []byte {
	args, ok := fb.FieldBytes(t, slot, 4)
	if !ok {
		c.bad(c.step(t, slot, "args"), "absent")
	}
	for k := range len(args) / 4 {
		if v := u32s(args, k); int64(v) >= int64(c.n) {
			c.bad(c.step(t, slot, "args").element(k, 4), "%d of %d values", int32(v), c.n)
		}
	}
	return args
}

// operand checks a value that an instruction names, and reports whether it is there.
func (c *checker) operand(t flatbuffers.Table, slot int, name string) (int64, bool) {
	v := int32Field(t, slot)
	ok := v >= 0 && int(v) < c.n
	if !ok {
		c.bad(c.step(t, slot, name), "%d of %d values", v, c.n)
	}
	return int64(v), ok
}

// condition checks what a jump depends on.
func (c *checker) condition(t flatbuffers.Table) {
	const slot, name = ptefb.SlotJumpFalseCallCondValueIndex, "cond_value_index"
	v, ok := c.operand(t, slot, name)
	if !ok {
		return
	}
	switch k := c.kind(v); k {
	case KindBool, KindNull: // None until an instruction makes it a Bool
	case KindTensor:
		x, ok := c.m.Value(int(v)).table()
		if ok && executorch.DType(int8(x.ScalarType())) != tensor.Bool {
			c.bad(c.step(t, slot, name), "value %d is a tensor of another type than bool", v)
		}
	default:
		c.bad(c.step(t, slot, name), "value %d is a %v", v, k)
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
func (c *checker) copyIndex(args []byte, call flatbuffers.Table) {
	if len(args) < 12 {
		return
	}
	to, index := c.m.Value(int(int32(u32s(args, 0)))), c.m.Value(int(int32(u32s(args, 2))))
	t, ok := to.table()
	if !ok || index.Kind() != KindInt {
		return
	}
	if i := index.Int(); i < 0 || t.SizesLength() == 0 || i >= int64(t.Sizes(0)) {
		c.bad(c.step(call, ptefb.SlotKernelCallArgs, "args").element(2, 4), "index %d, of a tensor of %v", i, to)
	}
}
