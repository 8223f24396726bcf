package pte

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfile/tensorfile/internal/executorch"
	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// alignments checks the options and fills in ExecuTorch's values.
func (o *WriterOptions) alignments() (segment, data int64, err error) {
	segment, data = o.SegmentAlignment, o.TensorAlignment
	if segment == 0 {
		segment = defaultSegmentAlignment
	}
	if data == 0 {
		data = defaultTensorAlignment
	}
	if segment < 1 || segment > maxAlignment || data < 1 || data > maxAlignment || data&(data-1) != 0 || o.Dedup > DedupSHA256 {
		return 0, 0, fmt.Errorf("pte: bad options: segment alignment %d, tensor alignment %d, dedup %d", segment, data, o.Dedup)
	}
	return segment, data, nil
}

// output makes the flatbuffer and lays out the payloads. It reads none of them, but for
// DedupSHA256 and inline ones.
func (b *Builder) output(opts *WriterOptions) (*output, error) {
	if opts == nil {
		opts = new(WriterOptions)
	}
	segmentAlign, tensorAlign, err := opts.alignments()
	if err != nil {
		return nil, err
	}
	if b.err != nil {
		return nil, b.err
	}
	if len(b.methods) == 0 {
		return nil, errors.New("pte: a program without methods")
	}
	e := encoder{b: b, store: store{dedup: opts.Dedup}, inline: opts.InlineDelegates,
		payload: map[place]reference{}, buffers: map[*tensorValue]uint32{}}
	if err := e.data(tensorAlign); err != nil {
		return nil, err
	}
	size, base, err := layOut(e.segments, segmentAlign)
	if err != nil {
		return nil, err
	}
	program, err := e.program()
	if err != nil {
		return nil, err
	}
	o, err := finish(program, e.segments, size, base, defaultTensorAlignment, nil)
	if err != nil {
		return nil, err
	}
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("pte: the program would not load: %w", err)
	}
	return o, nil
}

// An encoder writes the flatbuffer of a Builder's program.
type encoder struct {
	b      *Builder
	fb     fb.Builder
	store  store
	inline bool

	segments  []dataSegment
	constants []uint64 // offsets in the first segment; the first is a placeholder
	mutable   []uint64
	mutableAt int // segment of the initial values
	inlined   []tensor.Blob
	payload   map[place]reference     // by method and delegate
	named     []int                   // segments
	buffers   map[*tensorValue]uint32 // data_buffer_idx
	places    []Place                 // of the values of the method being written
}

type reference struct {
	inline bool
	index  int
}

// data decides where each payload goes: constants, initial values, delegates, named data,
// a segment each, in the order of ExecuTorch's serializer.
func (e *encoder) data(tensorAlign int64) error {
	e.segments = make([]dataSegment, 1)
	e.constants = []uint64{0}
	var mutable dataSegment
	e.mutable = []uint64{0}
	for _, m := range e.b.methods {
		for _, i := range m.outputs {
			if t := m.values[i].tensor; t != nil && t.role == RoleExternal {
				e.buffers[t] = returned
			}
		}
		for i := range m.values {
			t := m.values[i].tensor
			if t == nil || t.data == nil {
				continue
			}
			list, s, kind := &e.constants, &e.segments[0], "constant"
			if t.role == RoleState {
				list, s, kind = &e.mutable, &mutable, "state"
			}
			at, shared, err := e.store.share(t.data.Data, kind, len(*list))
			if err != nil {
				return err
			}
			e.buffers[t] = uint32(at)
			if shared {
				continue
			}
			name := m.name + "/" + strconv.Itoa(i)
			off, err := s.append(whole(name, t.data.Data), t.data.Data.Size(), max(tensorAlign, int64(t.dtype.Align())))
			if err != nil {
				return err
			}
			*list = append(*list, uint64(off))
		}
	}
	if len(e.constants) > 1 {
		e.segments[0].hold()
	}
	if len(e.mutable) > 1 {
		mutable.hold()
		e.mutableAt = len(e.segments)
		e.segments = append(e.segments, mutable)
	}
	// segment is where a payload is stored; it is made where it is not there yet.
	segment := func(name string, data tensor.Blob, alignment int64) (int, error) {
		kind, _, _ := strings.Cut(name, "/")
		at, shared, err := e.store.share(data, kind, len(e.segments))
		if err != nil {
			return 0, err
		}
		if shared {
			s := &e.segments[at]
			var ok bool
			if s.align, ok = executorch.LCM(s.align, alignment); !ok {
				return 0, fmt.Errorf("pte: alignment %d", alignment)
			}
			return at, nil
		}
		var s dataSegment
		if _, err := s.append(whole(name, data), data.Size(), alignment); err != nil {
			return 0, err
		}
		e.segments = append(e.segments, s)
		return at, nil
	}
	for mi, m := range e.b.methods {
		for di, d := range m.delegates {
			key := place{int32(mi), int32(di)}
			if e.inline || d.payload.Size() == 0 { // an empty payload stays inside, as in the exporter
				at, shared, err := e.store.share(d.payload, "inline", len(e.inlined))
				if err != nil {
					return err
				}
				if !shared {
					e.inlined = append(e.inlined, d.payload)
				}
				e.payload[key] = reference{true, at}
				continue
			}
			at, err := segment(delegateName(m.name, di), d.payload, 1)
			if err != nil {
				return err
			}
			e.payload[key] = reference{false, at}
		}
	}
	for _, n := range e.b.named {
		at, err := segment(blobPrefix+n.key, n.data, n.align)
		if err != nil {
			return err
		}
		e.named = append(e.named, at)
	}
	return nil
}

