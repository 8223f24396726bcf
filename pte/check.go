package pte

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// Bounds of the runtime that are in no schema.
const (
	maxRank         = 16
	maxOperatorName = 99        // bytes of name.overload
	maxTables       = 1_000_000 // visits of its FlatBuffers verifier
	maxBuffer       = 1 << 56   // no machine has such a memory plan; 2⁴⁸ is in the exporter's own tests
)

// copyIndexOperator is the name of the kernel that writes a tensor into another one at an index.
const copyIndexOperator = "executorch_prim::et_copy_index"

// A checker visits every table of a program once, when it is opened. It notes what the runtime would not load or run, and
// refuses only what asks for too much. It allocates for findings, and for what must be compared with each other: names and
// segments.
//
// Values and instructions are verified by the walk, as it comes to them: what is read of them here before that must go
// through a walker, and every field that leads to something must be looked at.
type checker struct {
	r    *Reader
	walk *fb.Walk
	out  *tensor.FindingList

	m        Method // the method being looked at, and parts of it
	values   fb.Objects
	buffers  []byte
	ops      fb.Objects
	looping  []int   // chains in which a jump goes back
	copies   int     // which operator is et_copy_index, -1 for none
	counts   []int   // of arguments of the operators, 0 where not known
	budget   int64   // of bytes to be shown
	stored   []place // tensors that Reader.Tensors yields
	tables   int     // visited so far, as the runtime's verifier counts
	newer    uint64  // tables of a newer schema that were seen, a bit each
	external map[string]fb.Object
	chain    int // of the instruction that is being looked at
	index    int // of the value or instruction
	slots    [64]uint8

	// Where the loops over values and instructions are.
	evalue, pointee, allocation, extra, step fb.Walker
	kinds                                    [numKinds]fb.Walker
	steps                                    [numOpcodes]fb.Walker
}

// valueField is the path of a field of the value that is being looked at. It is only put together where something is
// wrong.
func (c *checker) valueField(name string) string {
	return c.m.field("values[%d].val.%s", c.index, name)
}

// stepField is that of a field of the instruction.
func (c *checker) stepField(name string) string {
	return c.m.field("chains[%d].instructions[%d].%s", c.chain, c.index, name)
}

func (c *checker) error(class error, off int64, field, format string, args ...any) {
	if c.out.Full() {
		return
	}
	c.out.Error(fail(class, c.r.at+off, field, format, args...))
}

// bad notes something that the runtime does not load or run.
func (c *checker) bad(off int64, field, format string, args ...any) {
	c.error(tensor.ErrMalformed, off, field, format, args...)
}

func (c *checker) warn(off int64, field, format string, args ...any) {
	c.out.Warn(malformed(c.r.at+off, field, format, args...))
}

// see counts a table and looks for fields that the schema does not know.
func (c *checker) see(t fb.Object, table int) {
	c.tables++
	if t.Slots() > int(c.slots[table]) {
		c.unknown(t, table)
	}
}

// seek moves a walker to a table, and does what see does.
func (c *checker) seek(at *fb.Walker, pos uint32, table int) {
	c.tables++
	if !at.Seek(pos) {
		c.load(at, table)
	}
}

func (c *checker) load(at *fb.Walker, table int) {
	if at.Load(); at.Slots() > int(c.slots[table]) {
		c.unknown(at.Object(), table)
	}
}

// unknown notes a table of a newer schema; one finding for each type is enough.
func (c *checker) unknown(t fb.Object, table int) {
	if c.newer&(1<<table) != 0 {
		return
	}
	for i := int(c.slots[table]); i < t.Slots(); i++ {
		if t.Has(4 + 2*i) {
			c.newer |= 1 << table
			c.warn(t.Pos(), ptefb.Schema.Tables[table].Name, "has fields of a newer schema, which are not shown and keep the program from being rebuilt")
			return
		}
	}
}

// name looks at a string that the runtime compares with C strings.
func (c *checker) name(b []byte, off int64, field string) {
	if bytes.IndexByte(b, 0) >= 0 {
		c.warn(off, field, "%s has a zero byte, where the runtime cuts it", tensor.Quote(string(b)))
	}
	if !utf8.Valid(b) {
		c.warn(off, field, "%s is not UTF-8", tensor.Quote(string(b)))
	}
}

