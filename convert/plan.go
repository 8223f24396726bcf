package convert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/onnx"
	"github.com/tensorfile/tensorfile/primitiv"
	"github.com/tensorfile/tensorfile/pte"
	"github.com/tensorfile/tensorfile/quant"
	"github.com/tensorfile/tensorfile/rten"
	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
)

// Options of a conversion. nil is the zero value: no loss, and the target's
// defaults.
type Options struct {
	// Allow is the set of losses that may happen.
	Allow LossKind

	// Map, if not nil, returns the name of each tensor in the target, its dtype
	// there, and whether it is converted at all. tensor.Unknown keeps the dtype. A
	// tensor that Map leaves out is no loss. Where the dtype does not have all values,
	// that is a LossNarrow that is Requested.
	Map func(t *tensor.Tensor) (name string, d tensor.DType, keep bool)
	// Attributes, if not nil, says which attributes of the files are converted. One that
	// it leaves out is no loss.
	Attributes func(key string) bool
	// RowMajor makes tensors row-major even where the target supports another
	// order; it allows LossReorder. A column-major target ignores it.
	RowMajor bool
	// Dense makes tensors dense even where the target supports sparse ones; it
	// allows LossDensify.
	Dense bool
	// Dequantize, if not tensor.Unknown, is the dtype that quantised elements become:
	// blocks of ggml, also if the target supports them, and weights that are stored as
	// several tensors, as package quant finds them. Map gets such a weight once, with its
	// name, its shape and this dtype. A dtype that does not have all values is a
	// LossNarrow that is Requested. A weight whose parts do not fit together is a loss.
	Dequantize tensor.DType
	// Config is the configuration of quantised weights ([quant.ReadConfig]); nil if there
	// is none.
	Config *quant.Config
	// Quantize, if not nil, returns the type of quantised blocks that a dense tensor
	// becomes ([gguf.Quantize]), "" for none. It is called for tensors of the source as
	// Map and Dequantize make them, and is a LossNarrow that is Requested.
	Quantize func(t *tensor.Tensor) string
	// Sparse makes tensors sparse in this scheme of zTensor: "sparse_csr" makes matrices
	// sparse, "sparse_coo" all tensors. NewPlan reads them for their size.
	Sparse string
	// Duplicates says what several values for one element of a sparse tensor mean
	// where the target does not hold them; zero drops the tensor, a loss.
	Duplicates sparse.Duplicates

	// More are further sources: their tensors, blobs and attributes follow the first
	// source's. They must stay open too. A tensor whose name is taken is renamed, an
	// attribute left out, and either is a loss.
	More []*tensorfile.File
	// Shards is the number of files of the model whose shards the sources are ([Shards]).
	// Fewer sources are a LossTensors. A .gguf has the number itself.
	Shards int

	// External finds the tensors whose data is external, such as the weights of a .pte in
	// a .ptd; a tensor that it does not find is left out, which is a loss.
	External func(name string) *tensor.Tensor

	// Writer are options of the target's writer, such as a *ztensor.WriterOptions; nil is
	// its defaults. Attributes given here replace the attributes of the source.
	// Safetensors that are made of a checkpoint of PyTorch have the metadata format=pt,
	// unless another format is given.
	Writer any

	// Limits bound what Write decodes; only MaxDecodedTotal has a meaning.
	Limits tensor.Limits

	// Progress, if not nil, is called with the bytes written so far and an estimate of
	// all, from the goroutine that called Write. Its last call, if Write succeeds, has
	// done = total.
	Progress func(done, total int64)
}

// An OptionError is the error of NewPlan for an option that the target does not support.
type OptionError struct {
	Option string // the field of Options
	Err    error
}

func (e *OptionError) Error() string { return "convert: " + e.Option + ": " + e.Err.Error() }
func (e *OptionError) Unwrap() error { return e.Err }

// A Plan is a conversion that was checked, and that Write does. The sources must stay
// open until then. A Plan is for one goroutine at a time.
type Plan struct {
	files   []*tensorfile.File
	target  tensorfile.Format
	row     targetRow // of target
	version string    // "" where the format leaves no choice
	caps    tensorfile.Caps
	opts    Options
	checker checker

	items      []item
	blobs      []namedBlob
	attributes []attribute
	losses     []Loss
	keys       map[string]int // of attributes
	names      names
	quantised  *quantised    // nil until it is needed
	kind       primitiv.Kind // that is kept from a primitiv file to a primitiv file

	rewrite func(context.Context, io.Writer) error // in place of all these
}

type namedBlob struct {
	name string
	data tensor.Blob
}