func (e *encoder) u32s(v []int32) fb.Offset {
	p := make([]byte, 4*len(v))
	for i, x := range v {
		binary.LittleEndian.PutUint32(p[4*i:], uint32(x))
	}
	return e.fb.Scalars(p, 4, 4)
}

func (e *encoder) u64s(v []uint64) fb.Offset {
	p := make([]byte, 8*len(v))
	for i, x := range v {
		binary.LittleEndian.PutUint64(p[8*i:], x)
	}
	return e.fb.Scalars(p, 8, 8)
}

// tables writes a vector of tables, each made by write.
func tables[T any](e *encoder, list []T, write func(*T) fb.Offset) fb.Offset {
	all := make([]fb.Offset, len(list))
	for i := range list {
		all[i] = write(&list[i])
	}
	return e.fb.Offsets(all)
}

func (e *encoder) program() ([]byte, error) {
	b := &e.fb
	plans := make([]fb.Offset, len(e.b.methods))
	for i, m := range e.b.methods {
		var err error
		if plans[i], err = e.method(i, m); err != nil {
			return nil, err
		}
	}
	planVector := b.Offsets(plans)
	var total int64
	for _, p := range e.inlined {
		if total += p.Size(); total < 0 || total > math.MaxInt32 {
			return nil, fmt.Errorf("pte: %w: inline payloads do not fit the 2 GiB of a flatbuffer",
				tensor.ErrLimit)
		}
	}
	inlined := make([]fb.Offset, len(e.inlined))
	for i, p := range e.inlined {
		var data bytes.Buffer // not ReadAll: the stream checks a digest
		if _, err := p.WriteTo(&data); err != nil {
			return nil, err
		}
		at := b.Scalars(data.Bytes(), 1, ptefb.AlignBackendDelegateInlineDataData)
		b.Begin()
		b.Ref(ptefb.SlotBackendDelegateInlineDataData, at)
		inlined[i] = b.End()
	}
	inlineVector := b.Offsets(inlined)
	buffers := b.Offsets(nil)
	segments := tables(e, e.segments, func(s *dataSegment) fb.Offset {
		b.Begin()
		b.Scalar(ptefb.SlotDataSegmentSize, 8, uint64(s.size), 0)
		b.Scalar(ptefb.SlotDataSegmentOffset, 8, uint64(s.off), 0)
		return b.End()
	})
	list := func(segment int, offsets []uint64) fb.Offset {
		at := e.u64s(offsets)
		b.Begin()
		b.Ref(ptefb.SlotSubsegmentOffsetsOffsets, at)
		b.Scalar(ptefb.SlotSubsegmentOffsetsSegmentIndex, 4, uint64(segment), 0)
		return b.End()
	}
	constants := list(0, e.constants)
	var mutable, named fb.Offset
	if len(e.mutable) > 1 {
		mutable = b.Offsets([]fb.Offset{list(e.mutableAt, e.mutable)})
	}
	if len(e.named) > 0 {
		i := 0
		named = tables(e, e.b.named, func(n *namedBlob) fb.Offset {
			key := b.String(n.key)
			b.Begin()
			b.Ref(ptefb.SlotNamedDataKey, key)
			b.Scalar(ptefb.SlotNamedDataSegmentIndex, 4, uint64(e.named[i]), 0)
			i++
			return b.End()
		})
	}
	b.Begin()
	b.Ref(ptefb.SlotProgramExecutionPlan, planVector)
	b.Ref(ptefb.SlotProgramConstantBuffer, buffers)
	b.Ref(ptefb.SlotProgramBackendDelegateData, inlineVector)
	b.Ref(ptefb.SlotProgramSegments, segments)
	b.Ref(ptefb.SlotProgramConstantSegment, constants)
	b.Ref(ptefb.SlotProgramMutableDataSegments, mutable)
	b.Ref(ptefb.SlotProgramNamedData, named)
	out, err := b.Finish(b.End(), "ET12")
	if errors.Is(err, fb.ErrTooLarge) {
		err = fmt.Errorf("pte: %w: %w", tensor.ErrLimit, err)
	}
	return out, err
}

