package tensor

import (
	"iter"
	"maps"
	"slices"
)

// Of returns a sequence of ts, as writers take it.
func Of(ts ...*Tensor) iter.Seq2[*Tensor, error] { return Each(slices.Values(ts)) }

// Each returns a sequence of the tensors of ts that never fails, such as the tensors of
// a Reader, as writers take it.
func Each(ts iter.Seq[*Tensor]) iter.Seq2[*Tensor, error] {
	return func(yield func(*Tensor, error) bool) {
		for t := range ts {
			if !yield(t, nil) {
				return
			}
		}
	}
}

// Sorted returns a sequence of the tensors of m under the names that are its keys, sorted
// by name. The tensors of m are not changed.
func Sorted(m map[string]*Tensor) iter.Seq2[*Tensor, error] {
	return func(yield func(*Tensor, error) bool) {
		for _, name := range slices.Sorted(maps.Keys(m)) {
			t := m[name]
			if t != nil && t.Name != name {
				renamed := *t
				renamed.Name = name
				t = &renamed
			}
			if !yield(t, nil) {
				return
			}
		}
	}
}
