package torch

import (
	"fmt"
	"reflect"

	"github.com/tensorfile/tensorfile/tensor"
)

// A memory is what opening a file may still take, in bytes.
type memory struct{ left int64 }

// Opening takes memoryFactor bytes for each byte of the pickles that was executed, and
// a megabyte. A list of bools, which are a byte each in a pickle, comes closest: 16 bytes
// an item, in a list that grows.
const (
	memoryBase   = 1 << 20
	memoryFactor = 44
)

// The memory of values, with what is around them.
const (
	itemBytes      = 16  // of a list, or on the stack
	literalBytes   = 16  // a number or string
	containerBytes = 48  // a list or dict without its items
	keyBytes       = 16  // a slot of the table that finds equal keys
	callBytes      = 448 // an object, tensor or storage
	globalBytes    = 256 // a name, and the Global of it
	slotBytes      = 96  // of the memo, out of order
	rowBytes       = 448 // a tensor of the Reader, its blob and span
)

// grow allows for n bytes of a pickle.
func (m *memory) grow(n int) { m.left += memoryFactor * int64(n) }

// take counts n bytes, and fails where not as many are left.
func (m *memory) take(n int) error {
	if m.left -= int64(n); m.left < 0 {
		return fmt.Errorf("%w: values take too much memory for the size of the pickle",
			tensor.ErrLimit)
	}
	return nil
}

// appendTo appends values to a list, whose memory it counts before it grows.
func appendTo[T any](m *memory, list []T, values ...T) ([]T, error) {
	if n := len(list) + len(values); n > cap(list) {
		n = max(n, len(list)*3/2)
		size := int(reflect.TypeFor[T]().Size())
		if err := m.take(n * size); err != nil {
			return list, err
		}
		m.left += int64(cap(list) * size) // is free
		list = append(make([]T, 0, n), list...)
	}
	return append(list, values...), nil
}
