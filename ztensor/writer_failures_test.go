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

// Errors, cancelling and a panic in the middle of AddAll.
func TestAddAllStopsWhereAddWould(t *testing.T) {
	bad := tensor.New("tensor 0", tensor.Shape{1}, []uint8{1}) // the name is taken
	source := func(yield func(*tensor.Tensor) bool) {
		for i := range 20 {
			if !yield(tensor.New(fmt.Sprint("tensor ", i), tensor.Shape{1 << 18},
				make([]uint8, 1<<18))) {
				return
			}
		}
		yield(bad)
	}
	var b bytes.Buffer
	w := NewWriter(&b, &WriterOptions{Version: "1.0", Digest: CRC32C})
	if err := w.AddAll(t.Context(), tensor.Each(source)); !errors.Is(err, tensor.ErrDuplicate) {
		t.Fatal(err)
	}
	if err := errors.Join(w.Add(tensor.New("more", tensor.Shape{1}, []uint8{1})),
		w.Close()); err != nil {
		t.Fatal(err)
	}
	if r, err := OpenBytes(b.Bytes(), nil); err != nil || r.Len() != 21 {
		t.Fatal(err)
	}

	w = NewWriter(readtest.FailingWriter(io.Discard, 1<<20),
		&WriterOptions{Version: "1.0", Digest: CRC32C, Level: 1})
	noisy := func(yield func(*tensor.Tensor) bool) {
		for i := 0; yield(&tensor.Tensor{Name: fmt.Sprint(i), DType: tensor.U8,
			Shape: tensor.Shape{1 << 18}, Data: tensor.BlobOf(noise(1<<18, uint64(i)))}); i++ {
		}
	}
	if err := w.AddAll(t.Context(), tensor.Each(noisy)); !errors.Is(err, readtest.ErrInjected) {
		t.Error(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	w = NewWriter(io.Discard, &WriterOptions{Version: "1.0", Digest: CRC32C, Level: 1})
	n := 0
	err := w.AddAll(ctx, tensor.Each(func(yield func(*tensor.Tensor) bool) {
		noisy(func(ten *tensor.Tensor) bool {
			if n++; n == 30 {
				cancel()
			}
			return yield(ten)
		})
	}))
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}

	defer func() {
		if recover() == nil {
			t.Error("the panic of the source was swallowed")
		}
		if err := w.Close(); err == nil {
			t.Log("closed after a panic") // it may: what was added is whole
		}
	}()
	w = NewWriter(io.Discard, &WriterOptions{Version: "1.0", Digest: CRC32C})
	w.AddAll(t.Context(), tensor.Each(func(yield func(*tensor.Tensor) bool) {
		yield(tensor.New("a", tensor.Shape{1 << 20}, make([]uint8, 1<<20)))
		panic("source")
	}))
}

// Tensors that cannot be written, and names that clash.
func TestWriterRefusesTensorsThatCannotBeWritten(t *testing.T) {
	for _, c := range []struct {
		name, version string
		t             *tensor.Tensor
		want          error
	}{
		{"nothing", "", nil, tensor.ErrNoTensor},
		{"a second tensor of a name", "", tensor.New("there", tensor.Shape{1}, []uint8{1}),
			tensor.ErrDuplicate},
		{"too few bytes", "",
			&tensor.Tensor{Name: "x", DType: tensor.F32, Shape: tensor.Shape{2},
				Data: tensor.BlobOf([]byte{1})}, tensor.ErrMalformed},
		{"a name that is not UTF-8", "", tensor.New("\xff", tensor.Shape{1}, []uint8{1}),
			errors.ErrUnsupported},
		{"column-major", "",
			&tensor.Tensor{Name: "x", DType: tensor.U8, Shape: tensor.Shape{2, 2},
				Order: tensor.Order{1, 0}, Data: tensor.BlobOf(make([]byte, 4))},
			errors.ErrUnsupported},
		{"another file's", "",
			&tensor.Tensor{Name: "x", DType: tensor.U8, Shape: tensor.Shape{2}, External: true},
			errors.ErrUnsupported},
		{"float8 in 1.0", "1.0", tensor.New("x", tensor.Shape{1}, []tensor.Float8E5M2{1}),
			errors.ErrUnsupported},
		{"float8_e8m0fnu", "1.0", tensor.New("x", tensor.Shape{1}, []tensor.Float8E8M0FNU{1}),
			errors.ErrUnsupported},
		{"half a byte", "1.0",
			&tensor.Tensor{Name: "x", DType: tensor.F4E2M1FN, Shape: tensor.Shape{2},
				Data: tensor.BlobOf([]byte{1})}, errors.ErrUnsupported},
		{"an unknown type", "1.0",
			&tensor.Tensor{Name: "x", Shape: tensor.Shape{2}, Data: tensor.BlobOf([]byte{1})},
			errors.ErrUnsupported},
		{"two parts of a role", "1.0",
			&tensor.Tensor{Name: "x", Scheme: "s",
				Parts: []tensor.Part{{Role: "a", DType: tensor.U8},
					{Role: "a", DType: tensor.U8}}}, tensor.ErrDuplicate},
		{"data twice", "1.0",
			&tensor.Tensor{Name: "x", DType: tensor.U8, Data: tensor.BlobOf([]byte{1}),
				Parts: []tensor.Part{{Role: "data", DType: tensor.U8}}}, tensor.ErrDuplicate},
		{"part types in 1.0", "1.0",
			&tensor.Tensor{Name: "x", DType: tensor.U8, Scheme: "s",
				Parts: []tensor.Part{{Role: "a", DType: tensor.F16}}}, errors.ErrUnsupported},
		{"csr that falls", "", csr("x", []uint64{0, 3, 1}, []uint64{0, 1, 2}, 4),
			tensor.ErrMalformed},
		{"csr beyond its columns", "", csr("x", []uint64{0, 1}, []uint64{4}, 4),
			tensor.ErrMalformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b bytes.Buffer
			w := NewWriter(&b, &WriterOptions{Version: c.version})
			if err := w.Add(tensor.New("there", tensor.Shape{1}, []uint8{1})); err != nil {
				t.Fatal(err)
			}
			if err := w.Add(c.t); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			// A refused tensor did no harm.
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if r, err := OpenBytes(b.Bytes(), nil); err != nil || r.Len() != 1 {
				t.Error(err)
			}
		})
	}
	for _, o := range []WriterOptions{{Version: "1.1"}, {Version: "1.2"}, {Version: "3"},
		{Version: "1.0", Level: -1}, {Version: "1.0", Level: 23}, {Version: "1.0", Digest: 9},
		{Version: "1.0", Generator: "\xff"},
		{Version: "1.0", Attributes: map[string]any{"a": 1}},
		{Attributes: map[string]any{"a": make(chan int)}},
		{Version: "1.0", Attributes: map[string]any{"\xff": "x"}}} {
		if _, err := Create(filepath.Join(t.TempDir(), "x.zt"), &o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
		if err := NewWriter(io.Discard, &o).Close(); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
}

// Sources that are shorter or longer than promised.
func TestDataThatBreaksItsPromiseIsFinal(t *testing.T) {
	stream := func(size int64, b []byte) tensor.Blob {
		return tensor.BlobFunc(size,
			func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil })
	}
	for name, blob := range map[string]tensor.Blob{
		"too short":    stream(4, []byte{1, 0, 1}),
		"too long":     stream(4, []byte{1, 0, 1, 0, 1}),
		"unknown size": stream(-1, []byte{1, 0, 1}),
		"not a bool":   stream(4, []byte{1, 0, 1, 2}),
		"bool at once": tensor.BlobOf([]byte{1, 0, 1, 2}),
		"fails to open": tensor.BlobFunc(4,
			func() (io.ReadCloser, error) { return nil, readtest.ErrInjected }),
	} {
		t.Run(name, func(t *testing.T) {
			target := filepath.Join(t.TempDir(), "x.zt")
			w, err := Create(target, &WriterOptions{Version: "1.0"})
			if err != nil {
				t.Fatal(err)
			}
			err = w.Add(&tensor.Tensor{Name: "x", DType: tensor.Bool, Shape: tensor.Shape{4},
				Data: blob})
			if err == nil {
				t.Fatal("accepted")
			}
			if err2 := w.Close(); err2 == nil {
				t.Error("Close has forgotten the error")
			}
			if left, err := os.ReadDir(filepath.Dir(target)); err != nil || len(left) != 0 {
				t.Errorf("%d files left behind, %v", len(left), err)
			}
		})
	}
	w := NewWriter(io.Discard, &WriterOptions{Version: "1.0"})
	p, _ := w.Create("x", tensor.F32, tensor.Shape{2})
	if _, err := p.Write(make([]byte, 9)); err == nil {
		t.Error("more bytes than the shape has")
	}
	w = NewWriter(io.Discard, &WriterOptions{Version: "1.0"})
	p, _ = w.Create("x", tensor.F32, tensor.Shape{2})
	p.Write(make([]byte, 7))
	if err := p.Close(); !errors.Is(err, io.ErrUnexpectedEOF) || w.Close() == nil {
		t.Errorf("fewer bytes than the shape has: %v", err)
	}
}

// A writer underneath that fails, or writes less than it was given, at
// every byte.
func TestWriterFailsAtEveryByte(t *testing.T) {
	for _, o := range []WriterOptions{{Version: "1.0"},
		{Version: "1.0", Digest: SHA256, Level: 3}} {
		whole := write(t, &o, func(w *Writer) { w.AddAll(t.Context(), tensor.Of(samples()...)) })
		step := int64(3)
		if o.Level > 0 {
			step = 61 // an encoder takes its time to make
		}
		for n := int64(0); n < int64(len(whole)); n += step {
			for name, out := range map[string]io.Writer{"failing": readtest.FailingWriter(
				io.Discard, n), "short": readtest.ShortWriter(io.Discard, n)} {
				w := NewWriter(out, &o)
				err := w.AddAll(t.Context(), tensor.Of(samples()...))
				if err2 := w.Close(); err2 == nil || err != nil && !errors.Is(err2, err) {
					t.Fatalf("%s after %d bytes: %v, then %v", name, n, err, err2)
				}
			}
		}
	}
}
