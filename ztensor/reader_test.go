package ztensor

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/tensor"
)

// api opens files in all four forms, with no options.
var api = apiWith(nil)

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

// A golden is a file by upstream's packages with what the reference of its
// generation reads from it; see testdata/ztensor/README.md.
type golden struct {
	name string
	data []byte
	said
}

type said struct {
	Version    string
	Attributes json.RawMessage
	Tensors    []saidTensor
	// Version 2 alone:
	ContentDigest       string   `json:"content_digest"`
	CanonicalViolations []string `json:"canonical_violations"`
	Shards              []Shard
}

type saidTensor struct {
	Name, Scheme string
	Shape        []int64
	Attributes   json.RawMessage
	saidBytes
	Parts []saidPart
}

type saidPart struct {
	Role string
	saidBytes
}

type saidBytes struct {
	DType, Encoding, Digest, SHA256 string
	Bytes, Offset, Stored           int64
}

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

var version1 = []string{"0.1", "1.0", "1.1", "1.2"}

func TestFilesOfUpstreamReadAsUpstreamReadsThem(t *testing.T) {
	for _, g := range goldens(t, version1...) {
		t.Run(g.name, func(t *testing.T) {
			api.Each(t, g.data, func(t *testing.T, r *Reader) { compare(t, r, g.said) })
		})
	}
}

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

func TestFilesOfUpstreamVerify(t *testing.T) {
	for _, g := range goldens(t, version1...) {
		t.Run(g.name, func(t *testing.T) {
			api.Each(t, g.data, func(t *testing.T, r *Reader) {
				report, _ := r.Verify(t.Context(), nil)
				for _, f := range report.Findings {
					if f.Severity == tensor.SeverityWarning ||
						f.Class == tensor.ClassUnsupported &&
							strings.Contains(f.Field, "unknown type") {
						continue // a logical type of nobody's
					}
					t.Error(f)
				}
			})
		})
	}
}
