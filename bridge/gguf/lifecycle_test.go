package gguf

import (
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest/lifecycle"
)

func TestLifecycle(t *testing.T) {
	lifecycle.Test(t, face,
		"../../testdata/gguf/types.gguf")
}
