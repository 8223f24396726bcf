package literals

import (
	"bytes"
	"runtime/debug"
	"slices"
	"syscall"
	"testing"
)

// guarded is room for n bytes, between pages that may not be touched, at the end of it or at its beginning.
func guarded(t *testing.T, n int, atEnd bool) []byte {
	const page = 4096
	size := (n + page - 1) &^ (page - 1)
	all, err := syscall.Mmap(-1, 0, size+2*page, syscall.PROT_NONE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Skip("no memory to protect: ", err)
	}
	t.Cleanup(func() { syscall.Munmap(all) })
	b := all[page : page+size]
	if err := syscall.Mprotect(b, syscall.PROT_READ|syscall.PROT_WRITE); err != nil {
		t.Skip("no memory to protect: ", err)
	}
	if atEnd {
		return b[size-n:]
	}
	return b[:n:n]
}

// The loops that encode touch neither more of the content nor more room than they say, whatever the lengths of codes.
func TestEncodingTouchesNothingBeyond(t *testing.T) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	var e Encoder
	each(func(kind string, b []byte) {
		if _, ok := e.Append(nil, b); !ok {
			return
		}
		for n := 32; n <= min(len(b), 10_000); n = n*5/4 + 32 {
			for _, atEnd := range []bool{false, true} {
				src, out := guarded(t, n, atEnd), guarded(t, 44*(n/32)+8, atEnd)
				copy(src, b[len(b)-n:])
				if rest, at, _, left := e.some(out, src); rest < n && (at > len(out)-8 || left > 7) {
					t.Errorf("%s: %d bytes, and %d bits, of %d of content", kind, at, left, n-rest)
				}
			}
		}
	})
}

// TestNothingBeyond lets every frame and what it decodes to end, and then begin, at a page that may not be touched: the loops in assembly
// have no bounds checked but those that were worked out before.
func TestNothingBeyond(t *testing.T) {
	o := newOracle(t)
	room := func(n int, atEnd bool) []byte { return guarded(t, n, atEnd) }
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	var e Encoder
	var d Decoder
	for _, n := range []int{least, maxBlock, 2*maxBlock + 900, 4 * maxBlock} {
		w := weights(n)
		repeating := slices.Clone(w)
		for at := 500; at+20 < n; at += 9000 {
			copy(repeating[at:at+20], repeating[at/3:])
		}
		ours, _ := e.Append(nil, w)
		for i, frame := range [][]byte{ours, o.encoders[0].EncodeAll(w, nil), o.encoders[2].EncodeAll(repeating, nil)} {
			content := [][]byte{w, w, repeating}[i]
			for _, atEnd := range []bool{false, true} {
				in, dst := room(len(frame), atEnd), room(n, atEnd)
				copy(in, frame)
				if !d.Decode(dst, in) {
					t.Fatal("not decoded")
				}
				for i := 5; i < len(in)-checksum; i += 1 + len(in)/500 {
					in[i] ^= 0x41
					if d.Decode(dst, in) && !bytes.Equal(dst, content) { // the window may be another
						t.Fatal("decoded, though damaged")
					}
					in[i] = frame[i]
				}
			}
		}
	}
}

// TestAFaultIsAPanic takes away what is being decoded, as another process may do with a mapped file: whoever guards against that must get
// to know.
func TestAFaultIsAPanic(t *testing.T) {
	const page = 4096
	src := weights(4 * maxBlock)
	var e Encoder
	frame, _ := e.Append(nil, src)
	all, err := syscall.Mmap(-1, 0, (len(frame)+page-1)&^(page-1), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Skip("no memory to protect: ", err)
	}
	defer syscall.Munmap(all)
	in := all[:copy(all, frame):len(frame)]
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	var d Decoder
	dst := make([]byte, len(src))
	faults := 0
	for at := page; at+page < len(in); at += page {
		if err := syscall.Mprotect(all[at:at+page], syscall.PROT_NONE); err != nil {
			t.Skip("no memory to protect: ", err)
		}
		func() {
			defer func() {
				if recover() != nil {
					faults++
				}
			}()
			d.Decode(dst, in)
		}()
		if err := syscall.Mprotect(all[at:at+page], syscall.PROT_READ|syscall.PROT_WRITE); err != nil {
			t.Fatal(err)
		}
	}
	if want := len(in)/page - 1; faults < want-1 {
		t.Errorf("%d panics for %d pages", faults, want)
	}
	if !d.Decode(dst, in) || !bytes.Equal(dst, src) {
		t.Error("not decoded afterwards")
	}
}
