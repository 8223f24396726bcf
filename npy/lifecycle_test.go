package npy

import (
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest/lifecycle"
)

func TestSourcesMayFailChangeAndClose(t *testing.T) {
	lifecycle.Test(t, api,
		"../testdata/npy/le-f4.npy",
		"../testdata/npy/column-be.npy")
}
