package safetensors

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/tensor"
)

func TestWriterRefusesWhatTheFormatLacks(t *testing.T) {
	ok := tensor.New("a", tensor.Shape{2}, []float32{1, 2})
	column := tensor.New("c", tensor.Shape{2, 2}, []uint8{1, 2, 3, 4})
	column.Order = tensor.ColumnMajor(2)
	for name, c := range map[string]struct {
		x    *tensor.Tensor
		want error
	}{
		"nil":           {nil, tensor.ErrNoTensor},
		"the same name": {tensor.New("a", tensor.Shape{1}, []int8{1}), tensor.ErrDuplicate},
		"reserved": {tensor.New("__metadata__", tensor.Shape{1}, []int8{1}),
			errors.ErrUnsupported},
		"not UTF-8":    {tensor.New("\xff", tensor.Shape{1}, []int8{1}), errors.ErrUnsupported},
		"wrong length": {tensor.New("b", tensor.Shape{3}, []int8{1}), fs.ErrInvalid},
		"complex128":   {tensor.New("b", tensor.Shape{1}, []complex128{1}), errors.ErrUnsupported},
		"unknown":      {&tensor.Tensor{Name: "b"}, errors.ErrUnsupported},
		"sparse": {&tensor.Tensor{Name: "b", DType: tensor.F32, Scheme: "sparse_csr"},
			errors.ErrUnsupported},
		"external": {&tensor.Tensor{Name: "b", DType: tensor.F32, External: true},
			errors.ErrUnsupported},
		"column-major": {column, errors.ErrUnsupported},
		"half a byte": {&tensor.Tensor{Name: "b", DType: tensor.F4E2M1FN,
			Shape: tensor.Shape{3}, Data: tensor.BlobOf([]byte{1, 2})}, errors.ErrUnsupported},
	} {
		w := NewWriter(io.Discard, nil)
		if err := w.Add(ok); err != nil {
			t.Fatal(err)
		}
		if err := w.Add(c.x); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	w := NewWriter(io.Discard, &WriterOptions{Attributes: map[string]string{"\xff": ""}})
	if err := w.Close(); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("metadata that is not UTF-8: %v", err)
	}
	if err := w.Add(ok); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Add after Close: %v", err)
	}
	if err := w.Close(); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a second Close: %v", err)
	}
}

func TestAFileAppearsWholeOrNotAtAll(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.safetensors")
	if err := os.WriteFile(name, []byte("old"), 0o666); err != nil {
		t.Fatal(err)
	}
	short := &tensor.Tensor{Name: "s", DType: tensor.U8, Shape: tensor.Shape{4},
		Data: tensor.BlobFunc(4,
			func() (io.ReadCloser, error) {
				return io.NopCloser(bytes.NewReader([]byte("12"))), nil
			})}
	if err := WriteFile(t.Context(), name, tensor.Of(short), nil); !errors.Is(err,
		io.ErrUnexpectedEOF) {
		t.Errorf("a source that is shorter than promised: %v", err)
	}
	w, err := Create(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.Abort()
	w.Abort()
	if err := w.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Close after Abort: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := NewWriter(io.Discard, nil).AddAll(ctx, tensor.Of(short)); !errors.Is(err,
		context.Canceled) {
		t.Error(err)
	}
	files, err := os.ReadDir(filepath.Dir(name))
	if b, _ := os.ReadFile(name); err != nil || string(b) != "old" || len(files) != 1 {
		t.Errorf("%q, %v, %v", b, files, err)
	}
}

// The writer fails at every byte.
func TestWriterFailsAtEveryByte(t *testing.T) {
	ts := []*tensor.Tensor{tensor.New("a", tensor.Shape{100}, make([]float32, 100)),
		tensor.New("b", nil, []float64{1})}
	if err := readtest.FailedWrites(func(w io.Writer) error {
		nw := NewWriter(w, &WriterOptions{Attributes: map[string]string{"k": "v"}})
		if err := nw.AddAll(t.Context(), tensor.Of(ts...)); err != nil {
			return err
		}
		return nw.Close()
	}); err != nil {
		t.Error(err)
	}
}

func TestKeepOrderWritesInTheOrderOfAdding(t *testing.T) {
	var out bytes.Buffer
	w := NewWriter(&out, &WriterOptions{KeepOrder: true})
	for _, x := range []*tensor.Tensor{tensor.New("z", tensor.Shape{1}, []uint8{1}),
		tensor.New("a", tensor.Shape{1}, []float64{1})} {
		if err := w.Add(x); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := OpenBytes(out.Bytes(), nil)
	if err != nil {
		t.Fatal(err)
	}
	x := r.Tensor("a")
	if _, err := tensor.View[float64](x); !errors.Is(err, tensor.ErrNoView) {
		t.Logf("the odd offset happens to be aligned in memory: %v", err)
	}
	if v, err := tensor.Load[float64](x); err != nil || v[0] != 1 {
		t.Error(v, err)
	}
	first := slices.Collect(r.Tensors())[0]
	if first.Name != "z" {
		t.Errorf("%s comes first", first.Name)
	}
}
