package literals

import (
	"encoding/binary"
	"math/bits"
)

// A stream of bits is read from its end to its start. window has the bits that come next in its highest places. Below them is a
// one, and below it zeros, as many as bits have been taken since the window was loaded from the eight bytes at off:
// so a window knows how far it has come.
type stream struct {
	start  int
	off    int
	window uint64
}

// A round takes five symbols out of a window, of 8 bits that may be gone from it when it is loaded, 55 for them, and the one.
const (
	round     = 5
	roundTake = 7 // bytes, at most
)

// begin sets s to the stream in[start:end]. It needs eight bytes before the end, whichever they are.
func (s *stream) begin(in []byte, start, end int) bool {
	if end <= start || end < 8 {
		return false
	}
	last := in[end-1]
	if last == 0 {
		return false // its highest one marks the end
	}
	s.start, s.off = start, end-8
	s.window = (binary.LittleEndian.Uint64(in[s.off:]) | 1) << (9 - bits.Len8(last))
	return true
}

// take takes one symbol out of a window.
func take(window uint64, t *table) (uint64, byte) {
	x := t[window>>(64-maxBits)]
	return window << (x & 63), byte(x >> 8)
}

// load fills a window again that was loaded from off, and says from where.
func load(window uint64, off int, in []byte) (uint64, int) {
	gone := bits.TrailingZeros64(window)
	off -= gone >> 3
	return (binary.LittleEndian.Uint64(in[off:]) | 1) << (gone & 7), off
}

// rounds is how many rounds surely stay within the stream.
func (s *stream) rounds() int { return (s.off - s.start) / roundTake }

// finish decodes out and says whether that took just all of the stream.
func (s *stream) finish(out, in []byte, t *table) bool {
	at, v := s.off, s.window
	for at-s.start >= roundTake && len(out) >= round {
		o := (*[round]byte)(out)
		for i := range o {
			v, o[i] = take(v, t)
		}
		v, at = load(v, at, in)
		out = out[round:]
	}
	// Bit by bit in their number, from the last, zeros before the first.
	left := 8*(at+8) - bits.TrailingZeros64(v)
	for i := range out {
		if left <= 8*s.start {
			return false
		}
		var next uint32
		for k := (left - maxBits) >> 3; k <= (left-1)>>3; k++ {
			if k >= s.start {
				next |= uint32(in[k]) << (8 * (k - (left-maxBits)>>3))
			}
		}
		x := t[next>>((left-maxBits)&7)&(1<<maxBits-1)]
		out[i] = byte(x >> 8)
		left -= int(x & 63)
	}
	return left == 8*s.start
}

// lanes are the four streams of a block. Each fills a quarter of out, q bytes, the last what is left.
type lanes struct {
	table   *table
	out     []byte
	in      []byte
	q       int
	done    int // symbols of each
	streams [4]stream
}

// rounds is how many rounds surely stay within all streams, and leave room of spare bytes behind what they write.
func (l *lanes) rounds(spare int) int {
	n := (len(l.out) - 3*l.q - l.done - spare) / round
	for k := range l.streams {
		n = min(n, l.streams[k].rounds())
	}
	return n
}

// finish decodes what is left of the block.
func (l *lanes) finish() bool {
	l.turns()
	for k := range l.streams {
		from, to := k*l.q, min((k+1)*l.q, len(l.out))
		if !l.streams[k].finish(l.out[from+l.done:to], l.in, l.table) {
			return false
		}
	}
	return true
}

// turns takes the four streams in turns, so that none waits for its table.
func (l *lanes) turns() {
	t, in, i, q := l.table, l.in, l.done, l.q
	out0, out1, out2, out3 := l.out[:q], l.out[q:2*q], l.out[2*q:3*q], l.out[3*q:]
	s := &l.streams
	v0, v1, v2, v3 := s[0].window, s[1].window, s[2].window, s[3].window
	at0, at1, at2, at3 := s[0].off, s[1].off, s[2].off, s[3].off
	for n := l.rounds(0); n > 0; n = l.rounds(0) {
		for ; n > 0; n-- {
			o0, o1, o2, o3 := (*[round]byte)(out0[i:]), (*[round]byte)(out1[i:]), (*[round]byte)(out2[i:]), (*[round]byte)(out3[i:])
			i += round
			v0, o0[0] = take(v0, t)
			v1, o1[0] = take(v1, t)
			v2, o2[0] = take(v2, t)
			v3, o3[0] = take(v3, t)
			v0, o0[1] = take(v0, t)
			v1, o1[1] = take(v1, t)
			v2, o2[1] = take(v2, t)
			v3, o3[1] = take(v3, t)
			v0, o0[2] = take(v0, t)
			v1, o1[2] = take(v1, t)
			v2, o2[2] = take(v2, t)
			v3, o3[2] = take(v3, t)
			v0, o0[3] = take(v0, t)
			v1, o1[3] = take(v1, t)
			v2, o2[3] = take(v2, t)
			v3, o3[3] = take(v3, t)
			v0, o0[4] = take(v0, t)
			v1, o1[4] = take(v1, t)
			v2, o2[4] = take(v2, t)
			v3, o3[4] = take(v3, t)
			v0, at0 = load(v0, at0, in)
			v1, at1 = load(v1, at1, in)
			v2, at2 = load(v2, at2, in)
			v3, at3 = load(v3, at3, in)
		}
		l.done = i
		s[0].window, s[1].window, s[2].window, s[3].window = v0, v1, v2, v3
		s[0].off, s[1].off, s[2].off, s[3].off = at0, at1, at2, at3
	}
}
