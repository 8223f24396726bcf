// Package names finds entries of a list by name, and names that stand twice.
package names

import (
	"hash/maphash"
	"math/bits"
)

// A List is what a Table finds its way in. The names of the first n entries, n
// being what Fill got, must not change.
type List interface {
	// NameAt is the name of an entry.
	NameAt(i int) string
}

// A Func is a List of one function.
type Func func(i int) string

func (f Func) NameAt(i int) string { return f(i) }

// A Table finds the index of a name in a list that it does not hold: it keeps
// four bytes a slot, half of them in use, and asks the list for names
// only where as much of their hashes agrees as a slot has room for.
// Its hash is seeded anew for every table, so that no file can choose names
// that collide. It is safe for concurrent use once filled.
type Table struct {
	seed  maphash.Seed
	list  List
	slots []uint32 // an index plus one and, above it, lower bits of the name's hash; 0 is free
	index uint32   // the bits of a slot that an index takes

	touched uint32 // keeps Fill's looks ahead from being left out
}

// Each is how many bytes a Table takes for a name.
const Each = 8

// Build makes a table of name(0) … name(n-1), see Fill.
func Build(n int, name func(i int) string) (t *Table, dup int) {
	t = new(Table)
	return t, t.Fill(n, Func(name))
}

// Fill makes t a table of the first n names of list. Of names that stand more
// than once the first is found; dup is the index of the second appearance that
// comes first in the list, or -1. It costs tens of ns a name and one allocation.
func (t *Table) Fill(n int, list List) (dup int) {
	*t = Table{seed: maphash.MakeSeed(), list: list, slots: make([]uint32, 2*n+2), index: 1<<bits.Len(uint(n)) - 1}
	dup = -1
	// A few names at a time: where they go is then on its way from memory for
	// all of them at once, before it decides anything.
	var ahead [16]struct {
		name string
		hash uint64
	}
	for i := 0; i < n; i += len(ahead) {
		few := ahead[:min(len(ahead), n-i)]
		for k := range few {
			s := list.NameAt(i + k)
			h := maphash.String(t.seed, s)
			few[k].name, few[k].hash = s, h
			t.touched |= t.slots[t.first(h)]
		}
		for k := range few {
			at := t.find(few[k].name, few[k].hash)
			if t.slots[at] == 0 {
				t.slots[at] = uint32(few[k].hash)&^t.index | uint32(i+k+1)
			} else if dup < 0 {
				dup = i + k
			}
		}
	}
	return dup
}

// Lookup returns the index of the first entry of that name, or -1. It allocates
// nothing.
func (t *Table) Lookup(name string) int {
	at := t.find(name, maphash.String(t.seed, name))
	return int(t.slots[at]&t.index) - 1
}

// first is where to begin to look for a name: the upper bits of its hash, as a
// part of the length.
func (t *Table) first(h uint64) int {
	hi, _ := bits.Mul64(h, uint64(len(t.slots)))
	return int(hi)
}

// find returns the slot that holds a name of that hash, or the free one where it
// would go.
func (t *Table) find(name string, h uint64) (at int) {
	at = t.first(h)
	for {
		s := t.slots[at]
		if s == 0 || (s^uint32(h))&^t.index == 0 && t.list.NameAt(int(s&t.index)-1) == name {
			return at
		}
		if at++; at == len(t.slots) {
			at = 0
		}
	}
}
