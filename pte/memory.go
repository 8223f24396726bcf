package pte

import (
	"cmp"
	"io/fs"
	"math"
	"slices"
	"sort"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/tensor"
)

// A Memory is the memory plan of a method: the buffers for its intermediate results,
// inputs, outputs and state, which the caller allocates before the method is loaded.
type Memory struct {
	// Buffers are the sizes in bytes, as in the file. Buffer 0 is reserved and not
	// allocated; a tensor's Place names the others by their index.
	Buffers []int64
	// Devices has the device of each buffer.
	Devices []Device
}

// Memory returns the method's memory plan. The place of each tensor in it is in its
// TensorInfo.
func (m Method) Memory() Memory {
	n := m.t.NonConstBufferSizesLength()
	mem := Memory{Buffers: make([]int64, n), Devices: make([]Device, n)}
	for i := range mem.Buffers {
		mem.Buffers[i] = m.t.NonConstBufferSizes(i)
	}
	for _, t := range fb.Each(m.t.NonConstBufferDeviceLength(), m.t.NonConstBufferDevice) {
		if k := t.BufferIdx(); k >= 0 && int(k) < n {
			mem.Devices[k] = Device{t.DeviceType(), t.DeviceIndex()}
		}
	}
	return mem
}

// PlannedPeak returns the largest number of bytes that planned tensors of the method need
// at the same time: each from its first to its last use. No memory plan can need less.
// Inputs count from the first instruction on, outputs to the last, state always. A view
// that the exporter elided shares the memory of its tensor.
func (m Method) PlannedPeak() int64 {
	lifetimes := m.Lifetimes()
	end := 0
	for _, x := range lifetimes {
		end = max(end, x.Last)
	}
	change := make([]int64, end+2)
	for _, x := range lifetimes {
		change[x.First] = addTo(change[x.First], x.Bytes)
		change[x.Last+1] = addTo(change[x.Last+1], -x.Bytes)
	}
	var now, peak int64
	for _, c := range change {
		now = addTo(now, c)
		peak = max(peak, now)
	}
	return peak
}

// A Lifetime is the place of a planned tensor in memory, and the steps between which it
// is needed.
type Lifetime struct {
	Value       int // index in the method's values
	Place       Place
	Bytes       int64
	First, Last int // steps of the method's Flow, both included
}

// Lifetimes returns the lifetimes of the planned tensors, in the order of the values.
// Elided views are left out; their tensors have lifetimes that cover them.
func (m Method) Lifetimes() (all []Lifetime) {
	flow := m.Flow()
	end := max(len(flow.Steps)-1, 0)
	l := newLiveness(m.NumValues())
	views := make(map[int]bool)
	for _, s := range flow.Steps {
		for _, x := range s.Reads {
			if x.Value != x.Origin {
				l.join(x.Origin, x.Value)
				views[x.Value] = true
			}
		}
	}
	for step, s := range flow.Steps {
		for _, v := range s.Instruction.operands() {
			l.use(v, step)
		}
		if s.Instruction.Opcode() == OpJumpFalse {
			if _, to := s.Instruction.Jump(); to >= 0 && to <= s.Instruction.Index() {
				l.loops = append(l.loops, liveRange{step - s.Instruction.Index() + to, step})
			}
		}
	}
	for _, v := range m.Inputs() {
		l.use(v.index, 0)
	}
	for _, sources := range flow.Outputs {
		for _, x := range sources {
			l.use(x.Value, end)
			l.use(x.Origin, end)
		}
	}
	lives := l.solve(func(v int) []int { return m.Value(v).Items() })
	for v := range m.Values() {
		info, ok := v.Tensor()
		size, known := info.Bytes()
		if !ok || !known || !info.Planned || views[v.index] {
			continue
		}
		x := lives[v.index]
		if info.Role.Mutable() || x.first == unused {
			x = liveRange{0, 0}
			if info.Role.Mutable() {
				x.last = end
			}
		}
		all = append(all, Lifetime{v.index, info.Place, size, x.first, x.last})
	}
	return all
}

// addTo returns the sum, or on overflow the smallest or largest int64.
func addTo(a, b int64) int64 {
	s := a + b
	if b > 0 && s < a {
		return 1<<63 - 1
	}
	if b < 0 && s > a {
		return -1 << 63
	}
	return s
}

// A liveRange is the steps between which a value needs its memory, both included. If the
// first step is after the last, the value is not used.
type liveRange struct{ first, last int }

const unused = math.MaxInt // the first step of a value that is not used

// A liveness finds the live ranges of the values of a method.
type liveness struct {
	parent []int       // of values that are one in memory: a tree for each set of them
	ranges []liveRange // of the sets, at their roots
	loops  []liveRange // what jumps back span
}

func newLiveness(values int) *liveness {
	l := &liveness{parent: make([]int, values), ranges: make([]liveRange, values)}
	for v := range l.ranges {
		l.parent[v], l.ranges[v] = v, liveRange{unused, -1}
	}
	return l
}

// join records that two values share memory, by a move, an alias or a view. All calls
// come before the first use.
func (l *liveness) join(a, b int) {
	a, b = l.root(a), l.root(b)
	l.parent[max(a, b)] = min(a, b)
}

func (l *liveness) root(v int) int {
	for ; l.parent[v] != v; v = l.parent[v] {
		l.parent[v] = l.parent[l.parent[v]]
	}
	return v
}

// use records that a step uses a value.
func (l *liveness) use(v, step int) {
	if v >= 0 && v < len(l.ranges) {
		x := &l.ranges[l.root(v)]
		x.first, x.last = min(x.first, step), max(x.last, step)
	}
}

