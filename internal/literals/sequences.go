package literals

import (
	"encoding/binary"
	"math/bits"
)

// A sequence takes literals and then bytes that were there before (3.1.1.4).
type sequence struct{ literals, match, offset uint32 }

// manySequences is how many a block may have; what has more is not what this package is for.
const manySequences = 2048

// The codes of lengths and offsets (3.1.1.3.2.1.1): which there are, how accurate their tables may be, and the tables where a block brings none.
type codes struct {
	count, accuracy int
	usual           []int16 // probabilities
	usualAccuracy   int
	base            []uint32 // nil: powers of two
	extra           []uint8
}

var (
	literalLengths = &codes{36, 9,
		[]int16{4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1}, 6,
		[]uint32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20, 22, 24, 28, 32, 40, 48, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536},
		[]uint8{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}}
	matchLengths = &codes{53, 9,
		[]int16{1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1}, 6,
		[]uint32{3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34,
			35, 37, 39, 41, 43, 47, 51, 59, 67, 83, 99, 131, 259, 515, 1027, 2051, 4099, 8195, 16387, 32771, 65539},
		[]uint8{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}}
	offsets = &codes{32, 8,
		[]int16{1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1}, 5,
		nil, nil}
)

// A state of an FSE table (4.1): its symbol, and the bits that lead to the next.
type state struct {
	symbol, bits uint8
	base         uint16
}

// fseTable is the table of one kind of code, and the state in it.
type fseTable struct {
	accuracy int // -1: there is none
	states   [1 << 9]state
	at       uint16
}

// spread makes the table of probabilities that sum up to 1<<accuracy, -1 counting as one.
func (t *fseTable) spread(probabilities []int16, accuracy int) {
	size := 1 << accuracy
	t.accuracy = accuracy
	var next [64]uint16
	high := size
	for symbol, p := range probabilities {
		if next[symbol] = uint16(max(p, 1)); p == -1 {
			high--
			t.states[high].symbol = uint8(symbol)
		}
	}
	at, step := 0, size>>1+size>>3+3
	for symbol, p := range probabilities {
		for range max(p, 0) {
			t.states[at].symbol = uint8(symbol)
			for {
				if at = (at + step) & (size - 1); at < high {
					break
				}
			}
		}
	}
	for i := range t.states[:size] {
		s := &t.states[i]
		n := next[s.symbol]
		next[s.symbol]++
		s.bits = uint8(accuracy - (bits.Len16(n) - 1))
		s.base = n<<s.bits - uint16(size)
	}
}

// read makes the table that b begins with, which brings no more than the codes there are, and returns how many bytes describe it (4.1.1);
// -1 if something is wrong with it.
func (t *fseTable) read(b []byte, c *codes) int {
	at := 0 // in bits
	peek := func(n int) int {
		var x uint64
		for i := range 4 {
			if k := at>>3 + i; k < len(b) {
				x |= uint64(b[k]) << (8 * i)
			}
		}
		return int(x >> (at & 7) & (1<<n - 1))
	}
	accuracy := peek(4) + 5
	if len(b) == 0 || accuracy > c.accuracy {
		return -1
	}
	at = 4
	var room [64]int16
	probabilities := room[:0]
	for left := 1 << accuracy; left > 0; {
		if len(probabilities) == c.count || at > 8*len(b) {
			return -1
		}
		// Of the values up to left+1 the small ones have a bit less.
		n := bits.Len(uint(left + 1))
		short := 1<<n - 1 - (left + 1)
		x := peek(n)
		if low := x & (1<<(n-1) - 1); low < short {
			x, at = low, at+n-1
		} else {
			if x >= 1<<(n-1) {
				x -= short
			}
			at += n
		}
		probabilities = append(probabilities, int16(x-1))
		switch {
		case x == 0:
			left--
		case x > 1:
			left -= x - 1
		default:
			for more := 3; more == 3; {
				if more = peek(2); len(probabilities)+more > c.count || at > 8*len(b) {
					return -1
				}
				at += 2
				probabilities = probabilities[:len(probabilities)+more]
			}
		}
		if left < 0 {
			return -1
		}
	}
	if at > 8*len(b) {
		return -1
	}
	t.spread(probabilities, accuracy)
	return (at + 7) / 8
}

// prepare makes the table that a block asks for by its mode (3.1.1.3.2.1) and returns how many bytes of b describe it; -1 if something is
// wrong.
func (t *fseTable) prepare(mode byte, b []byte, c *codes) int {
	switch mode {
	case 0: // predefined
		t.spread(c.usual, c.usualAccuracy)
		return 0
	case 1: // one code
		if len(b) == 0 || int(b[0]) >= c.count {
			return -1
		}
		t.accuracy, t.states[0] = 0, state{symbol: b[0]}
		return 1
	case 2:
		return t.read(b, c)
	}
	if t.accuracy < 0 {
		return -1
	}
	return 0
}