func (c *checker) program() error {
	r := c.r
	c.budget = 64*int64(len(r.buf)) + 1<<20
	c.evalue, c.pointee = c.walk.Walker(ptefb.TableEValue), c.walk.Walker(ptefb.TableEValue)
	c.allocation, c.extra = c.walk.Walker(ptefb.TableAllocationDetails), c.walk.Walker(ptefb.TableExtraTensorInfo)
	c.step = c.walk.Walker(ptefb.TableInstruction)
	for i := range c.kinds {
		c.kinds[i] = c.walk.Walker(kindTables[i])
	}
	for i := range c.steps {
		c.steps[i] = c.walk.Walker(opcodeTables[i])
	}
	for i := range ptefb.Schema.Tables {
		if f := ptefb.Schema.Tables[i].Fields; len(f) > 0 {
			c.slots[i] = uint8(f[len(f)-1].Slot-4)/2 + 1
		}
	}
	c.see(r.root, ptefb.TableProgram)
	if v := r.root.Uint32(slotProgramVersion, 0); v > 0 {
		c.error(errors.ErrUnsupported, r.root.At(slotProgramVersion), "version", "%d: the runtime loads none above 0 since ExecuTorch 1.5.1", v)
	}
	if r.header.Length > 32 {
		c.warn(12, "extended_header.length", "%d bytes are more than the 32 of the newest known version", r.header.Length)
	}
	c.data()
	c.segments()
	c.named()
	plans := r.root.Objects(slotProgramPlans)
	if !plans.Present() {
		c.bad(r.root.Pos(), "execution_plan", "absent")
	}
	names := make(map[string]int)
	for i := range plans.Len() {
		c.m = Method{r, plans.At(i), i}
		c.see(c.m.t, ptefb.TableExecutionPlan)
		before := len(c.stored)
		if err := c.allValues(); err != nil {
			return err
		}
		if err := c.shown(len(c.stored) - before); err != nil {
			return err
		}
		if c.walk.Failed() {
			return nil
		}
		if c.out.Full() {
			c.walk.Fail() // unseen is unverified
			continue      // what is wrong is told; what is there is still counted
		}
		if b, ok := c.m.t.Bytes(slotPlanName, 1); ok {
			c.name(b, c.m.t.At(slotPlanName), c.m.field("name"))
			if first, dup := names[string(b)]; dup {
				c.warn(c.m.t.At(slotPlanName), c.m.field("name"), "%s is also the name of execution_plan[%d], which the runtime takes", tensor.Quote(string(b)), first)
			} else {
				names[string(b)] = i
			}
		} else {
			c.bad(c.m.t.Pos(), c.m.field("name"), "absent")
		}
		c.method()
	}
	if c.tables > c.walk.Budget() {
		c.walk.Fail()
	}
	if c.tables > maxTables {
		c.warn(0, "", "%d tables, but a runtime that verifies stops at %d", c.tables, maxTables)
	}
	return nil
}

// data looks at where constants and initial values are.
func (c *checker) data() {
	r := c.r
	inline := r.root.Objects(slotProgramConstantBuffer)
	c.tables += inline.Len() + r.root.Objects(slotProgramInlineData).Len()
	cs := r.root.Child(slotProgramConstantSegment)
	var offsets []byte
	if cs.Present() {
		c.see(cs, ptefb.TableSubsegmentOffsets)
		offsets, _ = cs.Bytes(slotSubsegmentOffsets, 8)
	}
	switch {
	case len(offsets) == 0:
		c.warn(r.root.At(slotProgramConstantSegment), "constant_segment.offsets", "absent or empty: the deprecated layout, which ExecuTorch's builds since 2025 refuse")
	case len(offsets) > 8 && inline.Len() > 0:
		c.bad(r.root.At(slotProgramConstantBuffer), "constant_buffer", "%d constants inside the flatbuffer, and %d in a segment", inline.Len(), len(offsets)/8-1)
	}
	if len(offsets) > 8 {
		c.offsets(cs, offsets, "constant_segment")
	}
	mutable := r.root.Objects(slotProgramMutableData)
	for i := range mutable.Len() {
		t := mutable.At(i)
		c.see(t, ptefb.TableSubsegmentOffsets)
		field := fmt.Sprintf("mutable_data_segments[%d]", i)
		if i == 1 {
			c.warn(t.Pos(), field, "the runtime only looks at the first")
		}
		b, ok := t.Bytes(slotSubsegmentOffsets, 8)
		if !ok {
			c.bad(t.Pos(), field+".offsets", "absent")
			continue
		}
		if len(b) > 8 {
			c.offsets(t, b, field)
		}
	}
}

// offsets looks at a list of starts in a segment. Their order does not matter.
func (c *checker) offsets(t fb.Object, offsets []byte, field string) {
	n := c.r.numSegments()
	i := t.Uint32(slotSubsegmentIndex, 0)
	if int64(i) >= int64(n) {
		c.bad(t.At(slotSubsegmentIndex), field+".segment_index", "%d of %d segments", i, n)
		return
	}
	_, size := c.r.segment(int(i))
	if size == 0 {
		c.bad(t.Pos(), field, "%d tensors in an empty segment, where the runtime finds none, not even without elements", len(offsets)/8-1)
	}
	for k := 1; k < len(offsets)/8; k++ {
		if o := u64s(offsets, k); o > uint64(size) {
			c.bad(t.DataAt(slotSubsegmentOffsets)+8*int64(k), fmt.Sprintf("%s.offsets[%d]", field, k), "%d is beyond a segment of %d bytes", o, size)
		}
	}
}

func (c *checker) segments() {
	r := c.r
	v := r.root.Objects(slotProgramSegments)
	end, sorted := int64(0), true
	for i := range v.Len() {
		c.see(v.At(i), ptefb.TableDataSegment)
		if off, size := r.segment(i); size > 0 {
			sorted = sorted && off >= end
			end = max(end, off+size)
		}
	}
	if !sorted {
		c.disorder()
	}
	if h := r.header; h.Length > 0 {
		declared := r.at + max(h.ProgramSize, h.SegmentBase+h.SegmentDataSize)
		if end = max(end, declared); r.size > end {
			c.warn(end-r.at, "", "%d bytes behind the end of the program", r.size-end)
		}
	}
}

