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
	sizes, places = slices.Clone(m.memory.Buffers), make([]Place, len(m.values))
	if len(sizes) == 0 {
		sizes = []int64{0}
	}
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
			return nil, nil, m.errorf("value %d of %d bytes at %d of buffer %d", i, t.bytes,
				t.place.Offset, t.place.Memory)
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
		size, err := m.fill(ours, uint32(len(sizes)), places)
		return append(sizes, size), places, err
	case len(sizes) == 1 && len(m.code) > 0:
		sizes = append(sizes, 0) // what exporters write for a method without planned tensors
	}
	return sizes, places, nil
}

func (t *tensorValue) planned() bool {
	return t.role == RolePlanned || t.role.Mutable()
}

// fill places tensors in buffer id and returns its size.
func (m *MethodBuilder) fill(tensors []int, id uint32, places []Place) (size int64, err error) {
	lives := m.lives()
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
			l.touch(int(v), at)
		}
		if ins.op == OpJumpFalse && int(ins.label.at) <= at {
			l.loops = append(l.loops, life{int(ins.label.at), at})
		}
	}
	for _, v := range m.inputs {
		l.touch(int(v), -1)
		l.touch(int(v), end)
	}
	for _, v := range m.outputs {
		l.touch(int(v), end)
	}
	lives := l.solve(func(v int) []int { return m.values[v].items })
	for i := range lives {
		if t := m.values[i].tensor; t != nil && (t.role.Mutable() || lives[i].first == never) {
			lives[i] = life{-1, end} // state, or never used
		}
	}
	return lives
}
