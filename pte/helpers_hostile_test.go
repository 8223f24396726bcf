package pte

import (
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// hostilePrograms have defects in the tables of their program.
var hostilePrograms = []hostile{
	{name: "no execution_plan", base: "lean",
		tables: func(c crafted) { c.tree.Remove(ptefb.SlotProgramExecutionPlan) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "no name", base: "lean",
		tables: func(c crafted) { c.plan().Remove(ptefb.SlotExecutionPlanName) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "no values", base: "lean",
		tables: func(c crafted) { c.plan().Remove(ptefb.SlotExecutionPlanValues) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "no inputs", base: "lean",
		tables: func(c crafted) { c.plan().Remove(ptefb.SlotExecutionPlanInputs) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "no outputs", base: "lean",
		tables: func(c crafted) { c.plan().Remove(ptefb.SlotExecutionPlanOutputs) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "no delegates", base: "lean",
		tables: func(c crafted) { c.plan().Remove(ptefb.SlotExecutionPlanDelegates) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "no non_const_buffer_sizes", base: "lean",
		tables: func(c crafted) { c.plan().Remove(ptefb.SlotExecutionPlanNonConstBufferSizes) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "no chains", base: "lean",
		tables: func(c crafted) { c.plan().Remove(ptefb.SlotExecutionPlanChains) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "empty chains", base: "lean",
		tables: func(c crafted) { c.plan().SetChildren(ptefb.SlotExecutionPlanChains, nil) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "no container_meta_type", base: "lean",
		tables:  func(c crafted) { c.plan().Remove(ptefb.SlotExecutionPlanContainerMetaType) },
		runtime: "runs"},
	{name: "duplicate method names", base: "lean", tables: func(c crafted) {
		c.tree.SetChildren(ptefb.SlotProgramExecutionPlan,
			append(c.tree.Children(ptefb.SlotProgramExecutionPlan), c.plan()))
	}, warn: "execution_plan[2].name", runtime: "runs"},
	{name: "value NONE", base: "lean",
		tables: func(c crafted) {
			c.value(9).Remove(ptefb.SlotEValueValType)
			c.value(9).Remove(ptefb.SlotEValueVal)
		}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "null without a table", base: "lean",
		tables: func(c crafted) { c.value(12).Remove(ptefb.SlotEValueVal) }, runtime: "runs"},
	{name: "unknown value", base: "lean",
		tables: func(c crafted) { c.value(9).SetScalar(ptefb.SlotEValueValType, 1, 12) },
		verify: errors.ErrUnsupported, runtime: "refuses"},
	{name: "unknown instruction", base: "lean",
		tables: func(c crafted) {
			c.instruction(2).SetScalar(ptefb.SlotInstructionInstrArgsType, 1, 6)
		}, verify: errors.ErrUnsupported, runtime: "refuses"},
	{name: "no instruction", base: "lean", tables: func(c crafted) {
		c.instruction(2).Remove(ptefb.SlotInstructionInstrArgsType)
		c.instruction(2).Remove(ptefb.SlotInstructionInstrArgs)
	}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "no sizes", base: "lean",
		tables: func(c crafted) { c.of(1).Remove(ptefb.SlotTensorSizes) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "no dim_order", base: "lean",
		tables: func(c crafted) { c.of(1).Remove(ptefb.SlotTensorDimOrder) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "dim_order too short", base: "lean",
		tables: func(c crafted) { c.of(1).SetBytes(ptefb.SlotTensorDimOrder, []byte{0}, 1) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "rank 17", base: "lean", tables: func(c crafted) {
		setI32s(c.of(1), ptefb.SlotTensorSizes, slices.Repeat([]int32{1}, 17)...)
		c.of(1).SetBytes(ptefb.SlotTensorDimOrder,
			[]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, 1)
	}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "rank 256", base: "lean",
		tables: func(c crafted) {
			setI32s(c.of(1), ptefb.SlotTensorSizes, slices.Repeat([]int32{1}, 256)...)
		}, open: tensor.ErrLimit, runtime: "refuses"},
	{name: "dim_order twice", base: "lean",
		tables: func(c crafted) { c.of(1).SetBytes(ptefb.SlotTensorDimOrder, []byte{1, 1}, 1) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "dim_order out of range", base: "lean",
		tables: func(c crafted) { c.of(1).SetBytes(ptefb.SlotTensorDimOrder, []byte{0, 200}, 1) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "negative size", base: "lean",
		tables: func(c crafted) { setI32s(c.of(1), ptefb.SlotTensorSizes, 2, -3) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "product overflows", base: "lean", tables: func(c crafted) {
		setI32s(c.of(1), ptefb.SlotTensorSizes, math.MaxInt32, math.MaxInt32, math.MaxInt32)
		c.of(1).SetBytes(ptefb.SlotTensorDimOrder, []byte{0, 1, 2}, 1)
	}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "bytes overflow", base: "lean", tables: func(c crafted) {
		setI32s(c.of(1), ptefb.SlotTensorSizes, math.MaxInt32, 1<<30, 2)
		c.of(1).SetBytes(ptefb.SlotTensorDimOrder, []byte{0, 1, 2}, 1)
	}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "overflow before a zero", base: "lean", tables: func(c crafted) {
		setI32s(c.of(1), ptefb.SlotTensorSizes, math.MaxInt32, math.MaxInt32, math.MaxInt32, 0)
		c.of(1).SetBytes(ptefb.SlotTensorDimOrder, []byte{0, 1, 2, 3}, 1)
	}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "overflow of a dynamic input", base: "lean", tables: func(c crafted) {
		setI32s(c.of(0), ptefb.SlotTensorSizes, math.MaxInt32, math.MaxInt32, math.MaxInt32)
		c.of(0).SetBytes(ptefb.SlotTensorDimOrder, []byte{0, 1, 2}, 1)
		c.of(0).SetScalar(ptefb.SlotTensorShapeDynamism, 1, 1)
	}, verify: tensor.ErrMalformed, runtime: "any"},
	{name: "scalar type -1", base: "lean",
		tables: func(c crafted) { c.of(1).SetScalar(ptefb.SlotTensorScalarType, 1, 255) },
		verify: errors.ErrUnsupported, runtime: "refuses"},
	{name: "scalar type 30", base: "lean",
		tables: func(c crafted) { c.of(1).SetScalar(ptefb.SlotTensorScalarType, 1, 30) },
		verify: errors.ErrUnsupported, runtime: "refuses"},
	{name: "scalar type 31", base: "lean",
		tables: func(c crafted) { c.of(1).SetScalar(ptefb.SlotTensorScalarType, 1, 31) },
		verify: errors.ErrUnsupported, runtime: "refuses"},
	{name: "scalar type 127", base: "lean",
		tables: func(c crafted) { c.of(1).SetScalar(ptefb.SlotTensorScalarType, 1, 127) },
		verify: errors.ErrUnsupported, runtime: "refuses"},
	{name: "storage_offset", base: "lean",
		tables: func(c crafted) { c.of(1).SetScalar(ptefb.SlotTensorStorageOffset, 4, 1) },
		verify: errors.ErrUnsupported, runtime: "refuses"},
	{name: "unbound", base: "lean",
		tables: func(c crafted) { c.of(3).SetScalar(ptefb.SlotTensorShapeDynamism, 1, 2) },
		verify: errors.ErrUnsupported, runtime: "refuses"},
	{name: "constant index out of range", base: "lean",
		tables: func(c crafted) { c.of(1).SetScalar(ptefb.SlotTensorDataBufferIdx, 4, 99) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "constant index 2^32-1", base: "lean",
		tables: func(c crafted) {
			c.of(1).SetScalar(ptefb.SlotTensorDataBufferIdx, 4, math.MaxUint32)
		}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "constant offset beyond its segment", base: "lean", tables: func(c crafted) {
		c.tree.Child(ptefb.SlotProgramConstantSegment).SetVector(
			ptefb.SlotSubsegmentOffsetsOffsets, vector([]uint64{0, 1 << 20, 32, 48}), 8)
	}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "constant ends beyond its segment", base: "lean",
		tables: func(c crafted) { setI32s(c.of(1), ptefb.SlotTensorSizes, 2, 30) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "constant offset 2^63", base: "lean", tables: func(c crafted) {
		c.tree.Child(ptefb.SlotProgramConstantSegment).SetVector(
			ptefb.SlotSubsegmentOffsetsOffsets, vector([]uint64{0, 1 << 63, 32, 48}), 8)
	}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "constant offset 2^64-8", base: "lean", tables: func(c crafted) {
		c.tree.Child(ptefb.SlotProgramConstantSegment).SetVector(
			ptefb.SlotSubsegmentOffsetsOffsets, vector([]uint64{0, math.MaxUint64 - 7, 32, 48}), 8)
	}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "constant misaligned", base: "lean", tables: func(c crafted) {
		c.tree.Child(ptefb.SlotProgramConstantSegment).SetVector(
			ptefb.SlotSubsegmentOffsetsOffsets, vector([]uint64{0, 1, 32, 48}), 8)
	}, warn: "execution_plan[0].values[1].val.data_buffer_idx", runtime: "runs"},
	{name: "both stores of constants", base: "lean", tables: func(c crafted) {
		n := new(fb.Node)
		n.SetBytes(ptefb.SlotBufferStorage, make([]byte, 24), 16)
		c.tree.SetChildren(ptefb.SlotProgramConstantBuffer, []*fb.Node{n})
	}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "constant segment out of range", base: "lean", tables: func(c crafted) {
		c.tree.Child(ptefb.SlotProgramConstantSegment).SetScalar(
			ptefb.SlotSubsegmentOffsetsSegmentIndex, 4, 9)
	}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "inline storage absent", base: "generation-0.2.1-inline-constants.pte",
		tables: func(c crafted) {
			c.tree.Children(ptefb.SlotProgramConstantBuffer)[1].Remove(ptefb.SlotBufferStorage)
		}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "inline storage too short", base: "generation-0.2.1-inline-constants.pte",
		tables: func(c crafted) {
			c.tree.Children(ptefb.SlotProgramConstantBuffer)[1].SetBytes(ptefb.SlotBufferStorage,
				make([]byte, 23), 16)
		}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "no initial values", base: "lean",
		tables: func(c crafted) { c.tree.Remove(ptefb.SlotProgramMutableDataSegments) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "an empty list of initial values", base: "lean",
		tables: func(c crafted) {
			c.tree.SetChildren(ptefb.SlotProgramMutableDataSegments, []*fb.Node{})
		}, verify: tensor.ErrMalformed, runtime: "any"},
	{name: "initial value out of range", base: "lean",
		tables: func(c crafted) { c.of(4).SetScalar(ptefb.SlotTensorDataBufferIdx, 4, 2) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "initial values in no segment", base: "lean", tables: func(c crafted) {
		c.tree.Children(ptefb.SlotProgramMutableDataSegments)[0].SetScalar(
			ptefb.SlotSubsegmentOffsetsSegmentIndex, 4, 77)
	}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "initial value past the end", base: "lean", tables: func(c crafted) {
		c.tree.Children(ptefb.SlotProgramMutableDataSegments)[0].SetVector(
			ptefb.SlotSubsegmentOffsetsOffsets, vector([]uint64{0, 4}), 8)
	}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "no offsets of initial values", base: "lean", tables: func(c crafted) {
		c.tree.Children(ptefb.SlotProgramMutableDataSegments)[0].Remove(
			ptefb.SlotSubsegmentOffsetsOffsets)
	}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "memory 0", base: "lean", tables: func(c crafted) {
		c.of(3).Child(ptefb.SlotTensorAllocationInfo).SetScalar(
			ptefb.SlotAllocationDetailsMemoryId, 4, 0)
	}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "memory out of range", base: "lean", tables: func(c crafted) {
		c.of(3).Child(ptefb.SlotTensorAllocationInfo).SetScalar(
			ptefb.SlotAllocationDetailsMemoryId, 4, 2)
	}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "planned past its buffer", base: "lean", tables: func(c crafted) {
		c.of(3).Child(ptefb.SlotTensorAllocationInfo).SetScalar(
			ptefb.SlotAllocationDetailsMemoryOffsetLow, 4, 60)
	}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "high word", base: "lean", tables: func(c crafted) {
		c.of(3).Child(ptefb.SlotTensorAllocationInfo).SetScalar(
			ptefb.SlotAllocationDetailsMemoryOffsetHigh, 4, 1)
	}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "buffer of negative size", base: "lean",
		tables: func(c crafted) {
			setI64s(c.plan(), ptefb.SlotExecutionPlanNonConstBufferSizes, 0, -1)
		}, verify: tensor.ErrMalformed, runtime: "any"},
	{name: "buffer of 2^62", base: "lean",
		tables: func(c crafted) {
			setI64s(c.plan(), ptefb.SlotExecutionPlanNonConstBufferSizes, 0, 1<<62)
		}, verify: tensor.ErrMalformed, runtime: "any"},
	{name: "list index out of range", base: "lean",
		tables: func(c crafted) { setI32s(c.of(6), ptefb.SlotTensorListItems, 0, 99) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "list index negative", base: "lean",
		tables: func(c crafted) { setI32s(c.of(6), ptefb.SlotTensorListItems, 0, -1) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "optional list index -2", base: "lean",
		tables: func(c crafted) { setI32s(c.of(7), ptefb.SlotOptionalTensorListItems, 0, -2) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "list refers forward", base: "lean",
		tables: func(c crafted) { setI32s(c.of(6), ptefb.SlotTensorListItems, 0, 15) },
		verify: tensor.ErrMalformed, runtime: "any"},
	{name: "list of itself", base: "lean",
		tables: func(c crafted) { setI32s(c.of(6), ptefb.SlotTensorListItems, 6) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "list of a number", base: "lean",
		tables: func(c crafted) { setI32s(c.of(6), ptefb.SlotTensorListItems, 2) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "number list out of range", base: "lean",
		tables: func(c crafted) { setI64s(c.of(8), ptefb.SlotIntListItems, 99) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "number list of 2^63", base: "lean",
		tables: func(c crafted) { setI64s(c.of(8), ptefb.SlotIntListItems, math.MinInt64) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "number list of a tensor", base: "lean",
		tables: func(c crafted) { setI64s(c.of(8), ptefb.SlotIntListItems, 0) },
		verify: tensor.ErrMalformed, runtime: "runs"},
	{name: "list without items", base: "lean",
		tables: func(c crafted) { c.of(10).Remove(ptefb.SlotDoubleListItems) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "string without text", base: "lean",
		tables: func(c crafted) { c.of(9).Remove(ptefb.SlotStringStringVal) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "input out of range", base: "lean",
		tables: func(c crafted) { setI32s(c.plan(), ptefb.SlotExecutionPlanInputs, 99) },
		verify: tensor.ErrMalformed, runtime: "any"},
	{name: "output -1", base: "lean",
		tables: func(c crafted) { setI32s(c.plan(), ptefb.SlotExecutionPlanOutputs, -1) },
		verify: tensor.ErrMalformed, runtime: "any"},
	{name: "operator out of range", base: "lean",
		tables: func(c crafted) { c.call(0).SetScalar(ptefb.SlotKernelCallOpIndex, 4, 99) },
		verify: tensor.ErrMalformed, runtime: "any"},
	{name: "operator -1", base: "lean",
		tables: func(c crafted) {
			c.call(0).SetScalar(ptefb.SlotKernelCallOpIndex, 4, math.MaxUint32)
		}, verify: tensor.ErrMalformed, runtime: "any"},
	{name: "argument out of range", base: "lean",
		tables: func(c crafted) { setI32s(c.call(0), ptefb.SlotKernelCallArgs, 0, 1, 2, 3, 99) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "argument -1", base: "lean",
		tables: func(c crafted) { setI32s(c.call(0), ptefb.SlotKernelCallArgs, -1, 1, 2, 3, 3) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "no arguments", base: "lean",
		tables: func(c crafted) { c.call(0).Remove(ptefb.SlotKernelCallArgs) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "move out of range", base: "lean",
		tables: func(c crafted) { c.call(2).SetScalar(ptefb.SlotMoveCallMoveFrom, 4, 99) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "delegate out of range", base: "export-1.5.1-xnnpack.pte",
		tables: func(c crafted) { c.call(0).SetScalar(ptefb.SlotKernelCallOpIndex, 4, 9) },
		verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "jump back before the start", base: "lean",
		tables: func(c crafted) {
			c.call(3).SetScalar(ptefb.SlotJumpFalseCallDestinationInstruction, 4, math.MaxUint32)
		}, verify: tensor.ErrMalformed, runtime: "any"},
	{name: "jump beyond the end", base: "lean",
		tables: func(c crafted) {
			c.call(3).SetScalar(ptefb.SlotJumpFalseCallDestinationInstruction, 4, 6)
		}, verify: tensor.ErrMalformed, runtime: "any"},
	{name: "jump on a number", base: "lean",
		tables: func(c crafted) {
			c.call(3).SetScalar(ptefb.SlotJumpFalseCallCondValueIndex, 4, 2)
		}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "jump on a float tensor", base: "lean",
		tables: func(c crafted) {
			c.call(3).SetScalar(ptefb.SlotJumpFalseCallCondValueIndex, 4, 3)
		}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "loop without exit", base: "rich", tables: func(c crafted) {
		c.call(3).SetScalar(ptefb.SlotJumpFalseCallCondValueIndex, 4, 5)
		c.call(3).SetScalar(ptefb.SlotJumpFalseCallDestinationInstruction, 4, 3)
		c.chain().SetChildren(ptefb.SlotChainInstructions,
			[]*fb.Node{c.instruction(0), c.instruction(1), c.instruction(1), c.instruction(3)})
	}, warn: "execution_plan[0].chains[0].instructions[3]", runtime: ""},
	{name: "delegate without payload", base: "export-1.5.1-xnnpack.pte",
		tables: func(c crafted) { c.delegate().Remove(ptefb.SlotBackendDelegateProcessed) },
		verify: tensor.ErrMalformed, runtime: "dies"},
	{name: "inline payload that is not there", base: "export-1.5.1-xnnpack.pte",
		tables: func(c crafted) {
			c.delegate().Child(ptefb.SlotBackendDelegateProcessed).SetScalar(
				ptefb.SlotBackendDelegateDataReferenceLocation, 1, 0)
			c.tree.Remove(ptefb.SlotProgramBackendDelegateData)
		}, verify: tensor.ErrMalformed, runtime: "dies"},
	{name: "inline payload without data", base: "export-1.5.1-xnnpack-inline.pte",
		tables: func(c crafted) {
			c.tree.Children(ptefb.SlotProgramBackendDelegateData)[0].Remove(
				ptefb.SlotBackendDelegateInlineDataData)
		}, verify: tensor.ErrMalformed, runtime: "dies"},
	{name: "inline payload out of range", base: "export-1.5.1-xnnpack-inline.pte",
		tables: func(c crafted) {
			c.delegate().Child(ptefb.SlotBackendDelegateProcessed).SetScalar(
				ptefb.SlotBackendDelegateDataReferenceIndex, 4, 5)
		}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "delegate without id", base: "export-1.5.1-xnnpack.pte",
		tables: func(c crafted) { c.delegate().Remove(ptefb.SlotBackendDelegateId) },
		verify: tensor.ErrMalformed, runtime: "any"},
	{name: "compile spec without value", base: "rich", tables: func(c crafted) {
		c.delegate().Children(ptefb.SlotBackendDelegateCompileSpecs)[0].Remove(
			ptefb.SlotCompileSpecValue)
	}, verify: tensor.ErrMalformed, runtime: ""},
	{name: "compile spec without key", base: "rich", tables: func(c crafted) {
		c.delegate().Children(ptefb.SlotBackendDelegateCompileSpecs)[0].Remove(
			ptefb.SlotCompileSpecKey)
	}, warn: "execution_plan[0].delegates[0].compile_specs[0].key", runtime: ""},
	{name: "delegate location 2", base: "export-1.5.1-xnnpack.pte", tables: func(c crafted) {
		c.delegate().Child(ptefb.SlotBackendDelegateProcessed).SetScalar(
			ptefb.SlotBackendDelegateDataReferenceLocation, 1, 2)
	}, verify: errors.ErrUnsupported, runtime: "refuses"},
	{name: "delegate segment out of range", base: "export-1.5.1-xnnpack.pte",
		tables: func(c crafted) {
			c.delegate().Child(ptefb.SlotBackendDelegateProcessed).SetScalar(
				ptefb.SlotBackendDelegateDataReferenceIndex, 4, 99)
		}, verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "named data out of range", base: "lean", tables: func(c crafted) {
		c.tree.Children(ptefb.SlotProgramNamedData)[0].SetScalar(ptefb.SlotNamedDataSegmentIndex,
			4, 99)
	}, verify: tensor.ErrMalformed, runtime: "runs"},
	{name: "named data without key", base: "lean",
		tables: func(c crafted) {
			c.tree.Children(ptefb.SlotProgramNamedData)[0].Remove(ptefb.SlotNamedDataKey)
		}, verify: tensor.ErrMalformed, runtime: "runs"},
	{name: "duplicate key", base: "lean", tables: func(c crafted) {
		c.tree.SetChildren(ptefb.SlotProgramNamedData,
			append(c.tree.Children(ptefb.SlotProgramNamedData),
				c.tree.Children(ptefb.SlotProgramNamedData)...))
	}, warn: "named_data[1].key", runtime: "runs"},
	{name: "external without name", base: "rich", tables: func(c crafted) {
		c.of(16).Child(ptefb.SlotTensorExtraTensorInfo).Remove(
			ptefb.SlotExtraTensorInfoFullyQualifiedName)
	}, verify: tensor.ErrMalformed, runtime: ""},
	{name: "external with an empty name", base: "rich", tables: func(c crafted) {
		c.of(16).Child(ptefb.SlotTensorExtraTensorInfo).SetString(
			ptefb.SlotExtraTensorInfoFullyQualifiedName, "")
	}, verify: tensor.ErrMalformed, runtime: ""},
	{name: "one key with two layouts", base: "rich",
		tables: func(c crafted) { setI32s(c.of(17), ptefb.SlotTensorSizes, 4) },
		verify: tensor.ErrMalformed, runtime: ""},
	{name: "operator without name", base: "lean",
		tables: func(c crafted) {
			c.plan().Children(ptefb.SlotExecutionPlanOperators)[0].Remove(ptefb.SlotOperatorName)
		}, verify: tensor.ErrMalformed, runtime: "dies"},
	{name: "operator of 100 bytes", base: "lean", tables: func(c crafted) {
		c.plan().Children(ptefb.SlotExecutionPlanOperators)[0].SetString(ptefb.SlotOperatorName,
			strings.Repeat("a", 96))
	}, verify: tensor.ErrMalformed, runtime: "dies"},
	{name: "operator without overload", base: "lean", tables: func(c crafted) {
		c.plan().Children(ptefb.SlotExecutionPlanOperators)[2].Remove(ptefb.SlotOperatorOverload)
	}, warn: "execution_plan[0].operators[2].overload", runtime: "runs"},
	{name: "stack trace of another length", base: "rich", tables: func(c crafted) {
		frame := new(fb.Node).SetString(ptefb.SlotFrameName, "forward")
		list := new(fb.Node).SetChildren(ptefb.SlotFrameListItems, []*fb.Node{frame})
		c.chain().SetChildren(ptefb.SlotChainStacktrace, []*fb.Node{list})
	}, runtime: ""},
	{name: "schema version 1", base: "lean",
		tables: func(c crafted) { c.tree.SetScalar(ptefb.SlotProgramVersion, 4, 1) },
		verify: errors.ErrUnsupported, runtime: "refuses"},
	{name: "empty constants in an empty segment", base: "empty",
		bytes: segmentField(0, ptefb.SlotDataSegmentSize, 0), verify: tensor.ErrMalformed,
		runtime: "refuses"},
	{name: "name with a zero byte", base: "lean",
		tables: func(c crafted) {
			c.plan().SetString(ptefb.SlotExecutionPlanName, "forward\x00x")
		}, warn: "execution_plan[0].name", runtime: "runs"},
	{name: "name that is not UTF-8", base: "rich",
		tables: func(c crafted) { c.plan().SetString(ptefb.SlotExecutionPlanName, "forward\xff") },
		warn:   "execution_plan[0].name", runtime: ""},
}
