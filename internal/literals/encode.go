package literals

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"sync"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/huff0"
)

// An Encoder makes one frame after the other. What it makes depends on nothing but the content. It has some 430 KiB.
type Encoder struct {
	codes  [256]uint32     // of a byte: the code, and below it in eight bits its length
	short  [256]uint16     // likewise: the length in the upper four bits
	pairs  [1 << 16]uint32 // of two bytes as codes has them, unless wide
	counts [8][256]uint32  // of the blocks of a group
	all    [256]uint32     // of these together
	excess float64         // what measure said of codes when they were made; 0: there are none
	sample []byte
	huff   huff0.Scratch
	tree   tree
	table  table
	seen   [1 << seenBits]uint32
	sum    xxhash.Digest
}

const (
	// least is how long content must be; for less, what is made once a frame costs too much.
	least = 16 << 10
	// Of content of several blocks one word of eight bytes in five is counted, so that all places in a row take their turn.
	sampled = 5
	// sampleSize is about how many symbols a code is made for.
	sampleSize = 8 << 10
)

// What Repeats looks at: of each stretch the beginning, at every place, and whether one of the places before was like it of which
// one in apart was noted. So a repetition of a stretch and more is found, and one of any kind where there are many.
const (
	stretch  = 4 << 10
	looked   = 64
	apart    = looked
	seenBits = 15
)

// Repeats reports whether so much of src was there before, eight bytes at a time, that looking for it is worth the time. It
// takes a tenth of what Append does.
func (e *Encoder) Repeats(src []byte) bool {
	const mix = 0x9fb21c651e98df25
	clear(e.seen[:])
	looks, found := 0, 0
	for ; len(src) >= stretch+8; src = src[stretch:] {
		for i := range looked {
			h := binary.LittleEndian.Uint64(src[i:]) * mix
			if e.seen[h>>(64-seenBits)] == uint32(h>>(32-seenBits)) {
				found++
			}
		}
		looks += looked
		for i := 0; i < stretch; i += apart {
			h := binary.LittleEndian.Uint64(src[i:]) * mix
			e.seen[h>>(64-seenBits)] = uint32(h >> (32 - seenBits))
		}
	}
	return found > looks/1024
}

// Room is how much Append needs for a frame of n bytes; with less it takes the time to find more.
func Room(n int) int { return n + maxBlock }

// Append appends a frame with a checksum that holds src, and reports whether that is smaller than src. If not, or where src is short or
// beyond 2^32 bytes, it returns dst as it was.
func (e *Encoder) Append(dst, src []byte) ([]byte, bool) {
	if len(src) < least || uint64(len(src)) > 1<<32-1 {
		return dst, false
	}
	start := len(dst)
	b := binary.LittleEndian.AppendUint32(slices.Grow(dst, Room(len(src))), magic)
	b = append(b, contentSizeOf4Bytes|singleSegment|hasChecksum)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(src)))
	e.excess = 0
	e.sum.Reset()
	var tree []byte // to be written
	for rest := src; len(rest) > 0; {
		group := rest[:min(len(rest), len(e.counts)*maxBlock)]
		rest = rest[len(group):]
		e.survey(group, len(group) == len(src) && len(group) <= maxBlock)
		for i := 0; len(group) > 0; i++ {
			block := group[:min(len(group), maxBlock)]
			group = group[len(block):]
			last := byte(0)
			if len(group) == 0 && len(rest) == 0 {
				last = 1
			}
			e.sum.Write(block)
			at := len(b)
			if len(block) >= 4*jumpTable {
				if fresh := e.code(i); fresh != nil {
					tree = fresh
				}
				if e.excess > 0 {
					if b = e.block(b, block, tree, last); len(b)-at-blockHeader < len(block) {
						tree = nil // it is there
						continue
					}
				}
			}
			b = append(b[:at], last|raw<<1|byte(len(block)<<3), byte(len(block)>>5), byte(len(block)>>13))
			b = append(b, block...)
		}
	}
	if len(b)+checksum-start >= len(src) {
		return dst, false
	}
	return binary.LittleEndian.AppendUint32(b, uint32(e.sum.Sum64())), true
}

