package torch

import (
	"fmt"
	"reflect"

	"github.com/tensorfile/tensorfile/tensor"
)

// A memory counts the bytes of memory that opening a file may still take.
type memory struct{ left int64 }

// Opening may take memoryBase bytes, and memoryFactor bytes for each byte of the pickles
// that was executed. A list of bools takes the most: a bool is a byte in the pickle, and
// 16 bytes in a list that grows.
const (
	memoryBase   = 1 << 20
	memoryFactor = 44
)

// The memory of values and of what refers to them, in bytes.
const (
	itemBytes      = 16  // an item of a list or of the stack
	literalBytes   = 16  // a number or string
	containerBytes = 48  // a list or dict without its items
	keyBytes       = 16  // a slot of the table that finds equal keys
	callBytes      = 448 // an object, tensor or storage
	globalBytes    = 256 // a name, and the Global of it
	slotBytes      = 96  // a slot of the memo that is out of order
	rowBytes       = 448 // a tensor of the Reader, its blob and span
)

// grow adds the memory that n more bytes of a pickle may take.
func (m *memory) grow(n int) { m.left += memoryFactor * int64(n) }

// take subtracts n bytes. It fails with tensor.ErrLimit if fewer are left.
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
		m.left += int64(cap(list) * size) // the old list is free
		list = append(make([]T, 0, n), list...)
	}
	return append(list, values...), nil
}
