package quant_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tensorfile/tensorfile/quant"
	"github.com/tensorfile/tensorfile/tensor"
)

// A sample is a model with one quantised weight, and its elements computed one at a time
// from the bytes of the parts, by the formulas of docs/quantized.md.
type sample struct {
	name, scheme, config string
	attributes           map[string]string
	weight               string
	shape                tensor.Shape
	tensors              []*tensor.Tensor
	at                   func(r, c int64) float32 // of the matrix, its batches one below another
}

// bytesOf returns the bytes of a tensor in memory.
func bytesOf(t *tensor.Tensor) []byte {
	b, _ := t.Data.Memory()
	return b
}

// element returns element i of a tensor, plainly.
func element(t *tensor.Tensor, i int64) float32 {
	b := bytesOf(t)
	switch t.DType {
	case tensor.F32:
		return math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	case tensor.BF16:
		return tensor.BFloat16(binary.LittleEndian.Uint16(b[2*i:])).Float32()
	case tensor.F16:
		return tensor.Float16(binary.LittleEndian.Uint16(b[2*i:])).Float32()
	case tensor.F8E4M3FN:
		return tensor.Float8E4M3FN(b[i]).Float32()
	case tensor.F8E5M2:
		return tensor.Float8E5M2(b[i]).Float32()
	case tensor.F8E8M0FNU, tensor.U8:
		return float32(math.Ldexp(1, int(b[i])-127))
	case tensor.I8:
		return float32(int8(b[i]))
	}
	panic(t.DType)
}

// field returns n bits from bit i on of a stream, the lowest first.
func field(b []byte, i, n int64) int64 {
	v := int64(0)
	for k := range n {
		v |= int64(b[(i+k)/8]>>((i+k)%8)&1) << k
	}
	return v
}

// fp4 is the value of a code of E2M1.
func fp4(code int64) float32 {
	e, m := code>>1&3, float64(code&1)
	v := m / 2
	if e > 0 {
		v = math.Ldexp(1+m/2, int(e-1))
	}
	if code&8 != 0 {
		v = -v
	}
	return float32(v)
}

func times(x, y float32) float32 { return float32(x * y) }

// exponents makes a tensor of E8M0 without NaN, near 1.
func exponents(r *rand.Rand, name string, d tensor.DType, shape ...int64) *tensor.Tensor {
	t := random(r, name, d, shape...)
	for i := range bytesOf(t) {
		bytesOf(t)[i] = byte(107 + r.IntN(40))
	}
	return t
}

const (
	fp8Config  = `{"quantization_config":{"quant_method":"fp8","weight_block_size":[%d,%d]}}`
	ctConfig   = `{"quantization_config":{"quant_method":"compressed-tensors","format":%q,"config_groups":{"g":{"targets":["Linear"],"weights":%s}}}}`
	wordConfig = `{"quantization_config":{"quant_method":%q,"bits":%d,"group_size":%d,"checkpoint_format":"gptq%s"}}`
)

