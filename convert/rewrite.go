package convert

import (
	"context"
	"io"
	"iter"
	"slices"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/rten"
	"github.com/tensorfile/tensorfile/tensor"
)

// planRewrite sets Plan.rewrite if the package of the format writes the whole file.
func (p *Plan) planRewrite(ctx context.Context) error {
	if p.opts.Map != nil {
		return nil
	}
	if shards := ggufShards(p.files); len(shards) > 0 {
		if _, _, err := gguf.Merge(shards...); err != nil {
			return err // they do not belong together, whatever the target
		}
	}
	if p.row.rewrite == nil {
		return nil
	}
	return p.row.rewrite(ctx, p)
}

// rewriteRTen writes a whole model, operators included.
func rewriteRTen(_ context.Context, p *Plan) error {
	r, ok := p.files[0].Sys().(*rten.Reader)
	if !ok || len(p.files) > 1 {
		return nil
	}
	e := rten.NewEdit(r)
	for k := range r.Attributes() {
		if !p.isWanted(k) {
			if err := e.RemoveAttribute(k); err != nil {
				return err
			}
		}
	}
	p.rewrite = func(ctx context.Context, w io.Writer) error {
		o := writerOptions[rten.WriterOptions](p)
		return e.Write(ctx, w, &o)
	}
	return nil
}

// mergeGGUF joins the shards of a model as gguf-split does.
func mergeGGUF(_ context.Context, p *Plan) error {
	shards := ggufShards(p.files)
	if len(shards) == 0 || p.opts.Dequantize != tensor.Unknown || p.opts.Quantize != nil {
		return nil
	}
	metadata, ts, err := gguf.Merge(shards...)
	if err != nil {
		return err
	}
	metadata = slices.DeleteFunc(metadata, func(kv gguf.KeyValue) bool {
		err := p.checker.checkAttribute(kv.Key, kv.Value, false)
		if err != nil {
			p.lose(LossAttributes, "attributes["+naming.Quote(kv.Key)+"]", "%v", err)
		}
		return err != nil || !p.isWanted(kv.Key)
	})
	p.rewrite = func(ctx context.Context, w io.Writer) error {
		gw := gguf.NewWriter(w, &gguf.WriterOptions{Metadata: metadata})
		if err := gw.AddAll(ctx, ts); err != nil {
			return err
		}
		return gw.Close()
	}
	return nil
}

// mergePTD writes what several files have under the same name once, if it is equal.
func mergePTD(ctx context.Context, p *Plan) error {
	var all []iter.Seq[ptd.Entry]
	for _, f := range p.files {
		if r, ok := f.Sys().(*ptd.Reader); ok {
			all = append(all, r.Entries())
		}
	}
	if len(all) < 2 || len(all) < len(p.files) || p.opts.Dequantize != tensor.Unknown {
		return nil
	}
	entries, err := ptd.Merge(ctx, all...)
	o := writerOptions[ptd.WriterOptions](p)
	if o.SegmentAlignment == 0 {
		o = *ptdLike(p.files[0].Sys().(*ptd.Reader))
	}
	p.rewrite = func(_ context.Context, w io.Writer) error { return writeEntries(w, entries, &o) }
	return err
}

// ggufShards returns the Readers of several .gguf files if one is a shard of a split
// model.
func ggufShards(files []*tensorfile.File) (shards []*gguf.Reader) {
	isSplit := false
	for _, f := range files {
		r, ok := f.Sys().(*gguf.Reader)
		if !ok || len(files) == 1 {
			return nil
		}
		_, _, isShard := r.Split()
		isSplit = isSplit || isShard
		shards = append(shards, r)
	}
	if !isSplit {
		return nil
	}
	return shards
}

// rewritten yields the tensors of the sources, one of each name where there are several.
func (p *Plan) rewritten() iter.Seq[*tensor.Tensor] {
	return func(yield func(*tensor.Tensor) bool) {
		seen := map[string]bool{}
		for _, f := range p.files {
			for t := range f.Tensors() {
				if len(p.files) > 1 && seen[t.Name] {
					continue
				}
				if seen[t.Name] = true; !yield(t) {
					return
				}
			}
		}
	}
}
