package pte

import (
	"bytes"
	"cmp"
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
	if min(segment, data) < 1 || max(segment, data) > maxAlignment || data&(data-1) != 0 ||
		o.Dedup > DedupSHA256 {
		return 0, 0, fmt.Errorf("pte: bad options: segment alignment %d, tensor alignment %d, dedup %d",
			segment, data, o.Dedup)
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
	o, err := finish(program, e.segments, size, base, defaultTensorAlignment, nil, false)
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
	constants dataList // in the first segment
	mutable   dataList // in the second, if there are any
	inlined   []tensor.Blob
	payload   map[place]reference     // by method and delegate
	named     []int                   // segments
	buffers   map[*tensorValue]uint32 // data_buffer_idx
}

type reference struct {
	inline bool
	index  int
}

// data decides where each payload goes: constants, initial values, delegates, named data,
// a segment each, in the order of ExecuTorch's serializer.
func (e *encoder) data(tensorAlign int64) error {
	e.constants.offsets, e.mutable.offsets = []uint64{0}, []uint64{0}
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
			list := &e.constants
			if t.role == RoleState {
				list = &e.mutable
			}
			data := t.data.Data
			at, shared, err := e.store.share(data, t.role.String(), len(list.offsets))
			if err == nil && !shared {
				at, err = list.put(whole(m.name+"/"+strconv.Itoa(i), data), data.Size(),
					max(tensorAlign, int64(t.dtype.Align())))
			}
			if err != nil {
				return err
			}
			e.buffers[t] = uint32(at)
		}
	}
	e.constants.hold()
	e.mutable.hold()
	e.segments = []dataSegment{e.constants.data}
	if len(e.mutable.offsets) > 1 {
		e.segments = append(e.segments, e.mutable.data)
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
	p := make([]byte, 0, 4*len(v))
	for _, x := range v {
		p = binary.LittleEndian.AppendUint32(p, uint32(x))
	}
	return e.fb.Scalars(p, 4, 4)
}

func (e *encoder) u64s(v []uint64) fb.Offset {
	p := make([]byte, 0, 8*len(v))
	for _, x := range v {
		p = binary.LittleEndian.AppendUint64(p, x)
	}
	return e.fb.Scalars(p, 8, 8)
}

// tables writes a vector of tables, each made by write.
func tables[T any](e *encoder, list []T, write func(int, *T) fb.Offset) fb.Offset {
	all := make([]fb.Offset, len(list))
	for i := range list {
		all[i] = write(i, &list[i])
	}
	return e.fb.Offsets(all)
}

func (e *encoder) program() ([]byte, error) {
	b := &e.fb
	var failed error
	plans := tables(e, e.b.methods, func(i int, m **MethodBuilder) fb.Offset {
		at, err := e.method(i, *m)
		failed = cmp.Or(failed, err)
		return at
	})
	var total int64
	for _, p := range e.inlined {
		if total += p.Size(); total < 0 || total > math.MaxInt32 {
			return nil, fmt.Errorf("pte: %w: inline payloads do not fit the 2 GiB of a flatbuffer",
				tensor.ErrLimit)
		}
	}
	inlined := tables(e, e.inlined, func(_ int, p *tensor.Blob) fb.Offset {
		var data bytes.Buffer // not ReadAll: the stream checks a digest
		_, err := p.WriteTo(&data)
		failed = cmp.Or(failed, err)
		return b.Table(fb.Ref(ptefb.SlotBackendDelegateInlineDataData,
			b.Scalars(data.Bytes(), 1, ptefb.AlignBackendDelegateInlineDataData)))
	})
	if failed != nil {
		return nil, failed
	}
	buffers := b.Offsets(nil)
	segments := tables(e, e.segments, func(_ int, s *dataSegment) fb.Offset {
		return b.Table(fb.Number(ptefb.SlotDataSegmentSize, 8, uint64(s.size)),
			fb.Number(ptefb.SlotDataSegmentOffset, 8, uint64(s.off)))
	})
	list := func(segment int, offsets []uint64) fb.Offset {
		return b.Table(fb.Ref(ptefb.SlotSubsegmentOffsetsOffsets, e.u64s(offsets)),
			fb.Number(ptefb.SlotSubsegmentOffsetsSegmentIndex, 4, uint64(segment)))
	}
	constants := list(0, e.constants.offsets)
	var mutable, named fb.Offset
	if len(e.mutable.offsets) > 1 {
		mutable = b.Offsets([]fb.Offset{list(1, e.mutable.offsets)})
	}
	if len(e.named) > 0 {
		named = tables(e, e.b.named, func(i int, n *namedBlob) fb.Offset {
			return b.Table(fb.Ref(ptefb.SlotNamedDataKey, b.String(n.key)),
				fb.Number(ptefb.SlotNamedDataSegmentIndex, 4, uint64(e.named[i])))
		})
	}
	out, err := b.Finish(b.Table(
		fb.Ref(ptefb.SlotProgramExecutionPlan, plans),
		fb.Ref(ptefb.SlotProgramConstantBuffer, buffers),
		fb.Ref(ptefb.SlotProgramBackendDelegateData, inlined),
		fb.Ref(ptefb.SlotProgramSegments, segments),
		fb.Ref(ptefb.SlotProgramConstantSegment, constants),
		fb.Ref(ptefb.SlotProgramMutableDataSegments, mutable),
		fb.Ref(ptefb.SlotProgramNamedData, named)), "ET12")
	return out, tooLarge(err)
}

