package format

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

	"github.com/tensorfile/tensorfile/tensor"
)

// A PatchedFile is a file with other bytes over some ranges of it.
type PatchedFile struct {
	file func(off, size int64) tensor.Blob
	over []Section // by offset, without overlap
}

// NewPatchedFile puts pieces over a file, whose ranges file returns. Two that overlap are
// an error.
func NewPatchedFile(file func(off, size int64) tensor.Blob, over []Section) (*PatchedFile, error) {
	sort.Slice(over, func(i, j int) bool { return over[i].Off < over[j].Off })
	for i := 1; i < len(over); i++ {
		if a, b := &over[i-1], &over[i]; a.Off+a.Size > b.Off {
			return nil, fmt.Errorf("replaced tensors overlap at bytes %d and %d", a.Off, b.Off)
		}
	}
	return &PatchedFile{file, over}, nil
}

// from returns the index of the first piece that ends after off.
func (o *PatchedFile) from(off int64) int {
	i, _ := slices.BinarySearchFunc(o.over, off, func(p Section, off int64) int {
		return cmp.Compare(p.Off+p.Size, off+1)
	})
	return i
}

// Changes reports whether there is another byte in a range of the file.
func (o *PatchedFile) Changes(off, size int64) bool {
	i := o.from(off)
	return size > 0 && i < len(o.over) && o.over[i].Off < off+size
}

// Section returns a range of the file, to be written at at.
func (o *PatchedFile) Section(off, size, at int64) []Section {
	var all []Section
	end := off + size
	add := func(name string, size int64, data tensor.Blob) {
		all = append(all, Section{Name: name, Off: at, Size: size, Data: data})
		off, at = off+size, at+size
	}
	keep := func(end int64) {
		if off < end {
			add("original", end-off, o.file(off, end-off))
		}
	}
	for _, p := range o.over[o.from(off):] {
		if p.Off >= end {
			break
		}
		keep(p.Off)
		from, to := max(p.Off, off)-p.Off, min(p.Off+p.Size, end)-p.Off
		if to-from < p.Size {
			p.Data, _ = p.Data.Section(from, to-from)
		}
		add(p.Name, to-from, p.Data)
	}
	keep(end)
	return all
}

// Users are the ranges of a file that something is stored in, by a number each.
type Users struct{ list []user }

type user struct {
	off, size int64
	end       int64 // the largest end of this range and all before it
	id        int
}

// Add notes a range; empty ones are left out.
func (u *Users) Add(off, size int64, id int) {
	if size > 0 {
		u.list = append(u.list, user{off: off, size: size, id: id})
	}
}

// Sort is called once, after Add and before Of.
func (u *Users) Sort() {
	sort.SliceStable(u.list, func(i, j int) bool { return u.list[i].off < u.list[j].off })
	end := int64(0)
	for i := range u.list {
		end = max(end, u.list[i].off+u.list[i].size)
		u.list[i].end = end
	}
}

// Of returns who has bytes in a range, by offset.
func (u *Users) Of(off, size int64) []int {
	var ids []int
	i, _ := slices.BinarySearchFunc(u.list, off+size,
		func(x user, end int64) int { return cmp.Compare(x.off, end) })
	for i--; i >= 0 && u.list[i].end > off; i-- {
		if x := &u.list[i]; x.off+x.size > off {
			ids = append(ids, x.id)
		}
	}
	slices.Reverse(ids)
	return ids
}
