package convert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/bridge/gguf"
	"github.com/tensorfile/tensorfile/bridge/npz"
	"github.com/tensorfile/tensorfile/bridge/safetensors"
	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/primitiv"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/pte"
	"github.com/tensorfile/tensorfile/rten"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// Options say what is wanted. nil is the zero value: no loss, and the target's
// defaults.
type Options struct {
	// Allow is the set of losses that may happen.
	Allow Allow

	// Select, if not nil, takes only the tensors for which it is true. What it
	// leaves out is no loss.
	Select func(t *tensor.Tensor) bool
	// Rename, if not nil, gives each tensor its name in the target.
	Rename func(name string) string
	// DTypes asks for another element type for all tensors of a type, whether
	// the target needs it or not; it allows what that loses.
	DTypes map[tensor.DType]tensor.DType
	// RowMajor asks for row-major tensors even where the target could keep
	// another order; it allows Reorder. A target that is column-major cannot.
	RowMajor bool
	// Dense asks for dense tensors in place of sparse ones even where the target
	// could keep them; it allows Densify.
	Dense bool
	// Sparse makes tensors sparse in this scheme of zTensor: "sparse_csr" those
	// of two dimensions, "sparse_coo" all. Only zTensor targets have it. The plan
	// reads them, to know how long they become.
	Sparse string

	// More are further sources: their tensors, blobs and attributes follow those
	// of the first. They must stay open too. A tensor whose name is taken is
	// renamed, an attribute left out, and either is a loss.
	More []*tensorfile.File

	// External finds the tensors that the source keeps in another file, such as
	// those of a .pte in a .ptd; what it does not find is left out, a loss.
	External func(name string) *tensor.Tensor

	// Options of the target's writer; nil is its defaults. Attributes that they
	// give replace those of the source.
	ZTensor     *ztensor.WriterOptions
	PTD         *ptd.WriterOptions
	Safetensors *safetensors.WriterOptions
	NPZ         *npz.WriterOptions
	Primitiv    *primitiv.WriterOptions
	RTen        *rten.WriterOptions

	// Progress, if not nil, is called with the bytes written so far and an
	// estimate of all, from the goroutine that called Write.
	Progress func(done, total int64)
}

// A Plan is a conversion that was looked at and not yet done. The source must
// stay open until it is. It is for one goroutine at a time.
type Plan struct {
	files   []*tensorfile.File // the source, and more
	src     *tensorfile.File   // that which is looked at
	target  tensorfile.Format
	version string
	caps    tensorfile.Caps
	opts    Options

	tensors    []*tensor.Tensor
	sources    []*tensor.Tensor   // of the source, one for each of tensors
	owners     []*tensorfile.File // the sources' files
	own        []map[string]any   // attributes of tensors that version 2 of zTensor asks for, beside those of the sources
	blobs      []namedBlob
	attributes [][2]string
	losses     []Loss
	keys       map[string]int // of attributes
	names      map[string]struct{}
	trials     [2]*ztensor.Writer // that say what they cannot hold: of the options, and with KeepOrder
	keepOrder  bool               // version 2: no canonical form for these names

	running context.Context // of NewPlanContext or Write, while it runs
}

// context is that of the call under way, for tensors that are made when they are
// read.
func (p *Plan) context() context.Context {
	if p.running == nil {
		return context.Background() // somebody else reads one
	}
	return p.running
}

type namedBlob struct {
	name string
	data tensor.Blob
}

// NewPlan finds out what converting src into the target format means, from its
// metadata alone, and from the indices of sparse tensors where the target is
// version 2 of zTensor, which wants them in order. It fails only where the target cannot be written at all:
// errors.ErrUnsupported. What cannot be carried over is in Losses.
func NewPlan(src *tensorfile.File, target tensorfile.Format, opts *Options) (*Plan, error) {
	return NewPlanContext(context.Background(), src, target, opts)
}

