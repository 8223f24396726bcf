package convert

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// significand is the number of significant bits of a type that counts as a
// number here, and whether it is an integer and signed.
func significand(d tensor.DType) (bits int, integer, signed, ok bool) {
	switch d {
	case tensor.Bool:
		return 1, true, false, true
	case tensor.U8, tensor.U16, tensor.U32, tensor.U64:
		return d.Bits(), true, false, true
	case tensor.I8, tensor.I16, tensor.I32, tensor.I64:
		return d.Bits() - 1, true, true, true
	case tensor.F16:
		return 11, false, true, true
	case tensor.BF16:
		return 8, false, true, true
	case tensor.F32:
		return 24, false, true, true
	case tensor.F64:
		return 53, false, true, true
	case tensor.F8E4M3FN, tensor.F8E4M3FNUZ:
		return 4, false, true, true
	case tensor.F8E5M2, tensor.F8E5M2FNUZ:
		return 3, false, true, true
	case tensor.F8E8M0FNU:
		return 1, false, false, true
	}
	return 0, false, false, false
}

// exponents is the range of a float type's powers of two, from its smallest
// subnormal to its largest value.
func exponents(d tensor.DType) (low, high int) {
	switch d {
	case tensor.F16:
		return -24, 15
	case tensor.BF16:
		return -133, 127
	case tensor.F32:
		return -149, 127
	case tensor.F64:
		return -1074, 1023
	case tensor.F8E4M3FN:
		return -9, 8
	case tensor.F8E4M3FNUZ:
		return -10, 7
	case tensor.F8E5M2:
		return -16, 15
	case tensor.F8E5M2FNUZ:
		return -17, 15
	case tensor.F8E8M0FNU:
		return -127, 127
	}
	return 0, 0
}

// widens reports whether every value of from is one of to. NaNs stay NaNs.
func widens(from, to tensor.DType) bool {
	if from == tensor.C64 && to == tensor.C128 || from == tensor.C32 && (to == tensor.C64 || to == tensor.C128) {
		return true
	}
	fb, fi, fs, ok1 := significand(from)
	tb, ti, ts, ok2 := significand(to)
	switch {
	case !ok1 || !ok2 || to == tensor.Bool || to.IsFloat() && to.Bits() == 8:
		return false // nobody wants an 8-bit float that did not have one
	case fi && ti:
		return fb <= tb && (!fs || ts)
	case fi:
		_, high := exponents(to)
		return fb <= tb && fb-1 <= high
	case ti:
		return false
	}
	flow, fhigh := exponents(from)
	tlow, thigh := exponents(to)
	return fb <= tb && flow >= tlow && fhigh <= thigh && (!fs || ts)
}

// narrows reports whether values can be rounded, or, integers, refused where
// they do not fit.
func narrows(from, to tensor.DType) bool {
	if from == tensor.C128 && to == tensor.C64 {
		return true
	}
	_, fi, _, ok1 := significand(from)
	_, ti, _, ok2 := significand(to)
	if !ok1 || !ok2 || to == tensor.Bool || to.IsFloat() && to.Bits() == 8 {
		return false
	}
	return fi || !ti
}

// choose finds the type of a target that serves for d: the smallest that holds
// all its values, else the widest that rounds them, integers before floats for
// an integer and floats for a float.
func choose(d tensor.DType, have []tensor.DType) (to tensor.DType, kind Allow) {
	better := func(a, b tensor.DType, smaller bool) bool { // a is better than b
		if b == tensor.Unknown {
			return true
		}
		if x, y := a.IsInt() == (d.IsInt() || d == tensor.Bool), b.IsInt() == (d.IsInt() || d == tensor.Bool); x != y {
			return x
		}
		if a.Bits() != b.Bits() {
			return (a.Bits() < b.Bits()) == smaller
		}
		return a < b // of bfloat16 and float16, of signed and unsigned, always the same
	}
	for _, x := range have {
		if widens(d, x) && better(x, to, true) {
			to, kind = x, Widen
		}
	}
	if to != tensor.Unknown {
		return to, kind
	}
	for _, x := range have {
		if narrows(d, x) && better(x, to, false) {
			to, kind = x, Narrow
		}
	}
	return to, kind
}