func (e *encoder) method(index int, m *MethodBuilder) (fb.Offset, error) {
	b := &e.fb
	for _, l := range m.labels {
		if l.at < 0 {
			return 0, m.errorf("a label that was never marked")
		}
	}
	sizes, places, err := m.plan()
	if err != nil {
		return 0, err
	}
	e.places = places
	name := b.String(m.name)
	in, out := b.String(m.inStructure), b.String(m.outStructure)
	b.Begin()
	b.Ref(ptefb.SlotContainerMetadataEncodedInpStr, in)
	b.Ref(ptefb.SlotContainerMetadataEncodedOutStr, out)
	container := b.End()
	at := -1
	values := tables(e, m.values, func(v *value) fb.Offset {
		at++
		return e.value(v, at)
	})
	inputs, outputs := e.u32s(m.inputs), e.u32s(m.outputs)
	chains := b.Offsets([]fb.Offset{e.chain(m)})
	operators := tables(e, m.opNames, func(o *Operator) fb.Offset {
		name, overload := b.String(o.Name), b.String(o.Overload) // never absent: ExecuTorch's tools require it
		b.Begin()
		b.Ref(ptefb.SlotOperatorName, name)
		b.Ref(ptefb.SlotOperatorOverload, overload)
		return b.End()
	})
	delegates := make([]fb.Offset, len(m.delegates))
	for i := range m.delegates {
		delegates[i] = e.delegate(&m.delegates[i], e.payload[place{int32(index), int32(i)}])
	}
	delegateVector := b.Offsets(delegates)
	all := make([]uint64, len(sizes))
	for i, n := range sizes {
		all[i] = uint64(n)
	}
	buffers := e.u64s(all)
	var devices fb.Offset
	if len(m.devices) > 0 {
		var list []fb.Offset
		for i := range uint32(len(sizes)) {
			d, ok := m.devices[i]
			if !ok {
				continue
			}
			b.Begin()
			b.Scalar(ptefb.SlotNonConstBufferDeviceBufferIdx, 4, uint64(i), 0)
			b.Scalar(ptefb.SlotNonConstBufferDeviceDeviceType, 1, uint64(uint8(d.Type)), 0)
			b.Scalar(ptefb.SlotNonConstBufferDeviceDeviceIndex, 1, uint64(uint8(d.Index)), 0)
			list = append(list, b.End())
		}
		devices = b.Offsets(list)
	}
	b.Begin()
	b.Ref(ptefb.SlotExecutionPlanName, name)
	b.Ref(ptefb.SlotExecutionPlanContainerMetaType, container)
	b.Ref(ptefb.SlotExecutionPlanValues, values)
	b.Ref(ptefb.SlotExecutionPlanInputs, inputs)
	b.Ref(ptefb.SlotExecutionPlanOutputs, outputs)
	b.Ref(ptefb.SlotExecutionPlanChains, chains)
	b.Ref(ptefb.SlotExecutionPlanOperators, operators)
	b.Ref(ptefb.SlotExecutionPlanDelegates, delegateVector)
	b.Ref(ptefb.SlotExecutionPlanNonConstBufferSizes, buffers)
	b.Ref(ptefb.SlotExecutionPlanNonConstBufferDevice, devices)
	return b.End(), nil
}

