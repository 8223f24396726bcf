package convert

import (
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/internal/ggml"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/quant"
	"github.com/tensorfile/tensorfile/tensor"
)

// quantised has the weights of all sources.
type quantised struct {
	*quant.Set
	stored  map[string]*tensor.Tensor      // the first of each name
	byCodes map[string]*quant.Weight       // weights by the name of their codes
	of      map[*tensorfile.File][]*weight // in the order of its tensors
	owner   map[*tensor.Tensor]*tensorfile.File
}

// A weight is one tensor of the plan: a stored tensor, or a weight of several of them.
type weight struct {
	*quant.Weight
	problems []error // errors of Find that leave the weight its values
}

// joinedSources has the tensors and attributes of all sources, for quant.Find.
type joinedSources struct {
	files []*tensorfile.File
	found *quantised
}

func (j joinedSources) Tensors() iter.Seq[*tensor.Tensor] {
	return func(yield func(*tensor.Tensor) bool) {
		for _, f := range j.files {
			for t := range f.Tensors() {
				j.found.owner[t] = f
				if j.found.stored[t.Name] == nil {
					j.found.stored[t.Name] = t
				}
				if !yield(t) {
					return
				}
			}
		}
	}
}

func (j joinedSources) Attributes() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, f := range j.files {
			for k, v := range f.Attributes() {
				if !yield(k, v) {
					return
				}
			}
		}
	}
}

// find finds the quantised weights, at the first call.
func (p *Plan) find() *quantised {
	if p.quantised != nil {
		return p.quantised
	}
	q := &quantised{stored: map[string]*tensor.Tensor{}, byCodes: map[string]*quant.Weight{},
		of:    map[*tensorfile.File][]*weight{},
		owner: map[*tensor.Tensor]*tensorfile.File{}}
	q.Set = quant.Find(joinedSources{p.files, q}, p.opts.Config)
	p.quantised = q
	problems := map[string][]error{}
	for _, f := range q.Findings {
		if f.Severity == tensor.SeverityError {
			problems[f.Tensor] = append(problems[f.Tensor], f.Err)
		}
	}
	for _, w := range q.Weights {
		first := w.Tensor
		if w.Scheme != "" {
			first = w.Parts[0].Tensor
			q.byCodes[first.Name] = w
		}
		f := q.owner[first]
		one := &weight{Weight: w}
		if w.Scheme != "" {
			if w.Err == nil {
				one.problems = problems[w.Name]
			}
			delete(problems, w.Name)
		}
		q.of[f] = append(q.of[f], one)
	}
	q.Findings = slices.DeleteFunc(q.Findings, func(f quant.Finding) bool {
		return problems[f.Tensor] == nil // of a weight, or no error
	})
	return q
}

// weightsOf yields the tensors of a source: with Options.Dequantize the weights that they
// make up.
func (p *Plan) weightsOf(src *tensorfile.File) iter.Seq[*weight] {
	if p.opts.Dequantize != tensor.Unknown {
		return slices.Values(p.find().of[src])
	}
	return func(yield func(*weight) bool) {
		for t := range src.Tensors() {
			if !yield(&weight{Weight: &quant.Weight{Name: t.Name, Tensor: t}}) {
				return
			}
		}
	}
}

// planQuantised adds the losses of quantised weights that have an error.
func (p *Plan) planQuantised() {
	if p.opts.Dequantize == tensor.Unknown {
		return
	}
	for _, f := range p.find().Findings {
		p.lose(LossScale, "tensors["+naming.Quote(f.Tensor)+"]", "%v", f.Err)
	}
}

// planDequantize plans a dense tensor of quantised elements, whose numbers are in n.
func (p *Plan) planDequantize(ctx context.Context, it *item, scheme string, n domain,
	to tensor.DType) error {
	p.loseScale(it, scheme, to.String())
	for _, err := range it.weight.problems {
		p.lose(LossScale, fieldOf(it.src), "%v", err)
	}
	if p.loses(n, to) {
		p.loseRequested(LossNarrow, it, "%s becomes %v", scheme, to)
	}
	// float32 first: the numbers of quantised elements are float32.
	err := it.apply(ctx, func(_ context.Context, t *tensor.Tensor) (*tensor.Tensor, error) {
		return tensor.As(t, tensor.F32)
	})
	if err != nil || to == tensor.F32 {
		return err
	}
	return p.convertTo(ctx, it, to)
}

// domainOfScheme returns the numbers of a quantised weight.
func domainOfScheme(scheme string) domain {
	if kind, ok := ggml.Named("MXFP4"); ok && scheme == "mxfp4" {
		return domainOfBlocks(kind)
	}
	n, _ := domainOf(tensor.F32)
	return n
}

// loseScale adds a loss if the elements of a tensor get another dtype, or become blocks,
// although their numbers depend on a scale in another tensor.
func (p *Plan) loseScale(it *item, from, to string) {
	if it.weight.Scheme != "" {
		return // applied
	}
	q := p.find()
	where := ""
	w := q.byCodes[it.src.Name]
	if w != nil && w.Parts[0].Tensor.DType != it.t.DType {
		w = nil // its codes are decoded
	}
	switch {
	case w != nil && w.Scheme == "gguf-scale" && w.Parts[0].Tensor.Dense():
		return // floats keep their scale
	case w != nil && w.Err != nil:
		p.lose(LossScale, fieldOf(it.src), "%v; %s becomes %s as it is", w.Err, from, to)
		return
	case w != nil:
		where = nameOfScale(w)
	default:
		where = scales(q.stored).of(&it.t)
	}
	if where == "" {
		return
	}
	p.lose(LossScale, fieldOf(it.src), "%s becomes %s, and its scale, %s, is not applied", from,
		to, where)
	if w != nil {
		p.losses[len(p.losses)-1].Option = "Dequantize"
	}
}

// nameOfScale returns the end of the name of the tensor that scales a weight, such as
// *.weight_scale, so that losses of all layers have one reason.
func nameOfScale(w *quant.Weight) string {
	i := slices.IndexFunc(w.Parts, func(x quant.Part) bool { return x.Role == "scale" })
	return endOf(w.Parts[max(i, 0)].Tensor.Name)
}

func endOf(name string) string {
	if dot := strings.LastIndexByte(name, '.'); dot > 0 {
		return "*" + name[dot:]
	}
	return name
}
