package pte

import (
	"cmp"
	"slices"

	"github.com/tensorfile/tensorfile/internal/align"
)

// What a planned tensor is aligned to, as in ExecuTorch's planner.
const planAlignment = 16

// plan gives every planned tensor that the caller did not place itself a place in one buffer, behind those that the
// caller uses, and answers the sizes of all buffers.
//
// Instructions are walked in order. A tensor takes the first gap that is large enough at its first use and gives it back
// after its last one; a jump back makes all that is used between its ends live as long as the loop. Inputs and state
// keep their memory all the time, so that a method can be run again without new inputs, and outputs until the end.
func (m *MethodBuilder) plan() ([]int64, error) {
	sizes := slices.Clone(m.buffers)
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
		end := int64(t.place.Offset) + t.bytes
		if t.place.Offset > maxBuffer || end < 0 || end > maxBuffer {
			m.fail("value %d of %d bytes at %d of buffer %d", i, t.bytes, t.place.Offset, t.place.Memory)
			return nil, m.b.err
		}
		grow(t.place.Memory, end)
	}
	if !ours {
		if len(sizes) == 1 && len(m.code) > 0 {
			sizes = append(sizes, 0) // what exporters write for a method without planned tensors
		}
		return sizes, nil
	}
	id := uint32(len(sizes))
	size, err := m.fill(id)
	if err != nil {
		return nil, err
	}
	grow(id, size)
	return sizes, nil
}

func (t *tensorValue) planned() bool {
	return t.role == RolePlanned || t.role.Mutable()
}

// life is the instructions between which a tensor needs its memory.
type life struct {
	value       int32
	first, last int32
}

// fill places the tensors that are ours in buffer id and answers its size.
func (m *MethodBuilder) fill(id uint32) (int64, error) {
	lives := m.lives()
	slices.SortFunc(lives, func(a, b life) int {
		return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.value, b.value))
	})
	ends := slices.Clone(lives) // by last use
	slices.SortFunc(ends, func(a, b life) int {
		return cmp.Or(cmp.Compare(a.last, b.last), cmp.Compare(a.value, b.value))
	})
	var free gaps
	var size int64
	next := 0
	for _, l := range lives {
		for ; next < len(ends) && ends[next].last < l.first; next++ {
			t := m.values[ends[next].value].tensor
			n, _ := align.Up(t.bytes, planAlignment)
			free.put(int64(t.place.Offset), n)
		}
		t := m.values[l.value].tensor
		n, ok := align.Up(t.bytes, planAlignment)
		if !ok {
			n = maxBuffer + 1
		}
		at, ok := free.take(n)
		if !ok {
			at = size
			if n > maxBuffer-size {
				m.fail("the memory plan passes %d bytes", int64(maxBuffer))
				return 0, m.b.err
			}
			size += n
		}
		t.place = Place{id, uint64(at)}
	}
	return size, nil
}

// lives finds from where to where each planned tensor is used.
func (m *MethodBuilder) lives() []life {
	end := int32(len(m.code))
	all := make([]life, len(m.values)) // by value
	for i := range all {
		all[i] = life{int32(i), end, -1}
	}
	touch := func(v, at int32) {
		if v < 0 || int(v) >= len(all) {
			return
		}
		all[v].first, all[v].last = min(all[v].first, at), max(all[v].last, at)
	}
	for at, ins := range m.code {
		switch ins.op {
		case OpKernelCall, OpDelegateCall:
			for _, v := range ins.args {
				touch(v, int32(at))
			}
		case OpMove:
			touch(ins.index, int32(at))
			touch(ins.to, int32(at))
		default:
			touch(ins.index, int32(at))
		}
	}
	for _, v := range m.inputs {
		touch(v, -1)
		touch(v, end)
	}
	for _, v := range m.outputs {
		touch(v, end)
	}
	// A list's elements live as long as it does. What a move has made one, or the caller called an alias, lives together.
	// Twice, for lists that are moved.
	for range 2 {
		for i := range m.values {
			if l := all[i]; l.first <= l.last {
				for _, x := range m.values[i].items {
					touch(int32(x), l.first)
					touch(int32(x), l.last)
				}
			}
		}
		m.together(all, touch)
	}
	m.stretch(all)
	out := make([]life, 0, len(all))
	for i, l := range all {
		t := m.values[i].tensor
		if t == nil || !t.planned() || t.placed {
			continue
		}
		if t.role.Mutable() || l.last < 0 && l.first == end { // state, or never used
			l.first, l.last = -1, end
		}
		out = append(out, l)
	}
	return out
}

// together finds the values that are one by moves and aliases, and makes them live together.
func (m *MethodBuilder) together(all []life, touch func(v, at int32)) {
	parent := make(map[int32]int32)
	root := func(v int32) int32 {
		for {
			p, ok := parent[v]
			if !ok || p == v {
				return v
			}
			if g, ok := parent[p]; ok {
				parent[v] = g
			}
			v = p
		}
	}
	join := func(a, b int32) {
		if a, b = root(a), root(b); a != b {
			parent[max(a, b)] = min(a, b)
		} else {
			parent[a] = a
		}
	}
	for _, a := range m.aliases {
		join(a[0], a[1])
	}
	for _, ins := range m.code {
		if ins.op == OpMove {
			join(ins.index, ins.to)
		}
	}
	for range 2 { // up to the roots, and down from them
		for v := range parent {
			r := root(v)
			for _, x := range [2]life{all[v], all[r]} {
				if x.first <= x.last {
					touch(r, x.first)
					touch(r, x.last)
					touch(v, x.first)
					touch(v, x.last)
				}
			}
		}
	}
}

// stretch makes everything that is used inside of a loop live as long as the loop.
func (m *MethodBuilder) stretch(all []life) {
	type loop struct{ from, to int32 }
	var loops []loop
	for at, ins := range m.code {
		if ins.op == OpJumpFalse && ins.label.at <= int32(at) {
			loops = append(loops, loop{ins.label.at, int32(at)})
		}
	}
	// Loops that overlap without nesting make each other longer.
	slices.SortFunc(loops, func(a, b loop) int { return cmp.Compare(a.from, b.from) })
	merged := loops[:0]
	for _, l := range loops {
		if n := len(merged); n > 0 && l.from <= merged[n-1].to {
			merged[n-1].to = max(merged[n-1].to, l.to)
			continue
		}
		merged = append(merged, l)
	}
	if len(merged) == 0 {
		return
	}
	for i := range all {
		l := &all[i]
		if l.last < l.first {
			continue
		}
		k, inside := slices.BinarySearchFunc(merged, l.first, func(x loop, at int32) int {
			switch {
			case x.to < at:
				return -1
			case x.from > at:
				return 1
			}
			return 0
		})
		if inside {
			l.first = merged[k].from
		}
		k, inside = slices.BinarySearchFunc(merged, l.last, func(x loop, at int32) int {
			switch {
			case x.to < at:
				return -1
			case x.from > at:
				return 1
			}
			return 0
		})
		if inside {
			l.last = merged[k].to
		}
	}
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
	i, _ := slices.BinarySearchFunc(*g, off, func(x gap, off int64) int { return cmp.Compare(x.off, off) })
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
