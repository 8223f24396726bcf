package align

import (
	"math"
	"testing"
)

func TestUpRoundsToMultiplesAndReportsOverflow(t *testing.T) {
	for _, c := range []struct {
		n, a, want int64
		ok         bool
	}{
		{0, 64, 0, true}, {1, 64, 64, true}, {64, 64, 64, true}, {65, 64, 128, true},
		{7, 3, 9, true}, {math.MaxInt64, 1, math.MaxInt64, true},
		{math.MaxInt64, 2, 0, false}, {math.MaxInt64 - 63, 64, math.MaxInt64 - 63, true},
		{math.MaxInt64 - 62, 64, 0, false}, {-1, 8, 0, false}, {8, 0, 0, false}, {8, -8, 0, false},
	} {
		got, ok := Up(c.n, c.a)
		if got != c.want || ok != c.ok {
			t.Errorf("Up(%d, %d) = %d, %v; want %d, %v", c.n, c.a, got, ok, c.want, c.ok)
		}
	}
	if Padding(61, 64) != 3 || Padding(64, 64) != 0 || Padding(5, 0) != 0 || Padding(-5, 4) != 0 {
		t.Error("Padding")
	}
	if !Is(128, 64) || Is(1, 64) || Is(1, 0) || !Is(0, 8) {
		t.Error("Is")
	}
}

func TestProductsAndSumsReportOverflow(t *testing.T) {
	for _, c := range []struct {
		a, b int64
		mul  bool
		add  bool
	}{
		{0, math.MaxInt64, true, true}, {1, math.MaxInt64, true, false},
		{1 << 32, 1 << 31, false, true}, {1 << 31, 1 << 31, true, true},
		{1 << 32, 1 << 32, false, true}, {4194305, 211106198978564, false, true},
		{-1, 1, false, false}, {1, -1, false, false},
	} {
		if p, ok := Mul(c.a, c.b); ok != c.mul || ok && p != c.a*c.b {
			t.Errorf("Mul(%d, %d) = %d, %v", c.a, c.b, p, ok)
		}
		if s, ok := Add(c.a, c.b); ok != c.add || ok && s != c.a+c.b {
			t.Errorf("Add(%d, %d) = %d, %v", c.a, c.b, s, ok)
		}
	}
}

func TestWithinReportsOverflowAndRange(t *testing.T) {
	for _, c := range []struct {
		off, n, size int64
		want         bool
	}{
		{0, 0, 0, true}, {0, 1, 0, false}, {8, 0, 8, true}, {8, 1, 8, false}, {9, 0, 8, false},
		{1, math.MaxInt64, math.MaxInt64, false}, {math.MaxInt64, math.MaxInt64, 10, false},
		{-1, 1, 8, false}, {1, -1, 8, false}, {0, 8, 8, true},
	} {
		if got := Within(c.off, c.n, c.size); got != c.want {
			t.Errorf("Within(%d, %d, %d) = %v", c.off, c.n, c.size, got)
		}
	}
}
