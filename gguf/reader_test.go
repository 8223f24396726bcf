package gguf

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/internal/readtest/lifecycle"
	"github.com/tensorfile/tensorfile/tensor"
)

// want is what interop/gguf/make.py noted next to each file.
type want struct {
	Keys    []string
	Text    map[string]string
	Tensors map[string]struct {
		Type, DType   string
		Shape         []int64
		Offset, Bytes int64
		SHA256        string
		Values        string // of quantised blocks, where gguf.dequantize has them
	}
}

// The files of the gguf package: the committed ones, or the files of
// interop/gguf.sh when TENSORFILE_GGUF names their directory.
func TestFilesOfTheReferenceHaveItsValues(t *testing.T) {
	dir := "../testdata/gguf"
	if d := os.Getenv("TENSORFILE_GGUF"); d != "" {
		dir = d
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.gguf"))
	if err != nil || len(files) < 4 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			raw, err := os.ReadFile(name + ".json")
			if err != nil {
				t.Fatal(err)
			}
			var w want
			if err := json.Unmarshal(raw, &w); err != nil {
				t.Fatal(err)
			}
			r, err := Open(name, &ReaderOptions{Strict: true})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if r.Len() != len(w.Tensors) || r.Version() != "3" {
				t.Errorf("%d tensors, want %d; version %s", r.Len(), len(w.Tensors), r.Version())
			}
			for x := range r.Tensors() {
				e, ok := w.Tensors[x.Name]
				if !ok || r.Tensor(x.Name) != x {
					t.Fatalf("%q is not in the reference's list", x.Name)
				}
				data := x.Data
				if !x.Dense() {
					data = x.Part("blocks").Data
				}
				b, err := data.ReadAll()
				if err != nil {
					t.Fatal(err)
				}
				sum := sha256.Sum256(b)
				st, _ := data.Stored()
				if st.Type != e.Type || x.DType.Known() && x.DType.String() != e.DType ||
					x.Dense() != (e.DType != "") || !x.Shape.Equal(e.Shape) ||
					st.Offset != e.Offset || x.Size() != e.Bytes ||
					hex.EncodeToString(sum[:]) != e.SHA256 || x.Check() != nil {
					t.Errorf("%q: %v %v %+v, the reference has %+v", x.Name, x.DType, x.Shape,
						st, e)
				}
				if e.Values != "" {
					sameValues(t, x, e.Values)
				}
			}
			var keys []string
			for k, v := range r.Attributes() {
				keys = append(keys, k)
				if v != w.Text[k] {
					t.Errorf("%s is %q, want %q", k, v, w.Text[k])
				}
			}
			if !slices.Equal(keys, w.Keys) {
				t.Errorf("keys %q, want %q", keys, w.Keys)
			}
			if _, err := r.Verify(t.Context(), nil); err != nil {
				t.Error(err)
			}
		})
	}
}

// sameValues compares quantised blocks, decoded in every way, with the SHA-256 of what
// gguf.dequantize returns, in which every NaN is the same.
func sameValues(t *testing.T, x *tensor.Tensor, want string) {
	t.Helper()
	all, err := tensor.Convert[float32](x)
	if err != nil {
		t.Error(err)
		return
	}
	var pieces []float32
	for p, err := range tensor.Values[float32](x) {
		if err != nil {
			t.Error(err)
		}
		pieces = append(pieces, p...)
	}
	var rows []float32 // by reading at random
	for i := range x.Shape[0] {
		part, err := tensor.Slice(x, tensor.At(i))
		if err != nil {
			t.Fatal(err)
		}
		row, err := tensor.Load[float32](part)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row...)
	}
	for _, values := range [][]float32{all, pieces, rows} {
		var b []byte
		for _, v := range values {
			if v != v {
				v = float32(math.NaN())
			}
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		}
		if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != want {
			t.Errorf("%q, %s: other values than the reference's", x.Name, x.Scheme)
		}
	}
}

func describe(r *Reader) string {
	var b strings.Builder
	for x := range r.Tensors() {
		data := x.Data
		if !x.Dense() {
			data = x.Parts[0].Data
		}
		p, err := data.ReadAll()
		st, _ := data.Stored()
		fmt.Fprintln(&b, x.Name, x.DType, x.Shape, p, err, st)
	}
	for k, v := range r.Attributes() {
		fmt.Fprintln(&b, k, v)
	}
	for _, v := range r.Metadata() {
		fmt.Fprintln(&b, v.Any(-1), v.Any(1))
	}
	fmt.Fprintln(&b, r.Warnings(), r.Version(), r.Len())
	return b.String()
}

