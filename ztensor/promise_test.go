package ztensor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/tensor"
)

// wantOld fails unless the directory of name holds nothing but the old file.
func wantOld(t *testing.T, what, name string) {
	t.Helper()
	if b, err := os.ReadFile(name); err != nil || string(b) != "old" {
		t.Errorf("%s: the old file is %d bytes, %v", what, len(b), err)
	}
	if left, err := os.ReadDir(filepath.Dir(name)); err != nil || len(left) != 1 {
		t.Errorf("%s: %d files, %v", what, len(left), err)
	}
}

// A source that fails, panics, is shorter or longer than it said, or is
// given up leaves the old file and nothing else, however the writer is used.
func TestSourcesThatBreakTheirPromiseLeaveTheOldFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.zt")
	if err := os.WriteFile(name, []byte("old"), 0o666); err != nil {
		t.Fatal(err)
	}
	const n = 3 << 20
	bytesOf := [][]byte{noise(n, 0), noise(n, 1), noise(n, 2)}
	good := func(i int) *tensor.Tensor {
		return tensor.New(fmt.Sprint("good", i), tensor.Shape{n}, bytesOf[i%len(bytesOf)])
	}
	stream := func(size int64, open func() (io.ReadCloser, error)) *tensor.Tensor {
		return &tensor.Tensor{Name: "bad", DType: tensor.U8, Shape: tensor.Shape{n},
			Data: tensor.BlobFunc(size, open)}
	}
	bad := map[string]*tensor.Tensor{
		"shorter": stream(n,
			func() (io.ReadCloser,
				error) {
				return io.NopCloser(bytes.NewReader(make([]byte, n-1))), nil
			}),
		"longer": stream(n,
			func() (io.ReadCloser,
				error) {
				return io.NopCloser(bytes.NewReader(make([]byte, n+1))), nil
			}),
		"fails to open": stream(n,
			func() (io.ReadCloser, error) { return nil, readtest.ErrInjected }),
		"fails in the middle": stream(n, func() (io.ReadCloser, error) {
			return io.NopCloser(
				io.NewSectionReader(readtest.Failing(bytes.NewReader(make([]byte, n)), n/2), 0,
					n)), nil
		}),
		"panics": stream(n, func() (io.ReadCloser, error) { panic("source") }),
	}
	for what, b := range bad {
		for _, o := range []WriterOptions{{Version: "1.0"}, {Version: "1.0", Digest: CRC32C},
			{Version: "2", Level: 1}} {
			func() {
				defer func() {
					if p := recover(); p != nil && (p != "source" || what != "panics") {
						t.Errorf("%s: panic %v", what, p)
					}
				}()
				if err := WriteFile(t.Context(), name, tensor.Of(good(1), b, good(2)),
					&o); err == nil {
					t.Errorf("%s %+v: written", what, o)
				}
			}()
			wantOld(t, fmt.Sprintf("%s %+v", what, o), name)
		}
	}

	// A panic within Verify reaches its caller.
	whole := write(t, &WriterOptions{Version: "1.0", Digest: CRC32C},
		func(w *Writer) { w.Add(good(1)) })
	r, err := NewReader(readtest.ReaderFunc(func(p []byte, off int64) (int, error) {
		if off == 64 {
			panic("reader")
		}
		return copy(p, whole[off:]), nil
	}), int64(len(whole)), nil)
	if err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() {
			if p := recover(); p != "reader" {
				t.Errorf("Verify over a reader that panics: %v", p)
			}
		}()
		r.Verify(t.Context(), nil)
	}()

	// Cancelled in the middle, and given up.
	for _, o := range []WriterOptions{{Version: "1.0"},
		{Version: "1.0", Digest: SHA256, Level: 1}} {
		ctx, cancel := context.WithCancel(t.Context())
		w, err := Create(name, &o)
		if err != nil {
			t.Fatal(err)
		}
		err = w.AddAll(ctx, func(yield func(*tensor.Tensor, error) bool) {
			for i := 0; yield(good(i), nil); i++ {
				if i == 3 {
					cancel()
				}
			}
		})
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		w.Abort()
		wantOld(t, "cancelled", name)
	}
}

// Very many tensors are written and read back, a million of them with
// TENSORFILE_FULL=1, and a duplicate name among them is refused.
func TestMillionTensorsAreWrittenAndRead(t *testing.T) {
	if testing.Short() {
		t.Skip("long where the machine is emulated or races are looked for")
	}
	n := 130_000
	if full() {
		n = 1_000_000
	}
	var b bytes.Buffer
	w := NewWriter(&b, &WriterOptions{Version: "1.0"})
	for i := range n {
		if err := w.Add(&tensor.Tensor{Name: fmt.Sprintf("t%07d", i), DType: tensor.U8,
			Shape: tensor.Shape{0}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Add(&tensor.Tensor{Name: "t0123456", DType: tensor.U8,
		Shape: tensor.Shape{0}}); !errors.Is(err, tensor.ErrDuplicate) {
		t.Errorf("a second tensor of a name: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := OpenBytes(b.Bytes(), nil)
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	for ten := range r.Tensors() {
		if i%9973 == 0 && (ten.Name != fmt.Sprintf("t%07d", i) || r.Tensor(ten.Name) != ten) {
			t.Fatalf("tensor %d is %s", i, ten.Name)
		}
		i++
	}
	if i != n || r.Len() != n || len(r.Warnings()) > 0 {
		t.Errorf("%d tensors, %v", i, r.Warnings())
	}
	if _, err := OpenBytes(b.Bytes(),
		&ReaderOptions{Limits: tensor.Limits{MaxTensors: int64(n - 1)}}); !errors.Is(err,
		tensor.ErrLimit) {
		t.Errorf("beyond the limit: %v", err)
	}
}
