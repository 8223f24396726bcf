package pte

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// A Builder assembles a program that ExecuTorch's runtime loads and runs. Its methods
// return no errors: Write, WriteFile and Err return the first one. It is not safe for
// concurrent use. The bytes of tensors and blobs are read when the program is written, so
// they must stay readable and unchanged until then.
type Builder struct {
	methods   []*MethodBuilder
	named     []namedBlob
	names     map[string]bool // of methods
	keys      map[string]bool // of named blobs
	checksums format.Checksums
	err       error
}

type namedBlob struct {
	key   string
	data  tensor.Blob
	align int64
}

// NewBuilder begins a program without methods.
func NewBuilder() *Builder {
	return &Builder{names: make(map[string]bool), keys: make(map[string]bool)}
}

// fail records an error, if it is the first one.
func (b *Builder) fail(class error, format string, args ...any) {
	if b.err == nil {
		b.err = errs.New(class, format, args...)
	}
}

// Err returns the first error so far, which Write will return.
func (b *Builder) Err() error { return b.err }

// Method adds a method. The runtime loads it by its name; applications expect forward.
func (b *Builder) Method(name string) *MethodBuilder {
	if err := checkName(name); err != nil {
		b.fail(err, "method %s", naming.Quote(name))
	}
	if b.names[name] {
		b.fail(tensor.ErrDuplicate, "method %s", naming.Quote(name))
	}
	b.names[name] = true
	m := &MethodBuilder{b: b, name: name, operators: make(map[string]int32)}
	b.methods = append(b.methods, m)
	return m
}

// Metadata adds a constant getter: a method that only returns stored values. Each value
// is a *tensor.Tensor or has a type that [MethodBuilder.Value] takes.
func (b *Builder) Metadata(name string, values ...any) {
	m := b.Method(name)
	refs := make([]Ref, len(values))
	for i, v := range values {
		if t, ok := v.(*tensor.Tensor); ok {
			refs[i] = m.Constant(t)
		} else {
			refs[i] = m.Value(v)
		}
	}
	m.Return(refs...)
}

// Named adds a blob that delegates find by its key. align is its alignment in the file in
// bytes, 0 for none.
func (b *Builder) Named(key string, data tensor.Blob, align int64) {
	if err := checkKey(key); err != nil {
		b.fail(err, "named data %s", naming.Quote(key))
	}
	switch {
	case align < 0:
		b.fail(fs.ErrInvalid, "named data %s: alignment %d", naming.Quote(key), align)
	case data.Size() < 0:
		b.fail(errors.ErrUnsupported, "named data %s: the size is not known", naming.Quote(key))
	}
	if b.keys[key] {
		b.fail(tensor.ErrDuplicate, "named data %s", naming.Quote(key))
	}
	b.keys[key] = true
	b.checksums.Add(key, data)
	b.named = append(b.named, namedBlob{key, data, max(align, 1)})
}

// Write writes the program to w, without seeking. It fails with the first error of the
// Builder, with tensor.ErrChecksum if memory has changed since it was given, and if
// [Reader.Verify] would find an error or a warning in the program.
func (b *Builder) Write(ctx context.Context, w io.Writer, opts *WriterOptions) error {
	return format.Encode(ctx, w, opts.encoding(b.output))
}

// WriteFile writes as Write does, into a file, which appears whole or not at all.
func (b *Builder) WriteFile(ctx context.Context, name string, opts *WriterOptions) error {
	return format.EncodeFile(ctx, name, opts.encoding(b.output))
}

// output makes the flatbuffer, places the payloads, and checks that the runtime would
// load the result.
func (b *Builder) output(opts WriterOptions) (*output, error) {
	segmentAlign, tensorAlign, _ := opts.alignments()
	err := cmp.Or(b.err, errs.Wrap(-1, "", b.checksums.Check()))
	if err == nil && len(b.methods) == 0 {
		err = errs.New(fs.ErrInvalid, "a program without methods")
	}
	if err != nil {
		return nil, err
	}
	d := &draft{tree: new(fb.Node), vectorAlignment: defaultTensorAlignment}
	plans := make([]*fb.Node, len(b.methods))
	for i, m := range b.methods {
		if plans[i], err = m.node(d); err != nil {
			return nil, err
		}
	}
	d.tree.SetChildren(ptefb.SlotProgramExecutionPlan, plans)
	d.tree.SetChildren(ptefb.SlotProgramConstantBuffer, nil)
	if err := d.putLists(tensorAlign); err != nil {
		return nil, err
	}
	if err := b.payloads(d); err != nil {
		return nil, err
	}
	o, err := d.finish(segmentAlign)
	if err != nil {
		return nil, err
	}
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("pte: the program would not load, or not run: %w", err)
	}
	return o, nil
}

// payloads stores the payloads of delegates and the named data.
func (b *Builder) payloads(d *draft) error {
	inline := []*fb.Node{} // only empty payloads are inline, as in ExecuTorch's exporter
	delegates, named := make(store), make(store)
	for _, m := range b.methods {
		for i, x := range m.delegates {
			location, at := ptefb.DataLocationINLINE, len(inline)
			if x.payload.Size() == 0 {
				const slot = ptefb.SlotBackendDelegateInlineDataData
				inline = append(inline, new(fb.Node).SetBytes(slot, nil,
					ptefb.AlignBackendDelegateInlineDataData))
			} else {
				var err error
				at, err = d.addSegment(delegates, delegateName(m.name, i), x.payload, 1)
				if location = ptefb.DataLocationSEGMENT; err != nil {
					return err
				}
			}
			x.node.SetChild(ptefb.SlotBackendDelegateProcessed, new(fb.Node).
				SetNumber(ptefb.SlotBackendDelegateDataReferenceIndex, 4, uint64(at)).
				SetNumber(ptefb.SlotBackendDelegateDataReferenceLocation, 1, uint64(location)))
		}
	}
	d.tree.SetChildren(ptefb.SlotProgramBackendDelegateData, inline)
	var keys []*fb.Node
	for _, n := range b.named {
		at, err := d.addSegment(named, blobPrefix+n.key, n.data, n.align)
		if err != nil {
			return err
		}
		keys = append(keys, new(fb.Node).SetString(ptefb.SlotNamedDataKey, n.key).
			SetNumber(ptefb.SlotNamedDataSegmentIndex, 4, uint64(at)))
	}
	if len(keys) > 0 {
		d.tree.SetChildren(ptefb.SlotProgramNamedData, keys)
	}
	return nil
}
