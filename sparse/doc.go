// Package sparse checks sparse tensors, makes them dense, and dense ones sparse.
//
//	dense, err := sparse.Densify(ctx, t, nil)
//
// See the examples of [Check], [Densify] and [Sparsify].
//
// The two schemes of zTensor are known. A compressed matrix (scheme "sparse_csr" or
// "zt.sparse_csr/1") has the parts values, indices (the column of each value) and indptr
// (where the values of each row begin, and at last their number). A tensor of coordinates
// ("sparse_coo" or "zt.sparse_coo/1") has the parts values and coords: the coordinates of
// all values in dimension 0, then their coordinates in dimension 1, and so on. ONNX has
// them in the part indices instead: the coordinates of one value after the other, or for
// each value the number of its element in row-major order. Index parts may be of any
// integer type, and of an unknown one where the format fixes uint64.
//
// All operations hold the indices in memory, as 8 bytes each, and values that are not in
// order. [Options.MaxMemory] bounds that.
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

// The schemes of sparse tensors; zTensor 2 has other names for the same.
const (
	CSR = "sparse_csr"
	COO = "sparse_coo"

	registeredCSR = "zt.sparse_csr/1"
	registeredCOO = "zt.sparse_coo/1"
)

// Options control an operation. nil is the zero value.
type Options struct {
	// MaxMemory is how many bytes the indices of one tensor may take, together with
	// values that are not in order. Beyond it, an operation fails with tensor.ErrLimit. 0
	// is 64 MiB and 128 times the size of the tensor in its file, which valid tensors do
	// not reach.
	MaxMemory int64
	// Ordered makes Check require what zTensor 2 and ONNX do: columns that ascend in each
	// row of a compressed matrix, coordinates that are distinct, and indices of ONNX that
	// ascend.
	Ordered bool
	// Duplicates says what several values for one element mean. Check ignores it.
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

// Duplicates says what several values for one element mean, which formats leave open.
type Duplicates uint8

const (
	Refuse Duplicates = iota // they are a *DuplicateError
	First                    // the first one counts
	Sum                      // their sum counts, in the arithmetic of the dtype
)

// A DuplicateError is a second value for one element.
type DuplicateError struct {
	Element uint64 // in row-major order
}

func (e *DuplicateError) Error() string {
	return fmt.Sprintf("%v: two values for element %d", errors.ErrUnsupported, e.Element)
}

func (e *DuplicateError) Unwrap() error { return errors.ErrUnsupported }

// An Error says which tensor an operation failed for.
type Error struct {
	Tensor string // its name
	Err    error
}

func (e *Error) Error() string {
	return fmt.Sprintf("sparse: tensor %s: %v", naming.Quote(e.Tensor), e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

var errNil = fmt.Errorf("sparse: %w: a nil *Tensor: %w", fs.ErrInvalid, tensor.ErrNoTensor)

func failed(t *tensor.Tensor, err error) error {
	if err == nil || t == nil {
		return err
	}
	return &Error{t.Name, err}
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{tensor.ErrMalformed}, args...)...)
}

// Known reports whether a scheme is one of this package.
func Known(scheme string) bool { return isCSR(scheme) || isCOO(scheme) }

func isCSR(scheme string) bool { return scheme == CSR || scheme == registeredCSR }

func isCOO(scheme string) bool { return scheme == COO || scheme == registeredCOO }