// NewPlanContext is NewPlan that ends soon after ctx does: where it reads data,
// which is for Options.Sparse and for sparse tensors on their way to version 2 of
// zTensor, it takes as long as that is large.
func NewPlanContext(ctx context.Context, src *tensorfile.File, target tensorfile.Format, opts *Options) (*Plan, error) {
	p := &Plan{target: target, keys: map[string]int{}, names: map[string]struct{}{}, running: ctx}
	defer func() { p.running = nil }()
	if opts != nil {
		p.opts = *opts
	}
	if target == tensorfile.ZTensor {
		p.version = ztensor.Version2
		if z := p.opts.ZTensor; z != nil && z.Version != "" {
			p.version = z.Version
		} else if v := src.Version(); src.Format() == target && slices.Contains(target.Writes(), v) {
			p.version = v // that of the source
		}
	}
	if z := p.opts.ZTensor; z != nil && target == tensorfile.ZTensor {
		o := *z
		o.Version, o.Attributes = p.version, nil
		if err := o.Check(); err != nil {
			return nil, err
		}
	}
	p.caps = target.CapsOf(p.version)
	if len(p.caps.DTypes) == 0 {
		return nil, fmt.Errorf("convert: %w: %v is not written from tensors alone", errors.ErrUnsupported, target)
	}
	if p.opts.Sparse != "" && !p.caps.Sparse {
		return nil, fmt.Errorf("convert: %w: %v has no sparse tensors", errors.ErrUnsupported, target)
	}
	p.files = append([]*tensorfile.File{src}, p.opts.More...)
	for _, p.src = range p.files {
		p.planProgram()
		p.planAttributes()
		if err := p.planTensors(); err != nil {
			return nil, err
		}
		p.planBlobs()
	}
	if target == tensorfile.NPY && len(p.tensors) == 0 && len(p.losses) == 0 {
		return nil, fmt.Errorf("convert: %w: %v holds one tensor, the source has none", errors.ErrUnsupported, target)
	}
	if target == tensorfile.Primitiv {
		p.parents()
	}
	p.rehearse()
	return p, nil
}

// Losses returns everything that the target does not hold as the source has it,
// allowed or not, in the order of the source.
func (p *Plan) Losses() []Loss { return slices.Clone(p.losses) }

// Version returns the version of zTensor that is written, which is that of the
// source where nothing else is asked for; "" for other targets.
func (p *Plan) Version() string { return p.version }

// Target is the format that is written.
func (p *Plan) Target() tensorfile.Format { return p.target }

// Tensors yields what will be written: names, types, shapes and orders are those
// of the target. Data of converted tensors is computed as it is read.
func (p *Plan) Tensors() iter.Seq[*tensor.Tensor] { return slices.Values(p.tensors) }

// Err is nil if every loss is allowed, else a *LossError with those that are
// not.
func (p *Plan) Err() error {
	var refused []Loss
	for _, l := range p.losses {
		if p.opts.Allow&l.Kind == 0 {
			refused = append(refused, l)
		}
	}
	if len(refused) == 0 {
		return nil
	}
	return &LossError{p.target, refused}
}

func (p *Plan) lose(kind Allow, field, format string, args ...any) {
	p.losses = append(p.losses, Loss{kind, field, once(field, fmt.Sprintf(format, args...))})
}

// once is a reason that does not name the tensor again, as errors of writers do.
func once(field, reason string) string {
	name := strings.TrimSuffix(strings.TrimPrefix(field, "tensors["), "]")
	format, rest, _ := strings.Cut(reason, ": ")
	for _, noun := range [2]string{"tensor ", "entry "} {
		if said, named := strings.CutPrefix(rest, noun+name+": "); named {
			return format + ": " + said
		}
	}
	return reason
}

func (p *Plan) planProgram() {
	if !p.src.Format().Caps().Program {
		return
	}
	if r, ok := p.src.Sys().(*pte.Reader); ok {
		if b := r.Bundle(); b != nil {
			p.losses = append(p.losses, LoseTestCases(b, p.target))
		}
	}
	p.lose(LoseGraph, "program", "the %s's computations have no place in %v", p.src.Format().Title(), p.target)
}

