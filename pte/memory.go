package pte

import (
	"math"
	"sort"

	"github.com/tensorfile/tensorfile/internal/fb"
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

// Memory is the method's memory plan. The place of each tensor in it is in its
// TensorInfo.
func (m Method) Memory() Memory {
	n := m.t.NonConstBufferSizesLength()
	mem := Memory{Buffers: make([]int64, n), Devices: make([]Device, n)}
	for i := range mem.Buffers {
		mem.Buffers[i] = m.t.NonConstBufferSizes(i)
	}
	for _, t := range fb.Each(m.t.NonConstBufferDeviceLength(), m.t.NonConstBufferDevice) {
		if k := t.BufferIdx(); k >= 0 && int(k) < n {
			mem.Devices[k] = Device{DeviceType(t.DeviceType()), t.DeviceIndex()}
		}
	}
	return mem
}

// PlannedPeak is the largest sum of bytes that planned tensors of the method take at one
// time, by their first and last use: what a planner without waste would need. Inputs
// count from the first instruction on, outputs to the last, state all the time; a view
// that the exporter elided counts as the tensor that it is a view of. Compared with
// Memory.Total it says what could be saved; the runtime does not use it.
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
	l := newLiveness(m.NumValues(), func(v int) []int { return m.Value(v).Items() })
	views := make(map[int]bool)
	for step, s := range flow.Steps {
		for _, v := range s.Instruction.operands() {
			l.touch(v, step)
		}
		for _, x := range s.Reads {
			if x.Value != x.Origin {
				l.joins = append(l.joins, [2]int{x.Origin, x.Value})
				views[x.Value] = true
			}
		}
		if s.Instruction.Opcode() == OpJumpFalse {
			if _, to := s.Instruction.Jump(); to >= 0 && to <= s.Instruction.Index() {
				l.loops = append(l.loops, life{step - s.Instruction.Index() + to, step})
			}
		}
	}
	for _, v := range m.Inputs() {
		l.touch(v.index, 0)
	}
	for _, sources := range flow.Outputs {
		for _, x := range sources {
			l.touch(x.Value, end)
			l.touch(x.Origin, end)
		}
	}
	l.solve()
	for v := range m.Values() {
		info, ok := v.Tensor()
		size, known := info.Bytes()
		if !ok || !known || !info.Planned || views[v.index] {
			continue
		}
		x := l.lives[v.index]
		if info.Role.Mutable() || x.first == never {
			x = life{0, 0}
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

// A life is the steps between which a value needs its memory, both included. Nothing uses
// a value whose first step is after its last.
type life struct{ first, last int }

const never = math.MaxInt // the first step of a value that is not used

// A liveness finds the lives of the values of a method.
type liveness struct {
	lives []life
	items func(v int) []int // the elements of a list, nil for other values
	joins [][2]int          // values that are one in memory: by moves, aliases, views
	loops []life            // what jumps back span
}

func newLiveness(values int, items func(v int) []int) *liveness {
	l := &liveness{lives: make([]life, values), items: items}
	for i := range l.lives {
		l.lives[i] = life{never, -1}
	}
	return l
}

// touch notes that a step uses a value.
func (l *liveness) touch(v, step int) {
	if v >= 0 && v < len(l.lives) {
		x := &l.lives[v]
		x.first, x.last = min(x.first, step), max(x.last, step)
	}
}

func (l *liveness) extend(v int, by life) {
	if by.first <= by.last {
		l.touch(v, by.first)
		l.touch(v, by.last)
	}
}

// solve spreads lives: the elements of a list live as long as it does, values that are
// one in memory live together, and what is used inside of a loop lives as long as the
// loop.
func (l *liveness) solve() {
	for range 2 { // twice, for lists that are moved
		for v, x := range l.lives {
			if x.first <= x.last {
				for _, item := range l.items(v) {
					l.extend(item, x)
				}
			}
		}
		l.join()
	}
	l.stretch()
}

// join makes the values that are one in memory live together.
func (l *liveness) join() {
	parent := make([]int, len(l.lives))
	for v := range parent {
		parent[v] = v
	}
	root := func(v int) int {
		for ; parent[v] != v; v = parent[v] {
			parent[v] = parent[parent[v]]
		}
		return v
	}
	for _, j := range l.joins {
		a, b := root(j[0]), root(j[1])
		parent[max(a, b)] = min(a, b)
	}
	for range 2 { // up to the roots, and down from them
		for v := range parent {
			r := root(v)
			l.extend(r, l.lives[v])
			l.extend(v, l.lives[r])
		}
	}
}

// stretch makes everything that is used inside of a loop live as long as the loop.
func (l *liveness) stretch() {
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
	around := func(step int) life {
		i := sort.Search(len(merged), func(i int) bool { return merged[i].last >= step })
		if i < len(merged) && merged[i].first <= step {
			return merged[i]
		}
		return life{step, step}
	}
	for v, x := range l.lives {
		if x.first <= x.last {
			l.lives[v] = life{around(x.first).first, around(x.last).last}
		}
	}
}
