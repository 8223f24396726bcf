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
	ends := slices.Clone(ours) // by last use
	slices.SortFunc(ends, func(a, b int) int {
		return cmp.Or(cmp.Compare(lives[a].last, lives[b].last), cmp.Compare(a, b))
	})
	var free gaps
	var size int64
	next := 0
	for _, v := range ours {
		for ; next < len(ends) && lives[ends[next]].last < lives[v].first; next++ {
			n, _ := align.Up(m.values[ends[next]].tensor.bytes, planAlignment)
			free.put(int64(places[ends[next]].Offset), n)
		}
		n, ok := align.Up(m.values[v].tensor.bytes, planAlignment)
		if !ok {
			n = maxBuffer + 1
		}
		at, ok := free.take(n)
		if !ok {
			at = size
			if n > maxBuffer-size {
				return 0, m.errorf("the memory plan exceeds %d bytes", int64(maxBuffer))
			}
			size += n
		}
		places[v] = Place{id, uint64(at)}
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

// gaps are the free ranges of a buffer, sorted, with used memory between any two.
type gaps []gap

type gap struct{ off, size int64 }

// take cuts n bytes from the first gap that has them.
func (g *gaps) take(n int64) (off int64, ok bool) {
	for i := range *g {
		x := &(*g)[i]
		if x.size < n {
			continue
		}
		off = x.off
		x.off, x.size = x.off+n, x.size-n
		if x.size == 0 {
			*g = slices.Delete(*g, i, i+1)
		}
		return off, true
	}
	return 0, false
}

// put gives n bytes at off back.
func (g *gaps) put(off, n int64) {
	if n == 0 {
		return
	}
	i, _ := slices.BinarySearchFunc(*g, off, func(x gap, off int64) int {
		return cmp.Compare(x.off, off)
	})
	*g = slices.Insert(*g, i, gap{off, n})
	if i+1 < len(*g) && (*g)[i].off+(*g)[i].size == (*g)[i+1].off {
		(*g)[i].size += (*g)[i+1].size
		*g = slices.Delete(*g, i+1, i+2)
	}
	if i > 0 && (*g)[i-1].off+(*g)[i-1].size == (*g)[i].off {
		(*g)[i-1].size += (*g)[i].size
		*g = slices.Delete(*g, i, i+1)
	}
}
