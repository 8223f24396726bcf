package pte

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/tensorfile/tensorfile/tensor"
)

// A PartKind says what a range of the file is for.
type PartKind uint8

// The kinds of parts.
const (
	PartHeader     PartKind = iota // root offset, identifier and extended header
	PartFlatbuffer                 // all but inline constants and payloads, which have their own parts
	PartConstant
	PartState // initial values of mutable tensors
	PartDelegate
	PartNamed
	PartUnused  // segments that nothing refers to, and holes
	PartPadding // between parts, as far as alignment explains it
	PartTrailing
	PartBundle // what a .bpte has around its program
)

var partNames = [...]string{"header", "flatbuffer", "constant", "state", "delegate", "named data",
	"unused", "padding", "trailing", "bundle"}

func (k PartKind) String() string {
	if int(k) < len(partNames) {
		return partNames[k]
	}
	return fmt.Sprintf("PartKind(%d)", k)
}

// A gap that is longer than any alignment in use is a hole: it may be as large as a
// sparse file.
const longestPadding = 16384

// A Part is a range of the file.
type Part struct {
	Offset, Size int64
	Kind         PartKind
	// Name is that of the tensor or blob whose bytes they are: the first that refers to
	// them.
	Name string
}

// Layout yields what every byte of the file is for, without gaps and without overlaps, in
// the order of offsets.
func (r *Reader) Layout() iter.Seq[Part] {
	return func(yield func(Part) bool) {
		at := int64(0)
		emit := func(end int64, kind PartKind, name string) bool {
			if end <= at {
				return true
			}
			p := Part{at, end - at, kind, name}
			if kind == PartPadding && p.Size > longestPadding {
				p.Kind = PartUnused
			}
			at = end
			return yield(p)
		}
		if !emit(r.at, PartBundle, "") {
			return
		}
		head := int64(8)
		if r.header.Length > 0 {
			head = 8 + r.header.Length
		}
		if !emit(r.at+head, PartHeader, "") {
			return
		}
		program := r.at + r.header.ProgramSize
		end := r.dataEnd()
		gap := PartFlatbuffer
		for _, p := range r.parts() {
			if p.Offset >= program && at < program {
				if !emit(program, PartFlatbuffer, "") {
					return
				}
			}
			if p.Offset >= program {
				gap = PartPadding
			}
			if !emit(p.Offset, gap, "") || !emit(p.Offset+p.Size, p.Kind, p.Name) {
				return
			}
		}
		if !emit(program, PartFlatbuffer, "") || !emit(end, PartPadding,
			"") || !emit(r.size, PartTrailing, "") {
			return
		}
		emit(r.src.Size(), PartBundle, "")
	}
}

// dataEnd is where the last segment ends, padding that the header counts included.
func (r *Reader) dataEnd() int64 {
	end := r.at + max(r.header.ProgramSize, r.header.SegmentBase+r.header.SegmentDataSize)
	for _, s := range r.segments {
		if s.size > 0 {
			end = max(end, s.off+s.size)
		}
	}
	return end
}

// parts are the ranges of payloads, in the order of offsets; they may overlap.
func (r *Reader) parts() []Part {
	var all []Part
	add := func(kind PartKind, name string, b tensor.Blob) {
		if s, ok := b.Stored(); ok && s.Size > 0 && s.Offset >= 0 {
			all = append(all, Part{s.Offset, s.Size, kind, name})
		}
	}
	seen := make(map[extent]bool)
	for e := range r.Entries() {
		s, ok := e.Data.Stored()
		if x := (extent{s.Offset, s.Size}); !ok || seen[x] {
			continue // a shared constant is one part
		} else {
			seen[x] = true
		}
		kind := PartConstant
		if e.Role.Mutable() {
			kind = PartState
		}
		add(kind, e.Name, e.Data)
	}
	for m := range r.Program().Methods() {
		for _, d := range m.Delegates() {
			add(PartDelegate, delegateName(m.Name(), d.Index), d.Payload)
		}
	}
	for d := range r.Program().NamedData() {
		add(PartNamed, blobPrefix+d.Key, d.Data)
	}
	all = append(all, r.unused(all)...)
	for _, s := range r.Program().Segments() {
		if len(s.Roles) == 0 && s.Size > 0 {
			all = append(all, Part{s.Offset, s.Size, PartUnused,
				"segment/" + strconv.Itoa(s.Index)})
		}
	}
	slices.SortStableFunc(all, func(a,
		b Part) int { // a longer one first: what it hides is inside it
		if c := cmp.Compare(a.Offset, b.Offset); c != 0 {
			return c
		}
		return cmp.Compare(b.Size, a.Size)
	})
	return all
}

// unused are the elements of the lists of constants and initial values that no tensor
// uses.
func (r *Reader) unused(used []Part) []Part {
	starts := make(map[int64]bool, len(used))
	for _, p := range used {
		starts[p.Offset] = true
	}
	var all []Part
	for _, p := range []*pool{&r.constants, &r.initials} {
		if p.t == nil || p.bad != nil {
			continue
		}
		offsets := make([]int64, 0, p.len())
		for k := 1; k < p.len(); k++ {
			if o := u64s(p.offsets, k); o <= uint64(p.segment.size) {
				offsets = append(offsets, int64(o))
			}
		}
		slices.Sort(offsets)
		for k, o := range offsets {
			end := p.segment.size
			if k+1 < len(offsets) {
				end = offsets[k+1]
			}
			if end > o && !starts[p.segment.off+o] {
				all = append(all, Part{p.segment.off + o, end - o, PartUnused, ""})
			}
		}
	}
	return all
}
