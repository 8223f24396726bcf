package format

import (
	"io"
	"strings"

	"github.com/tensorfile/tensorfile/tensor"
)

// The helpers of tests in several files.

func blob(size int64, content string) tensor.Blob {
	return tensor.BlobFunc(size, func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(content)), nil
	})
}
