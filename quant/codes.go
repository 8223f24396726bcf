package quant

import (
	"encoding/binary"
	"io"
	"math"

	"github.com/tensorfile/tensorfile/internal/ggml"
	"github.com/tensorfile/tensorfile/tensor"
)

// An input is the data of a part.
type input struct{ data tensor.Blob }

// A partReader reads rows of parts. It has the decoded bytes of parts that cannot be read
// at an offset without decoding what precedes it.
type partReader map[*input]tensor.Blob

// rows reads n rows of size bytes each, from row at on: of each row the bytes from first
// to end. It uses buf if that is large enough.
func (r partReader) rows(in *input, buf []byte, at, n, size, first, end int64) ([]byte, error) {
	want := n * (end - first)
	if int64(cap(buf)) < want {
		buf = make([]byte, want)
	}
	buf = buf[:want]
	data, ok := r[in]
	if !ok {
		data = in.data
	}
	if end-first == size || n == 1 {
		k, err := data.ReadAt(buf, at*size+first)
		if int64(k) == want {
			return buf, nil
		}
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	data, err := data.Section(at*size, n*size)
	if err != nil {
		return nil, err
	}
	table := &tensor.Tensor{DType: tensor.U8, Shape: tensor.Shape{n, size}, Data: data}
	part, err := tensor.Slice(table, tensor.All, tensor.Range{Start: first, Stop: end})
	if err != nil {
		return nil, err
	}
	return buf, part.Data.ReadInto(buf)
}

// packed codes are rows of bytes: per elements take unit bytes, and the last elements of
// a row may take fewer.
type packed struct {
	input
	rows      int64 // of one matrix of the batch
	rowBytes  int64
	per, unit int64
	// unpack sets dst to the elements of src without the first skip elements. skip is
	// less than per.
	unpack func(dst []float32, src []byte, skip int)
}

func (p *packed) inputs() []*input { return []*input{&p.input} }

// span returns the bytes of a row that have the columns of a.
func (p *packed) span(a area) (first, end int64) {
	return a.c0 / p.per * p.unit, min((a.c1+p.per-1)/p.per*p.unit, p.rowBytes)
}

func (p *packed) load(a area, read partReader, buf []byte) ([]byte, error) {
	first, end := p.span(a)
	return read.rows(&p.input, buf, a.batch*p.rows+a.r0, a.r1-a.r0, p.rowBytes, first, end)
}

func (p *packed) decode(dst []float32, in []byte, a area, r, c int64) {
	first, end := p.span(a)
	row := in[(r-a.r0)*(end-first):][:end-first]
	p.unpack(dst, row[c/p.per*p.unit-first:], int(c%p.per))
}

// table returns a stored tensor of numbers as a matrix.
func table(t *tensor.Tensor, batch, rows, cols int64) *matrix {
	size := int64(t.DType.Size())
	return &matrix{batch: batch, rows: rows, cols: cols, codes: &packed{input: input{t.Data},
		rows: rows, rowBytes: cols * size, per: 1, unit: size, unpack: unpackers[t.DType]}}
}

// unpackers has the function unpack for codes, scales and zero points of a dtype.
var unpackers = map[tensor.DType]func([]float32, []byte, int){
	tensor.F32: func(dst []float32, src []byte, _ int) {
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		}
	},
	tensor.F16: func(dst []float32, src []byte, _ int) {
		for i := range dst {
			dst[i] = tensor.Float16(binary.LittleEndian.Uint16(src[2*i:])).Float32()
		}
	},
	tensor.BF16: func(dst []float32, src []byte, _ int) {
		for i := range dst {
			dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16)
		}
	},
	tensor.I32: func(dst []float32, src []byte, _ int) {
		for i := range dst {
			dst[i] = float32(int32(binary.LittleEndian.Uint32(src[4*i:])))
		}
	},
	tensor.I64: func(dst []float32, src []byte, _ int) {
		for i := range dst {
			dst[i] = float32(int64(binary.LittleEndian.Uint64(src[8*i:])))
		}
	},
	tensor.U8:       bytesOf(identity),
	tensor.I8:       bytesOf(valuesOf(func(b uint8) float32 { return float32(int8(b)) })),
	tensor.F8E4M3FN: bytesOf(e4m3),
	tensor.F8E5M2: bytesOf(valuesOf(func(b uint8) float32 {
		return tensor.Float8E5M2(b).Float32()
	})),
	tensor.F8E4M3FNUZ: bytesOf(valuesOf(func(b uint8) float32 {
		return tensor.Float8E4M3FNUZ(b).Float32()
	})),
	tensor.F8E5M2FNUZ: bytesOf(valuesOf(func(b uint8) float32 {
		return tensor.Float8E5M2FNUZ(b).Float32()
	})),
	tensor.F8E8M0FNU: bytesOf(e8m0),
}