// samples makes a sample of each layout. n, k and g are sizes that they take as far as
// they can.
func samples(r *rand.Rand, n, k, g int64) []sample {
	floats := []tensor.DType{tensor.F32, tensor.BF16, tensor.F16}
	float := floats[r.IntN(len(floats))]
	up := func(x, m int64) int64 { return (x + m - 1) / m * m }
	var all []sample
	{ // FP8 in blocks, with an experts' dimension
		e, bm, bn := 1+int64(r.IntN(3)), 1+int64(r.IntN(9)), g
		q := random(r, "x", tensor.F8E4M3FN, e, n, k)
		s := random(r, "x_scale_inv", float, e, up(n, bm)/bm, up(k, bn)/bn)
		all = append(all, sample{"experts", "fp8-block", fmt.Sprintf(fp8Config, bm, bn), nil,
			"x", q.Shape,
			[]*tensor.Tensor{q, s}, func(row, c int64) float32 {
				x, row2 := row/n, row%n
				return times(element(q, row*k+c), element(s,
					(x*s.Shape[1]+row2/bm)*s.Shape[2]+c/bn))
			}})
	}
	{
		q, s := random(r, "m.weight", tensor.F8E4M3FN, n, k), random(r, "m.weight_scale", float,
			n, 1)
		all = append(all, sample{"channel", "fp8-channel", "", nil, "m.weight", q.Shape,
			[]*tensor.Tensor{q, s},
			func(row, c int64) float32 { return times(element(q, row*k+c), element(s, row)) }})
	}
	{
		k := up(k, 16)
		q, s := random(r, "m.weight", tensor.U8, n, k/2), random(r, "m.weight_scale",
			tensor.F8E4M3FN, n, k/16)
		s2 := random(r, "m.weight_scale_2", tensor.F32)
		all = append(all, sample{"modelopt", "nvfp4", "", nil, "m.weight", tensor.Shape{n, k},
			[]*tensor.Tensor{q, s, s2},
			func(row, c int64) float32 {
				return times(fp4(field(bytesOf(q), 4*(row*k+c), 4)), times(element(s,
					row*k/16+c/16), element(s2, 0)))
			}})
		p := random(r, "m.weight_packed", tensor.U8, n, k/2)
		d := random(r, "m.weight_global_scale", tensor.F32, 1)
		all = append(all, sample{"compressed-tensors", "nvfp4", "", nil, "m.weight",
			tensor.Shape{n, k}, []*tensor.Tensor{p, s, d},
			func(row, c int64) float32 {
				return times(fp4(field(bytesOf(p), 4*(row*k+c), 4)), float32(element(s,
					row*k/16+c/16)/element(d, 0)))
			}})
		w := random(r, "m.weight", tensor.U8, n, k/2)
		rows, cols := up(n, 128), up(k/16, 4)
		z := random(r, "m.weight_scale", tensor.F8E4M3FN, rows, cols)
		all = append(all, sample{"comfyui", "nvfp4", "",
			map[string]string{"_quantization_metadata": `{"layers":{"m":{"format":"nvfp4"}}}`},
			"m.weight", tensor.Shape{n, k}, []*tensor.Tensor{w, z, s2}, func(row,
				c int64) float32 {
				if k%16 != 0 {
					panic(k)
				}
				b := c / 16
				at := (row/128*(cols/4)+b/4)*512 + row%32*16 + row%128/32*4 + b%4
				return times(fp4(field(bytesOf(w), 4*(row*k+c^1), 4)), times(element(s2, 0),
					element(z, at)))
			}})
	}
	{
		k := up(k, 32)
		q, s := random(r, "m.weight_packed", tensor.U8, n, 3*k/4), exponents(r, "m.weight_scale",
			tensor.U8, n, k/32)
		all = append(all, sample{"packed", "mxfp6", "", nil, "m.weight", tensor.Shape{n, k},
			[]*tensor.Tensor{q, s},
			func(row, c int64) float32 {
				u := field(bytesOf(q), 6*(row*k+c), 6)
				v := float64(u&7) / 8
				if e := u >> 3 & 3; e > 0 {
					v = math.Ldexp(1+v, int(e-1))
				}
				if u&32 != 0 {
					v = -v
				}
				return times(float32(v), element(s, row*k/32+c/32))
			}})
		e := 1 + int64(r.IntN(3))
		x, xs := random(r, "x_blocks", tensor.U8, e, n, k/32, 16), exponents(r, "x_scales",
			tensor.U8, e, n, k/32)
		all = append(all, sample{"gpt-oss", "mxfp4", "", nil, "x", tensor.Shape{e, k, n},
			[]*tensor.Tensor{x, xs},
			func(row, c int64) float32 {
				i := (row/k*n+c)*k + row%k // of the file: experts, n, k
				return times(fp4(field(bytesOf(x), 4*i, 4)), element(xs, i/32))
			}})
		v, vs := random(r, "m.weight", tensor.I8, n, k/2), exponents(r, "m.scale",
			tensor.F8E8M0FNU, n, k/32)
		all = append(all, sample{"deepseek", "mxfp4", "", nil, "m.weight", tensor.Shape{n, k},
			[]*tensor.Tensor{v, vs},
			func(row, c int64) float32 {
				return times(fp4(field(bytesOf(v), 4*(row*k+c), 4)), element(vs, row*k/32+c/32))
			}})
	}
	{ // integers of compressed-tensors, with zero points and groups by index
		b, k := 1+int64(r.IntN(8)), up(k, g)
		words := (k*b + 31) / 32
		perWord := int64(0) // since 0.20 codes go on in the next word
		if r.IntN(2) == 0 {
			perWord = 32 / b
			words = (k + perWord - 1) / perWord
		}
		if words == (k*b+31)/32 {
			perWord = 0
		}
		bit := func(i int64) int64 {
			if perWord > 0 {
				return i/perWord*32 + i%perWord*b
			}
			return i * b
		}
		height := (n*b + 31) / 32
		if perWord > 0 {
			height = (n + perWord - 1) / perWord
		}
		q, s := random(r, "m.weight_packed", tensor.I32, n, words), random(r, "m.weight_scale",
			float, n, k/g)
		z := random(r, "m.weight_zero_point", tensor.I32, height, k/g)
		shape := tensor.New("m.weight_shape", tensor.Shape{2}, []int64{n, k})
		of := make([]int32, k)
		for i := range of {
			of[i] = int32(r.IntN(int(k / g)))
		}
		index := tensor.New("m.weight_g_idx", tensor.Shape{k}, of)
		all = append(all, sample{fmt.Sprintf("%d bits", b), fmt.Sprintf("int%d-group", b),
			fmt.Sprintf(ctConfig, "pack-quantized",
				fmt.Sprintf(`{"num_bits":%d,"type":"int","symmetric":false,"strategy":"group","group_size":%d}`, b, g)), nil,
			"m.weight", tensor.Shape{n, k}, []*tensor.Tensor{q, s, z, shape, index}, func(row,
				c int64) float32 {
				group := int64(of[c])
				u := field(bytesOf(q), row*words*32+bit(c), b)
				at := bit(row) // of a column of words
				zero := int64(0)
				for i := range b {
					w := (at+i)/32*(k/g) + group
					zero |= field(bytesOf(z), w*32+(at+i)%32, 1) << i
				}
				return times(float32(u-zero), element(s, row*(k/g)+group))
			}})
	}
	{ // GPTQ with groups by index
		b := []int64{2, 3, 4, 8}[r.IntN(4)]
		n, k := up(n, 32), up(k, 32)
		groups := (k + g - 1) / g
		q, z := random(r, "m.qweight", tensor.I32, k*b/32, n), random(r, "m.qzeros", tensor.I32,
			groups, n*b/32)
		s := random(r, "m.scales", float, groups, n)
		of := make([]int32, k)
		for i := range of {
			of[i] = int32(r.IntN(int(groups)))
		}
		plus, version := int64(1), ""
		if r.IntN(2) == 0 {
			plus, version = 0, "_v2"
		}
		all = append(all, sample{fmt.Sprintf("gptq %d", b), "gptq", fmt.Sprintf(wordConfig,
			"gptq", b, g, version), nil,
			"m.weight", tensor.Shape{n, k}, []*tensor.Tensor{q, z, s, tensor.New("m.g_idx",
				tensor.Shape{k}, of)},
			func(row, c int64) float32 {
				u := int64(0)
				for i := range b {
					u |= field(bytesOf(q), ((c*b+i)/32*n+row)*32+(c*b+i)%32, 1) << i
				}
				group := int64(of[c])
				zero := field(bytesOf(z), group*n*b+row*b, b) + plus
				return times(element(s, group*n+row), float32(u-zero))
			}})
	}
	{
		n, k := up(n, 8), up(k, g)
		q, z := random(r, "m.qweight", tensor.I32, k, n/8), random(r, "m.qzeros", tensor.I32,
			k/g, n/8)
		s := random(r, "m.scales", float, k/g, n)
		all = append(all, sample{"awq", "awq", fmt.Sprintf(wordConfig, "awq", 4, g, ""), nil,
			"m.weight", tensor.Shape{n, k},
			[]*tensor.Tensor{q, z, s}, func(row, c int64) float32 {
				at := row/8*32 + 4*[]int64{0, 4, 1, 5, 2, 6, 3, 7}[row%8]
				u, zero := field(bytesOf(q), c*n*4+at, 4), field(bytesOf(z), c/g*n*4+at, 4)
				return times(float32(u-zero), element(s, c/g*n+row))
			}})
	}
	{
		b, g := []int64{2, 3, 4, 5, 6, 8}[r.IntN(6)], []int64{32, 64, 128}[r.IntN(3)]
		k := up(k, g)
		q, s := random(r, "m.weight", tensor.U32, n, k*b/32), random(r, "m.scales", float, n,
			k/g)
		o := random(r, "m.biases", float, n, k/g)
		all = append(all, sample{fmt.Sprintf("mlx %d", b), "mlx-affine",
			fmt.Sprintf(`{"quantization":{"bits":%d,"group_size":%d}}`, b, g), nil,
			"m.weight", tensor.Shape{n, k}, []*tensor.Tensor{q, s, o}, func(row,
				c int64) float32 {
				i := row*(k/g) + c/g
				return float32(times(float32(field(bytesOf(q), (row*k+c)*b, b)), element(s, i)) +
					element(o, i))
			}})
	}
	{
		q, s := random(r, "m.weight", tensor.U8, (n*k+1)/2, 1), random(r, "m.weight.absmax",
			tensor.F32, (n*k+g-1)/g)
		text := fmt.Sprintf(`{"quant_type":"nf4","blocksize":%d,"dtype":"float16","shape":[%d,%d]}`, g, n, k)
		state := tensor.New("m.weight.quant_state.bitsandbytes__nf4",
			tensor.Shape{int64(len(text))}, []byte(text))
		m := tensor.New("m.weight.quant_map", tensor.Shape{16}, nf4Values)
		all = append(all, sample{"bitsandbytes", "bnb-nf4", "", nil, "m.weight", tensor.Shape{n,
			k}, []*tensor.Tensor{q, s, state, m},
			func(row, c int64) float32 {
				i := row*k + c
				return times(nf4Values[field(bytesOf(q), 4*(i^1), 4)], element(s, i/g))
			}})
	}
	{
		q, s := random(r, "m.weight", tensor.I8, n, k), random(r, "m.SCB", tensor.F32, n)
		all = append(all, sample{"bitsandbytes", "bnb-int8", "", nil, "m.weight", q.Shape,
			[]*tensor.Tensor{q, s},
			func(row, c int64) float32 {
				return times(times(element(q, row*k+c), element(s, row)), 7.874015718698502e-3)
			}})
	}
	return append(all, otherSamples(r, n, k, g, float)...)
}

