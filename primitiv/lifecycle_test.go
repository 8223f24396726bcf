package primitiv_test

import (
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest/lifecycle"
)

func TestSourcesMayFailChangeAndClose(t *testing.T) {
	lifecycle.Test(t, api,
		"../testdata/primitiv/model-nested.primitiv",
		"../testdata/primitiv/parameter-bin32.primitiv")
}
