package rten

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/bits"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/tensor"
)

// WriterOptions control how a model is written. nil is the zero value, which
// lays a file out as the official converter does.
type WriterOptions struct {
	// Version is "2", or "1" for a bare flatbuffer of less than 2 GiB with all
	// weights in it, which RTen before 0.11 needs. "" is "2", and in an [Edit] the
	// version of the file that is changed.
	Version string
	// Alignment is where in the file the tensors of version 2 begin: at multiples of this
	// power of two. 0 is 64, and in an [Edit] leaves tensors where they are.
	Alignment int64
	// InlineElements is the most elements of a constant that version 2 keeps in
	// the model. 0 is 16; negative keeps none there. A version 1 file with content
	// that is newer than this library cannot be taken apart: as version 2 it keeps
	// all constants in the model, where RTen reads them too, and it does not become
	// version 1 again.
	InlineElements int
	// Unlimited writes models of more than a million tables, which RTen refuses
	// to load.
	Unlimited bool
}

// Check returns an error for options that no file can be written with.
func (o *WriterOptions) Check() error {
	_, err := o.withDefaults()
	return err
}

// withDefaults checks the options.
func (o *WriterOptions) withDefaults() (WriterOptions, error) {
	var out WriterOptions
	if o != nil {
		out = *o
	}
	switch {
	case out.Version != "" && out.Version != "1" && out.Version != "2":
		return out, errorf(errors.ErrUnsupported, "version %q; there are 1 and 2", out.Version)
	case out.Alignment != 0 && (out.Alignment < 4 || out.Alignment > 1<<30 ||
		bits.OnesCount64(uint64(out.Alignment)) != 1):
		return out, fmt.Errorf("rten: alignment %d is not a power of two from 4 to 2^30",
			out.Alignment)
	}
	out.Version = cmp.Or(out.Version, "2")
	out.Alignment = cmp.Or(out.Alignment, 64)
	out.InlineElements = cmp.Or(out.InlineElements, 16)
	return out, nil
}

// WriteFile writes the model that g has assembled, or reports what went wrong while it
// was. The file appears whole, or not at all.
func (g *GraphBuilder) WriteFile(ctx context.Context, name string, opts *WriterOptions) error {
	return atomicfile.Write(name, func(w io.Writer) error { return g.Write(ctx, w, opts) })
}

// Write writes the model that g has assembled to w, from the start to the end, or
// reports what went wrong while it was, and what Verify would report of the model. The
// bytes depend on nothing but the model and the options.
func (g *GraphBuilder) Write(ctx context.Context, w io.Writer, opts *WriterOptions) error {
	l, err := g.layout(ctx, opts)
	if err != nil {
		return err
	}
	return l.write(ctx, w)
}

func (g *GraphBuilder) layout(ctx context.Context, opts *WriterOptions) (*layout, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	if g.up != nil {
		return nil, errorf(fs.ErrInvalid, "a model is written from its top graph")
	}
	g.finish()
	if err := g.Err(); err != nil {
		return nil, err
	}
	if err := g.kept.Check(); err != nil {
		return nil, fmt.Errorf("rten: %w", err)
	}
	if err := g.verify(ctx, o); err != nil {
		return nil, err
	}
	return g.encode(o)
}

func (g *GraphBuilder) encode(o WriterOptions) (*layout, error) {
	e := newEncoder(o)
	e.placeGraph(g)
	metadata := e.metadata(g.metadata)
	return e.finish(e.model(e.graph(g), metadata))
}

// A layout is a file as pieces in ascending order; between them are zeros.
type layout struct {
	pieces []format.Section
	size   int64
}

// version2Layout puts a header before the model's pieces, which begin at 0, and
// the tensor data after it. Pieces may be empty.
func version2Layout(model []format.Section, modelSize int64, external []format.Section,
	externalSize,
	alignment int64) (*layout, error) {
	h := Header{ModelOffset: headerSize, ModelSize: modelSize}
	l := new(layout)
	var ok bool
	if h.TensorOffset, ok = align.Up(headerSize+modelSize, max(alignment, 64)); ok {
		l.size, ok = align.Add(h.TensorOffset, externalSize)
	}
	if !ok {
		return nil, errorf(tensor.ErrLimit, "more than 2^63 bytes")
	}
	l.add(0, h.piece())
	l.add(headerSize, model...)
	l.add(h.TensorOffset, external...)
	return l, nil
}

// add appends pieces whose offsets count from base.
func (l *layout) add(base int64, list ...format.Section) {
	for _, p := range list {
		p.Off += base
		l.pieces = append(l.pieces, p)
	}
}

func (l *layout) write(ctx context.Context, w io.Writer) error {
	if err := format.WriteTo(ctx, w, func(out *format.Output) error {
		return format.WriteSections(out, nil, l.pieces, l.size)
	}); err != nil {
		return fmt.Errorf("rten: %w", err)
	}
	return nil
}
