package tensor

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"testing"
)

// smallFloat is one of the float types, through float32 both ways.
type smallFloat struct {
	name           string
	bits           int
	decode         func(code uint32) float32
	encode         func(float32) uint32 // nil where there is none
	decSum, encSum string               // printed by interop/smallfloats.py
}

var smallFloats = []smallFloat{
	{"F16", 16, func(c uint32) float32 { return Float16(c).Float32() },
		func(v float32) uint32 { return uint32(NewFloat16(v)) },
		"385ff5fe69182797cda5f1827e20cf423f4416bc9246f27d0eec27cac9039259",
		"c24aa9583e6ba7f068573734a8ac5e609e7e7901d42f403bcc38d89cf68d09b3"},
	{"BF16", 16, func(c uint32) float32 { return BFloat16(c).Float32() },
		func(v float32) uint32 { return uint32(NewBFloat16(v)) },
		"f12e27efe34841dfd6391497b86f389096b03a376586e1d9691bba0a8de3980a",
		"df7c935c78bfa842f3dc2989c29e0e545ab4bfe4a0d53cd41ecd2e08e29f3192"},
	{"F8E4M3FN", 8, func(c uint32) float32 { return Float8E4M3FN(c).Float32() },
		func(v float32) uint32 { return uint32(NewFloat8E4M3FN(v)) },
		"422eccfaa21e72a6b26855bb10cdcfead6c1ce3262ecd813c99d8cbf9677f2e2",
		"7ab242cf9751e82c8d3a0861712f0d6429c239f1f58110b0fa981c29182418f9"},
	{"F8E5M2", 8, func(c uint32) float32 { return Float8E5M2(c).Float32() },
		func(v float32) uint32 { return uint32(NewFloat8E5M2(v)) },
		"229a94c5f728edf2259da970a0e1dfb45cc1d69cce2b30e37659f3212ec4b8b9",
		"03e03b636ae98ff0f7045894b2b7c082e2e7c7effabecb9c333a9a4f60534370"},
	{"F8E4M3FNUZ", 8, func(c uint32) float32 { return Float8E4M3FNUZ(c).Float32() },
		func(v float32) uint32 { return uint32(NewFloat8E4M3FNUZ(v)) },
		"ac4866f772a7c08077713fde1fa54131d49c26339c885e971a24fc0fac6e33f4",
		"2e3d7b5eb69e42ca9d55e9a7451773693f14e7220e1dba72cedc09ee287b0f4c"},
	{"F8E5M2FNUZ", 8, func(c uint32) float32 { return Float8E5M2FNUZ(c).Float32() },
		func(v float32) uint32 { return uint32(NewFloat8E5M2FNUZ(v)) },
		"aac12d2730bf26ca53bfa107a7a6a8df192aba8cf58b971eec9126f83991e6d4",
		"4a74a7db5b193f98c8cab5acee17cf5da14603dec1c9e3715ad98bae0fa29c68"},
	{"F8E8M0FNU", 8, func(c uint32) float32 { return Float8E8M0FNU(c).Float32() }, nil,
		"2fb2732a956043772ccd2c1664ae5d2558c62f9c06780c04d95f1ff0050f2f2f", ""},
}

func TestSmallFloatsAgreeWithMlDtypes(t *testing.T) {
	for _, f := range smallFloats {
		t.Run(f.name, func(t *testing.T) {
			h := sha256.New()
			for c := range uint32(1) << f.bits {
				b := math.Float32bits(f.decode(c))
				if v := f.decode(c); v != v {
					b = 0x7fc00000
				}
				h.Write(binary.LittleEndian.AppendUint32(nil, b))
			}
			if got := hex.EncodeToString(h.Sum(nil)); got != f.decSum {
				t.Errorf("the table of all values is %s", got)
			}
			if f.encode == nil {
				return
			}
			h.Reset()
			for _, low := range []uint32{0, 1, 0x4000, 0x7fff} {
				for i := range uint32(1) << 17 {
					c := f.encode(math.Float32frombits(i<<15 | low))
					if v := f.decode(c); v != v {
						c = 0
					}
					var b [4]byte
					binary.LittleEndian.PutUint32(b[:], c)
					h.Write(b[:f.bits/8])
				}
			}
			if got := hex.EncodeToString(h.Sum(nil)); got != f.encSum {
				t.Errorf("the table of rounded codes is %s", got)
			}
		})
	}
}

func TestSmallFloatsComeBack(t *testing.T) {
	for _, f := range smallFloats {
		if f.encode == nil {
			continue
		}
		for c := range uint32(1) << f.bits {
			v := f.decode(c)
			if v != v && f.bits == 8 && f.name != "F8E5M2" {
				if back := f.decode(f.encode(v)); back == back {
					t.Errorf("%s: NaN 0x%x did not stay one", f.name, c)
				}
				continue
			}
			if got := f.encode(v); got != c { // NaN payloads included
				t.Errorf("%s: 0x%x is %v and comes back as 0x%x", f.name, c, v, got)
			}
		}
	}
}

// Rounding to the nearest, ties to even, held against float64 arithmetic on
// every pair of adjacent values: their middle, and the float32 on each side of it.
func TestValuesBetweenAdjacentOnesRoundToEven(t *testing.T) {
	for _, f := range smallFloats {
		if f.encode == nil {
			continue
		}
		half := uint32(1) << (f.bits - 1)
		for c := uint32(0); c+1 < half; c++ {
			a, b := float64(f.decode(c)), float64(f.decode(c+1))
			if math.IsNaN(b) || math.IsInf(b, 0) || math.IsNaN(a) || math.IsInf(a, 0) {
				continue
			}
			mid := float32((a + b) / 2)
			even := c
			if c&1 == 1 {
				even = c + 1
			}
			for _, x := range []struct {
				v    float32
				want uint32
			}{
				{mid, even},
				{math.Nextafter32(mid, float32(a)), c},
				{math.Nextafter32(mid, float32(b)), c + 1},
			} {
				if float64(mid) != (a+b)/2 && x.v == mid {
					continue // the middle is below float32's own last place
				}
				if got := f.encode(x.v); got != x.want {
					t.Fatalf("%s: %v between 0x%x and 0x%x went to 0x%x, not 0x%x", f.name, x.v, c,
						c+1, got, x.want)
				}
				if f.name != "F8E4M3FNUZ" && f.name != "F8E5M2FNUZ" || x.want != 0 {
					if got := f.encode(-x.v); got != x.want|half {
						t.Fatalf("%s: -%v went to 0x%x", f.name, x.v, got)
					}
				}
			}
		}
	}
}

func TestNaNsStayNaNsInSmallFloats(t *testing.T) {
	for _, c := range []struct {
		in   uint32
		f16  Float16
		bf16 BFloat16
	}{
		{0x7f800001, 0x7c01, 0x7f81}, // only the lowest bit: it must not become an infinity
		{0xff800001, 0xfc01, 0xff81},
		{0x7fc00000, 0x7e00, 0x7fc0},
		{0x7fa12345, 0x7d09, 0x7fa1},
	} {
		v := math.Float32frombits(c.in)
		if got := NewFloat16(v); got != c.f16 {
			t.Errorf("NaN %08x as float16 is %04x, not %04x", c.in, got, c.f16)
		}
		if got := NewBFloat16(v); got != c.bf16 {
			t.Errorf("NaN %08x as bfloat16 is %04x, not %04x", c.in, got, c.bf16)
		}
	}
}
