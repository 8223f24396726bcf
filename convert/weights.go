package convert

import (
	"context"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"

	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/pte"
	"github.com/tensorfile/tensorfile/tensor"
)

// SetWeights replaces tensors of an ExecuTorch program by name, wherever their bytes are:
// in the program, a .pte or .bpte, or in data, the .ptd that its external tensors and its
// delegates read; data may be empty. Names are the names in pte.Reader.Tensors and
// ptd.Reader.Tensors. All other bytes of the program stay; tensors that share their bytes
// change together.
//
// It fails with tensor.ErrNoTensor for a name that neither file has, and with
// tensor.ErrDType for another dtype, shape or order than the tensor has, before anything
// is written. A .pte or .bpte and a .ptd in the same directory are replaced together, as
// a set; otherwise the data is replaced first.
func SetWeights(ctx context.Context, program, data string,
	weights map[string]*tensor.Tensor) error {
	p, err := pte.Open(program, nil)
	if err != nil {
		return err
	}
	defer p.Close()
	edits := []weightsEdit{{name: program}, {name: data}}
	inside := pte.NewEdit(p)
	inside.AllowShared = true
	edits[0].write = func(w io.Writer) error { return inside.Write(ctx, w, nil) }
	var outside *ptd.Edit
	var d *ptd.Reader
	if data != "" {
		if d, err = ptd.Open(data, nil); err != nil {
			return err
		}
		defer d.Close()
		outside = ptd.NewEdit(d)
		opts := &ptd.WriterOptions{SegmentAlignment: d.Alignment()}
		edits[1].write = func(w io.Writer) error { return outside.Write(ctx, w, opts) }
	}
	for _, name := range slices.Sorted(maps.Keys(weights)) {
		t := weights[name]
		if x := p.Tensor(name); x != nil && !x.External {
			err = inside.Replace(name, t)
			edits[0].changed = true
		} else {
			err = setExternal(outside, d, name, t)
			edits[1].changed = true
		}
		if err != nil {
			return err
		}
	}
	return replaceTogether(slices.DeleteFunc(edits,
		func(e weightsEdit) bool { return !e.changed }))
}

// setExternal replaces a tensor of a .ptd by one of the same layout.
func setExternal(e *ptd.Edit, d *ptd.Reader, name string, t *tensor.Tensor) error {
	if e == nil {
		return fmt.Errorf("convert: %w: %s is not in the program", tensor.ErrNoTensor,
			naming.Quote(name))
	}
	old := d.Tensor(name)
	if old == nil {
		return fmt.Errorf("convert: %w: neither file has %s", tensor.ErrNoTensor,
			naming.Quote(name))
	}
	if t == nil || t.External || !t.Dense() {
		return fmt.Errorf("convert: %w: no dense data for %s", tensor.ErrNoView,
			naming.Quote(name))
	}
	if t.DType != old.DType || !t.Shape.Equal(old.Shape) || !t.Order.Equal(old.Order) {
		return fmt.Errorf("convert: %w: %s is %v %v, order %v, not %v %v, order %v",
			tensor.ErrDType, naming.Quote(name),
			old.DType, old.Shape, []int(old.Order), t.DType, t.Shape, []int(t.Order))
	}
	return e.Replace(name, t)
}

// A weightsEdit is a file with new weights.
type weightsEdit struct {
	name    string
	changed bool
	write   func(io.Writer) error
}

// replaceTogether replaces files, the program first in the list.
func replaceTogether(edits []weightsEdit) error {
	if len(edits) == 0 {
		return nil
	}
	if len(edits) == 1 || filepath.Dir(edits[0].name) != filepath.Dir(edits[1].name) ||
		!atomicfile.InSet(filepath.Base(edits[0].name), filepath.Base(edits[1].name)) {
		for _, e := range slices.Backward(edits) {
			if err := atomicfile.Write(e.name, e.write); err != nil {
				return err
			}
		}
		return nil
	}
	set, err := atomicfile.NewSet(edits[0].name)
	if err != nil {
		return err
	}
	defer set.Abort()
	for _, e := range slices.Backward(edits) {
		f, err := set.Create(filepath.Base(e.name))
		if err != nil {
			return err
		}
		if err := e.write(f); err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return set.Commit()
}
