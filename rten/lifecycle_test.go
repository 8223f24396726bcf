package rten

import (
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest/lifecycle"
)

func TestSourcesMayFailChangeAndClose(t *testing.T) {
	lifecycle.Test(t, api,
		"../testdata/rten/convert-0.22.0-basic.rten",
		"../testdata/rten/convert-0.22.0-basic-v1.rten")
}
