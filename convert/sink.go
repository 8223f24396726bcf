package convert

import (
	"context"
	"errors"
	"io"
	"iter"
	"maps"
	"slices"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/npy"
	"github.com/tensorfile/tensorfile/npz"
	"github.com/tensorfile/tensorfile/primitiv"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/rten"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// addAll is the AddAll of a writer.
type addAll func(context.Context, iter.Seq2[*tensor.Tensor, error]) error

// A sink is a target's writer.
type sink struct {
	addAll  addAll
	addBlob func(string, tensor.Blob) error
	close   func() error
	abort   func()
}

func noBlobs(string, tensor.Blob) error { return errors.ErrUnsupported }

// each returns the addAll of a writer that adds one tensor at a time.
func each(add func(*tensor.Tensor) error) addAll {
	return func(_ context.Context, ts iter.Seq2[*tensor.Tensor, error]) error {
		for t, err := range ts {
			if err == nil {
				err = add(t)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// instead returns an addAll that does something else than to add tensors.
func instead(do func() error) addAll {
	return func(context.Context, iter.Seq2[*tensor.Tensor, error]) error { return do() }
}

func (p *Plan) sink(ctx context.Context, w io.Writer) (*sink, error) {
	switch p.target {
	case tensorfile.PTD:
		pw := ptd.NewWriter(w, p.opts.PTD)
		add := func(t *tensor.Tensor) error {
			e, err := entryOf(t)
			if err != nil {
				return err
			}
			return pw.AddEntry(e)
		}
		addBlob := func(name string, data tensor.Blob) error {
			return pw.AddEntry(ptd.Entry{Name: name, Data: data})
		}
		return &sink{each(add), addBlob, pw.Close, pw.Abort}, nil
	case tensorfile.Safetensors:
		sw := safetensors.NewWriter(w, p.safetensorsOptions())
		return &sink{sw.AddAll, noBlobs, sw.Close, sw.Abort}, nil
	case tensorfile.NPZ:
		nw := npz.NewWriter(w, p.opts.NPZ)
		return &sink{nw.AddAll, noBlobs, nw.Close, nw.Abort}, nil
	case tensorfile.GGUF:
		o := orZero(p.opts.GGUF)
		if o.Metadata == nil {
			for _, a := range p.attributes {
				o.Metadata = append(o.Metadata, gguf.KeyValue{Key: a.key,
					Value: a.value.(gguf.Value)})
			}
		}
		gw := gguf.NewWriter(w, &o)
		return &sink{gw.AddAll, noBlobs, gw.Close, gw.Abort}, nil
	case tensorfile.NPY:
		nw := npy.NewWriter(w, nil)
		return &sink{nw.AddAll, noBlobs, nw.Close, nw.Abort}, nil
	case tensorfile.Primitiv:
		return p.primitivSink(w)
	case tensorfile.RTen:
		g := rten.NewGraphBuilder()
		add := func(t *tensor.Tensor) error {
			g.Constant(t)
			return g.Err()
		}
		return &sink{each(add), noBlobs, func() error { return g.Write(ctx, w, p.opts.RTen) },
			func() {}}, nil
	case tensorfile.ZTensor:
		return p.ztensorSink(w)
	}
	return nil, errors.ErrUnsupported
}

// safetensorsOptions are those of the writer, with the attributes of the sources.
func (p *Plan) safetensorsOptions() *safetensors.WriterOptions {
	o := orZero(p.opts.Safetensors)
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

// primitivSink keeps the kind of a file that comes from primitiv and is no model.
func (p *Plan) primitivSink(w io.Writer) (*sink, error) {
	o := orZero(p.opts.Primitiv)
	if p.kind == 0 {
		pw := primitiv.NewWriter(w, &o)
		return &sink{pw.AddAll, noBlobs, pw.Close, pw.Abort}, nil
	}
	o.Kind = p.kind
	pw := primitiv.NewWriter(w, &o)
	r := p.files[0].Sys().(*primitiv.Reader)
	add := addAll(pw.AddAll)
	switch p.kind {
	case primitiv.KindShape:
		add = instead(func() error { return pw.SetShape(r.Shape()) })
	case primitiv.KindOptimizer:
		add = instead(func() error { return pw.SetOptimizer(r.Optimizer()) })
	case primitiv.KindParameter:
		add = instead(func() error { return pw.AddParameter(r.Parameter()) })
	}
	return &sink{add, noBlobs, pw.Close, pw.Abort}, nil
}

// ztensorSink keeps typed attributes, of the file and of its tensors, between
// files of the format.
func (p *Plan) ztensorSink(w io.Writer) (*sink, error) {
	o := orZero(p.opts.ZTensor)
	keep := p.checker.keepOrder
	o.Version, o.KeepOrder, o.Canonical = p.version, o.KeepOrder || keep, o.Canonical && !keep
	if o.Attributes == nil {
		o.Attributes = map[string]any{}
		for _, a := range p.attributes {
			o.Attributes[a.key] = a.value
		}
	}
	zw := ztensor.NewWriter(w, o.WholeFile())
	for i := range p.items {
		if it := &p.items[i]; len(it.own) > 0 {
			if err := zw.TensorAttributes(it.t.Name, it.own); err != nil {
				return nil, err
			}
		}
	}
	return &sink{zw.AddAll, noBlobs, zw.Close, zw.Abort}, nil
}
