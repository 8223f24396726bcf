package v2

import (
	"math/rand/v2"
	"testing"
)

func TestFrameCacheIsBounded(t *testing.T) {
	var c frameCache
	all := make([]frame, 300)
	p := make([]byte, 1<<20)
	for _, limit := range []int{cacheSize, maxCache} {
		for i := range all {
			c.put(&all[i], p)
			if c.size > limit || c.get(&all[i]) == nil {
				t.Fatalf("%d bytes of at most %d after %d frames", c.size, limit, i+1)
			}
		}
		if c.get(&all[0]) != nil || c.get(&all[290]) == nil {
			t.Error("the frames that were used last are not those that are kept")
		}
	}
}

// 2,000 slices of 10 KB in random order out of 100 MB decode at most three times as much
// as all.
func TestFrameCacheDecodesLittleInRandomOrder(t *testing.T) {
	var c frameCache
	all := make([]frame, 96)
	p := make([]byte, 1<<20)
	rng := rand.New(rand.NewPCG(1, 2))
	decoded := 0
	for range 2000 {
		at := rng.IntN(len(all)<<20 - 10_000)
		for i := at >> 20; i <= (at+9_999)>>20; i++ {
			if f := &all[i]; c.get(f) == nil {
				decoded++
				c.put(f, p)
			}
		}
	}
	if decoded > 3*len(all) {
		t.Errorf("%d frames decoded, of %d", decoded, len(all))
	}
}
