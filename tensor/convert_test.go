package tensor

import (
	"encoding/binary"
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
)

// scalarValue is the value of one element computed alone: the oracle of the loops.
func scalarValue(d DType, b []byte) float64 {
	switch d {
	case I8, QI8:
		return float64(int8(b[0]))
	case I16:
		return float64(int16(binary.LittleEndian.Uint16(b)))
	case U16, Bits16:
		return float64(binary.LittleEndian.Uint16(b))
	case I32, QI32:
		return float64(int32(binary.LittleEndian.Uint32(b)))
	case U32:
		return float64(binary.LittleEndian.Uint32(b))
	case F16:
		return float64(Float16(binary.LittleEndian.Uint16(b)).Float32())
	case BF16:
		return float64(BFloat16(binary.LittleEndian.Uint16(b)).Float32())
	case F32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
	case F64:
		return math.Float64frombits(binary.LittleEndian.Uint64(b))
	case F8E4M3FN:
		return float64(Float8E4M3FN(b[0]).Float32())
	case F8E5M2:
		return float64(Float8E5M2(b[0]).Float32())
	case F8E4M3FNUZ:
		return float64(Float8E4M3FNUZ(b[0]).Float32())
	case F8E5M2FNUZ:
		return float64(Float8E5M2FNUZ(b[0]).Float32())
	case F8E8M0FNU:
		return float64(Float8E8M0FNU(b[0]).Float32())
	}
	return float64(b[0])
}

func sameFloat(a, b float64) bool { return a == b || a != a && b != b }

func TestConvertToFloat64DecodesEveryDType(t *testing.T) {
	const n = 70_001 // more than a piece, and no whole number of bytes of 6 bits
	for _, d := range DTypes() {
		if d.IsComplex() || d.Bits()%8 != 0 || d == I64 || d == U64 {
			continue
		}
		x := randomTensor(d, n, 1)
		b, _ := x.Data.Bytes()
		for _, x := range []*Tensor{x, streamed(x)} {
			got, err := Convert[float64](x)
			if err != nil || len(got) != n {
				t.Fatalf("%v: %d elements, %v", d, len(got), err)
			}
			for i, v := range got {
				if want := scalarValue(d, b[i*d.Size():]); !sameFloat(v, want) {
					t.Fatalf("%v: element %d is %v, want %v", d, i, v, want)
				}
			}
		}
	}
}

// Elements of less than a byte: every code, at every place in a byte (OCP MX
// specification, 5.3).
func TestConvertDecodesEveryPackedFloat(t *testing.T) {
	for d, want := range map[DType][]float64{
		F4E2M1FN: {0, 0.5, 1, 1.5, 2, 3, 4, 6},
		F6E2M3FN: {0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1, 1.125, 1.25, 1.375, 1.5,
			1.625, 1.75, 1.875,
			2, 2.25, 2.5, 2.75, 3, 3.25, 3.5, 3.75, 4, 4.5, 5, 5.5, 6, 6.5, 7, 7.5},
		F6E3M2FN: {0, 0.0625, 0.125, 0.1875, 0.25, 0.3125, 0.375, 0.4375, 0.5, 0.625, 0.75, 0.875,
			1, 1.25, 1.5, 1.75,
			2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28},
	} {
		bits, codes := d.Bits(), 2*len(want)
		const n = 100
		packed := make([]byte, (n*bits+7)/8)
		for i := range n {
			code := i % codes
			for bit := range bits {
				packed[(i*bits+bit)/8] |= byte(code>>bit&1) << ((i*bits + bit) % 8)
			}
		}
		x := &Tensor{Name: "x", DType: d, Shape: Shape{n}, Data: BlobOf(packed)}
		got, err := Convert[float32](x)
		if err != nil {
			t.Fatal(d, err)
		}
		for i, v := range got {
			code := i % codes
			w := want[code%len(want)]
			if code >= len(want) {
				w = -w
			}
			if float64(v) != w || math.Signbit(float64(v)) != (code >= len(want)) {
				t.Errorf("%v: code %d is %v, want %v", d, code, v, w)
			}
		}
	}
}