func (e *encoder) value(v *value, i int) fb.Offset {
	b := &e.fb
	var at fb.Offset
	one := func(item fb.Offset) fb.Offset {
		slot, _ := itemsOf(v.kind)
		b.Begin()
		b.Ref(slot, item)
		return b.End()
	}
	number := func(slot, size int, bits uint64) fb.Offset {
		b.Begin()
		b.Scalar(slot, size, bits, 0)
		return b.End()
	}
	switch v.kind {
	case KindNull:
		b.Begin()
		at = b.End()
	case KindInt:
		at = number(ptefb.SlotIntIntVal, 8, v.bits)
	case KindBool:
		at = number(ptefb.SlotBoolBoolVal, 1, v.bits)
	case KindDouble:
		at = number(ptefb.SlotDoubleDoubleVal, 8, math.Float64bits(v.doubles[0]))
	case KindString:
		at = one(b.String(v.text))
	case KindIntList:
		all := make([]uint64, len(v.items))
		for i, x := range v.items {
			all[i] = uint64(x)
		}
		at = one(e.u64s(all))
	case KindDoubleList:
		all := make([]uint64, len(v.doubles))
		for i, x := range v.doubles {
			all[i] = math.Float64bits(x)
		}
		at = one(e.u64s(all))
	case KindBoolList:
		p := make([]byte, len(v.bools))
		for i, x := range v.bools {
			if x {
				p[i] = 1
			}
		}
		at = one(b.Scalars(p, 1, 1))
	case KindTensorList, KindOptionalTensorList:
		all := make([]int32, len(v.items))
		for i, x := range v.items {
			all[i] = int32(x)
		}
		at = one(e.u32s(all))
	case KindTensor:
		at = e.tensor(v.tensor, e.places[i])
	}
	b.Begin()
	b.Ref(ptefb.SlotEValueVal, at)
	b.Scalar(ptefb.SlotEValueValType, 1, uint64(v.kind), 0)
	return b.End()
}

func (e *encoder) tensor(t *tensorValue, place Place) fb.Offset {
	b := &e.fb
	sizes := make([]int32, len(t.shape))
	dims := make([]byte, len(t.shape))
	for i, n := range t.shape {
		sizes[i], dims[i] = int32(n), byte(i)
		if t.order != nil {
			dims[i] = byte(t.order[i])
		}
	}
	sizesAt, dimsAt := e.u32s(sizes), b.Scalars(dims, 1, 1)
	var allocation, extra fb.Offset
	if t.planned() {
		b.Begin()
		b.Scalar(ptefb.SlotAllocationDetailsMemoryOffsetHigh, 4, place.Offset>>32, 0)
		b.Scalar(ptefb.SlotAllocationDetailsMemoryOffsetLow, 4, place.Offset&math.MaxUint32, 0)
		b.Scalar(ptefb.SlotAllocationDetailsMemoryId, 4, uint64(place.Memory), 0)
		allocation = b.End()
	}
	if t.name != "" || t.role.External() || t.role == RoleState || t.device != (Device{}) {
		var name fb.Offset
		if t.name != "" {
			name = b.String(t.name)
		}
		b.Begin()
		b.Ref(ptefb.SlotExtraTensorInfoFullyQualifiedName, name)
		if t.role.External() {
			b.Scalar(ptefb.SlotExtraTensorInfoLocation, 1,
				uint64(ptefb.TensorDataLocationEXTERNAL), 0)
		}
		b.Scalar(ptefb.SlotExtraTensorInfoDeviceType, 1, uint64(uint8(t.device.Type)), 0)
		b.Scalar(ptefb.SlotExtraTensorInfoDeviceIndex, 1, uint64(uint8(t.device.Index)), 0)
		extra = b.End()
	}
	b.Begin()
	b.Ref(ptefb.SlotTensorSizes, sizesAt)
	b.Ref(ptefb.SlotTensorDimOrder, dimsAt)
	b.Scalar(ptefb.SlotTensorDataBufferIdx, 4, uint64(e.buffers[t]), 0)
	b.Ref(ptefb.SlotTensorAllocationInfo, allocation)
	b.Ref(ptefb.SlotTensorExtraTensorInfo, extra)
	b.Scalar(ptefb.SlotTensorScalarType, 1, uint64(uint8(t.scalar)), 0)
	if t.bound {
		b.Scalar(ptefb.SlotTensorShapeDynamism, 1, uint64(Bound), 0)
	}
	return b.End()
}