// valuesOf returns the values of all bytes.
func valuesOf(value func(uint8) float32) *[256]float32 {
	all := new([256]float32)
	for i := range all {
		all[i] = value(uint8(i))
	}
	return all
}

// bytesOf returns a function that unpacks codes of a byte, with their values by code.
func bytesOf(values *[256]float32) func([]float32, []byte, int) {
	return func(dst []float32, src []byte, _ int) {
		src = src[:len(dst)]
		for i, b := range src {
			dst[i] = values[b]
		}
	}
}

// Values of codes of a byte or less, by code.
var (
	identity = valuesOf(func(b uint8) float32 { return float32(b) })
	e4m3     = valuesOf(func(b uint8) float32 { return tensor.Float8E4M3FN(b).Float32() })
	e8m0     = valuesOf(func(b uint8) float32 { return tensor.Float8E8M0FNU(b).Float32() })
)

// e2m1 has the values of FP4, by code; code 8 is -0.
var e2m1 = &[16]float32{0, .5, 1, 1.5, 2, 3, 4, 6,
	float32(math.Copysign(0, -1)), -.5, -1, -1.5, -2, -3, -4, -6}

// e2m3 has the values of FP6, by code.
var e2m3 = valuesOf(func(b uint8) float32 {
	m := float32(b & 7)
	v := m / 8
	if e := b >> 3 & 3; e > 0 {
		v = (1 + m/8) * float32(int(1)<<(e-1))
	}
	if b&32 != 0 {
		v = -v
	}
	return v
})

// nibblesOf returns codes of 4 bits, two in a byte, with their values by code.
func nibblesOf(data tensor.Blob, rows, rowBytes int64, highFirst bool,
	values *[16]float32) *packed {
	first, second := 0, 4
	if highFirst {
		first, second = 4, 0
	}
	return &packed{input: input{data}, rows: rows, rowBytes: rowBytes, per: 2, unit: 1,
		unpack: func(dst []float32, src []byte, skip int) {
			if skip > 0 && len(dst) > 0 {
				dst[0], dst, src = values[src[0]>>second&15], dst[1:], src[1:]
			}
			pairs := dst[:len(dst)&^1]
			if highFirst {
				for i, b := range src[:len(pairs)/2] {
					pair := pairs[2*i : 2*i+2 : 2*i+2]
					pair[0], pair[1] = values[b>>4], values[b&15]
				}
			} else {
				for i, b := range src[:len(pairs)/2] {
					pair := pairs[2*i : 2*i+2 : 2*i+2]
					pair[0], pair[1] = values[b&15], values[b>>4]
				}
			}
			if len(pairs) < len(dst) {
				dst[len(pairs)] = values[src[len(pairs)/2]>>first&15]
			}
		}}
}

// bitsOf returns codes of 1 to 8 bits that follow one another without gaps in a row, the
// first in the lowest bits.
func bitsOf(data tensor.Blob, rows, rowBytes int64, bits int, values *[256]float32) *packed {
	p := &packed{input: input{data}, rows: rows, rowBytes: rowBytes, per: 8, unit: int64(bits)}
	switch bits {
	case 8:
		p.per, p.unit, p.unpack = 1, 1, bytesOf(values)
		return p
	case 4:
		return nibblesOf(data, rows, rowBytes, false, (*[16]float32)(values[:]))
	}
	mask := uint64(1)<<bits - 1
	p.unpack = func(dst []float32, src []byte, skip int) {
		for len(dst) > 0 {
			var w uint64
			if len(src) >= 8 {
				w = binary.LittleEndian.Uint64(src)
			} else {
				for i, b := range src {
					w |= uint64(b) << (8 * i)
				}
			}
			w >>= skip * bits
			n := min(8-skip, len(dst))
			if n == 8 {
				d := (*[8]float32)(dst)
				for i := range d {
					d[i] = values[w&mask]
					w >>= bits
				}
			} else {
				for i := range dst[:n] {
					dst[i] = values[w&mask]
					w >>= bits
				}
			}
			dst, src, skip = dst[n:], src[min(bits, len(src)):], 0
		}
	}
	return p
}

// wordsOf returns codes of a few bits in words of 32 bits. shifts has the lowest bit of
// each code in a word.
func wordsOf(data tensor.Blob, rows, rowBytes int64, bits int, shifts []uint8) *packed {
	mask := uint32(1)<<bits - 1
	return &packed{input: input{data}, rows: rows, rowBytes: rowBytes, per: int64(len(shifts)),
		unit: 4, unpack: func(dst []float32, src []byte, skip int) {
			for len(dst) > 0 {
				w := binary.LittleEndian.Uint32(src)
				if len(shifts) == 8 && skip == 0 && len(dst) >= 8 {
					d, p := (*[8]float32)(dst), (*[8]uint8)(shifts)
					for i := range d {
						d[i] = float32(int32(w >> (p[i] & 31) & mask))
					}
					dst, src = dst[8:], src[4:]
					continue
				}
				n := min(len(shifts)-skip, len(dst))
				for i, shift := range shifts[skip : skip+n] {
					dst[i] = float32(w >> shift & mask)
				}
				dst, src, skip = dst[n:], src[4:], 0
			}
		}}
}

