// Package seq makes sequences of things that have an index.
package seq

import "iter"

// Of yields at(0) … at(n-1).
func Of[T any](n int, at func(int) T) iter.Seq[T] {
	return func(yield func(T) bool) {
		for i := range n {
			if !yield(at(i)) {
				return
			}
		}
	}
}
