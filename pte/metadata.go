package pte

import (
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// Metadata yields the results of the program's constant getters, under their names: an
// int64, bool, float64, string, nil for None, []int64, []float64, []bool, or a
// *tensor.Tensor; for a getter with several outputs a []any of such values. Exporters of
// language models write get_bos_id, get_eos_ids, get_max_seq_len, get_vocab_size,
// use_kv_cache and others.
func (p *Program) Metadata() iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		// Outputs may name a value any number of times, and are shown in full.
		budget := 4*len(p.buf) + 1<<16
		for m := range p.Methods() {
			if !m.IsGetter() {
				continue
			}
			n := m.t.OutputsLength()
			all := make([]any, 0, min(n, 16))
			for i := range n {
				v := m.Value(int(m.t.Outputs(i)))
				items, _ := v.items(v.Kind())
				if budget -= 16 + len(items); budget < 0 {
					return
				}
				all = append(all, v.Constant())
			}
			var x any = all
			if len(all) == 1 {
				x = all[0]
			}
			if !yield(m.Name(), x) {
				return
			}
		}
	}
}

// metadataText writes a value of Metadata; false for tensors.
func metadataText(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case nil:
		return "None", true
	case *tensor.Tensor:
		return "", false
	case []any:
		texts := make([]string, len(v))
		for i, x := range v {
			var ok bool
			if texts[i], ok = metadataText(x); !ok {
				return "", false
			}
		}
		return "[" + strings.Join(texts, ", ") + "]", true
	case []int64, []float64, []bool:
		return strings.ReplaceAll(fmt.Sprint(v), " ", ", "), true
	}
	return fmt.Sprint(v), true
}

// SetAttribute sets the constant getter of that name. The value is read as the type of
// the old one; where there is none, it is true or false, an integer, a float or text, as
// it looks.
func (e *Edit) SetAttribute(key, value string) error {
	kinds := []Kind{kindBool, kindInt, kindDouble, kindString}
	if m, ok := e.r.Program().Method(key); ok && m.IsGetter() && m.t.OutputsLength() == 1 {
		if k := m.Outputs()[0].Kind(); k.known() && k != kindNull && k != kindNone {
			kinds = []Kind{k}
		}
	}
	for _, k := range kinds {
		if x, ok := parseAs(k, value); ok {
			return e.setGetter(key, x)
		}
	}
	return errs.At(-1, "attribute "+naming.Quote(key), tensor.ErrDType,
		"%s is not of kind %v, as the old value is", naming.Quote(value), kinds[0])
}

// setGetter makes the constant getter of that name return a value. A method of the name
// that computes is an error.
func (e *Edit) setGetter(name string, value any) error {
	b := NewBuilder()
	b.Metadata(name, value)
	if err := b.Err(); err != nil {
		return err
	}
	if m, ok := e.r.Program().Method(name); ok && !m.IsGetter() {
		return errs.New(tensor.ErrDuplicate, "%s is a method that computes, not metadata",
			naming.Quote(name))
	}
	if err := e.takeApart(); err != nil {
		return err
	}
	if _, ok := e.getters[name]; !ok {
		e.getterOrder = append(e.getterOrder, name)
	}
	var err error
	e.getters[name], err = b.methods[0].node(new(draft))
	return err
}

// parseAs reads a value of that kind, and reports whether text is one.
func parseAs(kind Kind, text string) (any, bool) {
	switch kind {
	case kindInt:
		n, err := strconv.ParseInt(text, 10, 64)
		return n, err == nil
	case kindDouble:
		f, err := strconv.ParseFloat(text, 64)
		return f, err == nil
	case kindBool:
		return text == "true", text == "true" || text == "false"
	}
	return text, kind == kindString
}

// RemoveAttribute drops the constant getter of that name; one that is absent is no error,
// a method of another kind errors.ErrUnsupported.
func (e *Edit) RemoveAttribute(key string) error {
	switch m, ok := e.r.Program().Method(key); {
	case !ok:
		if _, added := e.getters[key]; added {
			e.getters[key] = nil
		}
		return nil
	case !m.IsGetter():
		return errs.New(errors.ErrUnsupported, "method %s is not an attribute",
			naming.Quote(key))
	}
	if err := e.takeApart(); err != nil {
		return err
	}
	e.getters[key] = nil
	return nil
}

// setGetters replaces, appends and drops constant getters.
func (d *draft) setGetters() {
	e := d.e
	if len(e.getters) == 0 {
		return
	}
	var plans []*fb.Node
	placed := make(map[string]bool)
	for _, n := range d.tree.Children(ptefb.SlotProgramExecutionPlan) {
		name := string(n.Bytes(ptefb.SlotExecutionPlanName))
		if getter, changed := e.getters[name]; changed {
			if getter == nil || placed[name] {
				continue
			}
			n, placed[name] = getter, true
		}
		plans = append(plans, n)
	}
	for _, name := range e.getterOrder {
		if n := e.getters[name]; n != nil && !placed[name] {
			plans = append(plans, n)
		}
	}
	d.tree.SetChildren(ptefb.SlotProgramExecutionPlan, plans)
}
