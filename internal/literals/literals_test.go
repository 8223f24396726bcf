package literals

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"
)

// weights are bfloat16, normally distributed.
func weights(n int) []byte {
	rng := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, n+1)
	for i := 0; i < n; i += 2 {
		binary.LittleEndian.PutUint16(b[i:], uint16(math.Float32bits(float32(rng.NormFloat64()*0.02))>>16))
	}
	return b[:n]
}

// each shows contents of all kinds.
func each(yield func(kind string, b []byte)) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{least, 100001, maxBlock, maxBlock + 1, 2*maxBlock + 5000, 1 << 20, 1<<20 + 7} {
		w := weights(n)
		yield(fmt.Sprint("weights of ", n), w)
		repeating := slices.Clone(w)
		for at := 5000; at+9000 < n; at += 9000 {
			copy(repeating[at:at+3+rng.IntN(40)], repeating[rng.IntN(at):])
		}
		yield(fmt.Sprint("weights with repetitions of ", n), repeating)
		rows := slices.Clone(w)
		for at := 8000; at+12000 < n; at += 12000 {
			copy(rows[at:at+4000], rows[at-8000:])
		}
		yield(fmt.Sprint("rows that come again of ", n), rows)
		table := make([]byte, n+4) // float32 of 16 values
		for i := 0; i < n; i += 4 {
			binary.LittleEndian.PutUint32(table[i:], math.Float32bits(float32(rng.IntN(16))*0.013))
		}
		yield(fmt.Sprint("floats of a table of ", n), table[:n])
		ids := make([]byte, n+8) // int64
		for i := 0; i < n; i += 8 {
			binary.LittleEndian.PutUint64(ids[i:], uint64(rng.ExpFloat64()*3000))
		}
		yield(fmt.Sprint("numbers of tokens of ", n), ids[:n])
		few := make([]byte, n)
		for i := range few {
			few[i] = byte(rng.ExpFloat64())
		}
		yield(fmt.Sprint("few values of ", n), few)
		rare := bytes.Repeat([]byte{7, 9, 7, 7, 1}, n/5+1)[:n]
		rng.Shuffle(n, func(i, k int) { rare[i], rare[k] = rare[k], rare[i] })
		rare[9], rare[n-1] = 200, 201 // where no word is counted
		yield(fmt.Sprint("rare values of ", n), rare)
		sparse := make([]byte, n)
		for i := 0; i < n/10; i++ {
			sparse[rng.IntN(n)] = byte(rng.IntN(256))
		}
		yield(fmt.Sprint("zeros of ", n), sparse)
		changing := slices.Clone(w)
		for i := n / 2; i < n; i++ {
			changing[i] = byte(rng.NormFloat64() * 9)
		}
		yield(fmt.Sprint("two distributions of ", n), changing)
		noise := make([]byte, n)
		for i := range noise {
			noise[i] = byte(rng.IntN(256))
		}
		yield(fmt.Sprint("noise of ", n), noise)
		yield(fmt.Sprint("one value of ", n), bytes.Repeat([]byte{42}, n))
		yield(fmt.Sprint("text of ", n), bytes.Repeat([]byte("what repeats is not for this package. "), n/38+1)[:n])
	}
}

// An oracle is the library that takes what this package leaves.
type oracle struct {
	encoders []*zstd.Encoder
	decoder  *zstd.Decoder
}

func newOracle(t testing.TB) *oracle {
	t.Helper()
	o := new(oracle)
	for _, level := range []zstd.EncoderLevel{zstd.SpeedFastest, zstd.SpeedDefault, zstd.SpeedBetterCompression} {
		for _, single := range []bool{false, true} {
			e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(level), zstd.WithAllLitEntropyCompression(true), zstd.WithEncoderConcurrency(1),
				zstd.WithSingleSegment(single), zstd.WithLowerEncoderMem(true))
			if err != nil {
				t.Fatal(err)
			}
			o.encoders = append(o.encoders, e)
		}
	}
	var err error
	if o.decoder, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.decoder.Close)
	return o
}

// decode decodes a frame of at most n bytes.
func (o *oracle) decode(frame []byte, n int) ([]byte, error) {
	return o.decoder.DecodeAll(frame, make([]byte, 0, n))
}

// fenced gives n bytes between others that must stay as they are.
func fenced(n int) (b []byte, whole func() bool) {
	const fence = 64
	all := bytes.Repeat([]byte{0xa5}, n+2*fence)
	return all[fence : fence+n : fence+n], func() bool {
		want := bytes.Repeat([]byte{0xa5}, fence)
		return bytes.Equal(all[:fence], want) && bytes.Equal(all[fence+n:], want)
	}
}

