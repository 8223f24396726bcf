package torch

import "slices"

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
				a.list()
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