// disorder says which segments are not where the one before ends.
func (c *checker) disorder() {
	type span struct {
		off, size int64
		i         int
	}
	var all []span
	v := c.r.root.Objects(slotProgramSegments)
	for i := range v.Len() {
		off, size := c.r.segment(i)
		if size == 0 {
			continue
		}
		if n := len(all); n > 0 && off < all[n-1].off {
			c.warn(v.At(i).Pos(), fmt.Sprintf("segments[%d]", i), "lies before segments[%d]", all[n-1].i)
		}
		all = append(all, span{off, size, i})
	}
	slices.SortFunc(all, func(a, b span) int {
		if a.off != b.off {
			return int(min(max(a.off-b.off, -1), 1))
		}
		return a.i - b.i
	})
	for k := 1; k < len(all); k++ {
		if a, b := all[k-1], all[k]; b.off < a.off+a.size {
			c.warn(v.At(b.i).Pos(), fmt.Sprintf("segments[%d]", b.i), "overlaps segments[%d]", a.i)
			if a.off+a.size > b.off+b.size {
				all[k] = a // whatever follows may overlap the longer one
			}
		}
	}
}

func (c *checker) named() {
	r := c.r
	v := r.root.Objects(slotProgramNamedData)
	if v.Present() && !r.root.Objects(slotProgramSegments).Present() {
		c.bad(r.root.At(slotProgramNamedData), "named_data", "without segments")
	}
	keys := make(map[string]int)
	for i := range v.Len() {
		t := v.At(i)
		c.see(t, ptefb.TableNamedData)
		b, ok := t.Bytes(slotNamedKey, 1)
		if !ok {
			c.bad(t.Pos(), fmt.Sprintf("named_data[%d].key", i), "absent")
		} else if first, dup := keys[string(b)]; dup {
			c.warn(t.At(slotNamedKey), fmt.Sprintf("named_data[%d].key", i), "%s is also the key of named_data[%d], which the runtime takes", tensor.Quote(string(b)), first)
		} else {
			keys[string(b)] = i
			c.name(b, t.At(slotNamedKey), fmt.Sprintf("named_data[%d].key", i))
		}
		if s := t.Uint32(slotNamedSegment, 0); int64(s) >= int64(r.numSegments()) {
			c.bad(t.At(slotNamedSegment), fmt.Sprintf("named_data[%d].segment_index", i), "%d of %d segments", s, r.numSegments())
		} else if r.outside(s) {
			c.bad(t.At(slotNamedSegment), fmt.Sprintf("named_data[%d].segment_index", i), "segment %d starts beyond the file", s)
		}
	}
}

// shown refuses programs that would make a listing much larger than the file: each tensor without a name, n of them here,
// and each delegate carry the name of their method.
func (c *checker) shown(n int) error {
	r := c.r
	name, _ := c.m.t.Bytes(slotPlanName, 1)
	if int64(len(name)) > r.limits.MaxName {
		return fail(tensor.ErrLimit, r.at+c.m.t.At(slotPlanName), c.m.field("name"), "%d bytes are more than the limit of %d", len(name), r.limits.MaxName)
	}
	if c.budget -= (int64(len(name)) + 16) * int64(n+c.m.t.Objects(slotPlanDelegates).Len()); c.budget < 0 {
		return fail(tensor.ErrLimit, r.at+c.m.t.At(slotPlanName), c.m.field("name"), "%d bytes would be shown too often", len(name))
	}
	return nil
}

func (c *checker) method() {
	t := c.m.t
	for _, f := range [...]struct {
		slot int
		name string
	}{
		{slotPlanValues, "values"}, {slotPlanInputs, "inputs"}, {slotPlanOutputs, "outputs"}, {slotPlanChains, "chains"},
		{slotPlanDelegates, "delegates"}, {slotPlanBufferSizes, "non_const_buffer_sizes"},
	} {
		if !t.Has(f.slot) {
			c.bad(t.Pos(), c.m.field("%s", f.name), "absent")
		}
	}
	if s := t.Child(slotPlanContainer); s.Present() {
		c.see(s, ptefb.TableContainerMetadata)
	}
	c.indices(slotPlanInputs, "inputs")
	c.indices(slotPlanOutputs, "outputs")
	c.operators()
	c.delegates()
	c.chains()
}

// indices looks at inputs or outputs: the runtime ends the process for one out of range.
func (c *checker) indices(slot int, name string) {
	b, _ := c.m.t.Bytes(slot, 4)
	for i := range len(b) / 4 {
		if v := u32s(b, i); int64(v) >= int64(c.values.Len()) {
			c.bad(c.m.t.DataAt(slot)+4*int64(i), c.m.field("%s[%d]", name, i), "%d of %d values", int32(v), c.values.Len())
		}
	}
}

