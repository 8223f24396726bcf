package pte

import (
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/tensorfile/tensorfile/internal/fb"
)

// An Opcode is what an instruction does: the tag of the schema's union InstructionArguments.
type Opcode uint8

// The instructions of the schema.
const (
	OpNone Opcode = iota // the runtime does not load the method
	OpKernelCall
	OpDelegateCall
	OpMove
	OpJumpFalse
	OpFree
	numOpcodes
)

var opcodeNames = [numOpcodes]string{"NONE", "KernelCall", "DelegateCall", "MoveCall", "JumpFalseCall", "FreeCall"}

// String is the name of the union's member, or "unknown instruction 7".
func (o Opcode) String() string {
	if o < numOpcodes {
		return opcodeNames[o]
	}
	return "unknown instruction " + strconv.Itoa(int(o))
}

// A Chain is a list of instructions that run one after another. All known programs have one chain a method.
type Chain struct {
	m     Method
	t     fb.Object
	Index int
}

// Chains yields the chains of the method.
func (m Method) Chains() iter.Seq[Chain] {
	return func(yield func(Chain) bool) {
		v := m.t.Objects(slotPlanChains)
		for i := range v.Len() {
			if !yield(Chain{m, v.At(i), i}) {
				return
			}
		}
	}
}

// Len is the number of instructions.
func (c Chain) Len() int { return c.t.Objects(slotChainInstructions).Len() }

// Instructions yields the chain's instructions.
func (c Chain) Instructions() iter.Seq[Instruction] {
	return func(yield func(Instruction) bool) {
		v := c.t.Objects(slotChainInstructions)
		for i := range v.Len() {
			if !yield(Instruction{c, v.At(i), i}) {
				return
			}
		}
	}
}

// Instructions yields the instructions of all chains of the method, in the order in which they run.
func (m Method) Instructions() iter.Seq[Instruction] {
	return func(yield func(Instruction) bool) {
		for c := range m.Chains() {
			for i := range c.Instructions() {
				if !yield(i) {
					return
				}
			}
		}
	}
}

// NumInstructions counts the instructions of all chains.
func (m Method) NumInstructions() int {
	n := 0
	for c := range m.Chains() {
		n += c.Len()
	}
	return n
}

// An Instruction is one step of a method. Its methods answer zero, or -1 for an index, for an instruction of another kind
// than theirs. Indices are as the file has them, not checked.
type Instruction struct {
	c     Chain
	t     fb.Object // the Instruction
	index int
}

// Chain is the index of the instruction's chain.
func (i Instruction) Chain() int { return i.c.Index }

// Index is the instruction's place in its chain, which jumps name.
func (i Instruction) Index() int { return i.index }

// Opcode is what the instruction does.
func (i Instruction) Opcode() Opcode { return Opcode(i.t.Uint8(slotUnionType, 0)) }

func (i Instruction) of(ops ...Opcode) fb.Object {
	for _, o := range ops {
		if i.Opcode() == o {
			return i.t.Child(slotUnion)
		}
	}
	return fb.Object{}
}

func index(t fb.Object, slot int) int {
	if !t.Present() {
		return -1
	}
	return int(int32(t.Uint32(slot, 0)))
}

// Operator is the index of the called kernel in [Method.Operators].
func (i Instruction) Operator() int { return index(i.of(OpKernelCall), slotCallIndex) }

// Delegate is the index of the called delegate in [Method.Delegates].
func (i Instruction) Delegate() int { return index(i.of(OpDelegateCall), slotCallIndex) }

// Args are the values that a call works on. Those of a kernel are the operator's arguments in order, its outputs among
// them, and then what it returns: the outputs once more.
func (i Instruction) Args() []int {
	t := i.of(OpKernelCall, OpDelegateCall)
	if !t.Present() {
		return nil
	}
	b, _ := t.Bytes(slotCallArgs, 4)
	all := make([]int, len(b)/4)
	for k := range all {
		all[k] = int(int32(u32s(b, k)))
	}
	return all
}

// Move is the value that a move reads, and the one that it overwrites.
func (i Instruction) Move() (from, to int) {
	t := i.of(OpMove)
	return index(t, slotMoveFrom), index(t, slotMoveTo)
}

// Jump is the value that a jump looks at, and the instruction where it goes if that is false.
func (i Instruction) Jump() (condition, destination int) {
	t := i.of(OpJumpFalse)
	return index(t, slotJumpCondition), index(t, slotJumpDestination)
}

// Free is the tensor whose memory is given up.
func (i Instruction) Free() int { return index(i.of(OpFree), slotFreeValue) }

// A Frame is a line of a stack trace: where in the original model an instruction comes from.
type Frame struct {
	File    string
	Line    int
	Name    string // of the function
	Context string // the source line
}

// Stack is the instruction's stack trace, the outermost call first. Exporters write it only when asked, and not for all
// instructions.
func (i Instruction) Stack() []Frame {
	v := i.c.t.Objects(slotChainStacktrace)
	if i.index >= v.Len() {
		return nil
	}
	frames := v.At(i.index).Objects(slotItems)
	all := make([]Frame, frames.Len())
	for k := range all {
		t := frames.At(k)
		all[k] = Frame{text(t, slotFrameFile), int(int32(t.Uint32(slotFrameLine, 0))), text(t, slotFrameName), text(t, slotFrameContext)}
	}
	return all
}

// String writes the instruction with the indices of its values, such as "aten::add.out(0, 1, 2, 3, 3)".
func (i Instruction) String() string {
	switch op := i.Opcode(); op {
	case OpKernelCall:
		name := fmt.Sprintf("operator %d", i.Operator())
		if v := i.c.m.t.Objects(slotPlanOperators); i.Operator() >= 0 && i.Operator() < v.Len() {
			t := v.At(i.Operator())
			name = Operator{text(t, slotOperatorName), text(t, slotOperatorOverload)}.String()
		}
		return name + joinArgs(i.Args())
	case OpDelegateCall:
		return fmt.Sprintf("delegate %d%s", i.Delegate(), joinArgs(i.Args()))
	case OpMove:
		from, to := i.Move()
		return fmt.Sprintf("move %d to %d", from, to)
	case OpJumpFalse:
		cond, to := i.Jump()
		return fmt.Sprintf("unless %d jump to %d", cond, to)
	case OpFree:
		return fmt.Sprintf("free %d", i.Free())
	default:
		return op.String()
	}
}

func joinArgs(args []int) string {
	var b strings.Builder
	b.WriteByte('(')
	for i, a := range args {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(strconv.Itoa(a))
	}
	b.WriteByte(')')
	return b.String()
}

// A Use is an instruction that works on a value, and which of its arguments the value is.
type Use struct {
	Instruction Instruction
	Arg         int
}

// Uses yields each value that an instruction names, in the order of the instructions. A list counts as itself, not as
// its elements.
func (m Method) Uses() iter.Seq2[int, Use] {
	return func(yield func(int, Use) bool) {
		for i := range m.Instructions() {
			for k, v := range i.operands() {
				if !yield(v, Use{i, k}) {
					return
				}
			}
		}
	}
}

// operands returns the values that the instruction names.
func (i Instruction) operands() []int {
	switch i.Opcode() {
	case OpKernelCall, OpDelegateCall:
		return i.Args()
	case OpMove:
		from, to := i.Move()
		return []int{from, to}
	case OpJumpFalse:
		condition, _ := i.Jump()
		return []int{condition}
	case OpFree:
		return []int{i.Free()}
	}
	return nil
}
