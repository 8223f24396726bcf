package tensor

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
)

func TestShapeElementsDoNotOverflow(t *testing.T) {
	for _, c := range []struct {
		s    Shape
		want int64
		ok   bool
	}{
		{nil, 1, true}, {Shape{}, 1, true}, {Shape{0}, 0, true}, {Shape{2, 3, 4}, 24, true},
		{Shape{1 << 32, 1 << 32}, 0, false}, {Shape{4194305, 211106198978564}, 0, false},
		{Shape{1 << 40, 1 << 40, 0}, 0, true}, {Shape{0, -1}, 0, false}, {Shape{-1}, 0, false},
		{Shape{math.MinInt64, 2}, 0, false}, {Shape{math.MaxInt64}, math.MaxInt64, true},
		{Shape{math.MaxInt64, 2}, 0, false},
	} {
		if got, ok := c.s.Elements(); got != c.want || ok != c.ok {
			t.Errorf("%v has %d elements, %v; want %d, %v", c.s, got, ok, c.want, c.ok)
		}
	}
	if (Shape{2, 3}).String() != "[2, 3]" || Shape(nil).String() != "[]" ||
		!Shape(nil).Equal(Shape{}) || (Shape{1}).Equal(Shape{}) {
		t.Error("String or Equal")
	}
}

func TestOrderGivesStrides(t *testing.T) {
	for _, c := range []struct {
		o       Order
		s       Shape
		strides []int64
		valid   bool
	}{
		{nil, Shape{2, 3, 4}, []int64{12, 4, 1}, true},
		{Order{0, 1, 2}, Shape{2, 3, 4}, []int64{12, 4, 1}, true},
		{ColumnMajor(3), Shape{2, 3, 4}, []int64{1, 2, 6}, true},
		{Order{0, 2, 3, 1}, Shape{2, 3, 4, 5}, []int64{60, 1, 15, 3}, true},
		{nil, nil, []int64{}, true},
		{Order{}, nil, []int64{}, true},
		{nil, Shape{2, 0, 4}, []int64{4, 4, 1}, true},
		{Order{0}, Shape{2, 3}, nil, false},
		{Order{0, 0}, Shape{2, 3}, nil, false},
		{Order{0, 2}, Shape{2, 3}, nil, false},
		{Order{-1, 0}, Shape{2, 3}, nil, false},
	} {
		if c.o.Valid(len(c.s)) != c.valid {
			t.Errorf("%v over %v: valid is not %v", c.o, c.s, c.valid)
		}
		got, ok := c.o.Strides(c.s)
		if ok != c.valid || !slices.Equal(got, c.strides) {
			t.Errorf("%v over %v: strides %v, %v; want %v", c.o, c.s, got, ok, c.strides)
		}
	}
	if _, ok := Order(nil).Strides(Shape{0, math.MaxInt64, math.MaxInt64}); ok {
		t.Error("strides beyond int64")
	}
	if !Order(nil).RowMajor() || !(Order{0, 1}).RowMajor() || (Order{1, 0}).RowMajor() ||
		ColumnMajor(1) != nil {
		t.Error("RowMajor or ColumnMajor")
	}
	for _, c := range []struct {
		a, b Order
		same bool
	}{
		{nil, nil, true}, {nil, Order{0, 1}, true}, {Order{1, 0}, Order{1, 0}, true},
		{nil, Order{1, 0}, false}, {Order{0, 1}, Order{1, 0}, false},
	} {
		if c.a.Equal(c.b) != c.same || c.b.Equal(c.a) != c.same {
			t.Errorf("%v and %v: equal is not %v", c.a, c.b, c.same)
		}
	}
}

func TestShapeIsAnArrayInJSON(t *testing.T) {
	for want, s := range map[string]Shape{"[]": nil, "[2,3]": {2, 3}, "[0]": {0}} {
		b, err := json.Marshal(struct{ Shape Shape }{s})
		if err != nil || string(b) != `{"Shape":`+want+`}` {
			t.Errorf("%v: %s, %v", s, b, err)
		}
		var back struct{ Shape Shape }
		if err := json.Unmarshal(b, &back); err != nil || !back.Shape.Equal(s) {
			t.Errorf("%v: %v, %v", s, back.Shape, err)
		}
	}
}
