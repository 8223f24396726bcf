package rten

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/rtenfb"
	"github.com/tensorfile/tensorfile/tensor"
)

// A version 1 file is one flatbuffer with all weights in it. Of a large one that is mapped only the blocks are copied that have
// something else than weights in them, and its offsets are led there: what is copied is a smaller flatbuffer, which nobody can
// change and which is then verified as any other. The weights stay in the file.

// compactFrom is the size from which that is worth walking the model twice more.
const compactFrom = 16 << 20

// blockSize is a multiple of every alignment, so that positions in a block keep theirs.
const blockSize = 1 << 10

// A compaction says where the blocks of a compact flatbuffer are in the file.
type compaction struct {
	origin    []uint32           // of each block, in blocks
	elsewhere map[int]inlineData // by the position of the length of a vector whose elements were left out
}

type inlineData struct{ off, count int64 }

// filePos is where a byte of the buffer is in the file.
func (m *Model) filePos(pos int) int64 {
	if m.compact != nil && pos < len(m.buf) {
		return int64(m.compact.origin[pos/blockSize])*blockSize + int64(pos%blockSize)
	}
	return m.base + int64(pos)
}

// elements answers where in the file the elements of a constant's data are, and how many; data is a FloatData or one of its like.
func (m *Model) elements(data int) (off, count int64, first int) {
	first, n := m.vector(data, slotFirst)
	if m.compact != nil {
		if e, ok := m.compact.elsewhere[first-4]; ok {
			return e.off, e.count, first
		}
	}
	return m.filePos(first), int64(n), first
}

// compacted makes the compact flatbuffer of a model that lies in a mapping, or nil where that cannot be done: the model has content
// that a walk does not reach, or parts that are several things at once. The error is what check finds.
func (r *Reader) compacted(all []byte, limits tensor.Limits) (m *Model, err error) {
	defer changing(&err)
	mapped := &Model{r: r, buf: all}
	if err := mapped.check(limits); err != nil {
		return nil, err
	}
	if mapped.unknown() != "" {
		return nil, nil
	}
	b := newBlocks(len(all))
	b.add(0, 8)
	mapped.parts(func(from, n int) { b.add(from, n) }, func(int, int) {}, func(int, int, int) {})
	b.count()
	out := make([]byte, b.kept)
	m = &Model{r: r, buf: out, compact: &compaction{elsewhere: make(map[int]inlineData)}}
	for i, at := 0, 0; at < len(out); i++ {
		if b.has(i) {
			m.compact.origin = append(m.compact.origin, uint32(i))
			at += copy(out[at:], all[i*blockSize:min((i+1)*blockSize, len(all))])
		}
	}
	put := func(at int, x int) { binary.LittleEndian.PutUint32(out[b.to(at):], uint32(x)) }
	put(0, b.to(mapped.root()))
	mapped.parts(func(int, int) {}, func(at, to int) {
		put(at, b.to(to)-b.to(at))
	}, func(first, n, bytes int) {
		if end := first + bytes; bytes > 0 && (!b.has((end-1)/blockSize) || !b.has(first/blockSize) || b.to(end-1)-b.to(first) != bytes-1) {
			m.compact.elsewhere[b.to(first-4)] = inlineData{int64(first), int64(n)}
			put(first-4, 0)
		}
	})
	mapped.walk(func(_ *step, pos int, _ *fb.Table) bool {
		vtable := pos - int(int32(mapped.u32(pos)))
		put(pos, b.to(pos)-b.to(vtable))
		return true
	})
	if m.check(limits) != nil || !m.like(m.root(), mapped, mapped.root(), rtenfb.TableModel) {
		return nil, nil
	}
	return m, nil
}

// changing makes an error of a panic. In a mapping what was verified may change before it is read again, which can make anything
// panic that relies on it; what reports a fault goes on, to Scan.
func changing(err *error) {
	switch e := recover().(type) {
	case nil:
	case interface{ Addr() uintptr }:
		panic(e)
	default:
		*err = failed(0, "model", fmt.Errorf("%w: it changed while it was read", tensor.ErrMalformed))
	}
}

// verifyMapped verifies a version 1 file in place.
func verifyMapped(all []byte) (err error) {
	defer changing(&err)
	m := &Model{r: &Reader{size: int64(len(all))}, buf: all}
	return m.check(tensor.Limits{MaxMetadata: maxModel}.WithDefaults())
}