// NewPlan plans the conversion of src into the target format. Losses has the content that
// the target cannot represent. NewPlan reads metadata, and data only if it decides what
// is lost: indices of sparse tensors, elements that become integers, and tensors that
// Options.Sparse makes sparse. It ends soon after ctx does.
//
// Without Options.Map a .rten becomes a .rten with all of its content, operators
// included. Entries of several .ptd files that have the same name are written once if
// they are equal; if they differ, NewPlan fails with a *ptd.ConflictError.
//
// It fails if the target cannot be written (errors.ErrUnsupported), and for options that
// the target does not support (*OptionError).
func NewPlan(
	ctx context.Context, src *tensorfile.File, target tensorfile.Format, opts *Options,
) (*Plan, error) {
	p := &Plan{target: target, row: targets[target], keys: map[string]int{}, opts: orZero(opts)}
	if p.row.version != nil {
		p.version = p.row.version(p, src)
	}
	p.names.suffix = p.row.suffix
	p.caps = target.CapsOf(p.version)
	if len(p.caps.DTypes) == 0 {
		return nil, fmt.Errorf("convert: %w: %v is not written from tensors alone",
			errors.ErrUnsupported, target)
	}
	p.files = append([]*tensorfile.File{src}, p.opts.More...)
	if err := p.checkOptions(); err != nil {
		return nil, err
	}
	p.planShards()
	if err := p.planRewrite(ctx); err != nil || p.rewrite != nil {
		return p, err
	}
	p.planQuantised()
	for _, f := range p.files {
		p.planProgram(f)
		p.planUnlisted(f)
		p.planAttributes(f)
		if err := p.planTensors(ctx, f); err != nil {
			return nil, err
		}
		p.planBlobs(f)
	}
	if len(p.losses) == 0 {
		if err := p.checkEmpty(); err != nil {
			return nil, err
		}
	}
	if p.row.finish != nil {
		p.row.finish(p)
	}
	return p, nil
}

// checkOptions reports options that the target does not support.
func (p *Plan) checkOptions() error {
	switch s := p.opts.Sparse; {
	case s != "" && !p.caps.Sparse:
		return &OptionError{"Sparse", fmt.Errorf("%w: %v has no sparse tensors",
			errors.ErrUnsupported, p.target)}
	case s != "" && s != "sparse_csr" && s != "sparse_coo":
		return &OptionError{"Sparse", fmt.Errorf("%w: %s is neither sparse_csr nor sparse_coo",
			errors.ErrUnsupported, naming.Quote(s))}
	}
	if d := p.opts.Dequantize; d != tensor.Unknown {
		if err := tensor.CanConvert(tensor.F32, d); err != nil || !d.IsFloat() {
			return &OptionError{"Dequantize", fmt.Errorf("%w: weights do not become %v",
				tensor.ErrDType, d)}
		}
	}
	var err error
	if p.checker, err = newChecker(p); err == nil {
		err = p.checker.check(tensor.New("probe", tensor.Shape{1}, []float32{0}), nil)
	}
	if err != nil {
		return &OptionError{"Writer", err}
	}
	if r, ok := p.files[0].Sys().(*primitiv.Reader); ok && p.files[0].Format() == p.target &&
		len(p.files) == 1 && p.opts.Map == nil && r.Kind() != primitiv.KindModel &&
		writerOptions[primitiv.WriterOptions](p).Kind == 0 {
		p.kind = r.Kind()
	}
	if p.kind != 0 && p.opts.Attributes != nil {
		return &OptionError{"Attributes", fmt.Errorf("%w: the settings of an optimizer are all "+
			"of the file", errors.ErrUnsupported)}
	}
	return nil
}

// checkEmpty fails if nothing is left to write of sources that have tensors, blobs or a
// program. A source without them, such as a vocabulary in a .gguf, becomes a file without
// tensors, except in .npy.
func (p *Plan) checkEmpty() error {
	if p.rewrite != nil || len(p.items)+len(p.blobs) > 0 {
		return nil
	}
	empty := p.caps.MaxTensors == 1
	for _, f := range p.files {
		empty = empty || f.Len() > 0
	}
	for _, l := range p.losses {
		empty = empty || l.Kind&(LossTensors|LossBlobs|LossGraph) != 0
	}
	if empty {
		return fmt.Errorf("convert: %w: nothing to write: %v would have no tensor",
			errors.ErrUnsupported, p.target)
	}
	return nil
}

// Losses returns all losses, allowed or not, in the order of the source.
func (p *Plan) Losses() []Loss { return slices.Clone(p.losses) }

// Version returns the version of zTensor that is written: the version of the source
// unless the options request another. It returns "" for other targets.
func (p *Plan) Version() string { return p.version }

// Target returns the format that is written.
func (p *Plan) Target() tensorfile.Format { return p.target }

// Tensors yields what will be written, with the names, dtypes, shapes and orders of the
// target. Data of converted tensors is computed as it is read.
func (p *Plan) Tensors() iter.Seq[*tensor.Tensor] {
	if p.rewrite != nil {
		return p.rewritten()
	}
	return func(yield func(*tensor.Tensor) bool) {
		for i := range p.items {
			t, err := p.items[i].build(context.Background())
			if err != nil {
				t = &p.items[i].t
			}
			if !yield(t) {
				return
			}
		}
	}
}

