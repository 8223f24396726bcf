package repotest

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/tensor"
)

// A replacement of a tensor is stored as it was then, or nothing is: memory that changed
// is an error, unless it was replaced again or removed.
func TestReplacementsThatChangeAreAnError(t *testing.T) {
	for _, name := range []string{"ztensor/crate-1.0.0-digests.zt",
		"ztensor/crate-2.1.1-dtypes.zt", "ptd/et-1.5.1-blobs.ptd", "pte/export-1.5.1-methods.pte",
		"rten/convert-0.22.0-basic.rten", "primitiv/model-nested.primitiv",
		"safetensors/dtypes.safetensors", "npy/stored.npz", "gguf/many.gguf"} {
		f, err := tensorfile.Open("testdata/"+name, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		replaced := false
		for x := range f.Tensors() {
			e, err := tensorfile.NewEdit(f)
			if err != nil {
				t.Fatal(err)
			}
			edit := e.Sys().(interface {
				Replace(name string, t *tensor.Tensor) error
				Remove(name string) error
			})
			buf, err := x.Data.ReadAll()
			if err != nil || len(buf) == 0 || !x.Dense() {
				continue
			}
			y := *x
			y.Data = tensor.BlobOf(buf)
			write := func() error { return e.Write(t.Context(), io.Discard) }
			if edit.Replace(x.Name, &y) != nil || write() != nil {
				continue // its bytes are shared with others
			}
			replaced = true
			buf[0] ^= 1
			if err := write(); !errors.Is(err, tensor.ErrChecksum) ||
				!strings.Contains(err.Error(), "its memory has changed") {
				t.Errorf("%s: %s: %v", name, x.Name, err)
			}
			if err := errors.Join(edit.Replace(x.Name, &y), write()); err != nil {
				t.Errorf("%s: %s: replaced again: %v", name, x.Name, err)
			}
			buf[0] ^= 1
			if edit.Remove(x.Name) == nil && errors.Is(write(), tensor.ErrChecksum) {
				t.Errorf("%s: %s: removed: %v", name, x.Name, write())
			}
		}
		if !replaced {
			t.Errorf("%s: nothing was replaced", name)
		}
	}
}

// Every format that is edited is edited by the same calls; blobs are renamed in all of
// them.
func TestEveryFormatIsEditedByTheSameCalls(t *testing.T) {
	for name, blob := range map[string]string{
		"ztensor/crate-1.0.0-digests.zt": "", "ptd/et-1.5.1-blobs.ptd": "much",
		"pte/export-1.5.1-methods.pte":   "",
		"rten/convert-0.22.0-basic.rten": "", "primitiv/model-nested.primitiv": "",
		"safetensors/dtypes.safetensors": "",
		"npy/stored.npz":                 "", "gguf/many.gguf": "",
	} {
		f, err := tensorfile.Open("testdata/"+name, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		e, err := tensorfile.NewEdit(f)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		old := ""
		for x := range f.Tensors() {
			old = x.Name
		}
		err = e.Rename(old, "renamed")
		if blob != "" {
			err = errors.Join(err, e.RenameBlob(blob, "other"))
		}
		var out bytes.Buffer
		if err == nil {
			err = e.Write(t.Context(), &out)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		g, err := tensorfile.OpenBytes(out.Bytes(), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if g.Tensor("renamed") == nil || g.Tensor(old) != nil || g.Len() != f.Len() ||
			g.Format() != f.Format() {
			t.Errorf("%s: %s was not renamed", name, old)
		}
		hasBlob := blob == ""
		for n := range g.Blobs() {
			hasBlob = hasBlob || n == "other"
		}
		if !hasBlob {
			t.Errorf("%s: %s was not renamed", name, blob)
		}
		switch e.Sys().(type) {
		case *ptd.Edit:
			if f.Format() != tensorfile.PTD {
				t.Error(name)
			}
		case *gguf.Edit:
			if f.Format() != tensorfile.GGUF {
				t.Error(name)
			}
		}
	}
	f, err := tensorfile.Open("testdata/npy/column.npy", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := tensorfile.NewEdit(f); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}