func (p *Plan) planAttributes() {
	sharded := false
	if r, ok := p.src.Sys().(*safetensors.Reader); ok {
		for range r.Shards() {
			sharded = true
			break
		}
	}
	z, _ := p.src.Sys().(*ztensor.Reader)
	typed := map[string]any{}
	if z != nil {
		for k, v := range z.AttributeValues() {
			typed[k] = v
			if _, text := v.Text(); !text && p.caps.Attributes && !p.typed() {
				p.lose(LoseAttributes, "attributes["+tensor.Quote(k)+"]", "the value, which is not text, becomes JSON text")
			}
		}
	}
	for k, v := range p.src.Attributes() {
		if sharded && k == "total_size" {
			continue // it is about the shards
		}
		if !p.caps.Attributes {
			p.lose(LoseAttributes, "attributes["+tensor.Quote(k)+"]", "attributes have no place in %v", p.target)
			continue
		}
		if !utf8.ValidString(k) || !utf8.ValidString(v) {
			p.lose(LoseAttributes, "attributes["+tensor.Quote(k)+"]", "it is not UTF-8")
			continue
		}
		value, ok := typed[k]
		if !ok || !p.typed() {
			value = v
		}
		if err := p.tryAttribute(k, value, false); err != nil {
			p.lose(LoseAttributes, "attributes["+tensor.Quote(k)+"]", "%v", err)
			continue
		}
		if i, taken := p.keys[k]; !taken {
			p.keys[k] = len(p.attributes)
			p.attributes = append(p.attributes, [2]string{k, v})
		} else if p.attributes[i][1] != v {
			p.lose(LoseAttributes, "attributes["+tensor.Quote(k)+"]", "another source has another value")
		}
	}
}

func (p *Plan) planTensors() error {
	for t := range p.src.Tensors() {
		if p.opts.Select != nil && !p.opts.Select(t) {
			continue
		}
		if p.caps.MaxTensors > 0 && len(p.tensors) == p.caps.MaxTensors {
			return fmt.Errorf("convert: %w: %v holds %d tensor, the source has more", errors.ErrUnsupported, p.target, p.caps.MaxTensors)
		}
		p.planTensor(t)
		if err := context.Cause(p.context()); err != nil {
			return err
		}
	}
	return nil
}

func (p *Plan) planBlobs() {
	for name, data := range p.src.Blobs() {
		field := "blobs[" + tensor.Quote(name) + "]"
		_, taken := p.names[name]
		switch {
		case !p.caps.Blobs:
			p.lose(LoseBlobs, field, "%d bytes have no place in %v", data.Size(), p.target)
		case taken:
			p.lose(LoseBlobs, field, "the name is taken")
		default:
			p.names[name] = struct{}{}
			p.blobs = append(p.blobs, namedBlob{name, data})
		}
	}
}

// planTensor carries one tensor through everything that may have to change:
// layout, element type, order, name.
func (p *Plan) planTensor(src *tensor.Tensor) {
	field := "tensors[" + tensor.Quote(src.Name) + "]"
	drop := func(format string, args ...any) { p.lose(DropTensors, field, format, args...) }
	if src.External && p.opts.External != nil {
		if t := p.opts.External(src.Name); t != nil && t.DType == src.DType && t.Shape.Equal(src.Shape) {
			found := *t
			found.Name = src.Name
			src = &found
		}
	}
	if src.External {
		drop("it is kept in another file")
		return
	}
	if pte.Uninitialized(src) {
		drop("it is state without an initial value")
		return
	}
	if err := src.Check(); err != nil {
		drop("%v", err)
		return
	}
	t := *src
	marked := len(p.losses)
	ok := p.planLayout(&t, field) && p.planDType(&t, field) && p.planOrder(&t, field) && p.planShape(&t, field)
	if !ok {
		// One tensor that is dropped is one loss, whatever else would happen.
		p.losses = append(p.losses[:marked], p.losses[len(p.losses)-1])
		return
	}
	own := p.planBlocks(&t)
	p.planName(&t, field)
	if err := p.tryWith(&t, p.ownAttributes(src, p.src, own)); err != nil {
		p.losses = p.losses[:marked]
		delete(p.names, t.Name)
		drop("%v", err)
		return
	}
	if z, isZ := p.src.Sys().(*ztensor.Reader); isZ && (p.target != tensorfile.ZTensor || p.version == "1.0") {
		for k := range z.TensorAttributes(src) {
			p.lose(LoseAttributes, field+".attributes["+tensor.Quote(k)+"]", "attributes of tensors have no place in %v", p.describeTarget())
		}
	} else if isZ {
		for k, v := range z.TensorAttributes(src) {
			if err := p.tryAttribute(k, v, true); err != nil {
				p.lose(LoseAttributes, field+".attributes["+tensor.Quote(k)+"]", "%v", err)
			}
		}
	}
	p.tensors = append(p.tensors, &t)
	p.sources = append(p.sources, src)
	p.owners = append(p.owners, p.src)
	p.own = append(p.own, own)
}

