// Package sparse checks and sorts sparse tensors, and converts them to and from dense
// tensors.
//
//	dense, err := sparse.Densify(ctx, t, nil)
//
// See the examples of [Check], [Densify] and [Sparsify].
//
// It knows two schemes. A compressed matrix (scheme "sparse_csr" or "zt.sparse_csr/1")
// has the parts values, indices (the column of each value) and indptr (for each row the
// index of its first value, and last the number of values). A tensor of coordinates
// ("sparse_coo" or "zt.sparse_coo/1") has the parts values and coords: the coordinates of
// all values in dimension 0, then their coordinates in dimension 1, and so on. A tensor
// of ONNX has the part indices instead of coords: the coordinates of each value, or the
// number of its element in row-major order. Index parts may be of any integer type; an
// unknown dtype is uint64.
//
// All operations hold the indices in memory, 8 bytes each, and the values too if they are
// not in order. [Options.MaxMemory] bounds this memory.
package sparse

import (
	"errors"
	"fmt"
	"io/fs"
	"math"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// The schemes of sparse tensors; zTensor 2 has other names for them.
const (
	CSR = "sparse_csr"
	COO = "sparse_coo"

	registeredCSR = "zt.sparse_csr/1"
	registeredCOO = "zt.sparse_coo/1"
)

// Options control an operation. nil is the zero value.
type Options struct {
	// MaxMemory is the max number of bytes for the indices of one tensor, and for values
	// that are not in order. Beyond it, an operation fails with tensor.ErrLimit. 0 means
	// 64 MiB plus 128 times the size of the tensor in its file, which is enough for valid
	// tensors.
	MaxMemory int64
	// Ordered makes Check require, as zTensor 2 and ONNX do, that columns ascend in each
	// row of a compressed matrix, that coordinates are distinct, and that indices of ONNX
	// ascend.
	Ordered bool
	// Duplicates says how several values for one element are combined. Check ignores it.
	Duplicates Duplicates
}

// of returns the options for t, with the default of MaxMemory.
func (o *Options) of(t *tensor.Tensor) Options {
	var v Options
	if o != nil {
		v = *o
	}
	if v.MaxMemory == 0 {
		v.MaxMemory = math.MaxInt64
		if n, ok := align.Mul(storedSize(t), 128); ok && n <= math.MaxInt64-64<<20 {
			v.MaxMemory = n + 64<<20
		}
	}
	v.MaxMemory = min(v.MaxMemory, math.MaxInt/2)
	return v
}

// storedSize returns how many bytes the parts of t take where they are stored.
func storedSize(t *tensor.Tensor) (sum int64) {
	for b := range format.Blobs(t) {
		n := max(b.Size(), 0)
		if s, ok := b.Stored(); ok {
			n = s.Size
		}
		var ok bool
		if sum, ok = align.Add(sum, n); !ok {
			sum = math.MaxInt64
		}
	}
	return sum
}

// Duplicates says how several values for one element are combined. Formats do not define
// it.
type Duplicates uint8

const (
	Refuse Duplicates = iota // the operation fails with a *DuplicateError
	First                    // the first value is the element
	Sum                      // the sum, in the arithmetic of the dtype, is the element
)

// A DuplicateError is the error of a second value for an element. It wraps
// errors.ErrUnsupported.
type DuplicateError struct {
	Element uint64 // in row-major order
}

func (e *DuplicateError) Error() string {
	return fmt.Sprintf("%v: two values for element %d", errors.ErrUnsupported, e.Element)
}

func (e *DuplicateError) Unwrap() error { return errors.ErrUnsupported }

// An Error adds the name of a tensor to the error of an operation.
type Error struct {
	Tensor string // its name
	Err    error
}

func (e *Error) Error() string {
	return fmt.Sprintf("sparse: tensor %s: %v", naming.Quote(e.Tensor), e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

var errNil = fmt.Errorf("sparse: %w: a nil *Tensor: %w", fs.ErrInvalid, tensor.ErrNoTensor)

// tensorError adds the name of t to an error; nil stays nil.
func tensorError(t *tensor.Tensor, err error) error {
	if err == nil || t == nil {
		return err
	}
	return &Error{t.Name, err}
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{tensor.ErrMalformed}, args...)...)
}

// Known reports whether this package supports a scheme.
func Known(scheme string) bool { return isCSR(scheme) || isCOO(scheme) }

func isCSR(scheme string) bool { return scheme == CSR || scheme == registeredCSR }

func isCOO(scheme string) bool { return scheme == COO || scheme == registeredCOO }
