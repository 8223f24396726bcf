package sparse

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/tensor"
)

// load reads the indices and, if they are not in order, the values, and sorts both.
// Afterwards x.at ascends. values is nil if the values are in order.
func load(ctx context.Context, t *tensor.Tensor,
	opts *Options) (x *indices, values []byte, err error) {
	if x, err = read(ctx, t, opts); err != nil {
		return nil, nil, err
	}
	d := t.Part("values").DType
	width := int64(d.Size())
	if width == 0 {
		return nil, nil, fmt.Errorf("%w: values of %v", tensor.ErrDType, d)
	}
	if x.disorder > 0 {
		if values, err = x.readValues(ctx, width); err == nil {
			values, err = x.order(values, width, d)
		}
	}
	return x, values, err
}

// readValues reads all values.
func (x *indices) readValues(ctx context.Context, width int64) ([]byte, error) {
	size := int64(len(x.at)) * width // fits: read has compared the numbers
	if err := x.reserve(int64(len(x.at)), width); err != nil {
		return nil, err
	}
	in, err := x.t.Part("values").Data.Open()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	var values bytes.Buffer
	// One byte more: the end of the stream checks a digest.
	_, err = io.Copy(format.Until(ctx, &values), io.LimitReader(in, size+1))
	if err == nil && int64(values.Len()) != size {
		err = malformed("other than %d bytes of values", size)
	}
	return values.Bytes(), err
}

// order sorts x.at, and returns the values in that order, combined by Options.Duplicates.
func (x *indices) order(values []byte, width int64, d tensor.DType) ([]byte, error) {
	if err := x.reserve(int64(len(x.at)), 16+width); err != nil {
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
		if n := len(at); n == 0 || at[n-1] != x.at[i] {
			at, sorted = append(at, x.at[i]), append(sorted, v...)
			continue
		}
		switch x.options.Duplicates {
		case Refuse:
			return nil, &DuplicateError{x.at[i]}
		case Sum:
			if err := add(d, sorted[len(sorted)-w:], v); err != nil {
				return nil, err
			}
		}
	}
	x.at = at
	return sorted, nil
}

// add adds b to a: integers modulo 2^n, floats rounded to their type.
func add(d tensor.DType, a, b []byte) error {
	le := binary.LittleEndian
	switch d {
	case tensor.U8, tensor.I8, tensor.U16, tensor.I16, tensor.U32, tensor.I32, tensor.U64,
		tensor.I64:
		carry := 0
		for i := range a {
			carry += int(a[i]) + int(b[i])
			a[i] = byte(carry)
			carry >>= 8
		}
	case tensor.F16:
		sum := tensor.Float16(le.Uint16(a)).Float32() + tensor.Float16(le.Uint16(b)).Float32()
		le.PutUint16(a, uint16(tensor.NewFloat16(sum)))
	case tensor.BF16:
		sum := tensor.BFloat16(le.Uint16(a)).Float32() + tensor.BFloat16(le.Uint16(b)).Float32()
		le.PutUint16(a, uint16(tensor.NewBFloat16(sum)))
	case tensor.F32, tensor.C64:
		for ; len(a) > 0; a, b = a[4:], b[4:] {
			sum := math.Float32frombits(le.Uint32(a)) + math.Float32frombits(le.Uint32(b))
			le.PutUint32(a, math.Float32bits(sum))
		}
	case tensor.F64, tensor.C128:
		for ; len(a) > 0; a, b = a[8:], b[8:] {
			sum := math.Float64frombits(le.Uint64(a)) + math.Float64frombits(le.Uint64(b))
			le.PutUint64(a, math.Float64bits(sum))
		}
	default:
		return fmt.Errorf("%w: a sum of values of %v", tensor.ErrDType, d)
	}
	return nil
}

// Sort returns t with its values in row-major order. If they are in that order, it
// returns t itself, else a tensor in memory with uint64 indices. Indices of ONNX become
// coords. It checks the indices as [Check] does, and fails with a [DuplicateError] as
// opts say.
func Sort(ctx context.Context, t *tensor.Tensor, opts *Options) (*tensor.Tensor, error) {
	x, values, err := load(ctx, t, opts)
	if err != nil {
		return nil, tensorError(t, err)
	}
	if x.disorder == 0 && !isONNX(t) {
		return t, nil
	}
	parts, err := x.parts(t.Scheme, t.Part("values").DType, values)
	if err != nil {
		return nil, tensorError(t, err)
	}
	sorted := *t
	sorted.Parts = slices.DeleteFunc(slices.Clone(t.Parts),
		func(p tensor.Part) bool { return isONNX(t) && p.Role == "indices" })
	for _, p := range parts {
		switch old := sorted.Part(p.Role); {
		case old == nil:
			sorted.Parts = append(sorted.Parts, p)
		case p.Role != "values" || x.disorder > 0:
			*old = p
		}
	}
	return &sorted, nil
}
