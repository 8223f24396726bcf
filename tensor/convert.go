package tensor

import (
	"fmt"
	"io"
	"iter"

	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/naming"
)

// Convert returns the elements of a dense tensor of any dtype as T, in row-major order,
// in memory of the caller. If T cannot represent a value, it is rounded to the nearest if
// T is a float; if T is an integer, Convert fails with ErrDType, and also for complex
// numbers and a real T. Quantised blocks of ggml are decoded to float32 first, quantised
// integers are converted as stored, without scale and zero point. It also fails as [Load]
// does. It takes about 1 ns an element.
func Convert[T Element](t *Tensor) ([]T, error) {
	t, err := convertible(t, DTypeOf[T]())
	if err != nil {
		return nil, err
	}
	n, _ := t.Shape.Elements()
	if t.DType == DTypeOf[T]() {
		return Load[T](t)
	}
	if _, ok := t.Data.Memory(); !ok && !t.Data.plausible() {
		var dst []T // the file proves its size before the elements are allocated
		err := convertPieces(t, DTypeOf[T](), func(p []byte) error {
			s, _ := le.Cast[T](p)
			dst = append(dst, s...)
			return nil
		})
		return dst, err
	}
	if _, err := toInt(n); err != nil {
		return nil, err
	}
	dst := make([]T, n)
	return dst, convertInto(dst, t)
}

// ConvertInto converts as [Convert] does, into dst, whose length must be the number of
// elements. After an error dst holds anything.
func ConvertInto[T Element](dst []T, t *Tensor) error {
	t, err := convertible(t, DTypeOf[T]())
	if err != nil {
		return err
	}
	if n, _ := t.Shape.Elements(); int64(len(dst)) != n {
		return fmt.Errorf("tensor: ConvertInto needs %d elements, not %d: %w", n, len(dst),
			io.ErrShortBuffer)
	}
	if t.DType == DTypeOf[T]() {
		return loadInto(dst, t)
	}
	return convertInto(dst, t)
}

// convertInto decodes straight into dst.
func convertInto[T Element](dst []T, t *Tensor) error {
	out := le.Bytes(dst)
	return eachPiece(t, func(first int64, n int, p []byte) error {
		size := le.Size[T]()
		at := int(first) * size
		return convertPiece(t, first, out[at:at+n*size], DTypeOf[T](), p, n)
	})
}

// Values returns the elements of a tensor of any dtype as T in pieces, in storage
// order, as [Convert] makes them. A piece is valid until the next one; an error is the
// last.
func Values[T Element](t *Tensor) iter.Seq2[[]T, error] {
	return func(yield func([]T, error) bool) {
		d := DTypeOf[T]()
		t, err := numbers(t)
		if err != nil {
			yield(nil, err)
			return
		}
		if err := CanConvert(t.DType, d); err != nil {
			yield(nil, fmt.Errorf("tensor %s: %w", naming.Quote(t.Name), err))
			return
		}
		err = convertPieces(t, d, func(p []byte) error {
			s, _ := le.Cast[T](p)
			if !yield(s, nil) {
				return errStop
			}
			return nil
		})
		if err != nil && err != errStop {
			yield(nil, err)
		}
	}
}

var errStop = fmt.Errorf("tensor: stopped")

// As returns t with elements of another dtype, converted as they are read, in the order
// of t; of quantised blocks of ggml a dense tensor. Errors of single elements come from
// reading. It costs nothing until then; reading uses all cores and holds a few MiB.
// A number beyond the range of a float dtype becomes an infinity, or NaN where the dtype
// has no infinities; see [AsFinite].
func As(t *Tensor, to DType) (*Tensor, error) { return as(t, to, false) }

// AsFinite returns what [As] does, but reading fails with ErrOverflow, which names the
// element and its value, where a number becomes an infinity, or a number or an infinity
// becomes NaN.
func AsFinite(t *Tensor, to DType) (*Tensor, error) { return as(t, to, true) }

func as(t *Tensor, to DType, finite bool) (*Tensor, error) {
	t, err := numbers(t)
	if err != nil {
		return nil, err
	}
	if t.DType == to {
		return t, nil
	}
	if err := CanConvert(t.DType, to); err != nil {
		return nil, fmt.Errorf("tensor %s: %w", naming.Quote(t.Name), err)
	}
	n, _ := t.Shape.Elements()
	size, ok := to.Bytes(n)
	if !ok {
		return nil, fmt.Errorf("%w: tensor %s: %d elements of %v are beyond 2^63 bytes", ErrLimit,
			naming.Quote(t.Name), n, to)
	}
	out := *t
	out.DType, out.Parts = to, nil
	out.Data = BlobFunc(size, func() (io.ReadCloser, error) { return newConverter(t, to, finite) })
	return &out, nil
}

