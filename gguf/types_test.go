package gguf

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

// packed is a file of tensors without metadata, whose data is of zeros, one after the
// other.
func packed(t *testing.T, infos ...info) []byte {
	t.Helper()
	end := int64(0)
	for i := range infos {
		infos[i].offset = end
		end += (infos[i].size + 31) / 32 * 32
	}
	b, err := encodeHeader(nil, infos)
	if err != nil {
		t.Fatal(err)
	}
	b = append(b, make([]byte, -len(b)&31)...)
	return append(b, make([]byte, end)...)
}

func TestTypesOfForksHaveNumberAndName(t *testing.T) {
	for kind, want := range map[uint32]string{137: "ggml_type 137 (IQ2_K)",
		36: "ggml_type 36 (I2_S)", 31: "ggml_type 31 (Q4_0_4_4)", 999: "ggml_type 999",
		142: "ggml_type 142", 9: "ggml_type 9 (Q8_1)"} {
		// 142 without the space of PQ2_0 is another type.
		r, err := OpenBytes(packed(t, info{name: "w", shape: tensor.Shape{256}, kind: kind,
			size: 160}), nil)
		if err != nil {
			t.Fatal(err)
		}
		x := r.Tensor("w")
		if st, _ := x.Parts[0].Data.Stored(); x.Scheme != want || st.Type != want ||
			x.Size() != 160 || len(r.Warnings()) != 1 {
			t.Errorf("%d: %q %q, %d bytes, %v", kind, x.Scheme, st.Type, x.Size(), r.Warnings())
		}
		if _, err := tensor.As(x, tensor.F32); err == nil {
			t.Errorf("%d has values", kind)
		}
	}
}

// Number 42 is Q2_0 in blocks of 64 elements in ggml, and was in blocks of 128 before.
func TestQ2OfTwoSizesIsToldApart(t *testing.T) {
	shape := tensor.Shape{32, 256} // 2,304 or 2,176 bytes
	tensors := func(kind uint32, sizes ...int64) (infos []info) {
		for i, n := range sizes {
			infos = append(infos, info{name: string(rune('a' + i)), shape: shape, kind: kind,
				size: n})
		}
		return infos
	}
	small := info{name: "s", shape: tensor.Shape{128}, kind: q2, size: 34}
	for name, c := range map[string]struct {
		infos []info
		want  string
	}{
		"as in ggml":               {tensors(q2, 2304, 2304), "Q2_0"},
		"wide":                     {tensors(q2, 2176, 2176), "PQ2_0"},
		"of its own number":        {tensors(pq2, 2176, 2176), "PQ2_0"},
		"wide, one of either size": {append(tensors(q2, 2176), small), "PQ2_0"},
		"of either size":           {[]info{small}, "Q2_0"},
		"empty": {append(tensors(q2, 2176), info{name: "e", shape: tensor.Shape{0, 128},
			kind: q2}), "PQ2_0"},
	} {
		b := packed(t, c.infos...)
		r, err := OpenBytes(b, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		isWarned := false
		for _, w := range r.Warnings() {
			isWarned = isWarned || strings.Contains(w.Error(), "ggml refuses the file")
		}
		if x := r.Tensor(c.infos[0].name); x.Scheme != c.want || isWarned != (c.want == "PQ2_0") {
			t.Errorf("%s: %s, %v", name, x.Scheme, r.Warnings())
		}
		var out bytes.Buffer
		if err := NewEdit(r).Write(t.Context(), &out, nil); err != nil ||
			!bytes.Equal(out.Bytes(), b) {
			t.Errorf("%s: an Edit without changes writes other bytes: %v", name, err)
		}
	}
	// A file that ends early is not one of wide blocks.
	b := packed(t, tensors(q2, 2304, 2304)...)
	if _, err := OpenBytes(b[:len(b)-32], nil); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut: %v", err)
	}
	if _, err := OpenBytes(packed(t, tensors(q2, 2304, 160)...), nil); err == nil {
		t.Error("a tensor that fits neither is read")
	}
}

func TestPQ2IsDecodedAndNotWritten(t *testing.T) {
	b := packed(t, info{name: "w", shape: tensor.Shape{2, 128}, kind: pq2, size: 68})
	at := len(b) - 96
	copy(b[at+34:], []byte{0, 0x3c, 0b11100100}) // a scale of 1, and codes 0 to 3
	r, err := OpenBytes(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	y, err := tensor.Convert[float32](r.Tensor("w"))
	if err != nil || y[128] != -1 || y[129] != 0 || y[130] != 1 || y[131] != 2 {
		t.Errorf("%v, %v", y, err)
	}
	if err := NewWriter(io.Discard, nil).Check(r.Tensor("w")); !errors.Is(err,
		errors.ErrUnsupported) {
		t.Errorf("Check of a Writer: %v", err)
	}
}

func TestBigEndianBlocksWithoutADefinedOrderAreRefused(t *testing.T) {
	b := bytes.Clone(golden(t, "order-big.gguf"))
	i := bytes.Index(b, []byte("Q8_0")) + len("Q8_0") + 4 + 2*8 + 3 // the last byte of its type
	if b[i] != 8 {
		t.Fatal("not the type")
	}
	for _, kind := range []byte{20, 99} { // IQ4_NL, which takes less, and one that is not known
		b[i] = kind
		if _, err := OpenBytes(b, nil); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%d: %v", kind, err)
		}
	}
}
