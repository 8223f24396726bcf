package inspect

import (
	"bytes"
	"math"

	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/tensor"
)

// compareBlock is how many elements are compared at a time: both sides stay in the cache.
const compareBlock = 4096

// infinite is the bits of infinity; the bits of a NaN without its sign are greater.
const infinite = 0x7ff << 52

// A number is a type of elements that are compared in place, without decoding.
type number interface {
	float32 | float64 | int32 | uint32
}

// realPiece compares elements that float64 can represent.
func (c *comparer) realPiece(a, b *tensor.Tensor, raw [][]byte, r *pieceComparison) error {
	same := a.DType == b.DType
	for at := int64(0); at < r.of; at += compareBlock {
		n := min(compareBlock, r.of-at)
		p, q := blockOf(a.DType, raw[0], at, n), blockOf(b.DType, raw[1], at, n)
		switch {
		case same && a.DType == tensor.F32:
			compareBlocks(c, r, typed[float32](p), typed[float32](q), at, p, q)
		case same && a.DType == tensor.F64:
			compareBlocks(c, r, typed[float64](p), typed[float64](q), at, p, q)
		case same && a.DType == tensor.I32:
			compareBlocks(c, r, typed[int32](p), typed[int32](q), at, p, q)
		case same && a.DType == tensor.U32:
			compareBlocks(c, r, typed[uint32](p), typed[uint32](q), at, p, q)
		case c.values != nil && a.DType.Bits() == 16:
			compareCodes(c, r, typed[uint16](p), typed[uint16](q), at, p, q)
		case c.values != nil:
			compareCodes(c, r, p, q, at, p, q)
		default:
			r.x, r.y = resize(r.x, n), resize(r.y, n)
			if err := convertBlock(r.x, a, p); err != nil {
				return err
			}
			if err := convertBlock(r.y, b, q); err != nil {
				return err
			}
			compareBlocks(c, r, r.x, r.y, at, p, q)
		}
	}
	return nil
}

// blockOf returns the bytes of n elements from index at on.
func blockOf(d tensor.DType, p []byte, at, n int64) []byte {
	bits := int64(d.Bits())
	return p[at*bits/8 : ((at+n)*bits+7)/8]
}

// typed returns the elements in p: in place if the host is little-endian and p is
// aligned.
func typed[T le.Fixed](p []byte) []T {
	if le.HostIsLittle {
		if s, ok := le.Cast[T](p); ok {
			return s
		}
	}
	s := make([]T, len(p)/le.Size[T]())
	b := le.Bytes(s)
	copy(b, p)
	le.ToHost(b, le.Size[T]())
	return s
}

// convertBlock decodes the elements in p, of the dtype of t.
func convertBlock[T tensor.Element](dst []T, t *tensor.Tensor, p []byte) error {
	return tensor.ConvertInto(dst,
		&tensor.Tensor{Name: t.Name, DType: t.DType, Shape: tensor.Shape{int64(len(dst))},
			Data: tensor.BlobOf(p)})
}

// limits say which values are equal.
type limits struct {
	tolerance, relative float64
	bits                uint64 // of tolerance
	bitwise             bool   // all bits must be equal
}

func (o *CompareOptions) limits() limits {
	return limits{o.Tolerance, o.Relative, math.Float64bits(o.Tolerance), !o.Numeric}
}

// exceed returns a number whose sign bit is set if u and v differ. away has the bits of
// their distance. Bits of positive floats have the order of the floats, so that it
// compares without branches; NaN exceeds every tolerance. It must be inlined.
func (l *limits) exceed(u, v float64, away uint64) uint64 {
	switch {
	case l.bitwise:
		bits := math.Float64bits(u) ^ math.Float64bits(v)
		return bits | -bits
	case l.relative != 0:
		return math.Float64bits(l.tolerance+float64(l.relative*math.Abs(v))) - away
	}
	return l.bits - away
}

