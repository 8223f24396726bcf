package torch

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/numpy"
	"github.com/tensorfile/tensorfile/tensor"
)

// rows are the tensors and attributes of values, named by the path of keys to them.
type rows struct {
	limits     tensor.Limits
	memory     *memory
	visits     int64 // values left to visit: a shared one is visited at each of its places
	tensors    []tensor.Tensor
	arrays     []*array // of tensors
	attributes [][2]string
	notes      *format.Warnings
	onPath     []any // the containers around a value
}

// minVisits is how many values are visited in addition to one for each opcode.
const minVisits = 1 << 16

func rowError(name string, err error) error {
	return &tensor.FormatError{Format: formatName, Offset: -1, Field: printable(name), Err: err}
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

func (w *rows) addDict(name string, d *dict) error {
	for _, it := range d.unique() {
		child, err := w.join(name, keyText(it.key))
		if err == nil {
			err = w.add(child, it.value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *rows) addItems(name string, items []any) error {
	for i, v := range items {
		child, err := w.join(name, strconv.Itoa(i))
		if err == nil {
			err = w.add(child, v)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addObject adds what an object was made of, as nothing more is known about it: its
// arguments, its state, and its items.
func (w *rows) addObject(name string, o *object) error {
	if o.of != nil {
		if err := w.add(name, o.of); err != nil {
			return err
		}
	}
	if o.subclass || o.of != nil && o.class != nil {
		if err := w.addFacts(name, o); err != nil {
			return err
		}
	} else if len(o.args) > 0 {
		child, err := name, error(nil)
		if o.state != nil || len(o.dict.items)+len(o.list) > 0 {
			child, err = w.join(name, "args")
		}
		if err == nil {
			err = w.add(child, tuple(o.args...))
		}
		if err != nil {
			return err
		}
	}
	states := []any{o.state}
	if items, ok := tupleOf(o.state); ok && len(items) == 2 { // of a class with slots
		states = items
	}
	for _, state := range states {
		var err error
		if d, ok := state.(*dict); ok {
			err = w.add(name, d)
		} else if state != nil {
			var child string
			if child, err = w.join(name, "state"); err == nil {
				err = w.add(child, state)
			}
		}
		if err != nil {
			return err
		}
	}
	if err := w.addDict(name, &o.dict); err != nil {
		return err
	}
	return w.addItems(name, o.list)
}

// addFacts adds the class of a tensor as an attribute, and for one that has no elements
// of its own the dtype and shape that torch shows.
func (w *rows) addFacts(name string, o *object) error {
	facts := []item{{"class", o.class.String()}}
	if o.subclass {
		dtype := o.args[1]
		if g, ok := dtype.(*global); ok {
			dtype = g.String()
		}
		facts = append(facts, item{"dtype", dtype}, item{"shape", o.args[2]})
	}
	for _, f := range facts {
		child, err := w.join(name, f.key.(string))
		if err == nil {
			err = w.add(child, f.value)
		}
		if err != nil {
			return err
		}
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

// addArray adds a tensor, and as attributes what Python code set on it.
func (w *rows) addArray(name string, a *array) error {
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
		err = w.memory.take(rowBytes * (1 + len(a.parts)))
	}
	if err != nil {
		return rowError(name, err)
	}
	if a.warning != "" {
		w.warn(name, a.warning)
	}
	w.tensors, w.arrays = append(w.tensors, t), append(w.arrays, a)
	a.list()
	if a.class != nil {
		if err := w.addFacts(name, &object{class: a.class}); err != nil {
			return err
		}
	}
	if a.state == nil {
		return nil
	}
	return w.add(name, &object{state: a.state})
}

// list notes that the storages of a tensor are those of one in the list.
func (a *array) list() {
	if a.storage != nil {
		a.storage.payload.listed = true
	}
	for _, p := range a.partArrays() {
		p.list()
	}
}

func (w *rows) warn(name, text string) {
	w.notes.Add(rowError(name, malformed("%s", text)))
}

// tensor returns a row of the file.
func (a *array) tensor(name string, limits tensor.Limits) (tensor.Tensor, error) {
	t := tensor.Tensor{Name: name, DType: a.dtype.d, Scheme: a.scheme}
	var ok bool
	if t.Shape, ok = a.dtype.unpacked(a.shape); !ok {
		return t, malformed("%v of %s", a.shape, a.dtype.word)
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

// blob returns the values in row-major, little-endian order: a range of the file where
// that is how they are stored.
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
		data = tensor.NewBlob(&named{data, a.dtype.word})
	}
	return data, err
}

// named is bytes of a dtype that this library has no name for.
type named struct {
	tensor.Blob
	word string
}

func (n *named) Stored() tensor.Stored {
	st, _ := n.Blob.Stored()
	st.Type = n.word
	return st
}
