package torch

import (
	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// An array is a tensor of the pickle: elements of a storage, or parts.
type array struct {
	storage *storage // nil if there are no elements
	dtype   dtype
	shape   tensor.Shape
	strides []int64
	first   int64 // element of the storage
	scheme  string
	conj    bool        // the values are the conjugates of the elements
	neg     bool        // the values are the negated elements
	parts   []arrayPart // of a sparse or quantised tensor
	class   *global     // a subclass; nil for torch.Tensor
	state   any         // attributes that Python code set
	warning string
}

// An arrayPart is a part with a role: an array, or values that are in the pickle.
type arrayPart struct {
	role   string
	array  *array
	values *tensor.Tensor
}

// maxRank is the maximum number of dimensions in torch.
const maxRank = 64

// rebuild returns the tensor that a function of torch returns for these arguments.
func (m *machine) rebuild(g *global, args []any) (any, error) {
	switch g.kind {
	case rebuildTensor:
		if len(args) < 4 || len(args) > 7 {
			return nil, errArguments
		}
		a, err := newArray(args[:4], nil)
		if err == nil && len(args) == 7 {
			err = a.metadata(args[6])
		}
		return a, err
	case rebuildV3:
		if len(args) < 7 || len(args) > 8 {
			return nil, errArguments
		}
		d, ok := dtypeArgument(args[6])
		if !ok {
			return nil, malformed("an argument that is not a dtype")
		}
		a, err := newArray(args[:4], &d)
		if err == nil && len(args) == 8 {
			err = a.metadata(args[7])
		}
		return a, err
	case rebuildWrapped:
		return wrapped(g, args)
	case tensorClass:
		if len(args) == 0 {
			return &array{}, nil // BUILD follows
		}
		return wrapped(g, args)
	case rebuildTyped:
		return m.typed(args)
	case rebuildSubclass:
		return subclass(args)
	case rebuildSparse:
		return newSparse(args)
	case rebuildQuantized:
		return m.quantized(args)
	case rebuildMeta:
		return meta(args)
	}
	return nil, errArguments
}

func dtypeArgument(v any) (dtype, bool) {
	g, ok := v.(*global)
	if !ok || g.kind != dtypeName {
		return dtype{}, false
	}
	return dtypeOf(g.name)
}

// newArray returns a tensor of (storage, first element, size, stride). If d is nil, it
// has the dtype of the storage.
func newArray(args []any, d *dtype) (*array, error) {
	st, ok := args[0].(*storage)
	if !ok {
		return nil, malformed("an argument that is not a storage")
	}
	a := &array{storage: st, dtype: st.dtype}
	if d != nil {
		a.dtype = *d
	}
	first, ok1 := countOf(args[1])
	shape, ok2 := countsOf(args[2])
	strides, ok3 := countsOf(args[3])
	if !ok1 || !ok2 || !ok3 || len(shape) != len(strides) {
		return nil, malformed("offset, size and stride that are not counts")
	}
	a.first, a.shape, a.strides = first, shape, strides
	return a, a.check()
}

// check refuses elements outside of the storage.
func (a *array) check() error {
	n, ok := a.shape.Elements()
	if !ok || len(a.shape) > maxRank {
		return malformed("shape %v", a.shape)
	}
	if !countable(a.shape) {
		return malformed("shape %v", a.shape)
	}
	if _, ok := align.Mul(n, 2*a.dtype.size); !ok {
		return malformed("shape %v of %s", a.shape, a.dtype.name)
	}
	have := a.storage.bytes() / a.dtype.size
	if n == 0 {
		if a.first > have {
			a.warning = "it has no elements, and begins outside of its storage"
		}
		return nil
	}
	if a.isPacked() {
		return nil
	}
	last := a.first
	for i, count := range a.shape {
		step, ok1 := align.Mul(count-1, a.strides[i])
		sum, ok2 := align.Add(last, step)
		if last = sum; !ok1 || !ok2 {
			return malformed("strides %v", a.strides)
		}
	}
	if last >= have {
		return malformed("shape %v with strides %v from element %d is outside of the %d elements "+
			"of storage %s", a.shape, a.strides, a.first, have,
			naming.Quote(a.storage.payload.key))
	}
	return nil
}

// isPacked reports whether torch stores fewer elements than the shape has: the data is
// then the whole storage.
func (a *array) isPacked() bool {
	return a.dtype.name == "quint4x2" || a.dtype.name == "quint2x4"
}

// countable reports whether the product of the dimensions, without those that are 0, fits
// an int64.
func countable(shape tensor.Shape) bool {
	n, ok := int64(1), true
	for _, d := range shape {
		if n, ok = align.Mul(n, max(d, 1)); !ok {
			return false
		}
	}
	return true
}

// rowMajor reports whether the elements are contiguous in the order of the shape.
func (a *array) rowMajor() bool {
	step := int64(1)
	for i := len(a.shape) - 1; i >= 0; i-- {
		if a.shape[i] > 1 && a.strides[i] != step {
			return false
		}
		step *= max(a.shape[i], 1)
	}
	return true
}

// metadata reads whether the values of a tensor are the conjugated or negated elements:
// torch changes them as it reads, and so does the Blob of the tensor.
func (a *array) metadata(v any) error {
	d, ok := v.(*dict)
	if !ok && v != nil || ok && len(d.items) > maxRank {
		return malformed("metadata that is not a small dict")
	}
	if d != nil {
		a.conj = d.lookup("conj") == true && a.dtype.d.IsComplex()
		a.neg = d.lookup("neg") == true
	}
	return nil
}

// wrapped returns the tensor that is the first argument.
func wrapped(g *global, args []any) (any, error) {
	if len(args) == 0 {
		return nil, errArguments
	}
	switch args[0].(type) {
	case *array, *object: // an object is a subclass of tensors
	default:
		return nil, malformed("an argument that is not a tensor")
	}
	if len(args) == 4 && g.name == "_rebuild_parameter_with_state" {
		return withState(args[0], nil, args[3]), nil
	}
	return args[0], nil
}

// withState returns a copy of a tensor with a subclass, which may be nil, and a state.
// Other values may refer to the tensor itself.
func withState(v any, class *global, state any) any {
	if a, ok := v.(*array); ok && a.class == nil && a.state == nil {
		own := *a
		own.class, own.state = class, state
		return &own
	}
	return &object{of: v, class: class, state: state}
}

// typed returns the tensor of (function, class, arguments, state).
func (m *machine) typed(args []any) (any, error) {
	if len(args) != 4 {
		return nil, errArguments
	}
	f, ok1 := args[0].(*global)
	class, ok2 := args[1].(*global)
	inner, ok3 := tupleOf(args[2])
	if !ok1 || !ok2 || !ok3 || f.kind == rebuildTyped {
		return nil, errArguments
	}
	f.called = true
	v, err := m.construct(f, inner)
	if err != nil {
		return nil, err
	}
	if class.kind == tensorClass {
		class = nil
	}
	if o, ok := v.(*object); ok && o.subclass && f.kind == rebuildSubclass {
		o.state = args[3]
		return o, nil
	}
	return withState(v, class, args[3]), nil
}

// subclass returns a tensor of (class, dtype, size, stride, first element, layout,
// device, requires grad). It has no storage of its own: its elements are tensors of its
// state.
func subclass(args []any) (any, error) {
	if len(args) < 3 {
		return nil, errArguments
	}
	class, ok := args[0].(*global)
	if !ok {
		return nil, malformed("an argument that is not a class")
	}
	return &object{class: class, subclass: true, args: args}, nil
}

// newSparse returns a tensor of (layout, data): data is indices, values and the shape.
func newSparse(args []any) (any, error) {
	if len(args) != 2 {
		return nil, errArguments
	}
	layout, ok := textOf(args[0])
	data, ok2 := tupleOf(args[1])
	if !ok || !ok2 {
		return nil, errArguments
	}
	roles, size := []string{"indptr", "indices", "values"}, 3
	switch layout {
	case "torch.sparse_coo":
		roles, size = []string{"coords", "values"}, 2
	case "torch.sparse_csr", "torch.sparse_csc", "torch.sparse_bsr", "torch.sparse_bsc":
	default:
		return nil, malformed("layout %s", naming.Quote(layout))
	}
	if len(data) <= size {
		return nil, errArguments
	}
	shape, ok := countsOf(data[size])
	if !ok || !countable(shape) || len(shape) > maxRank {
		return nil, malformed("the shape of a sparse tensor")
	}
	a := &array{scheme: layout[len("torch."):], shape: shape}
	for i, role := range roles {
		part, ok := data[i].(*array)
		if !ok || part.storage == nil || part.scheme != "" {
			return nil, malformed("%s that are not a tensor", role)
		}
		if role != "values" && part.dtype.d != tensor.I64 && part.dtype.d != tensor.I32 {
			return nil, malformed("%s of %s", role, part.dtype.name)
		}
		if role == "values" {
			a.dtype = part.dtype
		}
		a.parts = append(a.parts, arrayPart{role: role, array: part})
	}
	if size == 3 {
		return a, a.compressed(layout[len("torch.sparse_"):])
	}
	coords, values := a.parts[0].array, a.parts[1].array
	if len(coords.shape) != 2 || len(values.shape) == 0 || coords.shape[1] != values.shape[0] ||
		coords.shape[0]+int64(len(values.shape))-1 != int64(len(shape)) {
		return nil, malformed("coordinates of shape %v and values of %v for %v", coords.shape,
			values.shape, a.shape)
	}
	if len(values.shape) > 1 {
		a.scheme = "hybrid_coo" // each value is an array
	}
	return a, nil
}

// compressed sets the scheme of a tensor with the layout csr, csc, bsr or bsc. A value is
// a number, or in bsr and bsc a block of two dimensions. If it has more dimensions, the
// tensor is hybrid; if the indices have more than one dimension, it is a batch.
func (a *array) compressed(layout string) error {
	indptr, indices, values := a.parts[0].array.shape, a.parts[1].array.shape,
		a.parts[2].array.shape
	block := 0
	if layout[0] == 'b' {
		block = 2
	}
	batch := len(indptr) - 1
	dense := len(values) - len(indices) - block
	if batch < 0 || len(indices) != len(indptr) || dense < 0 ||
		batch+2+dense != len(a.shape) {
		return malformed("indices of shape %v and %v and values of %v for %v", indptr, indices,
			values, a.shape)
	}
	switch {
	case batch > 0:
		a.scheme = "batched_sparse_" + layout
	case dense > 0:
		a.scheme = "hybrid_" + layout
	}
	return nil
}

// quantized returns a tensor of (storage, first, size, stride, quantizer, …).
func (m *machine) quantized(args []any) (any, error) {
	if len(args) < 7 {
		return nil, errArguments
	}
	a, err := newArray(args[:4], nil)
	if err != nil {
		return nil, err
	}
	q, ok := tupleOf(args[4])
	if !ok || len(q) < 3 {
		return nil, malformed("a quantizer that is not a tuple of three")
	}
	scheme, ok := q[0].(*global)
	if !ok || scheme.kind != inert || scheme.module != "torch" {
		return nil, malformed("a quantizer without a scheme")
	}
	if scheme.name == "per_tensor_affine" {
		scale, ok1 := q[1].(float64)
		zero, ok2 := q[2].(int64)
		if !ok1 || !ok2 {
			return nil, malformed("a scale or zero point that is not a number")
		}
		a.parts = []arrayPart{
			{role: "scale", values: tensor.New("", nil, []float64{scale})},
			{role: "zero_point", values: tensor.New("", nil, []int64{zero})},
		}
		return a, nil
	}
	axis, ok := int64(0), len(q) == 4
	if ok {
		axis, ok = countOf(q[3])
	}
	if !ok || axis >= int64(len(a.shape)) {
		return nil, malformed("the axis of a quantizer")
	}
	for i, role := range []string{"scales", "zero_points"} {
		if part, ok := q[i+1].(*array); ok && part.storage != nil && part.scheme == "" {
			if len(part.shape) != 1 || part.shape[0] != a.shape[axis] {
				return nil, malformed("%s of shape %v for an axis of %d", role, part.shape,
					a.shape[axis])
			}
			a.parts = append(a.parts, arrayPart{role: role, array: part})
			continue
		}
		list, ok := itemsOf(q[i+1])
		if !ok || int64(len(list)) != a.shape[axis] {
			return nil, malformed("%s for an axis of %d", role, a.shape[axis])
		}
		if m.charge(itemBytes * len(list)); m.err != nil {
			return nil, m.err
		}
		values, ok := floatsOf(list)
		if !ok {
			return nil, malformed("%s that are not numbers", role)
		}
		a.parts = append(a.parts, arrayPart{role: role, values: tensor.New("", nil, values)})
	}
	at := tensor.New("", nil, []int64{axis})
	a.parts = append(a.parts, arrayPart{role: "axis", values: at})
	return a, nil
}

// floatsOf returns the numbers of a list.
func floatsOf(list []any) (floats []float64, ok bool) {
	floats = make([]float64, len(list))
	for i, v := range list {
		switch v := v.(type) {
		case int64:
			floats[i] = float64(v)
		case float64:
			floats[i] = v
		default:
			return nil, false
		}
	}
	return floats, true
}

// meta returns a tensor without data of (dtype, size, stride, …).
func meta(args []any) (any, error) {
	if len(args) != 4 {
		return nil, errArguments
	}
	d, ok := dtypeArgument(args[0])
	shape, ok2 := countsOf(args[1])
	if !ok || !ok2 || !countable(shape) || len(shape) > maxRank {
		return nil, errArguments
	}
	return &array{dtype: d, shape: shape, scheme: "meta"}, nil
}

// build sets the elements of an ndarray, or of a tensor of the first versions of torch.
func (a *array) build(state any) error {
	items, ok := tupleOf(state)
	switch {
	case a.storage != nil || a.scheme != "" && a.scheme != numpyPending:
		a.state = state
		return nil
	case !ok:
	case a.scheme == numpyPending && len(items) == 5:
		return a.buildNumPy(items)
	case a.scheme == "" && len(items) == 4:
		made, err := newArray(items, nil)
		if err == nil {
			*a = *made
		}
		return err
	}
	return malformed("a state that is not of a tensor")
}
