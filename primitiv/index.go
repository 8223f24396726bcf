package primitiv

import (
	"encoding/binary"
	"strings"

	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/tensor"
)

// What a Reader keeps of a file: a record a tensor, a row a parameter, dimensions and names, in pieces that never
// move, so that opening needs no more memory than stays.

// record is one tensor of a file.
type record struct {
	name  string // of a value: the path joined with dots, and what follows it in row.lens; of a statistic: its own name alone
	data  int64  // offset of the payload
	bytes uint32 // of the payload
	dims  uint32 // index in Reader.dims
	row   uint32 // index of its parameter in Reader.rows
	rank  uint8  // dimensions, the batch included where it is above 1
	batch bool   // the last dimension is the batch
	stat  bool   // a statistic
}

// row is one parameter: a value, and the statistics that follow it in Reader.records, up to the value of the next row.
type row struct {
	first  uint32 // index of the value in Reader.records
	lens   uint32 // bytes after the joined path: the lengths of the path's elements as uvarints; 0 for one element
	offset int64  // where it begins in the file
}

const chunkBits = 13

// A slab is a list that grows in pieces.
type slab[T any] struct {
	chunks [][]T
	n      int
}

func (s *slab[T]) at(i int) *T { return &s.chunks[i>>chunkBits][i&(1<<chunkBits-1)] }

func (s *slab[T]) push(v T) {
	i := s.n >> chunkBits
	switch {
	case i < len(s.chunks):
		if c := s.chunks[i]; len(c) == cap(c) { // the first one grows, since most files are small
			s.chunks[i] = append(make([]T, 0, min(2*cap(c), 1<<chunkBits)), c...)
		}
	case i == 0:
		s.chunks = append(s.chunks, make([]T, 0, 8))
	default:
		s.chunks = append(s.chunks, make([]T, 0, 1<<chunkBits))
	}
	s.chunks[i] = append(s.chunks[i], v)
	s.n++
}

// truncate drops what is beyond the first n entries.
func (s *slab[T]) truncate(n int) {
	for s.n > n {
		last := len(s.chunks) - 1
		keep := max(0, n-last<<chunkBits)
		clear(s.chunks[last][keep:])
		s.chunks[last] = s.chunks[last][:keep]
		s.n = last<<chunkBits + keep
		if keep == 0 {
			s.chunks = s.chunks[:last]
		}
	}
}

// dimensions is a slab of runs of at most maxRank+1 numbers.
type dimensions struct {
	slab[int64]
}

// run adds the numbers and returns the index of the first.
func (d *dimensions) run(dims []int64) uint32 {
	if room := 1<<chunkBits - d.n&(1<<chunkBits-1); room < len(dims) {
		for range room {
			d.push(0)
		}
	}
	at := d.n
	for _, v := range dims {
		d.push(v)
	}
	return uint32(at)
}

func (d *dimensions) shape(at uint32, rank uint8) tensor.Shape {
	if rank == 0 {
		return tensor.Shape{}
	}
	chunk, i := d.chunks[at>>chunkBits], at&(1<<chunkBits-1)
	return chunk[i : i+uint32(rank) : i+uint32(rank)]
}

// An arena keeps strings.
type arena struct {
	room []byte
	size int
}

// copy returns b as a string that stays.
func (a *arena) copy(b []byte) string {
	if len(b) > cap(a.room)-len(a.room) {
		if len(b) > 1<<10 {
			return string(b)
		}
		a.size = min(max(2*a.size, 1<<10), 64<<10)
		a.room = make([]byte, 0, a.size)
	}
	at := len(a.room)
	a.room = append(a.room, b...)
	return le.String(a.room[at:])
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
