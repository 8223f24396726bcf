package torch

import (
	"slices"
	"strings"
)

// moduleFields are the dicts of an nn.Module, in the order of its state_dict.
var moduleFields = []string{"_parameters", "_buffers", "_modules"}

// isModule reports whether the state of an object is of an nn.Module.
func isModule(state *dict) bool {
	for _, field := range moduleFields {
		if _, ok := state.lookup(field).(*dict); !ok {
			return false
		}
	}
	return true
}

// addModule adds the tensors of an nn.Module by the names that its state_dict has, and
// what else it has as attributes. Buffers that are not persistent are not of its state;
// the storages of other tensors that are not are named by unlisted.
func (w *rows) addModule(name string, state *dict) error {
	if !w.inModule {
		w.modules = append(w.modules, name)
	}
	defer func(inModule, hidden bool) {
		w.inModule, w.hidden = inModule, hidden
	}(w.inModule, w.hidden)
	w.inModule = true
	passing := map[string]bool{}
	items, _ := itemsOf(state.lookup("_non_persistent_buffers_set"))
	for _, v := range items {
		key, _ := textOf(v)
		passing[key] = true
	}
	for _, field := range moduleFields {
		for _, it := range state.lookup(field).(*dict).unique() {
			key := keyText(it.key)
			if a, ok := it.value.(*array); ok && field == "_buffers" && passing[key] {
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

// states returns what BUILD gave an object: of a class with slots two states.
func states(o *object) []any {
	if items, ok := tupleOf(o.state); ok && len(items) == 2 {
		return items
	}
	return []any{o.state}
}

// field returns a field of an object, nil where it has none of that name.
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

// placements returns how a DTensor is spread over the dimensions of its mesh, as Python
// shows it: Shard(dim=0), Replicate(). It is nil for other objects.
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
