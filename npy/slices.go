package npy

import (
	"context"

	"github.com/tensorfile/tensorfile/tensor"
)

// Read returns the elements of the named file, in row-major order, and their shape. It
// fails with tensor.ErrDType if the dtype of the array is not T's.
func Read[T tensor.Element](name string) ([]T, tensor.Shape, error) {
	r, err := Open(name, nil)
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	t := r.Array()
	if !t.Order.RowMajor() && t.DType == tensor.DTypeOf[T]() {
		if t, err = tensor.Reordered(t, nil); err != nil {
			return nil, nil, err
		}
	}
	values, err := tensor.Load[T](t)
	if err != nil {
		return nil, nil, err
	}
	return values, t.Shape, nil
}

// Write writes values, in row-major order, as an array of that shape to the file named
// name, which appears whole or not at all.
func Write[T tensor.Element](name string, shape tensor.Shape, values []T) error {
	return WriteFile(context.Background(), name, tensor.Of(tensor.New(arrayName, shape, values)),
		nil)
}
