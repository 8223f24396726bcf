package primitiv

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/tensor"
)

// A placed is a tensor, and where it goes as far as is known from the tensor alone.
type placed struct {
	t      *tensor.Tensor
	Origin // where it came from; unless exact, Path is all of its name
	exact  bool
}

// key is a string that no other place in a file has.
func (o Origin) key() string {
	return fmt.Sprintf("%q %t %q", o.Path, o.IsStatistic, o.Statistic)
}

// place returns where a tensor goes that has a name.
func place(t *tensor.Tensor) placed {
	p := placed{t: t, Origin: Origin{Batch: 1}}
	if o, ok := OriginOf(t); ok {
		if n := len(t.Shape); n > 0 && t.Shape[n-1] == int64(o.Batch) {
			p.Batch = o.Batch
		}
		name := strings.Join(o.Path, ".")
		if o.IsStatistic {
			name += ":" + o.Statistic
		}
		if p.exact = len(o.Path) > 0 && name == t.Name; p.exact {
			o.Batch = p.Batch
			p.Origin = o
			return p
		}
	}
	p.Path = strings.Split(t.Name, ".")
	return p
}

// parameters makes parameters of what a Writer was given, and checks them.
func (o *WriterOptions) parameters(items []item) (all []*Parameter, err error) {
	var stats, loose []placed
	for i := range items {
		switch it := &items[i]; {
		case it.kind == KindParameter:
			all = append(all, &it.parameter)
		case it.IsStatistic:
			stats = append(stats, it.placed)
		case it.exact:
			all = append(all, &Parameter{Path: it.Path, Value: it.t})
		default:
			loose = append(loose, it.placed)
		}
	}
	byPath := map[string]*Parameter{}
	if len(stats) > 0 {
		for _, v := range all {
			byPath[Origin{Path: v.Path}.key()] = v
		}
	}
	for _, p := range stats {
		if v := byPath[Origin{Path: p.Path}.key()]; v != nil {
			v.Stats = append(v.Stats, Statistic{p.Statistic, p.t, p.Batch})
		} else { // its value was left behind: it is like a tensor of another format
			loose = append(loose, placed{t: p.t,
				Origin: Origin{Path: strings.Split(p.t.Name, "."), Batch: 1}})
		}
	}
	if len(loose) > 0 {
		all = assign(all, loose)
	}
	for _, p := range all {
		if err := o.checkParameter(p); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// assign makes parameters and statistics of tensors that have only a name.
func assign(all []*Parameter, loose []placed) []*Parameter {
	fixed := len(all)
	names := make([]string, 0, fixed+len(loose))
	for _, v := range all {
		names = append(names, strings.Join(v.Path, "."))
	}
	for _, p := range loose {
		names = append(names, p.t.Name)
	}
	owner := owners(names, fixed)
	values := slices.Clone(all)
	for i, p := range loose {
		var v *Parameter
		if owner[fixed+i] < 0 {
			v = &Parameter{Path: p.Path, Value: p.t}
			all = append(all, v)
		}
		values = append(values, v)
	}
	for i, p := range loose {
		if o := owner[fixed+i]; o >= 0 {
			stat := p.t.Name[len(names[o])+1:]
			values[o].Stats = append(values[o].Stats, Statistic{stat, p.t, p.Batch})
		}
	}
	return all
}

// columnMajor reports whether the elements of t are in the order of the format.
// Dimensions of one element do not count.
func columnMajor(t *tensor.Tensor) bool {
	have, ok1 := t.Order.Strides(t.Shape)
	want, ok2 := tensor.ColumnMajor(len(t.Shape)).Strides(t.Shape)
	if !ok1 || !ok2 {
		return false
	}
	for i, d := range t.Shape {
		if d > 1 && have[i] != want[i] {
			return false
		}
	}
	return true
}