func TestDecode(t *testing.T) {
	o := newOracle(t)
	var d Decoder
	decoded := 0
	each(func(kind string, b []byte) {
		for i, e := range o.encoders {
			frame := e.EncodeAll(b, nil)
			dst, whole := fenced(len(b))
			ok := d.Decode(dst, frame)
			if ok {
				decoded++
			}
			if ok && !bytes.Equal(dst, b) {
				t.Errorf("encoder %d, %s: other bytes", i, kind)
			}
			if !whole() {
				t.Errorf("encoder %d, %s: bytes beyond the destination", i, kind)
			}
			if !ok && (bytes.HasPrefix([]byte(kind), []byte("weights")) || bytes.HasPrefix([]byte(kind), []byte("noise"))) {
				t.Errorf("encoder %d, %s: not decoded", i, kind)
			}
			if d.Decode(dst[1:], frame) || d.Decode(append(dst, 0), frame) {
				t.Errorf("encoder %d, %s: decoded to another size", i, kind)
			}
		}
	})
	t.Log(decoded, "frames decoded here")
}

func TestEncode(t *testing.T) {
	o := newOracle(t)
	var e Encoder
	var d Decoder
	each(func(kind string, b []byte) {
		before := []byte("before")
		frame, ok := e.Append(before, b)
		if !bytes.HasPrefix(frame, before) || !ok && len(frame) != len(before) {
			t.Fatalf("%s: what was there has changed", kind)
		}
		frame = frame[len(before):]
		usual := o.encoders[0].EncodeAll(b, nil)
		if !ok {
			if len(usual) < len(b)*99/100 && bytes.HasPrefix([]byte(kind), []byte("weights")) {
				t.Errorf("%s: no frame, where others need %d bytes", kind, len(usual))
			}
			return
		}
		if len(frame) >= len(b) {
			t.Errorf("%s: %d bytes for %d", kind, len(frame), len(b))
		}
		if bytes.HasPrefix([]byte(kind), []byte("weights of")) && len(frame) > len(usual)*1005/1000 {
			t.Errorf("%s: %d bytes, others need %d", kind, len(frame), len(usual))
		}
		if p, err := o.decode(frame, len(b)); err != nil || !bytes.Equal(p, b) {
			t.Errorf("%s: decoded by others: %v, the same bytes: %v", kind, err, bytes.Equal(p, b))
		}
		dst, _ := fenced(len(b))
		if !d.Decode(dst, frame) || !bytes.Equal(dst, b) {
			t.Errorf("%s: not decoded here", kind)
		}
		var fresh Encoder
		if again, _ := fresh.Append(nil, b); !bytes.Equal(again, frame) {
			t.Errorf("%s: what came before changes the frame", kind)
		}
	})
	if _, ok := e.Append(nil, make([]byte, least-1)); ok {
		t.Error("a frame of few bytes")
	}
}

// Encoders of others end a block where the bytes change, so that a long one is still waiting while short ones with trees of their own,
// or without, come and go.
func TestBlocksOfAllLengths(t *testing.T) {
	o := newOracle(t)
	rng := rand.New(rand.NewPCG(5, 6))
	var d Decoder
	for range 30 {
		var e Encoder
		var content, blocks, tree []byte
		for left := 3 + rng.IntN(12); left > 0; left-- {
			n := maxBlock
			if rng.IntN(3) > 0 {
				n = 1000 + rng.IntN(maxBlock-1000)
			}
			b := make([]byte, n)
			most := 2 + rng.IntN(250)
			for i := range b {
				b[i] = byte(most - min(most, int(math.Abs(rng.NormFloat64())*float64(most)/4)))
			}
			e.survey(b, true)
			if len(content) == 0 || rng.IntN(3) > 0 {
				e.excess = 0
				tree = e.code(0)
			} else {
				tree = nil
				last := content[len(content)-1000:] // of the bytes that the last tree has
				b = bytes.Repeat(last, 1+n/len(last))[:n]
			}
			at := len(blocks)
			blocks = e.block(blocks, b, tree, 0)
			if left == 1 {
				blocks[at] |= 1
			}
			content = append(content, b...)
		}
		frame := binary.LittleEndian.AppendUint32(nil, magic)
		frame = append(frame, contentSizeOf4Bytes|singleSegment|hasChecksum)
		frame = binary.LittleEndian.AppendUint32(frame, uint32(len(content)))
		frame = binary.LittleEndian.AppendUint32(append(frame, blocks...), uint32(xxhash.Sum64(content)))
		if want, err := o.decode(frame, len(content)); err != nil || !bytes.Equal(want, content) {
			t.Fatalf("a frame that others do not decode: %v", err)
		}
		dst := make([]byte, len(content))
		if !d.Decode(dst, frame) || !bytes.Equal(dst, content) {
			t.Fatal("not decoded")
		}
	}
}

// What Repeats does not find must not be missed: a frame without it is nearly as short as one that was searched.
func TestRepeats(t *testing.T) {
	o := newOracle(t)
	var e Encoder
	yes, no := 0, 0
	each(func(kind string, b []byte) {
		usual := o.encoders[2].EncodeAll(b, nil)
		if e.Repeats(b) {
			if yes++; bytes.HasPrefix([]byte(kind), []byte("weights of")) || bytes.HasPrefix([]byte(kind), []byte("noise")) {
				t.Errorf("%s: something repeats", kind)
			}
			return
		}
		no++
		if frame, ok := e.Append(nil, b); ok && len(frame) > len(usual)*102/100+100 || !ok && len(usual) < len(b)*98/100-100 {
			t.Errorf("%s: nothing repeats, and %d bytes become %d (%v) instead of %d", kind, len(b), len(frame), ok, len(usual))
		}
	})
	t.Log(yes, "contents in which something repeats,", no, "in which nothing does")
	if yes == 0 || no == 0 {
		t.Error("that tells nothing")
	}
}

