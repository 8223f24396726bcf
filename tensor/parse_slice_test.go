package tensor_test

import (
	"slices"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

func TestSlicesArePythons(t *testing.T) {
	// As Python 3 has list(range(7))[…].
	seven := tensor.New("x", tensor.Shape{7}, []int64{0, 1, 2, 3, 4, 5, 6})
	for _, c := range []struct {
		slice string
		want  []int64
	}{
		{":", []int64{0, 1, 2, 3, 4, 5, 6}}, {"2:4", []int64{2, 3}}, {"-2:", []int64{5, 6}},
		{":-5", []int64{0, 1}},
		{"::3", []int64{0, 3, 6}}, {"::-1", []int64{6, 5, 4, 3, 2, 1, 0}},
		{"5:1:-2", []int64{5, 3}}, {"-100:100", []int64{0, 1, 2, 3, 4, 5, 6}},
		{"4:2", nil}, {"2:4:-1", nil}, {"100:0:-3", []int64{6, 3}}, {":2:-1", []int64{6, 5, 4, 3}},
		{"3::-1", []int64{3, 2, 1, 0}},
		{"-1:-100:-2", []int64{6, 4, 2, 0}}, {"7:", nil}, {" 1 : 3 ", []int64{1, 2}},
		{"-100::-1", nil}, {":0", nil}, {"2:4,", []int64{2, 3}},
		{"6:9223372036854775807:-2", nil}, {"5:99999999999999999999", []int64{5, 6}},
		{":-99999999999999999999:-3", []int64{6, 3, 0}},
		{"6::-9223372036854775808", []int64{6}},
	} {
		got, _, err := slice(c.slice, seven)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("[%s]: %v, want %v; %v", c.slice, got, c.want, err)
		}
	}
	for _, bad := range []string{"7", "-8", "a", "1:2:3:4", "::0", "1:x", "...,...", "0,0", "1.5",
		",", "99999999999999999999"} {
		if got, _, err := slice(bad, seven); err == nil {
			t.Errorf("[%s] is %v", bad, got)
		}
	}
}

// slice returns the elements that a slice takes, and its shape.
func slice(text string, x *tensor.Tensor) ([]int64, tensor.Shape, error) {
	index, err := tensor.ParseSlice(text, len(x.Shape))
	if err != nil {
		return nil, nil, err
	}
	part, err := tensor.Slice(x, index...)
	if err != nil {
		return nil, nil, err
	}
	v, err := tensor.Convert[int64](part)
	return v, part.Shape, err
}

func TestSlicesOfSeveralDimensionsHaveTheirShape(t *testing.T) {
	x := tensor.New("x", tensor.Shape{2, 3, 4}, make([]int64, 24))
	for text, want := range map[string]string{
		"0":           "[3, 4]",
		"...,0":       "[2, 3]",
		"1,...,-1":    "[3]",
		":,1:,::2":    "[2, 2, 2]",
		"...":         "[2, 3, 4]",
		"1,2,3":       "[]",
		"1,2,3,...":   "[]",
		":,:0":        "[2, 0, 4]",
		"::-1,::-1,1": "[2, 3]",
	} {
		if _, shape, err := slice(text, x); err != nil || shape.String() != want {
			t.Errorf("[%s] has shape %v, want %s; %v", text, shape, want, err)
		}
	}
}
