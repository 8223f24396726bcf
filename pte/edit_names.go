package pte

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// Rename gives tensors that [Reader.Tensors] lists another fully qualified name, which constants mostly have not; choose
// is asked for that of each, and whatever equals [Entry.Name] stays as it is. The name of an external tensor is its key in
// the .ptd, which has to be renamed too; two that get the same key must agree in type, shape and order.
func (e *Edit) Rename(choose func(*Entry) string) error {
	if err := e.open(); err != nil {
		return err
	}
	type external struct {
		*Entry
		renamed bool
	}
	keys := make(map[string]external)
	for x := range e.r.Entries() {
		name := choose(x)
		renamed := name != x.Name // what is not stays as it is, whatever that is
		if renamed && (strings.ContainsRune(name, 0) || name == "") {
			return fmt.Errorf("pte: %w: %s is no name for a tensor", tensor.ErrMalformed, tensor.Quote(name))
		}
		node := e.values[x.Method.index][x.Value]
		if roleOfNode(node).External() {
			first, ok := keys[name]
			if !ok {
				keys[name] = external{x, renamed}
			} else if (renamed || first.renamed) && (first.DType != x.DType || !first.Shape.Equal(x.Shape) || !slices.Equal(first.Order, x.Order)) {
				return fmt.Errorf("pte: %w: %s would be the key of two external tensors that differ", tensor.ErrMalformed, tensor.Quote(name))
			}
		}
		if !renamed {
			continue
		}
		info := node.Child(ptefb.SlotTensorExtraTensorInfo)
		if info == nil {
			info = new(fb.Node)
			node.SetChild(ptefb.SlotTensorExtraTensorInfo, info)
		}
		info.SetString(ptefb.SlotExtraTensorInfoFullyQualifiedName, name)
	}
	return nil
}

// RenameNamed gives named blobs other keys, or drops them: choose is asked for each. Delegates look for blobs by their
// keys, so that one that lacks its own does not run any more. What nothing else refers to leaves the file.
func (e *Edit) RenameNamed(choose func(key string) (name string, keep bool)) error {
	if err := e.open(); err != nil {
		return err
	}
	taken := make(map[string]bool) // by a blob that had another key
	var left []*fb.Node
	all := e.tree.Children(ptefb.SlotProgramNamedData)
	for _, n := range all {
		old := string(n.Bytes(ptefb.SlotNamedDataKey))
		name, keep := choose(old)
		if !keep {
			continue
		}
		renamed := name != old // what is not stays as it is, whatever that is
		if renamed && strings.ContainsRune(name, 0) {
			return fmt.Errorf("pte: %w: the key %s has a zero byte", tensor.ErrMalformed, tensor.Quote(name))
		}
		if first, ok := taken[name]; ok && (renamed || first) {
			return fmt.Errorf("pte: %w: the key %s would be there twice", tensor.ErrMalformed, tensor.Quote(name))
		}
		if taken[name] = renamed; renamed {
			n.SetString(ptefb.SlotNamedDataKey, name)
		}
		left = append(left, n)
	}
	if len(left) < len(all) {
		e.tree.SetChildren(ptefb.SlotProgramNamedData, left)
		e.dropSegments()
	}
	return nil
}

// SetMetadata makes the constant getter of that name return value, an int, int64, bool, float64, string or nil for None. It
// takes the place of a getter of that name; any other method of the name is an error.
func (e *Edit) SetMetadata(name string, value any) error {
	if _, ok := value.(*tensor.Tensor); ok {
		return fmt.Errorf("pte: metadata %s: a tensor is not set so", tensor.Quote(name))
	}
	b := NewBuilder()
	b.Metadata(name, value)
	var w bytes.Buffer
	if err := b.Write(&w, nil); err != nil {
		return err
	}
	one, err := fb.Take(w.Bytes(), &ptefb.Schema, ptefb.TableProgram, func(int, int) int { return 1 })
	if err != nil {
		return err
	}
	getter := one.Children(ptefb.SlotProgramExecutionPlan)[0]
	if err := e.open(); err != nil {
		return err
	}
	plans := slices.Clone(e.tree.Children(ptefb.SlotProgramExecutionPlan))
	i, err := e.getter(name)
	if err != nil {
		return err
	}
	if i < 0 {
		plans = append(plans, getter)
	} else {
		plans[i] = getter
	}
	e.tree.SetChildren(ptefb.SlotProgramExecutionPlan, plans)
	return nil
}

// RemoveMetadata drops the constant getter of that name.
func (e *Edit) RemoveMetadata(name string) error {
	if err := e.open(); err != nil {
		return err
	}
	i, err := e.getter(name)
	if err != nil {
		return err
	}
	if i < 0 {
		return fmt.Errorf("pte: no metadata is called %s", tensor.Quote(name))
	}
	e.tree.SetChildren(ptefb.SlotProgramExecutionPlan, slices.Delete(slices.Clone(e.tree.Children(ptefb.SlotProgramExecutionPlan)), i, i+1))
	return nil
}

// getter is where the method of that name is now, -1 if there is none.
func (e *Edit) getter(name string) (int, error) {
	i := slices.IndexFunc(e.tree.Children(ptefb.SlotProgramExecutionPlan), func(n *fb.Node) bool { return string(n.Bytes(ptefb.SlotExecutionPlanName)) == name })
	if m, ok := e.r.Program().Method(name); ok && i >= 0 && !m.IsGetter() {
		return 0, fmt.Errorf("pte: %s is a method that computes, no metadata", tensor.Quote(name))
	}
	return i, nil
}
