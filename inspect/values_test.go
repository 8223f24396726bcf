package inspect_test

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/inspect"
	"github.com/tensorfile/tensorfile/tensor"
)

func TestAbbreviatedValues(t *testing.T) {
	v := make([]int64, 40*50)
	for i := range v {
		v[i] = int64(i)
	}
	var out bytes.Buffer
	opts := &inspect.ValuesOptions{Abbreviate: true}
	x := tensor.New("x", tensor.Shape{40, 50}, v)
	if err := inspect.WriteValues(t.Context(), &out, x, opts); err != nil {
		t.Fatal(err)
	}
	const want = `[[0, 1, 2, ..., 47, 48, 49],
 [50, 51, 52, ..., 97, 98, 99],
 [100, 101, 102, ..., 147, 148, 149],
 ...,
 [1850, 1851, 1852, ..., 1897, 1898, 1899],
 [1900, 1901, 1902, ..., 1947, 1948, 1949],
 [1950, 1951, 1952, ..., 1997, 1998, 1999]]`
	if out.String() != want {
		t.Errorf("%s", out.String())
	}
	for _, shape := range []tensor.Shape{{2, 1000}, {1000, 2}, {2000}, {20, 20, 5},
		{5, 5, 5, 16}} {
		out.Reset()
		err := inspect.WriteValues(t.Context(), &out, tensor.New("x", shape, v), opts)
		if err != nil || !strings.Contains(out.String(), "...") || out.Len() > 2000 {
			t.Errorf("%v: %v\n%s", shape, err, out.String())
		}
	}
}

func TestValuesAsJSON(t *testing.T) {
	for _, c := range []struct {
		x    *tensor.Tensor
		want string
	}{
		{tensor.New("x", tensor.Shape{2, 2}, []float32{0.1, 2, float32(math.NaN()),
			float32(math.Inf(-1))}), `[[0.1, 2], [{"$float": "nan"}, {"$float": "-inf"}]]`},
		{tensor.New("x", tensor.Shape{1}, []complex64{complex(1, -2)}), `[[1, -2]]`},
		{tensor.New("x", tensor.Shape{}, []bool{true}), `true`},
		{tensor.New("x", tensor.Shape{2, 0}, []uint64{}), `[[], []]`},
	} {
		var out bytes.Buffer
		err := inspect.WriteValues(t.Context(), &out, c.x, &inspect.ValuesOptions{JSON: true})
		if err != nil || out.String() != c.want || !json.Valid(out.Bytes()) {
			t.Errorf("%v: %s", err, out.String())
		}
	}
}