// survey counts the bytes of each block of a group, and of all. Content that is one block has no other bytes than those that are counted.
func (e *Encoder) survey(group []byte, alone bool) {
	step, floor := 8*sampled, uint32(1)
	if alone {
		step, floor = 8, 0
	}
	e.all = [256]uint32{}
	for i := 0; len(group) > 0; i++ {
		block := group[:min(len(group), maxBlock)]
		group = group[len(block):]
		e.counts[i] = count(block, step)
		for s, n := range e.counts[i] {
			e.counts[i][s] = max(n, floor) // it may be among what was not counted
			e.all[s] += n
		}
	}
	for s, n := range e.all {
		e.all[s] = max(n, floor)
	}
}

// count counts the bytes of one word of eight bytes in step, and of what is left when all are.
func count(block []byte, step int) (all [256]uint32) {
	var counts [4][256]uint32
	i := 0
	for ; i+8 <= len(block); i += step {
		x := binary.LittleEndian.Uint64(block[i:])
		counts[0][byte(x)]++
		counts[1][byte(x>>8)]++
		counts[2][byte(x>>16)]++
		counts[3][byte(x>>24)]++
		counts[0][byte(x>>32)]++
		counts[1][byte(x>>40)]++
		counts[2][byte(x>>48)]++
		counts[3][byte(x>>56)]++
	}
	for ; i < len(block); i++ {
		counts[0][block[i]]++
	}
	for s := range all {
		all[s] = counts[0][s] + counts[1][s] + counts[2][s] + counts[3][s]
	}
	return all
}

// code makes a code for the group or, where that would not do, for block i of it, and returns the description of its tree; nil where the code
// that is there is nearly as good for the block as it was for what it was made for.
func (e *Encoder) code(i int) (tree []byte) {
	if e.excess == 0 {
		tree = e.make(&e.all)
	}
	if e.excess == 0 || e.measure(&e.counts[i]) > e.excess*1.005 {
		if own := e.make(&e.counts[i]); own != nil {
			tree = own
		}
	}
	if tree != nil && !wide {
		for second, b := range e.codes {
			row := (*[256]uint32)(e.pairs[second<<8:])
			for first, a := range e.codes {
				row[first] = (b>>8|a>>8<<(b&31))<<8 | (a+b)&0xff
			}
		}
	}
	return tree
}

// make makes a code for what was counted. It is nil, and the code that is there stays, where the bytes are equally frequent, or all the same.
func (e *Encoder) make(counts *[256]uint32) (tree []byte) {
	all := uint64(0)
	for _, n := range counts {
		all += uint64(n)
	}
	e.sample = e.sample[:0]
	for s, n := range counts {
		if n > 0 {
			for range max(1, uint64(n)*sampleSize/all) {
				e.sample = append(e.sample, byte(s))
			}
		}
	}
	e.huff.Reuse = huff0.ReusePolicyNone
	if _, _, err := huff0.Compress1X(e.sample, &e.huff); err != nil || !e.lengths(e.huff.OutTable) {
		return nil
	}
	e.excess = e.measure(counts)
	return e.huff.OutTable
}

// measure is how many times as long as it could be what was counted becomes in the code that is there.
func (e *Encoder) measure(counts *[256]uint32) float64 {
	var all, length uint64
	var least float64
	logs := logs()
	for s, n := range counts {
		if n > 0 {
			all += uint64(n)
			length += uint64(n) * uint64(e.codes[s]&0xff)
			least -= float64(n) * logs.of(n)
		}
	}
	least += float64(all) * math.Log2(float64(all))
	return float64(length) / max(least, float64(all)/256) // a block of one value may take what it takes
}

// logarithms of base 2 of numbers from 1 to 2, which follow from their first ten bits closely enough: to a thousandth.
type logarithms [1 << 10]float64