// blocksOf returns the elements of blocks of ggml.
func blocksOf(data tensor.Blob, rows, rowBytes int64, kind ggml.Type) *packed {
	per := int(kind.Elements)
	return &packed{input: input{data}, rows: rows, rowBytes: rowBytes, per: kind.Elements,
		unit: kind.Bytes, unpack: func(dst []float32, src []byte, skip int) {
			for len(dst) > 0 {
				if n := len(dst) / per * per; skip == 0 && n > 0 {
					used := n / per * int(kind.Bytes)
					kind.Decode(dst[:n], src[:used])
					dst, src = dst[n:], src[used:]
					continue
				}
				var block [256]float32 // no block has more elements
				kind.Decode(block[:per], src[:kind.Bytes])
				n := copy(dst, block[skip:per])
				dst, src, skip = dst[n:], src[kind.Bytes:], 0
			}
		}}
}

// columns are codes of a few bits in words of 32 bits: the codes of a column are in the
// words of that column.
type columns struct {
	input
	rows int64 // of words, of one matrix of the batch
	cols int64
	bits int64
	per  int64 // codes in a word; 0 if a code may continue in the next word
}

func (v *columns) inputs() []*input { return []*input{&v.input} }

// at returns the word of row r, and its lowest bit in the word.
func (v *columns) at(r int64) (word, bit int64) {
	if v.per > 0 {
		return r / v.per, r % v.per * v.bits
	}
	return r * v.bits / 32, r * v.bits % 32
}

func (v *columns) load(a area, read partReader, buf []byte) ([]byte, error) {
	first, _ := v.at(a.r0)
	last, bit := v.at(a.r1 - 1)
	if bit+v.bits > 32 {
		last++
	}
	return read.rows(&v.input, buf, a.batch*v.rows+first, last+1-first, v.cols*4, a.c0*4, a.c1*4)
}

func (v *columns) decode(dst []float32, in []byte, a area, r, c int64) {
	first, _ := v.at(a.r0)
	word, bit := v.at(r)
	width := (a.c1 - a.c0) * 4
	row := in[(word-first)*width+(c-a.c0)*4:][:len(dst)*4]
	mask := uint32(1)<<v.bits - 1
	if shift := uint(bit) & 31; bit+v.bits <= 32 {
		for i := range dst {
			dst[i] = float32(int32(binary.LittleEndian.Uint32(row[4*i:4*i+4]) >> shift & mask))
		}
		return
	}
	next := in[(word+1-first)*width+(c-a.c0)*4:][:len(dst)*4]
	for i := range dst {
		w := uint64(binary.LittleEndian.Uint32(row[4*i:])) |
			uint64(binary.LittleEndian.Uint32(next[4*i:]))<<32
		dst[i] = float32(uint32(w>>bit) & mask)
	}
}

// swizzled scales are in the order that cuBLAS requires: tiles of 128 rows and 4 columns,
// 512 bytes each.
type swizzled struct {
	input
	cols   int64 // a multiple of 4
	values *[256]float32
}

func (s *swizzled) inputs() []*input { return []*input{&s.input} }

func (s *swizzled) load(a area, read partReader, buf []byte) ([]byte, error) {
	first, end := a.c0/4*512, (a.c1+3)/4*512
	return read.rows(&s.input, buf, a.r0/128, (a.r1-1)/128+1-a.r0/128, s.cols/4*512, first, end)
}

func (s *swizzled) decode(dst []float32, in []byte, a area, r, c int64) {
	first, end := a.c0/4*512, (a.c1+3)/4*512
	tiles := in[(r/128-a.r0/128)*(end-first)+r%32*16+r%128/32*4:]
	for i := range dst {
		k := c + int64(i)
		dst[i] = s.values[tiles[k/4*512-first+k%4]]
	}
}

// A constant is a number in place of codes.
type constant float32

func (constant) inputs() []*input                              { return nil }
func (constant) load(area, partReader, []byte) ([]byte, error) { return nil, nil }
func (v constant) decode(dst []float32, _ []byte, _ area, _, _ int64) {
	for i := range dst {
		dst[i] = float32(v)
	}
}

// constantOf returns one number as a matrix.
func constantOf(v float32) *matrix {
	return &matrix{batch: 1, rows: 1, cols: 1, codes: constant(v)}
}