// tooLarge makes a flatbuffer of more than 2 GiB a limit.
func tooLarge(err error) error {
	if errors.Is(err, fb.ErrTooLarge) {
		return fmt.Errorf("pte: %w: %w", tensor.ErrLimit, err)
	}
	return err
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
	name := b.String(m.name)
	in, out := b.String(m.inStructure), b.String(m.outStructure)
	container := b.Table(fb.Ref(ptefb.SlotContainerMetadataEncodedInpStr, in),
		fb.Ref(ptefb.SlotContainerMetadataEncodedOutStr, out))
	values := tables(e, m.values, func(i int, v *value) fb.Offset {
		at := e.value(v, places[i])
		return b.Table(fb.Ref(ptefb.SlotEValueVal, at),
			fb.Number(ptefb.SlotEValueValType, 1, uint64(v.kind)))
	})
	inputs, outputs := e.u32s(m.inputs), e.u32s(m.outputs)
	chains := b.Offsets([]fb.Offset{e.chain(m)})
	operators := tables(e, m.opNames, func(_ int, o *Operator) fb.Offset {
		// ExecuTorch's tools require an overload, if an empty one.
		name, overload := b.String(o.Name), b.String(o.Overload)
		return b.Table(fb.Ref(ptefb.SlotOperatorName, name),
			fb.Ref(ptefb.SlotOperatorOverload, overload))
	})
	delegates := tables(e, m.delegates, func(i int, d *delegate) fb.Offset {
		return e.delegate(d, e.payload[place{int32(index), int32(i)}])
	})
	buffers := e.u64s(convert(sizes, func(n int64) uint64 { return uint64(n) }))
	var devices []fb.Offset
	for i := range sizes {
		if d, ok := m.devices[uint32(i)]; ok {
			devices = append(devices, b.Table(
				fb.Number(ptefb.SlotNonConstBufferDeviceBufferIdx, 4, uint64(i)),
				fb.Number(ptefb.SlotNonConstBufferDeviceDeviceType, 1, uint64(uint8(d.Type))),
				fb.Number(ptefb.SlotNonConstBufferDeviceDeviceIndex, 1, uint64(uint8(d.Index)))))
		}
	}
	var deviceVector fb.Offset
	if len(m.devices) > 0 {
		deviceVector = b.Offsets(devices)
	}
	return b.Table(
		fb.Ref(ptefb.SlotExecutionPlanName, name),
		fb.Ref(ptefb.SlotExecutionPlanContainerMetaType, container),
		fb.Ref(ptefb.SlotExecutionPlanValues, values),
		fb.Ref(ptefb.SlotExecutionPlanInputs, inputs),
		fb.Ref(ptefb.SlotExecutionPlanOutputs, outputs),
		fb.Ref(ptefb.SlotExecutionPlanChains, chains),
		fb.Ref(ptefb.SlotExecutionPlanOperators, operators),
		fb.Ref(ptefb.SlotExecutionPlanDelegates, delegates),
		fb.Ref(ptefb.SlotExecutionPlanNonConstBufferSizes, buffers),
		fb.Ref(ptefb.SlotExecutionPlanNonConstBufferDevice, deviceVector)), nil
}

