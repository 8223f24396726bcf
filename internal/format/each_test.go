package format

import (
	"slices"
	"testing"
)

func TestOfStopsWhereItsCallerDoes(t *testing.T) {
	asked := 0
	squares := Each(5, func(i int) int {
		asked++
		return i * i
	})
	if got := slices.Collect(squares); !slices.Equal(got, []int{0, 1, 4, 9, 16}) {
		t.Error(got)
	}
	asked = 0
	for x := range squares {
		if x == 4 {
			break
		}
	}
	if asked != 3 {
		t.Errorf("%d elements were made for 3", asked)
	}
}
