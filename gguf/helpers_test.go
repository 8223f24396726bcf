package gguf

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

// The helpers of tests in several files.

func golden(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("../testdata/gguf/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func begin(version uint32, tensors, metadata uint64) *builder {
	b := &builder{[]byte(magic)}
	b.u32(version)
	if version == 1 {
		b.u32(uint32(tensors))
		b.u32(uint32(metadata))
	} else {
		b.u64(tensors)
		b.u64(metadata)
	}
	return b
}

// metadataOf returns all entries of a file.
func metadataOf(r *Reader) (all []KeyValue) {
	for k, v := range r.Metadata() {
		all = append(all, KeyValue{k, v})
	}
	return all
}

func blocks(name, scheme string, size int, shape ...int64) *tensor.Tensor {
	return &tensor.Tensor{Name: name, Shape: shape, Scheme: scheme,
		Parts: []tensor.Part{{Role: "blocks", Data: tensor.BlobOf(make([]byte, size))}}}
}

// small is a file of a few entries and tensors.
func small(t testing.TB) *Reader {
	t.Helper()
	nested, err := NewValue([]any{[]uint8{7, 8}, []string{}, []any{}})
	if err != nil {
		t.Fatal(err)
	}
	o := &WriterOptions{Alignment: 16, Metadata: []KeyValue{entryOf("general.name", "a\x00b"),
		entryOf("n", uint32(7)),
		{"nested", nested}, entryOf("empty", []int32{}), entryOf("bytes", []uint8{1, 2,
			3}), entryOf("one", []bool{true})}}
	var out bytes.Buffer
	w := NewWriter(&out, o)
	err = errors.Join(w.Add(tensor.New("a", tensor.Shape{2, 3}, []float32{1, 2, 3, 4, 5, 6})),
		w.Add(blocks("b", "Q8_0", 68, 2, 32)), w.Add(tensor.New("c", tensor.Shape{},
			[]int8{-1})), w.Close())
	if err != nil {
		t.Fatal(err)
	}
	r, err := OpenBytes(out.Bytes(), &ReaderOptions{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	return r
}
