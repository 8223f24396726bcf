package pte

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// A Builder assembles a program that ExecuTorch's runtime loads and runs. Its methods do
// not fail: the first thing that is wrong comes out of Write or WriteFile. It is for one
// goroutine at a time. It holds on to the tensors and blobs that it is given, whose bytes
// are read when the program is written.
type Builder struct {
	methods []*MethodBuilder
	named   []namedBlob
	taken   map[takenName]struct{}
	err     error
	steps   int // look-ups and comparisons of names, counted for tests
}

// A takenName is the name of a method or the key of a named blob.
type takenName struct {
	blob bool
	name string
}

// take reserves a name, and reports whether it was free.
func (b *Builder) take(n takenName) bool {
	b.steps++
	if _, ok := b.taken[n]; ok {
		return false
	}
	if b.taken == nil {
		b.taken = make(map[takenName]struct{})
	}
	b.taken[n] = struct{}{}
	return true
}

type namedBlob struct {
	key   string
	data  tensor.Blob
	align int64
}

// NewBuilder begins a program without methods.
func NewBuilder() *Builder { return new(Builder) }

// fail keeps the first error.
func (b *Builder) fail(format string, args ...any) {
	if b.err == nil {
		b.err = fmt.Errorf("pte: "+format, args...)
	}
}

// Err is the first thing that was wrong, which Write will return.
func (b *Builder) Err() error { return b.err }

// Method adds a method. The runtime loads it by its name; applications expect forward.
func (b *Builder) Method(name string) *MethodBuilder {
	if name == "" || strings.ContainsRune(name, 0) {
		b.fail("method: %s is not a name", quote.Name(name))
	}
	if !b.take(takenName{name: name}) {
		b.fail("duplicate method %s", quote.Name(name))
	}
	m := &MethodBuilder{b: b, name: name, operators: make(map[string]int32)}
	b.methods = append(b.methods, m)
	return m
}

// Metadata adds a constant getter: a method that returns values and does nothing. Values
// are int, int64, bool, float64, string, nil, or a *tensor.Tensor.
func (b *Builder) Metadata(name string, values ...any) {
	m := b.Method(name)
	refs := make([]Ref, len(values))
	for i, v := range values {
		switch v := v.(type) {
		case int:
			refs[i] = m.Int(int64(v))
		case int64:
			refs[i] = m.Int(v)
		case bool:
			refs[i] = m.Bool(v)
		case float64:
			refs[i] = m.Double(v)
		case string:
			refs[i] = m.String(v)
		case nil:
			refs[i] = m.Null()
		case *tensor.Tensor:
			refs[i] = m.Constant(v)
		default:
			b.fail("metadata %s: a %T is not a value of a program", quote.Name(name), v)
			return
		}
	}
	m.Return(refs...)
}

// Named adds a blob that delegates find by its key. align is its alignment in the file, 0
// for none.
func (b *Builder) Named(key string, data tensor.Blob, align int64) {
	switch {
	case strings.ContainsRune(key, 0):
		b.fail("named data: the key %s has a zero byte", quote.Name(key))
	case align < 0:
		b.fail("named data %s: alignment %d", quote.Name(key), align)
	case data.Size() < 0:
		b.fail("named data %s: the size is not known", quote.Name(key))
	}
	if !b.take(takenName{blob: true, name: key}) {
		b.fail("duplicate named data %s", quote.Name(key))
	}
	b.named = append(b.named, namedBlob{key, data, max(align, 1)})
}

// Write writes the program. It never seeks.
func (b *Builder) Write(w io.Writer, opts *WriterOptions) error {
	o, err := b.output(opts)
	if err != nil {
		return err
	}
	return o.writeTo(context.Background(), w)
}

// WriteFile writes the program into a file, which appears whole or not at all.
func (b *Builder) WriteFile(name string, opts *WriterOptions) error {
	o, err := b.output(opts)
	if err != nil {
		return err
	}
	return o.writeFile(context.Background(), name)
}

// output makes the flatbuffer and lays out the payloads. It reads none of them, but for
// DedupSHA256 and inline ones.
func (b *Builder) output(opts *WriterOptions) (*output, error) {
	if opts == nil {
		opts = new(WriterOptions)
	}
	segmentAlign, tensorAlign, err := opts.alignments()
	if err != nil {
		return nil, err
	}
	if b.err != nil {
		return nil, b.err
	}
	if len(b.methods) == 0 {
		return nil, errors.New("pte: a program without methods")
	}
	d := &draft{tree: new(fb.Node), added: make(map[*fb.Node]*tensor.Tensor),
		dedup: opts.Dedup, inner: defaultTensorAlignment}
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
	if err := b.payloads(d, opts.InlineDelegates); err != nil {
		return nil, err
	}
	o, err := d.finish(segmentAlign)
	if err != nil {
		return nil, err
	}
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("pte: the program would not load: %w", err)
	}
	return o, nil
}

// payloads stores the payloads of delegates and the named data.
func (b *Builder) payloads(d *draft, inline bool) error {
	var inlined []tensor.Blob
	inside, delegates := store{dedup: d.dedup}, store{dedup: d.dedup}
	for _, m := range b.methods {
		for i, x := range m.delegates {
			location, at, shared := ptefb.DataLocationSEGMENT, 0, false
			var err error
			if inline || x.payload.Size() == 0 { // an empty payload stays inside, as in the exporter
				location = ptefb.DataLocationINLINE
				if at, shared, err = inside.share(x.payload, len(inlined)); !shared {
					inlined = append(inlined, x.payload)
				}
			} else {
				at, err = d.addSegment(&delegates, delegateName(m.name, i), x.payload, 1)
			}
			if err != nil {
				return err
			}
			x.node.SetChild(ptefb.SlotBackendDelegateProcessed, new(fb.Node).
				SetNumber(ptefb.SlotBackendDelegateDataReferenceIndex, 4, uint64(at)).
				SetNumber(ptefb.SlotBackendDelegateDataReferenceLocation, 1, uint64(location)))
		}
	}
	named, keys := store{dedup: d.dedup}, []*fb.Node(nil)
	for _, n := range b.named {
		at, err := d.addSegment(&named, blobPrefix+n.key, n.data, n.align)
		if err != nil {
			return err
		}
		keys = append(keys, new(fb.Node).SetString(ptefb.SlotNamedDataKey, n.key).
			SetNumber(ptefb.SlotNamedDataSegmentIndex, 4, uint64(at)))
	}
	if len(keys) > 0 {
		d.tree.SetChildren(ptefb.SlotProgramNamedData, keys)
	}
	data, total := make([]*fb.Node, len(inlined)), int64(0)
	for i, p := range inlined {
		if total += p.Size(); total < 0 || total > math.MaxInt32 {
			return fmt.Errorf("pte: %w: inline payloads do not fit the 2 GiB of a flatbuffer",
				tensor.ErrLimit)
		}
		var w bytes.Buffer // not ReadAll: the stream checks a digest
		if _, err := p.WriteTo(&w); err != nil {
			return err
		}
		data[i] = new(fb.Node).SetBytes(ptefb.SlotBackendDelegateInlineDataData, w.Bytes(),
			ptefb.AlignBackendDelegateInlineDataData)
	}
	d.tree.SetChildren(ptefb.SlotProgramBackendDelegateData, data)
	return nil
}
