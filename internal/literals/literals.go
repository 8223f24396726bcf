// Package literals codes those zstd frames (RFC 8878) whose blocks hold literals and hardly any sequences.
//
// Weights become such frames: next to nothing in them repeats, and the one thing to be gained is that their bytes are not
// equally frequent, so that all of the work is Huffman's. This package does it at more than twice the speed of a coder that
// must be ready for anything, and leaves to that one every frame that is of another kind, or not right.
package literals

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

const (
	magic    = 0xfd2fb528
	maxBlock = 128 << 10 // Block_Maximum_Size, whatever the window
	maxBits  = 11        // of a Huffman code (4.2.1)

	// The kinds of a block (3.1.1.2.2), and of its literals (3.1.1.3.1.1).
	raw, repeated       = 0, 1
	compressed          = 2
	treeless            = 3
	blockHeader         = 3
	jumpTable           = 6
	checksum            = 4
	fourStreams         = 3 // the Size_Format of four streams with sizes of 18 bits
	singleSegment       = 1 << 5
	hasChecksum         = 1 << 2
	contentSizeOf4Bytes = 2 << 6
)

// A Decoder decodes one frame after the other. It has some 20 KiB.
type Decoder struct {
	tree      tree
	tables    [3]table // of the last tree, of the block that waits, and of the next tree
	now       int      // the first of these
	have      bool     // there is one
	waiting   block    // is decoded with the one behind it, in turns
	sequencer sequencer
	lists     [2][]sequence

	dst    []byte
	at     int // in dst, decoded or waiting
	window int
}

// A block of four streams. If it has sequences, its literals go to its end first.
type block struct {
	lanes
	start, end int // in dst
	sequences  []sequence
}

// Decode decodes frame into dst, which it must fill, and verifies its checksum. It reports whether it did: frames with
// blocks of many sequences, without a checksum, with a dictionary, with a window of more than 128 MiB, or damaged in
// any way are left to others, and dst may be written to nevertheless.
func (d *Decoder) Decode(dst, frame []byte) bool {
	return d.decode(dst, frame) && binary.LittleEndian.Uint32(frame[len(frame)-checksum:]) == uint32(xxhash.Sum64(dst))
}

// decode does all but verify the checksum.
func (d *Decoder) decode(dst, frame []byte) bool {
	at, window, ok := header(frame, len(dst))
	if !ok {
		return false
	}
	d.have, d.dst, d.at, d.window = false, dst, 0, window
	d.sequencer.reset()
	defer func() { d.dst, d.waiting = nil, block{} }()
	for last := false; !last; {
		var kind, n, stored int
		if kind, n, stored, last = head(frame, at, window); stored < 0 {
			return false
		}
		at += blockHeader
		room := dst[d.at:]
		switch {
		case kind == compressed:
			if !d.block(frame, at, at+stored) {
				return false
			}
		case n > len(room):
			return false
		case kind == raw:
			d.at += copy(room, frame[at:at+n])
		case kind == repeated:
			d.at += same(room[:n], frame[at])
		default:
			return false
		}
		at += stored
	}
	return d.at == len(dst) && len(frame)-at == checksum && d.flush()
}

// head reads the header of the block at at (3.1.1.2): its kind, its size, how many bytes are stored, and whether it is the last one. stored is
// -1 where a frame with a checksum cannot have that block there.
func head(frame []byte, at, window int) (kind, n, stored int, last bool) {
	if len(frame)-at < blockHeader+checksum {
		return 0, 0, -1, true
	}
	h := int(frame[at]) | int(frame[at+1])<<8 | int(frame[at+2])<<16
	kind, n = h>>1&3, h>>3
	if stored = n; kind == repeated {
		stored = 1
	}
	if n > min(window, maxBlock) || stored > len(frame)-at-blockHeader-checksum {
		stored = -1
	}
	return kind, n, stored, h&1 != 0
}

// header reads a frame header (3.1.1.1), which must say that the content has size bytes, and returns where the blocks begin, and the window.
func header(frame []byte, size int) (at, window int, ok bool) {
	if len(frame) < 6 || binary.LittleEndian.Uint32(frame) != magic {
		return 0, 0, false
	}
	d := frame[4]
	if d&0x1b != 0 || d&hasChecksum == 0 { // reserved, unused, a dictionary
		return 0, 0, false
	}
	at, window = 5, size
	if d&singleSegment == 0 {
		exponent, eighths := frame[5]>>3, int(frame[5]&7)
		if exponent >= 17 {
			return 0, 0, false // more than 128 MiB
		}
		at, window = 6, (8+eighths)<<(10+exponent-3)
	}
	var says uint64
	switch b := frame[at:]; {
	case d>>6 == 0 && d&singleSegment != 0 && len(b) >= 1:
		says, at = uint64(b[0]), at+1
	case d>>6 == 0 && d&singleSegment == 0:
		says = uint64(size) // it does not say
	case d>>6 == 1 && len(b) >= 2:
		says, at = 256+uint64(binary.LittleEndian.Uint16(b)), at+2
	case d>>6 == 2 && len(b) >= 4:
		says, at = uint64(binary.LittleEndian.Uint32(b)), at+4
	case d>>6 == 3 && len(b) >= 8:
		says, at = binary.LittleEndian.Uint64(b), at+8
	default:
		return 0, 0, false
	}
	return at, window, says == uint64(size)
}

