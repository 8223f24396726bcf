package format

import "testing"

func TestTakenPartsAreApart(t *testing.T) {
	var s Arena[int]
	s.Reserve(3)
	var all [][]int
	for n := range 200 {
		p := s.Take(n)
		if len(p) != n || cap(p) != n {
			t.Fatalf("%d elements of %d, with a capacity of %d", len(p), n, cap(p))
		}
		for i := range p {
			if p[i] != 0 {
				t.Fatalf("element %d of %d is %d", i, n, p[i])
			}
			p[i] = n
		}
		all = append(all, p)
	}
	for n, p := range all {
		for _, x := range p {
			if x != n {
				t.Fatalf("part %d has an element of part %d", n, x)
			}
		}
	}
}

func TestMemoryIsProportional(t *testing.T) {
	var s Arena[byte]
	taken, pieces := 0, 0
	for range 10_000 {
		before := len(s.rest)
		s.Take(3)
		if taken += 3; len(s.rest) > before {
			pieces++
		}
		if len(s.rest) > max(64, 2*taken) {
			t.Fatalf("%d free bytes with %d taken", len(s.rest), taken)
		}
	}
	if pieces > 20 {
		t.Errorf("%d pieces of memory", pieces)
	}
}
