package tensor

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/tensorfile/tensorfile/internal/fault"
	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/quote"
)

// elements checks that t is dense and of type T and counts its elements.
func elements[T Element](t *Tensor) (int64, error) {
	if t == nil {
		return 0, errNil
	}
	if err := dense(t); err != nil {
		return 0, err
	}
	if d := DTypeOf[T](); t.DType != d {
		return 0, fmt.Errorf("%w: tensor %s is %v, not %v", ErrDType, quote.Name(t.Name), t.DType, d)
	}
	n, _ := t.Shape.Elements()
	return n, nil
}

func dense(t *Tensor) error {
	if t == nil {
		return errNil
	}
	if t.External {
		return fmt.Errorf("%w: tensor %s is external", errors.ErrUnsupported, quote.Name(t.Name))
	}
	if !t.Dense() {
		return fmt.Errorf("%w: tensor %s is %s, not dense", errors.ErrUnsupported, quote.Name(t.Name), quote.Name(t.Scheme))
	}
	return t.Check()
}

// View returns the elements of t in storage order without a copy. They are
// borrowed: see the package comment. It returns [ErrNoView] where the bytes are
// not in memory, encoded, misaligned for T, or in another byte order than the
// machine's, and then [Load] works; ErrDType where t is not of type T;
// errors.ErrUnsupported where t is not dense; ErrNoTensor for a nil t.
//
// It takes constant time, but for bool, whose bytes are first looked at: other
// values than 0 and 1 are ErrMalformed.
func View[T Element](t *Tensor) ([]T, error) {
	n, err := elements[T](t)
	if err != nil {
		return nil, err
	}
	if !le.HostIsLittle && t.DType.Align() > 1 {
		return nil, fmt.Errorf("%w: this machine is big-endian", ErrNoView)
	}
	if err := t.Data.checkView(); err != nil {
		return nil, err
	}
	b, ok := t.Data.Bytes()
	if !ok {
		return nil, fmt.Errorf("%w: tensor %s is not plain bytes in memory", ErrNoView, quote.Name(t.Name))
	}
	if want, _ := t.DType.Bytes(n); int64(len(b)) != want {
		return nil, fmt.Errorf("%w: tensor %s: %d bytes of data, not %d", ErrMalformed, quote.Name(t.Name), len(b), want)
	}
	if t.DType == Bool {
		if err := fault.Guard(b, func() error { return checkBools(t.Name, b) }); err != nil {
			return nil, err
		}
	}
	s, ok := le.Cast[T](b)
	if !ok {
		return nil, fmt.Errorf("%w: tensor %s is not aligned to %d bytes", ErrNoView, quote.Name(t.Name), t.DType.Align())
	}
	return s, nil
}

// Load returns a copy of the elements of t in storage order, owned by the
// caller. It costs one allocation and one copy for plain bytes. Errors are
// those of [View] without ErrNoView, and those of reading.
func Load[T Element](t *Tensor) ([]T, error) {
	n, err := elements[T](t)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return []T{}, t.Data.ReadInto(nil)
	}
	if !t.Data.plausible() {
		return loadSlowly[T](t)
	}
	if _, err := toInt(n * int64(le.Size[T]())); err != nil { // Check has multiplied the same
		return nil, err
	}
	dst := make([]T, n)
	if err := loadInto(dst, t); err != nil {
		return nil, err
	}
	return dst, nil
}

// loadSlowly lets the file prove its size before the elements are allocated.
func loadSlowly[T Element](t *Tensor) ([]T, error) {
	b, err := t.Data.ReadAll()
	if err != nil {
		return nil, err
	}
	if t.DType == Bool {
		if err := checkBools(t.Name, b); err != nil {
			return nil, err
		}
	}
	le.ToHost(b, t.DType.Align())
	if s, ok := le.Cast[T](b); ok {
		return s, nil
	}
	s := make([]T, len(b)/le.Size[T]())
	copy(le.Bytes(s), b)
	return s, nil
}

