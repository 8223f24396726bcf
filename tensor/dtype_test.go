package tensor

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
)

func TestEveryDTypeHasANameThatParses(t *testing.T) {
	seen := map[string]bool{}
	for _, d := range DTypes() {
		name := d.String()
		if name == "" || seen[name] {
			t.Errorf("DType %d is named %q", uint8(d), name)
		}
		seen[name] = true
		for _, s := range []string{name, dtypes[d].short, strings.ToLower(dtypes[d].short)} {
			got, err := ParseDType(s)
			if err != nil || got != d {
				t.Errorf("ParseDType(%q) = %v, %v", s, got, err)
			}
		}
		if d.Bits() <= 0 || d.Align() < 1 || d.Align()*8 > max(d.Bits(), 8) {
			t.Errorf("%v: %d bits, alignment %d", d, d.Bits(), d.Align())
		}
	}
	if len(seen) != int(numDTypes)-1 {
		t.Errorf("%d names", len(seen))
	}
}

func TestParseDTypeRefusesUnknownNames(t *testing.T) {
	for _, s := range []string{"", "unknown", "float", "float3", "FLOAT32", "\x1b[31m"} {
		if d, err := ParseDType(s); !errors.Is(err, ErrDType) || d != Unknown ||
			strings.Contains(err.Error(), "\x1b") {
			t.Errorf("ParseDType(%q) = %v, %v", s, d, err)
		}
	}
}

func TestDTypeMarshalsAsText(t *testing.T) {
	b, err := json.Marshal(map[DType]DType{BF16: F8E5M2})
	if err != nil || string(b) != `{"bfloat16":"float8_e5m2"}` {
		t.Fatalf("%s, %v", b, err)
	}
	var back map[DType]DType
	if err := json.Unmarshal(b, &back); err != nil || back[BF16] != F8E5M2 {
		t.Fatalf("%v, %v", back, err)
	}
	var d = I8
	if b, err := json.Marshal(Unknown); err != nil || json.Unmarshal(b, &d) != nil ||
		d != Unknown {
		t.Errorf("Unknown as text: %s, %v, %v", b, err, d)
	}
	if _, err := DType(200).MarshalText(); !errors.Is(err, ErrDType) {
		t.Error("a DType that is no constant was marshalled")
	}
	if err := json.Unmarshal([]byte(`"f33"`), new(DType)); !errors.Is(err, ErrDType) {
		t.Error(err)
	}
}

func TestBytesOfElementsAreRoundedUp(t *testing.T) {
	for _, c := range []struct {
		d    DType
		n    int64
		want int64
		ok   bool
	}{
		{F32, 3, 12, true}, {Bool, 0, 0, true}, {C128, 1 << 59, 0, false},
		{C128, 1<<59 - 1, 1<<63 - 16, true},
		{F4E2M1FN, 3, 2, true}, {F4E2M1FN, 4, 2, true}, {F4E2M1FN, 0, 0, true},
		{F4E2M1FN, math.MaxInt64, 1 << 62, true},
		{F6E2M3FN, 1, 1, true}, {F6E2M3FN, 4, 3, true}, {F6E3M2FN, 5, 4, true},
		{F6E3M2FN, -1, 0, false},
		{F6E3M2FN, math.MaxInt64, 6917529027641081856, true},
		{I4, 3, 2, true}, {U2, 5, 2, true}, {I2, 4, 1, true}, {QU4x2, 3, 3, true}, {Unknown, 1,
			0, false}, {DType(250), 1, 0, false},
		{I64, -1, 0, false},
		{I64, 1 << 60, 0, false}, {U8, math.MaxInt64, math.MaxInt64, true},
	} {
		if got, ok := c.d.Bytes(c.n); got != c.want && c.ok || ok != c.ok {
			t.Errorf("%v.Bytes(%d) = %d, %v; want %d, %v", c.d, c.n, got, ok, c.want, c.ok)
		}
	}
}

func TestDTypesAreOfOneKind(t *testing.T) {
	for _, d := range DTypes() {
		n := 0
		for _, is := range []bool{d.IsFloat(), d.IsInt(), d.IsComplex()} {
			if is {
				n++
			}
		}
		if n > 1 {
			t.Errorf("%v is of %d kinds", d, n)
		}
	}
	if !F8E8M0FNU.IsFloat() || !U8.IsInt() || QI8.IsInt() || Bool.IsInt() || !C32.IsComplex() ||
		DType(99).IsFloat() {
		t.Error("kinds")
	}
}