var logs = sync.OnceValue(func() *logarithms {
	l := new(logarithms)
	for i := range l {
		l[i] = math.Log2(1 + float64(i)/float64(len(l)))
	}
	return l
})

func (l *logarithms) of(n uint32) float64 {
	zeros := bits.LeadingZeros32(n)
	return float64(31-zeros) + l[n<<zeros>>21&(1<<10-1)]
}

// lengths makes the codes of the tree.
func (e *Encoder) lengths(tree []byte) bool {
	if e.tree.read(&e.table, tree) != len(tree) {
		return false
	}
	clear(e.codes[:])
	clear(e.short[:])
	for i := 0; i < len(e.table); {
		symbol, n := e.table[i]>>8, e.table[i]&0xff
		code := i >> (maxBits - n)
		e.codes[symbol], e.short[symbol] = uint32(code)<<8|uint32(n), uint16(code)|n<<12
		i += 1 << (maxBits - n)
	}
	return true
}

// block appends a block of four streams, after the tree where that is not there yet.
func (e *Encoder) block(b, src, tree []byte, last byte) []byte {
	at := len(b)
	q := (len(src) + 3) / 4
	b = slices.Grow(b, blockHeader+5+len(tree)+jumpTable+len(src)*maxBits/8+4*16)[:at+blockHeader+5]
	kind := uint64(treeless)
	if tree != nil {
		kind = compressed
		b = append(b, tree...)
	}
	jump := len(b)
	b = b[:jump+jumpTable]
	for k := range 4 {
		n := e.stream(b[len(b):cap(b)], src[k*q:min((k+1)*q, len(src))])
		if k < 3 {
			binary.LittleEndian.PutUint16(b[jump+2*k:], uint16(n))
		}
		b = b[:len(b)+n]
	}
	b = append(b, 0) // Number_of_Sequences
	h := b[at:]
	stored := len(b) - at - blockHeader
	h[0], h[1], h[2] = last|compressed<<1|byte(stored<<3), byte(stored>>5), byte(stored>>13)
	sizes := kind | fourStreams<<2 | uint64(len(src))<<4 | uint64(stored-5-1)<<22
	for i := range 5 {
		h[blockHeader+i] = byte(sizes >> (8 * i))
	}
	return b
}

// stream writes src to out, from its last byte to its first, and returns how many bytes that took. out has eight bytes more than are needed.
func (e *Encoder) stream(out, src []byte) int {
	t := &e.pairs
	rest, at, gathered, n := e.some(out, src) // n bits are gathered
	i := rest - 8
	for ; i >= 0 && !wide; i -= 8 {
		x := binary.LittleEndian.Uint64(src[i:])
		// At most 7 bits are left, and two pairs have 44. They are joined first: what waits for the bits before is short.
		p, q := t[x>>48], t[x>>32&0xffff]
		c := uint64(p>>8) | uint64(q>>8)<<(p&31)
		gathered |= c << (n & 63)
		n += uint64((p + q) & 0xff)
		binary.LittleEndian.PutUint64(out[at:], gathered)
		at += int(n >> 3)
		gathered >>= n & 56
		n &= 7
		p, q = t[x>>16&0xffff], t[x&0xffff]
		c = uint64(p>>8) | uint64(q>>8)<<(p&31)
		gathered |= c << (n & 63)
		n += uint64((p + q) & 0xff)
		binary.LittleEndian.PutUint64(out[at:], gathered)
		at += int(n >> 3)
		gathered >>= n & 56
		n &= 7
	}
	for i += 7; i >= 0; i-- {
		c := e.codes[src[i]]
		gathered |= uint64(c>>8) << (n & 63)
		n += uint64(c & 0xff)
		binary.LittleEndian.PutUint64(out[at:], gathered)
		at += int(n >> 3)
		gathered >>= n & 56
		n &= 7
	}
	out[at] = byte(gathered | 1<<n) // the end
	return at + 1
}
