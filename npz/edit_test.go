package npz

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"testing"

	"github.com/tensorfile/tensorfile/internal/numpy"
	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/tensor"
)

// contents lists what an archive holds, by name.
func contents(t *testing.T, r *Reader) map[string]string {
	t.Helper()
	all := map[string]string{}
	for x := range r.Tensors() {
		b, err := x.Data.ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		st, _ := x.Data.Stored()
		all[x.Name] = fmt.Sprint(x.DType, x.Shape, x.Order, st.Encoding, st.Digest, st.Type, b)
	}
	for name, x := range r.Blobs() {
		b, err := x.ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		all["blob "+name] = string(b)
	}
	return all
}

func edited(t *testing.T, r *Reader, change func(e *Edit) error) *Reader {
	t.Helper()
	e := NewEdit(r)
	if err := change(e); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "e.npz")
	if err := e.WriteFile(t.Context(), name, nil); err != nil {
		t.Fatal(err)
	}
	out, err := Open(name, &ReaderOptions{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Close() })
	if _, err := out.Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
	for x := range out.Tensors() {
		if st, _ := x.Data.Stored(); st.Encoding == "raw" && st.Offset%numpy.Alignment != 0 {
			t.Errorf("%s begins at %d: not aligned", x.Name, st.Offset)
		}
	}
	return out
}

func TestEditCopiesWhatItDoesNotChange(t *testing.T) {
	note := archive(t, entry{"note \u00e9.txt", []byte("text"), nil},
		entry{"w.npy", golden(t, "le-f4.npy"), nil})
	for name, b := range map[string][]byte{
		"stored": golden(t, "stored.npz"), "deflated": golden(t, "deflated.npz"),
		"words": golden(t, "words.npz"),
		"none":  golden(t, "none.npz"), "a blob": note,
	} {
		r, err := OpenBytes(b, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := contents(t, r)
		got := contents(t, edited(t, r, func(*Edit) error { return nil }))
		if len(got) != len(want) {
			t.Errorf("%s: %d members, want %d", name, len(got), len(want))
		}
		for k, v := range want {
			if got[k] != v {
				t.Errorf("%s: %s has changed", name, k)
			}
		}
	}
}

func TestEditRenamesRemovesAndReplaces(t *testing.T) {
	r, err := OpenBytes(golden(t, "deflated.npz"), nil)
	if err != nil {
		t.Fatal(err)
	}
	before := contents(t, r)
	out := edited(t, r, func(e *Edit) error {
		return errors.Join(e.Rename("le-f4", "be-u2"), e.Rename("be-u2", "le-f4"),
			e.Remove("scalar"),
			e.Rename("rank9", "\u4e2d"),
			e.Replace("rank9", tensor.New("", tensor.Shape{2}, []uint8{1, 2})))
	})
	after := contents(t, out)
	if after["be-u2"] != before["le-f4"] || after["le-f4"] != before["be-u2"] {
		t.Error("not swapped")
	}
	if x := out.Tensor("\u4e2d"); x == nil || !x.Shape.Equal(tensor.Shape{2}) {
		t.Errorf("replaced: %v", x)
	} else if st, _ := x.Data.Stored(); st.Encoding != "deflate" {
		t.Errorf("replaced: %v", st)
	}
	if out.Tensor("scalar") != nil || out.Tensor("rank9") != nil || out.Len() != r.Len()-1 {
		t.Errorf("%d arrays of %d", out.Len(), r.Len())
	}
}

func TestEditRenamesAndRemovesBlobs(t *testing.T) {
	r, err := OpenBytes(archive(t, entry{"a", []byte("1"), nil},
		entry{"a.npy", golden(t, "le-f4.npy"), nil}, entry{"b", []byte("2"), nil},
		entry{"c", []byte("3"), nil}), nil)
	if err != nil {
		t.Fatal(err)
	}
	out := contents(t, edited(t, r, func(e *Edit) error {
		return errors.Join(e.RenameBlob("a", "b"), e.RenameBlob("b", "a"), e.RemoveBlob("c"))
	}))
	if len(out) != 3 || out["blob a"] != "2" || out["blob b"] != "1" {
		t.Errorf("%v", out)
	}
	e := NewEdit(r)
	if err := errors.Join(e.RenameBlob("a", "x.npy"), e.Write(t.Context(), io.Discard,
		nil)); !errors.Is(err,
		errors.ErrUnsupported) {
		t.Errorf("the name of an array: %v", err)
	}
	for _, err := range []error{NewEdit(r).RenameBlob("x", "y"), NewEdit(r).RemoveBlob("a.npy")} {
		if !errors.Is(err, tensor.ErrNoTensor) {
			t.Error(err)
		}
	}
}

func TestEditRefusesWhatAnArchiveCannotHave(t *testing.T) {
	r, err := OpenBytes(archive(t, entry{"a.npy", golden(t, "le-f4.npy"), nil},
		entry{"b.npy", golden(t, "le-u1.npy"), nil}), nil)
	if err != nil {
		t.Fatal(err)
	}
	e := NewEdit(r)
	for name, c := range map[string]struct{ err, want error }{
		"rename":  {e.Rename("x", "y"), tensor.ErrNoTensor},
		"remove":  {e.Remove("x"), tensor.ErrNoTensor},
		"replace": {e.Replace("x", tensor.New("", nil, []int8{1})), tensor.ErrNoTensor},
		"bfloat16": {e.Replace("a", tensor.New("", nil, []tensor.BFloat16{1})),
			errors.ErrUnsupported},
		"set attribute":    {e.SetAttribute("k", "v"), errors.ErrUnsupported},
		"remove attribute": {e.RemoveAttribute("k"), errors.ErrUnsupported},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", name, c.err, c.want)
		}
	}
	for to, want := range map[string]error{"b": tensor.ErrDuplicate, "\xff": errors.ErrUnsupported,
		"a\x00": errors.ErrUnsupported} {
		e := NewEdit(r)
		if err := e.Rename("a", to); err != nil {
			t.Fatal(err)
		}
		if err := e.Write(t.Context(), io.Discard, nil); !errors.Is(err, want) {
			t.Errorf("to %q: %v, want %v", to, err, want)
		}
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := NewEdit(r).Write(cancelled, io.Discard, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := readtest.FailedWrites(func(w io.Writer) error {
		return NewEdit(r).Write(t.Context(), w, nil)
	}); err != nil {
		t.Error(err)
	}
	// A copy keeps a wrong CRC wrong.
	bad := archive(t, entry{"a.npy", golden(t, "le-f4.npy"),
		func(h *zip.FileHeader) { h.CRC32++ }})
	if r, err = OpenBytes(bad, nil); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := NewEdit(r).Write(t.Context(), &out, nil); err != nil {
		t.Fatal(err)
	}
	if r, err = OpenBytes(out.Bytes(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Verify(t.Context(), nil); !errors.Is(err, tensor.ErrChecksum) {
		t.Errorf("a wrong CRC is copied: %v", err)
	}
}
