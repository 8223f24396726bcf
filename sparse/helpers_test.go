package sparse_test

import (
	"testing"

	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
)

// The helpers of tests in several files.

func denseOf(t *testing.T, x *tensor.Tensor, o *sparse.Options) []byte {
	t.Helper()
	d, err := sparse.Densify(t.Context(), x, o)
	if err != nil {
		t.Fatal(err)
	}
	all, err := d.Data.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return all
}
