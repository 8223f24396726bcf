package core

import (
	"iter"
)

// A slab hands out pieces of few large allocations, whose elements never move.
type slab[T any] struct {
	full [][]T  // what was handed out of earlier chunks
	few  [1][]T // what full begins with
	last []T    // what was handed out of the last chunk
	Used int
}

// Reserve makes the next chunk large enough for n elements.
func (s *slab[T]) Reserve(n int) {
	s.retire()
	s.last = make([]T, 0, n)
}

// retire gives up the room that is left in the last chunk.
func (s *slab[T]) retire() {
	if s.full == nil {
		s.full = s.few[:0]
	}
	if len(s.last) > 0 {
		s.full = append(s.full, s.last)
	}
}

func (s *slab[T]) Take(n int) []T {
	if cap(s.last)-len(s.last) < n {
		s.Reserve(max(n, s.Used, 8)) // doubles what there is: at most half stays unused
	}
	from := len(s.last)
	s.last = s.last[:from+n]
	s.Used += n
	return s.last[from : from+n : from+n]
}

// At returns element i in the order in which they were taken.
func (s *slab[T]) At(i int) *T {
	for _, c := range s.full {
		if i < len(c) {
			return &c[i]
		}
		i -= len(c)
	}
	return &s.last[i]
}

// All yields all elements in the order in which they were taken.
func (s *slab[T]) All() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for n := 0; n <= len(s.full); n++ {
			chunk := s.last
			if n < len(s.full) {
				chunk = s.full[n]
			}
			for i := range chunk {
				if !yield(&chunk[i]) {
					return
				}
			}
		}
	}
}
