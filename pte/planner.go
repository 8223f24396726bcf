package pte

import (
	"cmp"
	"slices"

	"github.com/tensorfile/tensorfile/internal/align"
)

// What a planned tensor is aligned to, as in ExecuTorch's planner.
const planAlignment = 16

// plan gives every planned tensor that the caller did not place itself a place in one
// buffer, after those that the caller uses. It returns the sizes of all buffers, and the
// places by value.
//
// Instructions are walked in order. A tensor takes the first gap that is large enough at
// its first use and gives it back after its last one; a jump back makes all that is used
// between its ends live as long as the loop. Inputs and state keep their memory all the
// time, so that a method can be run again without new inputs, and outputs until the end.
func (m *MethodBuilder) plan() (sizes []int64, places []Place, err error) {
	sizes, places = slices.Clone(m.buffers), make([]Place, len(m.values))
	if len(sizes) == 0 {
		sizes = []int64{0}
	}
	grow := func(id uint32, end int64) {
		for int(id) >= len(sizes) {
			sizes = append(sizes, 0)
		}
		sizes[id] = max(sizes[id], end)
	}
	ours := false
	for i := range m.values {
		t := m.values[i].tensor
		if t == nil || !t.planned() {
			continue
		}
		if !t.placed {
			ours = true
			continue
		}
		places[i] = t.place
		end := int64(t.place.Offset) + t.bytes
		if t.place.Offset > maxBuffer || end < 0 || end > maxBuffer {
			return nil, nil, m.errorf("value %d of %d bytes at %d of buffer %d", i, t.bytes,
				t.place.Offset, t.place.Memory)
		}
		grow(t.place.Memory, end)
	}
	if !ours {
		if len(sizes) == 1 && len(m.code) > 0 {
			sizes = append(sizes, 0) // what exporters write for a method without planned tensors
		}
		return sizes, places, nil
	}
	id := uint32(len(sizes))
	size, err := m.fill(id, places)
	grow(id, size)
	return sizes, places, err
}

func (t *tensorValue) planned() bool {
	return t.role == RolePlanned || t.role.Mutable()
}

// fill places the tensors that are ours in buffer id and returns its size.
func (m *MethodBuilder) fill(id uint32, places []Place) (int64, error) {
	lives := m.lives()
	var ours []int
	for i := range m.values {
		if t := m.values[i].tensor; t != nil && t.planned() && !t.placed {
			ours = append(ours, i)
		}
	}
	slices.SortFunc(ours, func(a, b int) int {
		return cmp.Or(cmp.Compare(lives[a].first, lives[b].first), cmp.Compare(a, b))
	})
	var live []int // tensors that have their place, by offset
	var size int64
	for _, v := range ours {
		live = slices.DeleteFunc(live, func(x int) bool { return lives[x].last < lives[v].first })
		n, ok := align.Up(m.values[v].tensor.bytes, planAlignment)
		at, k := int64(0), 0
		for ; ok && k < len(live) && int64(places[live[k]].Offset)-at < n; k++ {
			used, _ := align.Up(m.values[live[k]].tensor.bytes, planAlignment)
			at = int64(places[live[k]].Offset) + used
		}
		if !ok || n > maxBuffer-at {
			return 0, m.errorf("the memory plan exceeds %d bytes", int64(maxBuffer))
		}
		places[v] = Place{id, uint64(at)}
		live, size = slices.Insert(live, k, v), max(size, at+n)
	}
	return size, nil
}

// lives finds from where to where each value is used.
func (m *MethodBuilder) lives() []life {
	end := len(m.code)
	l := newLiveness(len(m.values), func(v int) []int { return m.values[v].items })
	for _, a := range m.aliases {
		l.joins = append(l.joins, [2]int{int(a[0]), int(a[1])})
	}
	for at, ins := range m.code {
		for _, v := range ins.operands {
			l.touch(int(v), at)
		}
		switch ins.op {
		case OpMove:
			l.joins = append(l.joins, [2]int{int(ins.operands[0]), int(ins.operands[1])})
		case OpJumpFalse:
			if to := int(ins.label.at); to <= at {
				l.loops = append(l.loops, life{to, at})
			}
		}
	}
	for _, v := range m.inputs {
		l.touch(int(v), -1)
		l.touch(int(v), end)
	}
	for _, v := range m.outputs {
		l.touch(int(v), end)
	}
	l.solve()
	for i := range l.lives {
		if t := m.values[i].tensor; t != nil && (t.role.Mutable() || l.lives[i].first == never) {
			l.lives[i] = life{-1, end} // state, or never used
		}
	}
	return l.lives
}
