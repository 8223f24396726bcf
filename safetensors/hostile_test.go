package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/jsonheader"
	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/internal/readtest/lifecycle"
	"github.com/tensorfile/tensorfile/tensor"
)

// describe walks everything and says it in words.
func describe(r *Reader) string {
	var b strings.Builder
	for x := range r.Tensors() {
		p, err := x.Data.ReadAll()
		fmt.Fprintln(&b, x.Name, x.DType, x.Shape, p, err)
		st, _ := x.Data.Stored()
		fmt.Fprintln(&b, st)
	}
	for k, v := range r.Attributes() {
		fmt.Fprintln(&b, k, v)
	}
	fmt.Fprintln(&b, r.Warnings())
	return b.String()
}

var walk = lifecycle.Walker(describe)

func TestMalformedFilesAreRefused(t *testing.T) {
	const one = `"dtype":"U8","shape":[1],"data_offsets":[0,1]`
	long := strings.Repeat("[", 1000)
	for _, c := range []struct {
		name   string
		b      []byte
		class  error
		offset int64
	}{
		{"nothing", nil, io.ErrUnexpectedEOF, 0},
		{"seven bytes", make([]byte, 7), io.ErrUnexpectedEOF, 0},
		{"a size alone", file("", "")[:8], io.ErrUnexpectedEOF, 0},
		{"size beyond the file", append(binary.LittleEndian.AppendUint64(nil, 100), "{}"...),
			io.ErrUnexpectedEOF, 0},
		{"size 2^64-1", append(binary.LittleEndian.AppendUint64(nil, 1<<64-1), "{}"...),
			tensor.ErrMalformed, 0},
		{"size beyond 100 MB", append(binary.LittleEndian.AppendUint64(nil, 100_000_001),
			"{}"...), tensor.ErrMalformed, 0},
		{"size 0", append(make([]byte, 8), "{}"...), tensor.ErrMalformed,
			8}, // what follows is data
		{"space before {", file(` {}`, ""), tensor.ErrMalformed, 8},
		{"an array", file(`[]`, ""), tensor.ErrMalformed, 8},
		{"not closed", file(`{`, ""), tensor.ErrMalformed, 9},
		{"text after the object", file(`{}{`, ""), tensor.ErrMalformed, 10},
		{"NUL after the object", file("{}\x00", ""), tensor.ErrMalformed, 10},
		{"comma at the end", file(`{"a":{`+one+`},}`, "1"), tensor.ErrMalformed, -2},
		{"no comma", file(`{"a":{`+one+`}"b":{`+one+`}}`, "1"), tensor.ErrMalformed, -2},
		{"a name twice",
			file(`{"a":{`+one+`},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`,
				"12"), tensor.ErrMalformed, -2},
		{"a name twice, escaped",
			file(`{"a":{`+one+`},"\u0061":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`,
				"12"), tensor.ErrMalformed, -2},
		{"dtype twice", file(`{"a":{"dtype":"I8",`+one+`}}`, "1"), tensor.ErrMalformed, -2},
		{"shape twice", file(`{"a":{"shape":[1],`+one+`}}`, "1"), tensor.ErrMalformed, -2},
		{"offsets twice", file(`{"a":{"data_offsets":[0,1],`+one+`}}`, "1"), tensor.ErrMalformed,
			-2},
		{"no dtype", file(`{"a":{"shape":[1],"data_offsets":[0,1]}}`, "1"), tensor.ErrMalformed,
			-2},
		{"no shape", file(`{"a":{"dtype":"U8","data_offsets":[0,1]}}`, "1"), tensor.ErrMalformed,
			-2},
		{"no offsets", file(`{"a":{"dtype":"U8","shape":[1]}}`, "1"), tensor.ErrMalformed, -2},
		{"a tensor that is null", file(`{"a":null}`, ""), tensor.ErrMalformed, -2},
		{"dtype a number", file(`{"a":{"dtype":1,"shape":[1],"data_offsets":[0,1]}}`, "1"),
			tensor.ErrMalformed, -2},
		{"negative dimension", file(`{"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}}`,
			"1"), tensor.ErrMalformed, -2},
		{"fraction", file(`{"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}}`, "1"),
			tensor.ErrMalformed, -2},
		{"exponent", file(`{"a":{"dtype":"U8","shape":[1e0],"data_offsets":[0,1]}}`, "1"),
			tensor.ErrMalformed, -2},
		{"leading zero", file(`{"a":{"dtype":"U8","shape":[01],"data_offsets":[0,1]}}`, "1"),
			tensor.ErrMalformed, -2},
		{"minus zero", file(`{"a":{"dtype":"U8","shape":[-0],"data_offsets":[0,0]}}`, ""),
			tensor.ErrMalformed, -2},
		{"dimension beyond 2^63",
			file(`{"a":{"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,1]}}`,
				"1"), tensor.ErrMalformed, -2},
		{"one offset", file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}}`, "1"),
			tensor.ErrMalformed, -2},
		{"three offsets", file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,2]}}`, "1"),
			tensor.ErrMalformed, -2},
		{"offsets backwards", file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}}`, "1"),
			tensor.ErrMalformed, -2},
		{"the shape wraps",
			file(`{"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`,
				""), tensor.ErrMalformed, -2},
		{"the shape wraps to 4",
			file(`{"a":{"dtype":"U8","shape":[4194305,211106198978564],"data_offsets":[0,4]}}`,
				"1234"), tensor.ErrMalformed, -2},
		{"the bytes wrap",
			file(`{"a":{"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]}}`,
				""), tensor.ErrMalformed, -2},
		{"too few bytes", file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`, "1234"),
			tensor.ErrMalformed, -2},
		{"too many bytes", file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}}`,
			"12345678"), tensor.ErrMalformed, -2},
		{"a hole at the start", file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`,
			"12"), tensor.ErrMalformed, -2},
		{"a hole between",
			file(`{"a":{`+one+`},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}}`,
				"123"), tensor.ErrMalformed, -2},
		{"overlap", file(`{"a":{`+one+`},"b":{`+one+`}}`, "1"), tensor.ErrMalformed, -2},
		{"nothing inside another",
			file(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[0],"data_offsets":[1,1]}}`, "12"), tensor.ErrMalformed, -2},
		{"bytes at the end", file(`{"a":{`+one+`}}`, "1PK\x03\x04"), tensor.ErrMalformed, -2},
		{"data ends early", file(`{"a":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}}`, "1"),
			io.ErrUnexpectedEOF, -2},
		{"float4 that ends inside a byte",
			file(`{"a":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}}`,
				"12"), tensor.ErrMalformed, -2},
		{"metadata of numbers", file(`{"__metadata__":{"a":1}}`, ""), tensor.ErrMalformed, -2},
		{"metadata twice", file(`{"__metadata__":{},"__metadata__":{}}`, ""),
			tensor.ErrMalformed, -2},
		{"a key of metadata twice", file(`{"__metadata__":{"a":"1","a":"2"}}`, ""),
			tensor.ErrMalformed, -2},
		{"metadata an array", file(`{"__metadata__":[]}`, ""), tensor.ErrMalformed, -2},
		{"a name that is not UTF-8", file("{\"\xff\":{"+one+"}}", "1"), tensor.ErrMalformed, -2},
		{"an escaped name that is not UTF-8", file("{\"\\n\xff\":{"+one+"}}", "1"),
			tensor.ErrMalformed, -2},
		{"a control character", file("{\"a\x01\":{"+one+"}}", "1"), tensor.ErrMalformed, -2},
		{"half a surrogate pair", file(`{"\ud800":{`+one+`}}`, "1"), tensor.ErrMalformed, -2},
		{"a surrogate pair the wrong way", file(`{"\udc00\ud800":{`+one+`}}`, "1"),
			tensor.ErrMalformed, -2},
		{"a bad escape", file(`{"\x":{`+one+`}}`, "1"), tensor.ErrMalformed, -2},
		{"an escape that ends", file(`{"\u12`, "1"), tensor.ErrMalformed, -2},
		{"a string that ends", file(`{"abc`, "1"), tensor.ErrMalformed, -2},
		{"a backslash at the end", file(`{"abc\`, "1"), tensor.ErrMalformed, -2},
		{"deep nesting", file(`{"a":{`+one+`,"x":`+long+`}}`, "1"), tensor.ErrMalformed, -2},
		{"an unknown key of no value", file(`{"a":{`+one+`,"x":}}`, "1"), tensor.ErrMalformed, -2},
		{"an unknown key of a bad number", file(`{"a":{`+one+`,"x":1.}}`, "1"),
			tensor.ErrMalformed, -2},
		{"rank 256", file(`{"a":{"dtype":"U8","shape":[`+strings.Repeat("1,",
			255)+`1],"data_offsets":[0,1]}}`, "1"), tensor.ErrLimit, -2},
		{"a name of 1 MiB and a byte",
			file(`{"`+strings.Repeat("x", 1<<20+1)+`":{`+one+`}}`, "1"), tensor.ErrLimit, -2},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := OpenBytes(readtest.WithCanary(c.b), nil)
			var fe *tensor.FormatError
			if !errors.Is(err, c.class) || !errors.As(err, &fe) {
				t.Fatalf("%v, want %v", err, c.class)
			}
			if fe.Format != string(errs) || fe.Field == "" || fe.Offset < 0 || c.offset >= 0 &&
				fe.Offset != c.offset || strings.Contains(err.Error(), readtest.Canary) {
				t.Errorf("%#v", fe)
			}
			_, err = ReadHeader(bytes.NewReader(c.b), int64(len(c.b)), nil)
			if !errors.Is(err, c.class) {
				t.Errorf("ReadHeader: %v, want %v", err, c.class)
			}
			api.Same(t, c.b, describe)
		})
	}
}

func TestDeviationsAreWarningsUnlessStrict(t *testing.T) {
	const one = `"dtype":"U8","shape":[1],"data_offsets":[0,1]`
	for name, b := range map[string][]byte{
		"line feed at the end": file("{}\n", ""),
		"white space inside":   file("{ \"a\" :\t{"+one+"}}", "1"),
		"an unknown key": file(`{"a":{`+one+
			`,"x":[{"y":[null,true,false,-1.5e+3,"\n"]},{}]}}`, "1"),
		"metadata null": file(`{"__metadata__":null}`, ""),
		"an unknown type": file(`{"a":{"dtype":"I4","shape":[3],"data_offsets":[0,2]}}`,
			"12"),
	} {
		r, err := OpenBytes(b, nil)
		if err != nil || len(r.Warnings()) == 0 {
			t.Errorf("%s: %v", name, err)
			continue
		}
		// The reference refuses a dtype that it does not know.
		if _, err := r.Verify(t.Context(), nil); (err != nil) != (name == "an unknown type") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := r.Verify(t.Context(), &tensor.VerifyOptions{Strict: true}); err == nil {
			t.Errorf("%s: strict verification must fail", name)
		}
		if _, err := OpenBytes(b, &ReaderOptions{Strict: true}); !errors.Is(err,
			tensor.ErrMalformed) {
			t.Errorf("%s: strict opening: %v", name, err)
		}
	}
	r, err := OpenBytes(file(`{"a":{"dtype":"I4","shape":[3],"data_offsets":[0,2]}}`, "12"), nil)
	if err != nil {
		t.Fatal(err)
	}
	x := r.Tensor("a")
	if st, ok := x.Data.Stored(); !ok || st.Type != "I4" || x.DType != tensor.Unknown ||
		x.Size() != 2 {
		t.Errorf("%+v", st)
	}
}

func TestOrderIsThatOfOffsets(t *testing.T) {
	r, err := OpenBytes(file(
		`{"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},"z":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}  `, "12"), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for x := range r.Tensors() {
		names = append(names, x.Name)
	}
	if !slices.Equal(names, []string{"z", "a", "b"}) {
		t.Error(names)
	}
}

func TestInvalidBoolsAreAFinding(t *testing.T) {
	r, err := OpenBytes(file(`{"a":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}}`,
		"\x00\x01\x02"), nil)
	if err != nil {
		t.Fatal(err)
	}
	report, _ := r.Verify(t.Context(), nil)
	f := report.Findings
	if len(f) != 1 || f[0].Class != tensor.ClassMalformed ||
		f[0].Offset != int64(len(file(`{"a":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}}`,
			"")))+2 {
		t.Errorf("%+v", f)
	}
}

// Every truncation, and every bit of the header.
func TestDamagedFilesAreReadOrRefused(t *testing.T) {
	for _, name := range []string{"dtypes.safetensors", "names.safetensors",
		"scalar-and-zero.safetensors"} {
		b := golden(t, name)
		end := jsonheader.Start + int(binary.LittleEndian.Uint64(b))
		cut, changed := readtest.Damage(t, b, 0, end,
			func(b []byte) error { return walk(OpenBytes(readtest.WithCanary(b), nil)) })
		if cut.Accepted != 0 {
			t.Errorf("%s: %d truncated files were accepted", name, cut.Accepted)
		}
		t.Logf("%s: %.1f%% of changed headers open (names, types of the same width)", name,
			changed.Accepts())
	}
}

func TestMisbehavingReadersAreErrors(t *testing.T) {
	b := golden(t, "dtypes.safetensors")
	readtest.Misread(t, b, []int64{0, 8, 9, 500, int64(len(b)) - 1},
		func(r io.ReaderAt, size int64) error {
			return walk(NewReader(r, size, nil))
		})
	c := readtest.NewCounter(b)
	r, err := NewReader(c, int64(len(b)), nil)
	if err != nil || c.Calls() > 2 {
		t.Errorf("opening took %d reads, %v", c.Calls(), err)
	}
	for range 2 {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	for x := range r.Tensors() {
		if _, err := x.Data.ReadAll(); x.Size() > 0 && !errors.Is(err, fs.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
}

func TestLimitsAreKept(t *testing.T) {
	b := golden(t, "many.safetensors")
	for name, l := range map[string]tensor.Limits{"metadata": {MaxMetadata: 100},
		"tensors": {MaxTensors: 199}, "names": {MaxName: 10}} {
		if _, err := OpenBytes(b, &ReaderOptions{Limits: l}); !errors.Is(err, tensor.ErrLimit) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := OpenBytes(b, &ReaderOptions{Limits: tensor.Limits{MaxTensors: -1}}); err == nil {
		t.Error("a negative limit")
	}
}

// The memory of opening is bounded by the header's length.
func TestMemoryOfOpeningFollowsTheHeader(t *testing.T) {
	b := file(`{"a":{"dtype":"U8","shape":[`+strings.Repeat("1,",
		254)+`1],"data_offsets":[0,1]}`+strings.Repeat(` `, 1<<20)+`}`, "1")
	if n := readtest.Allocated(func() { walk(OpenBytes(b, nil)) }); n > 1<<20+4*int64(len(b)) {
		t.Errorf("%d bytes for a header of %d", n, len(b))
	}
	if !readtest.Measuring() {
		return
	}
	// A dimension takes two bytes in the header, and eight in memory.
	const n = 20_000
	var header strings.Builder
	for i := range n {
		fmt.Fprintf(&header, `,"%x":{"dtype":"U8","shape":[%s1],"data_offsets":[%d,%d]}`, i,
			strings.Repeat("1,", 200), i, i+1)
	}
	b = file("{"+header.String()[1:]+"}", strings.Repeat("1", n))
	peak := readtest.PeakHeap(func() {
		if r, err := OpenBytes(b, nil); err != nil || r.Len() != n {
			t.Error(err)
		}
	})
	if peak > 1<<20+12*int64(header.Len()) {
		t.Errorf("%d bytes for a header of %d", peak, header.Len())
	}
}

func TestIndexesThatDifferFromTheirShardsAreFindings(t *testing.T) {
	dir := t.TempDir()
	ts := []*tensor.Tensor{tensor.New("a", tensor.Shape{1}, []uint8{1}),
		tensor.New("b", tensor.Shape{1}, []uint8{2})}
	for i, n := range []string{"1.safetensors", "2.safetensors"} {
		if err := WriteFile(t.Context(), filepath.Join(dir, n), tensor.Of(ts[i:i+1]...),
			nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "junk"), []byte("{}"), 0o666); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"good":              {`{"weight_map":{"a":"1.safetensors","b":"2.safetensors"},"metadata":{"x":{"y":1}}}`, nil},
		"a tensor too many": {`{"weight_map":{"a":"1.safetensors","b":"2.safetensors","c":"2.safetensors"}}`, tensor.ErrMalformed},
		"a tensor too few": {`{"weight_map":{"a":"1.safetensors","c":"2.safetensors"}}`,
			tensor.ErrMalformed},
		"in the other shard": {`{"weight_map":{"a":"2.safetensors","b":"1.safetensors"}}`,
			tensor.ErrMalformed},
		"a name twice": {`{"weight_map":{"a":"1.safetensors","a":"1.safetensors"}}`,
			tensor.ErrMalformed},
		"no map":                  {`{"metadata":{}}`, tensor.ErrMalformed},
		"two maps":                {`{"weight_map":{},"weight_map":{}}`, tensor.ErrMalformed},
		"text behind":             {`{"weight_map":{}} x`, tensor.ErrMalformed},
		"a missing shard":         {`{"weight_map":{"a":"3.safetensors"}}`, fs.ErrNotExist},
		"a shard of another kind": {`{"weight_map":{"a":"junk"}}`, tensor.ErrMalformed},
		"a path out":              {`{"weight_map":{"a":"../1.safetensors"}}`, fs.ErrInvalid},
		"an absolute path":        {`{"weight_map":{"a":"/etc/passwd"}}`, fs.ErrInvalid},
		"NUL in the name": {`{"weight_map":{"a":"1.safetensors\u0000"}}`,
			tensor.ErrMalformed},
		"an empty name":        {`{"weight_map":{"a":""}}`, tensor.ErrMalformed},
		"the directory itself": {`{"weight_map":{"a":"."}}`, fs.ErrInvalid},
		"the index itself": {`{"weight_map":{"a":"model.safetensors.index.json"}}`,
			tensor.ErrMalformed},
	} {
		path := filepath.Join(dir, "model.safetensors.index.json")
		if err := os.WriteFile(path, []byte(c.text), 0o666); err != nil {
			t.Fatal(err)
		}
		r, err := Open(path, nil)
		if c.want == nil && err != nil || c.want != nil && err == nil {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if c.want != nil && !errors.Is(err, c.want) && c.want != fs.ErrInvalid {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if err == nil {
			if r.Len() != 2 || r.Tensor("b") == nil {
				t.Errorf("%s: %d tensors", name, r.Len())
			}
			r.Close()
		}
	}
}

func FuzzOpen(f *testing.F) {
	for _, name := range []string{"dtypes", "empty", "metadata-only", "names", "rank8",
		"scalar-and-zero"} {
		f.Add(golden(f, name+".safetensors"))
	}
	f.Add([]byte(`{"metadata":{"total_size":1},"weight_map":{"a":"b"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		walk(OpenBytes(readtest.WithCanary(b), nil))
	})
}

// A file that opens in Strict mode and is written again opens with the same content.
func FuzzRoundTrip(f *testing.F) {
	for _, name := range []string{"dtypes", "names", "scalar-and-zero"} {
		f.Add(golden(f, name+".safetensors"))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := OpenBytes(b, &ReaderOptions{Strict: true})
		if err != nil {
			return
		}
		metadata := map[string]string{}
		for k, v := range r.Attributes() {
			metadata[k] = v
		}
		var out strings.Builder
		w := NewWriter(&out, &WriterOptions{Attributes: metadata, KeepOrder: true})
		if err := w.AddAll(t.Context(), tensor.Each(r.Tensors())); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		again, err := OpenBytes([]byte(out.String()), &ReaderOptions{Strict: true})
		if err != nil {
			t.Fatal(err)
		}
		for x := range r.Tensors() {
			y := again.Tensor(x.Name)
			if y == nil || y.DType != x.DType || !y.Shape.Equal(x.Shape) {
				t.Fatalf("%q has changed", x.Name)
			}
			p, _ := x.Data.Bytes()
			q, _ := y.Data.Bytes()
			if string(p) != string(q) {
				t.Fatalf("%q has other bytes", x.Name)
			}
		}
	})
}
