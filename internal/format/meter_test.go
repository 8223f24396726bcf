package format

import (
	"slices"
	"testing"
)

// The last call has done = total, whatever the estimate was.
func TestMeterEndsAtTheTotal(t *testing.T) {
	for _, c := range []struct {
		total int64
		adds  []int64
		want  [][2]int64
	}{
		{10, []int64{4, 6}, [][2]int64{{4, 10}, {10, 10}}},
		{10, []int64{4}, [][2]int64{{4, 10}, {10, 10}}},
		{3, []int64{4, 0, 1}, [][2]int64{{4, 4}, {5, 5}}},
		{0, nil, [][2]int64{{0, 0}}},
	} {
		var got [][2]int64
		m := NewMeter(func(done, total int64) {
			got = append(got, [2]int64{done, total})
		}, c.total)
		for _, n := range c.adds {
			m.Add(n)
		}
		m.End()
		m.End()
		if !slices.Equal(got, c.want) {
			t.Errorf("%d, %d: %v, want %v", c.total, c.adds, got, c.want)
		}
	}
	NewMeter(nil, 5).Add(1)
	NewMeter(nil, 5).End()
}
