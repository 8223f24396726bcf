package gguf

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/tensorfile/tensorfile/tensor"
)

func TestReadHeaderTakesTheHeaderFromAStream(t *testing.T) {
	for _, name := range []string{"types.gguf", "metadata.gguf", "align4096.gguf"} {
		b := golden(t, name)
		want, err := OpenBytes(b, nil)
		if err != nil {
			t.Fatal(err)
		}
		stream := bytes.NewReader(b)
		r, err := ReadHeader(iotest.OneByteReader(stream), int64(len(b)), nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.Len() != want.Len() || len(r.Warnings()) != len(want.Warnings()) {
			t.Errorf("%s: %d tensors, want %d", name, r.Len(), want.Len())
		}
		for k := range want.h.metadata {
			x, y := r.h.metadata[k], want.h.metadata[k]
			if x.key != y.key || x.text(3) != y.text(3) {
				t.Errorf("%s: %s is %s, want %s", name, x.key, x.text(3), y.text(3))
			}
		}
		// The data follows in the stream, in this order.
		at := want.dataAt
		for x := range r.Tensors() {
			y := want.Tensor(x.Name)
			if y == nil || x.DType != y.DType || x.Scheme != y.Scheme || !x.Shape.Equal(y.Shape) {
				t.Fatalf("%s: %q differs", name, x.Name)
			}
			data, whole := &x.Data, &y.Data
			if x.Scheme != "" {
				data, whole = &x.Parts[0].Data, &y.Parts[0].Data
			}
			if _, err := data.ReadAll(); data.Size() > 0 &&
				!errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("%s: %q can be read: %v", name, x.Name, err)
			}
			st, _ := data.Stored()
			got := make([]byte, st.Offset-at+st.Size)
			if _, err := io.ReadFull(stream, got); err != nil {
				t.Fatal(err)
			}
			if all, err := whole.ReadAll(); err != nil || !bytes.Equal(got[st.Offset-at:], all) {
				t.Errorf("%s: %q: other bytes, %v", name, x.Name, err)
			}
			at = st.Offset + st.Size
		}
		for k := range want.dataAt {
			if _, err := ReadHeader(bytes.NewReader(b[:k]), int64(len(b)), nil); !errors.Is(err,
				io.ErrUnexpectedEOF) {
				t.Fatalf("%s: %d bytes: %v", name, k, err)
			}
		}
	}
}

func TestReadHeaderRefusesLongAndBrokenHeaders(t *testing.T) {
	b := golden(t, "types.gguf")
	limited := func(l tensor.Limits) *ReaderOptions { return &ReaderOptions{Limits: l} }
	for what, c := range map[string]struct {
		b    []byte
		size int64
		opts *ReaderOptions
		want error
	}{
		"a limit": {b, int64(len(b)), limited(tensor.Limits{MaxMetadata: 50}),
			tensor.ErrLimit},
		"a string of 2^40 bytes": {begin(3, 0, 1).u64(1 << 40).b, 1 << 50, nil, tensor.ErrLimit},
		"an array of 2^26 bytes": {begin(3, 0, 1).str("k").u32(9).u32(0).u64(1 << 26).b, 1 << 30,
			nil,
			io.ErrUnexpectedEOF},
		"larger than the file":   {b, 100, nil, io.ErrUnexpectedEOF},
		"a file that ends early": {b, int64(len(b)) - 33, nil, io.ErrUnexpectedEOF},
		"another format":         {[]byte("GGML----"), 8, nil, tensor.ErrMalformed},
		"a negative limit":       {b, int64(len(b)), limited(tensor.Limits{MaxRank: -1}), nil},
		"a negative size":        {b, -1, nil, nil},
	} {
		if _, err := ReadHeader(bytes.NewReader(c.b), c.size, c.opts); err == nil ||
			c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
	}
}
