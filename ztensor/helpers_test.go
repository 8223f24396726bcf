package ztensor

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	fxcbor "github.com/fxamacker/cbor/v2"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
	v1 "github.com/tensorfile/tensorfile/ztensor/internal/v1"
)

// The helpers of tests in several files. More are in helpers_made_test.go (files
// that no writer would make) and helpers_attacks_test.go (files that attack a reader).

// goldens returns the files of testdata of the versions that this test is about.
func goldens(t testing.TB, versions ...string) []golden {
	t.Helper()
	paths, err := filepath.Glob("../testdata/ztensor/*.zt")
	if err != nil || len(paths) == 0 {
		t.Fatal("no testdata", err)
	}
	var all []golden
	for _, p := range paths {
		g := golden{name: strings.TrimSuffix(filepath.Base(p), ".zt")}
		text, err := os.ReadFile(strings.TrimSuffix(p, ".zt") + ".json")
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &g.said); err != nil {
			t.Fatal(p, err)
		}
		if len(versions) > 0 && !slices.Contains(versions, g.Version) {
			continue
		}
		if g.data, err = os.ReadFile(p); err != nil {
			t.Fatal(err)
		}
		all = append(all, g)
	}
	return all
}

// A golden is a file by upstream's packages with what the reference of its
// generation reads from it; see testdata/ztensor/README.md.
type golden struct {
	name string
	data []byte
	said
}

// said is what golden.json says of a file.
type said struct {
	Version    string
	Attributes json.RawMessage
	Tensors    []saidTensor
	// Version 2 alone:
	ContentDigest       string   `json:"content_digest"`
	CanonicalViolations []string `json:"canonical_violations"`
	Shards              []Shard
}

// api opens files in all four forms, with no options.
var api = apiWith(nil)

// apiWith opens files in all four forms, with these options.
func apiWith(opts *ReaderOptions) readtest.API[*Reader] {
	return readtest.API[*Reader]{
		Open: func(name string, noMap bool) (*Reader, error) {
			var o ReaderOptions
			if opts != nil {
				o = *opts
			}
			o.NoMap = noMap
			return Open(name, &o)
		},
		OpenBytes: func(b []byte) (*Reader, error) { return OpenBytes(b, opts) },
		NewReader: func(r io.ReaderAt, size int64) (*Reader, error) {
			return NewReader(r, size, opts)
		},
	}
}

// compare requires that r shows what is said of its file.
func compare(t *testing.T, r *Reader, want said) {
	if r.Version() != want.Version {
		t.Errorf("version %s, want %s", r.Version(), want.Version)
	}
	if got, want := jsonOf(t, r.AttributeValues()),
		canonicalJSON(t, want.Attributes); got != want {
		t.Errorf("attributes %s, want %s", got, want)
	}
	for _, w := range r.Warnings() {
		if tensor.FindingOf(w).Field != "manifest_size" { // the empty 1.0 container
			t.Errorf("warning: %v", w)
		}
	}
	if r.Len() != len(want.Tensors) {
		t.Fatalf("%d tensors, want %d", r.Len(), len(want.Tensors))
	}
	i := 0
	for have := range r.Tensors() {
		w := want.Tensors[i]
		i++
		if have.Name != w.Name || !have.Shape.Equal(w.Shape) {
			t.Errorf("tensor %q %v, want %q %v", have.Name, have.Shape, w.Name, w.Shape)
			continue
		}
		if r.Tensor(w.Name) == nil || r.Tensor(w.Name).Name != w.Name {
			t.Errorf("%q is not found by its name", w.Name)
		}
		if got, want := jsonOf(t, r.TensorAttributes(have)),
			canonicalJSON(t, w.Attributes); got != want {
			t.Errorf("%q: attributes %s, want %s", w.Name, got, want)
		}
		if w.Scheme == "dense" && len(w.Parts) == 0 {
			if !have.Dense() || len(have.Parts) > 0 {
				t.Errorf("%q is not dense", w.Name)
			}
			compareBytes(t, w.Name, have.Data, have.DType, w.saidBytes)
			continue
		}
		if scheme := have.Scheme; scheme != w.Scheme && !(scheme == "" && w.Scheme == "dense") {
			t.Errorf("%q: scheme %q, want %q", w.Name, scheme, w.Scheme)
		}
		for _, p := range w.Parts {
			if part := have.Part(p.Role); part != nil {
				compareBytes(t, w.Name+"/"+p.Role, part.Data, part.DType, p.saidBytes)
			} else if p.Role == "data" && have.Dense() {
				compareBytes(t, w.Name, have.Data, have.DType, p.saidBytes)
			} else {
				t.Errorf("%q has no part %q", w.Name, p.Role)
			}
		}
	}
}