// Integers of less than a byte: every code at every place in a byte, there and back.
func TestConvertDecodesEveryPackedInteger(t *testing.T) {
	for _, c := range []struct {
		d      DType
		packed string // of values
		values []int64
	}{
		{I4, "\xe1\x03", []int64{1, -2, 3}},
		{U4, "\xe1\x03", []int64{1, 14, 3}},
		{U2, "\x39\x02", []int64{1, 2, 3, 0, 2}},
		{I2, "\x39\x02", []int64{1, -2, -1, 0, -2}},
	} {
		x := &Tensor{DType: c.d, Shape: Shape{int64(len(c.values))},
			Data: BlobOf([]byte(c.packed))}
		if got, err := Convert[int64](x); err != nil || !slices.Equal(got, c.values) {
			t.Errorf("%v: %v, %v; want %v", c.d, got, err, c.values)
		}
		back, err := As(New("", x.Shape, c.values), c.d)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := back.Data.ReadAll(); err != nil || string(b) != c.packed {
			t.Errorf("%v: packed as %x, %v; want %x", c.d, b, err, c.packed)
		}
		const n = 70_001 // more than a piece, and no whole number of bytes
		random := randomTensor(c.d, n, 3)
		b, _ := random.Data.Bytes()
		bits := c.d.Bits()
		for _, x := range []*Tensor{random, streamed(random)} {
			got, err := Convert[float32](x)
			if err != nil || len(got) != n {
				t.Fatal(c.d, len(got), err)
			}
			for i, v := range got {
				want := int(b[i*bits/8]) >> (i * bits % 8) & (1<<bits - 1)
				if (c.d == I4 || c.d == I2) && want >= 1<<(bits-1) {
					want -= 1 << bits
				}
				if v != float32(want) {
					t.Fatalf("%v: element %d is %v, want %d", c.d, i, v, want)
				}
			}
			packed, err := As(New("", Shape{n}, got), c.d)
			if err != nil {
				t.Fatal(err)
			}
			again, err := Convert[float32](packed)
			if err != nil || !slices.Equal(again, got) {
				t.Errorf("%v: other values after packing, %v", c.d, err)
			}
		}
		for _, v := range []int64{slices.Max(c.values) + 15, slices.Min(c.values) - 15} {
			bad, err := As(New("", Shape{2}, []int64{0, v}), c.d)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := bad.Data.ReadAll(); !errors.Is(err, ErrDType) {
				t.Errorf("%d as %v: %v", v, c.d, err)
			}
		}
	}
}

func TestConvertRoundsOnce(t *testing.T) {
	const half = 1<<24 + 1 // between two values of float32
	for _, c := range []struct {
		x    *Tensor
		want []float32
	}{
		{New("i", Shape{4}, []int64{half, 1<<62 + 1<<38 + 1, -1<<62 - 1<<38 - 1, math.MaxInt64}),
			[]float32{1 << 24, 0x1.000002p62, -0x1.000002p62, 1 << 63}},
		{New("u", Shape{3}, []uint64{half, 1<<63 + 1<<39 + 1, math.MaxUint64}),
			[]float32{1 << 24, 0x1.000002p63, 1 << 64}},
		{New("d", Shape{2}, []float64{1 + 0x1p-24, 1 + 0x1p-24 + 0x1p-50}),
			[]float32{1, 1 + 0x1p-23}},
	} {
		if got, err := Convert[float32](c.x); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v (%v)", c.x.Name, got, c.want, err)
		}
	}
	// 1 + 2^-11 is in the middle of two values of float16; what is above by less than
	// float32 shows rounds up.
	got, err := Convert[Float16](New("d", Shape{2}, []float64{1 + 0x1p-11, 1 + 0x1p-11 + 0x1p-40}))
	if err != nil || got[0].Float32() != 1 || got[1].Float32() != 1+0x1p-10 {
		t.Errorf("%v %v, %v", got[0].Float32(), got[1].Float32(), err)
	}
}

func TestConvertRefusesWhatDoesNotFit(t *testing.T) {
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, ErrDType) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := Convert[int8](New("x", Shape{2}, []int16{127, 128}))
	refused("128 as int8", err)
	_, err = Convert[uint64](New("x", Shape{1}, []int8{-1}))
	refused("-1 as uint64", err)
	_, err = Convert[int64](New("x", Shape{1}, []uint64{1 << 63}))
	refused("2^63 as int64", err)
	_, err = Convert[int32](New("x", Shape{1}, []float32{0.5}))
	refused("0.5 as int32", err)
	_, err = Convert[int32](New("x", Shape{1}, []float64{math.NaN()}))
	refused("NaN as int32", err)
	_, err = Convert[uint64](New("x", Shape{1}, []float64{1 << 64}))
	refused("2^64 as uint64", err)
	_, err = Convert[bool](New("x", Shape{1}, []int8{2}))
	refused("2 as bool", err)
	_, err = Convert[float64](New("x", Shape{1}, []complex64{1}))
	refused("a complex number as float64", err)
	_, err = Convert[Float8E8M0FNU](New("x", Shape{1}, []float32{1}))
	refused("float8_e8m0fnu, which is not encoded", err)
	_, err = Convert[int32](nil)
	if !errors.Is(err, ErrNoTensor) {
		t.Errorf("nil: %v", err)
	}
	_, err = Convert[int32](&Tensor{Name: "x", DType: Bool, Shape: Shape{1},
		Data: BlobOf([]byte{77})})
	if !errors.Is(err, ErrMalformed) {
		t.Errorf("a bool of 77: %v", err)
	}
}

