package convert

import (
	"context"
	"errors"
	"io"
	"iter"
	"slices"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/bridge/npy"
	"github.com/tensorfile/tensorfile/bridge/npz"
	"github.com/tensorfile/tensorfile/bridge/safetensors"
	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/primitiv"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/rten"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// WriteFile carries the plan out into a file, which appears whole or not at all.
// An existing one is replaced.
func (p *Plan) WriteFile(ctx context.Context, name string) error {
	if err := p.Err(); err != nil {
		return err
	}
	f, err := atomicfile.Create(name)
	if err != nil {
		return err
	}
	defer f.Abort()
	f.Reserve(p.size())
	if err := p.Write(ctx, f); err != nil {
		return err
	}
	return f.Close()
}

// Write carries the plan out into w, which it neither seeks nor closes. It fails
// with a *LossError, before it writes anything, while a loss is not allowed.
// After another error w has part of a file. Digests of the source are checked
// while it writes; when one is wrong, Write fails, but w already has the bytes.
// It ends soon after ctx does.
func (p *Plan) Write(ctx context.Context, w io.Writer) error {
	if err := p.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p.running = ctx
	defer func() { p.running = nil }()
	out := &steady{ctx: ctx, w: w, total: p.size(), progress: p.opts.Progress}
	err := p.write(ctx, out)
	// What made ctx end is the reason; that something was cancelled is not.
	if cause := context.Cause(ctx); cause != nil && (err == nil || errors.Is(err, context.Canceled)) {
		err = cause
	}
	return fromSource(err)
}

// fromSource is what the source says of its bytes, with their place or their
// tensor, without the words of the writer that met it: it would name the tensor
// once more.
func fromSource(err error) error {
	var sparse *sparseError
	if errors.As(err, &sparse) {
		err = sparse.error
	}
	var placed *tensor.FormatError
	for inner := err; errors.As(inner, &placed); inner = placed.Err {
		err = placed // the writer of safetensors, too, gives errors a place
	}
	return err
}

func (p *Plan) write(ctx context.Context, w io.Writer) error {
	s, err := p.sink(w)
	if err != nil {
		return err
	}
	if s.addAll != nil {
		if err := s.addAll(ctx, tensor.Of(p.tensors...)); err != nil {
			s.abort()
			return err
		}
	} else {
		for _, t := range p.tensors {
			if err := s.add(t); err != nil {
				s.abort()
				return err
			}
		}
	}
	for _, b := range p.blobs {
		if err := s.addBlob(b.name, b.data); err != nil {
			s.abort()
			return err
		}
	}
	return s.close()
}

// steady passes on what it is given in pieces of at most 1 MiB, and stops when
// ctx ends.
type steady struct {
	ctx         context.Context
	w           io.Writer
	done, total int64
	progress    func(done, total int64)
}

func (s *steady) Write(p []byte) (n int, err error) {
	for {
		if err := context.Cause(s.ctx); err != nil {
			return n, err
		}
		piece := p[n:min(len(p), n+1<<20)]
		k, err := s.w.Write(piece)
		n += k
		s.done += int64(k)
		if err == nil && k < len(piece) {
			err = io.ErrShortWrite
		}
		if err != nil {
			return n, err
		}
		if s.progress != nil {
			s.progress(s.done, max(s.done, s.total))
		}
		if n == len(p) {
			return n, nil
		}
	}
}

// A sink is a target's writer.
type sink struct {
	notes   bool // add takes notes only, close writes
	add     func(*tensor.Tensor) error
	addAll  func(context.Context, iter.Seq2[*tensor.Tensor, error]) error // nil: add each
	addBlob func(string, tensor.Blob) error
	close   func() error
	abort   func()
}

func noBlobs(string, tensor.Blob) error { return errors.ErrUnsupported }

// orZero is what p points to.
func orZero[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func (p *Plan) sink(w io.Writer) (*sink, error) {
	switch p.target {
	case tensorfile.PTD:
		pw := ptd.NewWriter(w, p.opts.PTD)
		add := func(t *tensor.Tensor) error {
			if t.Name != "" { // or a .ptd has it so
				return pw.Add(t)
			}
			l, err := ptd.LayoutOf(t)
			if err != nil {
				return err
			}
			return pw.AddEntry(ptd.Entry{Layout: l, Data: t.Data})
		}
		addBlob := func(name string, data tensor.Blob) error { return pw.AddEntry(ptd.Entry{Name: name, Data: data}) }
		return &sink{notes: true, add: add, addBlob: addBlob, close: pw.Close, abort: pw.Abort}, nil
	case tensorfile.Safetensors:
		o := orZero(p.opts.Safetensors)
		if o.Metadata == nil && len(p.attributes) > 0 {
			o.Metadata = map[string]string{}
			for _, kv := range p.attributes {
				o.Metadata[kv[0]] = kv[1]
			}
		}
		sw := safetensors.NewWriter(w, &o)
		return &sink{notes: true, add: sw.Add, addBlob: noBlobs, close: sw.Close, abort: sw.Abort}, nil
	case tensorfile.NPZ:
		nw := npz.NewWriter(w, p.opts.NPZ)
		return &sink{add: nw.Add, addBlob: noBlobs, close: nw.Close, abort: nw.Abort}, nil
	case tensorfile.NPY:
		nw := npy.NewWriter(w, nil)
		return &sink{add: nw.Add, addBlob: noBlobs, close: nw.Close, abort: nw.Abort}, nil
	case tensorfile.Primitiv:
		pw := primitiv.NewWriter(w, p.opts.Primitiv)
		return &sink{notes: !orZero(p.opts.Primitiv).Streaming, add: pw.Add, addBlob: noBlobs, close: pw.Close, abort: pw.Abort}, nil
	case tensorfile.RTen:
		g := rten.NewGraphBuilder()
		add := func(t *tensor.Tensor) error {
			if err := g.Err(); err != nil {
				return err
			}
			g.Constant(t)
			return g.Err()
		}
		return &sink{notes: true, add: add, addBlob: noBlobs, close: func() error { return g.Write(p.context(), w, p.opts.RTen) }, abort: func() {}}, nil
	case tensorfile.ZTensor:
		return p.ztensorSink(w)
	}
	return nil, errors.ErrUnsupported
}

// ztensorSink keeps typed attributes, of the file and of its tensors, between
// files of the format.
func (p *Plan) ztensorSink(w io.Writer) (*sink, error) {
	o := orZero(p.opts.ZTensor)
	o.Version, o.KeepOrder, o.Canonical = p.version, o.KeepOrder || p.keepOrder, o.Canonical && !p.keepOrder
	if o.Attributes == nil {
		o.Attributes = map[string]any{}
		for _, kv := range p.attributes {
			o.Attributes[kv[0]] = kv[1]
		}
		if p.typed() {
			for _, f := range slices.Backward(p.files) { // the first that has a key wins
				if z, ok := f.Sys().(*ztensor.Reader); ok {
					for k, v := range z.AttributeValues() {
						if _, kept := p.keys[k]; kept {
							o.Attributes[k] = v
						}
					}
				}
			}
		}
	}
	zw := ztensor.NewWriter(w, o.WholeFile())
	for i, owner := range p.owners {
		if own := p.ownAttributes(p.sources[i], owner, p.own[i]); len(own) > 0 {
			if err := zw.TensorAttributes(p.tensors[i].Name, own); err != nil {
				return nil, err
			}
		}
	}
	return &sink{add: zw.Add, addAll: zw.AddAll,
		addBlob: noBlobs, close: zw.Close, abort: zw.Abort}, nil
}
