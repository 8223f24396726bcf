// Package naming finds entries of a list by name, and makes names from files safe to show
// and to use as names of files.
package naming

import (
	"hash/maphash"
	"math/bits"
)

// A Table finds the index of a name in a list that it does not hold: it keeps
// four bytes a slot, half of them in use, and asks the list for names
// only where as much of their hashes agrees as a slot has bits for.
// Its hash is seeded anew for every table, so that no file can choose names
// that collide. It is safe for concurrent use.
type Table struct {
	seed  maphash.Seed
	name  func(i int) string
	slots []uint32 // an index plus one and, above it, lower bits of the name's hash; 0 is free
	index uint32   // the bits of a slot that an index takes
}

// Each is how many bytes a Table takes for a name.
const Each = 8

// Build makes a table of name(0) … name(n-1), which must not change. Among duplicate
// names the first is found; dup is the index of the first entry whose name an
// earlier one has, or -1. It costs tens of ns a name and one allocation.
func Build(n int, name func(i int) string) (t *Table, dup int) {
	t, dup = New(n, name), -1
	for i := range n {
		if !t.Add(i) && dup < 0 {
			dup = i
		}
	}
	return t, dup
}

// New makes an empty table of up to n
func New(n int, name func(i int) string) *Table {
	return &Table{seed: maphash.MakeSeed(), name: name, slots: make([]uint32, 2*n+2),
		index: 1<<bits.Len(uint(n)) - 1}
}

// Add adds name(i), which must not change from now on, with i < n, unless the table has
// that name: then it is false.
func (t *Table) Add(i int) bool {
	s := t.name(i)
	h := maphash.String(t.seed, s)
	at := t.find(s, h)
	if t.slots[at] != 0 {
		return false
	}
	t.slots[at] = t.slot(h, i)
	return true
}

// Lookup returns the index of the first entry of that name, or -1. It allocates
// nothing.
func (t *Table) Lookup(name string) int {
	at := t.find(name, maphash.String(t.seed, name))
	return t.at(at)
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
		if t.slots[at] == 0 || t.is(at, h) && t.name(t.at(at)) == name {
			return at
		}
		if at++; at == len(t.slots) {
			at = 0
		}
	}
}

// slot is what stands in a slot for entry i with the name of that hash.
func (t *Table) slot(h uint64, i int) uint32 { return uint32(h)&^t.index | uint32(i+1) }

// is reports whether the name in a slot may be one of that hash.
func (t *Table) is(at int, h uint64) bool { return (t.slots[at]^uint32(h))&^t.index == 0 }

// at is the index of the entry in a slot, -1 in a free one.
func (t *Table) at(at int) int { return int(t.slots[at]&t.index) - 1 }
