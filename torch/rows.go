package torch

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/numpy"
	"github.com/tensorfile/tensorfile/tensor"
)

// rows are the tensors and attributes of values, named by the path of keys to them.
type rows struct {
	limits     tensor.Limits
	memory     *memory
	visits     int64 // left: a value is visited at each place that refers to it
	tensors    []tensor.Tensor
	arrays     []*array   // of tensors
	paths      [][]string // keys to tensors; nil for the parts of the name
	attributes [][2]string
	notes      *format.Warnings
	onPath     []any    // the containers that the current value is in
	keys       []string // to the current value
	modules    []string // names of each nn.Module that is not in another
	inModule   bool
	hidden     bool // tensors are not listed
}

// minVisits is the number of visits that are allowed in addition to one for each opcode.
const minVisits = 1 << 16

func rowError(name string, err error) error {
	return errs.Wrap(-1, printable(name), err)
}

// join returns the name of a value in a container.
func (w *rows) join(name, key string) (string, error) {
	switch {
	case name == "":
		name = key
	case key != "":
		name += "." + key
	}
	if err := w.memory.take(len(name)); err != nil {
		return "", rowError("", err)
	}
	if int64(len(name)) > w.limits.MaxName {
		return "", rowError(name, fmt.Errorf("%w: a name of %d bytes", tensor.ErrLimit,
			len(name)))
	}
	return name, nil
}

// add adds the tensors and attributes in a value.
func (w *rows) add(name string, v any) error {
	if w.visits--; w.visits < 0 {
		return rowError(name, fmt.Errorf("%w: shared values have too many places",
			tensor.ErrLimit))
	}
	if int64(len(w.tensors)+len(w.attributes)) >= w.limits.MaxTensors {
		return rowError(name, fmt.Errorf("%w: more than %d tensors and attributes",
			tensor.ErrLimit, w.limits.MaxTensors))
	}
	switch v := v.(type) {
	case *array:
		return w.addArray(name, v)
	case *storage:
		a := &array{storage: v, dtype: v.dtype, shape: tensor.Shape{v.count}, strides: []int64{1}}
		return w.addArray(name, a)
	case *dict, *sequence, *object:
		if slices.Contains(w.onPath, v) {
			w.warn(name, "a value that contains itself")
			return nil
		}
		if int64(len(w.onPath)) >= w.limits.MaxDepth {
			return rowError(name, fmt.Errorf("%w: values are nested deeper than %d",
				tensor.ErrLimit, w.limits.MaxDepth))
		}
		w.onPath = append(w.onPath, v)
		err := w.addContainer(name, v)
		w.onPath = w.onPath[:len(w.onPath)-1]
		return err
	}
	return w.addAttribute(name, v)
}

func (w *rows) addContainer(name string, v any) error {
	switch v := v.(type) {
	case *dict:
		return w.addDict(name, v)
	case *sequence:
		if w.visits -= int64(len(v.items)); w.visits > 0 && isScalars(v.items) {
			return w.addAttribute(name, v)
		}
		return w.addItems(name, v.items)
	}
	return w.addObject(name, v.(*object))
}

// child adds a value of a container. The last of keys is added to the name, and all of
// them to the path.
func (w *rows) child(name string, v any, keys ...string) error {
	name, err := w.join(name, keys[len(keys)-1])
	if err != nil {
		return err
	}
	w.keys = append(w.keys, keys...)
	err = w.add(name, v)
	w.keys = w.keys[:len(w.keys)-len(keys)]
	return err
}

func (w *rows) addDict(name string, d *dict) error {
	for _, it := range d.unique() {
		if err := w.child(name, it.value, keyText(it.key)); err != nil {
			return err
		}
	}
	return nil
}

func (w *rows) addItems(name string, items []any) error {
	for i, v := range items {
		if err := w.child(name, v, strconv.Itoa(i)); err != nil {
			return err
		}
	}
	return nil
}

// addObject adds the arguments, the state and the items of an object, whose meaning is
// not known.
func (w *rows) addObject(name string, o *object) (err error) {
	if o.of != nil {
		err = w.add(name, o.of)
	}
	switch {
	case err != nil:
	case o.subclass || o.of != nil && o.class != nil:
		err = w.addDescription(name, o)
	case len(o.args) > 0 && (o.state != nil || len(o.dict.items)+len(o.list) > 0):
		err = w.child(name, tuple(o.args...), "args")
	case len(o.args) > 0:
		err = w.add(name, tuple(o.args...))
	}
	for _, state := range states(o) {
		d, ok := state.(*dict)
		switch {
		case err != nil || state == nil:
		case ok && isModule(d):
			err = w.addModule(name, d)
		case ok:
			err = w.add(name, d)
		default:
			err = w.child(name, state, "state")
		}
	}
	if err == nil {
		err = w.addDict(name, &o.dict)
	}
	if err == nil {
		err = w.addItems(name, o.list)
	}
	return err
}

