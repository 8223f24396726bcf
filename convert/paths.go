package convert

import (
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/primitiv"
	"github.com/tensorfile/tensorfile/tensor"
)

// pathSeparator separates the parts of a path in its key. It sorts before every
// byte of a part, so that what is below a path follows it in sorted order.
const pathSeparator = "\x00\x00"

// pathKey returns one string for the path of a tensor in a primitiv model.
func pathKey(t *tensor.Tensor) string {
	if o, ok := primitiv.OriginOf(t); ok && len(o.Path) > 0 &&
		strings.Join(o.Path, ".") == t.Name {
		parts := slices.Clone(o.Path)
		for i := range parts {
			parts[i] = strings.ReplaceAll(parts[i], "\x00", "\x00\x01")
		}
		return strings.Join(parts, pathSeparator)
	}
	return nameKey(t.Name)
}

func nameKey(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "\x00", "\x00\x01"), ".", pathSeparator)
}

// renameParents renames the values of primitiv whose path is the beginning of
// another value's, with their statistics: a model has parameters only at its
// leaves.
func (p *Plan) renameParents() {
	if p.kind != 0 {
		return
	}
	owners := statisticOwners(p.items)
	var keys []string
	values := map[string]bool{}
	for i := range p.items {
		if owners[i] == "" {
			key := pathKey(&p.items[i].t)
			keys, values[key] = append(keys, key), true
		}
	}
	slices.Sort(keys)
	inner := func(key string) bool {
		key += pathSeparator
		i, _ := slices.BinarySearch(keys, key)
		return i < len(keys) && strings.HasPrefix(keys[i], key)
	}
	renamed := map[string]string{}
	for i := range p.items {
		it := &p.items[i]
		if owners[i] != "" {
			continue
		}
		if !inner(pathKey(&it.t)) {
			continue
		}
		old := it.t.Name
		key := ""
		for ok := false; !ok; ok = !inner(key) && !values[key] {
			it.t.Name += "_"
			key = nameKey(it.t.Name)
		}
		values[key], renamed[old] = true, it.t.Name
		p.loseName(it, old, "its path is the beginning of another's")
	}
	for i := range p.items {
		it := &p.items[i]
		if value, ok := renamed[owners[i]]; ok && owners[i] != "" {
			old := it.t.Name
			it.t.Name = value + old[len(owners[i]):]
			p.loseName(it, old, "its value has another name")
		}
	}
}

// statisticOwners returns, for every tensor that is a statistic VALUE:NAME of
// another one, the name of that value, the longest if there are several; "" for
// the rest.
func statisticOwners(items []item) []string {
	order := make([]int, len(items))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return strings.Compare(items[a].t.Name, items[b].t.Name)
	})
	owners := make([]string, len(items))
	var prefixes []string // names that the next one may begin with, each with those before it
	for _, i := range order {
		name := items[i].t.Name
		for len(prefixes) > 0 && !strings.HasPrefix(name, prefixes[len(prefixes)-1]) {
			prefixes = prefixes[:len(prefixes)-1]
		}
		for _, value := range slices.Backward(prefixes) {
			if len(value) < len(name) && name[len(value)] == ':' {
				owners[i] = value
				break
			}
		}
		prefixes = append(prefixes, name)
	}
	return owners
}
