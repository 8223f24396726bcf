package sparse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// indices are the indices of one tensor.
type indices struct {
	t        *tensor.Tensor
	options  Options
	used     int64    // bytes of memory, for MaxMemory
	at       []uint64 // for each value the number of its element in row-major order
	disorder int      // first index in at that is not above its predecessor; 0 if none
}

// Check reads the indices of a sparse tensor and fails if they are invalid: indptr does
// not ascend from 0 to the number of values, indices are outside of the shape, numbers of
// values and indices differ. It requires sorted or distinct indices only if opts.Ordered
// is set. opts may be nil.
func Check(ctx context.Context, t *tensor.Tensor, opts *Options) error {
	x, err := read(ctx, t, opts)
	if err == nil && x.options.Ordered {
		err = x.checkOrder()
	}
	return tensorError(t, err)
}

// checkOrder checks the order as Options.Ordered says.
func (x *indices) checkOrder() error {
	if i := x.disorder; i > 0 && isCSR(x.t.Scheme) {
		columns := uint64(x.t.Shape[1])
		return malformed("column %d does not come after column %d in row %d",
			x.at[i]%columns, x.at[i-1]%columns, x.at[i]/columns)
	} else if i > 0 && isONNX(x.t) {
		return malformed("the index of value %d, element %d, does not come after element %d", i,
			x.at[i], x.at[i-1])
	} else if i > 0 {
		slices.Sort(x.at)
		for i := 1; i < len(x.at); i++ {
			if x.at[i] == x.at[i-1] {
				return &DuplicateError{x.at[i]}
			}
		}
	}
	return nil
}

// read reads the indices of a tensor and checks them against its shape and values.
func read(ctx context.Context, t *tensor.Tensor, opts *Options) (*indices, error) {
	if t == nil {
		return nil, errNil
	}
	if err := t.Check(); err != nil {
		return nil, err
	}
	x := &indices{t: t, options: opts.of(t)}
	values := t.Part("values")
	switch {
	case !Known(t.Scheme):
		return nil, unknownScheme(t.Scheme)
	case isCSR(t.Scheme) && len(t.Shape) != 2:
		return nil, malformed("%s of %d dimensions", t.Scheme, len(t.Shape))
	case values == nil:
		return nil, malformed("no component values")
	}
	n := int64(-1) // number of values; -1 if their dtype is unknown
	if width := int64(values.DType.Size()); width > 0 {
		size := values.Data.Size()
		if size < 0 { // known only after decoding
			var err error
			size, err = values.Data.WriteTo(format.Until(ctx, io.Discard))
			if err != nil {
				return nil, err
			}
		}
		if n = size / width; size%width != 0 {
			return nil, malformed("%d bytes of values of %d bytes", size, width)
		}
	}
	var err error
	if isCSR(t.Scheme) {
		err = x.readCSR(ctx, n)
	} else if isONNX(t) {
		err = x.readONNX(ctx, n)
	} else {
		err = x.readCOO(ctx, n)
	}
	for i := 1; i < len(x.at) && x.disorder == 0; i++ {
		if x.at[i] <= x.at[i-1] {
			x.disorder = i
		}
	}
	return x, err
}

// readCSR reads the indices of a compressed matrix of n values; -1 if n is not known.
func (x *indices) readCSR(ctx context.Context, n int64) error {
	rows, width := uint64(x.t.Shape[0]), uint64(x.t.Shape[1])
	indptr, err := x.integers(ctx, "indptr", rows+1)
	if err != nil {
		return err
	}
	if uint64(len(indptr)) != rows+1 {
		return malformed("indptr has %d entries, %d rows take %d", len(indptr), rows, rows+1)
	}
	if indptr[0] != 0 {
		return malformed("indptr begins with %d, not 0", indptr[0])
	}
	last := indptr[rows]
	columns, err := x.integers(ctx, "indices", last)
	if err != nil {
		return err
	}
	if last != uint64(len(columns)) {
		return malformed("%d indices, indptr ends at %d", len(columns), last)
	}
	if n >= 0 && uint64(n) != last {
		return malformed("%d values, indptr ends at %d", n, last)
	}
	for row := range rows {
		from, to := indptr[row], indptr[row+1]
		if to < from || to > last {
			return malformed("indptr goes from %d to %d in row %d of %d, and ends at %d", from, to,
				row, rows, last)
		}
		for i := from; i < to; i++ {
			if columns[i] >= width {
				return malformed("column %d of %d at %d", columns[i], width, i)
			}
			columns[i] += row * width // below the product of the shape
		}
	}
	x.at = columns
	return nil
}

