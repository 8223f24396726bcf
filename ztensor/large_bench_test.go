package ztensor

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/tensor"
)

// largeSize is the size of the files below: TENSORFILE_BENCH_BIG=1 makes it 1 GiB.
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
	check(b, WriteFile(b.Context(), name, tensor.Of(largeTensors()...),
		&WriterOptions{Version: "1.0"}))
	r, err := Open(name, nil)
	check(b, err)
	defer r.Close()
	ts := slices.Collect(r.Tensors())
	dst := make([]byte, largeSize())
	clear(dst)
	at := func(i int) []byte { return dst[i<<20 : (i+1)<<20] }
	readtest.InTurns(b, func() {
		for i, t := range ts {
			p, _ := t.Data.Bytes()
			copy(at(i), p)
		}
	}, readtest.Turn{Name: "View", Do: func() {
		for i, t := range ts {
			v, err := tensor.View[float32](t)
			check(b, err)
			copy(at(i), le.Bytes(v))
		}
	}}, readtest.Turn{Name: "ReadInto", Do: func() {
		for i, t := range ts {
			check(b, t.Data.ReadInto(at(i)))
		}
	}}, readtest.Turn{Name: "ReadInto-2", Do: func() {
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
		check(b, errors.Join(errs...))
	}})
}

// BenchmarkWriteLarge writes tensors of 1 MiB. The yardstick of plain is
// os.File.Write of the same bytes, for NewWriter on such a file; the time of durable
// adds Sync, for Create, whose file is on the disk when Close returns.
func BenchmarkWriteLarge(b *testing.B) {
	ts := largeTensors()
	name := filepath.Join(b.TempDir(), "large.zt")
	into := func(sync bool, write func(f *os.File) error) func() {
		return func() {
			f, err := os.Create(name)
			check(b, err)
			check(b, write(f))
			if sync {
				check(b, f.Sync())
			}
			f.Close()
			os.Remove(name)
		}
	}
	bytes := func(f *os.File) error {
		for _, t := range ts {
			p, _ := t.Data.Bytes()
			if _, err := f.Write(p); err != nil {
				return err
			}
		}
		return nil
	}
	var plain, durable []readtest.Turn
	for digest, title := range map[Digest]string{NoDigest: "none", CRC32C: "crc32c",
		SHA256: "sha256"} {
		o := &WriterOptions{Version: "1.0", Digest: digest}
		plain = append(plain, readtest.Turn{Name: title, Do: into(false, func(f *os.File) error {
			w := NewWriter(f, o)
			if err := w.AddAll(b.Context(), tensor.Of(ts...)); err != nil {
				return err
			}
			return w.Close()
		})})
		durable = append(durable, readtest.Turn{Name: title, Do: func() {
			check(b, WriteFile(b.Context(), name, tensor.Of(ts...), o))
			os.Remove(name)
		}})
	}
	b.Run("plain", func(b *testing.B) { readtest.InTurns(b, into(false, bytes), plain...) })
	b.Run("durable", func(b *testing.B) { readtest.InTurns(b, into(true, bytes), durable...) })
}
