package inspect

import (
	"fmt"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// Value returns the single element of a tensor as a bool, int64, uint64, float32, float64
// or Complex; a Float if it is NaN or infinite. encoding/json encodes all of these with
// all digits.
func Value(t *tensor.Tensor) (any, error) {
	if n, ok := t.Shape.Elements(); !ok || n != 1 {
		return nil, fmt.Errorf("inspect: tensor %s of shape %v is not one element",
			naming.Quote(t.Name), t.Shape)
	}
	switch d := t.DType; {
	case d == tensor.Bool:
		return first[bool](t)
	case d == tensor.F64:
		return finite[float64](t)
	case d.IsFloat():
		return finite[float32](t)
	case d == tensor.C32 || d == tensor.C64 || d == tensor.C128:
		v, err := tensor.Convert[complex128](t)
		if err != nil {
			return nil, err
		}
		return Complex{Float(real(v[0])), Float(imag(v[0]))}, nil
	case isUnsigned(d):
		return first[uint64](t)
	}
	return first[int64](t)
}

// A Complex is a complex number in JSON: the real and the imaginary part.
type Complex [2]Float

func first[T tensor.Element](t *tensor.Tensor) (any, error) {
	v, err := tensor.Convert[T](t)
	if err != nil {
		return nil, err
	}
	return v[0], nil
}

func finite[T float32 | float64](t *tensor.Tensor) (any, error) {
	v, err := tensor.Convert[T](t)
	if err != nil {
		return nil, err
	}
	if v := float64(v[0]); v-v != 0 {
		return Float(v), nil
	}
	return v[0], nil
}
