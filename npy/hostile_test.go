package npy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/numpy"
	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/internal/readtest/lifecycle"
	"github.com/tensorfile/tensorfile/tensor"
)

func describe(r *Reader) string {
	var b strings.Builder
	for x := range r.Tensors() {
		if x.Size() > 1<<16 {
			continue
		}
		p, err := x.Data.ReadAll()
		st, _ := x.Data.Stored()
		fmt.Fprintln(&b, x.Name, x.DType, x.Shape, x.Order, p, err, st)
	}
	fmt.Fprintln(&b, r.Warnings(), r.Version(), r.Len())
	return b.String()
}

// walk reads everything that is not absurdly large.
var walk = lifecycle.Walker(describe)

func TestMalformedArraysAreRefused(t *testing.T) {
	const good = `{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }`
	with := func(descr, fortran, shape string) string {
		return "{'descr': " + descr + ", 'fortran_order': " + fortran + ", 'shape': " + shape +
			", }"
	}
	for name, c := range map[string]struct {
		b    []byte
		want error
	}{
		"nothing":         {nil, io.ErrUnexpectedEOF},
		"the magic alone": {[]byte(numpy.Magic), io.ErrUnexpectedEOF},
		"another magic":   {[]byte("\x93NUMPX\x01\x00\x00\x00"), tensor.ErrMalformed},
		"version 0": {[]byte(numpy.Magic + "\x00\x00\x00\x00"),
			errors.ErrUnsupported},
		"version 4": {[]byte(numpy.Magic + "\x04\x00\x00\x00\x00\x00"),
			errors.ErrUnsupported},
		"version 1.1": {[]byte(numpy.Magic + "\x01\x01\x00\x00"),
			errors.ErrUnsupported},
		"a header beyond the file": {[]byte(numpy.Magic + "\x01\x00\xff\xff{"),
			io.ErrUnexpectedEOF},
		"a header of 4 GiB": {[]byte(numpy.Magic + "\x02\x00\xff\xff\xff\xff{"),
			io.ErrUnexpectedEOF},
		"an empty header":    {array("", ""), tensor.ErrMalformed},
		"no dictionary":      {array("[]", ""), tensor.ErrMalformed},
		"an open dictionary": {array("{'descr': '<f4'", ""), tensor.ErrMalformed},
		"a key missing": {array("{'descr': '<f4', 'shape': (1,)}", "1234"),
			tensor.ErrMalformed},
		"a key twice": {array(
			"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", "1234"),
			tensor.ErrMalformed},
		"a key too many": {array(
			"{'descr': '<f4', 'x': '<f4', 'fortran_order': False, 'shape': (1,)}", "1234"),
			tensor.ErrMalformed},
		"text behind": {array(good+"x", "1234"), tensor.ErrMalformed},
		"no comma": {array(
			"{'descr': '<f4' 'fortran_order': False, 'shape': (1,)}", "1234"),
			tensor.ErrMalformed},
		"fortran_order 1": {array(with("'<f4'", "1", "(1,)"), "1234"),
			tensor.ErrMalformed},
		"shape a number": {array(with("'<f4'", "False", "1"), "1234"),
			tensor.ErrMalformed},
		"shape in parentheses only": {array(with("'<f4'", "False", "(1)"), "1234"),
			tensor.ErrMalformed},
		"shape a list": {array(with("'<f4'", "False", "[1]"), "1234"),
			tensor.ErrMalformed},
		"a comma alone": {array(with("'<f4'", "False", "(,)"), "1234"),
			tensor.ErrMalformed},
		"two commas": {array(with("'<f4'", "False", "(1,,)"), "1234"),
			tensor.ErrMalformed},
		"no comma between": {array(with("'<f4'", "False", "(1 1)"), "1234"),
			tensor.ErrMalformed},
		"a negative dimension": {array(with("'<f4'", "False", "(-1,)"), ""),
			tensor.ErrMalformed},
		"a dimension of 2^63": {array(with("'<f4'", "False", "(9223372036854775808,)"), ""),
			tensor.ErrMalformed},
		"the shape wraps": {array(with("'<f4'", "False", "(4294967296, 4294967296)"),
			""), tensor.ErrMalformed},
		"the bytes wrap": {array(with("'<f8'", "False", "(2305843009213693952,)"), ""),
			tensor.ErrMalformed},
		"rank 256": {array(with("'<f4'", "False",
			"("+strings.Repeat("1,", 256)+")"), "1234"), tensor.ErrLimit},
		"too few bytes":              {array(good, "123"), io.ErrUnexpectedEOF},
		"too many bytes":             {array(good, "12345"), tensor.ErrMalformed},
		"a string that does not end": {array("{'descr': '<f4", ""), tensor.ErrMalformed},
		"an escape": {array(with(`'<f\x34'`, "False", "(1,)"), "1234"),
			tensor.ErrMalformed},
		"an expression": {array(with("'<f4'", "False", "(2**3,)"), "1234"),
			tensor.ErrMalformed},
	} {
		_, err := OpenBytes(readtest.WithCanary(c.b), nil)
		var fe *tensor.FormatError
		if !errors.Is(err, c.want) || !errors.As(err, &fe) || fe.Offset < 0 ||
			strings.Contains(err.Error(), readtest.Canary) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		api.Same(t, c.b, describe)
	}
	// NumPy has at most 64 dimensions: more are read here, and not written.
	deep := array(with("'<f4'", "False", "("+strings.Repeat("1,", 65)+")"), "1234")
	if r, err := OpenBytes(deep, nil); err != nil || len(r.Warnings()) != 1 {
		t.Errorf("65 dimensions: %v", err)
	} else {
		x := slices.Collect(r.Tensors())[0]
		if err := NewWriter(io.Discard, nil).Check(x); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("65 dimensions are written: %v", err)
		}
	}
	if _, err := OpenBytes(deep, &ReaderOptions{Strict: true}); !errors.Is(err,
		tensor.ErrMalformed) {
		t.Errorf("65 dimensions, Strict: %v", err)
	}
	if _, err := OpenBytes(array(good, "1234"), &ReaderOptions{Strict: true}); err != nil {
		t.Error(err)
	}
	for _, ok := range []string{`{"descr":"<f4","shape":(1L,),"fortran_order":True}`,
		"{'shape': (1,), 'descr': '<f4', 'fortran_order': False}\n"} {
		if _, err := OpenBytes(array(ok, "1234"), &ReaderOptions{Strict: true}); err != nil {
			t.Errorf("%s: %v", ok, err)
		}
	}
	native := array("{'descr': '=f4', 'fortran_order': False, 'shape': (1,)}", "1234")
	if r, err := OpenBytes(native, nil); err != nil || len(r.Warnings()) != 1 {
		t.Error(err)
	}
	if _, err := OpenBytes(native, &ReaderOptions{Strict: true}); !errors.Is(err,
		tensor.ErrMalformed) {
		t.Error(err)
	}
}

