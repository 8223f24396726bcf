package pte

import (
	"io"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/internal/readtest/lifecycle"
)

var api = readtest.API[*Reader]{
	Open: func(name string, noMap bool) (*Reader, error) {
		return Open(name, &ReaderOptions{NoMap: noMap})
	},
	OpenBytes: func(b []byte) (*Reader, error) { return OpenBytes(b, nil) },
	NewReader: func(r io.ReaderAt, size int64) (*Reader, error) { return NewReader(r, size, nil) },
}

func TestSourcesMayFailChangeAndClose(t *testing.T) {
	lifecycle.Test(t, api,
		"../testdata/pte/export-1.5.1-linear.pte",
		"../testdata/pte/export-1.5.1-xnnpack-inline.pte",
		"../testdata/pte/export-1.5.1-bundled.bpte",
		"../testdata/pte/generation-0.2.1-inline-constants.pte")
}
