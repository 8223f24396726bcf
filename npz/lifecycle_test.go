package npz

import (
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest/lifecycle"
)

func TestSourcesMayFailChangeAndClose(t *testing.T) {
	lifecycle.Test(t, api,
		"../testdata/npy/stored.npz",
		"../testdata/npy/deflated.npz")
}
