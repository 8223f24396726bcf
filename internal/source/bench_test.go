package source

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkRead reads 1 GiB that is in the page cache, in pieces of 1 MiB and in one,
// into memory that was touched before. The yardstick is copy from the same mapping, in
// the same pieces.
func BenchmarkRead(b *testing.B) {
	const size = 1 << 30
	name := filepath.Join(b.TempDir(), "f")
	f, err := os.Create(name)
	if err != nil {
		b.Fatal(err)
	}
	piece := make([]byte, 1<<20)
	for i := range size >> 20 {
		piece[i] = byte(i)
		if _, err := f.Write(piece); err != nil {
			b.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	mapped, err := Open(name, false)
	if err != nil {
		b.Fatal(err)
	}
	defer mapped.Close()
	unmapped, err := Open(name, true)
	if err != nil {
		b.Fatal(err)
	}
	defer unmapped.Close()
	all, ok := mapped.Bytes(0, size)
	if !ok {
		b.Skip("no mapping here")
	}
	dst := make([]byte, size)
	for i := 0; i < size; i += 4096 {
		dst[i] = all[i]
	}
	reader := func(s io.ReaderAt) func(p []byte, off int) error {
		return func(p []byte, off int) error { _, err := s.ReadAt(p, int64(off)); return err }
	}
	for _, step := range []int{1 << 20, size} {
		for _, c := range []struct {
			name string
			read func(p []byte, off int) error
		}{
			{"copy", func(p []byte, off int) error { copy(p, all[off:]); return nil }},
			{"ReadAt", reader(mapped)},
			{"Bytes", func(p []byte, off int) error {
				v, ok := mapped.Bytes(int64(off), int64(len(p)))
				if !ok {
					return io.ErrUnexpectedEOF
				}
				copy(p, v)
				return nil
			}},
			{"ReadAt unmapped", reader(unmapped)},
			{"os.File", reader(unmapped.r)},
		} {
			b.Run(fmt.Sprintf("%dMiB/%s", step>>20, c.name), func(b *testing.B) {
				b.SetBytes(size)
				b.ReportAllocs()
				for b.Loop() {
					for off := 0; off < size; off += step {
						if err := c.read(dst[off:off+step], off); err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		}
	}
}

// BenchmarkGuard reads 8 bytes at a time: what the lock and the guard against faults
// cost.
func BenchmarkGuard(b *testing.B) {
	data := make([]byte, 4096)
	s := OfBytes(data)
	p := make([]byte, 8)
	b.Run("copy", func(b *testing.B) {
		for b.Loop() {
			copy(p, data[16:])
		}
	})
	b.Run("ReadAt", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := s.ReadAt(p, 16); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Bytes", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			v, _ := s.Bytes(16, 8)
			copy(p, v)
		}
	})
}
