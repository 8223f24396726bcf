package literals

import (
	"encoding/binary"
	"slices"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/huff0"
)

// An Encoder makes one frame after the other. What it makes depends on nothing but the content. It has some 300 KiB.
type Encoder struct {
	codes  [256]uint32     // of a byte: the code, and below it in eight bits its length
	pairs  [1 << 16]uint32 // of two bytes, likewise
	sample []byte
	huff   huff0.Scratch
	tree   tree
	table  table
}

const (
	// least is how long content must be; for less, what is made once a frame costs too much.
	least = 16 << 10
	// Of long content one word of eight bytes in five is counted, so that all places in a row take their turn.
	long, sampled = 256 << 10, 5
	// sampleSize is about how many symbols the code is made for.
	sampleSize = 32 << 10
)

// Room is how much Append needs for a frame of n bytes; with less it takes the time to find more.
func Room(n int) int { return n + maxBlock }

// Append appends a frame with a checksum that holds src, all of whose blocks have the same Huffman code, and reports whether that
// is smaller than src. If not, or where src is short or beyond 2^32 bytes, it returns dst as it was.
func (e *Encoder) Append(dst, src []byte) ([]byte, bool) {
	if len(src) < least || uint64(len(src)) > 1<<32-1 {
		return dst, false
	}
	tree, ok := e.code(src)
	if !ok {
		return dst, false
	}
	start := len(dst)
	b := binary.LittleEndian.AppendUint32(slices.Grow(dst, Room(len(src))), magic)
	b = append(b, contentSizeOf4Bytes|singleSegment|hasChecksum)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(src)))
	for rest := src; len(rest) > 0; {
		block := rest[:min(len(rest), maxBlock)]
		rest = rest[len(block):]
		last := byte(0)
		if len(rest) == 0 {
			last = 1
		}
		at := len(b)
		if len(block) >= 4*jumpTable {
			if b = e.block(b, block, tree, last); len(b)-at-blockHeader < len(block) {
				tree = nil // it is there
				continue
			}
		}
		b = append(b[:at], last|raw<<1|byte(len(block)<<3), byte(len(block)>>5), byte(len(block)>>13))
		b = append(b, block...)
	}
	if len(b)+checksum-start >= len(src) {
		return dst, false
	}
	return binary.LittleEndian.AppendUint32(b, uint32(xxhash.Sum64(src))), true
}

// code makes a code for src and returns the description of its tree.
func (e *Encoder) code(src []byte) ([]byte, bool) {
	var counts [4][256]uint32
	step := 8
	if len(src) > long {
		step *= sampled
	}
	i := 0
	for ; i+8 <= len(src); i += step {
		x := binary.LittleEndian.Uint64(src[i:])
		counts[0][byte(x)]++
		counts[1][byte(x>>8)]++
		counts[2][byte(x>>16)]++
		counts[3][byte(x>>24)]++
		counts[0][byte(x>>32)]++
		counts[1][byte(x>>40)]++
		counts[2][byte(x>>48)]++
		counts[3][byte(x>>56)]++
	}
	for ; i < len(src); i++ {
		counts[0][src[i]]++
	}
	all := uint64(len(src) * 8 / step)
	e.sample = e.sample[:0]
	for s := range 256 {
		n := uint64(counts[0][s] + counts[1][s] + counts[2][s] + counts[3][s])
		if n == 0 && step == 8 {
			continue
		}
		for range max(1, n*sampleSize/all) { // at least one: it may be among what was not counted
			e.sample = append(e.sample, byte(s))
		}
	}
	e.huff.Reuse = huff0.ReusePolicyNone
	if _, _, err := huff0.Compress1X(e.sample, &e.huff); err != nil {
		return nil, false // the bytes are equally frequent
	}
	tree := e.huff.OutTable
	if !e.lengths(tree) {
		return nil, false
	}
	for second, b := range e.codes {
		row := (*[256]uint32)(e.pairs[second<<8:])
		for first, a := range e.codes {
			row[first] = (b>>8|a>>8<<(b&31))<<8 | (a+b)&0xff
		}
	}
	return tree, true
}

// lengths makes the codes of the tree.
func (e *Encoder) lengths(tree []byte) bool {
	if e.tree.read(&e.table, tree) != len(tree) {
		return false
	}
	clear(e.codes[:])
	for i := 0; i < len(e.table); {
		symbol, n := e.table[i]>>8, e.table[i]&0xff
		e.codes[symbol] = uint32(i)>>(maxBits-n)<<8 | uint32(n)
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
	var gathered uint64
	var n uint32 // bits gathered, and above them what is of no meaning
	at := 0
	i := len(src) - 8
	for ; i >= 0; i -= 8 {
		x := binary.LittleEndian.Uint64(src[i:])
		// At most 7 bits are left, and two pairs have 44.
		p := t[x>>48]
		gathered |= uint64(p>>8) << (n & 63)
		n += p & 0xff
		p = t[x>>32&0xffff]
		gathered |= uint64(p>>8) << (n & 63)
		n += p & 0xff
		binary.LittleEndian.PutUint64(out[at:], gathered)
		at += int(n >> 3)
		gathered >>= n & 56
		n &= 7
		p = t[x>>16&0xffff]
		gathered |= uint64(p>>8) << (n & 63)
		n += p & 0xff
		p = t[x&0xffff]
		gathered |= uint64(p>>8) << (n & 63)
		n += p & 0xff
		binary.LittleEndian.PutUint64(out[at:], gathered)
		at += int(n >> 3)
		gathered >>= n & 56
		n &= 7
	}
	for i += 7; i >= 0; i-- {
		c := e.codes[src[i]]
		gathered |= uint64(c>>8) << (n & 63)
		n += c & 0xff
		binary.LittleEndian.PutUint64(out[at:], gathered)
		at += int(n >> 3)
		gathered >>= n & 56
		n &= 7
	}
	out[at] = byte(gathered | 1<<n) // the end
	return at + 1
}