// CanConvert returns nil if elements of from can be converted to the dtype to, though
// single values may not fit, else ErrDType.
func CanConvert(from, to DType) error {
	switch {
	case from == to && from.Known():
		return nil
	case !hasValues(from), !isEncoded(to), from.IsComplex() && !to.IsComplex():
		return fmt.Errorf("%w: %v cannot be converted to %v", ErrDType, from, to)
	}
	return nil
}

// hasValues reports whether elements of d are numbers.
func hasValues(d DType) bool { return d.Known() }

func isEncoded(d DType) bool {
	switch d {
	case Bool, QI8, QU8, QI32, F16, BF16, F32, F64, F8E4M3FN, F8E5M2, F8E4M3FNUZ, F8E5M2FNUZ:
		return true
	}
	return d.IsInt() || d.IsComplex()
}

// convertible returns t in row-major order, or why it cannot be converted.
func convertible(t *Tensor, to DType) (*Tensor, error) {
	t, err := numbers(t)
	if err != nil {
		return nil, err
	}
	if err := CanConvert(t.DType, to); err != nil {
		return nil, fmt.Errorf("tensor %s: %w", naming.Quote(t.Name), err)
	}
	if t.Order.RowMajor() {
		return t, nil
	}
	return Reordered(t, nil)
}

// pieceElements is how many elements are read at a time: whole bytes of every dtype.
const pieceElements = 64 << 10

// A pieceReader reads the elements of a tensor piece by piece.
type pieceReader struct {
	t         *Tensor
	total, at int64 // elements
	memory    []byte
	r         io.ReadCloser // where there is no memory
}

func newPieceReader(t *Tensor) (*pieceReader, error) {
	p := &pieceReader{t: t}
	p.total, _ = t.Shape.Elements()
	b, ok := t.Data.Memory()
	if ok && (le.HostIsLittle || t.DType.Align() == 1) && isAligned(b, t.DType) {
		p.memory = b
		return p, nil
	}
	var err error
	p.r, err = t.Data.Open()
	return p, err
}

// bytes is the size of n elements.
func (p *pieceReader) bytes(n int64) int { return int((n*int64(p.t.DType.Bits()) + 7) / 8) }

// next returns the next n elements, aligned and in the order of the host: in *buf,
// which it allocates where it is too small, or in memory of the tensor. At the end n is
// 0.
func (p *pieceReader) next(buf *[]byte) (b []byte, n int, err error) {
	n = int(min(pieceElements, p.total-p.at))
	start := p.bytes(p.at) // of a whole number of bytes
	p.at += int64(n)
	switch {
	case p.r == nil:
		return p.memory[start:p.bytes(p.at)], n, nil
	case n == 0:
		return nil, 0, atEnd(p.r)
	}
	if size := p.bytes(int64(n)); cap(*buf) < size {
		*buf = alignedBytes(size)
	}
	b = (*buf)[:p.bytes(int64(n))]
	if _, err := io.ReadFull(p.r, b); err != nil {
		return nil, 0, unexpected(err)
	}
	toHost(b, p.t.DType)
	return b, n, nil
}

func (p *pieceReader) close() {
	if p.r != nil {
		p.r.Close()
	}
}

// eachPiece calls f with the elements of t, aligned and in the order of the host, n
// from index first on in p. p is valid during the call.
func eachPiece(t *Tensor, f func(first int64, n int, p []byte) error) error {
	r, err := newPieceReader(t)
	if err != nil {
		return err
	}
	defer r.close()
	var buf []byte
	for {
		first := r.at
		p, n, err := r.next(&buf)
		if err != nil || n == 0 {
			return err
		}
		if err := f(first, n, p); err != nil {
			return err
		}
	}
}

// atEnd reads on to the end of a stream, where digests are checked.
func atEnd(r io.Reader) error {
	var one [1]byte
	switch n, err := io.ReadFull(r, one[:]); {
	case n > 0:
		return fmt.Errorf("%w: more data than shape and dtype need", ErrMalformed)
	case err == io.EOF:
		return nil
	default:
		return err
	}
}