func (c *checker) memory() {
	c.buffers, _ = c.m.t.Bytes(slotPlanBufferSizes, 8)
	var total int64
	for i := 1; i < len(c.buffers)/8; i++ {
		n := int64(u64s(c.buffers, i))
		sum, ok := align.Add(total, n)
		if !ok || n > maxBuffer {
			c.bad(c.m.t.DataAt(slotPlanBufferSizes)+8*int64(i), c.m.field("non_const_buffer_sizes[%d]", i), "%d bytes", n)
			continue
		}
		total = sum
	}
	devices := c.m.t.Objects(slotPlanDevices)
	for i := range devices.Len() {
		d := devices.At(i)
		c.see(d, ptefb.TableNonConstBufferDevice)
		if k := d.Uint32(slotDeviceBuffer, 0); int64(k) >= int64(len(c.buffers)/8) {
			c.warn(d.Pos(), c.m.field("non_const_buffer_device[%d].buffer_idx", i), "%d of %d buffers", int32(k), len(c.buffers)/8)
		}
		if x := d.Uint8(slotDeviceType, 0); x > uint8(ptefb.DeviceTypeCUDA) {
			c.warn(d.Pos(), c.m.field("non_const_buffer_device[%d].device_type", i), "unknown device %d", x)
		}
	}
}

// kind is that of value i, which may come later.
func (c *checker) kind(i int64) Kind {
	if p := &c.pointee; !p.Seek(c.walk.Pos(c.values, int(i))) {
		p.Load()
	}
	return Kind(c.pointee.Uint8(slotUnionType, 0))
}

// allValues is the one loop that always runs to its end: it also counts what there is.
func (c *checker) allValues() error {
	c.values = c.m.values()
	c.memory()
	if c.tables+c.values.Len() > c.walk.Budget() {
		c.walk.Fail()
		return nil
	}
	for i := range c.values.Len() {
		e := &c.evalue
		if c.tables++; !e.Seek(c.walk.Pos(c.values, i)) { // seek by hand, here and below: these loops are long
			c.load(e, ptefb.TableEValue)
		}
		k, pos := Kind(e.Uint8(slotUnionType, 0)), e.Child(slotUnion)
		switch {
		case k == KindNone:
			if pos != 0 { // which no verifier accepts
				c.walk.Fail()
			}
			c.bad(e.Pos(), c.m.field("values[%d].val_type", i), "NONE")
			continue
		case k >= numKinds:
			c.error(errors.ErrUnsupported, e.At(slotUnionType), c.m.field("values[%d].val_type", i), "%v", k)
			continue // the verifier has not seen what is there
		case pos == 0:
			if k != KindNull {
				c.bad(e.Pos(), c.m.field("values[%d].val", i), "a %v without a value", k)
			}
			continue
		}
		t := &c.kinds[k]
		if c.tables++; !t.Seek(pos) {
			c.load(t, kindTables[k])
		}
		switch k {
		case KindTensor:
			sizes, has := t.Bytes(slotTensorSizes, 4)
			if int64(len(sizes)/4) > c.r.limits.MaxRank {
				return fail(tensor.ErrLimit, c.r.at+t.At(slotTensorSizes), c.m.field("values[%d].val.sizes", i), "%d dimensions are more than the limit of %d", len(sizes)/4, c.r.limits.MaxRank)
			}
			if c.tensor(i, t, sizes, has) {
				if int64(len(c.stored)) >= c.r.limits.MaxTensors {
					return fail(tensor.ErrLimit, c.r.at+e.Pos(), c.m.field("values[%d]", i), "more tensors than the limit of %d", c.r.limits.MaxTensors)
				}
				c.stored = append(c.stored, place{int32(c.m.index), int32(i)})
			}
		case KindString:
			_, ok := t.String(slotItems)
			c.items(i, k, t, ok)
		case KindDoubleList:
			_, ok := t.Bytes(slotItems, 8)
			c.items(i, k, t, ok)
		case KindBoolList:
			_, ok := t.Bytes(slotItems, 1)
			c.items(i, k, t, ok)
		case KindIntList:
			b, ok := t.Bytes(slotItems, 8)
			c.items(i, k, t, ok)
			c.list(i, k, t, b, 8)
		case KindTensorList, KindOptionalTensorList:
			b, ok := t.Bytes(slotItems, 4)
			c.items(i, k, t, ok)
			c.list(i, k, t, b, 4)
		}
	}
	return nil
}

// items notes a value that must have items and has none.
func (c *checker) items(i int, k Kind, t *fb.Walker, ok bool) {
	if !ok {
		c.bad(t.Pos(), c.m.field("values[%d].val", i), "a %v without items", k)
	}
}

// kindTables are the tables of the union's members.
var kindTables = [numKinds]int{
	KindNull: ptefb.TableNull, KindInt: ptefb.TableInt, KindBool: ptefb.TableBool, KindDouble: ptefb.TableDouble, KindTensor: ptefb.TableTensor,
	KindString: ptefb.TableString, KindIntList: ptefb.TableIntList, KindDoubleList: ptefb.TableDoubleList, KindBoolList: ptefb.TableBoolList,
	KindTensorList: ptefb.TableTensorList, KindOptionalTensorList: ptefb.TableOptionalTensorList,
}

