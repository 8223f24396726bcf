package repotest

import (
	"os"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/onnx"
	"github.com/tensorfile/tensorfile/tensor"
)

// Elements in another file are found by name, in an fs.FS, and through Options.Companion.
func TestElementsInAnotherFileAreFound(t *testing.T) {
	files := os.DirFS("testdata/onnx")
	for what, open := range map[string]func() (*tensorfile.File, error){
		"by name": func() (*tensorfile.File, error) {
			return tensorfile.Open("testdata/onnx/external.onnx", nil)
		},
		"in a file system": func() (*tensorfile.File, error) {
			return tensorfile.OpenFS(files, "external.onnx", nil)
		},
		"without mapping": func() (*tensorfile.File, error) {
			return tensorfile.OpenFS(files, "external.onnx", &tensorfile.Options{NoMap: true})
		},
	} {
		f, err := open()
		if err != nil {
			t.Fatal(what, err)
		}
		if _, ok := f.Sys().(*onnx.Reader); !ok || f.Format() != tensorfile.ONNX {
			t.Errorf("%s: %T, %v", what, f.Sys(), f.Format())
		}
		for x := range f.Tensors() {
			if _, err := tensor.Convert[float64](x); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		if report, err := f.Verify(t.Context(), nil); err != nil {
			t.Errorf("%s: %v", what, report.Findings)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	b, err := os.ReadFile("testdata/onnx/external.onnx")
	if err != nil {
		t.Fatal(err)
	}
	f, err := tensorfile.OpenBytes(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Tensor("used").Data.ReadAll(); err == nil || len(f.Warnings()) != 1 {
		t.Errorf("without a way to other files: %v, warnings %v", err, f.Warnings())
	}
}
