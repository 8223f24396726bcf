package pte

import (
	"errors"

	"github.com/tensorfile/tensorfile/internal/executorch"
	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// copyIndexOperator writes a tensor into another tensor at an index.
const copyIndexOperator = "executorch_prim::et_copy_index"

// checkChain checks a Chain and its instructions.
func (c *checker) checkChain(x chain) {
	s := c.m.location(ptefb.TableChain, &x.t, planPath+".chains[%d]", x.index, 0)
	if !c.require(s, ptefb.SlotChainInstructions) {
		return
	}
	c.chain = x.index
	back, n := false, x.len()
	for i, t := range fb.Each(n, x.t.Instructions) {
		if i%4096 == 4095 && c.out.Full() {
			return
		}
		c.index = i
		back = c.instruction(t, n) || back
	}
	if back {
		c.endless(x)
	}
}

// arg returns the location of a field of the arguments of the instruction.
func (c *checker) arg(slot int) location {
	members := ptefb.Schema.Unions[ptefb.UnionInstructionArguments].Members
	return location{t: c.args, table: int(members[c.op]), path: instructionPath,
		index: [3]int{c.m.index, c.chain, c.index}, slot: slot}
}

// instruction checks one of n instructions, and reports whether it is a jump back.
func (c *checker) instruction(t *ptefb.Instruction, n int) (back bool) {
	c.op = Opcode(t.InstrArgsType())
	present := t.InstrArgs(&c.args)
	if !c.op.known() || c.op == OpNone || !present {
		s := c.m.location(ptefb.TableInstruction, t, instructionPath, c.chain, c.index)
		if !c.op.known() { // the FlatBuffers verifier skipped it
			c.error(errors.ErrUnsupported, s.field(ptefb.SlotInstructionInstrArgsType), "%v", c.op)
		} else {
			c.malformed(s.field(ptefb.SlotInstructionInstrArgs), "absent")
		}
		return false
	}
	switch c.op {
	case OpKernelCall:
		const slot = ptefb.SlotKernelCallArgs
		o, ok := c.operand(ptefb.SlotKernelCallOpIndex, len(c.counts), "operators")
		args := c.operands(slot)
		if o == c.copyIndexOp {
			c.copyIndex(args)
		}
		if n := len(args) / 4; ok && c.counts[o] > 0 && n != c.counts[o] {
			c.warn(c.arg(slot), "%d arguments, but the operator has %d", n, c.counts[o])
		}
	case OpDelegateCall:
		c.operand(ptefb.SlotDelegateCallDelegateIndex, c.m.t.DelegatesLength(), "delegates")
		c.operands(ptefb.SlotDelegateCallArgs)
	case OpMove:
		c.operand(ptefb.SlotMoveCallMoveFrom, c.n, "values")
		c.operand(ptefb.SlotMoveCallMoveTo, c.n, "values")
	case OpJumpFalse:
		c.condition()
		const slot = ptefb.SlotJumpFalseCallDestinationInstruction
		to := int32Field(c.args, slot)
		if to < 0 || int(to) > n {
			c.malformed(c.arg(slot), "%d of %d instructions", to, n)
			return false
		}
		return int(to) <= c.index
	case OpFree:
		const slot = ptefb.SlotFreeCallValueIndex
		if v, ok := c.operand(slot, c.n, "values"); ok && c.kind(v) != kindTensor {
			c.malformed(c.arg(slot), "value %d is a %v, not a tensor", v, c.kind(v))
		}
	}
	return false
}

// operands checks the arguments of a call.
func (c *checker) operands(slot int) []byte {
	args, ok := fb.FieldBytes(c.args, slot, 4)
	if !ok {
		c.malformed(c.arg(slot), "absent")
	}
	for k := range len(args) / 4 {
		if v := u32s(args, k); int64(v) >= int64(c.n) {
			c.malformed(c.arg(slot).item(k, 4), "%d of %d values", int32(v), c.n)
		}
	}
	return args
}

// operand returns an index, and reports whether it is below n, the number of what.
func (c *checker) operand(slot, n int, what string) (int, bool) {
	i := int(int32Field(c.args, slot))
	ok := i >= 0 && i < n
	if !ok {
		c.malformed(c.arg(slot), "%d of %d %s", i, n, what)
	}
	return i, ok
}

// condition checks the value that a jump depends on.
func (c *checker) condition() {
	const slot = ptefb.SlotJumpFalseCallCondValueIndex
	v, ok := c.operand(slot, c.n, "values")
	if !ok {
		return
	}
	switch k := c.kind(v); k {
	case kindBool, kindNull: // None until an instruction makes it a Bool
	case kindTensor:
		x, ok := c.m.Value(v).table()
		if ok && executorch.DType(int8(x.ScalarType())) != tensor.Bool {
			c.malformed(c.arg(slot), "value %d is a tensor of another type than bool", v)
		}
	default:
		c.malformed(c.arg(slot), "value %d is a %v", v, k)
	}
}

// endless warns of a jump back whose condition is a false Bool that no instruction
// writes.
func (c *checker) endless(x chain) {
	for i := range x.instructions() {
		cond, to := i.Jump()
		v := c.m.Value(cond)
		if to < 0 || to > i.Index() || v.Kind() != kindBool || v.isTrue() {
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
			s := c.m.location(ptefb.TableInstruction, &i.t, instructionPath, x.index, i.Index())
			c.warn(s, "jumps back to %d for ever: value %d is false and stays so", to, cond)
		}
	}
}

// copyIndex checks a call that writes its second argument into its first at an index. Old
// runtimes did not compare the index with the size (CVE-2025-54949).
func (c *checker) copyIndex(args []byte) {
	if len(args) < 12 {
		return
	}
	to, index := c.m.Value(int(int32(u32s(args, 0)))), c.m.Value(int(int32(u32s(args, 2))))
	t, ok := to.table()
	if !ok || index.Kind() != kindInt {
		return
	}
	if i := index.number(); i < 0 || t.SizesLength() == 0 || i >= int64(t.Sizes(0)) {
		c.malformed(c.arg(ptefb.SlotKernelCallArgs).item(2, 4), "index %d, of a tensor of %v", i,
			to)
	}
}
