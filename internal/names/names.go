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
	if len(t.slots) == Slots(n) {
		clear(t.slots)
	} else {
		t.slots = make([]uint32, Slots(n))
	}
	t.Start(n, list, t.slots)
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
				t.slots[at] = t.slot(few[k].hash, i+k)
			} else if dup < 0 {
				dup = i + k
			}
		}
	}
	return dup
}

// Start makes t a table that has room for the first n names of list, and none of
// them yet: Fillers bring them. It keeps slots, which are zero and Slots(n) long.
func (t *Table) Start(n int, list List, slots []uint32) {
	*t = Table{seed: maphash.MakeSeed(), list: list, slots: slots, index: 1<<bits.Len(uint(n)) - 1}
}

// Slots is how many slots a table of n names has.
func Slots(n int) int { return 2*n + 2 }

// Hash is what Fillers want to know of a name: at best while its bytes are near.
func (t *Table) Hash(name string) uint64 { return maphash.String(t.seed, name) }

// A Filler brings names into one part of a Table while others bring theirs into
// the other parts, each on a goroutine: so that none waits for what another has
// written. The zero value is ready.
type Filler struct {
	late  [32]uint32 // names that there was no free slot for up to the end of the part
	lates int
	again bool // one of the names is there already
}

// Fill brings the names, of which hashes are those of all in the order of the list,
// that belong into part k of n.
func (f *Filler) Fill(t *Table, hashes []uint64, k, n int) {
	lo, hi := len(t.slots)*k/n, len(t.slots)*(k+1)/n
	for i, h := range hashes {
		at := t.first(h)
		if at < lo || at >= hi {
			continue
		}
		for at < hi && t.slots[at] != 0 {
			if t.is(at, h) && t.list.NameAt(t.at(at)) == t.list.NameAt(i) {
				f.again = true
				return
			}
			at++
		}
		switch {
		case at < hi:
			t.slots[at] = t.slot(h, i)
		case f.lates < len(f.late):
			f.late[f.lates] = uint32(i)
			f.lates++
		default: // hardly any table has so many
			f.again = true
			return
		}
	}
}

// Finish brings what Fill left over, when all Fillers have done that: one Finish at a
// time. It answers false if the table is not to be used: a name may stand twice,
// which Table.Fill tells for sure.
func (f *Filler) Finish(t *Table, hashes []uint64) bool {
	for _, i := range f.late[:f.lates] {
		at := t.find(t.list.NameAt(int(i)), hashes[i])
		if t.slots[at] != 0 {
			return false
		}
		t.slots[at] = t.slot(hashes[i], int(i))
	}
	return !f.again
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
		if t.slots[at] == 0 || t.is(at, h) && t.list.NameAt(t.at(at)) == name {
			return at
		}
		if at++; at == len(t.slots) {
			at = 0
		}
	}
}

// slot is what stands in a slot for entry i with the name of that hash.
func (t *Table) slot(h uint64, i int) uint32 { return uint32(h)&^t.index | uint32(i+1) }

// is tells whether the name in a slot may be one of that hash.
func (t *Table) is(at int, h uint64) bool { return (t.slots[at]^uint32(h))&^t.index == 0 }

// at is the index of the entry in a slot, -1 in a free one.
func (t *Table) at(at int) int { return int(t.slots[at]&t.index) - 1 }