var walk = lifecycle.Walker(describe)

func TestMalformedFilesAreRefused(t *testing.T) {
	deep := begin(3, 0, 1).str("k")
	deep.u32(9)
	for range 100 {
		deep.u32(9).u64(1)
	}
	for name, c := range map[string]struct {
		b    []byte
		want error
	}{
		"nothing":                   {nil, io.ErrUnexpectedEOF},
		"the magic alone":           {[]byte(magic), io.ErrUnexpectedEOF},
		"another magic":             {[]byte("GGML\x03\x00\x00\x00"), tensor.ErrMalformed},
		"version 0":                 {begin(0, 0, 0).b, errors.ErrUnsupported},
		"version 4":                 {begin(4, 0, 0).b, errors.ErrUnsupported},
		"big-endian version 2":      {begin(2<<24, 0, 0).b, errors.ErrUnsupported},
		"2^64-1 tensors":            {begin(3, math.MaxUint64, 0).b, tensor.ErrMalformed},
		"2^40 tensors":              {begin(3, 1<<40, 0).b, tensor.ErrLimit},
		"2^20 tensors that are not": {begin(3, 1<<20, 0).b, io.ErrUnexpectedEOF},
		"2^40 entries":              {begin(3, 0, 1<<40).b, tensor.ErrLimit},
		"a name of 2^63 bytes":      {begin(3, 0, 1).u64(1 << 63).b, tensor.ErrMalformed},
		"a name of 2^62 bytes":      {begin(3, 0, 1).u64(1 << 62).b, tensor.ErrLimit},
		"an unknown value":          {begin(3, 0, 1).str("k").u32(13).b, errors.ErrUnsupported},
		"the bool 2": {append(begin(3, 0, 1).str("k").u32(7).b, 2),
			tensor.ErrMalformed},
		"an array of 2^60": {begin(3, 0, 1).str("k").u32(9).u32(0).u64(1 << 60).b,
			tensor.ErrLimit},
		"an array of 2^63 strings": {begin(3, 0, 1).str("k").u32(9).u32(8).u64(1<<63 - 1).b,
			io.ErrUnexpectedEOF},
		"deep arrays": {deep.b, tensor.ErrLimit},
		"a key twice": {begin(3, 0,
			2).str("k").u32(4).u32(1).str("k").u32(4).u32(1).b, tensor.ErrMalformed},
		"alignment 0": {begin(3, 0, 1).str(alignmentKey).u32(4).u32(0).b,
			tensor.ErrMalformed},
		"alignment 3": {begin(3, 0, 1).str(alignmentKey).u32(4).u32(3).b,
			tensor.ErrMalformed},
		"alignment a string": {begin(3, 0, 1).str(alignmentKey).u32(8).str("32").b,
			tensor.ErrMalformed},
		"a name twice": {begin(3, 2, 0).tensor("a", 24, 0, 1).tensor("a", 24, 32,
			1).data(33), tensor.ErrMalformed},
		"rank 256": {begin(3, 1, 0).str("a").u32(256).data(4096),
			tensor.ErrLimit},
		"the shape wraps": {begin(3, 1, 0).tensor("a", 24, 0, 1<<32, 1<<32).data(1),
			tensor.ErrMalformed},
		"the bytes wrap": {begin(3, 1, 0).tensor("a", 0, 0, 1<<62).data(1),
			tensor.ErrMalformed},
		"a dimension of 2^63": {begin(3, 1, 0).tensor("a", 24, 0, 1<<63).data(1),
			tensor.ErrMalformed},
		"half a block": {begin(3, 1, 0).tensor("a", 2, 0, 16).data(18),
			tensor.ErrMalformed},
		"a scalar of blocks": {begin(3, 1, 0).tensor("a", 2, 0).data(18),
			tensor.ErrMalformed},
		"the offset wraps": {begin(3, 1, 0).tensor("a", 24, 1<<63-32, 64).data(64),
			io.ErrUnexpectedEOF},
		"an offset of 2^63": {begin(3, 1, 0).tensor("a", 24, 1<<63, 64).data(64),
			tensor.ErrMalformed},
		"a misaligned offset": {begin(3, 1, 0).tensor("a", 24, 8, 1).data(64),
			tensor.ErrMalformed},
		"data ends early": {begin(3, 1, 0).tensor("a", 0, 0, 4).data(15),
			io.ErrUnexpectedEOF},
		"no data at all": {begin(3, 1, 0).tensor("a", 0, 0, 4).b,
			io.ErrUnexpectedEOF},
		"overlap": {begin(3, 2, 0).tensor("a", 24, 0, 33).tensor("b", 24,
			32, 1).data(33), tensor.ErrMalformed},
		"the same data twice": {begin(3, 2, 0).tensor("a", 24, 0, 1).tensor("b", 24, 0,
			1).data(1), tensor.ErrMalformed},
		"unknown type beyond the file": {begin(3, 1, 0).tensor("a", 999, 1<<20, 1).data(1),
			io.ErrUnexpectedEOF},
	} {
		_, err := OpenBytes(readtest.WithCanary(c.b), nil)
		var fe *tensor.FormatError
		if !errors.Is(err, c.want) || !errors.As(err,
			&fe) || fe.Offset < 0 || strings.Contains(err.Error(), readtest.Canary) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		api.Same(t, c.b, describe)
	}
}

