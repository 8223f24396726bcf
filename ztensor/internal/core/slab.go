package core

import "iter"

// A slab hands out pieces of few large allocations, whose elements never move.
type slab[T any] struct {
	chunks [][]T // all of them are full or retired but the last one
	Used   int
}

// Reserve makes the next chunk large enough for n elements.
func (s *slab[T]) Reserve(n int) { s.chunks = append(s.chunks, make([]T, 0, n)) }

// Take returns the next n elements.
func (s *slab[T]) Take(n int) []T {
	last := len(s.chunks) - 1
	if last < 0 || cap(s.chunks[last])-len(s.chunks[last]) < n {
		s.Reserve(max(n, s.Used, 8)) // doubles what there is: at most half stays unused
		last++
	}
	c := &s.chunks[last]
	from := len(*c)
	*c = (*c)[:from+n]
	s.Used += n
	return (*c)[from : from+n : from+n]
}

// At returns element i in the order in which they were taken.
func (s *slab[T]) At(i int) *T {
	for _, c := range s.chunks {
		if i < len(c) {
			return &c[i]
		}
		i -= len(c)
	}
	return nil
}

// All yields all elements in the order in which they were taken.
func (s *slab[T]) All() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for _, c := range s.chunks {
			for i := range c {
				if !yield(&c[i]) {
					return
				}
			}
		}
	}
}
