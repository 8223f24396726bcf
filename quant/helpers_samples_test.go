package quant_test

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/tensorfile/tensorfile/tensor"
)

// sound makes FP8 codes without NaN and infinities.
func sound(r *rand.Rand, name string, d tensor.DType, shape ...int64) *tensor.Tensor {
	t := random(r, name, d, shape...)
	for i, b := range bytesOf(t) {
		if d == tensor.F8E5M2 && b&0x7c == 0x7c {
			bytesOf(t)[i] = 0
		}
	}
	return t
}

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

// otherSamples makes samples of the forms that layouts of samples have elsewhere: other
// names, ranks, markers, configurations, without a part that may be absent.
func otherSamples(r *rand.Rand, n, k, g int64, float tensor.DType) (all []sample) {
	up := func(x, m int64) int64 { return (x + m - 1) / m * m }
	add := func(name, scheme, config string, shape tensor.Shape, at func(r, c int64) float32,
		ts ...*tensor.Tensor) *sample {
		all = append(all, sample{name, scheme, config, nil, "m.weight", shape, ts, at})
		return &all[len(all)-1]
	}
	comfy := func(s *sample, layer string) {
		s.attributes = map[string]string{"_quantization_metadata": fmt.Sprintf(
			`{"format_version":"1.0","layers":{"m":%s}}`, layer)}
	}
	torchao := func(s *sample, kind, data, names string) {
		s.attributes = map[string]string{"tensor_names": `["m.weight"]`, "m.weight": fmt.Sprintf(
			`{"_type":%q,"_data":%s,"_tensor_data_names":[%s]}`, kind, data, names)}
	}
	swizzled := func(row, block, cols int64) int64 {
		return (row/128*(cols/4)+block/4)*512 + row%32*16 + row%128/32*4 + block%4
	}
	{ // FP8: one scale, a scale each row, exponents of blocks
		q := sound(r, "m.weight", tensor.F8E5M2, n, k)
		s := random(r, []string{"m.scale_weight", "m.weight_scale_inv", "m.qscale_weight",
			"m.weight_scale"}[r.IntN(4)], float, 1)
		add("one scale", "fp8-tensor", "", q.Shape, func(row, c int64) float32 {
			return times(element(q, row*k+c), element(s, 0))
		}, q, s)
		n := n + 1
		q2, s2 := sound(r, "m.weight", tensor.F8E4M3FN, n, k), random(r, "m.weight_scale",
			tensor.F32, n)
		add("rows", "fp8-channel", `{"quantization_config":{"quant_method":"modelopt",
			"quant_algo":"FP8_PER_CHANNEL_PER_TOKEN"}}`, q2.Shape, func(row, c int64) float32 {
			return times(element(q2, row*k+c), element(s2, row))
		}, q2, s2)
		bm, bn := 1+int64(r.IntN(40)), 1+int64(r.IntN(31)) // 32 columns would be MXFP8
		q3 := sound(r, "m.weight", tensor.F8E4M3FN, n, k)
		s3 := exponents(r, "m.scale", tensor.F8E8M0FNU, up(n, bm)/bm, up(k, bn)/bn)
		add("exponents of blocks", "fp8-block", fmt.Sprintf(fp8Config, bm, bn), q3.Shape,
			func(row, c int64) float32 {
				return times(element(q3, row*k+c), element(s3, row/bm*s3.Shape[1]+c/bn))
			}, q3, s3)
	}
	{ // MXFP8, plain and in the order of cuBLAS
		k := up(k, 32)
		q := sound(r, "m.weight", tensor.F8E4M3FN, n, k)
		d := []tensor.DType{tensor.U8, tensor.F8E8M0FNU}[r.IntN(2)]
		s := exponents(r, "m.weight_scale", d, n, k/32)
		add("mxfp8", "mxfp8", "", q.Shape, func(row, c int64) float32 {
			return times(element(q, row*k+c), element(s, row*(k/32)+c/32))
		}, q, s)
		cols := up(k/32, 4)
		z := exponents(r, "m.weight_scale", d, up(n, 128), cols)
		comfy(add("mxfp8 of ComfyUI", "mxfp8", "", q.Shape, func(row, c int64) float32 {
			return times(element(q, row*k+c), element(z, swizzled(row, c/32, cols)))
		}, q, z), `{"format":"mxfp8"}`)
	}
	{ // NVFP4: experts, and swizzled scales of torchao without one for the tensor
		e, k := 1+int64(r.IntN(3)), up(k, 16)
		q := random(r, "m.weight", tensor.U8, e, n, k/2)
		s, s2 := random(r, "m.weight_scale", tensor.F8E4M3FN, e, n, k/16), random(r,
			"m.weight_scale_2", tensor.F32, 1)
		add("experts of NVFP4", "nvfp4", "", tensor.Shape{e, n, k}, func(row, c int64) float32 {
			return times(fp4(field(bytesOf(q), 4*(row*k+c), 4)),
				times(element(s, row*(k/16)+c/16), element(s2, 0)))
		}, q, s, s2)
		p, cols := random(r, "m._weight_qdata", tensor.U8, n, k/2), up(k/16, 4)
		z := random(r, "m._weight_scale", tensor.F8E4M3FN, up(n, 128), cols)
		torchao(add("nvfp4 of torchao", "nvfp4", "", tensor.Shape{n, k},
			func(row, c int64) float32 {
				return times(fp4(field(bytesOf(p), 4*(row*k+c), 4)),
					element(z, swizzled(row, c/16, cols)))
			}, p, z), "NVFP4Tensor", `{"block_size":16,"is_swizzled_scales":true}`,
			`"qdata","scale"`)
	}
	{ // integers of bytes
		k := up(k, g)
		q, s := random(r, "m.weight", tensor.I8, n, k), random(r, "m.weight_scale", float, n, k/g)
		z := random(r, "m.weight_zero_point", tensor.I8, n, k/g)
		add("bytes in groups", "int8-group", fmt.Sprintf(ctConfig, "int-quantized", fmt.Sprintf(
			`{"num_bits":8,"type":"int","symmetric":false,"strategy":"group","group_size":%d}`,
			g)), q.Shape, func(row, c int64) float32 {
			i := row*(k/g) + c/g
			return times(element(q, row*k+c)-element(z, i), element(s, i))
		}, q, s, z)
		b := random(r, "m.weight_scale", tensor.F32, up(n, g)/g, k/g)
		comfy(add("blocks of ComfyUI", "int8-block", "", q.Shape, func(row, c int64) float32 {
			return times(element(q, row*k+c), element(b, row/g*(k/g)+c/g))
		}, q, b), fmt.Sprintf(`{"format":"int8_blockwise","params":{"group_size":%d}}`, g))
		e := 2 + int64(r.IntN(2))
		a, as := random(r, "m._weight_qdata", tensor.I8, e, n, k), random(r, "m._weight_scale",
			float, e, n, k/g)
		az := random(r, "m._weight_zero_point", tensor.I8, e, n, k/g)
		scheme := "int8-group"
		if k == g {
			scheme = "int8-channel"
		}
		torchao(add("experts of torchao", scheme, "", a.Shape, func(row, c int64) float32 {
			i := row*(k/g) + c/g
			return times(element(a, row*k+c)-element(az, i), element(as, i))
		}, a, as, az), "Int8Tensor", fmt.Sprintf(`{"block_size":[1,1,%d]}`, g),
			`"qdata","scale","zero_point"`)
	}
	{ // words without zero points, with a scale each row
		b := 1 + int64(r.IntN(8))
		q, s := random(r, "m.weight_packed", tensor.I32, n, (k*b+31)/32), random(r,
			"m.weight_scale", float, n, 1)
		shape := tensor.New("m.weight_shape", tensor.Shape{2}, []int64{n, k})
		add("words in rows", fmt.Sprintf("int%d-channel", b), fmt.Sprintf(ctConfig,
			"pack-quantized", fmt.Sprintf(`{"num_bits":%d,"type":"int","symmetric":true,`+
				`"strategy":"channel"}`, b)), tensor.Shape{n, k}, func(row, c int64) float32 {
			u := field(bytesOf(q), row*q.Shape[1]*32+c*b, b)
			return times(float32(u-int64(1)<<(b-1)), element(s, row))
		}, q, s, shape)
	}
	{ // GPTQ without groups by index, which are all rows or as many as the configuration says
		b := []int64{2, 3, 4, 8}[r.IntN(4)]
		n, k, g := up(n, 32), up(k, 32), g
		says := g
		if r.IntN(2) == 0 {
			g, says = k, -1
		}
		groups := up(k, g) / g
		q, z := random(r, "m.qweight", tensor.I32, k*b/32, n), random(r, "m.qzeros", tensor.I32,
			groups, n*b/32)
		s := random(r, "m.scales", float, groups, n)
		add("gptq in order", "gptq", fmt.Sprintf(wordConfig, "gptq", b, says, ""),
			tensor.Shape{n, k}, func(row, c int64) float32 {
				u := int64(0)
				for i := range b {
					u |= field(bytesOf(q), ((c*b+i)/32*n+row)*32+(c*b+i)%32, 1) << i
				}
				zero := field(bytesOf(z), c/g*n*b+row*b, b) + 1
				return times(float32(u-zero), element(s, c/g*n+row))
			}, q, z, s)
	}
	for _, mode := range []struct {
		name     string
		bits, in int64
	}{{"mxfp4", 4, 32}, {"mxfp8", 8, 32}, {"nvfp4", 4, 16}} { // MLX
		k := up(k, 32)
		q := random(r, "m.weight", tensor.U32, n, k*mode.bits/32)
		for i, b := range bytesOf(q) {
			if mode.bits == 8 && b&0x7f == 0x7f {
				bytesOf(q)[i] = 0
			}
		}
		s := exponents(r, "m.scales", tensor.U8, n, k/mode.in)
		scale := func(i int64) float32 { return element(s, i) }
		if mode.name == "nvfp4" {
			s = random(r, "m.scales", tensor.U8, n, k/mode.in)
			for i := range bytesOf(s) {
				bytesOf(s)[i] = bytesOf(s)[i]&0x3f | 8
			}
			scale = func(i int64) float32 { return tensor.Float8E4M3FN(bytesOf(s)[i]).Float32() }
		}
		add("mlx "+mode.name, mode.name, fmt.Sprintf(`{"quantization":{"bits":2,"group_size":64,
			"m":{"bits":%d,"group_size":%d,"mode":%q}}}`, mode.bits, mode.in, mode.name),
			tensor.Shape{n, k}, func(row, c int64) float32 {
				i := row*k + c
				v := fp4(field(bytesOf(q), 4*(i), 4))
				if mode.bits == 8 {
					v = tensor.Float8E4M3FN(bytesOf(q)[i]).Float32()
				}
				return times(v, scale(row*(k/mode.in)+c/mode.in))
			}, q, s)
	}
	{ // FP4 of bitsandbytes, whose scales are quantised too, of rank 3
		e, size, inner := 1+int64(r.IntN(3)), 1+int64(r.IntN(90)), 1+int64(r.IntN(20))
		count := e * n * k
		blocks := up(count, size) / size
		q := random(r, "m.weight", tensor.U8, (count+1)/2, 1)
		a := random(r, "m.weight.absmax", tensor.U8, blocks)
		na := random(r, "m.weight.nested_absmax", tensor.F32, up(blocks, inner)/inner)
		m := random(r, "m.weight.nested_quant_map", tensor.F32, 256)
		offset := r.Float64() * .1
		s := add("nested", "bnb-fp4", "", tensor.Shape{e, n, k}, func(row, c int64) float32 {
			i := row*k + c
			b := i / size
			scale := float32(times(element(m, int64(bytesOf(a)[b])), element(na, b/inner)) +
				float32(offset))
			return times(fp4Values[field(bytesOf(q), 4*(i^1), 4)], scale)
		}, q, a, na, m, tensor.New("m.weight.quant_map", tensor.Shape{16}, fp4Values))
		s.tensors = append(s.tensors, text("m.weight.quant_state.bitsandbytes__fp4", fmt.Sprintf(
			`{"quant_type":"fp4","blocksize":%d,"dtype":"bfloat16","shape":[%d,%d,%d],`+
				`"nested_blocksize":%d,"nested_dtype":"float32","nested_offset":%v}`,
			size, e, n, k, inner, offset)))
	}
	{ // GGUF: a scale for each expert
		e := 2 + int64(r.IntN(3))
		q, s := random(r, "blk.1.x_exps.weight", float, e, n, k), random(r, "blk.1.x_exps.scale",
			tensor.F32, e)
		x := add("experts of GGUF", "gguf-scale", "", q.Shape, func(row, c int64) float32 {
			return times(element(q, row*k+c), element(s, row/n))
		}, q, s)
		x.weight, x.attributes = q.Name, map[string]string{"general.architecture": "x"}
	}
	return all
}

var fp4Values = []float32{0, .0052083335, .6666667, 1, .33333334, .5, .16666667, .25,
	0, -.0052083335, -.6666667, -1, -.33333334, -.5, -.16666667, -.25}
