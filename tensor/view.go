package tensor

import (
	"errors"
	"fmt"
	"io"

	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/memory"
	"github.com/tensorfile/tensorfile/internal/naming"
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
		return 0, fmt.Errorf("%w: tensor %s is %v, not %v", ErrDType, naming.Quote(t.Name),
			t.DType,
			d)
	}
	n, _ := t.Shape.Elements()
	return n, nil
}

func dense(t *Tensor) error {
	if t == nil {
		return errNil
	}
	if t.External {
		return fmt.Errorf("%w: tensor %s is external", errors.ErrUnsupported, naming.Quote(t.Name))
	}
	if !t.Dense() {
		return fmt.Errorf("%w: tensor %s is %s, not dense", errors.ErrUnsupported,
			naming.Quote(t.Name), naming.Quote(t.Scheme))
	}
	return t.Check()
}

// View returns the elements of t in storage order without a copy. They are borrowed: see
// the package comment. It fails with [ErrNoView], and then [Load] works, if the bytes are
// not in memory, encoded, misaligned for T, or in another byte order than the machine's.
// It fails with [ErrDType] if the dtype is not T, with errors.ErrUnsupported if t is not
// dense, and with [ErrNoTensor] if t is nil. It takes constant time, except for bool: a
// byte other than 0 and 1 is [ErrMalformed].
func View[T Element](t *Tensor) ([]T, error) {
	n, err := elements[T](t)
	if err != nil {
		return nil, err
	}
	if !le.HostIsLittle && t.DType.Align() > 1 {
		return nil, fmt.Errorf("%w: this machine is big-endian", ErrNoView)
	}
	b, ok := t.Data.Bytes()
	if !ok {
		if _, err := t.Data.ReadAt(nil, 0); err != nil && err != io.EOF { // why not
			return nil, err
		}
		return nil, fmt.Errorf("%w: tensor %s is not plain bytes in memory", ErrNoView,
			naming.Quote(t.Name))
	}
	if want, _ := t.DType.Bytes(n); int64(len(b)) != want {
		return nil, fmt.Errorf("%w: tensor %s: %d bytes of data, not %d", ErrMalformed,
			naming.Quote(t.Name), len(b), want)
	}
	if t.DType == Bool {
		if err := memory.Guard(b, func() error { return checkBools(t.Name, b) }); err != nil {
			return nil, err
		}
	}
	s, ok := le.Cast[T](b)
	if !ok {
		return nil, fmt.Errorf("%w: tensor %s is not aligned to %d bytes", ErrNoView,
			naming.Quote(t.Name), t.DType.Align())
	}
	return s, nil
}

// Load returns a copy of the elements of t in storage order, owned by the
// caller. It costs one allocation and one copy for plain bytes. It fails
// as View does (except ErrNoView), and if reading fails.
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
// dst holds anything. It fails as [Load] does.
func LoadInto[T Element](dst []T, t *Tensor) error {
	n, err := elements[T](t)
	if err != nil {
		return err
	}
	if int64(len(dst)) != n {
		return fmt.Errorf("tensor: LoadInto requires %d elements, not %d: %w", n, len(dst),
			io.ErrShortBuffer)
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
		return fmt.Errorf("%w: tensor %s: element %d is the bool 0x%02x", ErrMalformed,
			naming.Quote(name), i, b[i])
	}
	return nil
}
