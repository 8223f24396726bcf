package command

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

func TestAbbreviatedValues(t *testing.T) {
	v := make([]int64, 40*50)
	for i := range v {
		v[i] = int64(i)
	}
	var out bytes.Buffer
	w := &valueWriter{ctx: t.Context(), w: &out}
	if err := w.abbreviate(tensor.New("x", tensor.Shape{40, 50}, v)); err != nil {
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
	for _, shape := range []tensor.Shape{{2, 1000}, {1000, 2}, {2000}, {20, 20, 5}, {5, 5, 5, 16}} {
		out.Reset()
		if err := w.abbreviate(tensor.New("x", shape, v)); err != nil || strings.Count(out.String(), "...") == 0 || out.Len() > 2000 {
			t.Errorf("%v: %v\n%s", shape, err, out.String())
		}
	}
}