var nf4Values = []float32{-1, -.6961928, -.52507305, -.3949175, -.28444138, -.18477343,
	-.091050036, 0,
	.0795803, .1609302, .24611230, .33791524, .44070983, .562617, .72295684, 1}

// weight returns the quantised weight of a sample.
func (s *sample) find(t testing.TB) *quant.Weight {
	t.Helper()
	set := quant.Find(&model{s.tensors, s.attributes}, config(t, s.config))
	for _, f := range set.Findings {
		t.Fatalf("%s %v: %v", s.name, s.shape, f.Err)
	}
	if len(set.Weights) != 1 {
		t.Fatalf("%s: %d weights", s.name, len(set.Weights))
	}
	w := set.Weights[0]
	if w.Name != s.weight || w.Scheme != s.scheme || !w.Tensor.Shape.Equal(s.shape) ||
		w.Err != nil {
		t.Fatalf("%s: %s, %s of %v, %v; not %s, %s of %v", s.name, w.Name, w.Scheme,
			w.Tensor.Shape,
			w.Err, s.weight, s.scheme, s.shape)
	}
	return w
}

// values returns all elements, computed plainly.
func (s *sample) values() []float32 {
	n, _ := s.shape.Elements()
	cols := s.shape[len(s.shape)-1]
	all := make([]float32, n)
	for i := range all {
		all[i] = s.at(int64(i)/cols, int64(i)%cols)
	}
	return all
}

