package executorch

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/ptdfb"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

func TestScalarTypesHaveTheNumbersOfTheSchemas(t *testing.T) {
	if len(dtypes) != len(ptdfb.EnumNamesScalarType) ||
		len(dtypes) != len(ptefb.EnumNamesScalarType) {
		t.Errorf("%d dtypes, %d and %d in the schemas", len(dtypes),
			len(ptdfb.EnumNamesScalarType), len(ptefb.EnumNamesScalarType))
	}
	for i, d := range dtypes {
		s := int8(i)
		if back, ok := ScalarType(d); !ok || back != s || DType(s) != d || !d.Known() {
			t.Errorf("%d is %v is %d, %v", i, d, back, ok)
		}
		if a, b := ptdfb.EnumNamesScalarType[ptdfb.ScalarType(s)],
			ptefb.EnumNamesScalarType[ptefb.ScalarType(s)]; a == "" || a != b {
			t.Errorf("%d is %q in ptd, %q in pte", i, a, b)
		}
	}
	for _, s := range []int8{-1, int8(len(dtypes)), math.MaxInt8, math.MinInt8} {
		if d := DType(s); d != tensor.Unknown {
			t.Errorf("%d is %v", s, d)
		}
	}
	if _, ok := ScalarType(tensor.F8E8M0FNU); ok {
		t.Error("float8_e8m0fnu has a number")
	}
}

func TestPlaceAlignsAndReportsOverflow(t *testing.T) {
	for _, c := range []struct{ end, size, a, b, off, newEnd, align int64 }{
		{0, 10, 16, 1, 0, 10, 16},
		{10, 0, 16, 4, 16, 16, 16},
		{1, 5, 6, 4, 12, 17, 12},
	} {
		off, end, alignment, ok := Place(c.end, c.size, c.a, c.b)
		if !ok || off != c.off || end != c.newEnd || alignment != c.align {
			t.Errorf("%+v: %d, %d, %d, %v", c, off, end, alignment, ok)
		}
	}
	for _, c := range [][4]int64{
		{math.MaxInt64, 1, 1, 1}, {math.MaxInt64 - 1, 0, 16, 1}, {0, math.MaxInt64, 1, 1 << 41},
		{0, -1, 1, 1},
	} {
		if off, _, _, ok := Place(c[0], c[1], c[2], c[3]); ok {
			t.Errorf("%v is at %d", c, off)
		}
	}
}

func TestOrdersArePermutations(t *testing.T) {
	for _, c := range []struct {
		dims []byte
		rank int
		want tensor.Order
		ok   bool
	}{
		{nil, 0, nil, true}, {[]byte{0, 1}, 2, nil, true},
		{[]byte{1, 0}, 2, tensor.Order{1, 0}, true},
		{[]byte{0}, 2, nil, false}, {[]byte{0, 0}, 2, nil, false}, {[]byte{0, 2}, 2, nil, false},
	} {
		if o, ok := Order(c.dims, c.rank, nil); ok != c.ok || ok && !slices.Equal(o, c.want) {
			t.Errorf("%v of %d dimensions: %v, %v", c.dims, c.rank, o, ok)
		}
	}
}

func TestGenerationsAreTwoDigitsBehindTheMagic(t *testing.T) {
	for id, want := range map[string]bool{"ET12": true, "ETzZ": true, "ET1": false, "ET123": false,
		"ET1_": false, "FT01": false, "": false} {
		if Generation(id, "ET") != want {
			t.Errorf("%q: not %v", id, want)
		}
	}
}

func TestErrorsHaveTheirPlace(t *testing.T) {
	err := Unverified("pte",
		&fb.Error{Offset: 8, Path: "values[1]", Reason: "too deep", Limit: true}, 32)
	var fe *tensor.FormatError
	if !errors.As(err, &fe) || fe.Format != "pte" || fe.Offset != 40 || fe.Field != "values[1]" ||
		!errors.Is(err, tensor.ErrLimit) {
		t.Errorf("%#v", err)
	}
	if other := errors.New("other"); Unverified("pte", other, 0) != other {
		t.Error("another error is not kept")
	}
}