// converted streams b, elements of type from, as elements of type to.
func converted(b tensor.Blob, from, to tensor.DType, n int64) (tensor.Blob, error) {
	if !slices.Contains(tensor.DTypes(), to) || !widens(from, to) && !narrows(from, to) {
		return tensor.Blob{}, fmt.Errorf("%w: no way from %v to %v", tensor.ErrDType, from, to)
	}
	size, ok := to.Bytes(n)
	if !ok {
		return tensor.Blob{}, fmt.Errorf("%w: %d elements of %v are beyond 2^63 bytes", tensor.ErrLimit, n, to)
	}
	return tensor.BlobFunc(size, func() (io.ReadCloser, error) {
		r, err := b.Open()
		if err != nil {
			return nil, err
		}
		return &converter{r: r, from: from, to: to}, nil
	}), nil
}

// piece is how many elements a converter takes at a time.
const piece = 16 << 10

type converter struct {
	r        io.ReadCloser
	from, to tensor.DType
	in, buf  []byte
	out      []byte // converted, not yet handed out: a part of buf
	at       int64  // elements so far
	err      error  // of r, once out is returned
}

func (c *converter) Close() error { return c.r.Close() }

func (c *converter) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if len(c.out) == 0 && c.err == nil {
		if c.in == nil {
			c.in, c.buf = make([]byte, piece*c.from.Size()), make([]byte, piece*c.to.Size())
		}
		var n int
		n, c.err = source.ReadPiece(c.r, c.in)
		count := n / c.from.Size()
		if whole := count * c.from.Size(); whole < n {
			if n = whole; c.err == io.EOF {
				c.err = io.ErrUnexpectedEOF
			}
		}
		c.out = c.buf[:count*c.to.Size()]
		if bad := convertElements(c.out, c.to, c.in[:n], c.from); bad >= 0 {
			c.out, c.err = nil, fmt.Errorf("%w: element %d does not fit %v", tensor.ErrDType, c.at+int64(bad), c.to)
			return 0, c.err
		}
		c.at += int64(count)
	}
	if len(c.out) == 0 {
		return 0, c.err
	}
	n := copy(p, c.out)
	c.out = c.out[n:]
	return n, nil
}

// convertElements converts whole slices. It returns the index of the first
// integer that does not fit, or -1.
func convertElements(dst []byte, to tensor.DType, src []byte, from tensor.DType) (bad int) {
	fw, tw := from.Size(), to.Size()
	if from.IsComplex() {
		half := map[tensor.DType]tensor.DType{tensor.C32: tensor.F16, tensor.C64: tensor.F32, tensor.C128: tensor.F64}
		return convertElements(dst, half[to], src, half[from])
	}
	for i := range len(src) / fw {
		s, d := src[i*fw:i*fw+fw], dst[i*tw:i*tw+tw]
		switch {
		case from == tensor.U64:
			u := binary.LittleEndian.Uint64(s)
			if u > math.MaxInt64 {
				if to.IsInt() && to != tensor.U64 {
					return i
				}
				putFloat(d, to, float64(u), roundToOdd(2*sticky(int64(u>>1|u&1)), to))
				continue
			}
			if !putInt(d, to, int64(u)) {
				return i
			}
		case from.IsFloat():
			v := getFloat(s, from)
			putFloat(d, to, v, roundToOdd(v, to))
		default:
			if !putInt(d, to, getInt(s, from)) {
				return i
			}
		}
	}
	return -1
}

