package safetensors

import (
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest/lifecycle"
)

func TestSourcesMayFailChangeAndClose(t *testing.T) {
	lifecycle.Test(t, api,
		"../testdata/safetensors/dtypes.safetensors")
}
