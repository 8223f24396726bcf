package atomicfile

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// BenchmarkWrite writes 1 GiB from memory in pieces of 1 MiB: to a plain file, to one
// that is then flushed to the disk, and to one that appears whole. The time that
// atomicfile promises includes the flush.
func BenchmarkWrite(b *testing.B) {
	const size, piece = 1 << 30, 1 << 20
	data := content(64 << 20)
	at := func(off int) []byte { return data[off%len(data):][:piece] }
	plain := func(b *testing.B, name string, sync bool) {
		f, err := os.Create(name)
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		for off := 0; off < size; off += piece {
			if _, err := f.Write(at(off)); err != nil {
				b.Fatal(err)
			}
		}
		if sync {
			if err := f.Sync(); err != nil {
				b.Fatal(err)
			}
		}
	}
	atomic := func(b *testing.B, name string, write func(f *File) error) {
		f, err := Create(name)
		if err != nil {
			b.Fatal(err)
		}
		defer f.Abort()
		if err := write(f); err != nil {
			b.Fatal(err)
		}
		if err := f.Close(); err != nil {
			b.Fatal(err)
		}
	}
	sequential := func(f *File) error {
		for off := 0; off < size; off += piece {
			if _, err := f.Write(at(off)); err != nil {
				return err
			}
		}
		return nil
	}
	for _, c := range []struct {
		name  string
		write func(b *testing.B, name string)
	}{
		{"os.File", func(b *testing.B, name string) { plain(b, name, false) }},
		{"os.File+Sync", func(b *testing.B, name string) { plain(b, name, true) }},
		{"size unknown", func(b *testing.B, name string) { atomic(b, name, sequential) }},
		{"reserved", func(b *testing.B, name string) {
			atomic(b, name, func(f *File) error { f.Reserve(size); return sequential(f) })
		}},
		{"reserved, two goroutines", func(b *testing.B, name string) {
			atomic(b, name, func(f *File) error {
				f.Reserve(size)
				var wg sync.WaitGroup
				for half := range 2 {
					wg.Add(1)
					go func() {
						defer wg.Done()
						for off := half * size / 2; off < (half+1)*size/2; off += piece {
							f.WriteAt(at(off), int64(off))
						}
					}()
				}
				wg.Wait()
				return nil
			})
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			name := filepath.Join(b.TempDir(), "f")
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				c.write(b, name)
				b.StopTimer()
				// replacing costs what removing the old file costs: not what is measured
				os.Remove(name)
				b.StartTimer()
			}
		})
	}
}
