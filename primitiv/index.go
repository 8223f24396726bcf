package primitiv

import (
	"encoding/binary"
	"strings"

	"github.com/tensorfile/tensorfile/tensor"
)

// What a Reader keeps of a file: a record a tensor, dimensions and names, in pieces that never move, so that opening
// needs no more memory than stays, and without pointers, so that the collector has no work with them.

// record is one tensor of a file. The statistics of a parameter follow its value.
type record struct {
	data  int64   // offset of the payload
	bytes uint32  // of the payload
	name  nameRef // of a value: the path joined with dots, and then how to take it apart; of a statistic: its name alone
	dims  uint32  // index in Reader.dims
	owner uint32  // of a statistic: the record of its value; of a value: bytes of name after the joined path
	rank  uint8   // dimensions, the batch included where it is above 1
	count uint8   // of a value: bytes of the number of its statistics
	flags uint8
}

const (
	isStat    = 1 << iota // a statistic, not a value
	isBatched             // the last dimension is the batch
)

func (rec *record) stat() bool { return rec.flags&isStat != 0 }

const chunkBits = 13

// A slab is a list that grows in pieces.
type slab[T any] struct {
	chunks [][]T
	n      int
	last   []T // the last chunk
	used   int // entries of it
}

// expect makes the first chunk as large as n entries need, if there is room for so many in the file.
func (s *slab[T]) expect(n int64) {
	if len(s.chunks) == 0 && n > 0 {
		s.last = make([]T, min(n, 1<<chunkBits))
		s.chunks = append(s.chunks, s.last)
	}
}

func (s *slab[T]) at(i int) *T { return &s.chunks[i>>chunkBits][i&(1<<chunkBits-1)] }

// push adds an entry, to be filled in.
func (s *slab[T]) push() *T {
	if s.used == len(s.last) {
		s.grow()
	}
	v := &s.last[s.used]
	s.used++
	s.n++
	return v
}

// grow makes room. The first chunk is small at first, like most files.
func (s *slab[T]) grow() {
	const full = 1 << chunkBits
	switch n := len(s.chunks); {
	case n == 1 && len(s.chunks[0]) < full:
		chunk := make([]T, min(2*len(s.chunks[0]), full))
		copy(chunk, s.chunks[0])
		s.chunks[0], s.last = chunk, chunk
	case n == 0:
		s.last = make([]T, 8)
		s.chunks = append(s.chunks, s.last)
	default:
		s.last, s.used = make([]T, full), 0
		s.chunks = append(s.chunks, s.last)
	}
}

// truncate drops what is beyond the first n entries.
func (s *slab[T]) truncate(n int) {
	if n == s.n {
		return
	}
	last := n >> chunkBits
	s.last, s.used = s.chunks[last], n&(1<<chunkBits-1)
	clear(s.last[s.used:])
	s.chunks = s.chunks[:last+1]
	s.n = n
}

// dimensions is a slab of runs of at most maxRank+1 numbers. Tensors of one shape share a run where that is easily seen.
type dimensions struct {
	slab[int64]
	recent [16]struct {
		at   uint32
		rank uint8
	}
}

// run returns the index of the first number of a run of these numbers, the last of them batch if it is above 1.
func (d *dimensions) run(dims []uint32, batch uint32, elements int64) (at uint32, rank uint8) {
	rank = uint8(len(dims))
	if batch > 1 {
		rank++
	}
	if rank == 0 {
		return 0, 0
	}
	recent := &d.recent[uint64(elements)*0x9e3779b97f4a7c15>>60]
	if recent.rank == rank && batch <= 1 {
		same := true
		for i, v := range d.shape(recent.at, rank) {
			same = same && v == int64(dims[i])
		}
		if same {
			return recent.at, rank
		}
	}
	for len(d.last)-d.used < int(rank) {
		if len(d.last) == 1<<chunkBits {
			d.n += len(d.last) - d.used // a run stays in one chunk
		}
		d.grow()
	}
	at = uint32(d.n)
	for _, v := range dims {
		*d.push() = int64(v)
	}
	if batch > 1 {
		*d.push() = int64(batch)
	}
	recent.at, recent.rank = at, rank
	return at, rank
}

func (d *dimensions) shape(at uint32, rank uint8) tensor.Shape {
	if rank == 0 {
		return tensor.Shape{}
	}
	chunk, i := d.chunks[at>>chunkBits], at&(1<<chunkBits-1)
	return chunk[i : i+uint32(rank) : i+uint32(rank)]
}

