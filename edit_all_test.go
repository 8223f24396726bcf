package tensorfile_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/bridge/gguf"
	"github.com/tensorfile/tensorfile/ptd"
)

// Every format that is edited is edited by the same calls; blobs are renamed in all of
// them.
func TestEditOfEveryFormat(t *testing.T) {
	for name, blob := range map[string]string{
		"ztensor/crate-1.2.3-digests.zt": "", "ptd/et-1.5.1-blobs.ptd": "much",
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
