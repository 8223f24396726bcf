package ztensor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
)

// manyEntries is a file of n tensors of that many bytes each, of which the first is
// where data says, in units of 64.
func manyEntries(n, bytes int, name func(i int) string, data func(i int) int) []byte {
	b := raw(0xa2, "version", "1.0", "tensors")
	b = cbor.AppendHead(b, cbor.Map, uint64(n))
	for i := range n {
		b = cbor.AppendText(b, name(i))
		b = append(b, raw(0xa4, "dtype", "uint8", "shape", 0x81, 0x18, bytes, "format", "dense",
			"components", 0xa1, "data", 0xa2, "offset")...)
		b = cbor.AppendHead(b, cbor.Uint, uint64(64+64*data(i)))
		b = append(b, raw("length", 0x18, bytes)...)
	}
	return file10(b, 64+64*n+bytes)
}

func TestWarningsOfOverlapsAreBounded(t *testing.T) {
	b := manyEntries(20_000, 100, func(i int) string { return fmt.Sprintf("%09d", i) },
		func(i int) int { return i })
	r, err := OpenBytes(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(r.Warnings()); n == 0 || n > 1001 {
		t.Errorf("%d warnings", n)
	}
}

func TestTimeIsLinear(t *testing.T) {
	readtest.Measure(t)
	measure := func(data []byte) time.Duration {
		best := time.Hour
		for range 3 {
			start := time.Now()
			r, err := OpenBytes(data, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Warnings()
			r.Tensor("none")
			best = min(best, time.Since(start))
		}
		return best
	}
	// ten times the work; caches are smaller than it
	small, large, tolerance := 10_000, 100_000, 25
	if full() {
		small, large, tolerance = 100_000, 1_000_000, 15
	}
	for name, c := range map[string]struct {
		name  func(i int) string
		order func(n int) func(i int) int
	}{
		"descending names": {func(i int) string {
			return fmt.Sprintf("%09d", 999_999_999-i)
		}, func(n int) func(int) int { return func(i int) int { return i } }},
		"descending components": {func(i int) string { return fmt.Sprintf("%09d", i) },
			func(n int) func(int) int { return func(i int) int { return n - 1 - i } }},
		"names of long prefixes": {func(i int) string {
			return strings.Repeat("x", 40) + fmt.Sprint(i*7919%100_003, i)
		}, func(n int) func(int) int { return func(i int) int { return i } }},
	} {
		few, many := manyEntries(small, 24, c.name, c.order(small)),
			manyEntries(large, 24, c.name, c.order(large))
		one, ten := measure(few), measure(many)
		t.Logf("%s: %v for %d, %v for %d", name, one, small, ten, large)
		if ten > time.Duration(tolerance)*one {
			t.Errorf("%s: %v for %d entries, %v for %d", name, one, small, ten, large)
		}
	}
}