// planBlocks gives quantised blocks of a .gguf the layout that version 2 of
// zTensor has for them, and returns the attributes that go with it.
func (p *Plan) planBlocks(t *tensor.Tensor) map[string]any {
	if p.version != "2" || p.src.Format() != tensorfile.GGUF || t.Dense() || len(t.Parts) != 1 {
		return nil
	}
	elements, bytes, ok := gguf.Block(t.Scheme)
	layout := "gguf." + strings.ToLower(t.Scheme) + "/1"
	if !ok || !ztensor.HasBlocks(layout) {
		return nil // one that is not registered stays opaque, under its own name
	}
	t.Scheme = layout
	t.Parts = []tensor.Part{{Role: "data", DType: tensor.U8, Data: t.Parts[0].Data}}
	return map[string]any{"elems_per_block": elements, "block_bytes": bytes}
}

// ownAttributes are those that a tensor has in a zTensor file: what its source
// says of it, and more.
func (p *Plan) ownAttributes(src *tensor.Tensor, owner *tensorfile.File, more map[string]any) map[string]any {
	z, ok := owner.Sys().(*ztensor.Reader)
	if !ok || p.version == "1.0" {
		return more
	}
	own := map[string]any{}
	for k, v := range z.TensorAttributes(src) {
		if p.tryAttribute(k, v, true) == nil {
			own[k] = v
		}
	}
	return own
}

// tryWith asks the writer of zTensor whether it can hold a tensor that has these
// attributes, which the layouts of version 2 have rules for.
func (p *Plan) tryWith(t *tensor.Tensor, own map[string]any) error {
	if p.version != "2" || t.Dense() || len(own) == 0 {
		return p.try(t)
	}
	p.trial()
	for _, w := range p.trials {
		if err := w.TensorAttributes(t.Name, own); err != nil {
			return err
		}
	}
	return p.try(t)
}

// try asks the writer of zTensor whether it can hold a tensor, and puts a sparse
// one into the words of the version.
func (p *Plan) try(t *tensor.Tensor) error {
	if p.target != tensorfile.ZTensor {
		return nil
	}
	if p.version != "2" {
		switch t.Scheme {
		case "zt.sparse_csr/1":
			t.Scheme = "sparse_csr"
		case "zt.sparse_coo/1":
			t.Scheme = "sparse_coo"
		}
	}
	p.trial()
	err := p.trials[0].Check(t)
	if err != nil && p.version == "2" && p.trials[1].Check(t) == nil {
		p.keepOrder, err = true, nil // a name that is not in NFC is no loss
	}
	return err
}

// trial makes the writers that are asked.
func (p *Plan) trial() {
	if p.trials[0] == nil {
		o := orZero(p.opts.ZTensor)
		o.Version, o.Attributes = p.version, nil
		p.trials[0] = ztensor.NewWriter(io.Discard, o.WholeFile())
		o.KeepOrder, o.Canonical = true, false
		p.trials[1] = ztensor.NewWriter(io.Discard, &o)
	}
}

