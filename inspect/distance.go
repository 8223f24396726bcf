package inspect

import (
	"bytes"
	"math"

	"github.com/tensorfile/tensorfile/tensor"
)

// compareBlock is how many elements are compared at a time, so that both sides stay in
// the first cache.
const compareBlock = 2048

// infinite is the bits of the infinity; those of a NaN without its sign are greater.
const infinite = 0x7ff << 52

// A float is a type that elements are decoded to; their distances are float64.
type float interface{ float32 | float64 }

// realPiece compares elements that float64 holds.
func (c *comparing) realPiece(a, b *tensor.Tensor, raw [][]byte, r *compared) error {
	if fitsFloat32(a.DType) && fitsFloat32(b.DType) {
		return realBlocks[float32](c, a, b, raw, r)
	}
	return realBlocks[float64](c, a, b, raw, r)
}

// fitsFloat32 reports whether float32 holds every value of a real dtype.
func fitsFloat32(d tensor.DType) bool { return d.Bits() <= 16 || d == tensor.F32 }

func realBlocks[T float](c *comparing, a, b *tensor.Tensor, raw [][]byte, r *compared) error {
	var xs, ys [compareBlock]T
	byBits := !c.o.Numeric && a.DType == b.DType && a.DType.IsFloat()
	for at := int64(0); at < r.of; at += compareBlock {
		n := min(compareBlock, r.of-at)
		x, y := xs[:n], ys[:n]
		if err := convertBlock(x, a, raw[0], at); err != nil {
			return err
		}
		if err := convertBlock(y, b, raw[1], at); err != nil {
			return err
		}
		if byBits {
			bitwise(r, x, y, at, a.DType, raw)
		} else {
			floats(r, x, y, at, c.o)
		}
		if c.o.Figures {
			addFigures(r, x, y)
		}
	}
	return nil
}

// convertBlock decodes the elements of t from index at on; raw are its bytes.
func convertBlock[T tensor.Element](dst []T, t *tensor.Tensor, raw []byte, at int64) error {
	bits, n := int64(t.DType.Bits()), int64(len(dst))
	block := tensor.Tensor{Name: t.Name, DType: t.DType, Shape: tensor.Shape{n},
		Data: tensor.BlobOf(raw[at*bits/8 : ((at+n)*bits+7)/8])}
	return tensor.ConvertInto(dst, &block)
}

// floats compares values, the first of which has index at, under the tolerances.
// Distances are compared as the bits of float64, whose order is that of the numbers:
// without branches, and NaN is beyond every tolerance.
func floats[T float](r *compared, x, y []T, at int64, o *CompareOptions) {
	var largest uint64
	var different int64
	y = y[:len(x)]
	if o.Relative == 0 {
		tolerance := math.Float64bits(o.Tolerance)
		for i, u := range x {
			away := math.Float64bits(float64(u)-float64(y[i])) &^ (1 << 63)
			largest = max(largest, away)
			different += int64((tolerance - away) >> 63)
		}
	} else {
		for i, u := range x {
			v := float64(y[i])
			away := math.Float64bits(float64(u)-v) &^ (1 << 63)
			largest = max(largest, away)
			limit := math.Float64bits(o.Tolerance + float64(o.Relative*math.Abs(v)))
			different += int64((limit - away) >> 63)
		}
	}
	switch {
	case largest >= infinite || r.first < 0 && different > 0:
		exactly(r, x, y, at, o)
	default:
		r.different += different
		r.extend(math.Float64frombits(largest))
	}
}

// exactly does the same for any values, and finds the first that differs.
func exactly[T float](r *compared, x, y []T, at int64, o *CompareOptions) {
	for i := range x {
		u, v := float64(x[i]), float64(y[i])
		away := math.Abs(u - v)
		r.extend(away)
		if away <= o.Tolerance || u == v || u != u && v != v {
			continue
		}
		limit := o.Tolerance + float64(o.Relative*math.Abs(v))
		if !(away <= limit) || math.IsInf(away, 0) || math.IsInf(v, 0) {
			r.differ(at + int64(i))
		}
	}
}

// extend notes a distance.
func (r *compared) extend(away float64) {
	if away > 0 && !(away <= r.largest) {
		r.largest = away
	}
}

// bitwise compares floats by their bits, which decoding keeps but for those of a NaN.
func bitwise[T float](r *compared, x, y []T, at int64, d tensor.DType, raw [][]byte) {
	var largest uint64
	var different int64
	y = y[:len(x)]
	for i := range x {
		u, v := float64(x[i]), float64(y[i])
		largest = max(largest, math.Float64bits(u-v)&^(1<<63))
		bits := math.Float64bits(u) ^ math.Float64bits(v)
		different += int64((bits | -bits) >> 63)
	}
	if largest < infinite && (r.first >= 0 || different == 0) {
		r.different += different
		r.extend(math.Float64frombits(largest))
		return
	}
	w := d.Size()
	for i := range x {
		u, v := float64(x[i]), float64(y[i])
		r.extend(math.Abs(u - v))
		same := math.Float64bits(u) == math.Float64bits(v)
		if k := (int(at) + i) * w; w > 0 { // below a byte there is no NaN
			same = bytes.Equal(raw[0][k:k+w], raw[1][k:k+w])
		}
		if !same {
			r.differ(at + int64(i))
		}
	}
}

// addFigures sums up the differences where both values are finite.
func addFigures[T float](r *compared, x, y []T) {
	var n int64
	var sum, squares, aa, bb, ab float64
	y = y[:len(x)]
	for i := range x {
		u, v := float64(x[i]), float64(y[i])
		d := v - u
		if d-d != 0 {
			continue
		}
		n++
		sum += d
		squares += float64(d * d)
		aa += float64(u * u)
		bb += float64(v * v)
		ab += float64(u * v)
	}
	r.finite += n
	r.sum += sum
	r.squares += squares
	r.aa += aa
	r.bb += bb
	r.ab += ab
}