func same(x, y float32) bool {
	return math.Float32bits(x) == math.Float32bits(y) || x != x && y != y
}

func compare(t testing.TB, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d elements, not %d", what, len(got), len(want))
	}
	for i := range want {
		if !same(got[i], want[i]) {
			t.Fatalf("%s: element %d is %v, not %v", what, i, got[i], want[i])
		}
	}
}

// FuzzValues compares the values of all layouts with the values of a plain
// implementation, at random sizes, whole and in parts.
func FuzzValues(f *testing.F) {
	for i := range uint64(20) {
		f.Add(i, uint8(1+i*7), uint8(1+i*13), uint8(i))
	}
	f.Fuzz(func(t *testing.T, seed uint64, n, k, g uint8) {
		r := rand.New(rand.NewPCG(seed, 1))
		for _, s := range samples(r, 1+int64(n), 1+int64(k), 1+int64(g%64)) {
			w, want := s.find(t), s.values()
			got, err := tensor.Convert[float32](w.Tensor)
			if err != nil {
				t.Fatalf("%s: %v", s.name, err)
			}
			compare(t, s.name, got, want)
			cols := s.shape[len(s.shape)-1]
			rows := int64(len(want)) / cols
			flat := *w.Tensor
			flat.Shape = tensor.Shape{rows, cols}
			r0, c0 := r.Int64N(rows), r.Int64N(cols)
			r1, c1 := r0+1+r.Int64N(rows-r0), c0+1+r.Int64N(cols-c0)
			part, err := tensor.Slice(&flat, tensor.Range{Start: r0, Stop: r1},
				tensor.Range{Start: c0, Stop: c1})
			if err != nil {
				t.Fatal(err)
			}
			if got, err = tensor.Convert[float32](part); err != nil {
				t.Fatal(err)
			}
			var cut []float32
			for row := r0; row < r1; row++ {
				cut = append(cut, want[row*cols+c0:row*cols+c1]...)
			}
			compare(t, s.name+", a part", got, cut)
		}
	})
}

