package tensor

import (
	"errors"
	"testing"
)

func TestReinterpretKeepsBytes(t *testing.T) {
	void := &Tensor{Name: "x", Shape: Shape{2}, Data: BlobOf([]byte{0x80, 0x3f, 0, 0x40})}
	x, err := Reinterpret(void, BF16)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := Load[BFloat16](x); err != nil || v[0].Float32() != 1 || v[1].Float32() != 2 {
		t.Errorf("%v, %v", v, err)
	}
	if x.Name != "x" || void.DType != Unknown {
		t.Errorf("%q; the argument is %v", x.Name, void.DType)
	}
	sparse, external := *void, *void
	sparse.Scheme, external.External = "sparse_coo", true
	for name, c := range map[string]struct {
		t *Tensor
		d DType
	}{"nil": {nil, BF16}, "a wider dtype": {void, F32}, "half a byte": {void, F4E2M1FN},
		"no dtype": {void, Unknown}, "a sparse tensor": {&sparse, BF16},
		"an external one": {&external, BF16}} {
		if _, err := Reinterpret(c.t, c.d); err == nil {
			t.Errorf("%s: no error", name)
		} else if c.t != nil && !errors.Is(err, ErrDType) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