// distances returns the bits of the largest distance, and how many values differ.
func distances[T number](x, y []T, l *limits) (largest uint64, different int64) {
	y = y[:len(x)]
	for i := range x {
		u, v := float64(x[i]), float64(y[i])
		away := math.Float64bits(u-v) &^ (1 << 63)
		largest = max(largest, away)
		different += int64(l.exceed(u, v, away) >> 63)
	}
	return largest, different
}

// codeDistances is distances for codes, given the value of each.
func codeDistances[C uint8 | uint16](x, y []C, values []float64,
	l *limits) (largest uint64, different int64) {
	y = y[:len(x)]
	if !l.bitwise && l.relative == 0 { // without exceed, which takes a third of the time
		for i := range x {
			away := math.Float64bits(values[x[i]]-values[y[i]]) &^ (1 << 63)
			largest = max(largest, away)
			different += int64((l.bits - away) >> 63)
		}
		return largest, different
	}
	for i := range x {
		u, v := values[x[i]], values[y[i]]
		away := math.Float64bits(u-v) &^ (1 << 63)
		largest = max(largest, away)
		different += int64(l.exceed(u, v, away) >> 63)
	}
	return largest, different
}

// compareCodes is compareBlocks for codes.
func compareCodes[C uint8 | uint16](c *comparer, r *pieceComparison, x, y []C, at int64,
	p, q []byte) {
	values := c.values()
	if !c.o.Figures && r.addBlock(codeDistances(x, y, values, &c.limits)) {
		return
	}
	r.x, r.y = lookUp(r.x, x, values), lookUp(r.y, y, values)
	compareBlocks(c, r, r.x, r.y, at, p, q)
}

// lookUp decodes codes into dst, which it grows.
func lookUp[C uint8 | uint16](dst []float64, x []C, values []float64) []float64 {
	dst = resize(dst, int64(len(x)))
	for i, code := range x {
		dst[i] = values[code]
	}
	return dst
}

// addBlock adds the result of a block. It returns false, and adds nothing, if the block
// has values that are not finite, or the first element that differs.
func (r *pieceComparison) addBlock(largest uint64, different int64) bool {
	if largest >= infinite || r.first < 0 && different > 0 {
		return false
	}
	r.different += different
	r.addDistance(math.Float64frombits(largest))
	return true
}

// compareBlocks compares a block of values, whose first has index at. p and q are the
// stored bytes.
func compareBlocks[T number](c *comparer, r *pieceComparison, x, y []T, at int64, p, q []byte) {
	if !r.addBlock(distances(x, y, &c.limits)) {
		compareEach(c, r, x, y, at, p, q)
	}
	if c.o.Figures {
		addFigures(r, x, y)
	}
}

// compareEach compares values one by one, and finds the first that differs.
func compareEach[T number](c *comparer, r *pieceComparison, x, y []T, at int64, p, q []byte) {
	w := 0 // the size of a value in bytes, or 0
	if c.a.DType.Bits()%8 == 0 {
		w = len(p) / len(x)
	}
	for i := range x {
		u, v := float64(x[i]), float64(y[i])
		away := math.Abs(u - v)
		r.addDistance(away)
		var same bool
		switch {
		case !c.o.Numeric && w > 0: // decoding does not keep the bits of a NaN
			same = bytes.Equal(p[i*w:(i+1)*w], q[i*w:(i+1)*w])
		case !c.o.Numeric:
			same = math.Float64bits(u) == math.Float64bits(v)
		case away <= c.o.Tolerance || u == v || u != u && v != v:
			same = true
		case !math.IsInf(away, 0) && !math.IsInf(v, 0):
			same = away <= c.o.Tolerance+float64(c.o.Relative*math.Abs(v))
		}
		if !same {
			r.differ(at + int64(i))
		}
		if !same && (u-u != 0 || v-v != 0) {
			r.notFinite++
		}
	}
}

// addDistance updates the largest distance.
func (r *pieceComparison) addDistance(away float64) {
	if away > 0 && !(away <= r.largest) {
		r.largest = away
	}
}

// addFigures sums up the differences of values that are both finite.
func addFigures[T number](r *pieceComparison, x, y []T) {
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
