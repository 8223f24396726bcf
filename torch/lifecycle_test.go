package torch

import (
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest/lifecycle"
)

func TestSourcesMayFailChangeAndClose(t *testing.T) {
	lifecycle.Test(t, api,
		"../testdata/torch/values.pt",
		"../testdata/torch/legacy.pt",
		"../testdata/torch/deflated.pt")
}
