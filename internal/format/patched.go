package format

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

	"github.com/tensorfile/tensorfile/tensor"
)

// A PatchedFile is a file in which other bytes replace some ranges.
type PatchedFile struct {
	file    func(off, size int64) tensor.Blob
	patches []Section // by offset, without overlap
}

// NewPatchedFile returns a file with patches. file returns a range of the original. It
// fails if two patches overlap.
func NewPatchedFile(file func(off, size int64) tensor.Blob,
	patches []Section) (*PatchedFile, error) {
	sort.Slice(patches, func(i, j int) bool { return patches[i].Off < patches[j].Off })
	for i := 1; i < len(patches); i++ {
		if a, b := &patches[i-1], &patches[i]; a.Off+a.Size > b.Off {
			return nil, fmt.Errorf("replaced tensors overlap at bytes %d and %d", a.Off, b.Off)
		}
	}
	return &PatchedFile{file, patches}, nil
}

// from returns the index of the first patch that ends after off.
func (f *PatchedFile) from(off int64) int {
	i, _ := slices.BinarySearchFunc(f.patches, off, func(p Section, off int64) int {
		return cmp.Compare(p.Off+p.Size, off+1)
	})
	return i
}

// Changes reports whether a patch has bytes in a range of the file.
func (f *PatchedFile) Changes(off, size int64) bool {
	i := f.from(off)
	return size > 0 && i < len(f.patches) && f.patches[i].Off < off+size
}

// Sections returns a range of the file as sections that are written from offset at on.
func (f *PatchedFile) Sections(off, size, at int64) []Section {
	var all []Section
	end := off + size
	add := func(name string, size int64, data tensor.Blob) {
		all = append(all, Section{Name: name, Off: at, Size: size, Data: data})
		off, at = off+size, at+size
	}
	keep := func(end int64) {
		if off < end {
			add("original", end-off, f.file(off, end-off))
		}
	}
	for _, p := range f.patches[f.from(off):] {
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

// Ranges finds which of many ranges of a file have bytes in common with another range.
type Ranges struct{ list []byteRange }

type byteRange struct {
	off, size int64
	end       int64 // the largest end of this range and all before it
	id        int
}

// Add adds a range, which id stands for; empty ranges are left out.
func (r *Ranges) Add(off, size int64, id int) {
	if size > 0 {
		r.list = append(r.list, byteRange{off: off, size: size, id: id})
	}
}

// Sort is called once, after Add and before Overlapping.
func (r *Ranges) Sort() {
	sort.SliceStable(r.list, func(i, j int) bool { return r.list[i].off < r.list[j].off })
	end := int64(0)
	for i := range r.list {
		end = max(end, r.list[i].off+r.list[i].size)
		r.list[i].end = end
	}
}

// Overlapping returns the ids of the ranges that have bytes in a range, by offset.
func (r *Ranges) Overlapping(off, size int64) []int {
	var ids []int
	i, _ := slices.BinarySearchFunc(r.list, off+size,
		func(x byteRange, end int64) int { return cmp.Compare(x.off, end) })
	for i--; i >= 0 && r.list[i].end > off; i-- {
		if x := &r.list[i]; x.off+x.size > off {
			ids = append(ids, x.id)
		}
	}
	slices.Reverse(ids)
	return ids
}
