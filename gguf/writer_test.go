package gguf

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/tensor"
)

// Files of the gguf package are written again to the byte: no byte of them is free. A
// big-endian file becomes the little-endian one with the same content.
func TestFilesAreWrittenAsTheReferenceWritesThem(t *testing.T) {
	dir := "../testdata/gguf"
	if d := os.Getenv("TENSORFILE_GGUF"); d != "" {
		dir = d
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.gguf"))
	if err != nil || len(files) < 4 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		r, err := OpenBytes(b, nil)
		if err != nil {
			t.Fatal(err)
		}
		if little, isBig := strings.CutSuffix(name, "-big.gguf"); isBig {
			if err := NewEdit(r).WriteHeader(name); !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("%s: WriteHeader: %v", name, err)
			}
			if b, err = os.ReadFile(little + ".gguf"); err != nil {
				t.Fatal(err)
			}
		}
		var same []KeyValue
		for _, kv := range metadataOf(r) { // through Go values
			v, err := NewValue(kv.Value.Any(-1))
			if err != nil {
				t.Fatalf("%s: %s: %v", name, kv.Key, err)
			}
			same = append(same, KeyValue{kv.Key, v})
		}
		if !bytes.Equal(rewritten(t, r, &WriterOptions{Metadata: same}), b) {
			t.Errorf("%s: other bytes than the gguf package wrote", name)
		}
		var out bytes.Buffer
		if err := NewEdit(r).Write(t.Context(), &out,
			nil); err != nil || !bytes.Equal(out.Bytes(), b) {
			t.Errorf("%s: an Edit without changes writes other bytes: %v", name, err)
		}
	}
}