// LoadInto copies the elements of t in storage order into dst, whose length
// must be their number. It allocates nothing for plain bytes. After an error
// dst holds anything. Errors are those of [Load].
func LoadInto[T Element](dst []T, t *Tensor) error {
	n, err := elements[T](t)
	if err != nil {
		return err
	}
	if int64(len(dst)) != n {
		return fmt.Errorf("tensor: LoadInto requires %d elements, not %d: %w", n, len(dst), io.ErrShortBuffer)
	}
	return loadInto(dst, t)
}

func loadInto[T Element](dst []T, t *Tensor) error {
	b := le.Bytes(dst)
	if err := t.Data.ReadInto(b); err != nil {
		return err
	}
	if t.DType == Bool {
		if err := checkBools(t.Name, b); err != nil {
			clear(dst) // a Go bool that is neither 0 nor 1 must not get out
			return err
		}
	}
	le.ToHost(b, t.DType.Align())
	return nil
}

// checkBools looks for bytes that a Go bool cannot be.
func checkBools(name string, b []byte) error {
	if i := le.NotBool(b); i >= 0 {
		return fmt.Errorf("%w: tensor %s: element %d is the bool 0x%02x", ErrMalformed, quote.Name(name), i, b[i])
	}
	return nil
}

// Float32s returns the elements of any dense numeric tensor as float32, in
// row-major order: bool (0 and 1), integers, and floats of every whole-byte
// width, rounded to the nearest. The result is the caller's. Complex, quantised
// and sub-byte types are ErrDType.
func Float32s(t *Tensor) ([]float32, error) {
	if err := dense(t); err != nil {
		return nil, err
	}
	if !t.Order.RowMajor() {
		r, err := Reordered(t, nil)
		if err != nil {
			return nil, err
		}
		t = r
	}
	switch t.DType {
	case Bool:
		return convert(t, func(v bool) float32 {
			if v {
				return 1
			}
			return 0
		})
	case I8:
		return convert(t, func(v int8) float32 { return float32(v) })
	case I16:
		return convert(t, func(v int16) float32 { return float32(v) })
	case I32:
		return convert(t, func(v int32) float32 { return float32(v) })
	case I64:
		return convert(t, roundInt64)
	case U8:
		return convert(t, func(v uint8) float32 { return float32(v) })
	case U16:
		return convert(t, func(v uint16) float32 { return float32(v) })
	case U32:
		return convert(t, func(v uint32) float32 { return float32(v) })
	case U64:
		return convert(t, func(v uint64) float32 {
			if v > math.MaxInt64 {
				return 2 * roundInt64(int64(v>>1|v&1))
			}
			return roundInt64(int64(v))
		})
	case F16:
		return convert(t, Float16.Float32)
	case BF16:
		return convert(t, BFloat16.Float32)
	case F32:
		return Load[float32](t)
	case F64:
		return convert(t, func(v float64) float32 { return float32(v) })
	case F8E4M3FN:
		return convert(t, Float8E4M3FN.Float32)
	case F8E5M2:
		return convert(t, Float8E5M2.Float32)
	case F8E4M3FNUZ:
		return convert(t, Float8E4M3FNUZ.Float32)
	case F8E5M2FNUZ:
		return convert(t, Float8E5M2FNUZ.Float32)
	case F8E8M0FNU:
		return convert(t, Float8E8M0FNU.Float32)
	}
	return nil, fmt.Errorf("%w: tensor %s is %v, which has no float32 values", ErrDType, quote.Name(t.Name), t.DType)
}

// roundInt64 is float32(v), which rounds twice on 386: first to float64, which
// may land in the middle between two values of float32. Here the last bit that
// float64 keeps says that something was cut off.
func roundInt64(v int64) float32 {
	const low = 1<<10 - 1
	if (v <= -1<<53 || v >= 1<<53) && v&low != 0 {
		v = v&^low | 1<<10
	}
	return float32(float64(v))
}

func convert[T Element](t *Tensor, f func(T) float32) ([]float32, error) {
	var src []T
	err := ErrNoView
	if _, ok := t.Data.Memory(); ok {
		src, err = View[T](t)
	}
	if errors.Is(err, ErrNoView) {
		src, err = Load[T](t)
	}
	if err != nil {
		return nil, err
	}
	dst := make([]float32, len(src))
	for i, v := range src {
		dst[i] = f(v)
	}
	return dst, nil
}
