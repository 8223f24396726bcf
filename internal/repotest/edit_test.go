package repotest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/npz"
	"github.com/tensorfile/tensorfile/primitiv"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/pte"
	"github.com/tensorfile/tensorfile/rten"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// An editor is what the Edits of all formats have in common; O are the options of the
// format's Writer.
type editor[O interface{}] interface {
	Rename(old, new string) error
	Remove(name string) error
	Replace(name string, t *tensor.Tensor) error
	SetAttribute(key, value string) error
	RemoveAttribute(key string) error
	Write(ctx context.Context, w io.Writer, opts *O) error
	WriteFile(ctx context.Context, name string, opts *O) error
}

// TestEditsHaveOneVocabulary holds the Edits to one vocabulary.
func TestEditsHaveOneVocabulary(t *testing.T) {
	dir := t.TempDir()
	made := func(name string, f tensorfile.Format, version string) string {
		name = filepath.Join(dir, name)
		w, err := tensorfile.Create(name, f, &tensorfile.WriterOptions{Version: version})
		if err == nil {
			a, b := tensor.New("a", tensor.Shape{2}, []float32{1, 2}),
				tensor.New("b", tensor.Shape{3}, []float32{3, 4, 5})
			err = errors.Join(w.Add(a), w.Add(b), w.Close())
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return name
	}
	for name, first := range map[string]string{
		made("m.ptd", tensorfile.PTD, ""): "a", made("m.rten", tensorfile.RTen, ""): "a",
		made("m.primitiv", tensorfile.Primitiv, ""):       "a",
		made("m.safetensors", tensorfile.Safetensors, ""): "a",
		made("m.npz", tensorfile.NPZ, ""):                 "a",
		made("m.gguf", tensorfile.GGUF, ""):               "a",
		made("v1.zt", tensorfile.ZTensor, "1.0"):          "a",
		made("v2.zt", tensorfile.ZTensor, "2"):            "a",
		"testdata/pte/export-1.5.1-methods.pte":           "decode/0",
	} {
		t.Run(filepath.Base(name), func(t *testing.T) {
			f, err := tensorfile.Open(name, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			second := "b"
			if first != "a" {
				second = "decode/1"
			}
			switch r := f.Sys().(type) {
			case *ptd.Reader:
				testEdit(t, f, first, second,
					func() editor[ptd.WriterOptions] { return ptd.NewEdit(r) })
			case *pte.Reader:
				testEdit(t, f, first, second,
					func() editor[pte.WriterOptions] { return pte.NewEdit(r) })
			case *rten.Reader:
				testEdit(t, f, first, second,
					func() editor[rten.WriterOptions] { return rten.NewEdit(r) })
			case *primitiv.Reader:
				testEdit(t, f, first, second,
					func() editor[primitiv.WriterOptions] { return primitiv.NewEdit(r) })
			case *safetensors.Reader:
				testEdit(t, f, first, second,
					func() editor[safetensors.WriterOptions] { return safetensors.NewEdit(r) })
			case *gguf.Reader:
				testEdit(t, f, first, second,
					func() editor[gguf.WriterOptions] { return gguf.NewEdit(r) })
			case *npz.Reader:
				testEdit(t, f, first, second,
					func() editor[npz.WriterOptions] { return npz.NewEdit(r) })
			case *ztensor.Reader:
				testEdit(t, f, first, second,
					func() editor[ztensor.WriterOptions] { return ztensor.NewEdit(r) })
			default:
				t.Fatalf("%T has no Edit here", r)
			}
		})
	}
}

func testEdit[O interface{}](t *testing.T, f *tensorfile.File, a, b string,
	edit func() editor[O]) {
	const absent = "no such tensor"
	for what, err := range map[string]error{
		"Rename": edit().Rename(absent, "x"), "Remove": edit().Remove(absent),
		"Replace": edit().Replace(absent, tensor.New("", tensor.Shape{1}, []float32{1})),
	} {
		if !errors.Is(err, tensor.ErrNoTensor) {
			t.Errorf("%s of an absent tensor: %v", what, err)
		}
	}
	if err := edit().RemoveAttribute("absent"); err != nil &&
		!errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("RemoveAttribute of an absent one: %v", err)
	}
	e := edit()
	if err := e.Rename(a, b); err != nil {
		t.Fatal(err)
	}
	if err := e.Write(t.Context(), io.Discard, nil); !errors.Is(err, tensor.ErrDuplicate) {
		t.Errorf("a name that is taken: %v", err)
	}
	e = edit()
	if err := errors.Join(e.Rename(a, b), e.Rename(b, a)); err != nil {
		t.Fatal(err)
	}
	var out, again bytes.Buffer
	if err := errors.Join(e.Write(t.Context(), &out, nil),
		e.Write(t.Context(), &again, nil)); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "out")
	if err := e.WriteFile(t.Context(), name, nil); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(name)
	if err != nil || !bytes.Equal(out.Bytes(), again.Bytes()) || !bytes.Equal(out.Bytes(), file) {
		t.Errorf("Write, Write again and WriteFile give %d, %d and %d bytes: %v", out.Len(),
			again.Len(), len(file), err)
	}
	swapped, err := tensorfile.OpenBytes(out.Bytes(), &tensorfile.Options{Format: f.Format()})
	if err != nil {
		t.Fatal(err)
	}
	for _, names := range [][2]string{{a, b}, {b, a}} {
		if want, got := content(t, f.Tensor(names[0])),
			content(t, swapped.Tensor(names[1])); want != got {
			t.Errorf("%s is %s, not the %s that %s was", names[1], got, want, names[0])
		}
	}
}

func content(t *testing.T, x *tensor.Tensor) string {
	t.Helper()
	if x == nil {
		return "absent"
	}
	b, err := x.Data.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%v %v %x", x.DType, x.Shape, b)
}
