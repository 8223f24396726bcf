package inspect

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/tensor"
)

// The helpers of tests in several files.

func fileOf(ts ...*tensor.Tensor) *tensorfile.File { return tensorfile.FromTensors(ts, nil) }

// changes lists what differs, as words.
func changes(t *testing.T, a, b *tensorfile.File, o *DiffOptions) (all []string) {
	t.Helper()
	r, err := Diff(t.Context(), a, b, o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Equal != (len(r.Differences) == 0) {
		t.Errorf("equal is %v with %d differences", r.Equal, len(r.Differences))
	}
	if _, err := json.Marshal(r); err != nil {
		t.Error(err)
	}
	for _, d := range r.Differences {
		all = append(all, d.Kind+" "+d.Name+" "+d.Change)
	}
	return all
}

// random makes n elements of every code of d.
func random(d tensor.DType, n int, seed uint64) *tensor.Tensor {
	rng := rand.New(rand.NewPCG(seed, uint64(d)))
	size, _ := d.Bytes(int64(n))
	b := make([]byte, size)
	for i := range b {
		if b[i] = byte(rng.Uint32()); d == tensor.Bool {
			b[i] &= 1
		}
	}
	return &tensor.Tensor{Name: "x", DType: d, Shape: tensor.Shape{int64(n)},
		Data: tensor.BlobOf(b)}
}
