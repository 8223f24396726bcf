package ptd_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/tensor"
)

func TestDamagedFilesAreReadOrRefused(t *testing.T) {
	for name, data := range goldens(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			end := int(metadataEnd(data))
			opened, mutants := 0, 0
			try := func(what string, i int, b []byte) {
				mutants++
				err := readtest.Survives(t, func() error {
					r, err := ptd.OpenBytes(b, nil)
					if err == nil {
						walk(t, r)
						opened++
					}
					return err
				}, "%s %d", what, i)
				var fe *tensor.FormatError
				if err != nil && !errors.As(err, &fe) {
					t.Fatalf("%s %d: %v is no FormatError", what, i, err)
				}
			}
			for n, b := range readtest.Truncations(data) {
				if _, err := ptd.OpenBytes(b, nil); err == nil {
					t.Errorf("opened when cut to %d of %d bytes", n, len(data))
				}
			}
			lo := 0
			if end > 4<<10 {
				lo = end - 2<<10 // and the header, below
				for i, b := range readtest.BitFlips(data, 0, 256) {
					try("bit", i, b)
				}
			}
			for i, b := range readtest.BitFlips(data, lo, end) {
				try("bit", i, b)
			}
			for i, b := range readtest.ByteSets(data, lo, end, 0, 0xff) {
				try("byte", i, b)
			}
			for i := end; i < len(data); i += 1 + len(data)/100 {
				b := bytes.Clone(data)
				b[i] ^= 0x10
				try("data byte", i, b)
			}
			t.Logf("%d of %d mutants open", opened, mutants)
		})
	}
}

// Every word of the metadata, and every number of the header, takes every value that
// has ever broken a parser.
func TestEveryFieldTakesExtremeValues(t *testing.T) {
	values := []uint64{0, 1, 2, 3, 4, 1<<16 - 1, 1<<31 - 1, 1 << 31, 1<<31 + 1, 1<<32 - 4,
		1<<32 - 1, 1 << 32, 1 << 63, math.MaxUint64 - 7, math.MaxUint64}
	for name, data := range goldens(t) {
		end := int(metadataEnd(data))
		if end > 2<<10 {
			continue
		}
		for off := 0; off+8 <= end; off += 4 {
			for _, x := range values {
				for _, width := range []int{4, 8} {
					b := bytes.Clone(data)
					if width == 4 {
						binary.LittleEndian.PutUint32(b[off:], uint32(x))
					} else {
						binary.LittleEndian.PutUint64(b[off:], x)
					}
					readtest.Survives(t, func() error {
						r, err := ptd.OpenBytes(b, nil)
						if err == nil {
							walk(t, r)
						}
						return err
					}, "%s: %#x at %#x", name, x, off)
				}
			}
		}
	}
}

// Offsets that go back, wrap, or lead to what is something else, at every word of the
// FlatBuffer.
func TestEveryOffsetIsRedirected(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for name, data := range goldens(t) {
		end := int(metadataEnd(data))
		step := max(3, end/30) // so that long ones take as long
		for off := 56; off+4 <= end; off += 4 * readtest.Stride() {
			for to := 4 * rng.IntN(step); to < end; to += 4 * (1 + rng.IntN(step)) {
				b := bytes.Clone(data)
				binary.LittleEndian.PutUint32(b[off:], uint32(to-off))
				readtest.Survives(t, func() error {
					r, err := ptd.OpenBytes(b, nil)
					if err == nil {
						walk(t, r)
					}
					return err
				}, "%s: word at %#x leads to %#x", name, off, to)
			}
		}
	}
}

// Bytes after the file in the same memory are never shown.
func TestBytesAfterTheFileAreNeverShown(t *testing.T) {
	for _, data := range goldens(t) {
		end := int(metadataEnd(data))
		for i, m := range readtest.BitFlips(data, 0, min(end, 600)) {
			b := readtest.WithCanary(m)
			r, err := ptd.OpenBytes(b, nil)
			if err != nil {
				if strings.Contains(err.Error(), readtest.Canary) {
					t.Fatalf("bit %d: %v", i, err)
				}
				continue
			}
			for e := range r.Entries() {
				p, _ := e.Data.ReadAll()
				if strings.Contains(e.Name, readtest.Canary) ||
					bytes.Contains(p, []byte(readtest.Canary)) {
					t.Fatalf("bit %d: %s shows the canary", i, e.Name)
				}
			}
		}
	}
}
