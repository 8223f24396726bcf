//go:build !purego

package literals

import "golang.org/x/sys/cpu"

// What together's loop does between two looks at how far it may go: rounds whose symbols, batchOf of each stream, are gathered in 32 bytes
// of the stack a stream and go out at once. The quarters of a block of 128 KiB lie 32 KiB apart, so that bytes written to
// them one by one would drive each other out of the first cache.
const (
	batchRounds = 6
	batchOf     = batchRounds * round
	spare       = 32 - batchOf // what is written behind the symbols of a batch, and overwritten by the next
)

// together decodes most of two blocks, or of the shorter one, in turns: their eight streams wait for nothing but the processor's own speed.
// What it leaves is for finish.
func together(a, b *lanes) {
	if !cpu.X86.HasBMI1 || !cpu.X86.HasBMI2 {
		return
	}
	for {
		n := min(a.rounds(spare), b.rounds(spare)) / batchRounds
		if n <= 0 {
			return
		}
		batches(a, b, n)
	}
}

// batches decodes n batches of both blocks, which must have as many rounds, n times batchRounds, and the room for spare bytes.
//
//go:noescape
func batches(a, b *lanes, n int)

// wide is whether the processor looks 32 bytes up at a time.
var wide = cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasBMI2

// some encodes most of src, from its end on, and returns how many bytes it has left, how many whole bytes it wrote, and the bits of
// the next one, as many as left.
func (e *Encoder) some(out, src []byte) (rest, at int, gathered, left uint64) {
	if wide {
		n := len(src) / 32
		if n == 0 || len(out) < 44*n+8 {
			return len(src), 0, 0, 0
		}
		rest = len(src) - 32*n
		at, gathered, left = vectors(&e.short, &out[0], &src[rest], n)
		return rest, at, gathered, left
	}
	n := len(src) / 8
	if n == 0 || len(out) < 11*n+8 || !cpu.X86.HasBMI1 || !cpu.X86.HasBMI2 {
		return len(src), 0, 0, 0
	}
	rest = len(src) - 8*n
	at, gathered, left = words(&e.pairs, &out[0], &src[rest], n)
	return rest, at, gathered, left
}

// words encodes n words of eight bytes, at least one, that src begins with; out has 11 bytes for each and 8 more.
//
//go:noescape
func words(pairs *[1 << 16]uint32, out, src *byte, n int) (at int, gathered, left uint64)

// vectors encodes n times 32 bytes, at least once, that src begins with; out has 44 bytes for each and 8 more.
//
//go:noescape
func vectors(codes *[256]uint16, out, src *byte, n int) (at int, gathered, left uint64)