// hold wants what is decoded here to be what the oracle makes of the same frame, were its checksum right.
func hold(t testing.TB, o *oracle, d *Decoder, frame []byte, size int) bool {
	dst, whole := fenced(size)
	ok := d.decode(dst, frame)
	if !whole() {
		t.Fatalf("bytes beyond the destination of %d bytes: % x", size, frame)
	}
	if !ok {
		return false
	}
	right := slices.Clone(frame)
	binary.LittleEndian.PutUint32(right[len(right)-checksum:], uint32(xxhash.Sum64(dst)))
	p, err := o.decode(right, size)
	if err != nil || !bytes.Equal(p, dst) {
		t.Fatalf("decoded here to %d bytes, by others: %v, the same bytes: %v: % x", size, err, bytes.Equal(p, dst), frame)
	}
	if !d.Decode(dst, right) || !bytes.Equal(p, dst) {
		t.Fatalf("not decoded again")
	}
	return true
}

// small are frames with all that a frame can have, as short as encoders make them.
func small(t testing.TB, o *oracle) (frames [][]byte, sizes []int) {
	for _, n := range []int{60, 700, 1500, 5000} {
		w := weights(n)
		repeating := slices.Clone(w)
		for at := 40; at+90 < n; at += 90 {
			copy(repeating[at:at+3+at%17], repeating[at/2:])
		}
		for _, b := range [][]byte{w, repeating, make([]byte, n), bytes.Repeat([]byte("abcde "), n/6), append(slices.Clone(repeating), w...)} {
			for _, e := range o.encoders {
				frames, sizes = append(frames, e.EncodeAll(b, nil)), append(sizes, len(b))
			}
		}
	}
	return frames, sizes
}

func TestDamage(t *testing.T) {
	o := newOracle(t)
	var d Decoder
	frames, sizes := small(t, o)
	held := 0
	for i, f := range frames {
		step := max(1, 8*len(f)/400)
		if testing.Short() {
			step *= 10
		}
		for bit := 0; bit < 8*len(f); bit += step {
			damaged := slices.Clone(f)
			damaged[bit/8] ^= 1 << (bit % 8)
			if hold(t, o, &d, damaged, sizes[i]) {
				held++
			}
			dst, _ := fenced(sizes[i])
			if d.Decode(dst, damaged) && bit/8 < len(f)-checksum {
				if p, err := o.decode(damaged, sizes[i]); err != nil || !bytes.Equal(p, dst) {
					t.Fatalf("frame %d, bit %d: decoded here", i, bit)
				}
			}
		}
		for n := 0; n < len(f); n += 1 + len(f)/200 {
			if d.decode(make([]byte, sizes[i]), f[:n]) {
				t.Errorf("frame %d: decoded, though cut to %d of %d bytes", i, n, len(f))
			}
		}
	}
	t.Log(held, "damaged frames decode to something")
}

func FuzzDecode(f *testing.F) {
	o := newOracle(f)
	frames, sizes := small(f, o)
	for i, frame := range frames {
		f.Add(frame, uint32(sizes[i]))
	}
	var e Encoder
	for _, n := range []int{least, 2*maxBlock + 9} {
		frame, _ := e.Append(nil, weights(n))
		f.Add(frame, uint32(n))
	}
	f.Fuzz(func(t *testing.T, frame []byte, size uint32) {
		var d Decoder
		hold(t, o, &d, frame, int(size%(3*maxBlock)))
	})
}

func BenchmarkDecode(b *testing.B) {
	src := weights(1 << 20)
	o := newOracle(b)
	f := o.encoders[0].EncodeAll(src, nil)
	dst := make([]byte, len(src))
	b.Run("here", func(b *testing.B) {
		var d Decoder
		b.SetBytes(int64(len(src)))
		for b.Loop() {
			if !d.Decode(dst, f) {
				b.Fatal("not decoded")
			}
		}
	})
	b.Run("klauspost", func(b *testing.B) {
		b.SetBytes(int64(len(src)))
		for b.Loop() {
			if _, err := o.decoder.DecodeAll(f, dst[:0]); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	src := weights(1 << 20)
	o := newOracle(b)
	var f []byte
	b.Run("here", func(b *testing.B) {
		var e Encoder
		b.SetBytes(int64(len(src)))
		for b.Loop() {
			f, _ = e.Append(f[:0], src)
		}
	})
	b.Run("klauspost", func(b *testing.B) {
		b.SetBytes(int64(len(src)))
		for b.Loop() {
			f = o.encoders[0].EncodeAll(src, f[:0])
		}
	})
}
