package convert

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"slices"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/primitiv"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// writerOptions returns a copy of Options.Writer if it is of the type *O, else the zero
// value.
func writerOptions[O any](p *Plan) O {
	if o, ok := p.opts.Writer.(*O); ok && o != nil {
		return *o
	}
	return *new(O)
}

// writer returns a writer of the target with the attributes of the sources.
func (p *Plan) writer(w io.Writer) (tensorfile.Writer, error) {
	if p.row.writer != nil {
		return p.row.writer(p, w)
	}
	return p.writerWith(w, p.opts.Writer)
}

// writerWith returns a writer of the target with options of the package of the format.
func (p *Plan) writerWith(w io.Writer, opts any) (tensorfile.Writer, error) {
	return tensorfile.NewWriter(w, p.target, &tensorfile.WriterOptions{Sys: opts})
}

// addBlob adds named bytes that are not a tensor.
func addBlob(w tensorfile.Writer, name string, data tensor.Blob) error {
	b, ok := w.(interface {
		AddBlob(name string, data tensor.Blob) error
	})
	if !ok {
		return errors.ErrUnsupported
	}
	return b.AddBlob(name, data)
}

func safetensorsWriter(p *Plan, w io.Writer) (tensorfile.Writer, error) {
	return p.writerWith(w, p.safetensorsOptions())
}

func ggufWriter(p *Plan, w io.Writer) (tensorfile.Writer, error) {
	o := writerOptions[gguf.WriterOptions](p)
	if o.Metadata == nil {
		for _, a := range p.attributes {
			o.Metadata = append(o.Metadata, gguf.KeyValue{Key: a.key, Value: a.value.(gguf.Value)})
		}
	}
	return p.writerWith(w, &o)
}

// primitivWriter returns a writer of the kind of the source.
func primitivWriter(p *Plan, w io.Writer) (tensorfile.Writer, error) {
	o := writerOptions[primitiv.WriterOptions](p)
	o.Kind = cmp.Or(p.kind, o.Kind)
	return p.writerWith(w, &o)
}

// safetensorsOptions returns the options of the writer, with the attributes of the
// sources.
func (p *Plan) safetensorsOptions() *safetensors.WriterOptions {
	o := writerOptions[safetensors.WriterOptions](p)
	if o.Attributes == nil && len(p.attributes) > 0 {
		o.Attributes = map[string]string{}
		for _, a := range p.attributes {
			o.Attributes[a.key] = a.text
		}
	}
	if _, given := o.Attributes[formatKey]; !given && p.fromCheckpoint() {
		o.Attributes = maps.Clone(o.Attributes)
		if o.Attributes == nil {
			o.Attributes = map[string]string{}
		}
		o.Attributes[formatKey] = "pt"
	}
	return &o
}

// fromCheckpoint reports whether a source is a checkpoint of PyTorch.
func (p *Plan) fromCheckpoint() bool {
	return slices.ContainsFunc(p.files,
		func(f *tensorfile.File) bool { return f.Format() == tensorfile.Torch })
}

// add adds the tensors, or the content of a file of primitiv that is not a model.
func (p *Plan) add(ctx context.Context, w tensorfile.Writer) error {
	if p.kind == 0 {
		if w, ok := w.(*ptd.Writer); ok {
			return p.addEntries(ctx, w)
		}
		return w.AddAll(ctx, p.tensors(ctx))
	}
	switch r := p.files[0].Sys().(*primitiv.Reader); p.kind {
	case primitiv.KindShape:
		return w.(*primitiv.Writer).SetShape(r.Shape())
	case primitiv.KindOptimizer:
		return w.(*primitiv.Writer).SetOptimizer(r.Optimizer())
	case primitiv.KindParameter:
		return w.(*primitiv.Writer).AddParameter(r.Parameter())
	}
	return w.AddAll(ctx, p.tensors(ctx))
}

// addEntries adds the tensors as entries, whose keys may be empty in a .ptd.
func (p *Plan) addEntries(ctx context.Context, w *ptd.Writer) error {
	for t, err := range p.tensors(ctx) {
		if err != nil {
			return err
		}
		e, err := entryOf(t)
		if err == nil {
			err = w.AddEntry(e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ztensorVersion returns the version that Options.Writer asks for, else the version of a
// source that is written.
func ztensorVersion(p *Plan, src *tensorfile.File) string {
	v := writerOptions[ztensor.WriterOptions](p).Version
	if was := src.Version(); v == "" && src.Format() == p.target &&
		slices.Contains(p.target.Writes(), was) {
		v = was
	}
	return cmp.Or(v, ztensor.Version2)
}

// ztensorWriter returns a writer with the typed attributes of the file and of its
// tensors.
func ztensorWriter(p *Plan, w io.Writer) (tensorfile.Writer, error) {
	o := writerOptions[ztensor.WriterOptions](p)
	keep := p.checker.(*ztensorChecker).keepOrder
	o.Version, o.KeepOrder, o.Canonical = p.version, o.KeepOrder || keep, o.Canonical && !keep
	if o.Attributes == nil {
		o.Attributes = map[string]any{}
		for _, a := range p.attributes {
			o.Attributes[a.key] = a.value
		}
	}
	out, err := p.writerWith(w, o.WholeFile())
	if err != nil {
		return nil, err
	}
	for i := range p.items {
		if it := &p.items[i]; len(it.own) > 0 {
			if err := out.(*ztensor.Writer).TensorAttributes(it.t.Name, it.own); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}