// solve returns the live range of each value. The elements of a list live as long as the
// list, and values that a loop uses as long as the loop.
func (l *liveness) solve(elements func(v int) []int) []liveRange {
	all := make([]liveRange, len(l.ranges))
	for v := range all {
		if x := l.ranges[l.root(v)]; x.first <= x.last {
			for _, item := range elements(v) {
				l.use(item, x.first)
				l.use(item, x.last)
			}
		}
	}
	// Loops that overlap are merged into one.
	sort.Slice(l.loops, func(i, j int) bool { return l.loops[i].first < l.loops[j].first })
	merged := l.loops[:0]
	for _, x := range l.loops {
		if n := len(merged); n > 0 && x.first <= merged[n-1].last {
			merged[n-1].last = max(merged[n-1].last, x.last)
		} else {
			merged = append(merged, x)
		}
	}
	around := func(step int) liveRange {
		i := sort.Search(len(merged), func(i int) bool { return merged[i].last >= step })
		if i < len(merged) && merged[i].first <= step {
			return merged[i]
		}
		return liveRange{step, step}
	}
	for v := range all {
		all[v] = l.ranges[l.root(v)]
		if x := all[v]; x.first <= x.last {
			all[v] = liveRange{around(x.first).first, around(x.last).last}
		}
	}
	return all
}

// planAlignment is the alignment of a planned tensor, as in ExecuTorch's planner.
const planAlignment = 16

// plan makes the memory plan. It returns the sizes of all buffers, and the places by
// value. Tensors that the caller did not place go into one buffer, after the buffers that
// the caller uses. Each takes the first gap that is large enough at its first use, and
// releases it after its last. Inputs and state are never released, so that a method can
// run again without new inputs. Outputs are not released after their first use.
func (m *MethodBuilder) plan() (sizes []int64, places []Place, err error) {
	sizes, places = []int64{0}, make([]Place, len(m.values))
	var unplaced []int
	for i := range m.values {
		t := m.values[i].tensor
		switch {
		case t == nil || !t.planned():
			continue
		case !t.placed:
			unplaced = append(unplaced, i)
			continue
		case t.place.Offset > maxBuffer || t.bytes > maxBuffer-int64(t.place.Offset):
			return nil, nil, m.errorf(fs.ErrInvalid, "value %d of %d bytes at %d of buffer %d", i,
				t.bytes, t.place.Offset, t.place.Memory)
		}
		places[i] = t.place
		for int(t.place.Memory) >= len(sizes) {
			sizes = append(sizes, 0)
		}
		size := &sizes[t.place.Memory]
		*size = max(*size, int64(t.place.Offset)+t.bytes)
	}
	switch {
	case len(unplaced) > 0:
		size, err := m.placeAll(unplaced, uint32(len(sizes)), places)
		return append(sizes, size), places, err
	case len(sizes) == 1 && len(m.code) > 0:
		sizes = append(sizes, 0) // as exporters write it for a method without planned tensors
	}
	return sizes, places, nil
}

func (t *tensorValue) planned() bool {
	return t.role == RolePlanned || t.role.Mutable()
}

// placeAll places tensors in buffer id and returns its size.
func (m *MethodBuilder) placeAll(tensors []int, id uint32, places []Place) (size int64,
	err error) {
	lives := m.liveRanges()
	slices.SortStableFunc(tensors, func(a, b int) int {
		return cmp.Compare(lives[a].first, lives[b].first)
	})
	var live []int // placed tensors that are still needed, by offset
	for _, v := range tensors {
		live = slices.DeleteFunc(live, func(x int) bool { return lives[x].last < lives[v].first })
		n, ok := align.Up(m.values[v].tensor.bytes, planAlignment)
		at, k := int64(0), 0
		for ; ok && k < len(live) && int64(places[live[k]].Offset)-at < n; k++ {
			used, _ := align.Up(m.values[live[k]].tensor.bytes, planAlignment)
			at = int64(places[live[k]].Offset) + used
		}
		if !ok || n > maxBuffer-at {
			return 0, m.errorf(tensor.ErrLimit, "the memory plan exceeds %d bytes",
				int64(maxBuffer))
		}
		places[v] = Place{id, uint64(at)}
		live, size = slices.Insert(live, k, v), max(size, at+n)
	}
	return size, nil
}

// liveRanges returns the live range of each value, from -1 (before the first instruction)
// to the number of instructions.
func (m *MethodBuilder) liveRanges() []liveRange {
	end := len(m.code)
	l := newLiveness(len(m.values))
	for _, a := range m.aliases {
		l.join(int(a[0]), int(a[1]))
	}
	for _, ins := range m.code {
		if ins.op == OpMove {
			l.join(int(ins.operands[0]), int(ins.operands[1]))
		}
	}
	for at, ins := range m.code {
		for _, v := range ins.operands {
			l.use(int(v), at)
		}
		if ins.op == OpJumpFalse && int(ins.label.at) <= at {
			l.loops = append(l.loops, liveRange{int(ins.label.at), at})
		}
	}
	for _, v := range m.inputs {
		l.use(int(v), -1)
		l.use(int(v), end)
	}
	for _, v := range m.outputs {
		l.use(int(v), end)
	}
	lives := l.solve(func(v int) []int { return m.values[v].items })
	for i := range lives {
		if t := m.values[i].tensor; t != nil && (t.role.Mutable() || lives[i].first == unused) {
			lives[i] = liveRange{-1, end} // state, or never used
		}
	}
	return lives
}
