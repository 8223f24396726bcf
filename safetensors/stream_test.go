package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/tensorfile/tensorfile/internal/jsonheader"
	"github.com/tensorfile/tensorfile/tensor"
)

func TestLoadGivesTheMapThatWasSaved(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.safetensors")
	if err := Save(name, map[string]*tensor.Tensor{"b": tensor.New("other", tensor.Shape{2},
		[]float32{1, 2}), "a": tensor.New("", nil, []int8{3})}); err != nil {
		t.Fatal(err)
	}
	m, err := Load(name)
	if err != nil || len(m) != 2 {
		t.Fatal(m, err)
	}
	if v, err := tensor.Load[float32](m["b"]); err != nil || !slices.Equal(v, []float32{1, 2}) ||
		m["b"].Name != "b" {
		t.Error(v, err)
	}
	if err := Save(name, nil); err != nil {
		t.Error(err)
	}
	dir := t.TempDir()
	writeCheckpoint(t, dir, 5, 4)
	if m, err := Load(filepath.Join(dir, testIndex)); err != nil || len(m) != 5 {
		t.Error(m, err)
	}
	if _, err := Load(filepath.Join(dir, "missing")); err == nil {
		t.Error("a file that does not exist")
	}
}

func TestReadHeaderTakesTheHeaderFromAStream(t *testing.T) {
	b := golden(t, "dtypes.safetensors")
	want, err := OpenBytes(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	stream := bytes.NewReader(b)
	r, err := ReadHeader(iotest.OneByteReader(stream), int64(len(b)), nil)
	if err != nil {
		t.Fatal(err)
	}
	for x := range r.Tensors() {
		y := want.Tensor(x.Name)
		if y == nil || x.DType != y.DType || !x.Shape.Equal(y.Shape) || x.Size() != y.Size() {
			t.Errorf("%q differs", x.Name)
		}
		if _, err := x.Data.ReadAll(); x.Size() > 0 && !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%q can be read: %v", x.Name, err)
		}
		// The data follows in the stream, in this order.
		data := make([]byte, x.Size())
		if _, err := io.ReadFull(stream, data); err != nil {
			t.Fatal(err)
		}
		if whole, err := y.Data.ReadAll(); err != nil || !bytes.Equal(data, whole) {
			t.Errorf("%q: other bytes, %v", x.Name, err)
		}
	}
	n := jsonheader.Start + int(binary.LittleEndian.Uint64(b))
	for k := range n {
		if _, err := ReadHeader(bytes.NewReader(b[:k]), int64(len(b)), nil); !errors.Is(err,
			io.ErrUnexpectedEOF) {
			t.Fatalf("%d bytes: %v", k, err)
		}
	}
	huge := append(binary.LittleEndian.AppendUint64(nil, 1<<40), b...)
	for what, c := range map[string]struct {
		b    []byte
		size int64
		opts *ReaderOptions
		want error
	}{
		"a header of 2^40 bytes": {huge, 1 << 50, nil, tensor.ErrMalformed},
		"a limit": {b, int64(len(b)),
			&ReaderOptions{Limits: tensor.Limits{MaxMetadata: 5}}, tensor.ErrLimit},
		"no header":              {make([]byte, 100), 100, nil, tensor.ErrMalformed},
		"larger than the file":   {b, 100, nil, io.ErrUnexpectedEOF},
		"a file that ends early": {b, int64(len(b)) - 1, nil, io.ErrUnexpectedEOF},
		"an index":               {[]byte(`{"weight_map":{}}`), 17, nil, tensor.ErrMalformed},
		"beyond 100 MB": {binary.LittleEndian.AppendUint64(nil, 100_000_001), 1 << 30, nil,
			tensor.ErrMalformed},
		"a negative limit": {b, int64(len(b)),
			&ReaderOptions{Limits: tensor.Limits{MaxRank: -1}}, nil},
	} {
		if _, err := ReadHeader(bytes.NewReader(c.b), c.size, c.opts); err == nil ||
			c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
	}
}

func TestStreamWritesTheBytesOfAWriter(t *testing.T) {
	ts := append(checkpoint(5, 1), tensor.New("empty", tensor.Shape{0}, []float64{}))
	opts := &WriterOptions{Attributes: map[string]string{"k": "v"}}
	var want bytes.Buffer
	w := NewWriter(&want, opts)
	if err := errors.Join(w.AddAll(t.Context(), tensor.Of(ts...)), w.Close()); err != nil {
		t.Fatal(err)
	}
	open := func(ts ...*tensor.Tensor) io.ReadCloser {
		t.Helper()
		r, n, err := Stream(tensor.Of(ts...), opts)
		if err != nil || len(ts) > 1 && n != int64(want.Len()) {
			t.Fatal(n, err)
		}
		return r
	}
	if err := iotest.TestReader(open(ts...), want.Bytes()); err != nil {
		t.Error(err)
	}
	if b, err := io.ReadAll(iotest.OneByteReader(open(ts...))); err != nil ||
		!bytes.Equal(b, want.Bytes()) {
		t.Errorf("other bytes, %v", err)
	}
	r := open(ts...)
	io.CopyN(io.Discard, r, int64(want.Len())-5)
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, err := r.Read(make([]byte, 1)); err == nil {
		t.Error("read after Close")
	}
	errSource := errors.New("no more")
	for what, c := range map[string]struct {
		open func() (io.ReadCloser, error)
		want error
	}{
		"shorter": {func() (io.ReadCloser,
			error) {
			return io.NopCloser(bytes.NewReader(make([]byte,
				3))), nil
		}, io.ErrUnexpectedEOF},
		"fails": {func() (io.ReadCloser,
			error) {
			return io.NopCloser(iotest.ErrReader(errSource)), nil
		}, errSource},
		"cannot open": {func() (io.ReadCloser, error) { return nil, errSource }, errSource},
	} {
		x := &tensor.Tensor{Name: "x", DType: tensor.U8, Shape: tensor.Shape{4},
			Data: tensor.BlobFunc(4, c.open)}
		r := open(x)
		if _, err := io.Copy(io.Discard, r); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := r.Read(make([]byte, 1)); !errors.Is(err, c.want) {
			t.Errorf("%s, again: %v", what, err)
		}
	}
	if _, _, err := Stream(tensor.Of(ts[0], ts[0]), nil); !errors.Is(err, tensor.ErrDuplicate) {
		t.Error(err)
	}
}
