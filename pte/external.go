package pte

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// Externalize takes constants and initial values out of the program and returns them. The
// runtime then needs a .ptd that has them: their Name is their key there. choose returns
// the key of each tensor, or the empty string to leave it in the program. If choose is
// nil, all constants are taken, under their names after earlier calls of Rename, and
// state keeps its initial values. Write fails with fs.ErrInvalid if a later Rename gives
// a taken tensor a name that differs from its key.
//
// Tensors with the same bytes, dtype, shape and order get one key, the first. Externalize
// fails with tensor.ErrDuplicate if two different tensors get the same key, or if a key
// is the key of a named blob, which delegates would then not find.
func (e *Edit) Externalize(choose func(*Entry) string) ([]*tensor.Tensor, error) {
	if err := e.takeApart(); err != nil {
		return nil, err
	}
	replaced, err := e.replacements()
	if err != nil {
		return nil, err
	}
	taken := make(map[string]*Entry) // by key
	keys := make(map[string]string)  // by bytes, dtype, shape and order
	var out []*tensor.Tensor
	outputs := e.r.outputs()
	for x := range e.r.Entries() {
		if x.External || x.Buffer == 0 {
			continue
		}
		v := e.draft.tensors[x.Method.index][x.Value]
		if v.role.External() {
			continue // taken by an earlier call
		}
		c, err := e.change(x.valueID())
		if err != nil {
			return nil, err
		}
		key := ""
		if choose != nil {
			key = choose(x)
		} else if x.Role == RoleConstant {
			key = c.Name
		}
		if key == "" {
			continue
		}
		if strings.ContainsRune(key, 0) {
			return nil, errs.New(errors.ErrUnsupported, "the key %s has a zero byte",
				naming.Quote(key))
		}
		if err := x.Check(); err != nil {
			return nil, err
		}
		if bad, ok := x.Data.Source().(*missing); ok {
			return nil, bad.err
		}
		identity := fmt.Sprint(x.Role, x.Buffer, x.DType, x.Shape, x.Order)
		if k, ok := keys[identity]; ok {
			key = k
		} else if first, ok := taken[key]; ok {
			return nil, errs.New(tensor.ErrDuplicate,
				"the key %s would be of %s, value %d, and of %s, value %d", naming.Quote(key),
				naming.Quote(first.Method.Name()), first.Value,
				naming.Quote(x.Method.Name()), x.Value)
		} else {
			keys[identity], taken[key] = key, x
			t := *x.Tensor
			if b, ok := t.Data.Stored(); ok {
				if p, ok := replaced[extent{b.Offset, b.Size}]; ok {
					t.Data = p.Data
				}
			}
			t.Name = key
			out = append(out, &t)
		}
		e.keys[x.valueID()] = key
		v.externalize(key, outputs[x.valueID()])
	}
	for d := range e.r.Program().NamedData() {
		if _, ok := taken[d.Key]; ok {
			return nil, errs.New(tensor.ErrDuplicate, "a named blob has the key %s",
				naming.Quote(d.Key))
		}
	}
	e.draft.listsChanged = e.draft.listsChanged || len(out) > 0
	return out, nil
}

// outputs returns the values that methods return.
func (r *Reader) outputs() map[valueID]bool {
	all := make(map[valueID]bool)
	for m := range r.Program().Methods() {
		for _, v := range m.Outputs() {
			all[valueID{int32(m.index), int32(v.index)}] = true
		}
	}
	return all
}

// externalize makes a stored tensor external. output is set if its method returns it.
func (t *tensorValue) externalize(key string, output bool) {
	t.role = t.role.counterpart()
	t.extraInfo().SetString(ptefb.SlotExtraTensorInfoFullyQualifiedName, key).
		SetScalar(ptefb.SlotExtraTensorInfoLocation, 1,
			uint64(ptefb.TensorDataLocationEXTERNAL))
	if output {
		t.node.SetScalar(ptefb.SlotTensorDataBufferIdx, 4, returnedBuffer)
	} else {
		t.node.Remove(ptefb.SlotTensorDataBufferIdx)
	}
}

// returnedBuffer is the data_buffer_idx of an external constant that a method returns. If
// it were 0, the runtime would report that the caller provides the memory, and callers
// would overwrite it.
const returnedBuffer = 1

// Internalize stores external tensors in the program. lookup returns the tensor of a
// name, or nil to leave it external. The tensors keep their names; they must stay
// readable and unchanged until the program is written. Internalize returns the number of
// tensors that it stored. It fails with tensor.ErrMalformed if a tensor differs in dtype,
// shape or order from what the program requires.
func (e *Edit) Internalize(lookup func(name string) *tensor.Tensor) (int, error) {
	if err := e.takeApart(); err != nil {
		return 0, err
	}
	n := 0
	for x := range e.r.Entries() {
		v := e.draft.tensors[x.Method.index][x.Value]
		if !x.External || !v.role.External() {
			continue
		}
		t := lookup(x.Name)
		if t == nil {
			continue
		}
		if err := t.Check(); err != nil {
			return n, err
		}
		if err := checkLayout(x.Tensor, t); err != nil {
			return n, errs.New(tensor.ErrMalformed, "%w", err)
		}
		if t.External {
			return n, errs.New(errors.ErrUnsupported, "external tensor %s is itself external",
				naming.Quote(t.Name))
		}
		v.extraInfo().Remove(ptefb.SlotExtraTensorInfoLocation)
		v.role, v.data = v.role.counterpart(), t
		e.internalized.AddTensor(t)
		n++
	}
	e.draft.listsChanged = e.draft.listsChanged || n > 0
	return n, nil
}