const nameBits = 16

// A nameRef is a string in an arena.
type nameRef struct {
	at uint32 // place in the chunks, or index in long
	n  uint32 // bytes
}

// An arena keeps strings, in chunks of 64 KiB, and longer ones by themselves.
type arena struct {
	chunks []string
	last   strings.Builder // the last chunk; its memory is not cleared before use
	long   []string
}

// mostNames is how many bytes an arena holds in any case: all of its 32 bits, but for ends of chunks that are too short
// for the next name.
const mostNames = 1 << 31

// expect makes the first chunk as large as n names mostly need.
func (a *arena) expect(n int64) {
	if len(a.chunks) == 0 && n > 0 {
		a.chunks = append(a.chunks, "")
		a.last.Grow(int(min(40*n, 1<<nameBits)))
	}
}

// keep adds a string.
func (a *arena) keep(b []byte) nameRef {
	n := len(b)
	if n > 1<<nameBits {
		a.long = append(a.long, string(b))
		return nameRef{uint32(len(a.long) - 1), uint32(n)}
	}
	if n > a.last.Cap()-a.last.Len() {
		a.grow(n)
	}
	at := a.last.Len()
	a.last.Write(b)
	return nameRef{uint32((len(a.chunks)-1)<<nameBits + at), uint32(n)}
}

// grow makes room for n bytes. The first chunk is small at first, like most files; strings out of it keep what it was.
func (a *arena) grow(n int) {
	const full = 1 << nameBits
	size := full
	old := a.last.String()
	switch have := len(old); {
	case len(a.chunks) == 0:
		size = max(n, 256)
		a.chunks = append(a.chunks, "")
	case len(a.chunks) == 1 && have+n <= full:
		size = min(max(2*have, have+n), full)
	default:
		a.chunks[len(a.chunks)-1] = old
		a.chunks = append(a.chunks, "")
		old = ""
	}
	a.last = strings.Builder{}
	a.last.Grow(size)
	a.last.WriteString(old)
}

func (a *arena) name(r nameRef) string {
	if r.n > 1<<nameBits {
		return a.long[r.at]
	}
	chunk := a.last.String()
	if i := int(r.at >> nameBits); i < len(a.chunks)-1 {
		chunk = a.chunks[i]
	}
	off := r.at & (1<<nameBits - 1)
	return chunk[off : off+r.n]
}

// An elements walks through the elements of a path that is kept joined.
type elements struct {
	name, lens string
	done       bool
}

func (e *elements) next() (elem string, ok bool) {
	switch {
	case e.done:
		return "", false
	case e.lens == "":
		e.done = true
		return e.name, true
	}
	n, used := uvarint(e.lens)
	elem, e.lens = e.name[:n], e.lens[used:]
	if e.lens == "" {
		e.done = true
	} else {
		e.name = e.name[n+1:]
	}
	return elem, true
}

func uvarint(s string) (n, used int) {
	for shift := 0; ; shift += 7 {
		c := s[used]
		used++
		n |= int(c&0x7f) << shift
		if c < 0x80 {
			return n, used
		}
	}
}

// joinPath returns a path joined with dots, and what is needed to take it apart again.
func joinPath(path []string) (name, lens string) {
	if len(path) == 1 {
		return path[0], ""
	}
	var b []byte
	for _, e := range path {
		b = binary.AppendUvarint(b, uint64(len(e)))
	}
	return strings.Join(path, "."), string(b)
}

func splitPath(name, lens string) []string {
	path := make([]string, 0, max(1, len(lens)))
	it := elements{name: name, lens: lens}
	for e, ok := it.next(); ok; e, ok = it.next() {
		path = append(path, e)
	}
	return path
}

// comparePaths orders paths as files have them: element by element, as bytes. inside reports that b lies below a, so
// that a model cannot have both.
func comparePaths(aName, aLens, bName, bLens string) (cmp int, inside bool) {
	if aLens == "" && bLens == "" {
		return strings.Compare(aName, bName), false
	}
	a, b := elements{name: aName, lens: aLens}, elements{name: bName, lens: bLens}
	for {
		x, more := a.next()
		y, ok := b.next()
		switch {
		case !more && !ok:
			return 0, false
		case !more:
			return -1, true
		case !ok:
			return 1, false
		}
		if c := strings.Compare(x, y); c != 0 {
			return c, false
		}
	}
}