// convertPieces calls f with the elements of t as elements of to, in the order of the
// host.
func convertPieces(t *Tensor, to DType, f func(p []byte) error) error {
	total, _ := t.Shape.Elements()
	buf := alignedBytes(int(min(pieceElements, total)) * to.Size())
	return eachPiece(t, func(first int64, n int, p []byte) error {
		out := buf[:n*to.Size()]
		if err := convertPiece(t, first, out, to, p, n); err != nil {
			return err
		}
		return f(out)
	})
}

// convertPiece converts n elements of t, of which the first has index first.
func convertPiece(t *Tensor, first int64, dst []byte, to DType, src []byte, n int) error {
	if t.DType == Bool {
		if i := le.NotBool(src); i >= 0 {
			return fmt.Errorf("%w: %selement %d is the bool 0x%02x", ErrMalformed, t.prefix(),
				first+int64(i), src[i])
		}
	}
	if bad := convertElements(dst, to, src, t.DType, n); bad >= 0 {
		return t.misfit(ErrDType, first, bad, src, to)
	}
	return nil
}

// misfit is the error of element i of a piece, src, whose value to does not have.
func (t *Tensor) misfit(class error, first int64, i int, src []byte, to DType) error {
	return fmt.Errorf("%w: %selement %d of %v is %s, which does not fit %v", class, t.prefix(),
		first+int64(i), t.DType, elementText(src, t.DType, i), to)
}

// prefix names t in an error, where it has a name.
func (t *Tensor) prefix() string {
	if t.Name == "" {
		return ""
	}
	return "tensor " + naming.Quote(t.Name) + ": "
}

// convertElements converts n elements, block by block. It returns the index of the
// first that does not fit, or -1.
func convertElements(dst []byte, to DType, src []byte, from DType, n int) (bad int) {
	switch {
	case from == to:
		copy(dst, src)
		return -1
	case to.IsComplex() && from.IsComplex():
		return convertElements(dst, component(to), src, component(from), 2*n)
	}
	for first := 0; first < n; first += blockLen {
		k := min(blockLen, n-first)
		in, out := src[first*from.Bits()/8:(((first+k)*from.Bits())+7)/8],
			dst[first*to.Bits()/8:(((first+k)*to.Bits())+7)/8]
		if bad := convertBlock(out, to, in, from, k); bad >= 0 {
			return first + bad
		}
	}
	return -1
}

// convertBlock converts up to blockLen elements.
func convertBlock(dst []byte, to DType, src []byte, from DType, n int) (bad int) {
	isInteger := from == Bool || from.IsInt() || from == QI8 || from == QI32 ||
		from.Bits() <= 16 && !from.IsFloat() && !from.IsComplex()
	switch {
	case to.IsComplex():
		var real [blockLen]float64
		decodeFloat64(real[:n], src, from, to == C128)
		var both [2 * blockLen]float64
		for i, v := range real[:n] {
			both[2*i] = v
		}
		encodeFloat64(dst, component(to), both[:2*n])
	case to == F64 && from != F64:
		out, _ := le.Cast[float64](dst)
		decodeFloat64(out, src, from, true)
	case to == F32 && fitsFloat32(from):
		out, _ := le.Cast[float32](dst)
		decodeFloat32(out, src, from)
	case to.IsFloat() && to != F64 && fitsFloat32(from):
		var block [blockLen]float32
		decodeFloat32(block[:n], src, from)
		encodeFloat32(dst, to, block[:n])
	case to.IsFloat():
		var block [blockLen]float64
		decodeFloat64(block[:n], src, from, false)
		encodeFloat64(dst, to, block[:n])
	case from == U64:
		s, _ := le.Cast[uint64](src)
		var block [blockLen]int64
		for i, v := range s {
			if block[i] = int64(v); block[i] < 0 {
				if bad := encodeInt64(dst, to, block[:i]); bad >= 0 {
					return bad
				}
				return i
			}
		}
		return encodeInt64(dst, to, block[:n])
	case isInteger:
		var block [blockLen]int64
		decodeInt64(block[:n], src, from)
		return encodeInt64(dst, to, block[:n])
	default:
		var block [blockLen]float64
		decodeFloat64(block[:n], src, from, true)
		return encodeIntegral(dst, to, block[:n])
	}
	return -1
}

// component is the dtype of the two parts of a complex dtype.
func component(d DType) DType {
	switch d {
	case C32:
		return F16
	case C64:
		return F32
	}
	return F64
}
