// Package align does the arithmetic of alignment and of byte ranges on file
// offsets. Every result that does not fit an int64 is reported, never wrapped.
package align

import (
	"math"
	"math/bits"
)

// Up returns the smallest multiple of a that is not below n, and whether it
// fits. a must be positive and n not negative, otherwise ok is false.
func Up(n, a int64) (up int64, ok bool) {
	if a <= 0 || n < 0 {
		return 0, false
	}
	pad := Padding(n, a)
	if n > math.MaxInt64-pad {
		return 0, false
	}
	return n + pad, true
}

// Padding returns how many bytes are between n and the next multiple of a. It
// is 0 where n is one, and where the arguments make no sense.
func Padding(n, a int64) int64 {
	if a <= 0 || n < 0 {
		return 0
	}
	if r := n % a; r != 0 {
		return a - r
	}
	return 0
}

// Is reports whether n is a multiple of a. Nothing is one of a ≤ 0.
func Is(n, a int64) bool { return a > 0 && n%a == 0 }

// Mul multiplies two numbers that must not be negative.
func Mul(a, b int64) (p int64, ok bool) {
	if a < 0 || b < 0 {
		return 0, false
	}
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi != 0 || lo > math.MaxInt64 {
		return 0, false
	}
	return int64(lo), true
}

// Add adds two numbers that must not be negative.
func Add(a, b int64) (s int64, ok bool) {
	if a < 0 || b < 0 || a > math.MaxInt64-b {
		return 0, false
	}
	return a + b, true
}

// Within reports whether the n bytes at off are inside size bytes.
func Within(off, n, size int64) bool {
	return off >= 0 && n >= 0 && off <= size && n <= size-off
}