func TestDamagedFilesAreReadOrRefused(t *testing.T) {
	for _, name := range []string{"column-be.npy", "version2.npy"} {
		b := golden(t, name)
		cut, changed := readtest.Damage(t, b, 0, min(len(b), 128),
			func(b []byte) error { return walk(OpenBytes(readtest.WithCanary(b), nil)) })
		if cut.Accepted != 0 {
			t.Errorf("%s: %d truncated files were accepted", name, cut.Accepted)
		}
		t.Logf("%s: %.1f%% of changed headers open", name, changed.Accepts())
	}
}

func TestLimitsAreKept(t *testing.T) {
	b := golden(t, "column.npy")
	for name, l := range map[string]tensor.Limits{"metadata": {MaxMetadata: 20},
		"rank": {MaxRank: 1}} {
		if _, err := OpenBytes(b, &ReaderOptions{Limits: l}); !errors.Is(err, tensor.ErrLimit) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := OpenBytes(b, &ReaderOptions{Limits: tensor.Limits{MaxTensors: -1}}); err == nil {
		t.Error("a negative limit")
	}
}

func TestBoolsThatAreNoneAreMalformed(t *testing.T) {
	b := array("{'descr': '|b1', 'fortran_order': False, 'shape': (3,)}", "\x00\x01\x02")
	r, err := OpenBytes(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Verify(t.Context(), nil); !errors.Is(err, tensor.ErrMalformed) {
		t.Error(err)
	}
	if _, err := r.Verify(t.Context(),
		&tensor.VerifyOptions{Depth: tensor.VerifyStructure}); err != nil {
		t.Error(err)
	}
}

// A disk that fails at every byte, and what the writer refuses.
func TestFailedWritesAreErrors(t *testing.T) {
	one := tensor.New("a", tensor.Shape{100}, make([]float32, 100))
	if err := readtest.FailedWrites(func(w io.Writer) error {
		nw := NewWriter(w, nil)
		if err := nw.Add(one); err != nil {
			return err
		}
		return nw.Close()
	}); err != nil {
		t.Error(err)
	}
	channels := tensor.New("c", tensor.Shape{1, 2, 2, 2}, make([]uint8, 8))
	channels.Order = tensor.Order{0, 2, 3, 1}
	for name, c := range map[string]struct {
		x    *tensor.Tensor
		want error
	}{
		"nil": {nil, tensor.ErrNoTensor},
		"bfloat16": {tensor.New("b", tensor.Shape{1}, []tensor.BFloat16{1}),
			errors.ErrUnsupported},
		"channels-last": {channels, errors.ErrUnsupported},
		"sparse": {&tensor.Tensor{Name: "b", DType: tensor.F32, Scheme: "sparse_csr"},
			errors.ErrUnsupported},
		"wrong length": {tensor.New("b", tensor.Shape{3}, []int8{1}), tensor.ErrMalformed},
	} {
		w := NewWriter(io.Discard, nil)
		if err := w.Check(c.x); !errors.Is(err, c.want) {
			t.Errorf("%s: Check: %v, want %v", name, err, c.want)
		}
		if err := w.Add(c.x); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	w := NewWriter(io.Discard, nil)
	w.Abort()
	if err := w.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Close after Abort: %v", err)
	}
}

func FuzzOpen(f *testing.F) {
	for _, name := range goldens(f) {
		f.Add(golden(f, name))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		walk(OpenBytes(readtest.WithCanary(b), nil))
	})
}

// goldens lists the arrays of testdata: every dtype in both byte orders is among them.
func goldens(t testing.TB) []string {
	t.Helper()
	names, err := filepath.Glob("../testdata/npy/*.npy")
	if err != nil || len(names) < 30 {
		t.Fatalf("%d arrays, %v", len(names), err)
	}
	for i := range names {
		names[i] = filepath.Base(names[i])
	}
	return names
}

// A file that opens and is written again opens with the same content.
func FuzzRoundTrip(f *testing.F) {
	for _, name := range goldens(f) {
		f.Add(golden(f, name))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := OpenBytes(b, nil)
		if err != nil || walk(r, nil) != nil || r.Array().Size() > 1<<20 {
			return
		}
		if r, err = OpenBytes(b, nil); err != nil {
			t.Fatal(err)
		}
		x := r.Array()
		if x.DType == tensor.Unknown {
			return // listed, and not written
		}
		var out bytes.Buffer
		w := NewWriter(&out, nil)
		if err := w.Add(x); err != nil {
			t.Fatal(err)
		}
		again, err := OpenBytes(out.Bytes(), &ReaderOptions{Strict: true})
		if err != nil {
			t.Fatal(err)
		}
		y := again.Array()
		p, err1 := x.Data.ReadAll()
		q, err2 := y.Data.ReadAll()
		if y.DType != x.DType || !y.Shape.Equal(x.Shape) ||
			y.Order.RowMajor() != x.Order.RowMajor() ||
			string(p) != string(q) || err1 != nil || err2 != nil {
			t.Fatalf("%q has changed: %v %v", x.Name, err1, err2)
		}
	})
}

