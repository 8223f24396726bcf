package ztensor

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

// An append to a file makes the file that would have been written at
// once, as long as the old manifest ends no alignment early.
func TestAppendedIsAsWrittenAtOnce(t *testing.T) {
	for _, o := range variants() {
		ts := samples()
		first, second := ts[:10], ts[10:]
		name := store(t, write(t, &o,
			func(w *Writer) { w.AddAll(t.Context(), tensor.Of(first...)) }))
		w, err := Append(name, &WriterOptions{Digest: o.Digest, Level: o.Level})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Add(first[0]); !errors.Is(err, tensor.ErrDuplicate) {
			t.Errorf("a name of the old revision: %v", err)
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
		if err := remove(name, gone...); err != nil {
			t.Fatal(err)
		}
		ts = slices.DeleteFunc(ts,
			func(ten *tensor.Tensor) bool { return slices.Contains(gone, ten.Name) })
		want := write(t, &o, func(w *Writer) { w.AddAll(t.Context(), tensor.Of(ts...)) })
		if got := load(t, name); !bytes.Equal(got, want) {
			t.Errorf("%+v: %d bytes, never written %d", o, len(got), len(want))
		}
		if err := remove(name, "f32"); !errors.Is(err, tensor.ErrNoTensor) {
			t.Errorf("a name that is not there: %v", err)
		}
	}
}

// A revision has what was not changed, under its new name and with its digest and
// attributes, and the rest as it was asked for.
func TestRevisionsKeepWhatWasNotChanged(t *testing.T) {
	options := []WriterOptions{{Version: "2"}, {Version: "2", Level: 3},
		{Version: "2", Canonical: true}}
	for _, o := range append(options, variants()...) {
		ts := samples()
		if o.Version == "2" {
			ts = model()
		}
		b := write(t, &o, func(w *Writer) {
			if err := w.AddAll(t.Context(), tensor.Of(ts...)); err != nil {
				t.Fatal(err)
			}
		})
		r, err := OpenBytes(b, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.Len() < 5 {
			t.Fatal(r.Len())
		}
		gone, first, second, changed := ts[0].Name, ts[1].Name, ts[2].Name, ts[3].Name
		e := NewEdit(r)
		for _, err := range []error{
			e.Remove(gone), e.Rename(first, second), e.Rename(second, first),
			e.Replace(changed, tensor.New("", tensor.Shape{2}, []int32{7, 8})),
			e.SetAttribute("new", "text"), e.RemoveAttribute("license"),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := e.Remove("none"); !errors.Is(err, tensor.ErrNoTensor) {
			t.Error(err)
		}
		var out bytes.Buffer
		if err := e.Write(t.Context(), &out, nil); err != nil {
			t.Fatalf("%+v: %v", o, err)
		}
		back, err := OpenBytes(out.Bytes(), &ReaderOptions{Strict: true})
		if err != nil {
			t.Fatalf("%+v: %v", o, err)
		}
		if report, err := back.Verify(t.Context(),
			&tensor.VerifyOptions{Strict: true}); err != nil {
			t.Errorf("%+v: %v", o, report.Findings)
		}
		if back.Len() != r.Len()-1 || back.Tensor(gone) != nil || back.Version() != r.Version() {
			t.Errorf("%+v: %d tensors of %d", o, back.Len(), r.Len())
		}
		for have := range back.Tensors() {
			name := have.Name
			switch name {
			case first:
				name = second
			case second:
				name = first
			case changed:
				if v, err := tensor.Load[int32](have); err != nil || v[1] != 8 {
					t.Errorf("%+v: %v, %v", o, v, err)
				}
				continue
			}
			was := r.Tensor(name)
			same := func(a, b tensor.Blob) {
				x, err1 := a.ReadAll()
				y, err2 := b.ReadAll()
				s1, _ := a.Stored()
				s2, _ := b.Stored()
				if !bytes.Equal(x, y) || err1 != nil || err2 != nil || s1.Digest != s2.Digest ||
					s1.Encoding != s2.Encoding || s1.Size != s2.Size {
					t.Errorf("%+v: %s became %s: %+v %v, %+v %v", o, name, have.Name, s1, err1, s2,
						err2)
				}
			}
			if have.DType != was.DType || !have.Shape.Equal(was.Shape) ||
				have.Scheme != was.Scheme || len(have.Parts) != len(was.Parts) {
				t.Errorf("%+v: %s is another", o, name)
				continue
			}
			same(have.Data, was.Data)
			for i := range have.Parts {
				same(have.Parts[i].Data, was.Parts[i].Data)
			}
		}
		attributes := jsonOf(t, back.AttributeValues())
		if !strings.Contains(attributes, `"new":"text"`) ||
			strings.Contains(attributes, "license") {
			t.Errorf("%+v: %s", o, attributes)
		}
		taken := NewEdit(r)
		taken.Rename(first, second)
		if err := taken.Write(t.Context(), io.Discard, nil); !errors.Is(err, tensor.ErrDuplicate) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// Keys of a later minor version survive a new revision, and so do attributes.
func TestNewRevisionsKeepWhatTheyDoNotKnow(t *testing.T) {
	data := file10(map[string]any{
		"version": "1.0", "later": map[string]any{"deep": []any{1, 2.5}},
		"attributes": map[string]any{"n": "7", "t": "x"},
		"tensors": map[string]any{
			"a": tensor10("uint8", "dense", []any{4},
				map[string]any{"data": component10(64, 4)}, "soon", true),
			"b": tensor10("uint8", "dense", []any{2},
				map[string]any{"data": component10(128, 2, "new", "field")}),
		},
	}, 192)
	name := store(t, data)
	w, err := Append(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Add(tensor.New("c", tensor.Shape{1}, []uint8{9})),
		w.Close()); err != nil {
		t.Fatal(err)
	}
	if err := remove(name, "a"); err != nil {
		t.Fatal(err)
	}
	if err := replace(name, tensor.New("c", tensor.Shape{1}, []uint8{8})); err != nil {
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
	if _, err := r.Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if v, err := tensor.Load[uint8](r.Tensor("c")); err != nil || v[0] != 8 {
		t.Error(v, err)
	}
	if got := jsonOf(t, r.AttributeValues()); got != `{"n":"7","t":"x"}` {
		t.Error(got)
	}
}

func TestVersionsThatAreOnlyReadHaveNoNewRevision(t *testing.T) {
	for _, version := range []string{"0.1", "1.1", "1.2"} {
		old := goldens(t, version)[0]
		name := store(t, old.data)
		_, err := Append(name, nil)
		if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "convert") {
			t.Errorf("%s: Append: %v", version, err)
		}
		r, err := OpenBytes(old.data, nil)
		if err != nil {
			t.Fatal(err)
		}
		for what, write := range map[string]func(e *Edit) error{
			"Write":     func(e *Edit) error { return e.Write(t.Context(), io.Discard, nil) },
			"WriteFile": func(e *Edit) error { return e.WriteFile(t.Context(), name, nil) },
		} {
			if err := write(NewEdit(r)); !errors.Is(err, errors.ErrUnsupported) ||
				!strings.Contains(err.Error(), "convert") {
				t.Errorf("%s: %s: %v", version, what, err)
			}
		}
		if !bytes.Equal(load(t, name), old.data) {
			t.Errorf("%s: the file has changed", version)
		}
	}
	if _, err := Append(filepath.Join(t.TempDir(), "none"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	name := store(t, write(t, &WriterOptions{Version: "1.0"}, func(w *Writer) {}))
	if _, err := Append(name, &WriterOptions{Version: "2"}); !errors.Is(err,
		errors.ErrUnsupported) {
		t.Error(err)
	}
	shared := file10(manifest10(map[string]any{
		"a": tensor10("uint8", "dense", []any{4}, map[string]any{"data": component10(64, 4)}),
		"b": tensor10("int8", "dense", []any{4}, map[string]any{"data": component10(64, 4)}),
	}), 128)
	name = store(t, shared)
	if err := replace(name, tensor.New("a", tensor.Shape{4}, []uint8{1, 2, 3, 4})); err != nil {
		t.Error(err)
	}
	if err := remove(name, "a"); err != nil {
		t.Error(err)
	}
}

// A component without bytes that comes last is not behind the manifest.
func TestEditKeepsATensorWithoutBytesAtTheEnd(t *testing.T) {
	ctx := t.Context()
	for _, o := range variants() {
		name := store(t, write(t, &o, func(w *Writer) {
			w.AddAll(ctx, tensor.Of(
				tensor.New("a", tensor.Shape{3}, []uint8{1, 2, 3}),
				tensor.New("empty", tensor.Shape{0}, []float32{})))
		}))
		r, err := Open(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		e := NewEdit(r)
		out := filepath.Join(t.TempDir(), "out.zt")
		if err := errors.Join(e.SetAttribute("k", "v"), e.WriteFile(ctx, out, nil),
			r.Close()); err != nil {
			t.Fatalf("%+v: %v", o, err)
		}
		edited, err := Open(out, nil)
		if err != nil {
			t.Fatal(err)
		}
		report, err := edited.Verify(ctx, nil)
		if err != nil || len(report.Findings) != 0 {
			t.Errorf("%+v: %v, %v", o, report.Findings, err)
		}
		edited.Close()
	}
}

// Shards are next to their root: a revision elsewhere would not find them.
func TestEditOfARootOfShardsStaysInItsDirectory(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	root := filepath.Join(dir, "m.zt")
	_, err := WriteShards(ctx, root, tensor.Of(
		tensor.New("a", tensor.Shape{100}, make([]float32, 100)),
		tensor.New("b", tensor.Shape{100}, make([]float32, 100))), &ShardOptions{MaxSize: 400})
	if err != nil {
		t.Fatal(err)
	}
	r, err := Open(root, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	e := NewEdit(r)
	if err := e.SetAttribute("k", "v"); err != nil {
		t.Fatal(err)
	}
	elsewhere := filepath.Join(t.TempDir(), "m.zt")
	if err := e.WriteFile(ctx, elsewhere, nil); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("elsewhere: %v", err)
	}
	if _, err := os.Stat(elsewhere); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a root without its shards was written")
	}
	beside := filepath.Join(dir, "edited.zt")
	if err := e.WriteFile(ctx, beside, nil); err != nil {
		t.Fatal(err)
	}
	edited, err := Open(beside, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer edited.Close()
	if _, err := edited.Verify(ctx, nil); err != nil {
		t.Error(err)
	}
	if err := errors.Join(e.Remove("a"), e.Remove("b"),
		e.WriteFile(ctx, elsewhere, nil)); err != nil {
		t.Errorf("a revision without tensors in shards: %v", err)
	}
}