// list looks at the values that value i names. The runtime makes values in order, so that a list of tensors must come
// after its tensors.
func (c *checker) list(i int, k Kind, t *fb.Walker, b []byte, size int) {
	at := func(n int) (int64, string) {
		return t.DataAt(slotItems) + int64(n*size), c.m.field("values[%d].val.items[%d]", i, n)
	}
	for n := range len(b) / size {
		x := int64(0)
		if size == 8 {
			x = int64(u64s(b, n))
		} else if x = int64(int32(u32s(b, n))); x == -1 && k == KindOptionalTensorList {
			continue
		}
		if x < 0 || x >= int64(c.values.Len()) {
			off, field := at(n)
			c.bad(off, field, "%d of %d values", x, c.values.Len())
			continue
		}
		pointee := c.kind(x)
		switch {
		case k == KindIntList && pointee == KindNull:
			off, field := at(n)
			c.warn(off, field, "value %d is no number until an instruction makes it one", x)
		case k == KindIntList && pointee != KindInt,
			k == KindTensorList && pointee != KindTensor,
			k == KindOptionalTensorList && pointee != KindTensor && pointee != KindNull:
			off, field := at(n)
			c.bad(off, field, "value %d is a %v, which a %v cannot have", x, pointee, k)
		case k != KindIntList && x >= int64(i):
			off, field := at(n)
			c.bad(off, field, "value %d does not come before the list", x)
		}
	}
}

// tensor answers whether Reader.Tensors has the tensor.
func (c *checker) tensor(i int, t *fb.Walker, sizes []byte, has bool) (listed bool) {
	c.index = i
	if o := t.Uint32(slotTensorStorageOffset, 0); o != 0 {
		c.error(errors.ErrUnsupported, t.At(slotTensorStorageOffset), c.valueField("storage_offset"), "%d", int32(o))
	}
	scalar := int8(t.Uint8(slotTensorScalarType, 0))
	d := dtypeOf(scalar)
	if d == tensor.Unknown {
		c.error(errors.ErrUnsupported, t.At(slotTensorScalarType), c.valueField("scalar_type"), "%d", scalar)
	}
	switch x := Dynamism(t.Uint8(slotTensorDynamism, 0)); {
	case x == Unbound:
		c.error(errors.ErrUnsupported, t.At(slotTensorDynamism), c.valueField("shape_dynamism"), "%v", x)
	case x != Static && x != Bound:
		c.warn(t.At(slotTensorDynamism), c.valueField("shape_dynamism"), "unknown value %d", x)
	}
	if l := t.Uint8(slotTensorLayout, 0); l != 0 {
		c.warn(t.At(slotTensorLayout), c.valueField("layout"), "%d is not strided, as which the runtime takes it", int8(l))
	}
	size, ok := c.shape(t, d, sizes, has)
	buffer, planned := t.Uint32(slotTensorDataBuffer, 0), t.Has(slotTensorAllocation)
	role, name := RoleCaller, []byte(nil)
	if pos := t.Child(slotTensorExtra); pos != 0 {
		c.seek(&c.extra, pos, ptefb.TableExtraTensorInfo)
		name = c.extraInfo(&c.extra)
		if c.extra.Uint8(slotExtraLocation, 0) == uint8(ptefb.TensorDataLocationEXTERNAL) {
			role = RoleExternal
		}
	}
	switch { // as roleOf has it, which is for one tensor at a time
	case role == RoleExternal:
	case planned && (buffer != 0 || len(name) > 0):
		role = RoleState
	case planned:
		role = RolePlanned
	case buffer != 0:
		role = RoleConstant
	}
	switch {
	case role.External():
		c.externalTensor(t, name)
	case buffer != 0 && role != RolePlanned:
		at := t.At(slotTensorDataBuffer)
		var room extent
		var bad *fault
		if role == RoleConstant {
			room, bad = c.r.constant(buffer)
		} else {
			room, bad = c.r.initial(buffer)
		}
		switch {
		case bad != nil:
			c.out.Error(c.r.fault(bad, at, c.valueField("data_buffer_idx")))
		case ok && size > room.size:
			c.bad(at, c.valueField("data_buffer_idx"), "%d bytes where %d are left of their segment", size, room.size)
		case role == RoleConstant && size > 0 && misaligned(room.off-c.r.at, d):
			c.warn(at, c.valueField("data_buffer_idx"), "constant %d at %d is not aligned to the %d bytes of %v", buffer, room.off, d.Align(), d)
		}
	}
	if pos := t.Child(slotTensorAllocation); pos != 0 {
		place := &c.allocation
		if c.tables++; !place.Seek(pos) {
			c.load(place, ptefb.TableAllocationDetails)
		}
		p := Place{place.Uint32(slotAllocationID, 0), uint64(place.Uint32(slotAllocationLow, 0)) | uint64(place.Uint32(slotAllocationHigh, 0))<<32}
		switch n := int64(len(c.buffers) / 8); {
		case p.Memory == 0 || int64(p.Memory) >= n:
			c.bad(place.At(slotAllocationID), c.valueField("allocation_info.memory_id"), "%d of buffers 1 to %d", p.Memory, n-1)
		case ok:
			room := u64s(c.buffers, int(p.Memory))
			if p.Offset > room || uint64(size) > room-p.Offset {
				c.bad(place.At(slotAllocationLow), c.valueField("allocation_info"), "%d bytes at %d in a buffer of %d", size, p.Offset, int64(room))
			} else if room == 0 && role == RoleState && buffer != 0 {
				c.bad(place.At(slotAllocationID), c.valueField("allocation_info.memory_id"), "an initial value, if without elements, for buffer %d, which has no bytes and therefore is not there", p.Memory)
			}
		}
	}
	return role.listed()
}

