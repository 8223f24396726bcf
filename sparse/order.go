package sparse

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/tensor"
)

// load reads the indices and, where they are not in order or the values have less than a byte
// each, the values. Afterwards at ascends; values are nil where they can be streamed.
func load(ctx context.Context, t *tensor.Tensor, o Options) (x *indices, values []byte, err error) {
	if x, err = open(ctx, t, o); err == nil {
		err = x.read(ctx, true)
	}
	if err != nil {
		return nil, nil, err
	}
	nibbles := t.Part("values").DType == tensor.F4E2M1FN
	width := int64(t.Part("values").DType.Size())
	switch {
	case nibbles:
		width = 1
	case width == 0:
		return nil, nil, fmt.Errorf("%w: values of %v", tensor.ErrDType, t.Part("values").DType)
	case x.ascending:
		return x, nil, nil
	}
	if values, err = x.readValues(ctx, width, nibbles); err == nil && !x.ascending {
		values, err = x.order(values, width, o.Duplicates)
	}
	return x, values, err
}

// readValues reads all values, of which those of four bits get a byte each.
func (x *indices) readValues(ctx context.Context, width int64, nibbles bool) ([]byte, error) {
	p := x.t.Part("values")
	size, ok := align.Mul(x.n, width)
	if !ok {
		size = math.MaxInt64
	}
	stored := size
	if nibbles {
		stored = x.n/2 + x.n%2
	}
	if have := p.Data.Size(); have >= 0 && have != stored {
		return nil, fmt.Errorf("%w: %d bytes of values, not %d", tensor.ErrMalformed, have, stored)
	}
	if err := x.take(size); err != nil {
		return nil, err
	}
	in, err := p.Data.Open()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	values, err := io.ReadAll(io.LimitReader(&bounded{ctx, in}, stored+1)) // to where a digest is checked
	if err == nil && int64(len(values)) != stored {
		err = fmt.Errorf("%w: other than %d bytes of values", tensor.ErrMalformed, stored)
	}
	if err != nil || !nibbles {
		return values, err
	}
	each := make([]byte, x.n)
	for i := range each {
		each[i] = values[i/2] >> (4 * (i & 1)) & 0xf
	}
	return each, nil
}

// order sorts at, and returns the values in that order, with one for each element.
func (x *indices) order(values []byte, width int64, d Duplicates) ([]byte, error) {
	if err := x.take((16 + width) * int64(len(x.at))); err != nil {
		return nil, err
	}
	perm := make([]int, len(x.at))
	for i := range perm {
		perm[i] = i
	}
	slices.SortFunc(perm, func(i, j int) int {
		return cmp.Or(cmp.Compare(x.at[i], x.at[j]), cmp.Compare(i, j))
	})
	w := int(width)
	at, sorted := make([]uint64, 0, len(perm)), make([]byte, 0, len(values))
	for _, i := range perm {
		v := values[i*w:][:w]
		if n := len(at); n > 0 && at[n-1] == x.at[i] {
			switch d {
			case Refuse:
				return nil, &DuplicateError{x.at[i]}
			case Sum:
				if err := add(x.t.Part("values").DType, sorted[len(sorted)-w:], v); err != nil {
					return nil, err
				}
			}
			continue
		}
		at, sorted = append(at, x.at[i]), append(sorted, v...)
	}
	x.at, x.n = at, int64(len(at))
	return sorted, nil
}

// add adds b to a, integers modulo 2^n and floats with the rounding of their type.
func add(d tensor.DType, a, b []byte) error {
	le := binary.LittleEndian
	switch d {
	case tensor.U8, tensor.I8:
		a[0] += b[0]
	case tensor.U16, tensor.I16:
		le.PutUint16(a, le.Uint16(a)+le.Uint16(b))
	case tensor.U32, tensor.I32:
		le.PutUint32(a, le.Uint32(a)+le.Uint32(b))
	case tensor.U64, tensor.I64:
		le.PutUint64(a, le.Uint64(a)+le.Uint64(b))
	case tensor.F16:
		sum := tensor.Float16(le.Uint16(a)).Float32() + tensor.Float16(le.Uint16(b)).Float32()
		le.PutUint16(a, uint16(tensor.NewFloat16(sum)))
	case tensor.BF16:
		sum := tensor.BFloat16(le.Uint16(a)).Float32() + tensor.BFloat16(le.Uint16(b)).Float32()
		le.PutUint16(a, uint16(tensor.NewBFloat16(sum)))
	case tensor.F32:
		le.PutUint32(a, math.Float32bits(math.Float32frombits(le.Uint32(a))+math.Float32frombits(le.Uint32(b))))
	case tensor.F64:
		le.PutUint64(a, math.Float64bits(math.Float64frombits(le.Uint64(a))+math.Float64frombits(le.Uint64(b))))
	case tensor.C64:
		add(tensor.F32, a[:4], b[:4])
		return add(tensor.F32, a[4:], b[4:])
	case tensor.C128:
		add(tensor.F64, a[:8], b[:8])
		return add(tensor.F64, a[8:], b[8:])
	default:
		return fmt.Errorf("%w: a sum of values of %v", tensor.ErrDType, d)
	}
	return nil
}

// Sort returns t with its values in row-major order, which is t itself where they are so already,
// and else a tensor in memory with uint64 indices. It checks the indices as [Check] does.
func Sort(ctx context.Context, t *tensor.Tensor, opts *Options) (*tensor.Tensor, error) {
	if t == nil {
		return nil, errNil
	}
	o := opts.of(t)
	x, values, err := load(ctx, t, o)
	if err != nil {
		return nil, failed(t, err)
	}
	if x.ascending {
		return t, nil
	}
	d := t.Part("values").DType
	if d == tensor.F4E2M1FN {
		values = packNibbles(values)
	}
	parts, err := build(t.Scheme, t.Shape, x, d, values)
	if err != nil {
		return nil, failed(t, err)
	}
	sorted := *t
	sorted.Parts = slices.Clone(t.Parts)
	for _, p := range parts {
		*sorted.Part(p.Role) = p
	}
	return &sorted, nil
}

// packNibbles puts two values of four bits into each byte, the first one lower.
func packNibbles(values []byte) []byte {
	packed := make([]byte, (len(values)+1)/2)
	for i, v := range values {
		packed[i/2] |= v << (4 * (i & 1))
	}
	return packed
}