func TestWriterRefusesWhatTheFormatLacks(t *testing.T) {
	ok := tensor.New("a", tensor.Shape{2}, []float32{1, 2})
	column := tensor.New("c", tensor.Shape{2, 2}, []int8{1, 2, 3, 4})
	column.Order = tensor.ColumnMajor(2)
	long := strings.Repeat("é", 32)
	for name, c := range map[string]struct {
		x    *tensor.Tensor
		want error
	}{
		"nil":           {nil, tensor.ErrNoTensor},
		"the same name": {tensor.New("a", tensor.Shape{1}, []int8{1}), tensor.ErrDuplicate},
		"not UTF-8": {tensor.New("\xff", tensor.Shape{1}, []int8{1}),
			errors.ErrUnsupported},
		"64 bytes":     {tensor.New(long, tensor.Shape{1}, []int8{1}), errors.ErrUnsupported},
		"wrong length": {tensor.New("b", tensor.Shape{3}, []int8{1}), fs.ErrInvalid},
		"bool":         {tensor.New("b", tensor.Shape{1}, []bool{true}), errors.ErrUnsupported},
		"uint8":        {tensor.New("b", tensor.Shape{1}, []uint8{1}), errors.ErrUnsupported},
		"complex":      {tensor.New("b", tensor.Shape{1}, []complex64{1}), errors.ErrUnsupported},
		"five dimensions": {tensor.New("b", tensor.Shape{1, 1, 1, 1, 1}, []int8{1}),
			errors.ErrUnsupported},
		"column-major": {column, errors.ErrUnsupported},
		"sparse": {&tensor.Tensor{Name: "b", DType: tensor.F32, Scheme: "sparse_csr"},
			errors.ErrUnsupported},
		"external": {&tensor.Tensor{Name: "b", DType: tensor.F32, External: true},
			errors.ErrUnsupported},
		"an unknown type":   {blocks("b", "ggml_type 99", 32, 32), errors.ErrUnsupported},
		"a withdrawn type":  {blocks("b", "Q4_2", 32, 32), errors.ErrUnsupported},
		"half a block":      {blocks("b", "Q4_0", 18, 16), tensor.ErrMalformed},
		"rows of 128":       {blocks("b", "Q4_K", 144, 2, 128), tensor.ErrMalformed},
		"a scalar of Q4_0":  {blocks("b", "Q4_0", 18), tensor.ErrMalformed},
		"one byte too few":  {blocks("b", "Q4_0", 17, 32), fs.ErrInvalid},
		"one byte too many": {blocks("b", "Q4_0", 19, 32), fs.ErrInvalid},
	} {
		w := NewWriter(io.Discard, nil)
		if err := w.Add(ok); err != nil {
			t.Fatal(err)
		}
		if err := w.Check(c.x); !errors.Is(err, c.want) {
			t.Errorf("%s: Check: %v, want %v", name, err, c.want)
		}
		if err := w.Add(c.x); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	value := func(x any) Value {
		v, err := NewValue(x)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for name, o := range map[string]WriterOptions{
		"an empty key":            {Metadata: []KeyValue{{"", value("x")}}},
		"a key that is not UTF-8": {Metadata: []KeyValue{{"\xff", value("x")}}},
		"a long key": {Metadata: []KeyValue{{strings.Repeat("k", 1<<16),
			value("x")}}},
		"a duplicate key":    {Metadata: []KeyValue{{"k", value("x")}, {"k", value("x")}}},
		"no value":           {Metadata: []KeyValue{{Key: "k"}}},
		"alignment 3":        {Alignment: 3},
		"alignment -32":      {Alignment: -32},
		"alignment 2^32":     {Alignment: 1 << 32},
		"the entry 0":        {Metadata: []KeyValue{{alignmentKey, value(uint32(0))}}},
		"the entry 48":       {Metadata: []KeyValue{{alignmentKey, value(uint32(48))}}},
		"the entry int32":    {Metadata: []KeyValue{{alignmentKey, value(int32(32))}}},
		"the entry a string": {Metadata: []KeyValue{{alignmentKey, value("32")}}},
	} {
		var out bytes.Buffer
		w := NewWriter(&out, &o)
		if err := w.Close(); err == nil || out.Len() > 0 {
			t.Errorf("%s: %v, %d bytes", name, err, out.Len())
		}
		if err := w.Add(ok); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("%s: Add after Close: %v", name, err)
		}
		if err := w.Close(); err == nil {
			t.Errorf("%s: a second Close forgets the error", name)
		}
	}
	for _, x := range []any{nil, uint(1), complex(1, 0), "\xff", []string{"\xff"}, []any{1},
		[]any{"a"}, struct{}{}, []any{[]any{"x"}}} {
		if v, err := NewValue(x); err == nil {
			t.Errorf("NewValue(%v) = %v", x, v)
		}
	}
	self := []any{nil}
	self[0] = self
	if _, err := NewValue(self); !errors.Is(err, tensor.ErrLimit) {
		t.Errorf("an array in itself: %v", err)
	}
}

// Ranks 0 to 4, dimensions of 0, trailing ones and names at the limit come back exactly.
func TestWriterKeepsShapesAndNames(t *testing.T) {
	in := []*tensor.Tensor{
		tensor.New("scalar", tensor.Shape{}, []float32{1}),
		tensor.New("", tensor.Shape{1}, []float64{2}),
		tensor.New(strings.Repeat("n", MaxName), tensor.Shape{0}, []int16{}),
		tensor.New("zero", tensor.Shape{3, 0, 2}, []int64{}),
		tensor.New("ones", tensor.Shape{1, 1, 2}, []int32{1, 2}),
		tensor.New("leading", tensor.Shape{2, 1, 1, 1}, []int8{1, 2}),
		blocks("none", "Q4_K", 0, 0, 256),
		blocks(strings.Repeat("é", 31), "Q2_0", 36, 2, 64),
		{Name: "of zTensor 2", Shape: tensor.Shape{32}, Scheme: "gguf.q8_0/1",
			Parts: []tensor.Part{{Role: "data", DType: tensor.U8,
				Data: tensor.BlobOf(make([]byte, 34))}}},
	}
	for _, alignment := range []int64{0, 8, 64, 4096} {
		var out bytes.Buffer
		w := NewWriter(&out, &WriterOptions{Alignment: alignment})
		for _, x := range in {
			if err := w.Add(x); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		r, err := OpenBytes(out.Bytes(), &ReaderOptions{Strict: true})
		if err != nil {
			t.Fatal(err)
		}
		i := 0
		for x := range r.Tensors() {
			want := in[i]
			if i++; x.Name != want.Name || !x.Shape.Equal(want.Shape) ||
				x.DType != want.DType && want.Scheme == "" {
				t.Errorf("%v became %v", want, x)
			}
			if x.Name == "of zTensor 2" && x.Scheme != "Q8_0" {
				t.Errorf("%s became %s", want.Scheme, x.Scheme)
			}
		}
		if v, ok := r.Value(alignmentKey); ok != (alignment != 0) ||
			ok && v.Any(0) != uint32(alignment) {
			t.Errorf("alignment %d: %v", alignment, v)
		}
	}
}

func TestWriterWithoutTensorsWritesTheHeader(t *testing.T) {
	var out bytes.Buffer
	if err := NewWriter(&out, nil).Close(); err != nil || out.Len() != 24 {
		t.Errorf("%d bytes, %v", out.Len(), err)
	}
}

func TestWriterFailsAtEveryByte(t *testing.T) {
	r := small(t)
	if err := readtest.FailedWrites(func(w io.Writer) error {
		gw := NewWriter(w, &WriterOptions{Metadata: metadataOf(r)})
		return errors.Join(gw.AddAll(t.Context(), tensor.Each(r.Tensors())), gw.Close())
	}); err != nil {
		t.Error(err)
	}
	if err := readtest.FailedWrites(func(w io.Writer) error {
		return NewEdit(r).Write(t.Context(), w, nil)
	}); err != nil {
		t.Error(err)
	}
}

func TestAFileAppearsWholeOrNotAtAll(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.gguf")
	if err := os.WriteFile(name, []byte("old"), 0o666); err != nil {
		t.Fatal(err)
	}
	short := &tensor.Tensor{Name: "s", DType: tensor.I8, Shape: tensor.Shape{4},
		Data: tensor.BlobFunc(4, func() (io.ReadCloser,
			error) {
			return io.NopCloser(strings.NewReader("12")), nil
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
	ok := tensor.New("a", tensor.Shape{1}, []int8{1})
	if err := WriteFile(ctx, name, tensor.Of(ok), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if b, err := os.ReadFile(name); err != nil || string(b) != "old" {
		t.Errorf("the old file is %q, %v", b, err)
	}
	if err := WriteFile(t.Context(), name, tensor.Of(ok), nil); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(filepath.Dir(name))
	if r, e := Open(name,
		nil); err != nil || e != nil || r.Len() != 1 || len(files) != 1 || r.Close() != nil {
		t.Errorf("%v, %v, %v", err, e, files)
	}
}

func TestParseValueReadsEveryType(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       any
	}{
		{"uint8", "255", uint8(255)}, {"int8", "-128", int8(-128)}, {"uint64",
			"18446744073709551615", uint64(math.MaxUint64)},
		{"int64", "-9223372036854775808", int64(math.MinInt64)}, {"float32", "0.1",
			float32(0.1)}, {"float64", "-1e300", -1e300},
		{"bool", "true", true}, {"bool", "false", false}, {"string", "a=b\n",
			"a=b\n"}, {"string", "", ""},
		{"[]uint8", "[1, 2]", []uint8{1, 2}},
		{"[]string", `["a", "\u00e9\u0000", ""]`, []string{"a", "é\x00", ""}},
		{"[]float32", "[]", []float32{}}, {"[]bool", "[true,false]", []bool{true,
			false}}, {"[]int32", "[-1]", []int32{-1}},
	} {
		v, err := ParseValue(c.name, c.text)
		if err != nil || !reflect.DeepEqual(v.Any(-1), c.want) || v.TypeName() != c.name {
			t.Errorf("%s %s: %#v of %s, %v", c.name, c.text, v.Any(-1), v.TypeName(), err)
		}
	}
	for _, c := range [][2]string{
		{"uint8", "256"}, {"uint8", "-1"}, {"uint8", ""}, {"uint8", "1.0"}, {"uint8",
			" 1"}, {"int8", "128"}, {"int16", "0x10"},
		{"float32", "1e39"}, {"float32", "NaN"}, {"float64", "inf"}, {"float64",
			"1e999"}, {"float32", "x"},
		{"bool", "maybe"}, {"bool", "True"}, {"bool", "1"}, {"bool", ""}, {"array",
			"[]"}, {"[]array", "[]"}, {"[][]int8", "[[1]]"},
		{"int", "1"}, {"", "x"}, {"[]uint8", "[256]"}, {"[]uint8", "1"}, {"[]uint8",
			"null"}, {"[]uint8", "[1"}, {"[]uint8", "[1] 2"},
		{"[]uint8", `["1"]`}, {"[]string", "[1]"}, {"[]string", "[null]"}, {"[]bool", "[1]"},
		{"[]float32", `["NaN"]`},
	} {
		if v, err := ParseValue(c[0], c[1]); !errors.Is(err, tensor.ErrDType) {
			t.Errorf("%s %q: %v, %v", c[0], c[1], v, err)
		}
	}
	if _, err := ParseValue("string", "\xff"); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}

// FuzzRoundTrip writes what opens, and compares what comes back.
func FuzzRoundTrip(f *testing.F) {
	for _, name := range []string{"metadata", "types"} {
		f.Add(golden(f, name+".gguf"))
	}
	f.Add(begin(3, 2, 0).tensor("a", 24, 0, 1).tensor("unknown", 1792, 32, 7).data(33))
	f.Add(begin(2, 3, 0).tensor("last", 24, 64, 1).tensor("new", 999, 0, 7).tensor("x", 24, 32,
		7).data(65))
	f.Add(begin(3, 2, 0).tensor("unknown", 999, 0, 1).tensor("empty", 0, 0, 0).data(7))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := OpenBytes(b, nil)
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := NewEdit(r).Write(t.Context(), &out, nil); err != nil {
			t.Fatal(err)
		}
		again, err := OpenBytes(out.Bytes(), &ReaderOptions{Strict: len(r.Warnings()) == 0,
			Limits: tensor.Limits{MaxMetadata: 1 << 40}})
		if err != nil {
			t.Fatal(err)
		}
		if x, y := describeContent(r), describeContent(again); x != y {
			t.Fatalf("%s\nbecame\n%s", x, y)
		}
		var twice bytes.Buffer
		if err := NewEdit(again).Write(t.Context(), &twice,
			nil); err != nil || !bytes.Equal(twice.Bytes(), out.Bytes()) {
			t.Fatalf("written twice: %v", err)
		}
	})
}
