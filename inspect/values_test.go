package inspect_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/inspect"
	"github.com/tensorfile/tensorfile/tensor"
)

func TestAbbreviatedValuesHaveThreeAtEachEnd(t *testing.T) {
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

// Text of NumPy is printed in either byte order and in the order of the array.
func TestTextIsPrinted(t *testing.T) {
	array := func(descr, order, shape, data string) string {
		head := fmt.Sprintf("{'descr': '%s', 'fortran_order': %s, 'shape': %s, }", descr, order,
			shape)
		return "\x93NUMPY\x01\x00\x60\x00" + fmt.Sprintf("%-95s\n", head) + data
	}
	wide := func(text string) string {
		var b []byte
		for _, r := range text {
			b = binary.LittleEndian.AppendUint32(b, uint32(r))
		}
		return string(b)
	}
	for _, c := range []struct {
		file, text, json string
	}{
		{array("<U3", "False", "(2,)", wide("日本\x00<\x1b\"")), `["日本", "<\u001b\""]`,
			`["日本", "\u003c\u001b\""]`},
		{array(">U1", "False", "(2,)", "\x00\x00\x00a\x00\x01\xf6\x42"), `["a", "🙂"]`,
			`["a", "🙂"]`},
		{array("|S2", "True", "(2, 2)", "a\x00b\x00c\x00\xffd"),
			"[[\"a\", \"c\"],\n [\"b\", \"\\ufffdd\"]]",
			`[["a", "c"], ["b", "\ufffdd"]]`},
		{array("<U1", "False", "()", wide("x")), `"x"`, `"x"`},
		{array("<U1", "False", "(1,)", "\xff\xff\xff\x7f"), `["\ufffd"]`, `["\ufffd"]`},
	} {
		r, err := tensorfile.OpenBytes([]byte(c.file), nil)
		if err != nil {
			t.Fatal(err)
		}
		for isJSON, want := range map[bool]string{false: c.text, true: c.json} {
			var out strings.Builder
			err := inspect.WriteValues(t.Context(), &out, r.Tensor("data"),
				&inspect.ValuesOptions{JSON: isJSON})
			if err != nil || out.String() != want || isJSON && !json.Valid([]byte(out.String())) {
				t.Errorf("%s: %v", out.String(), err)
			}
		}
	}
	c := array("|S2", "True", "(2, 2)", "a\x00b\x00c\x00dd")
	r, err := tensorfile.OpenBytes([]byte(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	row, err := inspect.SliceText(r.Tensor("data"), tensor.At(1))
	var out strings.Builder
	if err == nil {
		err = inspect.WriteValues(t.Context(), &out, row, nil)
	}
	if err != nil || out.String() != `["b", "dd"]` || !inspect.IsText(row) {
		t.Errorf("%s, %v", out.String(), err)
	}
	if _, err := inspect.SliceText(row, tensor.At(0), tensor.At(0)); err == nil {
		t.Error("a character of text is an element")
	}
	// Text of no length would be output without input.
	c = array("<U0", "False", "(1000000000000,)", "")
	if r, err = tensorfile.OpenBytes([]byte(c), nil); err != nil {
		t.Fatal(err)
	}
	if err := inspect.WriteValues(t.Context(), io.Discard, r.Tensor("data"), nil); err == nil {
		t.Error("texts without characters are printed")
	}
}

func TestValuesAreNestedJSONArrays(t *testing.T) {
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