// like compares a table with one of another model, and all below: everything but the elements of constants, which must stand at the
// same place in the file.
func (m *Model) like(pos int, other *Model, otherPos int, table int) bool {
	t := &rtenfb.Schema.Tables[table]
	for i := range t.Fields {
		f := &t.Fields[i]
		slot := int(f.Slot)
		a, b := m.field(pos, slot), other.field(otherPos, slot)
		if a == 0 || b == 0 {
			if a != b {
				return false
			}
			continue
		}
		var x, n, y, k int
		if f.Kind != fb.Scalar {
			x, n = m.vector(pos, slot)
			y, k = other.vector(otherPos, slot)
		}
		ok := true
		switch f.Kind {
		case fb.Scalar:
			ok = string(m.buf[a:][:f.Size]) == string(other.buf[b:][:f.Size])
		case fb.String:
			ok = string(m.buf[x:][:n]) == string(other.buf[y:][:k])
		case fb.Scalars:
			if isElements(t) {
				off, count, _ := m.elements(pos)
				otherOff, otherCount, _ := other.elements(otherPos)
				ok = off == otherOff && count == otherCount
			} else {
				ok = string(m.buf[x:][:n*int(f.Size)]) == string(other.buf[y:][:k*int(f.Size)])
			}
		case fb.Child:
			ok = m.like(m.follow(a), other, other.follow(b), int(f.Index))
		case fb.Union:
			member := rtenfb.Schema.Unions[f.Index].Members[m.tag(pos, slot-2)] // compared before
			ok = m.like(m.follow(a), other, other.follow(b), int(member))
		case fb.Tables:
			ok = n == k
			for j := 0; ok && j < n; j++ {
				ok = m.like(m.follow(x+4*j), other, other.follow(y+4*j), int(f.Index))
			}
		}
		if !ok {
			return false
		}
	}
	return true
}

// parts tells of everything that the schema knows in a model: ranges that are no weights, offsets, and the elements of constants
// with their number and size.
func (m *Model) parts(part func(from, n int), offset func(at, to int), elements func(first, n, bytes int)) {
	m.walk(func(_ *step, pos int, t *fb.Table) bool {
		vtable := pos - int(int32(m.u32(pos)))
		part(pos, 4)
		part(vtable, m.u16(vtable))
		for i := range t.Fields {
			f := &t.Fields[i]
			at := m.field(pos, int(f.Slot))
			switch {
			case at == 0:
				continue
			case f.Kind == fb.Scalar:
				part(pos, at-pos+int(f.Size)) // all from the start of the table, that none of it moves against the rest
				continue
			}
			part(pos, at-pos+4)
			offset(at, m.follow(at))
			v, n := m.vector(pos, int(f.Slot))
			switch f.Kind {
			case fb.String:
				part(v-4, n+5)
			case fb.Scalars:
				part(v-4, 4)
				if isElements(t) {
					elements(v, n, n*int(f.Size))
				} else {
					part(v, n*int(f.Size))
				}
			case fb.Tables:
				part(v-4, 4+4*n)
				for j := range n {
					offset(v+4*j, m.follow(v+4*j))
				}
			}
		}
		return true
	})
}

// isElements tells whether tables of that type hold the elements of a constant.
func isElements(t *fb.Table) bool {
	for _, i := range elementTables[1:] {
		if t == &rtenfb.Schema.Tables[i] {
			return true
		}
	}
	return false
}

// blocks is a set of the blocks of a buffer.
type blocks struct {
	words  []uint64
	before []uint32 // blocks of the set before each word
	n      int      // bytes of the buffer
	kept   int      // bytes of the set
}

func newBlocks(n int) *blocks {
	return &blocks{words: make([]uint64, n/blockSize/64+1), n: n}
}

// add adds the blocks that n bytes at from are in.
func (b *blocks) add(from, n int) {
	if n > 0 {
		for i := from / blockSize; i <= (from+n-1)/blockSize; i++ {
			b.words[i/64] |= 1 << (i % 64)
		}
	}
}

func (b *blocks) has(i int) bool { return b.words[i/64]>>(i%64)&1 != 0 }

// count ends the adding.
func (b *blocks) count() {
	b.before = make([]uint32, len(b.words))
	n := uint32(0)
	for i, w := range b.words {
		b.before[i] = n
		n += uint32(bits.OnesCount64(w))
	}
	b.kept = int(n) * blockSize
	if b.has((b.n - 1) / blockSize) {
		b.kept -= -b.n & (blockSize - 1)
	}
}

// to is where a byte goes when only the blocks of the set are kept, of which its own is one.
func (b *blocks) to(pos int) int {
	i := pos / blockSize
	return (int(b.before[i/64])+bits.OnesCount64(b.words[i/64]&(1<<(i%64)-1)))*blockSize + pos%blockSize
}