// jsonOf is attributes as JSON.
func jsonOf(t *testing.T, values func(func(string, Value) bool)) string {
	t.Helper()
	m := map[string]Value{}
	for k, v := range values {
		m[k] = v
	}
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return canonicalJSON(t, b)
}

// canonicalJSON is JSON with its keys in order.
func canonicalJSON(t *testing.T, b json.RawMessage) string {
	t.Helper()
	if len(b) == 0 {
		b = []byte("{}")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err, string(b))
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// version1 is the revisions of version 1.
var version1 = []string{"0.1", "1.0", "1.1", "1.2"}

// editableVersions is the versions that an Edit can write.
var editableVersions = []string{Version10, Version2}

// write returns the file that add makes.
func write(t testing.TB, opts *WriterOptions, add func(w *Writer)) []byte {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(&b, opts)
	add(w)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// adding is a function that adds these tensors to a Writer.
func adding(t *testing.T, ts ...*tensor.Tensor) func(w *Writer) {
	return func(w *Writer) {
		t.Helper()
		if err := w.AddAll(t.Context(), tensor.Of(ts...)); err != nil {
			t.Fatal(err)
		}
	}
}

// variants is options of each version, digest and level.
func variants() []WriterOptions {
	var all []WriterOptions
	for _, version := range []string{"1.0"} {
		for _, digest := range []Digest{NoDigest, CRC32C, SHA256} {
			for _, level := range []int{0, 1, 3, 9, 19} {
				all = append(all,
					WriterOptions{Version: version, Digest: digest, Level: level,
						Attributes: map[string]any{"license": "MIT", "": "ü"}})
			}
		}
	}
	return all
}

// samples are tensors of every kind that all versions can hold.
func samples() []*tensor.Tensor {
	f16 := make([]tensor.Float16, 300)
	for i := range f16 {
		f16[i] = tensor.Float16(i * 7)
	}
	ts := []*tensor.Tensor{
		tensor.New("f32", tensor.Shape{2, 3}, []float32{1, 2, 3, 4, 5, float32(math.NaN())}),
		tensor.New("f64", tensor.Shape{1}, []float64{math.Inf(-1)}),
		tensor.New("f16", tensor.Shape{300}, f16),
		tensor.New("bf16", tensor.Shape{2}, []tensor.BFloat16{0x3f80, 0xc000}),
		tensor.New("i8", tensor.Shape{3}, []int8{-1, 0, 1}),
		tensor.New("i16", tensor.Shape{3}, []int16{-1, 0, 1}),
		tensor.New("i32", tensor.Shape{3}, []int32{-1, 0, 1}),
		tensor.New("i64", tensor.Shape{3}, []int64{math.MinInt64, 0, 1}),
		tensor.New("u8", tensor.Shape{3}, []uint8{255, 0, 1}),
		tensor.New("u16", tensor.Shape{3}, []uint16{65535, 0, 1}),
		tensor.New("u32", tensor.Shape{3}, []uint32{math.MaxUint32, 0, 1}),
		tensor.New("u64", tensor.Shape{3}, []uint64{math.MaxUint64, 0, 1}),
		tensor.New("bool", tensor.Shape{4}, []bool{true, false, false, true}),
		tensor.New("scalar", nil, []float32{42}),
		tensor.New("empty", tensor.Shape{0, 5}, []float32{}),
		tensor.New("große Namen — 名前", tensor.Shape{1}, []uint8{7}),
		csr("csr", []uint64{0, 2, 2, 3}, []uint64{0, 3, 1}, 4),
		{Name: "coo", DType: tensor.F32, Shape: tensor.Shape{3, 3}, Scheme: "sparse_coo",
			Parts: []tensor.Part{
				{Role: "values", DType: tensor.F32,
					Data: tensor.New("", nil, []float32{1, 2}).Data},
				{Role: "coords", DType: tensor.U64,
					Data: tensor.New("", nil, []uint64{0, 2, 1, 0}).Data}}},
		{Name: "packed", DType: tensor.U8, Shape: tensor.Shape{4096, 4096},
			Scheme: "quantized_4bit", Parts: []tensor.Part{
				{Role: "data", DType: tensor.U8, Data: tensor.BlobOf([]byte{1, 2, 3})},
				{Role: "scale", DType: tensor.U8, Data: tensor.BlobOf([]byte{4})}}},
	}
	return ts
}

// csr is a sparse matrix whose element i is i + 0.5.
func csr(name string, indptr, indices []uint64, cols int64) *tensor.Tensor {
	values := make([]float32, len(indices))
	for i := range values {
		values[i] = float32(i) + 0.5
	}
	return &tensor.Tensor{Name: name, DType: tensor.F32,
		Shape: tensor.Shape{int64(len(indptr) - 1), cols}, Scheme: "sparse_csr",
		Parts: []tensor.Part{
			{Role: "values", DType: tensor.F32, Data: tensor.New("", nil, values).Data},
			{Role: "indices", DType: tensor.U64, Data: tensor.New("", nil, indices).Data},
			{Role: "indptr", DType: tensor.U64, Data: tensor.New("", nil, indptr).Data}}}
}

// noise is bytes that compress as weights do.
func noise(n int, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 0))
	b := make([]byte, n)
	for i := 0; i+2 <= n; i += 2 {
		f := tensor.NewBFloat16(float32(r.NormFloat64() * 0.02))
		binary.LittleEndian.PutUint16(b[i:], uint16(f))
	}
	return b
}

