package torch

import (
	"slices"
	"strings"
)

// moduleFields are the dicts of an nn.Module, in the order of its state_dict.
var moduleFields = []string{"_parameters", "_buffers", "_modules"}

// isModule reports whether the state of an object is the state of an nn.Module.
func isModule(state *dict) bool {
	for _, field := range moduleFields {
		if _, ok := state.lookup(field).(*dict); !ok {
			return false
		}
	}
	return true
}

// addModule adds the tensors of an nn.Module with the names of its state_dict, and other
// values as attributes. Tensors that are not in the state_dict are not added: unlisted
// reports their storages, except the storages of buffers that are not persistent.
func (w *rows) addModule(name string, state *dict) error {
	if !w.inModule {
		w.modules = append(w.modules, name)
	}
	defer func(inModule, hidden bool) {
		w.inModule, w.hidden = inModule, hidden
	}(w.inModule, w.hidden)
	w.inModule = true
	transient := map[string]bool{} // buffers that are not persistent
	items, _ := itemsOf(state.lookup("_non_persistent_buffers_set"))
	for _, v := range items {
		key, _ := textOf(v)
		transient[key] = true
	}
	for _, field := range moduleFields {
		for _, it := range state.lookup(field).(*dict).unique() {
			key := keyText(it.key)
			if a, ok := it.value.(*array); ok && field == "_buffers" && transient[key] {
				a.eachPayload((*payload).list)
			} else if it.value != nil {
				if err := w.child(name, it.value, field, key); err != nil {
					return err
				}
			}
		}
	}
	w.hidden = true
	for _, it := range state.unique() {
		key := keyText(it.key)
		if slices.Contains(moduleFields, key) {
			continue
		}
		if err := w.child(name, it.value, key); err != nil {
			return err
		}
	}
	return nil
}

// states returns the states that BUILD gave an object: a class with slots has two.
func states(o *object) []any {
	if items, ok := tupleOf(o.state); ok && len(items) == 2 {
		return items
	}
	return []any{o.state}
}

// field returns a field of an object, nil if it has none of that name.
func field(v any, name string) any {
	if o, ok := v.(*object); ok {
		for _, state := range states(o) {
			if d, ok := state.(*dict); ok && d.lookup(name) != nil {
				return d.lookup(name)
			}
		}
	}
	return nil
}

// placements returns how a DTensor is divided over the dimensions of its mesh, as Python
// prints it: Shard(dim=0), Replicate(). It returns nil for other objects.
func placements(o *object) *sequence {
	all, ok := itemsOf(field(field(o, "_spec"), "placements"))
	if !ok || len(all) > maxRank {
		return nil
	}
	texts := new(sequence)
	for _, v := range all {
		p, ok := v.(*object)
		if !ok || p.class == nil || len(p.args) > maxRank {
			return nil
		}
		class := p.class.name[strings.LastIndexByte(p.class.name, '.')+1:]
		var args []string
		for _, v := range p.args {
			args = append(args, short(v))
		}
		if d, ok := p.state.(*dict); ok && len(d.items) <= maxRank {
			for _, it := range d.unique() {
				args = append(args, short(it.key)+"="+short(it.value))
			}
		}
		texts.items = append(texts.items, short(class)+"("+strings.Join(args, ", ")+")")
	}
	return texts
}

// short returns a number or a short string as text.
func short(v any) string {
	switch v := v.(type) {
	case nil, bool, int64:
		return keyText(v)
	case string:
		if len(v) <= maxRank {
			return keyText(v)
		}
	}
	return "…"
}