// readCOO reads the coords of n values; -1 if n is not known.
func (x *indices) readCOO(ctx context.Context, n int64) error {
	rank := len(x.t.Shape)
	want, ok := align.Mul(n, int64(rank))
	if !ok {
		want = math.MaxInt64
	}
	coords, err := x.integers(ctx, "coords", uint64(want))
	if err != nil {
		return err
	}
	if n < 0 {
		n = int64(len(coords) / max(1, rank))
		want = n * int64(rank)
	}
	if int64(len(coords)) != want {
		return malformed("%d coords for %d values of %d dimensions", len(coords), n, rank)
	}
	if rank == 0 { // all values are for the only element
		if err := x.reserve(n, 8); err != nil {
			return err
		}
		coords = make([]uint64, n)
	}
	for d, dim := range x.t.Shape {
		for i, c := range coords[int64(d)*n:][:n] {
			if c >= uint64(dim) {
				return malformed("coordinate %d of %d in dimension %d at %d", c, dim, d, i)
			}
			if d > 0 {
				coords[i] = coords[i]*uint64(dim) + c // below the product of the shape
			}
		}
	}
	x.at = coords[:n:n]
	return nil
}

// isONNX reports whether a tensor of coordinates has indices, as in ONNX, not coords.
func isONNX(t *tensor.Tensor) bool {
	return isCOO(t.Scheme) && t.Part("coords") == nil && t.Part("indices") != nil
}

// readONNX reads the indices of n values, -1 if n is not known: the number of the
// element, or the coordinates, of each value.
func (x *indices) readONNX(ctx context.Context, n int64) error {
	rank := int64(max(1, len(x.t.Shape)))
	limit, ok := align.Mul(n, rank)
	if !ok {
		limit = math.MaxInt64
	}
	all, err := x.integers(ctx, "indices", uint64(limit))
	if err != nil {
		return err
	}
	if elements, _ := x.t.Shape.Elements(); int64(len(all)) == n {
		for i, at := range all {
			if at >= uint64(elements) {
				return malformed("element %d of %d at %d", at, elements, i)
			}
		}
		x.at = all
		return nil
	}
	if n < 0 {
		n = int64(len(all)) / rank
	}
	if int64(len(all)) != n*rank || len(x.t.Shape) == 0 {
		return malformed("%d indices for %d values of %d dimensions", len(all), n,
			len(x.t.Shape))
	}
	for i := range n {
		at := uint64(0)
		for d, dim := range x.t.Shape {
			c := all[i*rank+int64(d)]
			if c >= uint64(dim) {
				return malformed("coordinate %d of %d in dimension %d at %d", c, dim, d, i)
			}
			at = at*uint64(dim) + c // below the product of the shape
		}
		all[i] = at
	}
	x.at = all[:n:n]
	return nil
}

// indexWidth returns the size of an index in bytes; 0 for types that are not integers. An
// unknown type is uint64: zTensor 1.0 has no other and does not name it.
func indexWidth(d tensor.DType) (width int, signed bool) {
	switch d {
	case tensor.Unknown, tensor.U64:
		return 8, false
	case tensor.U8, tensor.U16, tensor.U32:
		return d.Size(), false
	case tensor.I8, tensor.I16, tensor.I32, tensor.I64:
		return d.Size(), true
	}
	return 0, false
}

