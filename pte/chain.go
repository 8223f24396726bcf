package pte

import (
	"fmt"
	"iter"
	"strings"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/schema/ptefb"
)

// An Opcode is the kind of an instruction: the tag of the schema's union
// InstructionArguments.
type Opcode uint8

// The instructions of the schema.
const (
	OpNone         = Opcode(ptefb.InstructionArgumentsNONE) // the runtime does not load the method
	OpKernelCall   = Opcode(ptefb.InstructionArgumentsKernelCall)
	OpDelegateCall = Opcode(ptefb.InstructionArgumentsDelegateCall)
	OpMove         = Opcode(ptefb.InstructionArgumentsMoveCall)
	OpJumpFalse    = Opcode(ptefb.InstructionArgumentsJumpFalseCall)
	OpFree         = Opcode(ptefb.InstructionArgumentsFreeCall)
)

func (o Opcode) known() bool { return o <= OpFree }

// String returns the name in the union, such as KernelCall, or InstructionArguments(7) if
// it is unknown.
func (o Opcode) String() string { return ptefb.InstructionArguments(o).String() }

// A chain is a list of instructions. In all known programs a method has one chain.
type chain struct {
	m     Method
	t     ptefb.Chain
	index int
}

func (m Method) chains() iter.Seq[chain] {
	return format.Each(m.t.ChainsLength(), func(i int) chain {
		c := chain{m: m, index: i}
		m.t.Chains(&c.t, i)
		return c
	})
}

func (c chain) len() int { return c.t.InstructionsLength() }

func (c chain) instructions() iter.Seq[Instruction] {
	return format.Each(c.len(), func(i int) Instruction {
		x := Instruction{c: c, index: i}
		c.t.Instructions(&x.t, i)
		return x
	})
}

// Instructions yields the instructions of all chains of the method, in the order in which
// they run.
func (m Method) Instructions() iter.Seq[Instruction] {
	return func(yield func(Instruction) bool) {
		for c := range m.chains() {
			for i := range c.instructions() {
				if !yield(i) {
					return
				}
			}
		}
	}
}

// NumInstructions returns the number of instructions of all chains.
func (m Method) NumInstructions() (n int) {
	for c := range m.chains() {
		n += c.len()
	}
	return n
}

// An Instruction is one step of a method. A method that does not apply to the kind of the
// instruction returns zero, or -1 for an index. Indices are as in the file, unchecked.
type Instruction struct {
	c     chain
	t     ptefb.Instruction
	index int
}

// Chain returns the index of the instruction's chain.
func (i Instruction) Chain() int { return i.c.index }

// Index returns the instruction's index in its chain. The destination of a jump is such
// an index.
func (i Instruction) Index() int { return i.index }

// Opcode returns the kind of the instruction.
func (i Instruction) Opcode() Opcode { return Opcode(i.t.InstrArgsType()) }

// args returns the table of the instruction's arguments, false unless it is of kind op.
func (i Instruction) args(op Opcode) (t flatbuffers.Table, ok bool) {
	ok = i.Opcode() == op && i.t.InstrArgs(&t)
	return t, ok
}

// number returns a field of the arguments, -1 unless the instruction is of kind op.
func (i Instruction) number(op Opcode, slot int) int {
	t, ok := i.args(op)
	if !ok {
		return -1
	}
	return int(int32Field(t, slot))
}

// Operator returns the index of the called kernel in [Method.Operators].
func (i Instruction) Operator() int { return i.number(OpKernelCall, ptefb.SlotKernelCallOpIndex) }

// Delegate returns the index of the called delegate in [Method.Delegates].
func (i Instruction) Delegate() int {
	return i.number(OpDelegateCall, ptefb.SlotDelegateCallDelegateIndex)
}

// Args returns the indices of the values that a call works on, nil for other kinds. For a
// kernel they are the operator's arguments in order, outputs included, followed by its
// results, which are the outputs again.
func (i Instruction) Args() []int {
	slot := ptefb.SlotKernelCallArgs
	t, ok := i.args(OpKernelCall)
	if !ok {
		slot = ptefb.SlotDelegateCallArgs
		if t, ok = i.args(OpDelegateCall); !ok {
			return nil
		}
	}
	b, _ := fb.FieldBytes(t, slot, 4)
	return elements(b, 4, func(b []byte) int { return int(int32(u32s(b, 0))) })
}

// move returns the value that a move reads, and the value that it overwrites.
func (i Instruction) move() (from, to int) {
	return i.number(OpMove, ptefb.SlotMoveCallMoveFrom), i.number(OpMove, ptefb.SlotMoveCallMoveTo)
}

// Jump returns the value that a jump depends on, and the index of the instruction that
// runs next if the value is false.
func (i Instruction) Jump() (condition, destination int) {
	return i.number(OpJumpFalse, ptefb.SlotJumpFalseCallCondValueIndex),
		i.number(OpJumpFalse, ptefb.SlotJumpFalseCallDestinationInstruction)
}

// String writes the instruction with the indices of its values, such as "aten::add.out(0,
// 1, 2, 3, 3)".
func (i Instruction) String() string {
	switch op := i.Opcode(); op {
	case OpKernelCall:
		name := fmt.Sprintf("operator %d", i.Operator())
		if o, ok := i.c.m.operator(i.Operator()); ok {
			name = o.String()
		}
		return name + joinArgs(i.Args())
	case OpDelegateCall:
		return fmt.Sprintf("delegate %d%s", i.Delegate(), joinArgs(i.Args()))
	case OpMove:
		from, to := i.move()
		return fmt.Sprintf("move %d to %d", from, to)
	case OpJumpFalse:
		cond, to := i.Jump()
		return fmt.Sprintf("unless %d jump to %d", cond, to)
	case OpFree:
		return fmt.Sprintf("free %d", i.number(OpFree, ptefb.SlotFreeCallValueIndex))
	default:
		return op.String()
	}
}

func joinArgs(args []int) string {
	return "(" + strings.Trim(strings.ReplaceAll(fmt.Sprint(args), " ", ", "), "[]") + ")"
}

// operands returns the indices of all values that the instruction reads or writes.
func (i Instruction) operands() []int {
	switch i.Opcode() {
	case OpKernelCall, OpDelegateCall:
		return i.Args()
	case OpMove:
		from, to := i.move()
		return []int{from, to}
	case OpJumpFalse:
		condition, _ := i.Jump()
		return []int{condition}
	case OpFree:
		return []int{i.number(OpFree, ptefb.SlotFreeCallValueIndex)}
	}
	return nil
}
