package primitiv

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// pending is a tensor, and where it goes as far as is known from the tensor alone.
type pending struct {
	t      *tensor.Tensor
	Origin // where it came from; unless exact, Path is all of its name
	exact  bool
}

// key is a string that no other place in a file has.
func (o Origin) key() string {
	return fmt.Sprintf("%q %t %q", o.Path, o.IsStatistic, o.Statistic)
}

func place(t *tensor.Tensor) pending {
	p := pending{t: t, Origin: Origin{Batch: 1}}
	if t == nil {
		return p
	}
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

// resolve makes parameters of the tensors that were added.
func (w *Writer) resolve() error {
	var stats, loose []pending
	for _, p := range w.pending {
		switch {
		case p.IsStatistic:
			stats = append(stats, p)
		case p.exact:
			w.params = append(w.params, &Parameter{Path: p.Path, Value: p.t})
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
		if v := byPath[quoted(p.Path)]; v != nil {
			v.Stats = append(v.Stats, Statistic{p.Statistic, p.t, p.Batch})
		} else { // its value was left behind: it is like a tensor of another format
			loose = append(loose, pending{t: p.t,
				Origin: Origin{Path: strings.Split(p.t.Name, "."), Batch: 1}})
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
			v = &Parameter{Path: p.Path, Value: p.t}
			w.params = append(w.params, v)
		}
		values = append(values, v)
	}
	for i, p := range loose {
		if o := owner[fixed+i]; o >= 0 {
			stat := p.t.Name[len(names[o])+1:]
			values[o].Stats = append(values[o].Stats, Statistic{stat, p.t, p.Batch})
		}
	}
}

// check reports what keeps a parameter out of a file.
func (p *Parameter) check(opts *WriterOptions) error {
	if err := opts.accepts(p.Value, 1); err != nil {
		return err
	}
	if opts.Kind == KindModel {
		if err := format.CheckWritten(p.Name(), 0); err != nil {
			return fmt.Errorf("%s: parameter %s: %w", formatName, quotePath(p.Path), err)
		}
	}
	if opts.NoStats {
		return nil
	}
	for i := range p.Stats {
		if err := p.Stats[i].check(opts); err != nil {
			return err
		}
	}
	if name, again := repeated(p.Stats, func(s *Statistic) string { return s.Name }); again {
		return fmt.Errorf("%s: two statistics %s of %s: %w", formatName, naming.Quote(name),
			quotePath(p.Path), tensor.ErrDuplicate)
	}
	return nil
}

func (s *Statistic) check(opts *WriterOptions) error {
	if err := format.CheckWritten(s.Name, 0); err != nil {
		return fmt.Errorf("%s: statistic %s: %w", formatName, naming.Quote(s.Name), err)
	}
	return opts.accepts(s.Tensor, s.Batch)
}

// accepts reports what keeps a tensor out of a file.
func (o *WriterOptions) accepts(t *tensor.Tensor, batch uint32) error {
	if err := t.Check(); err != nil {
		return fmt.Errorf("%s: %w", formatName, err)
	}
	refuse := func(err error) error {
		return fmt.Errorf("%s: tensor %s: %w", formatName, naming.Quote(t.Name), err)
	}
	switch {
	case t.External:
		return refuse(fmt.Errorf("%w: it is kept in another file", errors.ErrUnsupported))
	case !t.Dense() || len(t.Parts) > 0:
		return refuse(fmt.Errorf("%w: primitiv has dense tensors alone", errors.ErrUnsupported))
	case t.DType != tensor.F32:
		return refuse(fmt.Errorf("%w: it is %v, primitiv has float32 alone",
			tensor.ErrDType, t.DType))
	case t.Data.Size() < 0:
		return refuse(fmt.Errorf("%w: its size is only known after decoding",
			errors.ErrUnsupported))
	case !o.Reorder && !columnMajor(t):
		return refuse(fmt.Errorf("%w: it is not column-major: see WriterOptions.Reorder",
			errors.ErrUnsupported))
	}
	_, err := shapeOf(t.Shape, batch)
	if err == nil {
		name := t.Name
		if o.Kind != KindModel { // it is not written
			name = ""
		}
		err = format.CheckWritten(name, len(t.Shape))
	}
	if err != nil {
		return refuse(err)
	}
	return nil
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