// tryAttribute asks the writer of zTensor 2 whether it can hold an attribute, of
// the file or of a tensor: its names have rules, and its values are fewer.
func (p *Plan) tryAttribute(name string, value any, ofTensor bool) error {
	if p.target != tensorfile.ZTensor || p.version != "2" {
		return nil
	}
	var first error
	for _, keep := range [2]bool{orZero(p.opts.ZTensor).KeepOrder || p.keepOrder, true} {
		one := map[string]any{name: value}
		o := ztensor.WriterOptions{Version: p.version, KeepOrder: keep}
		if !ofTensor {
			o.Attributes, one = one, nil
		}
		err := ztensor.NewWriter(io.Discard, o.WholeFile()).TensorAttributes("", one)
		if err == nil {
			p.keepOrder = p.keepOrder || keep // a name that is not in NFC is no loss
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// typed: attributes may have values beyond text.
func (p *Plan) typed() bool {
	return p.target == tensorfile.ZTensor && (p.version == "1.2" || p.version == "2")
}

func (p *Plan) describeTarget() string {
	if p.version != "" {
		return p.target.String() + " " + p.version
	}
	return p.target.String()
}

// planLayout is about everything beside the elements of a dense tensor.
func (p *Plan) planLayout(t *tensor.Tensor, field string) bool {
	if t.Dense() {
		if len(t.Parts) > 0 && !p.caps.Extras {
			for i := range t.Parts {
				p.lose(LoseParts, field+"."+t.Parts[i].Role, "parts beside the elements have no place in %v", p.target)
			}
			t.Parts = nil
		}
		if p.opts.Sparse != "" && (p.opts.Sparse != "sparse_csr" || len(t.Shape) == 2) {
			sparse, err := sparsified(t, p.opts.Sparse, p.context)
			if unreadable(err) {
				return true // Write meets it
			}
			if err != nil {
				p.lose(DropTensors, field, "%v", err)
				return false
			}
			*t = *sparse
		}
		return true
	}
	if p.caps.Sparse && !p.opts.Dense {
		return p.planParts(t, field)
	}
	dense, err := densified(t, p.context)
	if err != nil {
		if p.caps.Sparse {
			return p.planParts(t, field) // opaque: there is no dense form to ask for
		}
		p.lose(DropTensors, field, "%s has no place in %v, and no dense form", tensor.Quote(t.Scheme), p.target)
		return false
	}
	if !p.opts.Dense {
		p.lose(Densify, field, "%s has no place in %v", t.Scheme, p.target)
	}
	*t = *dense
	return true
}

// unreadable reports whether err comes from reading, and says nothing of what the
// target can hold: no loss that could be allowed. That bytes cannot be decoded has
// a place in the file; that indices do not fit has none.
func unreadable(err error) bool {
	if err == nil {
		return false
	}
	var placed *tensor.FormatError
	if errors.As(err, &placed) && errors.Is(err, tensor.ErrMalformed) {
		return true
	}
	for _, other := range []error{tensor.ErrMalformed, tensor.ErrDType, tensor.ErrLimit, errors.ErrUnsupported} {
		if errors.Is(err, other) {
			return false
		}
	}
	return true
}

// planParts gives the parts of a tensor that is not dense types that the target
// has: what no type is known of, such as quantised blocks, is bytes.
func (p *Plan) planParts(t *tensor.Tensor, field string) bool {
	t.Parts = slices.Clone(t.Parts)
	for i := range t.Parts {
		part := &t.Parts[i]
		switch {
		case part.DType != tensor.Unknown:
		case t.Scheme == "sparse_csr" || t.Scheme == "sparse_coo":
			part.DType = tensor.U64 // an index: zTensor 1.0 has no word for its type
		default:
			part.DType = tensor.U8
		}
		if !p.caps.Holds(part.DType) {
			p.lose(DropTensors, field, "%v in its part %s has no place in %v", part.DType, tensor.Quote(part.Role), p.describeTarget())
			return false
		}
	}
	if t.DType == tensor.Unknown {
		t.DType = tensor.U8
	}
	if p.version == "2" && (t.Scheme == "sparse_csr" || t.Scheme == "sparse_coo") {
		ordered, err := ordered(t, p.context)
		if unreadable(err) {
			return true // Write meets it
		}
		if err != nil {
			p.lose(DropTensors, field, "%v", err)
			return false
		}
		*t = *ordered
	}
	return true
}

func (p *Plan) planDType(t *tensor.Tensor, field string) bool {
	if !t.Dense() {
		return true
	}
	want, asked := p.opts.DTypes[t.DType]
	if !asked {
		if p.caps.Holds(t.DType) || t.DType == tensor.Unknown && p.target == tensorfile.ZTensor && p.try(t) == nil {
			return true // the one, or a word of the file's own that can be kept
		}
		var kind Allow
		if want, kind = choose(t.DType, p.caps.DTypes); want == tensor.Unknown {
			word := t.DType.String()
			if st, ok := t.Data.Stored(); ok && t.DType == tensor.Unknown {
				word = tensor.Quote(st.Type)
			}
			p.lose(DropTensors, field, "%s has no place in %v, nor a type that serves for it", word, p.describeTarget())
			return false
		}
		p.lose(kind, field, "%v has no place in %v: it becomes %v", t.DType, p.describeTarget(), want)
	}
	if want == t.DType {
		return true
	}
	n, _ := t.Shape.Elements()
	data, err := converted(t.Data, t.DType, want, n)
	if err != nil {
		p.lose(DropTensors, field, "%v", err)
		return false
	}
	t.DType, t.Data = want, data
	return true
}

func (p *Plan) planOrder(t *tensor.Tensor, field string) bool {
	rank := len(t.Shape)
	if !t.Dense() || p.caps.Orders.Hold(t.Order, rank) && !(p.opts.RowMajor && !t.Order.RowMajor() && p.caps.Orders.Hold(nil, rank)) {
		return true
	}
	var order tensor.Order
	if p.caps.Orders == tensorfile.OnlyColumnMajor {
		order = tensor.ColumnMajor(rank)
	}
	if !p.opts.RowMajor || order != nil {
		from := "row-major"
		if !t.Order.RowMajor() {
			from = fmt.Sprintf("the order %v", []int(t.Order))
		}
		p.lose(Reorder, field, "%s has no place in %v, which is %v", from, p.target, p.caps.Orders)
	}
	data, err := reordered(t, order, p.context)
	if err != nil {
		p.lose(DropTensors, field, "%v", err)
		return false
	}
	t.Order, t.Data = order, data
	return true
}

func (p *Plan) planShape(t *tensor.Tensor, field string) bool {
	c, n := &p.caps, int64(0)
	if t.Dense() {
		n, _ = t.Shape.Elements()
	}
	switch {
	case c.MaxRank > 0 && len(t.Shape) > c.MaxRank:
		p.lose(DropTensors, field, "%d dimensions, %v has at most %d", len(t.Shape), p.target, c.MaxRank)
	case !c.ZeroDims && slices.Contains(t.Shape, 0):
		p.lose(DropTensors, field, "%v has no dimensions of 0", p.target)
	case c.MaxElements > 0 && n > c.MaxElements:
		p.lose(DropTensors, field, "%d elements, %v has at most %d", n, p.target, c.MaxElements)
	case c.MaxDim > 0 && slices.ContainsFunc(t.Shape, func(d int64) bool { return d > c.MaxDim }):
		p.lose(DropTensors, field, "%v: %v has dimensions of at most %d", t.Shape, p.target, c.MaxDim)
	case t.DType.Bits()%8 != 0 && n*int64(t.DType.Bits()%8)%8 != 0 && p.target == tensorfile.Safetensors:
		p.lose(DropTensors, field, "%v of %v does not end at a byte", t.Shape, t.DType)
	default:
		return true
	}
	return false
}

// planName gives the tensor its name in the target: one that it can hold, and
// that nobody else has.
func (p *Plan) planName(t *tensor.Tensor, field string) {
	name := t.Name
	if p.opts.Rename != nil {
		name = p.opts.Rename(name)
	}
	if p.caps.Names == tensorfile.OneName { // the one tensor has no name
		if name != "data" && p.opts.Rename == nil {
			p.lose(RenameTensors, field, "names have no place in %v", p.target)
		}
		t.Name = name
		return
	}
	good := nameFor(p.target, p.version, name)
	if name == "" && p.target == tensorfile.PTD && p.src.Format() == tensorfile.PTD {
		good = name // of use to no program, but kept
	}
	if p.target == tensorfile.Primitiv && name == t.Name && p.planPath(t, good) {
		return
	}
	for unique, i := good, 2; ; i++ {
		if _, taken := p.names[unique]; !taken {
			good = unique
			break
		}
		unique = good + "~" + strconv.Itoa(i)
	}
	if good != name {
		p.lose(RenameTensors, field, "the name %s is taken or has no place in %v: it becomes %s", tensor.Quote(name), p.describeTarget(), tensor.Quote(good))
	}
	p.names[good] = struct{}{}
	t.Name = good
}

// planPath keeps a tensor of primitiv where it was when its path is not what its
// name makes when it is cut at dots, so that the name is not asked.
func (p *Plan) planPath(t *tensor.Tensor, good string) bool {
	o, ok := primitiv.OriginOf(t)
	if !ok || len(o.Path) == 0 {
		return false
	}
	value := strings.Join(o.Path, ".")
	if good == t.Name && slices.Equal(strings.Split(value, "."), o.Path) {
		return false
	}
	key := fmt.Sprintf("\x00%q %t %q", o.Path, o.IsStatistic, o.Statistic)
	if _, taken := p.names[key]; taken {
		return false
	}
	p.names[key] = struct{}{}
	return true
}

// parents renames the values of primitiv whose path is the beginning of another
// value's, with their statistics: a model has parameters only at its leaves.
func (p *Plan) parents() {
	path := func(t *tensor.Tensor) []string {
		if o, ok := primitiv.OriginOf(t); ok && strings.Join(o.Path, ".") == t.Name {
			return o.Path
		}
		return strings.Split(t.Name, ".")
	}
	key := func(path []string) string { return fmt.Sprintf("%q", path) }
	names := map[string]bool{}
	for _, t := range p.tensors {
		names[t.Name] = true
	}
	owners := make([]string, len(p.tensors)) // of statistics: the names of their values
	values, inner := map[string]bool{}, map[string]bool{}
	for i, t := range p.tensors {
		for at := strings.LastIndexByte(t.Name, ':'); at >= 0 && owners[i] == ""; at = strings.LastIndexByte(t.Name[:at], ':') {
			if names[t.Name[:at]] {
				owners[i] = t.Name[:at]
			}
		}
		if owners[i] != "" {
			continue
		}
		keys := path(t)
		values[key(keys)] = true
		for n := 1; n < len(keys); n++ {
			inner[key(keys[:n])] = true
		}
	}
	renamed := map[string]string{}
	for i, t := range p.tensors {
		keys := path(t)
		if owners[i] != "" || !inner[key(keys)] {
			continue
		}
		old := t.Name
		for inner[key(keys)] || values[key(keys)] {
			t.Name += "_"
			keys = strings.Split(t.Name, ".")
		}
		values[key(keys)], renamed[old] = true, t.Name
		p.lose(RenameTensors, "tensors["+tensor.Quote(p.sources[i].Name)+"]", "its path is the beginning of another's: it becomes %s", tensor.Quote(t.Name))
	}
	for i, t := range p.tensors {
		if value, ok := renamed[owners[i]]; ok && owners[i] != "" {
			t.Name = value + t.Name[len(owners[i]):]
			p.lose(RenameTensors, "tensors["+tensor.Quote(p.sources[i].Name)+"]", "its value is called %s: it becomes %s", tensor.Quote(value), tensor.Quote(t.Name))
		}
	}
}

// nameFor is the name itself where the format can hold it, or the nearest that
// it can.
func nameFor(target tensorfile.Format, version, name string) string {
	name = strings.ToValidUTF8(name, "\ufffd")
	switch target {
	case tensorfile.PTD:
		name = strings.ReplaceAll(name, "\x00", "\ufffd")
		if name == "" {
			return "_"
		}
	case tensorfile.Safetensors:
		if name == "__metadata__" {
			return "_" + name
		}
	case tensorfile.NPZ:
		name = strings.ReplaceAll(name, "\x00", "\ufffd")
		if len(name) > npz.MaxName {
			return strings.ToValidUTF8(name[:npz.MaxName-16], "")
		}
	case tensorfile.Primitiv:
		keys := strings.Split(name, ".")
		for i, k := range keys {
			if k == "" {
				keys[i] = "_"
			}
		}
		return strings.Join(keys, ".")
	case tensorfile.ZTensor:
		if version != "2" {
			break
		}
		name = strings.ReplaceAll(name, "\x00", "\ufffd")
		if name == "" {
			return "_"
		}
		const longest = 1024 // bytes
		if len(name) > longest {
			return strings.ToValidUTF8(name[:longest-16], "") // with room for a number that tells it from another
		}
	}
	return name
}

// rehearse adds the tensors to a writer that goes nowhere, for the targets whose
// writers only take notes, so that nothing that they refuse is met halfway.
func (p *Plan) rehearse() {
	s, err := p.sink(io.Discard)
	if err != nil || !s.notes {
		return
	}
	kept, sources, owners, own := p.tensors[:0], p.sources[:0], p.owners[:0], p.own[:0]
	for i, t := range p.tensors {
		if err := s.add(t); err != nil {
			p.lose(DropTensors, "tensors["+tensor.Quote(t.Name)+"]", "%v", err)
			continue
		}
		kept, sources = append(kept, t), append(sources, p.sources[i])
		owners, own = append(owners, p.owners[i]), append(own, p.own[i])
	}
	p.tensors, p.sources, p.owners, p.own = kept, sources, owners, own
	blobs := p.blobs[:0]
	for _, b := range p.blobs {
		if err := s.addBlob(b.name, b.data); err != nil {
			p.lose(LoseBlobs, "blobs["+tensor.Quote(b.name)+"]", "%v", err)
			continue
		}
		blobs = append(blobs, b)
	}
	p.blobs = blobs
	s.abort()
}

// size is an estimate of the target's bytes.
func (p *Plan) size() int64 {
	total := int64(0)
	add := func(n int64) {
		if sum, ok := align.Add(total, max(n, 0)); ok {
			total = sum
		}
	}
	for _, t := range p.tensors {
		add(t.Size())
		add(256)
	}
	for _, b := range p.blobs {
		add(b.data.Size())
	}
	return total
}