// A type that NumPy does not have is refused.
func TestInvalidDTypesAreRefused(t *testing.T) {
	for _, word := range []string{"'<u('", "'<i3'", "''", "'x'", "'<M4[s]'", "'<U'", "'<Sx'"} {
		file := array("{'descr': "+word+", 'fortran_order': False, 'shape': (2,), }", "")
		if _, err := OpenBytes(file, nil); !errors.Is(err, errors.ErrUnsupported) &&
			!errors.Is(err, tensor.ErrMalformed) {
			t.Errorf("%s: %v", word, err)
		}
	}
}

// An element that is no plain number has NumPy's word for it, and no values.
func TestUnknownDTypesHaveBytesAndNoValues(t *testing.T) {
	for word, size := range map[string]int{"[('a', '<f4')]": 10, "'|O'": 10, "'<U3'": 24,
		"'|S3'": 6, "'<M8[s]'": 16, "'<V2'": 4, "'<f16'": 32} {
		file := func(n int) []byte {
			return array("{'descr': "+word+", 'fortran_order': False, 'shape': (2,), }",
				strings.Repeat("x", n))
		}
		r, err := OpenBytes(file(size), nil)
		if err != nil {
			t.Errorf("%s: %v", word, err)
			continue
		}
		x := r.Tensor("data")
		st, _ := x.Data.Stored()
		if x.DType != tensor.Unknown || !x.Shape.Equal(tensor.Shape{2}) ||
			st.Type != strings.Trim(word, "'") || st.Size != int64(size) {
			t.Errorf("%s: %v of %v, %+v", word, x.Shape, x.DType, st)
		}
		if _, err := tensor.Convert[float32](x); !errors.Is(err, tensor.ErrDType) {
			t.Errorf("%s: %v", word, err)
		}
		if _, err := r.Verify(t.Context(), nil); err != nil {
			t.Errorf("%s: %v", word, err)
		}
		_, err = OpenBytes(file(size-1), nil)
		if hasSize := size != 10; errors.Is(err, io.ErrUnexpectedEOF) != hasSize {
			t.Errorf("%s, a byte less: %v", word, err)
		}
	}
}
