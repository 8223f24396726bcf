package store

import "testing"

func TestPartsAreEnoughForTheLargestObject(t *testing.T) {
	total := int64(0)
	for n := range 10_000 {
		size := sizeOfPart(n)
		if size < 5<<20 || size > 5<<30 {
			t.Fatalf("part %d has %d bytes", n, size)
		}
		total += int64(size)
	}
	if total < 5<<40 {
		t.Errorf("10,000 parts are %d bytes", total)
	}
}
