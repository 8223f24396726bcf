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

// A Memory is the plan for a method's intermediate results, inputs, outputs and state:
// buffers that the caller must have before the method can be loaded.
type Memory struct {
	// Buffers are the sizes as the file has them. The first is reserved and not
	// allocated; a tensor's Place names the others by their index.
	Buffers []int64
	// Devices says on which device each buffer is, as long as Buffers.
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

// PlannedPeak returns the largest sum of bytes that planned tensors of the method take at
// one time, by their first and last use. A planner without waste would need as much
// memory. Inputs count from the first instruction on, outputs to the last, state all the
// time; a view that the exporter elided counts as the tensor that it is a view of.
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

// A Lifetime says where a planned tensor is in memory, and from which step of the
// method's Flow to which it is needed, both included.
type Lifetime struct {
	Value       int
	Place       Place
	Bytes       int64
	First, Last int
}

// Lifetimes returns what PlannedPeak sums up, in the order of the values.
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

// addTo adds, and stays at the end of the range where the sum would pass it.
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

// A liveRange is the steps between which a value needs its memory, both included. Nothing uses
// a value whose first step is after its last.
type liveRange struct{ first, last int }

const unused = math.MaxInt // the first step of a value that is not used

// A liveness finds the lives of the values of a method.
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

// join makes two values live together, by a move, an alias or a view: before any touch.
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

// use notes that a step uses a value.
func (l *liveness) use(v, step int) {
	if v >= 0 && v < len(l.ranges) {
		x := &l.ranges[l.root(v)]
		x.first, x.last = min(x.first, step), max(x.last, step)
	}
}

// solve returns the life of each value. The elements of a list live as long as it does,
// and what is used inside of a loop as long as the loop.
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
	// Loops that overlap without nesting make each other longer.
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

// The alignment of a planned tensor, as in ExecuTorch's planner.
const planAlignment = 16

// plan gives every planned tensor that the caller did not place itself a place in one
// buffer, after those that the caller uses. It returns the sizes of all buffers, and the
// places by value. A tensor takes the first gap that is large enough at its first use and
// gives it back after its last one. Inputs and state keep their memory all the time, so
// that a method can be run again without new inputs, and outputs until the end.
func (m *MethodBuilder) plan() (sizes []int64, places []Place, err error) {
	sizes, places = []int64{0}, make([]Place, len(m.values))
	var ours []int
	for i := range m.values {
		t := m.values[i].tensor
		switch {
		case t == nil || !t.planned():
			continue
		case !t.placed:
			ours = append(ours, i)
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
	case len(ours) > 0:
		size, err := m.placeAll(ours, uint32(len(sizes)), places)
		return append(sizes, size), places, err
	case len(sizes) == 1 && len(m.code) > 0:
		sizes = append(sizes, 0) // what exporters write for a method without planned tensors
	}
	return sizes, places, nil
}

func (t *tensorValue) planned() bool {
	return t.role == RolePlanned || t.role.Mutable()
}

// placeAll places tensors in buffer id and returns its size.
func (m *MethodBuilder) placeAll(tensors []int, id uint32, places []Place) (size int64, err error) {
	lives := m.liveRanges()
	slices.SortStableFunc(tensors, func(a, b int) int {
		return cmp.Compare(lives[a].first, lives[b].first)
	})
	var live []int // tensors that have their place, by offset
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

// liveRanges finds from where to where each value is used.
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
