package torch

import (
	"math"
	"strconv"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/numpy"
	"github.com/tensorfile/tensorfile/tensor"
)

// A numpyType is a dtype of NumPy: a name such as f4, and a byte order that BUILD sets.
type numpyType struct {
	name   string
	bigEnd bool
}

// numpyPending is the scheme of an array whose elements BUILD sets.
const numpyPending = "numpy"

// numpyNames has the names of dtypes by NumPy's names.
var numpyNames = map[string]string{
	"b1": "bool", "i1": "int8", "i2": "int16", "i4": "int32", "i8": "int64",
	"u1": "uint8", "u2": "uint16",
	"u4": "uint32", "u8": "uint64", "f2": "float16", "f4": "float32",
	"f8": "float64", "c8": "complex64", "c16": "complex128",
}

func (t *numpyType) dtype() (dtype, bool) {
	return dtypeOf(numpyNames[t.name])
}

// numpyCall returns a dtype of (name, …), a number of (dtype, bytes), or an array that
// BUILD fills.
func numpyCall(g *global, args []any) (any, error) {
	switch {
	case g.kind == numpyArray:
		return &array{scheme: numpyPending}, nil
	case g.kind == numpyBuffer && (len(args) == 4 || len(args) == 5):
		a := &array{scheme: numpyPending}
		order, _ := textOf(args[3])
		switch {
		case order == "C", order == "F":
			return a, a.fill(args[2], args[1], order == "F", args[0])
		case order == "K" && len(args) == 5:
			if err := a.fill(args[2], args[1], false, args[0]); err != nil {
				return nil, err
			}
			return a, a.transpose(args[4])
		}
	case g.kind == numpyDType && len(args) > 0:
		if name, ok := textOf(args[0]); ok {
			return &numpyType{name: name}, nil
		}
	case g.kind == numpyScalar && len(args) == 2:
		t, ok1 := args[0].(*numpyType)
		b, ok2 := textOf(args[1])
		if !ok2 && ok1 { // an object, which NumPy would unpickle
			return &object{class: g, args: args}, nil
		}
		if !ok1 {
			break
		}
		d, ok := t.dtype()
		if !ok {
			return &object{class: g, args: args}, nil
		}
		if int64(len(b)) != d.size {
			return nil, malformed("%d bytes for a %s", len(b), d.name)
		}
		return t.number(d.d, []byte(b)), nil
	}
	return nil, errArguments
}

// number decodes one element.
func (t *numpyType) number(d tensor.DType, b []byte) any {
	x := &tensor.Tensor{DType: d, Data: tensor.BlobOf(b)}
	if width := d.Align(); t.bigEnd && width > 1 {
		x.Data = numpy.LittleEndian(x.Data, width)
	}
	switch {
	case d == tensor.Bool:
		return b[0] != 0
	case d == tensor.U64:
		v, _ := tensor.Load[uint64](x)
		if v[0] > math.MaxInt64 {
			return bigInt(strconv.FormatUint(v[0], 10))
		}
		return int64(v[0])
	case d.IsInt():
		v, _ := tensor.Convert[int64](x)
		return v[0]
	case d == tensor.C64:
		v, _ := tensor.Load[complex64](x)
		return complex128(v[0])
	case d == tensor.C128:
		v, _ := tensor.Load[complex128](x)
		return v[0]
	}
	v, _ := tensor.Convert[float64](x)
	return v[0]
}

// build reads the state (version, byte order, …).
func (t *numpyType) build(state any) error {
	items, ok := tupleOf(state)
	if !ok || len(items) < 2 {
		return malformed("the state of a dtype")
	}
	order, ok := textOf(items[1])
	if !ok {
		return malformed("the byte order of a dtype")
	}
	t.bigEnd = order == ">"
	return nil
}

// buildNumPy reads the state (version, shape, dtype, whether it is column-major, bytes).
func (a *array) buildNumPy(items []any) error {
	fortran, ok := items[3].(bool)
	if !ok {
		return malformed("the state of an ndarray")
	}
	return a.fill(items[1], items[2], fortran, items[4])
}

// transpose puts the dimensions in another order.
func (a *array) transpose(axes any) error {
	if a.storage == nil {
		return nil
	}
	order, ok := countsOf(axes)
	shape, strides := make(tensor.Shape, len(a.shape)), make([]int64, len(a.shape))
	seen := map[int64]bool{}
	for i := 0; i < len(order) && len(order) == len(shape); i++ {
		if from := order[i]; from < int64(len(shape)) && !seen[from] {
			seen[from] = true
			shape[i], strides[i] = a.shape[from], a.strides[from]
		}
	}
	if !ok || len(seen) != len(shape) {
		return malformed("the order of the axes of an ndarray")
	}
	a.shape, a.strides = shape, strides
	return nil
}

// fill sets the shape, dtype and elements of an ndarray.
func (a *array) fill(size, dtype any, fortran bool, elements any) error {
	shape, ok1 := countsOf(size)
	t, ok2 := dtype.(*numpyType)
	if !ok1 || !ok2 || len(shape) > maxRank || !countable(shape) {
		return malformed("the state of an ndarray")
	}
	a.shape = shape
	d, ok := t.dtype()
	b, ok2 := textOf(elements)
	if !ok || !ok2 {
		a.scheme, a.shape = "", nil // objects, or a structure: nothing that a tensor holds
		a.state = &object{args: []any{elements}}
		return nil
	}
	n, _ := a.shape.Elements()
	if size, ok := align.Mul(n, d.size); !ok || size != int64(len(b)) {
		return malformed("%d bytes for %v of %s", len(b), shape, d.name)
	}
	var order tensor.Order
	if fortran {
		order = tensor.ColumnMajor(len(shape))
	}
	a.strides, _ = order.Strides(shape)
	p := &payload{size: int64(len(b)), blob: tensor.NewBlob(stringSource(b)), bigEnd: t.bigEnd}
	a.storage = &storage{payload: p, dtype: d, count: n}
	a.dtype, a.scheme = d, ""
	return nil
}
