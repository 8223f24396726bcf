package pte

import (
	"io/fs"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

type instruction struct {
	op       Opcode
	operands []int32  // indices of values
	node     *fb.Node // the table of the instruction's arguments
	label    *Label   // of a jump
}

type delegate struct {
	payload tensor.Blob
	node    *fb.Node
}

// do adds an instruction, and returns it until the next one is added.
func (m *MethodBuilder) do(op Opcode, node *fb.Node, operands ...int32) *instruction {
	m.code = append(m.code, instruction{op: op, operands: operands, node: node})
	return &m.code[len(m.code)-1]
}

func number32(slot int, x int32) *fb.Node {
	return new(fb.Node).SetNumber(slot, 4, uint64(uint32(x)))
}

// Alias declares that the tensor view shares the memory of the tensor of, so that the
// memory plan reuses it only after the last use of both.
func (m *MethodBuilder) Alias(of, view Ref) {
	m.aliases = append(m.aliases, [2]int32{m.use(of, "Alias"), m.use(view, "Alias")})
}

// Structure sets how inputs and outputs were nested in the original model, in one of the
// two notations of [LeafPaths].
func (m *MethodBuilder) Structure(inputs, outputs string) {
	m.structure = [2]string{inputs, outputs}
}

// Call runs an operator, such as aten::add.out. args are the arguments of the operator's
// schema in order, outputs included, and then its result: the output once more, or a list
// of the outputs if there are several.
func (m *MethodBuilder) Call(operator string, args ...Ref) {
	i, ok := m.operators[operator]
	if !ok {
		// The overload begins at the first dot after the namespace. ExecuTorch's tools
		// require one, if an empty one.
		at := max(strings.Index(operator, "::"), 0)
		name, overload, _ := strings.Cut(operator[at:], ".")
		name = operator[:at] + name
		if name == "" || len(operator) > maxOperatorName || strings.ContainsRune(operator, 0) {
			m.fail(fs.ErrInvalid, "operator %s: a name of 1 to %d bytes", naming.Quote(operator),
				maxOperatorName)
		}
		i = int32(len(m.operatorNodes))
		m.operators[operator] = i
		m.operatorNodes = append(m.operatorNodes, new(fb.Node).
			SetString(ptefb.SlotOperatorName, name).
			SetString(ptefb.SlotOperatorOverload, overload))
	}
	values := m.useAll(args, operator)
	m.do(OpKernelCall, number32(ptefb.SlotKernelCallOpIndex, i).
		SetVector(ptefb.SlotKernelCallArgs, vector(values), 4), values...)
}

// Delegate adds a part of the method that a backend runs, and returns its index for
// CallDelegate. id is the name of the backend.
func (m *MethodBuilder) Delegate(id string, payload tensor.Blob, specs ...CompileSpec) int {
	if id == "" || strings.ContainsRune(id, 0) || payload.Size() < 0 {
		m.fail(fs.ErrInvalid, "delegate %s of %d bytes", naming.Quote(id), payload.Size())
	}
	settings := convert(specs, func(s CompileSpec) *fb.Node {
		return new(fb.Node).SetString(ptefb.SlotCompileSpecKey, s.Key).
			SetBytes(ptefb.SlotCompileSpecValue, slices.Clone(s.Value), 1)
	})
	m.b.checksums.Add(id, payload)
	m.delegates = append(m.delegates, delegate{payload, new(fb.Node).
		SetString(ptefb.SlotBackendDelegateId, id).
		SetChildren(ptefb.SlotBackendDelegateCompileSpecs, settings)})
	return len(m.delegates) - 1
}

// CallDelegate runs delegate index on its inputs, followed by its outputs.
func (m *MethodBuilder) CallDelegate(index int, args ...Ref) {
	if index < 0 || index >= len(m.delegates) {
		m.fail(fs.ErrInvalid, "delegate %d of %d", index, len(m.delegates))
		index = 0
	}
	values := m.useAll(args, "delegate")
	m.do(OpDelegateCall, number32(ptefb.SlotDelegateCallDelegateIndex, int32(index)).
		SetVector(ptefb.SlotDelegateCallArgs, vector(values), 4), values...)
}

// Move overwrites a value with another one.
func (m *MethodBuilder) Move(from, to Ref) {
	a, b := m.use(from, "Move"), m.use(to, "Move")
	m.do(OpMove, number32(ptefb.SlotMoveCallMoveFrom, a).
		SetNumber(ptefb.SlotMoveCallMoveTo, 4, uint64(b)), a, b)
}

// Free releases the memory of a tensor whose shape has no upper bound.
func (m *MethodBuilder) Free(r Ref) {
	v := m.use(r, "Free")
	m.do(OpFree, number32(ptefb.SlotFreeCallValueIndex, v), v)
}

// A Label is the target of jumps in a method.
type Label struct {
	m  *MethodBuilder
	at int32 // index of an instruction, -1 until Mark
}

// Label makes a target for jumps. Mark sets its position, before or after the jumps.
func (m *MethodBuilder) Label() *Label {
	return &Label{m, -1}
}

// Mark sets the position of a label: before the next instruction.
func (m *MethodBuilder) Mark(l *Label) {
	if l == nil || l.m != m || l.at >= 0 {
		m.fail(fs.ErrInvalid, "a label is marked twice, or is of another method")
		return
	}
	l.at = int32(len(m.code))
}

// JumpFalse jumps to a label if a value is false: a bool, or a bool tensor with any false
// element. To jump always, use m.Value(false) as the condition.
func (m *MethodBuilder) JumpFalse(condition Ref, l *Label) {
	if l == nil || l.m != m {
		m.fail(fs.ErrInvalid, "a jump to a label of another method")
		return
	}
	v := m.use(condition, "JumpFalse")
	m.do(OpJumpFalse, number32(ptefb.SlotJumpFalseCallCondValueIndex, v), v).label = l
}

// node makes the method's table. It adds the tensors of the method to d.
func (m *MethodBuilder) node(d *draft) (*fb.Node, error) {
	for _, x := range m.code {
		if x.label != nil && x.label.at < 0 {
			return nil, m.errorf(fs.ErrInvalid, "a label that was never marked")
		}
	}
	sizes, places, err := m.plan()
	if err != nil {
		return nil, err
	}
	tensors := make([]*tensorValue, len(m.values))
	values := make([]*fb.Node, len(m.values))
	for i, v := range m.values {
		values[i] = new(fb.Node).SetChild(ptefb.SlotEValueVal, v.node).
			SetNumber(ptefb.SlotEValueValType, 1, uint64(v.kind))
		tensors[i] = v.tensor
		if p := places[i]; v.tensor != nil && v.tensor.planned() {
			v.node.SetChild(ptefb.SlotTensorAllocationInfo, new(fb.Node).
				SetNumber(ptefb.SlotAllocationDetailsMemoryId, 4, uint64(p.Memory)).
				SetNumber(ptefb.SlotAllocationDetailsMemoryOffsetLow, 4, p.Offset&(1<<32-1)).
				SetNumber(ptefb.SlotAllocationDetailsMemoryOffsetHigh, 4, p.Offset>>32))
		}
	}
	d.tensors = append(d.tensors, tensors)
	for _, i := range m.outputs {
		if t := m.values[i].tensor; t != nil && t.role == RoleExternal {
			t.node.SetScalar(ptefb.SlotTensorDataBufferIdx, 4, returnedBuffer)
		}
	}
	return new(fb.Node).
		SetString(ptefb.SlotExecutionPlanName, m.name).
		SetChild(ptefb.SlotExecutionPlanContainerMetaType, new(fb.Node).
			SetString(ptefb.SlotContainerMetadataEncodedInpStr, m.structure[0]).
			SetString(ptefb.SlotContainerMetadataEncodedOutStr, m.structure[1])).
		SetChildren(ptefb.SlotExecutionPlanValues, values).
		SetVector(ptefb.SlotExecutionPlanInputs, vector(m.inputs), 4).
		SetVector(ptefb.SlotExecutionPlanOutputs, vector(m.outputs), 4).
		SetChildren(ptefb.SlotExecutionPlanChains, []*fb.Node{m.chain()}).
		SetChildren(ptefb.SlotExecutionPlanOperators, m.operatorNodes).
		SetChildren(ptefb.SlotExecutionPlanDelegates,
			convert(m.delegates, func(x delegate) *fb.Node { return x.node })).
		SetVector(ptefb.SlotExecutionPlanNonConstBufferSizes, vector(sizes), 8), nil
}

// chain makes the table Chain of the instructions.
func (m *MethodBuilder) chain() *fb.Node {
	instructions := make([]*fb.Node, len(m.code))
	for i, x := range m.code {
		if x.label != nil {
			x.node.SetNumber(ptefb.SlotJumpFalseCallDestinationInstruction, 4, uint64(x.label.at))
		}
		instructions[i] = new(fb.Node).SetChild(ptefb.SlotInstructionInstrArgs, x.node).
			SetNumber(ptefb.SlotInstructionInstrArgsType, 1, uint64(x.op))
	}
	return new(fb.Node).
		SetVector(ptefb.SlotChainInputs, nil, 4).
		SetVector(ptefb.SlotChainOutputs, nil, 4).
		SetChildren(ptefb.SlotChainInstructions, instructions)
}
