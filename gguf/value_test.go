package gguf

import (
	"encoding/binary"
	"math"
	"reflect"
	"testing"
)

func TestValuesHaveTheTypesOfTheFile(t *testing.T) {
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
func TestNestedArraysKeepTheirTypes(t *testing.T) {
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
func TestValuesThatJSONLacksAreMarked(t *testing.T) {
	v, err := NewValue([]float32{1, float32(math.NaN()), float32(math.Inf(1)),
		float32(math.Inf(-1))})
	want := `[1,{"$float":"nan"},{"$float":"inf"},{"$float":"-inf"}]`
	if err != nil || v.String() != want {
		t.Errorf("%v, %v, want %s", v, err, want)
	}
}

func TestGettersReturnFalseForOtherTypes(t *testing.T) {
	r, err := OpenBytes(golden(t, "metadata.gguf"), nil)
	if err != nil {
		t.Fatal(err)
	}
	type got struct {
		value any
		ok    bool
	}
	get := map[string]func(key string) got{
		"Uint":    func(key string) got { v, ok := r.Uint(key); return got{v, ok} },
		"Int":     func(key string) got { v, ok := r.Int(key); return got{v, ok} },
		"Float":   func(key string) got { v, ok := r.Float(key); return got{v, ok} },
		"String":  func(key string) got { v, ok := r.String(key); return got{v, ok} },
		"Bool":    func(key string) got { v, ok := r.Bool(key); return got{v, ok} },
		"Strings": func(key string) got { v, ok := r.Strings(key); return got{v, ok} },
	}
	want := map[string]map[string]any{
		"Uint": {"u8": uint64(255), "u16": uint64(65535), "u32": uint64(math.MaxUint32),
			"u64": uint64(math.MaxUint64)},
		"Int": {"u8": int64(255), "i8": int64(-128), "u16": int64(65535), "i16": int64(-32768),
			"u32": int64(math.MaxUint32), "i32": int64(math.MinInt32),
			"i64": int64(math.MinInt64)},
		"Float":   {"f32": 0.5, "f64": -2.25},
		"String":  {"general.architecture": "llama", "text": "é\n\"😀"},
		"Bool":    {"yes": true, "no": false},
		"Strings": {"strings": []string{"a", "b\"c", "中"}},
	}
	keys := []string{"absent", "ints", "floats", "bools"}
	for _, m := range want {
		for key := range m {
			keys = append(keys, key)
		}
	}
	for name, f := range get {
		for _, key := range keys {
			x := f(key)
			if v, ok := want[name][key]; x.ok != ok || ok && !reflect.DeepEqual(x.value, v) {
				t.Errorf("%s(%q) = %#v, %t", name, key, x.value, x.ok)
			}
		}
	}
}

func TestNewValueMakesInt32OfInts(t *testing.T) {
	for _, c := range []struct {
		x        any
		want     any
		typeName string
	}{
		{7, int32(7), "int32"}, {math.MinInt32, int32(math.MinInt32), "int32"},
		{[]int{1, -2}, []int32{1, -2}, "[]int32"}, {[]int{}, []int32{}, "[]int32"},
		{[]any{[]int{3}}, []any{[]int32{3}}, "[]array"},
	} {
		v, err := NewValue(c.x)
		if err != nil || v.TypeName() != c.typeName || !reflect.DeepEqual(v.Any(-1), c.want) {
			t.Errorf("%v is %v %#v, %v", c.x, v.TypeName(), v.Any(-1), err)
		}
	}
	for _, want := range []int64{math.MaxInt64, math.MinInt32 - 1} {
		x := int(want)
		if int64(x) != want {
			continue // of 32 bits
		}
		v, err := NewValue(x)
		if err != nil || v.Type() != TypeInt64 || v.Any(-1) != want {
			t.Errorf("%d is %v %v, %v", x, v.Type(), v, err)
		}
		if v, err = NewValue([]int{1, x}); err != nil || v.TypeName() != "[]int64" {
			t.Errorf("[1 %d] is %v, %v", x, v.TypeName(), err)
		}
	}
}