// model is tensors of every kind, some of which are the same.
func model() []*tensor.Tensor {
	var all []*tensor.Tensor
	for i := range 20 {
		all = append(all, tensor.New(fmt.Sprint("layer ", i), tensor.Shape{1000},
			noise(1000, uint64(i/2))))
	}
	return append(all, tensor.New("scalar", nil, []float64{1}),
		tensor.New("nothing", tensor.Shape{0, 3}, []int16{}), csr32("csr"))
}

// manyTensors is a file of n tensors of 512 bytes with the names of a
// transformer, as benchmarks of all formats use them.
func manyTensors(t testing.TB, n int, opts *WriterOptions) []byte {
	t.Helper()
	kinds := []string{"self_attn.q_proj.weight", "self_attn.k_proj.weight",
		"self_attn.v_proj.weight", "self_attn.o_proj.weight", "mlp.gate_proj.weight",
		"mlp.up_proj.weight", "mlp.down_proj.weight", "input_layernorm.weight",
		"post_attention_layernorm.weight"}
	data := make([]float32, 128)
	return write(t, opts, func(w *Writer) {
		for i := range n {
			data[0] = float32(i)
			name := fmt.Sprintf("model.layers.%d.%s", i/len(kinds), kinds[i%len(kinds)])
			if err := w.Add(tensor.New(name, tensor.Shape{16, 8}, data)); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// sharing makes a file of n dense tensors over one zstd component of size bytes.
func sharing(t *testing.T, version string, n, size int, digest string) []byte {
	t.Helper()
	var out bytes.Buffer
	e, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	e.ResetContentSize(&out, int64(size))
	e.Write(make([]byte, size))
	e.Close()
	stored := out.Bytes()
	list := map[string]any{}
	for i := range n {
		var c map[string]any
		if version == "1.0" {
			c = component10(64, len(stored))
		} else {
			c = component12("u8", 64, len(stored))
			c["uncompressed_length"] = size
		}
		c["encoding"] = "zstd"
		if digest != "" {
			c["digest"] = digest
		}
		if version == "1.0" {
			list[fmt.Sprintf("t%06d", i)] = tensor10("uint8", "dense", []any{size},
				map[string]any{"data": c})
		} else {
			list[fmt.Sprintf("t%06d", i)] = object12("dense", []any{size},
				map[string]any{"data": c})
		}
	}
	data := make([]byte, 64+len(stored)+64)
	copy(data, v1.Magic1)
	copy(data[64:], stored)
	if version == "1.0" {
		return append(data, file10(manifest10(list), 8)[8:]...)
	}
	return append(data, file12(manifest12(list), 8)[8:]...)
}

// first is where the first payload of a tensor lies: a key to sort tensors by.
func first(t *tensor.Tensor) int64 {
	least := int64(math.MaxInt64) // twice the offset, and one more where bytes are
	blobs := []tensor.Blob{t.Data}
	for _, p := range t.Parts {
		blobs = append(blobs, p.Data)
	}
	for _, b := range blobs {
		if st, ok := b.Stored(); ok {
			least = min(least, 2*st.Offset+min(st.Size, 1))
		}
	}
	return least
}

// listed keeps the compiler from leaving out what list does.
var listed int64

// list looks at what `ls` shows of every tensor.
func list(r *Reader) {
	for t := range r.Tensors() {
		listed += int64(len(t.Name)) + int64(t.DType) + t.Shape[0] + t.Size()
	}
}

// walk looks at everything that an open file shows, and reads all payloads.
func walk(t testing.TB, r *Reader) {
	for ten := range r.Tensors() {
		ten.Check()
		ten.Size()
		for range r.TensorAttributes(ten) {
		}
		blobs := []tensor.Blob{ten.Data}
		for _, p := range ten.Parts {
			blobs = append(blobs, p.Data)
		}
		for _, b := range blobs {
			b.Stored()
			if in, err := b.Open(); err == nil {
				io.Copy(io.Discard, in)
				in.Close()
			}
			if b.Size() >= 0 && b.Size() < 1<<20 {
				b.ReadAll()
			}
			b.ReadAt(make([]byte, 7), 3)
		}
		if ten.Dense() {
			if _, err := tensor.View[float32](ten); err == nil && ten.Name == "\xff" {
				t.Error("a name that is not UTF-8")
			}
			ten.Data.ReadAt(make([]byte, 1), 0)
		}
		if other := r.Tensor(ten.Name); other == nil || other.Name != ten.Name {
			t.Errorf("tensor %q is not found", ten.Name)
		}
	}
	for range r.Attributes() {
	}
	for _, v := range r.AttributeValues() {
		if _, err := v.MarshalJSON(); err != nil {
			t.Errorf("attribute %v: %v", v, err)
		}
	}
	r.Warnings()
}

// full reports that the long form of a test is wanted.
func full() bool { return os.Getenv("TENSORFILE_FULL") != "" }

// check stops a benchmark at an error.
func check(b *testing.B, err error) {
	if err != nil {
		b.Fatal(err)
	}
}

// load returns the bytes of a file.
func load(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// store writes data to a file of its own.
func store(t testing.TB, data []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "x.zt")
	if err := os.WriteFile(name, data, 0o666); err != nil {
		t.Fatal(err)
	}
	return name
}

// rename moves a file.
func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// remove makes a revision of a file without these tensors, in its place.
func remove(name string, names ...string) error {
	r, err := Open(name, nil)
	if err != nil {
		return err
	}
	defer r.Close()
	e := NewEdit(r)
	for _, n := range names {
		if err := e.Remove(n); err != nil {
			return err
		}
	}
	return e.WriteFile(context.Background(), name, nil)
}

// replace makes a revision of a file with another tensor of that name, in its place.
func replace(name string, t *tensor.Tensor) error {
	r, err := Open(name, nil)
	if err != nil {
		return err
	}
	defer r.Close()
	e := NewEdit(r)
	if err := e.Replace(t.Name, t); err != nil {
		return err
	}
	return e.WriteFile(context.Background(), name, nil)
}

// The manifest as structs of fxamacker/cbor, as one would read it without a
// scanner. It is also the oracle of TestScannerAgreesWithFxamacker.
type plainManifest struct {
	Version    string                       `cbor:"version"`
	Generator  string                       `cbor:"generator"`
	Attributes map[string]fxcbor.RawMessage `cbor:"attributes"`
	Tensors    map[string]plainTensor       `cbor:"tensors"`
	Objects    map[string]plainTensor       `cbor:"objects"`
}

func plainMode(t testing.TB) fxcbor.DecMode {
	t.Helper()
	m, err := fxcbor.DecOptions{DupMapKey: fxcbor.DupMapKeyEnforcedAPF, MaxMapPairs: 1 << 30,
		MaxArrayElements:  1 << 30,
		FieldNameMatching: fxcbor.FieldNameMatchingCaseSensitive}.DecMode()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

type saidTensor struct {
	Name, Scheme string
	Shape        []int64
	Attributes   json.RawMessage
	saidBytes
	Parts []saidPart
}

func compareBytes(t *testing.T, name string, b tensor.Blob, d tensor.DType, want saidBytes) {
	st, ok := b.Stored()
	if !ok || st.Offset != want.Offset || st.Size != want.Stored || st.Encoding != want.Encoding ||
		st.Digest != want.Digest {
		t.Errorf("%q: stored %+v, want %+v", name, st, want)
	}
	word := d.String()
	switch {
	case d == tensor.Unknown && st.Type != "":
		word = st.Type
	case d == tensor.Unknown:
		word = ""
	}
	if word != want.DType {
		t.Errorf("%q: dtype %q, want %q", name, word, want.DType)
	}
	if b.Size() >= 0 && b.Size() != want.Bytes {
		t.Errorf("%q: %d bytes, want %d", name, b.Size(), want.Bytes)
	}
	all, err := b.ReadAll()
	if err != nil {
		t.Errorf("%q: %v", name, err)
		return
	}
	if int64(len(all)) != want.Bytes {
		t.Errorf("%q: %d bytes read, want %d", name, len(all), want.Bytes)
	}
	if sum := sha256.Sum256(all); hex.EncodeToString(sum[:]) != want.SHA256 {
		t.Errorf("%q: wrong bytes", name)
	}
	// The same through the other doors.
	into := make([]byte, len(all))
	if err := b.ReadInto(into); err != nil || !bytes.Equal(into, all) {
		t.Errorf("%q: ReadInto: %v", name, err)
	}
	if p, ok := b.Bytes(); ok && !bytes.Equal(p, all) {
		t.Errorf("%q: Bytes differs", name)
	}
	stream, err := b.Open()
	if err != nil {
		t.Errorf("%q: Open: %v", name, err)
		return
	}
	defer stream.Close()
	if got, err := io.ReadAll(stream); err != nil || !bytes.Equal(got, all) {
		t.Errorf("%q: Open: %d bytes, %v", name, len(got), err)
	}
	if n := len(all); n > 2 {
		mid := make([]byte, n/2)
		if _, err := b.ReadAt(mid, int64(n/3)); err != nil || !bytes.Equal(mid, all[n/3:n/3+n/2]) {
			t.Errorf("%q: ReadAt: %v", name, err)
		}
	}
}

// The beginning and the end of a seek table (§8).
const (
	seekHeader = "\x5e\x2a\x4d\x18"
	seekMagic  = "\xb1\xea\x92\x8f"
)

func csr32(name string) *tensor.Tensor {
	return &tensor.Tensor{Name: name, Scheme: sparse.CSR, Shape: tensor.Shape{2, 3},
		DType: tensor.U8, Parts: []tensor.Part{
			{Role: "values", DType: tensor.U8, Data: tensor.BlobOf([]byte{1, 2, 3})},
			{Role: "indices", DType: tensor.U32,
				Data: tensor.BlobOf([]byte{0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0})},
			{Role: "indptr", DType: tensor.U32,
				Data: tensor.BlobOf([]byte{0, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0})},
		}}
}

type plainTensor struct {
	DType      string                    `cbor:"dtype"`
	Shape      []uint64                  `cbor:"shape"`
	Format     string                    `cbor:"format"`
	Components map[string]plainComponent `cbor:"components"`
}

type saidPart struct {
	Role string
	saidBytes
}

type saidBytes struct {
	DType, Encoding, Digest, SHA256 string
	Bytes, Offset, Stored           int64
}

type plainComponent struct {
	DType    string  `cbor:"dtype"`
	Type     *string `cbor:"type"`
	Offset   *uint64 `cbor:"offset"`
	Length   *uint64 `cbor:"length"`
	Decoded  *uint64 `cbor:"uncompressed_length"`
	Encoding *string `cbor:"encoding"`
	Digest   *string `cbor:"digest"`
}
