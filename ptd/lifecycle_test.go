package ptd_test

import (
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest/lifecycle"
	"github.com/tensorfile/tensorfile/ptd"
)

func TestSourcesMayFailChangeAndClose(t *testing.T) {
	lifecycle.Test(t, api(ptd.ReaderOptions{}),
		"../testdata/ptd/et-1.5.1-dtypes.ptd",
		"../testdata/ptd/et-1.5.1-blobs.ptd")
}