func (e *encoder) chain(m *MethodBuilder) fb.Offset {
	b := &e.fb
	instructions := tables(e, m.code, func(i *instruction) fb.Offset {
		var args fb.Offset
		if i.op == OpKernelCall || i.op == OpDelegateCall {
			args = e.u32s(i.args)
		}
		b.Begin()
		switch i.op {
		case OpKernelCall:
			b.Ref(ptefb.SlotKernelCallArgs, args)
			b.Scalar(ptefb.SlotKernelCallOpIndex, 4, uint64(uint32(i.index)), 0)
		case OpDelegateCall:
			b.Ref(ptefb.SlotDelegateCallArgs, args)
			b.Scalar(ptefb.SlotDelegateCallDelegateIndex, 4, uint64(uint32(i.index)), 0)
		case OpMove:
			b.Scalar(ptefb.SlotMoveCallMoveTo, 4, uint64(uint32(i.to)), 0)
			b.Scalar(ptefb.SlotMoveCallMoveFrom, 4, uint64(uint32(i.index)), 0)
		case OpJumpFalse:
			b.Scalar(ptefb.SlotJumpFalseCallDestinationInstruction, 4, uint64(uint32(i.label.at)),
				0)
			b.Scalar(ptefb.SlotJumpFalseCallCondValueIndex, 4, uint64(uint32(i.index)), 0)
		case OpFree:
			b.Scalar(ptefb.SlotFreeCallValueIndex, 4, uint64(uint32(i.index)), 0)
		}
		at := b.End()
		b.Begin()
		b.Ref(ptefb.SlotInstructionInstrArgs, at)
		b.Scalar(ptefb.SlotInstructionInstrArgsType, 1, uint64(i.op), 0)
		return b.End()
	})
	var traces fb.Offset
	if slices.ContainsFunc(m.code, func(i instruction) bool { return len(i.stack) > 0 }) {
		traces = tables(e, m.code, func(i *instruction) fb.Offset {
			frames := tables(e, i.stack, func(f *Frame) fb.Offset {
				file, name, context := b.String(f.File), b.String(f.Name), b.String(f.Context)
				b.Begin()
				b.Ref(ptefb.SlotFrameFilename, file)
				b.Scalar(ptefb.SlotFrameLineno, 4, uint64(uint32(f.Line)), 0)
				b.Ref(ptefb.SlotFrameName, name)
				b.Ref(ptefb.SlotFrameContext, context)
				return b.End()
			})
			b.Begin()
			b.Ref(ptefb.SlotFrameListItems, frames)
			return b.End()
		})
	}
	inputs, outputs := e.u32s(nil), e.u32s(nil)
	b.Begin()
	b.Ref(ptefb.SlotChainInputs, inputs)
	b.Ref(ptefb.SlotChainOutputs, outputs)
	b.Ref(ptefb.SlotChainInstructions, instructions)
	b.Ref(ptefb.SlotChainStacktrace, traces)
	return b.End()
}

func (e *encoder) delegate(d *delegate, r reference) fb.Offset {
	b := &e.fb
	id := b.String(d.id)
	specs := tables(e, d.specs, func(s *CompileSpec) fb.Offset {
		key, value := b.String(s.Key), b.Scalars(s.Value, 1, 1)
		b.Begin()
		b.Ref(ptefb.SlotCompileSpecKey, key)
		b.Ref(ptefb.SlotCompileSpecValue, value)
		return b.End()
	})
	b.Begin()
	b.Scalar(ptefb.SlotBackendDelegateDataReferenceIndex, 4, uint64(r.index), 0)
	if !r.inline {
		b.Scalar(ptefb.SlotBackendDelegateDataReferenceLocation, 1,
			uint64(ptefb.DataLocationSEGMENT), 0)
	}
	processed := b.End()
	b.Begin()
	b.Ref(ptefb.SlotBackendDelegateId, id)
	b.Ref(ptefb.SlotBackendDelegateProcessed, processed)
	b.Ref(ptefb.SlotBackendDelegateCompileSpecs, specs)
	return b.End()
}
