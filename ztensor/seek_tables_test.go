package ztensor

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
)

// A frame may claim a window far beyond what it decodes to, and libzstd, which has all
// of it, does not mind.
func TestWindowsOfFramesMayExceedTheirContent(t *testing.T) {
	content := []byte("0123456789")
	sum := zframe(t, content, true)
	for _, c := range []struct {
		window byte // 2^(10 + its upper five bits), and as many eighths more as the others say
		fits   bool
	}{{0, true}, {17 << 3, true}, {17<<3 | 1, strconv.IntSize == 64},
		{21<<3 | 7, strconv.IntSize == 64}, {22 << 3, false}} {
		f := append([]byte("\x28\xb5\x2f\xfd\x04"), c.window, 1|10<<3, 0, 0)
		f = append(append(f, content...), sum[len(sum)-4:]...)
		r, err := OpenBytes(seekPart(seekBlob([][]byte{f}, []int{10}), 10).file(), nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.Tensor("w").Data.ReadAll()
		if c.fits && (err != nil || string(got) != string(content)) ||
			!c.fits && !errors.Is(err, tensor.ErrLimit) {
			t.Errorf("window %#x: %q, %v", c.window, got, err)
		}
	}
}

// Lies of seek tables and of frames (§8), each refused when it is read, whole or
// at one place, and none for a price.
func TestSeekTablesThatLieAreRefused(t *testing.T) {
	a, b := []byte("0123456789"), []byte("abcdefghij")
	fa, fb := zframe(t, a, true), zframe(t, b, true)
	good := seekBlob([][]byte{fa, fb}, []int{10, 10})
	change := func(at int, x ...byte) []byte { // at counts from the end where it is negative
		c := bytes.Clone(good)
		if at < 0 {
			at += len(c)
		}
		copy(c[at:], x)
		return c
	}
	size := func(first, second uint32) []byte {
		c := bytes.Clone(good)
		binary.LittleEndian.PutUint32(c[len(c)-25:], first)
		binary.LittleEndian.PutUint32(c[len(c)-17:], second)
		return c
	}
	skippable := []byte("\x50\x2a\x4d\x18\x02\x00\x00\x00ab")
	long := seekBlob([][]byte{append(slices.Clip(fa), skippable...), fb}, []int{10, 10})
	empty := zframe(t, nil, true)
	table := func(descriptor byte, width int) []byte { // with a third column
		c := append(slices.Clip(fa), seekHeader...)
		c = binary.LittleEndian.AppendUint32(c, uint32(width+9))
		c = binary.LittleEndian.AppendUint32(c, uint32(len(fa)))
		c = binary.LittleEndian.AppendUint32(c, 10)
		c = append(c, make([]byte, width-8)...)
		return append(append(binary.LittleEndian.AppendUint32(c, 1), descriptor), seekMagic...)
	}
	for _, c := range []struct {
		name   string
		stored []byte
		size   int
	}{
		{"nothing", nil, 20},
		{"16 bytes", good[len(good)-16:], 20},
		{"no magic", change(-1, 0), 20},
		{"no header", change(-17-16, 0), 20},
		{"another length in the header", change(-17-16+4, 0xff), 20},
		{"descriptor", change(-5, 1), 20},
		{"a third column that is not there", change(-5, 0x80), 20},
		{"one entry more", change(-9, 3), 20},
		{"one entry less", change(-9, 1), 20},
		{"2^32-1 entries", change(-9, 0xff, 0xff, 0xff, 0xff), 20},
		{"the first frame overlaps the second", size(uint32(len(fa)+1), uint32(len(fb)-1)), 20},
		{"the second begins in the first", size(uint32(len(fa)-1), uint32(len(fb)+1)), 20},
		{"more bytes than there are", size(uint32(len(fa)), uint32(len(fb)+1)), 20},
		{"fewer", size(uint32(len(fa)), uint32(len(fb)-1)), 20},
		{"no bytes for ten", size(0, uint32(len(fa)+len(fb))), 20},
		{"sums to less", good, 19},
		{"sums to more", good, 21},
		{"shorter than it says", seekBlob([][]byte{fa, fb}, []int{11, 9}), 20},
		{"a skippable frame in an entry", long, 20},
		{"a frame of nothing in an entry",
			seekBlob([][]byte{append(slices.Clip(fa), empty...)}, []int{10}), 10},
		{"bytes between", seekBlob([][]byte{append(slices.Clip(fa), 0), fb}, []int{10, 10}), 20},
		{"no frame", seekBlob([][]byte{[]byte("no frame at all, but bytes")}, []int{20}), 20},
		{"its checksum", change(len(fa)-1, fa[len(fa)-1]^1), 20},
		{"its content", change(len(fa)-6, fa[len(fa)-6]^1), 20},
		{"a frame cut off", seekBlob([][]byte{fa[:len(fa)-4]}, []int{10}), 10},
		{"16 MiB of ten bytes", seekBlob([][]byte{fa}, []int{16 << 20}), 16 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := OpenBytes(seekPart(c.stored, c.size).file(), nil)
			if err != nil {
				t.Fatal(err)
			}
			d := r.Tensor("w").Data
			check := func(how string, err error) {
				t.Helper()
				var broken *rule.Error
				if !errors.As(err, &broken) || broken.Rule != rule.Encoding &&
					broken.Rule != rule.Digest {
					t.Errorf("%s: %v", how, err)
				}
			}
			_, err = d.ReadAll()
			check("read", err)
			err = nil
			for at := range min(c.size, 20) { // one of the places is wrong
				if _, e := d.ReadAt(make([]byte, 1), int64(at)); e != nil {
					err = e
				}
			}
			check("read at", err)
			_, err = r.Verify(t.Context(), nil)
			check("verify", err)
		})
	}
	for name, stored := range map[string][]byte{"two frames": good,
		"a third column": table(0x80, 12)} {
		n := 20
		if name != "two frames" {
			n = 10
		}
		r, err := OpenBytes(seekPart(stored, n).file(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := r.Tensor("w").Data.ReadAll(); err != nil ||
			string(b) != "0123456789abcdefghij"[:n] {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
}

// A table of a million frames is read in time and memory in proportion to its
// bytes, and of its claims nothing is believed.
func TestAMillionFramesAreReadInProportion(t *testing.T) {
	if testing.Short() {
		t.Skip("long where the machine is emulated or races are looked for")
	}
	const n = 1_000_000
	frame := zframe(t, []byte{7}, true)
	frames, sizes := make([][]byte, n), make([]int, n)
	for i := range frames {
		frames[i], sizes[i] = frame, 1
	}
	stored := seekBlob(frames, sizes)
	m := objectsOf("w", object2Of("dense", []any{n}, "data",
		pairList{"blob", []any{4096, len(stored)}, "dtype", "u8", "encoding", seekable,
			"decoded_length", n}))
	m.data = stored
	r, err := OpenBytes(m.large(), nil)
	if err != nil {
		t.Fatal(err)
	}
	d := r.Tensor("w").Data
	p := make([]byte, 3)
	if _, err := d.ReadAt(p, n/2); err != nil || p[0] != 7 || p[2] != 7 {
		t.Error(p, err)
	}
	// 16 MiB each, says another table.
	for i := range sizes {
		sizes[i] = maxFrame
	}
	m.data = seekBlob(frames, sizes)
	m.manifest = pairList{"objects", pairList{"w", object2Of("acme", []any{}, "data",
		pairList{"blob", []any{4096, len(stored)}, "dtype", "u8", "encoding", seekable,
			"decoded_length", uint64(n) * maxFrame})}}
	if r, err = OpenBytes(m.large(), nil); err != nil {
		t.Fatal(err)
	}
	lie := r.Tensor("w").Part("data").Data
	if _, err := lie.ReadAll(); !errors.Is(err, tensor.ErrLimit) &&
		!errors.Is(err, tensor.ErrMalformed) {
		t.Error(err)
	}
	if _, err := lie.ReadAt(p, 1<<40); err == nil {
		t.Error(fmt.Sprint("a byte of ", uint64(n)*maxFrame))
	}
}