func getInt(b []byte, d tensor.DType) int64 {
	switch d {
	case tensor.I8:
		return int64(int8(b[0]))
	case tensor.I16:
		return int64(int16(binary.LittleEndian.Uint16(b)))
	case tensor.U16:
		return int64(binary.LittleEndian.Uint16(b))
	case tensor.I32:
		return int64(int32(binary.LittleEndian.Uint32(b)))
	case tensor.U32:
		return int64(binary.LittleEndian.Uint32(b))
	case tensor.I64:
		return int64(binary.LittleEndian.Uint64(b))
	}
	return int64(b[0]) // uint8 and bool
}

// putInt stores an integer, and answers false where it does not fit.
func putInt(b []byte, d tensor.DType, v int64) bool {
	if !d.IsInt() {
		// Not float32(v), which rounds twice on 386.
		putFloat(b, d, float64(v), roundToOdd(sticky(v), d))
		return true
	}
	bits := d.Bits()
	signed := d == tensor.I8 || d == tensor.I16 || d == tensor.I32 || d == tensor.I64
	switch {
	case signed && bits < 64 && (v < -1<<(bits-1) || v >= 1<<(bits-1)):
		return false
	case !signed && (v < 0 || bits < 64 && v >= 1<<bits):
		return false
	}
	switch bits {
	case 8:
		b[0] = byte(v)
	case 16:
		binary.LittleEndian.PutUint16(b, uint16(v))
	case 32:
		binary.LittleEndian.PutUint32(b, uint32(v))
	default:
		binary.LittleEndian.PutUint64(b, uint64(v))
	}
	return true
}

func getFloat(b []byte, d tensor.DType) float64 {
	switch d {
	case tensor.F16:
		return float64(tensor.Float16(binary.LittleEndian.Uint16(b)).Float32())
	case tensor.BF16:
		return float64(tensor.BFloat16(binary.LittleEndian.Uint16(b)).Float32())
	case tensor.F32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
	case tensor.F8E4M3FN:
		return float64(tensor.Float8E4M3FN(b[0]).Float32())
	case tensor.F8E5M2:
		return float64(tensor.Float8E5M2(b[0]).Float32())
	case tensor.F8E4M3FNUZ:
		return float64(tensor.Float8E4M3FNUZ(b[0]).Float32())
	case tensor.F8E5M2FNUZ:
		return float64(tensor.Float8E5M2FNUZ(b[0]).Float32())
	case tensor.F8E8M0FNU:
		return float64(tensor.Float8E8M0FNU(b[0]).Float32())
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(b))
}

// putFloat stores v; narrow is v as float32, rounded so that it can be rounded
// again.
func putFloat(b []byte, d tensor.DType, v float64, narrow float32) {
	switch d {
	case tensor.F16:
		binary.LittleEndian.PutUint16(b, uint16(tensor.NewFloat16(narrow)))
	case tensor.BF16:
		binary.LittleEndian.PutUint16(b, uint16(tensor.NewBFloat16(narrow)))
	case tensor.F32:
		binary.LittleEndian.PutUint32(b, math.Float32bits(narrow))
	case tensor.F64:
		binary.LittleEndian.PutUint64(b, math.Float64bits(v))
	}
}

// roundToOdd is v as float32: rounded to the nearest where that is the end, else
// so that the last bit tells that something was cut off. Rounding such a value
// once more gives what rounding v itself would, where rounding twice to the
// nearest would not.
func roundToOdd(v float64, to tensor.DType) float32 {
	f := float32(v)
	if to == tensor.F32 || float64(f) == v || v != v {
		return f
	}
	b := math.Float32bits(f)
	if math.Abs(float64(f)) > math.Abs(v) {
		b-- // towards zero, from infinity too
	}
	return math.Float32frombits(b | 1)
}

// sticky is v as float64, where the last of 53 bits tells that something was cut
// off.
func sticky(v int64) float64 {
	if v > -1<<53 && v < 1<<53 {
		return float64(v)
	}
	const low = 1<<10 - 1
	if v&low != 0 {
		v = v&^low | 1<<10
	}
	return float64(v)
}
