package onnx

import (
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/internal/readtest/lifecycle"
)

func TestSourcesMayFailChangeAndClose(t *testing.T) {
	lifecycle.Test(t, api, "../testdata/onnx/matmul.onnx", "../testdata/onnx/raw.onnx",
		"../testdata/onnx/pieces.onnx", "../testdata/onnx/if.onnx")
}

// Everything that a Reader leads to may be used by several goroutines at once.
func TestAccessorsAreSafeForConcurrentUse(t *testing.T) {
	for _, name := range []string{"if", "function", "words", "external", "constants"} {
		r, err := Open("../testdata/onnx/"+name+".onnx", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		called := readtest.Accessors(t, r, "w", "x")
		for _, m := range []string{"*onnx.Reader.Model", "*onnx.Reader.Warnings",
			"*onnx.Model.Graphs", "*onnx.Graph.Initializers"} {
			if !called[m] {
				t.Errorf("%s was not called", m)
			}
		}
	}
}
