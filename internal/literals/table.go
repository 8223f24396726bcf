package literals

import (
	"math/bits"

	"github.com/klauspost/compress/fse"
)

// A table says for the next eleven bits which symbol they begin with, in the upper byte, and how many of them it has, in the lower.
type table [1 << maxBits]uint16

// fill makes the table of a code whose weights (4.2.1.1) are w and one more, which follows from them.
func (t *table) fill(w []byte) bool {
	sum := 0
	var ranks [maxBits + 2]uint16 // how many symbols have the weight
	for _, x := range w {
		if x > maxBits {
			return false
		}
		ranks[x]++
		sum += 1 << x >> 1
	}
	if sum == 0 || len(w) > 255 {
		return false
	}
	longest := bits.Len(uint(sum))
	left := 1<<longest - sum
	if longest > maxBits || left&(left-1) != 0 {
		return false
	}
	last := bits.Len(uint(left))
	ranks[last]++
	if ranks[1] < 2 || ranks[1]%2 != 0 {
		return false // the longest code comes in pairs
	}
	var next [maxBits + 2]uint16 // where the cells of a weight begin
	scale := maxBits - longest
	for weight := 1; weight <= maxBits; weight++ {
		next[weight+1] = next[weight] + ranks[weight]<<(weight-1+scale)
	}
	set := func(symbol, weight int) {
		from := next[weight]
		next[weight] += 1 << (weight - 1 + scale)
		cells := t[from:next[weight]]
		cell := uint16(symbol)<<8 | uint16(longest+1-weight)
		for i := range cells {
			cells[i] = cell
		}
	}
	for symbol, x := range w {
		if x > 0 {
			set(symbol, int(x))
		}
	}
	set(len(w), last)
	return true
}

// A tree reads descriptions of Huffman trees.
type tree struct {
	fse    fse.Scratch
	direct [128]byte
}

// read makes the table of the tree that b begins with (4.2.1), and returns how many bytes describe it; -1 if something is wrong with it.
func (r *tree) read(t *table, b []byte) int {
	if len(b) == 0 {
		return -1
	}
	n := int(b[0])
	b = b[1:]
	if n >= 128 { // weights of four bits each
		n -= 127
		size := (n + 1) / 2
		if size > len(b) {
			return -1
		}
		for i := range n {
			r.direct[i] = b[i/2] >> (4 * (1 - i%2)) & 15
		}
		if !t.fill(r.direct[:n]) {
			return -1
		}
		return 1 + size
	}
	if n > len(b) {
		return -1
	}
	r.fse.DecompressLimit = 255
	w, err := fse.Decompress(b[:n], &r.fse)
	if err != nil || !t.fill(w) {
		return -1
	}
	return 1 + n
}
