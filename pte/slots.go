package pte

// The positions of fields in vtables: 4 + 2 × the field's id in schema/program.fbs, whose table it is named after.
const (
	slotProgramVersion         = 4
	slotProgramPlans           = 6
	slotProgramConstantBuffer  = 8
	slotProgramInlineData      = 10
	slotProgramSegments        = 12
	slotProgramConstantSegment = 14
	slotProgramMutableData     = 16
	slotProgramNamedData       = 18

	slotPlanName        = 4
	slotPlanContainer   = 6
	slotPlanValues      = 8
	slotPlanInputs      = 10
	slotPlanOutputs     = 12
	slotPlanChains      = 14
	slotPlanOperators   = 16
	slotPlanDelegates   = 18
	slotPlanBufferSizes = 20
	slotPlanDevices     = 22

	slotUnionType = 4 // of EValue and Instruction
	slotUnion     = 6

	slotTensorScalarType    = 4
	slotTensorStorageOffset = 6
	slotTensorSizes         = 8
	slotTensorDimOrder      = 10
	slotTensorRequiresGrad  = 12
	slotTensorDataBuffer    = 14
	slotTensorAllocation    = 16
	slotTensorLayout        = 18
	slotTensorDynamism      = 20
	slotTensorExtra         = 22

	slotAllocationID   = 4
	slotAllocationLow  = 6
	slotAllocationHigh = 8

	slotExtraMutableIndex = 4
	slotExtraName         = 6
	slotExtraLocation     = 8
	slotExtraDeviceType   = 10
	slotExtraDeviceIndex  = 12

	slotItems = 4 // the only field of Int, Bool, Double, String and all lists
	slotOnly  = 4 // of Buffer and BackendDelegateInlineData

	slotOperatorName     = 4
	slotOperatorOverload = 6

	slotCallIndex = 4 // of KernelCall and DelegateCall
	slotCallArgs  = 6

	slotMoveFrom = 4
	slotMoveTo   = 6

	slotJumpCondition   = 4
	slotJumpDestination = 6

	slotFreeValue = 4

	slotChainInputs       = 4
	slotChainOutputs      = 6
	slotChainInstructions = 8
	slotChainStacktrace   = 10

	slotFrameFile    = 4
	slotFrameLine    = 6
	slotFrameName    = 8
	slotFrameContext = 10

	slotReferenceLocation = 4
	slotReferenceIndex    = 6

	slotSpecKey   = 4
	slotSpecValue = 6

	slotDelegateID        = 4
	slotDelegateProcessed = 6
	slotDelegateSpecs     = 8

	slotContainerInputs  = 4
	slotContainerOutputs = 6

	slotDeviceBuffer = 4
	slotDeviceType   = 6
	slotDeviceIndex  = 8

	slotSegmentOffset = 4
	slotSegmentSize   = 6

	slotSubsegmentIndex   = 4
	slotSubsegmentOffsets = 6

	slotNamedKey     = 4
	slotNamedSegment = 6
)
