package convert

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

func TestWriteEndsWithItsContext(t *testing.T) {
	src := write(t, form{tensorfile.ZTensor, "1.0"},
		[]*tensor.Tensor{tensor.New("w", tensor.Shape{16 << 20}, make([]uint8, 16<<20))}, nil)
	for _, to := range forms() {
		o := to.options()
		o.Allow = LossAll
		calls := 0
		o.Progress = func(done, total int64) {
			if calls++; done > total {
				t.Errorf("%v: %d of %d bytes", to, done, total)
			}
		}
		p, err := NewPlan(t.Context(), src, to.format, o)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		c := &cancelling{left: 3 << 20, cancel: cancel}
		if err := p.Write(ctx, c); !errors.Is(err, context.Canceled) {
			t.Errorf("%v: %v", to, err)
		}
		if c.left < -4<<20 || calls == 0 {
			t.Errorf("%v: %d bytes written after the cancellation, %d calls of Progress", to,
				-c.left, calls)
		}
		cancel()
	}
}

// A file that is not mapped takes its time: the end does not wait until the tensor is
// in its temporary file, or the indices were seen.
func TestWriteEndsWithItsContextBeforeTheFirstByte(t *testing.T) {
	spool := t.TempDir()
	t.Setenv("TMPDIR", spool)
	at := make([]byte, 16<<20)
	for i := range len(at) / 8 {
		at[8*i], at[8*i+1], at[8*i+2] = byte(i), byte(i>>8), byte(i>>16)
	}
	for _, x := range []*tensor.Tensor{
		tensor.New("w", tensor.Shape{4 << 10, 4 << 10}, make([]uint8, 16<<20)),
		{Name: "s", DType: tensor.U8, Shape: tensor.Shape{2 << 20}, Scheme: "sparse_coo",
			Parts: []tensor.Part{
				{Role: "values", DType: tensor.U8,
					Data: tensor.BlobOf(bytes.Repeat([]byte{1}, 2<<20))},
				{Role: "coords", DType: tensor.U64, Data: tensor.BlobOf(at)}}},
	} {
		var file bytes.Buffer
		zw := ztensor.NewWriter(&file, nil)
		if err := errors.Join(zw.Add(x), zw.Close()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		r := &cancellingReader{r: bytes.NewReader(file.Bytes()), left: math.MaxInt, cancel: cancel}
		src, err := tensorfile.NewReader(r, int64(file.Len()), nil)
		if err != nil {
			t.Fatal(err)
		}
		p, err := NewPlan(t.Context(), src, tensorfile.Primitiv,
			&Options{Allow: LossAll,
				Map: dtypes(map[tensor.DType]tensor.DType{tensor.U8: tensor.F32})})
		if err != nil {
			t.Fatal(err)
		}
		r.left = 1 << 20
		if err := p.Write(ctx, io.Discard); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", x.Name, err)
		}
		if r.left < -1<<20 {
			t.Errorf("%s: %d bytes read after the end", x.Name, -r.left)
		}
		if left, err := os.ReadDir(spool); err != nil || len(left) > 0 {
			t.Errorf("%s: left behind: %v, %v", x.Name, left, err)
		}
		cancel()
	}
}

