package ztensor

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

// computed returns tensors whose data is made when it is read, and counts the bytes that
// were made, by any goroutine: a writer reads ahead. Equal seeds make equal data.
func computed(made *atomic.Int64, size int, seeds ...uint64) []*tensor.Tensor {
	var ts []*tensor.Tensor
	for i, seed := range seeds {
		ts = append(ts, &tensor.Tensor{Name: fmt.Sprintf("t%02d", i), DType: tensor.U8,
			Shape: tensor.Shape{int64(size)},
			Data: tensor.BlobFunc(int64(size), func() (io.ReadCloser, error) {
				r := bytes.NewReader(repeated(size, seed))
				return io.NopCloser(readerFunc(func(p []byte) (int, error) {
					n, err := r.Read(p)
					made.Add(int64(n))
					return n, err
				})), nil
			})})
	}
	return ts
}

// repeated returns bytes that depend on the seed.
func repeated(size int, seed uint64) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "%d, ", seed), size)[:size]
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// A file is written without computing a tensor twice, whether its size, or its data too,
// are the bytes of an earlier one.
func TestComputedTensorsAreReadOnce(t *testing.T) {
	for _, size := range []int{100, 4 << 20, 4<<20 + 1} {
		for what, seeds := range map[string][]uint64{
			"of one size":             {1, 2, 3, 4},
			"the last two are equal":  {1, 2, 3, 3},
			"the first two are equal": {1, 1, 2, 3},
			"all are equal":           {1, 1, 1, 1},
			"equal pairs":             {1, 2, 1, 2},
		} {
			if testing.Short() && size > 100 && what != "equal pairs" {
				continue
			}
			dir := t.TempDir()
			var made atomic.Int64
			ts := computed(&made, size, seeds...)
			want := write(t, &WriterOptions{Canonical: true},
				func(w *Writer) { w.AddAll(t.Context(), tensor.Of(ts...)) })
			ways := map[string]func(name string) error{
				"WriteFile": func(name string) error {
					return WriteFile(t.Context(), name, tensor.Of(ts...), nil)
				},
				"Create and Add": func(name string) error {
					w, err := Create(name, &WriterOptions{Canonical: true})
					if err != nil {
						return err
					}
					for _, x := range slices.Backward(ts) {
						err = errors.Join(err, w.Add(x))
					}
					return errors.Join(err, w.Close())
				},
				"WriteShards": func(name string) error {
					_, err := WriteShards(t.Context(), name, tensor.Of(ts...),
						&ShardOptions{MaxSize: 1 << 30})
					return err
				},
			}
			for how, write := range ways {
				made.Store(0)
				name := filepath.Join(dir, "x.zt")
				if err := write(name); err != nil {
					t.Fatalf("%s, %d bytes, %s: %v", how, size, what, err)
				}
				if all := int64(len(seeds) * size); made.Load() != all {
					t.Errorf("%s, %d bytes, %s: %d bytes are made of %d", how, size, what,
						made.Load(), all)
				}
				got, err := os.ReadFile(name)
				if err != nil || !bytes.Equal(got, want) {
					t.Errorf("%s, %d bytes, %s: %d bytes, to an io.Writer %d, %v", how, size,
						what, len(got), len(want), err)
				}
			}
			r, err := OpenBytes(want, &ReaderOptions{Strict: true})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.Verify(t.Context(),
				&tensor.VerifyOptions{Depth: tensor.VerifyCanonical}); err != nil {
				t.Errorf("%d bytes, %s: %v", size, what, err)
			}
			for i, x := range slices.Collect(r.Tensors()) {
				if b, err := x.Data.ReadAll(); err != nil ||
					!bytes.Equal(b, repeated(size, seeds[i])) {
					t.Errorf("%d bytes, %s: %s has changed, %v", size, what, x.Name, err)
				}
			}
		}
	}
}

// A shared part is checked for its own type: a bool has no other bytes than 0 and 1.
func TestSharedPartsAreCheckedForTheirType(t *testing.T) {
	const n = 5 << 20
	data := noise(n, 1)
	source := func(name string, d tensor.DType) *tensor.Tensor {
		return &tensor.Tensor{Name: name, DType: d, Shape: tensor.Shape{n},
			Data: tensor.BlobFunc(n, func() (io.ReadCloser, error) {
				return io.NopCloser(bytes.NewReader(data)), nil
			})}
	}
	name := filepath.Join(t.TempDir(), "x.zt")
	err := WriteFile(t.Context(), name, tensor.Of(source("a", tensor.U8),
		source("b", tensor.Bool)), nil)
	if !errors.Is(err, tensor.ErrMalformed) {
		t.Errorf("bytes of a uint8 as bool: %v", err)
	}
	if _, err := os.Lstat(name); err == nil {
		t.Error("a file is there")
	}
}

// Tensors that come piece by piece share their bytes in a file, as all others do.
func TestStreamedTensorsShareInAFile(t *testing.T) {
	data := noise(300_000, 1)
	want := write(t, &WriterOptions{Canonical: true}, func(w *Writer) {
		for _, name := range []string{"a", "b", "c", "d"} {
			w.Add(tensor.New(name, tensor.Shape{int64(len(data))}, data))
		}
	})
	name := filepath.Join(t.TempDir(), "x.zt")
	w, err := Create(name, &WriterOptions{Canonical: true})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	if err := w.Add(tensor.New("d", tensor.Shape{int64(len(data))}, data)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "c"} {
		p, err := w.Create(name, tensor.U8, tensor.Shape{int64(len(data))})
		if err != nil {
			t.Fatal(err)
		}
		for rest := data; len(rest) > 0; {
			n := min(len(rest), 70_001)
			if _, err := p.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got := load(t, name); !bytes.Equal(got, want) {
		t.Errorf("%d bytes, want %d", len(got), len(want))
	}
}