func TestDeviationsAreReadWithAWarning(t *testing.T) {
	const model = "general.architecture"
	for name, b := range map[string][]byte{
		"a hole": begin(3, 2, 1).kv(model, "x").tensor("a", 24, 0, 1).
			tensor("b", 24, 64, 1).data(65),
		"bytes at the end": append(begin(3, 1, 1).kv(model, "x").
			tensor("a", 24, 0, 32).data(32), "PK\x03\x04"...),
		"another order": begin(3, 2, 1).kv(model, "x").tensor("a", 24, 32, 1).
			tensor("b", 24, 0, 32).data(33),
		"a name with NUL": begin(3, 1, 1).kv(model, "x").
			tensor("a\x00b", 24, 0, 32).data(32),
		"a name that is not UTF-8": begin(3, 1, 1).kv(model, "x").
			tensor("a\xff", 24, 0, 32).data(32),
		"a key that is not UTF-8": begin(3, 1, 2).kv(model, "x").
			kv("\xff", "x").tensor("a", 24, 0, 32).data(32),
		"a value that is not UTF-8": begin(3, 1, 1).kv(model, "\xff").
			tensor("a", 24, 0, 32).data(32),
	} {
		r, err := OpenBytes(b, nil)
		if err != nil || len(r.Warnings()) != 1 {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if _, err := OpenBytes(b, &ReaderOptions{Strict: true}); !errors.Is(err,
			tensor.ErrMalformed) {
			t.Errorf("%s: strict: %v", name, err)
		}
		var fe *tensor.FormatError
		if !errors.As(r.Warnings()[0], &fe) || fe.Offset < 24 || fe.Field == "" {
			t.Errorf("%s: %v", name, r.Warnings())
		}
		if report, err := r.Verify(t.Context(), nil); err != nil || len(report.Findings) != 1 {
			t.Errorf("%s: Verify: %v, %v", name, err, report.Findings)
		}
		if _, err := r.Verify(t.Context(), &tensor.VerifyOptions{Strict: true}); err == nil {
			t.Errorf("%s: strict: Verify", name)
		}
	}
}

// TestFilesThatLlamaCppRefusesHaveOneFinding: each has one finding, which is an error
// under Strict.
func TestFilesThatLlamaCppRefusesHaveOneFinding(t *testing.T) {
	for name, c := range map[string]struct {
		field, text string
		atOpen      bool // it is one of Warnings, too
	}{
		"longname": {`tensors["blk.0.x`, "a name of 76 bytes, ggml reads 63", true},
		"rank5":    {`tensors["x"].n_dims`, "5 dimensions, ggml reads 4", true},
		"emptykey": {`metadata[""]`, "a key of 0 bytes", true},
		"t99":      {`tensors["w"].type`, "ggml_type 99 (Q8_2_X4) is withdrawn, of a fork or not", true},
		"align1":   {`metadata["general.alignment"]`, "1 is not a multiple of 8", true},
		"badtok":   {`metadata["tokenizer.ggml.tokens"]`, "a string that is not UTF-8", true},
		"nested":   {`metadata["`, "an array of arrays", false},
		"no_arch":  {"metadata", "there is no general.architecture", false},
	} {
		r, err := Open("../testdata/gguf/warned/"+name+".gguf", nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		defer r.Close()
		report, err := r.Verify(t.Context(), nil)
		if err != nil || len(report.Findings) != 1 {
			t.Errorf("%s: %v, %v", name, err, report.Findings)
			continue
		}
		f := report.Findings[0]
		if f.Severity != tensor.SeverityWarning || !strings.Contains(f.Field, c.field) ||
			!strings.Contains(f.Err.Error(), c.text) || f.Offset < 24 && name != "no_arch" {
			t.Errorf("%s: %+v", name, f)
		}
		if (len(r.Warnings()) == 1) != c.atOpen {
			t.Errorf("%s: %v", name, r.Warnings())
		}
		if _, err := r.Verify(t.Context(), &tensor.VerifyOptions{Strict: true}); !errors.Is(err,
			tensor.ErrMalformed) {
			t.Errorf("%s: strict: %v", name, err)
		}
	}
	var fe *tensor.FormatError
	if _, err := Open("../testdata/gguf/warned/dupkey.gguf", nil); !errors.As(err, &fe) ||
		fe.Field != `metadata["k"]` || fe.Offset != 0x56 {
		t.Errorf("a duplicate key: %v", err)
	}
}

// TestStringsOfAnyBytesAreKept: they are read as they are, escaped in JSON, and kept by
// an Edit.
func TestStringsOfAnyBytesAreKept(t *testing.T) {
	r, err := Open("../testdata/gguf/warned/badtok.gguf", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	const key = "tokenizer.ggml.tokens"
	v, _ := r.Value(key)
	want := []string{"<s>", "\x80", "\xff", "a"}
	if got, ok := v.Any(-1).([]string); !ok || !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	const text = `["<s>",{"$bytes":"80"},{"$bytes":"ff"},"a"]`
	if v.String() != text || !json.Valid([]byte(text)) {
		t.Error(v.String())
	}
	e := NewEdit(r)
	var out bytes.Buffer
	if err := errors.Join(e.SetAttribute("general.name", "x"),
		e.Write(t.Context(), &out, nil)); err != nil {
		t.Fatal(err)
	}
	after, err := OpenBytes(out.Bytes(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if kept, _ := after.Value(key); !reflect.DeepEqual(kept.Any(-1), v.Any(-1)) {
		t.Error(kept)
	}
	for _, bad := range []error{e.SetAttribute("\xff", "x"), e.SetAttribute("k", "\xff"),
		e.SetAttribute("", "x")} {
		if !errors.Is(bad, errors.ErrUnsupported) {
			t.Error(bad)
		}
	}
}

func TestUnknownTypesAreListed(t *testing.T) {
	r, err := OpenBytes(begin(2, 3, 0).tensor("last", 24, 64, 1).tensor("new", 999, 0,
		7).tensor("newer", 1000, 32, 7).data(65), nil)
	if err != nil {
		t.Fatal(err)
	}
	x := r.Tensor("new")
	st, _ := x.Parts[0].Data.Stored()
	if x.Scheme != "ggml_type 999" || st.Size != 32 || !x.Shape.Equal(tensor.Shape{7}) ||
		r.Version() != "2" {
		t.Errorf("%+v %+v", x, st)
	}
}

func TestVersion1HasShortCounts(t *testing.T) {
	b := begin(1, 1, 1)
	short := func(s string) { b.u32(uint32(len(s))); b.b = append(b.b, s...) }
	short("key")
	b.u32(8)
	short("value")
	short("w")
	b.u32(2).u32(3).u32(2).u32(0).u64(0)
	r, err := OpenBytes(b.data(24), nil)
	if err != nil {
		t.Fatal(err)
	}
	if x := r.Tensor("w"); x == nil || !x.Shape.Equal(tensor.Shape{2,
		3}) || x.DType != tensor.F32 {
		t.Errorf("%+v", x)
	}
	for k, v := range r.Attributes() {
		if k != "key" || v != "value" {
			t.Errorf("%s = %s", k, v)
		}
	}
}

func TestDamagedFilesAreReadOrRefused(t *testing.T) {
	for _, name := range []string{"metadata.gguf", "align4096.gguf"} {
		b := golden(t, name)
		head := min(len(b), 500)
		cut, changed := readtest.Damage(t, b[:min(len(b), 4200)], 0, head,
			func(b []byte) error { return walk(OpenBytes(readtest.WithCanary(b), nil)) })
		t.Logf("%s: %d truncated and %.1f%% of changed files open", name, cut.Accepted,
			changed.Accepts())
	}
	whole := golden(t, "metadata.gguf")
	for n, b := range readtest.Truncations(whole) {
		if walk(OpenBytes(b, nil)) == nil && n < len(whole)-defaultAlignment {
			t.Errorf("the first %d bytes open", n)
		}
	}
}

func TestHeaderLongerThanTheWindowTakesTwoReads(t *testing.T) {
	b := begin(3, 1, 1).str("tokens").u32(9).u32(8).u64(50_000)
	for i := range 50_000 {
		b.str(fmt.Sprint("token", i))
	}
	file := b.tensor("w", 24, 0, 4).data(4)
	c := readtest.NewCounter(file)
	r, err := NewReader(c, int64(len(file)), nil)
	if err != nil || c.Calls() != 2 {
		t.Fatalf("%d reads, %v", c.Calls(), err)
	}
	for _, v := range r.Attributes() {
		var tokens []string
		if err := json.Unmarshal([]byte(v),
			&tokens); err != nil || len(tokens) != 50_000 || tokens[49_999] != "token49999" {
			t.Errorf("%d tokens, %v", len(tokens), err)
		}
	}
	if _, err := OpenBytes(file,
		&ReaderOptions{Limits: tensor.Limits{MaxMetadata: 300 << 10}}); !errors.Is(err,
		tensor.ErrLimit) {
		t.Error(err)
	}
	if n := readtest.Allocated(func() {
		walk(OpenBytes(begin(3, 1<<20, 1<<20).b,
			nil))
	}); n > 1<<20 {
		t.Errorf("%d bytes for a header of 24", n)
	}
}

// The smallest tensors take the most memory for their bytes: 14 times.
func TestMemoryOfOpeningFollowsTheHeader(t *testing.T) {
	readtest.Measure(t)
	const n = 200_000
	b := begin(3, n, 0).b
	for i := range uint64(n) {
		name := strconv.FormatUint(i, 16)
		b = append(binary.LittleEndian.AppendUint64(b, uint64(len(name))), name...)
		b = binary.LittleEndian.AppendUint32(b, 0)  // dimensions
		b = binary.LittleEndian.AppendUint32(b, 24) // int8
		b = binary.LittleEndian.AppendUint64(b, 32*i)
	}
	header := int64(len(b))
	b = append(b, make([]byte, 32*n+32)...)
	peak := readtest.PeakHeap(func() {
		r, err := OpenBytes(b, nil)
		if err != nil || r.Len() != n {
			t.Error(err)
		}
	})
	if peak > 1<<20+20*header {
		t.Errorf("%d bytes for a header of %d", peak, header)
	}
}

func FuzzOpen(f *testing.F) {
	for _, name := range []string{"metadata", "types"} {
		f.Add(golden(f, name+".gguf"))
	}
	f.Add(begin(1, 0, 0).b)
	f.Fuzz(func(t *testing.T, b []byte) {
		walk(OpenBytes(readtest.WithCanary(b), nil))
		_, want := OpenBytes(b, nil)
		_, err := ReadHeader(bytes.NewReader(b), int64(len(b)), nil)
		if (err == nil) != (want == nil) {
			t.Errorf("as a stream: %v, want %v", err, want)
		}
	})
}

// The race detector looks at this one.
func TestAccessorsAreSafeForConcurrentUse(t *testing.T) {
	for _, name := range []string{"metadata", "types", "many"} {
		for _, noMap := range []bool{false, true} {
			r, err := Open(filepath.Join("../testdata/gguf", name+".gguf"),
				&ReaderOptions{NoMap: noMap})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			called := readtest.Accessors(t, r, "general.architecture")
			for _, method := range []string{"*gguf.Reader.Spans", "*gguf.Reader.Value",
				"*gguf.Reader.Verify"} {
				if !called[method] {
					t.Errorf("%s: %s was not called: %v", name, method, called)
				}
			}
		}
	}
}

func TestACountOverTheLimitIsNamedByItsOwnField(t *testing.T) {
	for field, c := range map[string]struct {
		data []byte
		at   int64
	}{
		"tensor_count":      {begin(3, 1<<40, 0).b, 8},
		"metadata_kv_count": {begin(3, 0, 1<<40).b, 16},
	} {
		_, err := OpenBytes(c.data, nil)
		var placed *tensor.FormatError
		if !errors.As(err, &placed) || placed.Field != field || placed.Offset != c.at {
			t.Errorf("%s: %v", field, err)
		}
	}
}