// extraInfo looks at a tensor's extra information and answers its name.
func (c *checker) extraInfo(x *fb.Walker) []byte {
	if l := x.Uint8(slotExtraLocation, 0); l > uint8(ptefb.TensorDataLocationEXTERNAL) {
		c.warn(x.At(slotExtraLocation), c.valueField("extra_tensor_info.location"), "unknown location %d, which the runtime takes for a segment", l)
	}
	if d := x.Uint8(slotExtraDeviceType, 0); d > uint8(ptefb.DeviceTypeCUDA) {
		c.warn(x.At(slotExtraDeviceType), c.valueField("extra_tensor_info.device_type"), "unknown device %d", d)
	} else if i := int8(x.Uint8(slotExtraDeviceIndex, 0)); i < 0 {
		c.warn(x.At(slotExtraDeviceIndex), c.valueField("extra_tensor_info.device_index"), "%d", i)
	}
	name, ok := x.String(slotExtraName)
	if ok {
		if bytes.IndexByte(name, 0) >= 0 || !utf8.Valid(name) {
			c.name(name, x.At(slotExtraName), c.valueField("extra_tensor_info.fully_qualified_name"))
		}
	}
	return name
}

// shape looks at sizes and dim_order and answers how many bytes they make.
func (c *checker) shape(t *fb.Walker, d tensor.DType, sizes []byte, has bool) (size int64, ok bool) {
	rank := len(sizes) / 4
	dims, ordered := t.Bytes(slotTensorDimOrder, 1)
	switch {
	case !has:
		c.bad(t.Pos(), c.valueField("sizes"), "absent")
		return 0, false
	case !ordered:
		c.bad(t.Pos(), c.valueField("dim_order"), "absent")
	case len(dims) != rank:
		c.bad(t.At(slotTensorDimOrder), c.valueField("dim_order"), "%d entries for %d dimensions", len(dims), rank)
	case rank > maxRank:
		c.bad(t.At(slotTensorSizes), c.valueField("sizes"), "%d dimensions, and the runtime has room for %d", rank, maxRank)
	default:
		var seen uint32
		for _, x := range dims {
			if int(x) < rank {
				seen |= 1 << x
			}
		}
		if seen != 1<<rank-1 {
			c.bad(t.DataAt(slotTensorDimOrder), c.valueField("dim_order"), "%v is no permutation", dims)
		}
	}
	// The runtime multiplies in order and stays with an overflow, whatever zero comes behind; with the zero before it
	// overflows in the strides, where a zero counts as one.
	n, zero, ok := max(int64(d.Size()), 1), false, true
	for i := range rank {
		x := int64(int32(u32s(sizes, i)))
		if x < 0 {
			c.bad(t.DataAt(slotTensorSizes)+4*int64(i), c.valueField("sizes"), "dimension %d is %d", i, x)
			return 0, false
		}
		zero = zero || x == 0
		if n, ok = align.Mul(n, max(x, 1)); !ok {
			c.bad(t.At(slotTensorSizes), c.valueField("sizes"), "the product overflows")
			return 0, false
		}
	}
	if zero {
		n = 0
	}
	return n, d != tensor.Unknown
}

// externalTensor looks at a tensor that is kept in a .ptd under its name. The runtime holds the layout of only the first
// tensor of a name against the file.
func (c *checker) externalTensor(t *fb.Walker, name []byte) {
	extra := &c.extra
	if len(name) == 0 {
		c.bad(extra.Pos(), c.valueField("extra_tensor_info.fully_qualified_name"), "an external tensor without a name")
		return
	}
	first, dup := c.external[string(name)]
	if !dup {
		if c.external == nil {
			c.external = make(map[string]fb.Object)
		}
		c.external[string(name)] = t.Object()
		return
	}
	a, _ := first.Bytes(slotTensorSizes, 4)
	b, _ := t.Bytes(slotTensorSizes, 4)
	ao, _ := first.Bytes(slotTensorDimOrder, 1)
	bo, _ := t.Bytes(slotTensorDimOrder, 1)
	if first.Uint8(slotTensorScalarType, 0) != t.Uint8(slotTensorScalarType, 0) || !bytes.Equal(a, b) || !bytes.Equal(ao, bo) {
		c.bad(extra.At(slotExtraName), c.valueField("extra_tensor_info.fully_qualified_name"), "external tensor %s has another layout than where it was used before", tensor.Quote(string(name)))
	}
}

func (c *checker) operators() {
	c.ops, c.copies = c.m.t.Objects(slotPlanOperators), -1
	c.counts = c.counts[:0]
	for i := range c.ops.Len() {
		t := c.ops.At(i)
		c.see(t, ptefb.TableOperator)
		name, ok := t.Bytes(slotOperatorName, 1)
		if !ok {
			c.bad(t.Pos(), c.m.field("operators[%d].name", i), "absent")
		}
		overload, ok := t.Bytes(slotOperatorOverload, 1)
		if !ok {
			c.warn(t.Pos(), c.m.field("operators[%d].overload", i), "absent, where the tools want an empty one")
		}
		n := len(name)
		if len(overload) > 0 {
			n += 1 + len(overload)
		}
		if n > maxOperatorName {
			c.bad(t.At(slotOperatorName), c.m.field("operators[%d].name", i), "%d bytes with the overload, and the runtime has room for %d", n, maxOperatorName)
		}
		c.name(name, t.At(slotOperatorName), c.m.field("operators[%d].name", i))
		if string(name) == copyIndexOperator {
			c.copies = i
		}
		c.counts = append(c.counts, kernelArguments(Operator{string(name), string(overload)}.String()))
	}
}

