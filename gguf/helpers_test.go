package gguf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
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

// describeContent returns all that an edit without changes keeps.
func describeContent(r *Reader) string {
	var b strings.Builder
	for k, v := range r.Metadata() {
		fmt.Fprintf(&b, "%q %s %#v\n", k, v.TypeName(), v.Any(-1))
	}
	for i := range r.tensors {
		p, err := tensor.NewBlob(&r.extents[i]).ReadAll()
		fmt.Fprintf(&b, "%q %v %d %x %v\n", r.tensors[i].Name, r.tensors[i].Shape,
			r.extents[i].kind, p, err)
	}
	return b.String()
}

var api = readtest.API[*Reader]{
	Open: func(name string, noMap bool) (*Reader, error) {
		return Open(name, &ReaderOptions{NoMap: noMap})
	},
	OpenBytes: func(b []byte) (*Reader, error) { return OpenBytes(b, nil) },
	NewReader: func(r io.ReaderAt, size int64) (*Reader, error) { return NewReader(r, size, nil) },
}

// builder writes files that no tool would.
type builder struct{ b []byte }

func (b *builder) u32(v uint32) *builder {
	b.b = binary.LittleEndian.AppendUint32(b.b,
		v)
	return b
}

func (b *builder) u64(v uint64) *builder {
	b.b = binary.LittleEndian.AppendUint64(b.b,
		v)
	return b
}

func (b *builder) str(s string) *builder {
	b.u64(uint64(len(s)))
	b.b = append(b.b,
		s...)
	return b
}

// kv adds a metadata entry of a string.
func (b *builder) kv(key, value string) *builder {
	return b.str(key).u32(uint32(TypeString)).str(value)
}

func (b *builder) tensor(name string, kind uint32, offset uint64, ne ...uint64) *builder {
	b.str(name).u32(uint32(len(ne)))
	for _, n := range ne {
		b.u64(n)
	}
	return b.u32(kind).u64(offset)
}

func (b *builder) data(n int) []byte {
	for len(b.b)%defaultAlignment != 0 {
		b.b = append(b.b, 0)
	}
	return append(b.b, make([]byte, n)...)
}

// rewritten returns what a Writer makes of the tensors and the metadata of a file.
func rewritten(t testing.TB, r *Reader, opts *WriterOptions) []byte {
	t.Helper()
	var out bytes.Buffer
	w := NewWriter(&out, opts)
	if err := errors.Join(w.AddAll(t.Context(), tensor.Each(r.Tensors())), w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
