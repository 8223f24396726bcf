package gguf

import (
	"encoding/binary"
	"math"
	"reflect"
	"testing"
)

func TestValue(t *testing.T) {
	r, err := OpenBytes(golden(t, "metadata.gguf"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{
		"general.architecture": "llama",
		"u8":                   uint8(255), "i8": int8(-128), "u16": uint16(65535),
		"i16": int16(-32768), "u32": uint32(math.MaxUint32),
		"i32": int32(math.MinInt32), "u64": uint64(math.MaxUint64), "i64": int64(math.MinInt64),
		"f32": float32(0.5), "f64": -2.25,
		"yes": true, "no": false, "text": "é\n\"😀",
		"ints": []int32{1, -2, 3}, "floats": []float32{0.5, 1.5}, "strings": []string{"a",
			"b\"c", "中"}, "bools": []bool{true, false},
	} {
		v, ok := r.Value(key)
		if got := v.Any(-1); !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %#v, want %#v", key, got, want)
		}
	}
	v, _ := r.Value("strings")
	if got := v.Any(2); !reflect.DeepEqual(got, []string{"a", "b\"c"}) {
		t.Errorf("the first two: %#v", got)
	}
	if got := v.Any(0); !reflect.DeepEqual(got, []string{}) {
		t.Errorf("none: %#v", got)
	}
	if elem, n, ok := v.Array(); elem != TypeString || n != 3 || !ok || v.Type() != TypeArray {
		t.Error(elem, n, ok)
	}
	if v, ok := r.Value("absent"); ok || v.Any(-1) != nil || v.String() != "" {
		t.Error("a value of a key that is not there")
	}
	attributes := r.Attributes()
	texts := map[string]string{}
	for k, v := range attributes {
		texts[k] = v
	}
	n := 0
	for k, v := range r.Metadata() {
		if n++; v.String() != texts[k] {
			t.Errorf("%s is %q and %q", k, v, texts[k])
		}
	}
	if n != len(texts) {
		t.Errorf("%d of %d", n, len(texts))
	}
}

// Arrays of arrays, of unlike lengths, and empty ones, keep their types.
func TestValueOfNestedArrays(t *testing.T) {
	le := binary.LittleEndian
	array := func(elem ValueType, n uint64, rest ...byte) []byte {
		return append(le.AppendUint64(le.AppendUint32(nil, uint32(elem)), n), rest...)
	}
	value := append(array(TypeUint8, 2, 7, 8), array(TypeUint16, 0)...)
	value = append(value, array(TypeInt16, 3, 1, 0, 0xff, 0xff, 2, 0)...)
	value = array(TypeArray, 3, value...)
	b := []byte("GGUF\x03\x00\x00\x00")
	b = le.AppendUint64(le.AppendUint64(b, 0), 2)
	for _, key := range []string{"a", "b"} {
		b = append(le.AppendUint64(b, 1), key...)
		b = append(le.AppendUint32(b, uint32(TypeArray)), value...)
	}
	r, err := OpenBytes(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	v, _ := r.Value("b")
	for n, want := range map[int]any{
		-1: []any{[]uint8{7, 8}, []uint16{}, []int16{1, -1, 2}},
		1:  []any{[]uint8{7}},
		2:  []any{[]uint8{7, 8}, []uint16{}},
		0:  []any{},
	} {
		if got := v.Any(n); !reflect.DeepEqual(got, want) {
			t.Errorf("%d: %#v", n, got)
		}
	}
}

// What JSON lacks is written as docs/json.md says.
func TestValueThatJSONLacks(t *testing.T) {
	v, err := NewValue([]float32{1, float32(math.NaN()), float32(math.Inf(1)),
		float32(math.Inf(-1))})
	want := `[1,{"$float":"nan"},{"$float":"inf"},{"$float":"-inf"}]`
	if err != nil || v.String() != want {
		t.Errorf("%v, %v, want %s", v, err, want)
	}
}
