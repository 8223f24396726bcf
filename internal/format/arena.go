package format

// An Arena hands out parts of its memory, which never move. The zero value is ready.
type Arena[T any] struct {
	rest []T
	size int // of the last piece
}

// Reserve makes the next piece of memory one of n elements.
func (s *Arena[T]) Reserve(n int) { s.rest = make([]T, n) }

// Take returns n elements. The memory that is not taken yet is at most twice what was, so
// that a parser may ask for what it has seen, but not for what a file declares.
func (s *Arena[T]) Take(n int) []T {
	if n > len(s.rest) {
		s.size = max(n, min(2*s.size, 1<<12), 64)
		s.rest = make([]T, s.size)
	}
	taken := s.rest[:n:n]
	s.rest = s.rest[n:]
	return taken
}
