package ztensor

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/tensor"
)

// largeSize is that of the files below: TENSORFILE_BENCH_BIG=1 makes it 1 GiB.
func largeSize() int {
	if os.Getenv("TENSORFILE_BENCH_BIG") != "" {
		return 1 << 30
	}
	return 32 << 20
}

// largeTensors are tensors of 1 MiB, all of them of the same memory.
func largeTensors() []*tensor.Tensor {
	data := make([]uint64, 1<<17)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range data {
		data[i] = rng.Uint64()
	}
	floats, _ := le.Cast[float32](le.Bytes(data))
	ts := make([]*tensor.Tensor, largeSize()>>20)
	for i := range ts {
		ts[i] = tensor.New("layers."+strconv.Itoa(i)+".weight", tensor.Shape{1 << 18}, floats)
	}
	return ts
}

// BenchmarkReadLarge reads a file in tensors of 1 MiB into memory that is
// reused; the yardstick is copy from the same mapping.
func BenchmarkReadLarge(b *testing.B) {
	name := filepath.Join(b.TempDir(), "large.zt")
	if err := WriteFile(name, slices.Values(largeTensors()), nil); err != nil {
		b.Fatal(err)
	}
	r, err := Open(name, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	ts := slices.Collect(r.Tensors())
	dst := make([]byte, largeSize())
	clear(dst)
	at := func(i int) []byte { return dst[i<<20 : (i+1)<<20] }
	run := func(name string, pass func() error) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(dst)))
			for b.Loop() {
				if err := pass(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	run("copy", func() error {
		for i, t := range ts {
			p, _ := t.Data.Bytes()
			copy(at(i), p)
		}
		return nil
	})
	run("View", func() error {
		for i, t := range ts {
			v, err := tensor.View[float32](t)
			if err != nil {
				return err
			}
			copy(at(i), le.Bytes(v))
		}
		return nil
	})
	run("ReadInto", func() error {
		for i, t := range ts {
			if err := t.Data.ReadInto(at(i)); err != nil {
				return err
			}
		}
		return nil
	})
	run("ReadInto on two goroutines", func() error {
		var group sync.WaitGroup
		errs := make([]error, 2)
		for k := range errs {
			group.Add(1)
			go func() {
				defer group.Done()
				for i := k * len(ts) / 2; i < (k+1)*len(ts)/2 && errs[k] == nil; i++ {
					errs[k] = ts[i].Data.ReadInto(at(i))
				}
			}()
		}
		group.Wait()
		if errs[0] != nil {
			return errs[0]
		}
		return errs[1]
	})
}

// BenchmarkWriteLarge writes tensors of 1 MiB. The first yardstick is
// os.File.Write of the same bytes, for NewWriter on such a file; the second adds
// Sync, for Create, whose file is on the disk when Close returns.
func BenchmarkWriteLarge(b *testing.B) {
	ts := largeTensors()
	name := filepath.Join(b.TempDir(), "large.zt")
	run := func(title string, write func(f *os.File) error) {
		b.Run(title, func(b *testing.B) {
			b.SetBytes(int64(largeSize()))
			for b.Loop() {
				f, err := os.Create(name)
				if err != nil {
					b.Fatal(err)
				}
				if err := write(f); err != nil {
					b.Fatal(err)
				}
				f.Close()
				b.StopTimer()
				os.Remove(name)
				b.StartTimer()
			}
		})
	}
	plain := func(f *os.File) error {
		for _, t := range ts {
			p, _ := t.Data.Bytes()
			if _, err := f.Write(p); err != nil {
				return err
			}
		}
		return nil
	}
	through := func(o *WriterOptions) func(f *os.File) error {
		return func(f *os.File) error {
			w := NewWriter(f, o)
			if err := w.AddAll(b.Context(), slices.Values(ts)); err != nil {
				return err
			}
			return w.Close()
		}
	}
	run("os.File", plain)
	run("NewWriter", through(nil))
	run("NewWriter, crc32c", through(&WriterOptions{Digest: CRC32C}))
	run("NewWriter, sha256", through(&WriterOptions{Digest: SHA256}))
	run("os.File and Sync", func(f *os.File) error {
		if err := plain(f); err != nil {
			return err
		}
		return f.Sync()
	})
	run("Create", func(*os.File) error { return WriteFile(name, slices.Values(ts), nil) })
	run("Create, crc32c", func(*os.File) error {
		return WriteFile(name, slices.Values(ts), &WriterOptions{Digest: CRC32C})
	})
}
