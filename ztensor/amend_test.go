package ztensor

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

// store writes data to a file of its own.
func store(t testing.TB, data []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "x.zt")
	if err := os.WriteFile(name, data, 0o666); err != nil {
		t.Fatal(err)
	}
	return name
}

func load(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// What is appended to a file makes the file that would have been written at
// once, as long as the old manifest ends no alignment early.
func TestAppendedIsAsWrittenAtOnce(t *testing.T) {
	for _, o := range variants() {
		ts := samples()
		first, second := ts[:10], ts[10:]
		name := store(t, write(t, &o, func(w *Writer) { w.AddAll(t.Context(), tensor.Of(first...)) }))
		w, err := Append(name, &WriterOptions{Digest: o.Digest, Level: o.Level})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Add(first[0]); !errors.Is(err, tensor.ErrDuplicate) {
			t.Errorf("a name of the old edition: %v", err)
		}
		if err := errors.Join(w.AddAll(t.Context(), tensor.Of(second...)), w.Close()); err != nil {
			t.Fatal(err)
		}
		want := write(t, &o, func(w *Writer) { w.AddAll(t.Context(), tensor.Of(ts...)) })
		if got := load(t, name); !bytes.Equal(got, want) {
			t.Errorf("%+v: %d bytes, at once %d", o, len(got), len(want))
		}
	}
}

func TestRemovedIsAsNeverWritten(t *testing.T) {
	for _, o := range variants() {
		ts := samples()
		name := store(t, write(t, &o, func(w *Writer) { w.AddAll(t.Context(), tensor.Of(ts...)) }))
		gone := []string{"f32", "csr", "empty", "packed", "f16"}
		if err := Remove(name, name, gone...); err != nil {
			t.Fatal(err)
		}
		ts = slices.DeleteFunc(ts, func(ten *tensor.Tensor) bool { return slices.Contains(gone, ten.Name) })
		want := write(t, &o, func(w *Writer) { w.AddAll(t.Context(), tensor.Of(ts...)) })
		if got := load(t, name); !bytes.Equal(got, want) {
			t.Errorf("%+v: %d bytes, never written %d", o, len(got), len(want))
		}
		if err := Remove(name, name, "f32"); !errors.Is(err, tensor.ErrNoTensor) {
			t.Errorf("a name that is not there: %v", err)
		}
	}
}

func TestReplacedIsAsWrittenSo(t *testing.T) {
	for _, o := range variants() {
		ts := samples()
		name := store(t, write(t, &o, func(w *Writer) { w.AddAll(t.Context(), tensor.Of(ts...)) }))
		other := tensor.New("f32", tensor.Shape{2, 3}, []float32{6, 5, 4, 3, 2, 1})
		err := Replace(name, "f32", other.Data)
		if o.Level > 0 {
			if !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("%+v: %v", o, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		ts[0] = other
		want := write(t, &o, func(w *Writer) { w.AddAll(t.Context(), tensor.Of(ts...)) })
		if got := load(t, name); !bytes.Equal(got, want) {
			t.Errorf("%+v: not the same", o)
		}
		for what, c := range map[string]struct {
			name string
			blob tensor.Blob
			want error
		}{
			"no such tensor":  {"x", other.Data, tensor.ErrNoTensor},
			"not dense":       {"csr", other.Data, errors.ErrUnsupported},
			"another length":  {"f32", tensor.BlobOf(make([]byte, 23)), tensor.ErrMalformed},
			"bools that none": {"bool", tensor.BlobOf([]byte{0, 1, 2, 0}), tensor.ErrMalformed},
		} {
			if err := Replace(name, c.name, c.blob); !errors.Is(err, c.want) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if got := load(t, name); !bytes.Equal(got, want) {
			t.Error("a replacement that failed has touched the file")
		}
	}
}

// Keys of a later minor version survive a new edition, and so do attributes.
func TestNewEditionsKeepWhatTheyDoNotKnow(t *testing.T) {
	data := file12(map[string]any{
		"version": "1.9.0", "later": map[string]any{"deep": []any{1, 2.5}}, "attributes": map[string]any{"n": 7, "t": "x"},
		"objects": map[string]any{
			"a": object12("dense", []any{4}, map[string]any{"data": component12("u8", 64, 4)}, "attributes", map[string]any{"k": []byte{1}}, "soon", true),
			"b": object12("dense", []any{2}, map[string]any{"data": component12("u8", 128, 2, "new", "field")}),
		},
	}, 192)
	name := store(t, data)
	w, err := Append(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Add(tensor.New("c", tensor.Shape{1}, []uint8{9})), w.Close()); err != nil {
		t.Fatal(err)
	}
	if err := Remove(name, name, "a"); err != nil {
		t.Fatal(err)
	}
	if err := Replace(name, "c", tensor.BlobOf([]byte{8})); err != nil {
		t.Fatal(err)
	}
	got := load(t, name)
	for _, want := range []string{"later", "deep", "field", "new"} {
		if !bytes.Contains(got, []byte(want)) {
			t.Errorf("%q is gone", want)
		}
	}
	r, err := OpenBytes(got, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if v, err := tensor.Load[uint8](r.Tensor("c")); err != nil || v[0] != 8 {
		t.Error(v, err)
	}
	if got := jsonOf(t, r.AttributeValues()); got != `{"n":7,"t":"x"}` {
		t.Error(got)
	}
}

func TestNewEditionsOfWhatCannotHaveOne(t *testing.T) {
	old := goldens(t, "0.1")[0]
	name := store(t, old.data)
	if _, err := Append(name, nil); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	if _, err := Append(filepath.Join(t.TempDir(), "none"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	name = store(t, write(t, &WriterOptions{Version: "1.0"}, func(w *Writer) {}))
	if _, err := Append(name, &WriterOptions{Version: "1.2"}); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	shared := file12(map[string]any{"version": "1.2.0", "objects": map[string]any{
		"a": object12("dense", []any{4}, map[string]any{"data": component12("u8", 64, 4)}),
		"b": object12("dense", []any{4}, map[string]any{"data": component12("i8", 64, 4)}),
	}}, 128)
	name = store(t, shared)
	if err := Replace(name, "a", tensor.BlobOf(make([]byte, 4))); !errors.Is(err, errors.ErrUnsupported) {
		t.Error("the bytes of two tensors were replaced:", err)
	}
	if err := Remove(name, name, "a"); err != nil {
		t.Error(err)
	}
}
