// Package names finds entries of a list by name, and names that stand twice.
package names

import "hash/maphash"

// A Table finds the index of a name in a list that it does not hold: it keeps
// four bytes a slot, at most half of them in use, and asks the list for names.
// Its hash is seeded anew for every table, so that no file can choose names
// that collide. It is safe for concurrent use once built.
type Table struct {
	seed  maphash.Seed
	name  func(i int) string
	slots []uint32 // index+1; 0 is free
}

// Build makes a table of name(0) … name(n-1). Of names that stand more than
// once the first is found; dup is the index of the second appearance that comes
// first in the list, or -1. It costs some 30 ns a name and one allocation of
// 8 to 16 bytes a name.
func Build(n int, name func(i int) string) (t *Table, dup int) {
	size := 8
	for size < 2*n {
		size *= 2
	}
	t = &Table{seed: maphash.MakeSeed(), name: name, slots: make([]uint32, size)}
	dup = -1
	for i := range n {
		s := name(i)
		slot := t.find(s)
		if t.slots[slot] == 0 {
			t.slots[slot] = uint32(i) + 1
		} else if dup < 0 {
			dup = i
		}
	}
	return t, dup
}

// Lookup returns the index of the first entry of that name, or -1. It allocates
// nothing.
func (t *Table) Lookup(name string) int { return int(t.slots[t.find(name)]) - 1 }

// find returns the slot that holds name, or the free one where it would go.
func (t *Table) find(name string) uint64 {
	mask := uint64(len(t.slots) - 1)
	slot := maphash.String(t.seed, name) & mask
	for t.slots[slot] != 0 && t.name(int(t.slots[slot])-1) != name {
		slot = (slot + 1) & mask
	}
	return slot
}
