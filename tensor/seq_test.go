package tensor

import (
	"iter"
	"slices"
	"testing"
)

func TestSortedTakesNamesFromKeys(t *testing.T) {
	a, b := New("x", Shape{1}, []int8{1}), New("b", Shape{1}, []int8{2})
	var names []string
	for x, err := range Sorted(map[string]*Tensor{"b": b, "a": a}) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, x.Name)
	}
	if !slices.Equal(names, []string{"a", "b"}) || a.Name != "x" {
		t.Errorf("%q, and the tensor in the map is now named %q", names, a.Name)
	}
}

func TestSequencesStopEarly(t *testing.T) {
	a := New("a", Shape{1}, []int8{1})
	for name, seq := range map[string]iter.Seq2[*Tensor, error]{
		"Of": Of(a, a), "Sorted": Sorted(map[string]*Tensor{"a": a, "b": a}),
	} {
		calls := 0
		seq(func(*Tensor, error) bool {
			calls++
			return false
		})
		if calls != 1 {
			t.Errorf("%s goes on %d times after it was stopped", name, calls-1)
		}
	}
}