// addDescription adds the class of a tensor as an attribute. If the tensor has no storage
// of its own, it also adds its dtype and shape, and the placements of a DTensor.
func (w *rows) addDescription(name string, o *object) error {
	err := w.child(name, o.class.String(), "class")
	if err != nil || !o.subclass {
		return err
	}
	dtype := o.args[1]
	if g, ok := dtype.(*global); ok {
		dtype = g.String()
	}
	if err = w.child(name, dtype, "dtype"); err != nil {
		return err
	}
	if err = w.child(name, o.args[2], "shape"); err != nil {
		return err
	}
	if p := placements(o); p != nil {
		return w.child(name, p, "placements")
	}
	return nil
}

func (w *rows) addAttribute(name string, v any) error {
	if name == "" {
		name = "value"
	}
	text, err := attributeText(v, w.memory)
	if err == nil {
		w.attributes, err = appendTo(w.memory, w.attributes, [2]string{name, text})
	}
	if err != nil {
		return rowError(name, err)
	}
	return nil
}

// addArray adds a tensor, and the attributes that Python code set on it.
func (w *rows) addArray(name string, a *array) error {
	if w.hidden {
		a.eachPayload(func(p *payload) { p.hidden = cmp.Or(p.hidden, name) })
		return nil
	}
	if a.storage == nil && a.scheme == "" { // never filled, or an ndarray of objects
		if a.state == nil {
			return rowError(name, malformed("a tensor that was not given its elements"))
		}
		return w.add(name, a.state)
	}
	if name == "" {
		name = "tensor"
	}
	t, err := a.tensor(name, w.limits)
	if err == nil {
		err = w.memory.take(rowBytes*(1+len(a.parts)) + itemBytes*len(w.keys))
	}
	if err != nil {
		return rowError(name, err)
	}
	if a.warning != "" {
		w.warn(name, a.warning)
	}
	w.tensors, w.arrays = append(w.tensors, t), append(w.arrays, a)
	w.paths = append(w.paths, w.path(name))
	a.eachPayload((*payload).list)
	if a.class != nil {
		if err := w.addDescription(name, &object{class: a.class}); err != nil {
			return err
		}
	}
	if a.state == nil {
		return nil
	}
	return w.add(name, &object{state: a.state})
}

// path returns the keys to a value; nil if they are the parts of its name.
func (w *rows) path(name string) []string {
	if strings.Join(w.keys, ".") == name && strings.Count(name, ".") == len(w.keys)-1 {
		return nil
	}
	return append([]string{}, w.keys...)
}

// eachPayload calls use with the storages of a tensor.
func (a *array) eachPayload(use func(p *payload)) {
	if a.storage != nil {
		use(a.storage.payload)
	}
	for _, p := range a.partArrays() {
		p.eachPayload(use)
	}
}

// list marks a storage that a listed tensor refers to.
func (p *payload) list() { p.listed = true }

func (w *rows) warn(name, text string) {
	w.notes.Add(rowError(name, malformed("%s", text)))
}

// tensor returns the tensor for the Reader's list.
func (a *array) tensor(name string, limits tensor.Limits) (tensor.Tensor, error) {
	t := tensor.Tensor{Name: name, DType: a.dtype.d, Scheme: a.scheme}
	var ok bool
	if t.Shape, ok = a.dtype.unpacked(a.shape); !ok {
		return t, malformed("%v of %s", a.shape, a.dtype.name)
	}
	for _, p := range a.parts {
		part, err := p.part(limits)
		if err != nil {
			return t, err
		}
		t.Parts = append(t.Parts, part)
	}
	if a.storage == nil {
		return t, nil
	}
	var err error
	t.Data, err = a.blob(limits)
	return t, err
}

// part returns a part of a sparse or quantised tensor.
func (p *arrayPart) part(limits tensor.Limits) (part tensor.Part, err error) {
	if p.array == nil {
		return tensor.Part{Role: p.role, DType: p.values.DType, Data: p.values.Data}, nil
	}
	data, err := p.array.blob(limits)
	return tensor.Part{Role: p.role, DType: p.array.dtype.d, Data: data}, err
}

// blob returns the values in row-major, little-endian order. If they are stored in that
// order, it is a range of the file.
func (a *array) blob(limits tensor.Limits) (data tensor.Blob, err error) {
	n, _ := a.shape.Elements()
	p, size := a.storage.payload, a.dtype.size
	switch {
	case n == 0:
		return tensor.Blob{}, nil
	case a.isPacked():
		data, err = p.section(a.storage.first, a.storage.bytes())
	case a.rowMajor():
		data, err = p.section(a.storage.first+a.first*size, n*size)
	default:
		if data, err = p.section(a.storage.first, a.storage.bytes()); err == nil {
			data, err = tensor.Gather(data, size, a.shape, a.strides, a.first, limits.MaxDecoded)
		}
	}
	if width := a.dtype.d.Align(); err == nil && p.bigEnd && width > 1 {
		data = numpy.LittleEndian(data, width)
	}
	if err == nil && (a.conj || a.neg) {
		data, err = a.signed(data)
	}
	if err == nil && a.dtype.d == tensor.Unknown {
		data = tensor.NewBlob(&named{data, a.dtype.name})
	}
	return data, err
}

// A named is data of a dtype that this library does not know.
type named struct {
	tensor.Blob
	name string
}

func (n *named) Stored() (tensor.Stored, bool) {
	st, _ := n.Blob.Stored()
	st.Type = n.name
	return st, true
}
