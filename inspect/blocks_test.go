package inspect

import (
	"slices"
	"testing"

	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/tensor"
)

// TestStatsOfBlocksAreOfTheirValues checks that quantised blocks are measured by their
// values.
func TestStatsOfBlocksAreOfTheirValues(t *testing.T) {
	r, err := gguf.Open("../testdata/gguf/types.gguf", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	measured := 0
	for x := range r.Tensors() {
		if x.Dense() {
			continue
		}
		values, err := tensor.Convert[float32](x)
		if err != nil {
			t.Fatal(err)
		}
		want, err := Stats(t.Context(), tensor.New(x.Name, x.Shape, values), nil)
		if err != nil {
			t.Fatal(err)
		}
		for all, err := range StatsEach(t.Context(), slices.Values([]*tensor.Tensor{x}), nil) {
			if err != nil || len(all) != 1 || all[0].Err != nil || all[0].Role != "" {
				t.Fatalf("%s: %+v, %v", x.Name, all, err)
			}
			got := all[0].Summary
			if got.Count != want.Count || got.Min != want.Min || got.Max != want.Max ||
				*got.Mean != *want.Mean || got.NaN != want.NaN || got.Zeros != want.Zeros {
				t.Errorf("%s: %+v, want %+v", x.Name, got, want)
			}
		}
		measured++
	}
	if measured < 20 {
		t.Errorf("%d tensors of blocks", measured)
	}
}