// value writes the member of the union of a value.
func (e *encoder) value(v *value, place Place) fb.Offset {
	slot, _ := itemsOf(v.kind)
	var items fb.Offset
	switch v.kind {
	case KindNull:
		return e.fb.Table()
	case KindInt:
		return e.fb.Table(fb.Number(ptefb.SlotIntIntVal, 8, v.bits))
	case KindBool:
		return e.fb.Table(fb.Number(ptefb.SlotBoolBoolVal, 1, v.bits))
	case KindDouble:
		return e.fb.Table(fb.Number(ptefb.SlotDoubleDoubleVal, 8, math.Float64bits(v.doubles[0])))
	case KindTensor:
		return e.tensor(v.tensor, place)
	case KindString:
		items = e.fb.String(v.text)
	case KindIntList:
		items = e.u64s(convert(v.items, func(x int) uint64 { return uint64(x) }))
	case KindDoubleList:
		items = e.u64s(convert(v.doubles, math.Float64bits))
	case KindBoolList:
		items = e.fb.Scalars(convert(v.bools, bit[byte]), 1, 1)
	case KindTensorList, KindOptionalTensorList:
		items = e.u32s(convert(v.items, func(x int) int32 { return int32(x) }))
	}
	return e.fb.Table(fb.Ref(slot, items))
}

func convert[A, B any](list []A, to func(A) B) []B {
	all := make([]B, len(list))
	for i, x := range list {
		all[i] = to(x)
	}
	return all
}

func bit[T byte | uint64](b bool) T {
	if b {
		return 1
	}
	return 0
}

// layoutOf returns a shape and an order in the file's types.
func layoutOf(s tensor.Shape, o tensor.Order) (sizes []int32, dims []byte) {
	dims = make([]byte, len(s))
	for i := range dims {
		dims[i] = byte(i)
		if o != nil {
			dims[i] = byte(o[i])
		}
	}
	return convert(s, func(n int64) int32 { return int32(n) }), dims
}

func (e *encoder) tensor(t *tensorValue, place Place) fb.Offset {
	b := &e.fb
	sizes, dims := layoutOf(t.shape, t.order)
	sizesAt, dimsAt := e.u32s(sizes), b.Scalars(dims, 1, 1)
	var allocation, extra, name fb.Offset
	if t.planned() {
		allocation = b.Table(
			fb.Number(ptefb.SlotAllocationDetailsMemoryOffsetHigh, 4, place.Offset>>32),
			fb.Number(ptefb.SlotAllocationDetailsMemoryOffsetLow, 4, place.Offset&math.MaxUint32),
			fb.Number(ptefb.SlotAllocationDetailsMemoryId, 4, uint64(place.Memory)))
	}
	var location ptefb.TensorDataLocation
	if t.role.External() {
		location = ptefb.TensorDataLocationEXTERNAL
	}
	if t.name != "" || t.role.External() || t.role == RoleState || t.device != (Device{}) {
		if t.name != "" {
			name = b.String(t.name)
		}
		extra = b.Table(fb.Ref(ptefb.SlotExtraTensorInfoFullyQualifiedName, name),
			fb.Number(ptefb.SlotExtraTensorInfoLocation, 1, uint64(location)),
			fb.Number(ptefb.SlotExtraTensorInfoDeviceType, 1, uint64(uint8(t.device.Type))),
			fb.Number(ptefb.SlotExtraTensorInfoDeviceIndex, 1, uint64(uint8(t.device.Index))))
	}
	return b.Table(
		fb.Ref(ptefb.SlotTensorSizes, sizesAt),
		fb.Ref(ptefb.SlotTensorDimOrder, dimsAt),
		fb.Number(ptefb.SlotTensorDataBufferIdx, 4, uint64(e.buffers[t])),
		fb.Ref(ptefb.SlotTensorAllocationInfo, allocation),
		fb.Ref(ptefb.SlotTensorExtraTensorInfo, extra),
		fb.Number(ptefb.SlotTensorScalarType, 1, uint64(uint8(t.scalar))),
		fb.Number(ptefb.SlotTensorShapeDynamism, 1, uint64(t.dynamism)))
}