// block decodes the block that is frame[at:end], or leaves it waiting, and says whether it is one of ours.
func (d *Decoder) block(frame []byte, at, end int) bool {
	if end-at < 2 {
		return false
	}
	h := frame[at]
	kind, format := h&3, h>>2&3

	// The sizes of the literals and of what they are made of, of as many bits each; of raw and repeated ones there is just the first.
	skip, wide, long := uint8(4), [4]int{10, 10, 14, 18}[format], [4]int{3, 3, 4, 5}[format]
	if kind == raw || kind == repeated {
		skip, wide, long = [4]uint8{3, 4, 3, 4}[format], [4]int{5, 12, 5, 20}[format], [4]int{1, 2, 1, 3}[format]
	}
	if end-at < long {
		return false
	}
	var sizes uint64
	for i := range long {
		sizes |= uint64(frame[at+i]) << (8 * i)
	}
	at += long
	n := int(sizes>>skip) & (1<<wide - 1)
	stored := int(sizes >> skip >> wide)
	switch kind {
	case raw:
		stored = n
	case repeated:
		stored = 1
	}
	if n > min(d.window, maxBlock) || stored >= end-at {
		return false
	}
	literals := at + stored // their end

	b := block{start: d.at, end: d.at + n}
	if frame[literals] != 0 {
		d.lists[0], d.lists[1] = d.lists[1], d.lists[0] // a block that waits has the other
		var size int
		if b.sequences, size = d.sequencer.read(d.lists[0][:0], frame, literals, end, n, d.at, d.window); len(b.sequences) == 0 {
			return false
		}
		d.lists[0], b.end = b.sequences, d.at+size
	} else if literals+1 != end {
		return false
	}
	if b.end > len(d.dst) || b.end-b.start > min(d.window, maxBlock) {
		return false
	}
	d.at = b.end
	out := d.dst[b.end-n : b.end : b.end]

	switch kind {
	case raw:
		copy(out, frame[at:literals])
		return d.done(&b, n)
	case repeated:
		same(out, frame[at])
		return d.done(&b, n)
	case compressed:
		next := (d.now + 1) % len(d.tables)
		if d.waiting.out != nil && d.waiting.table == &d.tables[next] {
			next = (d.now + 2) % len(d.tables)
		}
		size := d.tree.read(&d.tables[next], frame[at:literals])
		if size < 0 {
			return false
		}
		at += size
		d.now, d.have = next, true
	}
	t := &d.tables[d.now]
	if !d.have || n == 0 {
		return false
	}
	if format == 0 {
		var s stream
		return s.begin(frame, at, literals) && s.finish(out, frame, t) && d.done(&b, n)
	}
	b.lanes = lanes{table: t, out: out, in: frame, q: (n + 3) / 4}
	if n <= 3*b.q || literals-at < jumpTable {
		return false
	}
	from := at + jumpTable
	for k := range b.streams {
		to := literals
		if k < 3 {
			to = from + int(binary.LittleEndian.Uint16(frame[at+2*k:]))
		}
		if to > literals || !b.streams[k].begin(frame, from, to) {
			return false
		}
		from = to
	}
	return d.wait(&b)
}

// done uses the literals of a block, once all before it is there.
func (d *Decoder) done(b *block, literals int) bool {
	if len(b.sequences) == 0 {
		return true
	}
	ok := d.flush()
	if ok {
		execute(d.dst, b.start, b.end, literals, b.sequences)
	}
	return ok
}

// finish decodes what is left of a block before which all is there.
func (d *Decoder) finish(b *block) bool {
	ok := b.lanes.finish()
	if ok {
		execute(d.dst, b.start, b.end, len(b.out), b.sequences)
	}
	return ok
}

// worthWaiting is how many rounds a block must have left to wait for another.
const worthWaiting = 100

// wait decodes a block in turns with the one that waits, or lets it wait. What is left of the longer one waits for the next.
func (d *Decoder) wait(b *block) bool {
	w := &d.waiting
	if w.out == nil {
		*w = *b
		return true
	}
	together(&w.lanes, &b.lanes)
	more := b.rounds(0) >= worthWaiting
	switch {
	case w.rounds(0) >= worthWaiting && !more && len(b.sequences) == 0:
		return d.finish(b)
	case !d.flush():
		return false
	case more:
		*w = *b
		return true
	}
	return d.finish(b)
}

// flush decodes the block that waits.
func (d *Decoder) flush() bool {
	ok := d.waiting.out == nil || d.finish(&d.waiting)
	d.waiting.out = nil
	return ok
}

// same sets all of b to x.
func same(b []byte, x byte) int {
	for i := range b {
		b[i] = x
	}
	return len(b)
}