// integers reads an index part of at most limit indices. It reads to the end, which
// checks a digest.
func (x *indices) integers(ctx context.Context, role string,
	limit uint64) (all []uint64, err error) {
	p := x.t.Part(role)
	if p == nil {
		return nil, malformed("no component %s", role)
	}
	width, signed := indexWidth(p.DType)
	if width == 0 {
		return nil, fmt.Errorf("%w: %s of %v", tensor.ErrDType, role, p.DType)
	}
	in, err := p.Data.Open()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	buf := le.Bytes(make([]uint64, 4<<10))
	for err != io.EOF {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var n int
		if n, err = source.ReadPiece(in, buf); err != nil && err != io.EOF {
			return nil, err
		}
		if n%width != 0 {
			return nil, malformed("%s that are no multiple of %d bytes", role, width)
		}
		before := len(all)
		if uint64(before+n/width) > limit {
			return nil, malformed("more than %d %s", limit, role)
		}
		if err := x.reserve(int64(n/width), 8); err != nil {
			return nil, err
		}
		switch width {
		case 1:
			all = appendIntegers[uint8](all, buf[:n])
		case 2:
			all = appendIntegers[uint16](all, buf[:n])
		case 4:
			all = appendIntegers[uint32](all, buf[:n])
		case 8:
			all = appendIntegers[uint64](all, buf[:n])
		}
		for _, v := range all[before:] {
			if signed && v>>(8*width-1) != 0 {
				return nil, malformed("a negative index")
			}
		}
	}
	return all, nil
}

// appendIntegers appends little-endian integers. It changes b.
func appendIntegers[T uint8 | uint16 | uint32 | uint64](all []uint64, b []byte) []uint64 {
	le.ToHost(b, le.Size[T]())
	values, _ := le.Cast[T](b)
	all = slices.Grow(all, len(values))
	for _, v := range values {
		all = append(all, uint64(v))
	}
	return all
}

// Widen returns an index part as uint64. Its indices are converted each time that it is
// opened, which reads them into memory. A part that is not of integers stays as it is.
func Widen(ctx context.Context, p tensor.Part) tensor.Part {
	width, _ := indexWidth(p.DType)
	if width == 0 {
		return p
	}
	wide := p
	wide.DType = tensor.U64
	if width == 8 { // Check refuses negative indices
		return wide
	}
	size := int64(-1)
	if n, ok := align.Mul(p.Data.Size()/int64(width), 8); ok && p.Data.Size() >= 0 {
		size = n
	}
	wide.Data = tensor.BlobFunc(size, func() (io.ReadCloser, error) {
		t := &tensor.Tensor{Parts: []tensor.Part{p}}
		x := &indices{t: t, options: (*Options)(nil).of(t)}
		all, err := x.integers(ctx, p.Role, math.MaxInt64)
		if err != nil {
			return nil, err
		}
		return integerBlob(all).Open()
	})
	return wide
}

func integerBlob(all []uint64) tensor.Blob {
	return tensor.New("", tensor.Shape{int64(len(all))}, all).Data
}

// reserve counts memory for n items of each bytes. It fails with tensor.ErrLimit beyond
// MaxMemory.
func (x *indices) reserve(n, each int64) error {
	size, ok := align.Mul(n, each)
	if !ok {
		size = math.MaxInt64
	}
	if limit := x.options.MaxMemory; size > limit-x.used {
		return fmt.Errorf("%w: indices, and values that are not in order, take %d bytes or more, "+
			"of at most %d", tensor.ErrLimit, x.used+min(size, math.MaxInt64-x.used),
			limit)
	}
	x.used += size
	return nil
}

func unknownScheme(scheme string) error {
	return fmt.Errorf("%w: %s is not a sparse format", errors.ErrUnsupported, naming.Quote(scheme))
}
