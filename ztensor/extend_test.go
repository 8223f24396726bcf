package ztensor

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
	"github.com/tensorfile/tensorfile/ztensor/internal/v2"
)

// appended appends tensors to a copy of file and returns the file that comes out.
func appended(t *testing.T, file []byte, o *WriterOptions, add func(w *Writer)) []byte {
	t.Helper()
	name := filepath.Join(t.TempDir(), "x.zt")
	if err := os.WriteFile(name, file, 0o666); err != nil {
		t.Fatal(err)
	}
	w, err := Append(name, o)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	add(w)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A tensor x appended to the file of one tensor w.
func TestAppendMakesUpstreamsBytes(t *testing.T) {
	one := write(t, &WriterOptions{Version: "2"},
		adding(t, tensor.New("w", tensor.Shape{4}, []float32{1, 2, 3, 4})))
	b := appended(t, one, nil, adding(t, tensor.New("x", tensor.Shape{1}, []byte{9})))
	if !bytes.Equal(b[:len(one)], one) {
		t.Error("old bytes have changed")
	}
	const footer = "0000040000000000b900000000000000cd093dbde58281c90200000000000000895a54320d0a1a0a"
	if len(b) != 262369 || hex.EncodeToString(b[len(b)-40:]) != footer {
		t.Errorf("%d bytes, the last are %x", len(b), b[len(b)-40:])
	}
}

func TestAppendedIsReadWithWhatWasThereBefore(t *testing.T) {
	for _, g := range goldens(t, "2") {
		if g.name == "crate-2.1.1-sharded" {
			continue // TestShardedFilesAreAppendedTo
		}
		for _, o := range []*WriterOptions{nil, {Level: 3},
			{Alignment: 1 << 17, Attributes: map[string]any{"another": 1}}} {
			b := appended(t, g.data, o, func(w *Writer) {
				if err := w.TensorAttributes("appended b", map[string]any{"k": "v"}); err != nil {
					t.Fatal(err)
				}
				adding(t, tensor.New("appended a", tensor.Shape{3}, []uint16{1, 2, 3}),
					tensor.New("appended b", nil, []float64{1}))(w)
			})
			if !bytes.Equal(b[:len(g.data)], g.data) {
				t.Fatal("old bytes have changed")
			}
			old, err := OpenBytes(g.data, nil)
			if err != nil {
				t.Fatal(err)
			}
			r, err := OpenBytes(b, &ReaderOptions{Strict: true})
			if err != nil {
				t.Fatalf("%s, %+v: %v", g.name, o, err)
			}
			if report, err := r.Verify(t.Context(),
				&tensor.VerifyOptions{Strict: true}); err != nil {
				t.Errorf("%s: %v", g.name, report.Findings)
			}
			if r.Len() != old.Len()+2 {
				t.Errorf("%d tensors", r.Len())
			}
			for x := range old.Tensors() {
				y := r.Tensor(x.Name)
				if y == nil || y.DType != x.DType || !y.Shape.Equal(x.Shape) ||
					y.Scheme != x.Scheme {
					t.Fatalf("%s: %v, was %v", g.name, y, x)
				}
				for i, p := range core.PayloadsOf(y) {
					q := core.PayloadsOf(x)[i]
					if p.Offset != q.Offset || p.Digest != q.Digest {
						t.Errorf("%s: %s of %s is elsewhere", g.name, p.Role(), x.Name)
					}
				}
				want := map[string]string{}
				for k, v := range old.TensorAttributes(x) {
					want[k] = v.String()
				}
				for k, v := range r.TensorAttributes(y) {
					if want[k] != v.String() {
						t.Errorf("%s: attribute %s of %s", g.name, k, x.Name)
					}
					delete(want, k)
				}
				if len(want) > 0 {
					t.Errorf("%s: attributes %v of %s are gone", g.name, want, x.Name)
				}
			}
			if v, err := tensor.Load[uint16](r.Tensor("appended a")); err != nil ||
				!slices.Equal(v, []uint16{1, 2, 3}) {
				t.Error(v, err)
			}
			for range r.TensorAttributes(r.Tensor("appended b")) {
				return
			}
			t.Error("the attributes of what was appended are not there")
		}
	}
}

// Upstream's append drops fields of a manifest that this library does not know.
func TestAppendKeepsUnknownFields(t *testing.T) {
	m := w4()
	m.manifest = pairList{1, "one", "objects",
		pairList{"w", append(object2Of("dense", []any{4}, "data",
			partOf("f32", 4096, 16, "later", 1)), "zukunft", pairList{})}, "zz unknown", []any{1}}
	b := appended(t, m.file(), nil, adding(t, tensor.New("v", tensor.Shape{1}, []byte{1})))
	r, err := OpenBytes(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	manifest := b[r.f.ManifestAt:][:r.f.ManifestSize]
	for _, want := range []any{pairList{1, "one"}, pairList{"zukunft", pairList{}},
		pairList{"later", 1}, pairList{"zz unknown", []any{1}}} {
		if !bytes.Contains(manifest, encodeCBOR(nil, want)[1:]) {
			t.Errorf("%v is gone", want)
		}
	}
	if r.f.ManifestAt%minAlignment != 0 || r.f.ManifestAt%8192 == 0 &&
		v2.AlignmentOf(&r.f) > 4096 {
		t.Error("another alignment than before:", v2.AlignmentOf(&r.f))
	}
}

// Bytes that are stored already are not stored again, and names are taken.
func TestAppendSharesAndRefuses(t *testing.T) {
	x := noise(1<<20, 1)
	file := write(t, &WriterOptions{Version: "2"},
		adding(t, tensor.New("a", tensor.Shape{1 << 20}, x)))
	b := appended(t, file, nil, func(w *Writer) {
		if err := w.Add(tensor.New("a", tensor.Shape{1}, []byte{1})); !errors.Is(err,
			tensor.ErrDuplicate) {
			t.Error(err)
		}
		if err := w.TensorAttributes("a", map[string]any{"k": 1}); !errors.Is(err,
			errors.ErrUnsupported) {
			t.Error(err)
		}
		adding(t, tensor.New("b", tensor.Shape{1 << 20}, x))(w)
	})
	if len(b)-len(file) > 1<<18 {
		t.Errorf("%d bytes were appended", len(b)-len(file))
	}
	dataShard := made{raw: []byte{}, footer: func(f []byte) { clear(f[:24]) }}.file()
	name := filepath.Join(t.TempDir(), "shard.zt")
	if err := os.WriteFile(name, dataShard, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Append(name, nil); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}

// An append that was given up leaves the file as it was; one that was cut off
// anywhere leaves one that Recover makes so.
func TestInterruptedAppendsAreRecovered(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "x.zt")
	file := write(t, &WriterOptions{Version: "2", Alignment: 4096},
		adding(t, tensor.New("w", tensor.Shape{4}, []float32{1, 2, 3, 4})))
	put := func(b []byte) {
		t.Helper()
		if err := os.WriteFile(name, b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	same := func(what string, want []byte) {
		t.Helper()
		if b, err := os.ReadFile(name); err != nil || !bytes.Equal(b, want) {
			t.Errorf("%s: %d bytes, %v", what, len(b), err)
		}
	}
	put(file)
	w, err := Append(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	adding(t, tensor.New("big", tensor.Shape{3 << 20}, noise(3<<20, 2)))(w)
	w.Abort()
	same("aborted", file)

	// The last blob looks like the end of a file, and is none.
	trap := append(bytes.Repeat([]byte(v2.Magic2), 20), file[len(file)-footerSize:]...)
	trap[len(trap)-footerSize+16] ^= 1 // the hash
	whole := appended(t, file, nil,
		adding(t, tensor.New("trap", tensor.Shape{int64(len(trap))}, trap)))
	for n := len(file) + 1; n < len(whole); n += 97 {
		put(whole[:n])
		if cut, err := Recover(name); err != nil || cut != int64(n-len(file)) {
			t.Fatalf("%d of %d bytes: %d, %v", n, len(whole), cut, err)
		}
		same("recovered", file)
	}
	put(whole)
	if cut, err := Recover(name); cut != 0 || err != nil {
		t.Error(cut, err)
	}
	same("whole", whole)
	put(append(bytes.Clone(file[:len(file)-20]), make([]byte, 100)...)) // nothing is complete
	if _, err := Recover(name); err == nil {
		t.Error("recovered from nothing")
	}
	put([]byte("no zTensor file, but long enough to be one: 0123456789"))
	if _, err := Recover(name); err == nil {
		t.Error("recovered what is no file")
	}
}