// Err returns nil if the plan can be written. Else it returns a *LossError with the
// losses that are not allowed, or the error that nothing is left to write.
func (p *Plan) Err() error {
	var refused []Loss
	for _, l := range p.losses {
		if p.opts.Allow&l.Kind == 0 && !l.Requested {
			refused = append(refused, l)
		}
	}
	if len(refused) > 0 {
		return &LossError{p.target, refused}
	}
	return p.checkEmpty()
}

func (p *Plan) lose(kind LossKind, field, format string, args ...any) {
	p.losses = append(p.losses, Loss{Kind: kind, Field: field,
		Reason: withoutName(field, fmt.Sprintf(format, args...))})
}

// loseRequested adds a loss that Options ask for, which allows it.
func (p *Plan) loseRequested(kind LossKind, it *item, format string, args ...any) {
	p.lose(kind, fieldOf(it.src), format, args...)
	p.losses[len(p.losses)-1].Requested = true
}

// withoutName returns a reason without the name of the tensor: the field of the loss has
// it.
func withoutName(field, reason string) string {
	name := strings.TrimSuffix(strings.TrimPrefix(field, "tensors["), "]")
	format, rest, _ := strings.Cut(reason, ": ")
	for _, subject := range [3]string{"tensor " + name, "entry " + name, field} {
		if said, named := strings.CutPrefix(rest, subject+": "); named {
			return format + ": " + said
		}
	}
	return reason
}

// planProgram adds the losses of content other than tensors, blobs and attributes.
func (p *Plan) planProgram(src *tensorfile.File) {
	if r, ok := src.Sys().(*primitiv.Reader); ok && r.Kind() == primitiv.KindShape && p.kind == 0 {
		p.lose(LossShape, "shape", "a shape without a tensor cannot be represented in %v",
			p.target)
	}
	if !src.Format().Caps().Program {
		return
	}
	switch r := src.Sys().(type) {
	case *rten.Reader:
		if !computes(r.Model()) {
			return
		}
	case *onnx.Reader:
		m := r.Model()
		if len(m.Graph.Nodes)+len(m.Graph.Inputs)+len(m.Graph.Outputs)+len(m.Functions) == 0 {
			return
		}
	case *pte.Reader:
		if b := r.Bundle(); b != nil {
			p.losses = append(p.losses, LoseTestCases(b, p.target))
		}
	}
	p.lose(LossGraph, "program", "computations cannot be represented in %v", p.target)
}

// planUnlisted adds the losses of data that no listed tensor refers to.
func (p *Plan) planUnlisted(src *tensorfile.File) {
	for _, w := range src.Warnings() {
		var fe *tensor.FormatError
		if errors.As(w, &fe) && fe.Code == tensor.CodeUnlistedData {
			p.lose(LossTensors, fe.Field, "%s",
				strings.TrimPrefix(fe.Err.Error(), tensor.ErrMalformed.Error()+": "))
		}
	}
}

// computes reports whether a model has operators, inputs or outputs.
func computes(m *rten.Model) bool {
	g := m.Graph()
	for n := range g.Nodes() {
		if n.Kind() != rten.ConstantNode {
			return true
		}
	}
	return len(g.Inputs())+len(g.Outputs())+len(g.Captures()) > 0
}

func (p *Plan) planTensors(ctx context.Context, src *tensorfile.File) error {
	for w := range p.weightsOf(src) {
		err := p.planTensor(ctx, src, w)
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *Plan) planBlobs(src *tensorfile.File) {
	for name, data := range src.Blobs() {
		field := "blobs[" + naming.Quote(name) + "]"
		if !p.caps.Blobs {
			p.lose(LossBlobs, field, "%d bytes cannot be represented in %v", data.Size(), p.target)
			continue
		}
		err := p.checker.checkBlob(name, data)
		if err == nil && p.names.taken(name) {
			err = errors.New("the name is taken")
		}
		if err != nil {
			p.lose(LossBlobs, field, "%v", err)
			continue
		}
		p.names.take(name)
		p.blobs = append(p.blobs, namedBlob{name, data})
	}
}

func (p *Plan) describeTarget() string {
	if p.version != "" {
		return p.target.String() + " " + p.version
	}
	return p.target.String()
}

// size estimates the target's bytes.
func (p *Plan) size() int64 {
	total := int64(0)
	add := func(n int64) {
		if sum, ok := align.Add(total, max(n, 0)); ok {
			total = sum
		}
	}
	for i := range p.items {
		add(p.items[i].t.Size())
		add(256)
	}
	for _, f := range p.files {
		if p.rewrite != nil {
			add(f.Size())
		}
	}
	for _, b := range p.blobs {
		add(b.data.Size())
	}
	return total
}

// orZero returns what p points to.
func orZero[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
