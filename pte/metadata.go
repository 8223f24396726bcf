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

// Metadata yields the name and result of each constant getter of the program: a method
// that only returns stored values. A result is an int64, bool, float64, string, []int64,
// []float64, []bool, *tensor.Tensor, nil for None, or a []any of them if the getter has
// several outputs. Exporters of language models write get_bos_id, get_eos_ids,
// get_max_seq_len, get_vocab_size, use_kv_cache and others. Metadata stops early if the
// outputs would be much larger than the program.
func (p *Program) Metadata() iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		// Outputs may repeat a long value many times.
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

// metadataText returns a value of Metadata as text; false for tensors.
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

// SetAttribute sets the value that the constant getter of that name returns. value is
// parsed as the type of the old value. If there is no such getter, one is added, and
// value is parsed as a bool, an integer, a float or else a string. SetAttribute fails
// with tensor.ErrDType if value is not of the old type, and with tensor.ErrDuplicate if
// the name belongs to a method that is not a getter.
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

// setGetter makes the constant getter of that name return a value.
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

// parseAs returns text as a value of that kind, and reports whether it is one.
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

// RemoveAttribute removes the constant getter of that name, if there is one. It fails
// with errors.ErrUnsupported if the name belongs to a method that is not a getter.
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

// setGetters replaces, appends and removes constant getters.
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