func TestConvertKeepsIntegersExactly(t *testing.T) {
	got, err := Convert[uint64](New("x", Shape{3}, []float64{0, 1 << 53, 1 << 63}))
	if err != nil || !slices.Equal(got, []uint64{0, 1 << 53, 1 << 63}) {
		t.Error(got, err)
	}
	small, err := Convert[int8](New("x", Shape{3}, []uint64{0, 1, 127}))
	if err != nil || !slices.Equal(small, []int8{0, 1, 127}) {
		t.Error(small, err)
	}
	bools, err := Convert[bool](New("x", Shape{2}, []float32{1, 0}))
	if err != nil || !slices.Equal(bools, []bool{true, false}) {
		t.Error(bools, err)
	}
	c, err := Convert[complex128](New("x", Shape{2}, []int64{1<<53 + 2, -1}))
	if err != nil || !slices.Equal(c, []complex128{1<<53 + 2, -1}) {
		t.Error(c, err)
	}
	cc, err := Convert[complex64](New("x", Shape{1}, []complex128{1 + 2i}))
	if err != nil || cc[0] != 1+2i {
		t.Error(cc, err)
	}
}

func TestConvertGivesRowMajor(t *testing.T) {
	x := New("x", Shape{2, 3}, []int8{1, 4, 2, 5, 3, 6})
	x.Order = ColumnMajor(2)
	got := make([]float32, 6)
	if err := ConvertInto(got, x); err != nil || !slices.Equal(got, []float32{1, 2, 3, 4, 5, 6}) {
		t.Error(got, err)
	}
	if err := ConvertInto(got[:5], x); err == nil {
		t.Error("5 elements took 6")
	}
}

func TestValuesComeInPieces(t *testing.T) {
	x := streamed(randomTensor(BF16, 200_000, 3))
	want, err := Convert[float64](x)
	if err != nil {
		t.Fatal(err)
	}
	var got []float64
	for p, err := range Values[float64](x) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, p...)
	}
	if len(got) != len(want) || !sameFloat(got[199_999], want[199_999]) {
		t.Errorf("%d elements, want %d", len(got), len(want))
	}
	for range Values[float64](x) {
		break
	}
}

func TestAsConvertsWhileReading(t *testing.T) {
	x := randomTensor(F16, 150_000, 4)
	y, err := As(x, F32)
	if err != nil {
		t.Fatal(err)
	}
	want, err := Convert[float32](x)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Load[float32](y)
	if err != nil || len(got) != len(want) {
		t.Fatal(len(got), err)
	}
	for i := range got {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("element %d: %v, want %v", i, got[i], want[i])
		}
	}
	if _, err := As(x, F8E8M0FNU); !errors.Is(err, ErrDType) {
		t.Error(err)
	}
	bad, err := As(New("x", Shape{2}, []int32{1, 300}), U8)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bad.Data.ReadAll(); !errors.Is(err, ErrDType) {
		t.Errorf("300 as uint8: %v", err)
	}
}

// Rounding once, held against exact arithmetic: the nearest of the two
// values of the dtype, the even one of two that are as near.
func TestNarrowingRoundsOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	exact := func(d DType, b []byte) *big.Float {
		if d == U64 {
			return new(big.Float).SetPrec(100).SetUint64(binary.LittleEndian.Uint64(b))
		}
		if d == I64 {
			return new(big.Float).SetPrec(100).SetInt64(int64(binary.LittleEndian.Uint64(b)))
		}
		return new(big.Float).SetPrec(100).SetFloat64(scalarValue(d, b))
	}
	for _, from := range []DType{F64, I64, U64} {
		for _, to := range []DType{F32, F16, BF16} {
			for i := range 8_000 {
				v := rng.Uint64() >> rng.IntN(60)
				if from == F64 {
					// Near the middle between two float16 or bfloat16 values.
					base := float64(Float16(1 + rng.Uint32N(0x7bff)).Float32())
					if to == BF16 {
						base = float64(BFloat16(1 + rng.Uint32N(0x7eff)).Float32())
					}
					next := base * (1 + 0x1p-11)
					if to == BF16 {
						next = base * (1 + 0x1p-8)
					}
					v = math.Float64bits(next) + uint64(i%5) - 2
				}
				src := binary.LittleEndian.AppendUint64(nil, v)
				dst := make([]byte, to.Size())
				in := slices.Clone(src)
				toHost(in, from)
				if bad := convertElements(dst, to, in, from, 1); bad >= 0 {
					t.Fatal("refused")
				}
				toHost(dst, to)
				got := scalarValue(to, dst)
				if math.IsInf(got, 0) {
					continue
				}
				x := exact(from, src)
				err := func(code uint64) *big.Float {
					b := binary.LittleEndian.AppendUint64(nil, code)[:to.Size()]
					y := scalarValue(to, b)
					if math.IsInf(y, 0) || math.IsNaN(y) {
						return new(big.Float).SetInf(false)
					}
					d := new(big.Float).SetPrec(200).Sub(new(big.Float).SetFloat64(y), x)
					return d.Abs(d)
				}
				code := binary.LittleEndian.Uint64(append(slices.Clone(dst), make([]byte, 8)...))
				mine := err(code)
				for _, other := range []uint64{code - 1, code + 1} {
					if code&(1<<(to.Bits()-1)-1) == 0 && other == code-1 {
						continue // below zero the sign is another
					}
					if c := err(other).Cmp(mine); c < 0 || c == 0 && code&1 == 1 {
						t.Fatalf("%v %v became %v %v: 0x%x is nearer, or even", from, x, to, got,
							other)
					}
				}
			}
		}
	}
}
