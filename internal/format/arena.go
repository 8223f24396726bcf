package format

// An Arena allocates many small slices from few large pieces of memory. A slice that was
// taken never moves. The zero value is ready.
type Arena[T any] struct {
	rest []T // of the current piece
	size int // elements of the current piece
}

// Reserve makes the current piece one of n elements.
func (a *Arena[T]) Reserve(n int) { a.rest = make([]T, n) }

// Take returns n elements, which are zero. Pieces grow with what was taken before: n must
// be a number of things that a parser has seen, not a number that a file declares.
func (a *Arena[T]) Take(n int) []T {
	if n > len(a.rest) {
		a.size = max(n, min(2*a.size, 1<<12), 64)
		a.rest = make([]T, a.size)
	}
	taken := a.rest[:n:n]
	a.rest = a.rest[n:]
	return taken
}