// backwards reads bits from the end of in to the start.
type backwards struct {
	in    []byte
	left  int // bits, from the first of in on
	start int
	short bool // there were not enough
}

func (r *backwards) read(n uint8) uint32 {
	if r.left -= int(n); r.left < r.start {
		r.short = true
		return 0
	}
	var x uint64
	if at := r.left >> 3; at+8 <= len(r.in) {
		x = binary.LittleEndian.Uint64(r.in[at:])
	} else {
		for i, y := range r.in[at:] {
			x |= uint64(y) << (8 * i)
		}
	}
	return uint32(x >> (r.left & 7) & (1<<n - 1))
}

func (t *fseTable) begin(r *backwards) { t.at = uint16(r.read(uint8(t.accuracy))) }

func (t *fseTable) next(r *backwards) {
	s := t.states[t.at]
	t.at = s.base + uint16(r.read(s.bits))
}

func (t *fseTable) value(r *backwards, c *codes) uint32 {
	code := t.states[t.at].symbol
	if c.base == nil {
		return 1<<code + r.read(code)
	}
	return c.base[code] + r.read(c.extra[code])
}

// A sequencer reads the sequences of one frame, block after block.
type sequencer struct {
	literals, offsets, matches fseTable
	recent                     [3]uint32 // offsets
}

func (s *sequencer) reset() {
	s.literals.accuracy, s.offsets.accuracy, s.matches.accuracy = -1, -1, -1
	s.recent = [3]uint32{1, 4, 8}
}

// read reads the sequences section in[at:end] (3.1.1.3.2), which has some. Literals are what they have to take from; before, how many bytes come before
// the block, of which the last window may be used again. It appends to list and returns that with the size of the block; nil if something is wrong,
// or there are too many.
func (s *sequencer) read(list []sequence, in []byte, at, end, literals, before, window int) ([]sequence, int) {
	n := int(in[at])
	if at++; n > 127 {
		if n == 255 || at == end {
			return nil, 0
		}
		n, at = (n-128)<<8|int(in[at]), at+1
	}
	if n > manySequences || at == end || in[at]&3 != 0 {
		return nil, 0
	}
	modes := in[at]
	at++
	for _, x := range []struct {
		t     *fseTable
		mode  byte
		codes *codes
	}{{&s.literals, modes >> 6, literalLengths}, {&s.offsets, modes >> 4 & 3, offsets}, {&s.matches, modes >> 2 & 3, matchLengths}} {
		size := x.t.prepare(x.mode, in[at:end], x.codes)
		if size < 0 {
			return nil, 0
		}
		at += size
	}
	if at == end || in[end-1] == 0 {
		return nil, 0
	}
	r := backwards{in: in, left: 8*(end-1) + bits.Len8(in[end-1]) - 1, start: 8 * at}
	s.literals.begin(&r)
	s.offsets.begin(&r)
	s.matches.begin(&r)
	size := literals
	at = before
	for i := range n {
		if i > 0 {
			s.literals.next(&r)
			s.matches.next(&r)
			s.offsets.next(&r)
		}
		offset := s.offsets.value(&r, offsets)
		match := s.matches.value(&r, matchLengths)
		taken := s.literals.value(&r, literalLengths)
		offset = s.offset(offset, taken == 0)
		literals -= int(taken)
		size += int(match)
		at += int(taken)
		if r.short || literals < 0 || size > maxBlock || offset == 0 || uint64(offset) > uint64(min(at, window)) {
			return nil, 0
		}
		at += int(match)
		list = append(list, sequence{taken, match, offset})
	}
	if r.left != r.start {
		return nil, 0
	}
	return list, size
}

// offset looks up a recent offset, and notes the one that is used (3.1.1.5).
func (s *sequencer) offset(value uint32, noLiterals bool) uint32 {
	r := &s.recent
	if value > 3 {
		r[2], r[1], r[0] = r[1], r[0], value-3
		return r[0]
	}
	if noLiterals {
		value++
	}
	switch value {
	case 2:
		r[0], r[1] = r[1], r[0]
	case 3:
		r[0], r[1], r[2] = r[2], r[0], r[1]
	case 4:
		r[0], r[1], r[2] = r[0]-1, r[0], r[1]
	}
	return r[0]
}

// execute makes the block dst[start:end] out of sequences and its literals, which lie at its end.
func execute(dst []byte, start, end, literals int, list []sequence) {
	from := end - literals
	for _, s := range list {
		start += copy(dst[start:], dst[from:from+int(s.literals)])
		from += int(s.literals)
		for n, offset := int(s.match), int(s.offset); n > 0; {
			k := copy(dst[start:start+n], dst[start-offset:start])
			start += k
			n -= k
		}
	}
}
