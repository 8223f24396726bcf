package primitiv

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/tensor"
)

// pending is a tensor, and where it goes as far as is known from the tensor alone.
type pending struct {
	t      *tensor.Tensor
	path   []string
	exact  bool // path, isStat and stat are where it came from; else path is all of its name
	isStat bool
	stat   string
	batch  uint32
}

func place(t *tensor.Tensor) pending {
	p := pending{t: t, batch: 1}
	if t == nil {
		return p
	}
	if o, ok := OriginOf(t); ok {
		if n := len(t.Shape); n > 0 && t.Shape[n-1] == int64(o.Batch) {
			p.batch = o.Batch
		}
		name := strings.Join(o.Path, ".")
		if o.IsStatistic {
			name += ":" + o.Statistic
		}
		if p.exact = len(o.Path) > 0 && name == t.Name; p.exact {
			p.path, p.isStat, p.stat = o.Path, o.IsStatistic, o.Statistic
			return p
		}
	}
	p.path = strings.Split(t.Name, ".")
	return p
}

// resolve makes parameters of the tensors that were added.
func (w *Writer) resolve() error {
	var stats, loose []pending
	for _, p := range w.pending {
		switch {
		case p.isStat:
			stats = append(stats, p)
		case p.exact:
			w.params = append(w.params, &Parameter{Path: p.path, Value: p.t})
		default:
			loose = append(loose, p)
		}
	}
	w.pending = nil
	byPath := map[string]*Parameter{}
	if len(stats) > 0 {
		for _, v := range slices.Backward(w.params) {
			byPath[quoted(v.Path)] = v // of one path the first
		}
	}
	for _, p := range stats {
		if v := byPath[quoted(p.path)]; v != nil {
			v.Stats = append(v.Stats, Statistic{p.stat, p.t, p.batch})
		} else { // its value was left behind: it is like a tensor of another format
			loose = append(loose, pending{t: p.t, path: strings.Split(p.t.Name, "."), batch: 1})
		}
	}
	if len(loose) > 0 {
		w.assign(loose)
	}
	for _, v := range w.params {
		if err := v.check(&w.opts); err != nil {
			return err
		}
	}
	return nil
}

// quoted returns a string that no other path has.
func quoted(path []string) string { return fmt.Sprintf("%q", path) }

// assign makes parameters and statistics of tensors that have only a name.
func (w *Writer) assign(loose []pending) {
	fixed := len(w.params)
	names := make([]string, 0, fixed+len(loose))
	for _, v := range w.params {
		names = append(names, strings.Join(v.Path, "."))
	}
	for _, p := range loose {
		names = append(names, p.t.Name)
	}
	owner := owners(names, fixed)
	values := append(make([]*Parameter, 0, len(names)), w.params...)
	for i, p := range loose {
		var v *Parameter
		if owner[fixed+i] < 0 {
			v = &Parameter{Path: p.path, Value: p.t}
			w.params = append(w.params, v)
		}
		values = append(values, v)
	}
	for i, p := range loose {
		if o := owner[fixed+i]; o >= 0 {
			stat := p.t.Name[len(names[o])+1:]
			values[o].Stats = append(values[o].Stats, Statistic{stat, p.t, p.batch})
		}
	}
}