// FuzzFind damages names, dtypes, shapes and data of parts: what comes out has a
// finding or values, and reads no more than there is.
func FuzzFind(f *testing.F) {
	for i := range uint64(40) {
		f.Add(i, []byte{byte(i), 3, byte(7 * i), 1, byte(13 * i), 9})
	}
	f.Fuzz(func(t *testing.T, seed uint64, edits []byte) {
		r := rand.New(rand.NewPCG(seed, 2))
		for _, s := range samples(r, 1+int64(r.IntN(40)), 1+int64(r.IntN(80)),
			1+int64(r.IntN(32))) {
			for i := 0; i+1 < min(len(edits), 16) && len(s.tensors) > 0; i += 2 {
				at := int(edits[i]) % len(s.tensors)
				x := *s.tensors[at]
				switch edits[i+1] % 9 {
				case 0:
					s.tensors = append(s.tensors[:at:at], s.tensors[at+1:]...)
					continue
				case 1:
					x.DType = tensor.DTypes()[int(edits[i+1]/9)%len(tensor.DTypes())]
				case 2:
					x.Shape = append(tensor.Shape{int64(edits[i]) - 100}, x.Shape...)
				case 3:
					x.Shape = append(tensor.Shape{}, x.Shape...)
					for d := range x.Shape {
						x.Shape[d] = []int64{0, 1, -1, 1 << 62, x.Shape[d] * 2,
							x.Shape[d] / 2}[r.IntN(6)]
					}
				case 4:
					x.Name = []string{"", ".weight", "weight", x.Name + "_scale", "m.weight",
						"m.scales", "m.scale"}[r.IntN(7)]
				case 5:
					b := append([]byte{}, bytesOf(&x)...)
					for j := range b {
						if r.IntN(4) == 0 {
							b[j] = byte(r.Uint32())
						}
					}
					x.Data = tensor.BlobOf(b)
				case 6:
					b := bytesOf(&x)
					x.Data = tensor.BlobOf(b[:r.IntN(len(b)+1)])
				case 7: // another shape of as many elements
					n, _ := x.Shape.Elements()
					x.Shape = tensor.Shape{n, 1}
				case 8:
					s.config = ""
				}
				s.tensors[at] = &x
			}
			set := quant.Find(&model{s.tensors, s.attributes}, config(t, s.config))
			stored := 0
			for _, w := range set.Weights {
				stored += max(1, len(w.Parts))
				if w.Scheme == "" {
					continue
				}
				if n, ok := w.Tensor.Shape.Elements(); !ok || n > 1<<24 {
					if w.Err == nil {
						t.Errorf("%s of %v has values", w.Scheme, w.Tensor.Shape)
					}
					continue
				}
				got, err := tensor.Convert[float32](w.Tensor)
				if w.Err != nil && (err == nil && len(got) > 0 || err == nil &&
					w.Tensor.Data.Size() > 0) {
					t.Errorf("%d values of a weight with the error %v", len(got), w.Err)
				}
				if _, err := w.Check(t.Context()); err != nil && w.Err == nil && got != nil {
					_ = err // a reader that fails
				}
			}
			if stored != len(s.tensors) {
				t.Errorf("%d of %d tensors", stored, len(s.tensors))
			}
		}
	})
}
