package ggml

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"slices"
	"testing"
)

// The hashes are of the grids of the gguf package of PyPI, one byte a value.
func TestGridsEqualTheReference(t *testing.T) {
	for _, c := range []struct {
		name          string
		first, rows   int
		columns, bits int
		values        []float32
		want          string
	}{
		{"IQ2_XXS", grid2XXS, 256, 8, 2, values2[:],
			"05826b5d3e472a3a78f196be62ac78acf81df0f909626e12ab9fa2a5d490dd54"},
		{"IQ2_XS", grid2XS, 512, 8, 2, values2[:],
			"06e47aaca60b4dc1d9b5a3f34540437058a6b142b4d7a59d5ded769b4d1bf1de"},
		{"IQ2_S", grid2S, 1024, 8, 2, values2[:],
			"e1aa1473412b0552c2174c30ef22ab4073f6a181b85a17056e8249bd2932fd88"},
		{"IQ3_XXS", grid3XXS, 256, 4, 4, values3XX,
			"46e35f5a997efdee6c99ce57854c8a0d4f0ff8ca57e5e8a60c0793ea580acf5d"},
		{"IQ3_S", grid3S, 512, 4, 4, values3,
			"bd1af4945a1717c65610b0284e4628b9a1ba3b306fae3a06f6e5f597356e349f"},
		{"IQ1_S", grid1, 2048, 8, 2, values1[:],
			"07540ffc1aeaf6ad4d97e96b0fcc765aae39671d4ae4a27bbd0e796fde167c6a"},
	} {
		var b []byte
		for i := range c.rows {
			r := row(c.first + i)
			for k := range c.columns {
				b = append(b, byte(int8(c.values[r>>(c.bits*k)&(1<<c.bits-1)])))
			}
		}
		if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != c.want {
			t.Errorf("the grid of %s has other values", c.name)
		}
	}
	if len(grids) != 2*(grid1+2048) {
		t.Errorf("%d bytes of grids", len(grids))
	}
}

func TestTypesAreFoundByNumberAndName(t *testing.T) {
	n := 0
	for i := range uint32(1000) {
		k, ok := Number(i)
		if !ok {
			continue
		}
		n++
		if named, ok := Named(k.Name); !ok || named.Bytes != k.Bytes || k.decode == nil {
			t.Errorf("%d is %q", i, k.Name)
		}
	}
	k, ok := Named("q4_k")
	if n != 27 || !ok || k.Name != "Q4_K" || k.Elements != 256 || k.Bytes != 144 {
		t.Errorf("%d types; %+v", n, k)
	}
	for _, name := range []string{"", "F32", "Q8_1", "Q4_2"} {
		if _, ok := Named(name); ok {
			t.Errorf("%q is known", name)
		}
	}
}

// decoded returns the values of one block of that type, which begins with b.
func decoded(name string, b ...byte) []float32 {
	k, _ := Named(name)
	y := make([]float32, k.Elements)
	k.Decode(y, append(b, make([]byte, int(k.Bytes)-len(b))...))
	return y
}

// Blocks that the gguf package does not decode, and that are hardly ever random.
func TestBlocksOfRareTypesDecode(t *testing.T) {
	one := []byte{0x00, 0x3c} // as float16
	q8K := binary.LittleEndian.AppendUint32(nil, math.Float32bits(0.5))
	for _, c := range []struct {
		name  string
		block []byte
		want  []float32 // of the first elements
	}{
		{"Q8_K", append(q8K, 2, 0x80, 0xff), []float32{1, -64, -0.5, 0}},
		{"Q1_0", append(slices.Clone(one), 0b101), []float32{1, -1, 1, -1}},
		{"Q2_0", append(slices.Clone(one), 0b11_10_01_00), []float32{-1, 0, 1, 2}},
		{"MXFP4", []byte{0, 0x07}, []float32{12 * 0x1p-128, 0}},
		{"MXFP4", []byte{1, 0x0f}, []float32{-12 * 0x1p-127, 0}},
		{"MXFP4", []byte{255, 0x01}, []float32{0x1p127, 0}},
		{"NVFP4", []byte{0x7f, 0, 0, 0, 0x07}, []float32{0}},
		{"NVFP4", []byte{0xff, 0, 0, 0, 0x07}, []float32{12 * 240}},
		{"NVFP4", []byte{0x01, 0, 0, 0, 0x07}, []float32{12 * 0x1p-10}},
		{"Q4_0", []byte{0x01, 0x00, 0x09}, []float32{0x1p-24, -8 * 0x1p-24}}, // a subnormal scale
	} {
		if got := decoded(c.name, c.block...); !slices.Equal(got[:len(c.want)], c.want) {
			t.Errorf("%s %x: %v, want %v", c.name, c.block, got[:len(c.want)], c.want)
		}
	}
	if y := decoded("Q8_0", append(one, 0)...); math.Signbit(float64(y[0])) {
		t.Error("a zero has a sign")
	}
	if y := decoded("Q8_0", 0x00, 0x80, 5); !math.Signbit(float64(y[0])) {
		t.Error("-0 times 5 has no sign")
	}
}

// Among zeros of both signs, the minimum of a block is the first.
func TestEncodeKeepsTheSignOfTheFirstZero(t *testing.T) {
	negative := float32(math.Copysign(0, -1))
	for name, first := range map[string]float32{"Q4_1": 0, "Q5_1": negative} {
		x := make([]float32, 32)
		x[0], x[1], x[2] = first, -first, 1
		k, _ := Named(name)
		b := make([]byte, k.Bytes)
		if err := k.Encode(b, x); err != nil || b[3]>>7 != 0 != math.Signbit(float64(first)) {
			t.Errorf("%s of %v first: a minimum of %x, %v", name, first, b[2:4], err)
		}
	}
}

// Indices stay inside of the tables, for all bits.
func TestDecodingIsSafeForAllBits(t *testing.T) {
	for _, k := range types {
		if k.Name == "" {
			continue
		}
		for _, c := range []byte{0, 0x55, 0xaa, 0xff} {
			src := make([]byte, 2*k.Bytes)
			for i := range src {
				src[i] = c
			}
			dst := make([]float32, 2*k.Elements)
			k.Decode(dst, src)
			for i, v := range dst[:k.Elements] {
				if w := dst[int(k.Elements)+i]; v != w && v == v {
					t.Fatalf("%s: equal blocks have the values %v and %v", k.Name, v, w)
				}
			}
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, k := range types {
		if k.Name == "" {
			continue
		}
		b.Run(k.Name, func(b *testing.B) {
			n := (1 << 20) / k.Elements
			src, dst := make([]byte, n*k.Bytes), make([]float32, n*k.Elements)
			for i := range src {
				src[i] = byte(i * 7)
			}
			b.SetBytes(4 << 20)
			for b.Loop() {
				k.Decode(dst, src)
			}
		})
	}
}