func (c *checker) delegates() {
	v := c.m.t.Objects(slotPlanDelegates)
	for i := range v.Len() {
		t := v.At(i)
		c.see(t, ptefb.TableBackendDelegate)
		field := func(name string) string { return c.m.field("delegates[%d].%s", i, name) }
		if id, ok := t.Bytes(slotDelegateID, 1); !ok {
			c.bad(t.Pos(), field("id"), "absent")
		} else {
			c.name(id, t.At(slotDelegateID), field("id"))
		}
		c.payload(t, field)
		specs := t.Objects(slotDelegateSpecs)
		for k := range specs.Len() {
			s := specs.At(k)
			c.see(s, ptefb.TableCompileSpec)
			if !s.Has(slotSpecKey) {
				c.warn(s.Pos(), field(fmt.Sprintf("compile_specs[%d].key", k)), "absent")
			}
			if !s.Has(slotSpecValue) {
				c.bad(s.Pos(), field(fmt.Sprintf("compile_specs[%d].value", k)), "absent: the runtime's process would end")
			}
		}
	}
}

func (c *checker) payload(t fb.Object, field func(string) string) {
	p := t.Child(slotDelegateProcessed)
	if !p.Present() {
		c.bad(t.Pos(), field("processed"), "absent: the runtime's process would end")
		return
	}
	c.see(p, ptefb.TableBackendDelegateDataReference)
	i := p.Uint32(slotReferenceIndex, 0)
	switch l := ptefb.DataLocation(p.Uint8(slotReferenceLocation, 0)); l {
	case ptefb.DataLocationINLINE:
		v := c.r.root.Objects(slotProgramInlineData)
		if int64(i) >= int64(v.Len()) {
			c.bad(p.At(slotReferenceIndex), field("processed.index"), "%d of %d inline payloads", i, v.Len())
		} else if !v.At(int(i)).Has(slotOnly) {
			c.bad(v.At(int(i)).Pos(), field("processed.index"), "inline payload %d has no data: the runtime's process would end", i)
		}
	case ptefb.DataLocationSEGMENT:
		if int64(i) >= int64(c.r.numSegments()) {
			c.bad(p.At(slotReferenceIndex), field("processed.index"), "%d of %d segments", i, c.r.numSegments())
		} else if c.r.header.SegmentBase == 0 {
			c.bad(p.At(slotReferenceIndex), field("processed"), "a segment, but no extended header says where segments are")
		} else if c.r.outside(i) {
			c.bad(p.At(slotReferenceIndex), field("processed.index"), "segment %d starts beyond the file", i)
		}
	default:
		c.error(errors.ErrUnsupported, p.At(slotReferenceLocation), field("processed.location"), "%d", l)
	}
}

func (c *checker) chains() {
	v := c.m.t.Objects(slotPlanChains)
	if v.Present() && v.Len() == 0 {
		c.bad(c.m.t.At(slotPlanChains), c.m.field("chains"), "empty")
	}
	for i := range v.Len() {
		t := v.At(i)
		c.see(t, ptefb.TableChain)
		list := t.Objects(slotChainInstructions)
		if !list.Present() {
			c.bad(t.Pos(), c.m.field("chains[%d].instructions", i), "absent")
			continue
		}
		if c.tables+list.Len() > c.walk.Budget() {
			c.walk.Fail()
			return
		}
		back := false
		for k := range list.Len() {
			if k%4096 == 4095 && c.out.Full() {
				c.walk.Fail() // unseen is unverified
				return
			}
			back = c.instruction(c.walk.Pos(list, k), i, k, list.Len()) || back
		}
		if back {
			c.looping = append(c.looping, i)
		}
		stacks := t.Objects(slotChainStacktrace)
		for k := range stacks.Len() {
			c.see(stacks.At(k), ptefb.TableFrameList)
			c.tables += stacks.At(k).Objects(slotItems).Len()
		}
	}
	if c.walk.Failed() {
		return
	}
	for _, i := range c.looping { // now that all of them are verified
		c.endless(Chain{c.m, v.At(i), i})
	}
	c.looping = c.looping[:0]
}

