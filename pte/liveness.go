package pte

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

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
	slices.SortFunc(l.loops, func(a, b life) int { return cmp.Compare(a.first, b.first) })
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
