package pte

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// large is a program of n values, of the kinds that exporters write in the shares that
// they have, and n instructions.
func large(t testing.TB, n int) []byte {
	t.Helper()
	b := NewBuilder()
	m := b.Method("forward")
	weight := tensor.BlobOf(make([]byte, 4*16))
	x := m.Input(tensor.F32, tensor.Shape{4, 4})
	one := m.Value(1)
	for len(m.values) < n {
		w := m.Constant(&tensor.Tensor{DType: tensor.F32, Shape: tensor.Shape{4, 4}, Data: weight})
		y := m.Tensor(tensor.F32, tensor.Shape{4, 4})
		m.Call("aten::mul.out", x, w, y, y)
		z := m.Tensor(tensor.F32, tensor.Shape{4, 4})
		m.Call("aten::add.out", y, x, m.Value(1), z, z)
		m.TensorList(y, z)
		x = z
	}
	for len(m.code) < n {
		m.Call("aten::add.out", x, x, one, x, x)
	}
	m.Return(x)
	var w bytes.Buffer
	if err := b.Write(t.Context(), &w, nil); err != nil {
		t.Fatal(err)
	}
	return w.Bytes()
}

// BenchmarkOpenAndVerify shows what opening and checking everything costs against the
// bare FlatBuffers verifier. The two take turns, and of each the best round counts: other
// work on the machine only ever adds.
func BenchmarkOpenAndVerify(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		data := large(b, n)
		name := filepath.Join(b.TempDir(), "large.pte")
		if err := os.WriteFile(name, data, 0o666); err != nil {
			b.Fatal(err)
		}
		for form, open := range map[string]func() (*Reader, error){
			"bytes": func() (*Reader, error) { return OpenBytes(data, nil) },
			// whose flatbuffer is copied first
			"mapped": func() (*Reader, error) { return Open(name, nil) },
		} {
			b.Run(fmt.Sprintf("%s/%d", form, n), func(b *testing.B) {
				r, err := open()
				if err != nil {
					b.Fatal(err)
				}
				defer r.Close()
				buf := r.buf
				bare, all := time.Hour, time.Hour
				b.ReportAllocs()
				b.SetBytes(int64(len(buf)))
				for b.Loop() {
					start := time.Now()
					if err := fb.Verify(buf, &ptefb.Schema, ptefb.TableProgram,
						fb.Limits{}); err != nil {
						b.Fatal(err)
					}
					middle := time.Now()
					r, err := open()
					if err != nil {
						b.Fatal(err)
					}
					if _, err := r.Verify(context.Background(), nil); err != nil {
						b.Fatal(err)
					}
					bare, all = min(bare, middle.Sub(start)), min(all, time.Since(middle))
					r.Close()
				}
				b.ReportMetric(float64(all)/float64(bare), "×verifier")
				b.ReportMetric(float64(bare.Nanoseconds()), "verifier-ns")
			})
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	data := large(b, 100_000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := OpenBytes(data, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTensors(b *testing.B) {
	r, err := OpenBytes(large(b, 100_000), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		for range r.Tensors() {
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(r.Len()), "ns/tensor")
}

func BenchmarkBuild(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		large(b, 100_000)
	}
}

// BenchmarkRewrite writes a file anew, flatbuffer taken apart, against a plain copy of it
// through the same kind of file, in one run.
func BenchmarkRewrite(b *testing.B) {
	size := bigSize()
	name := big(b, size)
	r, err := Open(name, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	ourName, plainName := filepath.Join(b.TempDir(), "ours.pte"),
		filepath.Join(b.TempDir(), "plain.pte")
	readtest.InTurns(b, func() {
		if err := copyFile(plainName, name); err != nil {
			b.Fatal(err)
		}
		os.Remove(plainName)
	}, readtest.Turn{Name: "rewrite", Do: func() {
		e := NewEdit(r)
		if err := e.takeApart(); err != nil {
			b.Fatal(err)
		}
		if err := e.WriteFile(b.Context(), ourName,
			&WriterOptions{SegmentAlignment: 16384}); err != nil {
			b.Fatal(err)
		}
		os.Remove(ourName)
	}})
}

// copyFile is what a careful program without this package does: copy, and flush to the
// disk.
func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err := io.Copy(out, in); err != nil { // inside of the kernel, where it can
		return err
	}
	return out.Sync()
}
