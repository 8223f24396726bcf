package npy

import (
	"errors"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

const header = `, 'fortran_order': False, 'shape': (2,), }`

func TestSpellingsOfNumPyNameTheirDTypes(t *testing.T) {
	for descr, want := range map[string]tensor.DType{
		"float64": tensor.F64, "int8": tensor.I8, "bool": tensor.Bool, "complex64": tensor.C64,
		"?": tensor.Bool, "l": tensor.I64, "<d": tensor.F64, ">e": tensor.F16, "|b": tensor.I8,
		"half": tensor.F16, "intc": tensor.I32, "uint": tensor.U64, "float": tensor.F64,
		"cdouble": tensor.C128, "=f8": tensor.F64, "f1": tensor.F8E5M2, "<f1": tensor.F8E5M2,
		"bfloat16": tensor.BF16, "float8_e4m3fn": tensor.F8E4M3FN, "complex32": tensor.C32,
		"float8_e8m0fnu": tensor.F8E8M0FNU,
		"<V2":            tensor.Unknown, "<W4": tensor.Unknown, "float8_e3m4": tensor.Unknown,
		"int4": tensor.Unknown, "g": tensor.Unknown,
	} {
		size := map[string]int{"<V2": 4, "<W4": 8, "g": 32}[descr]
		if n, ok := want.Bytes(2); ok && want.Known() {
			size = int(n)
		} else if size == 0 {
			size = 2
		}
		data := strings.Repeat("\x01", size)
		r, err := OpenBytes(array(`{'descr': '`+descr+`'`+header, data), nil)
		if err != nil {
			t.Errorf("%s: %v", descr, err)
			continue
		}
		x := r.Array()
		if st, _ := x.Data.Stored(); x.DType != want || x.Size() != int64(size) ||
			want == tensor.Unknown && st.Type != descr {
			t.Errorf("%s: %v of %d bytes, %q", descr, x.DType, x.Size(), st.Type)
		}
	}
	for _, descr := range []string{"<float64", ">half", "@f8", "float_", "Float64", "qint8"} {
		_, err := OpenBytes(array(`{'descr': '`+descr+`'`+header, "12345678"), nil)
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s, which NumPy refuses: %v", descr, err)
		}
	}
}

func TestFurtherArraysAreAWarning(t *testing.T) {
	first := string(array(`{'descr': '<f4'`+header, "12345678"))
	second := string(array(`{'descr': '|b1', 'fortran_order': False, 'shape': (1, 2), }`,
		"\x00\x01"))
	for _, c := range []struct{ after, want string }{
		{second, "not bool[1, 2]"},
		{second + first, "not bool[1, 2], float32[2]"},
		{second + "x", "not bool[1, 2], and 1 bytes that are no array"},
		{strings.Repeat(second, 10), "bool[1, 2], and 142 bytes more"},
	} {
		r, err := OpenBytes([]byte(first+c.after), nil)
		if err != nil {
			t.Fatal(err)
		}
		w := r.Warnings()
		if b, err := r.Array().Data.ReadAll(); err != nil || string(b) != "12345678" ||
			len(w) != 1 || !strings.HasSuffix(w[0].Error(), c.want) ||
			tensor.FindingOf(w[0]).Code != tensor.CodeUnlistedData {
			t.Errorf("%q %v: %v", b, err, w)
		}
		if _, err := OpenBytes([]byte(first+c.after), &ReaderOptions{Strict: true}); err == nil {
			t.Errorf("%q is not refused with Strict", c.want)
		}
	}
	for _, after := range []string{"x", second[:len(second)-1], second[:9]} {
		if _, err := OpenBytes([]byte(first+after), nil); !errors.Is(err, tensor.ErrMalformed) {
			t.Errorf("%q after the elements: %v", after, err)
		}
	}
}