func (e *encoder) chain(m *MethodBuilder) fb.Offset {
	b := &e.fb
	number := func(slot int, x int32) fb.Value { return fb.Number(slot, 4, uint64(uint32(x))) }
	instructions := tables(e, m.code, func(_ int, i *instruction) fb.Offset {
		var at fb.Offset
		switch i.op {
		case OpKernelCall:
			at = b.Table(fb.Ref(ptefb.SlotKernelCallArgs, e.u32s(i.args)),
				number(ptefb.SlotKernelCallOpIndex, i.index))
		case OpDelegateCall:
			at = b.Table(fb.Ref(ptefb.SlotDelegateCallArgs, e.u32s(i.args)),
				number(ptefb.SlotDelegateCallDelegateIndex, i.index))
		case OpMove:
			at = b.Table(number(ptefb.SlotMoveCallMoveTo, i.to),
				number(ptefb.SlotMoveCallMoveFrom, i.index))
		case OpJumpFalse:
			at = b.Table(number(ptefb.SlotJumpFalseCallDestinationInstruction, i.label.at),
				number(ptefb.SlotJumpFalseCallCondValueIndex, i.index))
		case OpFree:
			at = b.Table(number(ptefb.SlotFreeCallValueIndex, i.index))
		}
		return b.Table(fb.Ref(ptefb.SlotInstructionInstrArgs, at),
			fb.Number(ptefb.SlotInstructionInstrArgsType, 1, uint64(i.op)))
	})
	var traces fb.Offset
	if slices.ContainsFunc(m.code, func(i instruction) bool { return len(i.stack) > 0 }) {
		traces = tables(e, m.code, func(_ int, i *instruction) fb.Offset {
			return b.Table(fb.Ref(ptefb.SlotFrameListItems, tables(e, i.stack, e.frame)))
		})
	}
	inputs, outputs := e.u32s(nil), e.u32s(nil)
	return b.Table(
		fb.Ref(ptefb.SlotChainInputs, inputs),
		fb.Ref(ptefb.SlotChainOutputs, outputs),
		fb.Ref(ptefb.SlotChainInstructions, instructions),
		fb.Ref(ptefb.SlotChainStacktrace, traces))
}

func (e *encoder) frame(_ int, f *Frame) fb.Offset {
	file, name, context := e.fb.String(f.File), e.fb.String(f.Name), e.fb.String(f.Context)
	return e.fb.Table(fb.Ref(ptefb.SlotFrameFilename, file),
		fb.Number(ptefb.SlotFrameLineno, 4, uint64(uint32(f.Line))),
		fb.Ref(ptefb.SlotFrameName, name),
		fb.Ref(ptefb.SlotFrameContext, context))
}

func (e *encoder) delegate(d *delegate, r reference) fb.Offset {
	b := &e.fb
	id := b.String(d.id)
	specs := tables(e, d.specs, func(_ int, s *CompileSpec) fb.Offset {
		key, value := b.String(s.Key), b.Scalars(s.Value, 1, 1)
		return b.Table(fb.Ref(ptefb.SlotCompileSpecKey, key), fb.Ref(ptefb.SlotCompileSpecValue, value))
	})
	location := ptefb.DataLocationSEGMENT
	if r.inline {
		location = ptefb.DataLocationINLINE
	}
	processed := b.Table(
		fb.Number(ptefb.SlotBackendDelegateDataReferenceIndex, 4, uint64(r.index)),
		fb.Number(ptefb.SlotBackendDelegateDataReferenceLocation, 1, uint64(location)))
	return b.Table(
		fb.Ref(ptefb.SlotBackendDelegateId, id),
		fb.Ref(ptefb.SlotBackendDelegateProcessed, processed),
		fb.Ref(ptefb.SlotBackendDelegateCompileSpecs, specs))
}
