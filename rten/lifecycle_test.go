package rten

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/tensor"
)

func TestMisbehavingReaders(t *testing.T) {
	data := golden(t, "convert-0.22.0-basic")
	readtest.Misread(t, data, []int64{0, 3, 31, 32, 100, 1000, int64(len(data)) - 1}, func(r io.ReaderAt, size int64) error {
		rd, err := NewReader(r, size, nil)
		if err != nil {
			return err
		}
		for x := range rd.Tensors() {
			if _, err := x.Data.ReadAll(); err != nil {
				return err
			}
		}
		_, err = rd.Verify(context.Background(), nil)
		return err
	})
	rd, err := NewReader(readtest.Changing(bytes.NewReader(data)), int64(len(data)), nil)
	if err == nil {
		_ = describe(rd) // what was checked was read once
	}
}

func TestFilesThatChange(t *testing.T) {
	data := golden(t, "convert-0.22.0-basic")
	name := filepath.Join(t.TempDir(), "model.rten")
	if err := os.WriteFile(name, data, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, noMap := range []bool{false, true} {
		r, err := Open(name, &ReaderOptions{NoMap: noMap})
		if err != nil {
			t.Fatal(err)
		}
		want := r.Model().Graph().Len()
		if runtime.GOOS != "windows" {
			if err := os.Truncate(name, 0); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Verify(t.Context(), nil); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("truncated: %v", err)
			}
			if _, err := r.Tensor("w").Data.ReadAll(); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("truncated: %v", err)
			}
			for n := range r.Model().Graph().Nodes() { // the metadata is ours
				n.Label()
				want--
			}
			if want != 0 {
				t.Error("the graph went with the file")
			}
		}
		r.Close()
		if err := os.WriteFile(name, data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOnlyRegularFiles(t *testing.T) {
	for _, name := range []string{t.TempDir(), os.DevNull, filepath.Join(t.TempDir(), "missing")} {
		if r, err := Open(name, nil); err == nil {
			r.Close()
			t.Errorf("%s was opened", name)
		}
	}
	// A sparse giant: 8 TiB of zeros are refused by their first bytes.
	c := readtest.Count(readtest.ReaderFunc(func(p []byte, off int64) (int, error) {
		clear(p)
		return len(p), nil
	}))
	for _, size := range []int64{1 << 20, 1<<31 - 1, 1 << 31, 1 << 43} {
		if _, err := NewReader(c, size, nil); !errors.Is(err, tensor.ErrMalformed) {
			t.Errorf("%d zeros: %v", size, err)
		}
	}
	if c.Bytes() > 1<<20 {
		t.Errorf("%d bytes were read", c.Bytes())
	}
	// A model of 8 TiB behind a header is refused by its size.
	h := Header{32, 1<<43 - 32, 32}.append(nil)
	giant := readtest.ReaderFunc(func(p []byte, off int64) (int, error) {
		clear(p)
		if off < 32 {
			copy(p, h[off:])
		}
		return len(p), nil
	})
	if _, err := NewReader(giant, 1<<43, nil); !errors.Is(err, tensor.ErrLimit) {
		t.Errorf("a model of 8 TiB: %v", err)
	}
}

func TestClose(t *testing.T) {
	data := golden(t, "convert-0.22.0-basic")
	face.Each(t, data, func(t *testing.T, r *Reader) {
		w := r.Tensor("w")
		var wg sync.WaitGroup
		for range 8 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for range 100 {
					if _, err := w.Data.ReadAll(); err != nil && !errors.Is(err, fs.ErrClosed) {
						t.Error(err)
					}
					_ = r.Tensor("bias").Name
					for range r.Model().Graph().Nodes() {
					}
				}
			}()
		}
		r.Close()
		wg.Wait()
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if _, err := w.Data.ReadAll(); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("read after Close: %v", err)
		}
		if _, err := tensor.View[float32](w); err == nil {
			t.Error("view after Close")
		}
		if _, err := r.Verify(t.Context(), nil); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("Verify after Close: %v", err)
		}
		if r.Tensor("w").Name != "w" {
			t.Error("names are gone")
		}
	})
}
