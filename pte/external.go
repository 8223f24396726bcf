package pte

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// Externalize takes constants and initial values out of the program and returns them,
// under the keys that they must have in the .ptd which the runtime is then given in
// addition. choose returns the key of each; the empty string leaves a tensor where it is.
// nil takes all constants, under the names that [Reader.Tensors] gives or, until then,
// [Edit.Rename]; state keeps its values. Write fails where a tensor that was taken has
// another name than its key from Rename.
//
// Tensors that agree in bytes, type, shape and order have one key, the first one's. Two
// tensors that differ cannot share a key, and no key may be the key of a named blob,
// which the .ptd would hide from delegates.
func (e *Edit) Externalize(choose func(*Entry) string) ([]*tensor.Tensor, error) {
	if err := e.takeApart(); err != nil {
		return nil, err
	}
	data, err := e.replacements()
	if err != nil {
		return nil, err
	}
	taken := make(map[string]*Entry)
	same := make(map[string]string) // what a tensor is → its key
	var out []*tensor.Tensor
	outputs := make(map[valueID]bool)
	for m := range e.r.Program().Methods() {
		for _, v := range m.Outputs() {
			outputs[valueID{int32(m.index), int32(v.index)}] = true
		}
	}
	for x := range e.r.Entries() {
		if x.External || x.Buffer == 0 {
			continue
		}
		v := e.draft.tensors[x.Method.index][x.Value]
		if v.role.External() {
			continue // by an earlier call
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
		what := fmt.Sprint(x.Role, x.Buffer, x.DType, x.Shape, x.Order)
		if k, ok := same[what]; ok {
			key = k
		} else if first, ok := taken[key]; ok {
			return nil, errs.New(tensor.ErrDuplicate,
				"the key %s would be of %s, value %d, and of %s, value %d", naming.Quote(key),
				naming.Quote(first.Method.Name()), first.Value,
				naming.Quote(x.Method.Name()), x.Value)
		} else {
			same[what], taken[key] = key, x
			t := *x.Tensor
			if b, ok := t.Data.Stored(); ok {
				if p, ok := data[extent{b.Offset, b.Size}]; ok { // of Replace
					t.Data = p.Data
				}
			}
			t.Name = key
			out = append(out, &t)
		}
		v.role = v.role.counterpart()
		e.keys[x.valueID()] = key
		v.extraInfo().SetString(ptefb.SlotExtraTensorInfoFullyQualifiedName, key).
			SetScalar(ptefb.SlotExtraTensorInfoLocation, 1,
				uint64(ptefb.TensorDataLocationEXTERNAL))
		if outputs[x.valueID()] {
			v.node.SetScalar(ptefb.SlotTensorDataBufferIdx, 4, returned)
		} else {
			v.node.Remove(ptefb.SlotTensorDataBufferIdx)
		}
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

// returned is the data_buffer_idx of an external constant that a method returns: without
// one the runtime reports that the caller provides its memory, and callers then do.
const returned = 1

// Internalize takes external tensors into the program, if lookup returns a tensor for
// their name. Each must have exactly the type, shape and order that the program requires.
// They keep their names. It returns how many it took; the tensors that lookup gave must
// stay readable until the program is written.
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