// instruction answers whether it is a jump back.
func (c *checker) instruction(pos uint32, chain, i, n int) (back bool) {
	c.chain, c.index = chain, i
	e := &c.step
	if c.tables++; !e.Seek(pos) {
		c.load(e, ptefb.TableInstruction)
	}
	op, pos := Opcode(e.Uint8(slotUnionType, 0)), e.Child(slotUnion)
	switch {
	case op >= numOpcodes:
		c.error(errors.ErrUnsupported, e.At(slotUnionType), c.stepField("instr_args_type"), "%v", op)
		return false // the verifier has not seen what is there
	case op == OpNone || pos == 0:
		if pos != 0 { // which no verifier accepts
			c.walk.Fail()
		}
		c.bad(e.Pos(), c.stepField("instr_args"), "absent")
		return false
	}
	t := &c.steps[op]
	if c.tables++; !t.Seek(pos) {
		c.load(t, opcodeTables[op])
	}
	switch op {
	case OpKernelCall, OpDelegateCall:
		what, callees := "operators", c.ops.Len()
		if op == OpDelegateCall {
			what, callees = "delegates", c.m.t.Objects(slotPlanDelegates).Len()
		}
		if k := t.Uint32(slotCallIndex, 0); int64(k) >= int64(callees) {
			c.bad(t.At(slotCallIndex), c.stepField("index"), "%d of %d %s", int32(k), callees, what)
		}
		args, ok := t.Bytes(slotCallArgs, 4)
		if !ok {
			c.bad(t.Pos(), c.stepField("args"), "absent")
		}
		for k := range len(args) / 4 {
			if v := u32s(args, k); int64(v) >= int64(c.values.Len()) {
				c.bad(t.DataAt(slotCallArgs)+4*int64(k), c.stepField(fmt.Sprintf("args[%d]", k)), "%d of %d values", int32(v), c.values.Len())
			}
		}
		if op != OpKernelCall {
			break
		}
		k := t.Uint32(slotCallIndex, 0)
		if int(int32(k)) == c.copies {
			c.copyIndex(args, t.DataAt(slotCallArgs))
		}
		if int64(k) < int64(len(c.counts)) && c.counts[k] > 0 && len(args)/4 != c.counts[k] {
			c.warn(t.At(slotCallArgs), c.stepField("args"), "%d arguments, but the operator has %d", len(args)/4, c.counts[k])
		}
	case OpMove:
		c.operand(t, slotMoveFrom, "move_from")
		c.operand(t, slotMoveTo, "move_to")
	case OpJumpFalse:
		if v, ok := c.operand(t, slotJumpCondition, "cond_value_index"); ok {
			switch k := c.kind(v); k {
			case KindBool, KindNull: // None until an instruction makes it a Bool
			case KindTensor:
				if x := c.values.At(int(v)).Child(slotUnion); x.Present() && dtypeOf(int8(x.Uint8(slotTensorScalarType, 0))) != tensor.Bool {
					c.bad(t.At(slotJumpCondition), c.stepField("cond_value_index"), "value %d is a tensor of another type than bool", v)
				}
			default:
				c.bad(t.At(slotJumpCondition), c.stepField("cond_value_index"), "value %d is a %v", v, k)
			}
		}
		if to := int32(t.Uint32(slotJumpDestination, 0)); to < 0 || int(to) > n {
			c.bad(t.At(slotJumpDestination), c.stepField("destination_instruction"), "%d of %d instructions", to, n)
		} else if int(to) <= i {
			back = true
		}
	case OpFree:
		if v, ok := c.operand(t, slotFreeValue, "value_index"); ok && c.kind(v) != KindTensor {
			c.bad(t.At(slotFreeValue), c.stepField("value_index"), "value %d is a %v, not a tensor", v, c.kind(v))
		}
	}
	return back
}

// operand is a value that an instruction names.
func (c *checker) operand(t *fb.Walker, slot int, name string) (int64, bool) {
	v := int64(int32(t.Uint32(slot, 0)))
	if v < 0 || v >= int64(c.values.Len()) {
		c.bad(t.At(slot), c.stepField(name), "%d of %d values", v, c.values.Len())
		return 0, false
	}
	return v, true
}

// opcodeTables are the tables of the union's members.
var opcodeTables = [numOpcodes]int{
	OpKernelCall: ptefb.TableKernelCall, OpDelegateCall: ptefb.TableDelegateCall, OpMove: ptefb.TableMoveCall,
	OpJumpFalse: ptefb.TableJumpFalseCall, OpFree: ptefb.TableFreeCall,
}

// endless looks for a jump back on a Bool that is false and that nothing ever changes.
func (c *checker) endless(chain Chain) {
	var changed map[int]bool
	for i := range chain.Instructions() {
		if i.Opcode() != OpJumpFalse {
			continue
		}
		cond, to := i.Jump()
		v := c.m.Value(cond)
		if to < 0 || to > i.Index() || v.Kind() != KindBool || v.Bool() {
			continue
		}
		if changed == nil {
			changed = make(map[int]bool)
			for x, u := range c.m.Uses() {
				if op := u.Instruction.Opcode(); op != OpJumpFalse && (op != OpMove || u.Arg == 1) {
					changed[x] = true
				}
			}
		}
		if !changed[cond] {
			c.warn(i.t.Pos(), c.m.field("chains[%d].instructions[%d]", chain.Index, i.Index()), "jumps back to %d for ever: value %d is false and stays so", to, cond)
		}
	}
}

// copyIndex looks at a call that writes its second argument into the first one at an index, which old runtimes did not
// hold against the size (CVE-2025-54949).
func (c *checker) copyIndex(args []byte, off int64) {
	if len(args) < 12 {
		return
	}
	to, at := c.m.Value(int(int32(u32s(args, 0)))), c.m.Value(int(int32(u32s(args, 2))))
	t := to.of(KindTensor)
	if !t.Present() || at.Kind() != KindInt {
		return
	}
	sizes, _ := t.Bytes(slotTensorSizes, 4)
	if i := at.Int(); i < 0 || len(sizes) < 4 || i >= int64(int32(u32s(sizes, 0))) {
		c.bad(off+8, c.stepField("args[2]"), "index %d, of a tensor of %v", i, to)
	}
}