// Write takes 64 MiB of its own, whatever the size of the tensors, from a mapped file and
// from one that is read, to each target; also where elements become others or change
// their order.
func TestDenseTensorsStreamInBoundedMemory(t *testing.T) {
	readtest.Measure(t)
	const n = 12 << 20 // elements
	name := filepath.Join(t.TempDir(), "w.zt")
	spool := t.TempDir()
	t.Setenv("TMPDIR", spool)
	if err := ztensor.WriteFile(t.Context(), name,
		tensor.Of(tensor.New("w", tensor.Shape{3 << 10, 4 << 10}, make([]float32, n))),
		&ztensor.WriterOptions{Version: "1.0", Digest: ztensor.CRC32C}); err != nil {
		t.Fatal(err)
	}
	for _, noMap := range []bool{false, true} {
		src, err := tensorfile.Open(name, &tensorfile.Options{NoMap: noMap})
		if err != nil {
			t.Fatal(err)
		}
		defer src.Close()
		for _, to := range forms() {
			for _, as := range []tensor.DType{tensor.F32, tensor.F16} {
				if !to.caps().Holds(as) {
					continue
				}
				o := to.options()
				o.Allow, o.Map = LossAll, dtypes(map[tensor.DType]tensor.DType{tensor.F32: as})
				p, err := NewPlan(t.Context(), src, to.format, o)
				if err != nil {
					t.Fatal(err)
				}
				peak := readtest.PeakHeap(func() { err = p.Write(t.Context(), io.Discard) })
				if err != nil || peak > 64<<20 {
					t.Errorf("%v to %v, mapped %v: %d bytes, %v", as, to, !noMap, peak, err)
				}
				t.Logf("%v to %v, mapped %v: %.1f MiB", as, to, !noMap, float64(peak)/(1<<20))
			}
		}
	}
	if left, err := os.ReadDir(spool); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestAFailingTargetIsReported(t *testing.T) {
	src := write(t, form{tensorfile.ZTensor, "1.0"},
		[]*tensor.Tensor{tensor.New("w", tensor.Shape{1000}, make([]float32, 1000))}, nil)
	for _, to := range forms() {
		p := planOf(t, src, to)
		pr, pw := io.Pipe()
		pr.CloseWithError(os.ErrDeadlineExceeded)
		if err := p.Write(t.Context(), pw); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%v: %v", to, err)
		}
	}
}

// A Writer that breaks the rules of io.Writer is an error, as for io.Copy.
func TestAWriterThatCountsWrongIsReported(t *testing.T) {
	src := tensorfile.FromTensors([]*tensor.Tensor{tensor.New("w", tensor.Shape{1000},
		make([]float32, 1000))}, nil)
	for _, to := range forms() {
		p := planOf(t, src, to)
		for _, wrong := range []int{5, -1} {
			w := writerFunc(func(p []byte) (int, error) {
				if wrong < 0 {
					return wrong, nil
				}
				return len(p) + wrong, nil
			})
			if err := p.Write(t.Context(), w); err == nil {
				t.Errorf("%v: %d", to, wrong)
			}
		}
	}
}

// Sparse tensors that are made or made dense take memory for their indices and values.
func TestSparseTensorsTakeMemoryOfTheirIndices(t *testing.T) {
	if testing.Short() {
		t.Skip("6 million elements")
	}
	const rows, cols = 2000, 3000
	values := make([]float32, rows*cols)
	for i := range values {
		values[i] = float32(i % 3) // two in three are not 0
	}
	dir := t.TempDir()
	dense, csr, coo := filepath.Join(dir, "dense.zt"), filepath.Join(dir, "csr.zt"),
		filepath.Join(dir, "coo.zt")
	if err := ztensor.WriteFile(t.Context(), dense,
		tensor.Of(tensor.New("w", tensor.Shape{rows, cols}, values)), nil); err != nil {
		t.Fatal(err)
	}
	run := func(from, to string, format tensorfile.Format, o *Options) {
		t.Helper()
		src, err := tensorfile.Open(from, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer src.Close()
		const limit = 64<<20 + 40*rows*cols*2/3
		peak := readtest.PeakHeap(func() {
			var p *Plan
			if p, err = NewPlan(t.Context(), src, format, o); err == nil {
				err = p.WriteFile(t.Context(), to)
			}
		})
		if err != nil || peak > limit {
			t.Errorf("%s to %s: %d bytes, %v", filepath.Base(from), filepath.Base(to), peak, err)
		}
		t.Logf("%s to %s: %.1f MiB", filepath.Base(from), filepath.Base(to), float64(peak)/(1<<20))
	}
	run(dense, csr, tensorfile.ZTensor, &Options{Sparse: "sparse_csr"})
	run(dense, coo, tensorfile.ZTensor, &Options{Sparse: "sparse_coo"})
	for _, sparse := range []string{csr, coo} {
		back := filepath.Join(dir, "back.npy")
		run(sparse, back, tensorfile.NPY, &Options{Allow: LossAll, Dense: true})
		f, err := tensorfile.Open(back, nil)
		if err != nil {
			t.Fatal(err)
		}
		for x := range f.Tensors() {
			if got, err := tensor.Load[float32](x); err != nil || !slices.Equal(got, values) {
				t.Errorf("%s: other values, %v", filepath.Base(sparse), err)
			}
		}
		f.Close()
	}
}

// A writerFunc is an io.Writer.
type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
