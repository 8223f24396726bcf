package rten

import (
	"bytes"
	"encoding/binary"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/schema/rtenfb"
)

// TestEveryTruncationAndBitIsReadOrRefused tries every truncation, every bit, and bytes
// set to 0x00, 0x7f, 0x80 and 0xff: of goldens of up to 3 KiB, else of their first 200
// bytes, and of all of them with TENSORFILE_FULL=1.
func TestEveryTruncationAndBitIsReadOrRefused(t *testing.T) {
	for name, data := range goldens(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hi := len(data)
			if os.Getenv("TENSORFILE_FULL") == "" {
				switch {
				case hi > 8<<10:
					t.Skip("long: TENSORFILE_FULL=1")
				case testing.Short() || hi > 3<<10:
					hi = 200
				}
			}
			truncated, changed := readtest.Damage(t, data, 0, hi, walk)
			t.Logf("truncations accepted %.1f %%, changes accepted %.1f %% of %d",
				truncated.Accepts(), changed.Accepts(), changed.Accepted+changed.Refused)
			// A cut in the padding at the end of a file takes nothing away.
			if truncated.Accepted > 64 {
				t.Errorf("%d truncations were accepted", truncated.Accepted)
			}
			if changed.Accepts() > 60 {
				t.Errorf("%.1f %% of the changes were accepted", changed.Accepts())
			}
		})
	}
}

func TestNothingAfterTheBytesIsRead(t *testing.T) {
	for name, data := range goldens(t) {
		b := readtest.WithCanary(data)
		for at := 32; at < min(len(data)-4, 600); at += 23 {
			c := readtest.WithCanary(data)
			c[at] ^= 0x3f
			if r, err := OpenBytes(c, nil); err == nil &&
				strings.Contains(describe(r), readtest.Canary) {
				t.Fatalf("%s: byte %d", name, at)
			}
		}
		if r := openBytes(t, b); strings.Contains(describe(r), readtest.Canary) {
			t.Error(name)
		}
	}
}

// It changes the offsets, lengths and vtables of each golden, one at a time, and reads
// everything through the public API: all of them with TENSORFILE_FULL=1, else some 1,500
// of each file.
func TestChangedOffsetsNeverPanic(t *testing.T) {
	for name, data := range goldens(t) {
		m := openBytes(t, data).model
		words := make(map[int]bool)
		fb.EachTable(m.buf, &rtenfb.Schema, rtenfb.TableModel, func(v *fb.Visit) bool {
			v.Parts(func(pos, n int, f *fb.Field) {
				for at := pos; f == nil && at < pos+min(n, 64) ||
					f != nil && f.Kind != fb.Scalar && at == pos; at += 2 {
					words[at+int(m.base)] = true
				}
			})
			return true
		})
		positions := slices.Sorted(maps.Keys(words))
		values := []uint32{0, 1, 4, 0x7fff, 1<<31 - 1, 1 << 31, 1<<32 - 1, uint32(len(data))}
		step := 1
		if os.Getenv("TENSORFILE_FULL") == "" {
			step = len(positions)*len(values)/1500 | 1 // odd, so that all values have their turn
		}
		step *= readtest.Stride()
		for i := 0; i < len(positions)*len(values); i += step {
			at, v := positions[i/len(values)], values[i%len(values)]
			c := bytes.Clone(data)
			if at+4 > len(c) {
				continue
			}
			binary.LittleEndian.PutUint32(c[at:], v)
			readtest.Survives(t, func() error { return walk(c) }, "%s: %#x at %d", name, v, at)
		}
	}
}
