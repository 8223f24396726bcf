package ztensor

import (
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest/lifecycle"
)

func TestSourcesMayFailChangeAndClose(t *testing.T) {
	lifecycle.Test(t, api,
		"../testdata/ztensor/crate-0.1.0-zstd.zt",
		"../testdata/ztensor/crate-1.0.0-sparse.zt",
		"../testdata/ztensor/crate-1.2.3-zstd.zt",
		"../testdata/ztensor/crate-2.1.1-layouts.zt",
		"../testdata/ztensor/crate-2.1.1-seekable.zt")
}
