package pte

import (
	"errors"
	"fmt"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/executorch"
	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

func (c *checker) chains() {
	n := c.m.t.ChainsLength()
	if n == 0 && has(&c.m.t, ptefb.SlotExecutionPlanChains) {
		c.bad(at(&c.m.t, ptefb.SlotExecutionPlanChains), c.m.field("chains"), "empty")
	}
	for chain := range c.m.Chains() {
		if !has(&chain.t, ptefb.SlotChainInstructions) {
			c.bad(pos(&chain.t), c.m.field("chains[%d].instructions", chain.Index), "absent")
			continue
		}
		c.chain = chain.Index
		back := false
		for k, t := range fb.Each(chain.Len(), chain.t.Instructions) {
			if k%4096 == 4095 && c.out.Full() {
				return
			}
			c.index = k
			back = c.instruction(t, chain.Len()) || back
		}
		if back {
			c.endless(chain)
		}
	}
}

// stepField is the path of a field of the instruction that is being checked.
func (c *checker) stepField(name string) string {
	return c.m.field("chains[%d].instructions[%d].%s", c.chain, c.index, name)
}

// instruction checks an instruction of a chain of n, and reports whether it is a jump
// back.
func (c *checker) instruction(e *ptefb.Instruction, n int) (back bool) {
	var x flatbuffers.Table
	op, present := Opcode(e.InstrArgsType()), e.InstrArgs(&x)
	if !op.known() { // the verifier has not seen what is there
		c.error(errors.ErrUnsupported, at(e, ptefb.SlotInstructionInstrArgsType),
			c.stepField("instr_args_type"), "%v", op)
		return false
	}
	if op == OpNone || !present {
		c.bad(pos(e), c.stepField("instr_args"), "absent")
		return false
	}
	switch op {
	case OpKernelCall:
		i, args := c.call(x, len(c.counts), "operators",
			ptefb.SlotKernelCallOpIndex, ptefb.SlotKernelCallArgs)
		if int(i) == c.copies {
			c.copyIndex(args, fb.FieldTarget(x, ptefb.SlotKernelCallArgs)+4)
		}
		if i >= 0 && int(i) < len(c.counts) && c.counts[i] > 0 && len(args)/4 != c.counts[i] {
			c.warn(fb.FieldPosOr(x, ptefb.SlotKernelCallArgs), c.stepField("args"),
				"%d arguments, but the operator has %d", len(args)/4, c.counts[i])
		}
	case OpDelegateCall:
		c.call(x, c.m.t.DelegatesLength(), "delegates",
			ptefb.SlotDelegateCallDelegateIndex, ptefb.SlotDelegateCallArgs)
	case OpMove:
		c.operand(x, ptefb.SlotMoveCallMoveFrom, "move_from")
		c.operand(x, ptefb.SlotMoveCallMoveTo, "move_to")
	case OpJumpFalse:
		c.condition(x)
		const slot = ptefb.SlotJumpFalseCallDestinationInstruction
		if to := int32Field(x, slot); to < 0 || int(to) > n {
			c.bad(fb.FieldPosOr(x, slot), c.stepField("destination_instruction"),
				"%d of %d instructions", to, n)
		} else {
			back = int(to) <= c.index
		}
	case OpFree:
		const slot, name = ptefb.SlotFreeCallValueIndex, "value_index"
		if v, ok := c.operand(x, slot, name); ok && c.kind(v) != KindTensor {
			c.bad(fb.FieldPosOr(x, slot), c.stepField(name),
				"value %d is a %v, not a tensor", v, c.kind(v))
		}
	}
	return back
}

// call checks a call of one of n operators or delegates, and returns which one, and its
// arguments.
func (c *checker) call(t flatbuffers.Table, n int, what string,
	indexSlot, argsSlot int) (i int32, args []byte) {
	i = int32Field(t, indexSlot)
	if i < 0 || int(i) >= n {
		c.bad(fb.FieldPosOr(t, indexSlot), c.stepField("index"), "%d of %d %s", i, n, what)
	}
	args, ok := fb.FieldBytes(t, argsSlot, 4)
	if !ok {
		c.bad(int(t.Pos), c.stepField("args"), "absent")
	}
	for k := range len(args) / 4 {
		if v := u32s(args, k); int64(v) >= int64(c.n) {
			c.bad(fb.FieldTarget(t, argsSlot)+4+4*k, c.stepField(fmt.Sprintf("args[%d]", k)),
				"%d of %d values", int32(v), c.n)
		}
	}
	return i, args
}

// operand checks a value that an instruction names, and reports whether it is there.
func (c *checker) operand(t flatbuffers.Table, slot int, name string) (int64, bool) {
	v := int32Field(t, slot)
	ok := v >= 0 && int(v) < c.n
	if !ok {
		c.bad(fb.FieldPosOr(t, slot), c.stepField(name), "%d of %d values", v, c.n)
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
			c.bad(fb.FieldPosOr(t, slot), c.stepField(name),
				"value %d is a tensor of another type than bool", v)
		}
	default:
		c.bad(fb.FieldPosOr(t, slot), c.stepField(name), "value %d is a %v", v, k)
	}
}

// endless finds a jump back on a Bool that is false and that nothing ever changes.
func (c *checker) endless(chain Chain) {
	for i := range chain.Instructions() {
		cond, to := i.Jump()
		v := c.m.Value(cond)
		if to < 0 || to > i.Index() || v.Kind() != KindBool || v.Bool() {
			continue
		}
		if c.changed == nil {
			c.changed = make(map[int]bool)
			for i := range c.m.Instructions() {
				for k, x := range i.operands() {
					if op := i.Opcode(); op != OpJumpFalse && (op != OpMove || k == 1) {
						c.changed[x] = true
					}
				}
			}
		}
		if !c.changed[cond] {
			c.warn(pos(&i.t), c.m.field("chains[%d].instructions[%d]", chain.Index, i.Index()),
				"jumps back to %d for ever: value %d is false and stays so", to, cond)
		}
	}
}

// copyIndex checks a call that writes its second argument into the first one at an index,
// which old runtimes did not compare with the size (CVE-2025-54949). args are at pos.
func (c *checker) copyIndex(args []byte, pos int) {
	if len(args) < 12 {
		return
	}
	to, index := c.m.Value(int(int32(u32s(args, 0)))), c.m.Value(int(int32(u32s(args, 2))))
	t, ok := to.table()
	if !ok || index.Kind() != KindInt {
		return
	}
	if i := index.Int(); i < 0 || t.SizesLength() == 0 || i >= int64(t.Sizes(0)) {
		c.bad(pos+8, c.stepField("args[2]"), "index %d, of a tensor of %v", i, to)
	}
}
