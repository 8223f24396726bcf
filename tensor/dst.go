package tensor

import (
	"fmt"
	"io"

	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/naming"
)

// A Dst is memory of the caller for the elements of one tensor; see [Into] and
// [IntoBytes]. The zero Dst is none.
type Dst struct {
	bytes []byte
	dtype DType // of elements in the order of the host; Unknown for bytes as they are
	load  func(t *Tensor) error
}

// Into returns dst as the memory for a tensor, which is converted as [ConvertInto]
// does. Its length must be the number of elements.
func Into[T Element](dst []T) Dst {
	return Dst{le.Bytes(dst), DTypeOf[T](), func(t *Tensor) error { return ConvertInto(dst, t) }}
}

// IntoBytes returns dst as the memory for the bytes of a dense tensor, little-endian and
// in storage order. Its length must be the size of the tensor's Data.
func IntoBytes(dst []byte) Dst {
	return Dst{bytes: dst, load: func(t *Tensor) error {
		if err := dense(t); err != nil {
			return err
		}
		return t.Data.ReadInto(dst)
	}}
}

// IsZero reports whether d is the zero Dst.
func (d Dst) IsZero() bool { return d.load == nil }

// Load fills the memory with the elements of t.
func (d Dst) Load(t *Tensor) error {
	if d.IsZero() {
		return fmt.Errorf("tensor: load tensor %s: the zero Dst has no memory",
			naming.Quote(t.Name))
	}
	return d.load(t)
}

// Plain returns the memory itself if the bytes of t can be read into it without a
// conversion. It fails if t.Data has another size than the memory.
func (d Dst) Plain(t *Tensor) (p []byte, ok bool, err error) {
	switch {
	case !t.Dense():
		return nil, false, nil
	case d.dtype != Unknown && (d.dtype != t.DType || t.DType == Bool ||
		!t.Order.RowMajor() || !le.HostIsLittle && t.DType.Align() > 1):
		return nil, false, nil
	}
	if size := t.Data.Size(); size >= 0 && int64(len(d.bytes)) != size {
		return nil, false, fmt.Errorf("tensor %s has %d bytes, its memory %d: %w",
			naming.Quote(t.Name), size, len(d.bytes), io.ErrShortBuffer)
	}
	return d.bytes, true, nil
}
