package tensor

import (
	"fmt"
	"slices"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/naming"
)

// A Tensor is a named array in a file, or on its way into one. Its bytes are
// little-endian and contiguous, without strides or padding.
//
// A Tensor that a Reader returns must not be changed. The zero Order is row-major.
type Tensor struct {
	Name  string
	Shape Shape
	Order Order
	DType DType

	// External says that the elements are kept in another file.
	External bool

	// Data holds the elements of a dense tensor in storage order.
	Data Blob

	// Scheme and Parts are for everything else: sparse and packed layouts, in the words
	// of the file. Data is then empty. A dense tensor may have Parts too, without a
	// Scheme: arrays that the file has in addition to the elements.
	Scheme string
	Parts  []Part
}

// A Part is one of the arrays that make up a tensor that is not dense.
type Part struct {
	Role  string // "values", "indices", "indptr", "coords", …
	DType DType  // Unknown if the file has none
	Data  Blob
}

// Element lists the types of elements that View, Load and Convert return: the built-in
// numbers, bool, and the types of this package. Each stands for exactly one DType; []byte
// is a view of uint8 only.
type Element interface {
	bool | int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 |
		float32 | float64 | complex64 | complex128 |
		Float16 | BFloat16 |
		Float8E4M3FN | Float8E5M2 | Float8E4M3FNUZ | Float8E5M2FNUZ | Float8E8M0FNU
}

// DTypeOf returns the dtype that T stands for.
func DTypeOf[T Element]() DType {
	var z T
	switch any(z).(type) {
	case bool:
		return Bool
	case int8:
		return I8
	case int16:
		return I16
	case int32:
		return I32
	case int64:
		return I64
	case uint8:
		return U8
	case uint16:
		return U16
	case uint32:
		return U32
	case uint64:
		return U64
	case float32:
		return F32
	case float64:
		return F64
	case complex64:
		return C64
	case complex128:
		return C128
	case Float16:
		return F16
	case BFloat16:
		return BF16
	case Float8E4M3FN:
		return F8E4M3FN
	case Float8E5M2:
		return F8E5M2
	case Float8E4M3FNUZ:
		return F8E4M3FNUZ
	case Float8E5M2FNUZ:
		return F8E5M2FNUZ
	case Float8E8M0FNU:
		return F8E8M0FNU
	}
	return Unknown
}

// New makes a dense, row-major tensor of data, which it keeps: the caller must
// not change data while the tensor is in use. (On a big-endian machine the
// bytes are copied into file order.) A length that does not fit the shape is
// reported by [Tensor.Check], which writers and views call.
func New[T Element](name string, shape Shape, data []T) *Tensor {
	d := DTypeOf[T]()
	raw := le.Bytes(data)
	if !le.HostIsLittle && d.Align() > 1 {
		raw = slices.Clone(raw)
		le.ToHost(raw, d.Align())
	}
	return &Tensor{Name: name, DType: d, Shape: shape, Data: BlobOf(raw)}
}

// Dense reports whether Data holds the elements.
func (t *Tensor) Dense() bool { return t.Scheme == "" }

// DTypeName returns the name of the dtype. Where DType is Unknown, it is the file's own
// word for the type of the elements, or the scheme of a tensor that is not dense, such as
// Q4_0; "unknown" if there is neither.
func (t *Tensor) DTypeName() string {
	if t.DType.Known() {
		return t.DType.String()
	}
	if st, ok := t.Data.Stored(); ok && st.Type != "" {
		return st.Type
	}
	if !t.Dense() {
		return t.Scheme
	}
	return Unknown.String()
}

// Reinterpret returns a dense tensor whose bytes are elements of another dtype of the
// same size, such as the void bytes (<V2) that numpy.save writes of bfloat16. Data is
// shared, and not read. It fails with ErrDType if the shape takes another number of
// bytes.
func Reinterpret(t *Tensor, d DType) (*Tensor, error) {
	if t == nil {
		return nil, errNil
	}
	n, ok := t.Shape.Elements()
	size, sized := d.Bytes(n)
	if !ok || !sized || !d.Known() || !t.Dense() || t.External || t.Data.Size() != size {
		return nil, fmt.Errorf("%w: tensor %s, %s%v, is not as many bytes as %v", ErrDType,
			naming.Quote(t.Name), t.DTypeName(), t.Shape, d)
	}
	c := *t
	c.DType = d
	return &c, nil
}

// Size returns the number of bytes of Data and of all parts, decoded; -1 if one of them
// has a size that is known only after decoding.
func (t *Tensor) Size() int64 {
	total := t.Data.Size()
	if total < 0 {
		return -1
	}
	for i := range t.Parts {
		n := t.Parts[i].Data.Size()
		sum, ok := align.Add(total, n)
		if !ok {
			return -1
		}
		total = sum
	}
	return total
}

// Part returns the part of that role, or nil.
func (t *Tensor) Part(role string) *Part {
	for i := range t.Parts {
		if t.Parts[i].Role == role {
			return &t.Parts[i]
		}
	}
	return nil
}

// Check returns the first error in a tensor's description: a negative or uncountable
// shape, an order that is not a permutation, and, for a dense tensor of known type that
// is not external, data that is not as long as type and shape say. The error is
// fs.ErrInvalid, for a wrong argument, and ErrMalformed, for a tensor of a file. It reads
// nothing.
func (t *Tensor) Check() error {
	if t == nil {
		return errNil
	}
	n, ok := t.Shape.Elements()
	if !ok {
		return invalid("tensor %s: shape %v is negative or beyond 2^63 elements",
			naming.Quote(t.Name), t.Shape)
	}
	if !t.Order.Valid(len(t.Shape)) {
		return invalid("tensor %s: order %v is not a permutation of %d dimensions",
			naming.Quote(t.Name), []int(t.Order), len(t.Shape))
	}
	if !t.Dense() || !t.DType.Known() || t.External {
		return nil
	}
	want, ok := t.DType.Bytes(n)
	if !ok {
		return invalid("tensor %s: %v of %v is beyond 2^63 bytes", naming.Quote(t.Name), t.Shape,
			t.DType)
	}
	if have := t.Data.Size(); have != want && have >= 0 {
		return invalid("tensor %s: %d bytes of data where %v of %v takes %d",
			naming.Quote(t.Name), have, t.Shape, t.DType, want)
	}
	return nil
}
