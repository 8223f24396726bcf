package convert

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/tensor"
)

// WriteFile writes the plan to the file of that name, which appears whole or not at all.
// It replaces an existing file. It fails as Write does.
func (p *Plan) WriteFile(ctx context.Context, name string) error {
	if err := p.Err(); err != nil {
		return err
	}
	return atomicfile.Write(name, func(w io.Writer) error { return p.Write(ctx, w) })
}

// Write writes the converted file to w, which it neither seeks nor closes. If a loss is
// not allowed, it fails with a *LossError before it writes a byte. After another error,
// such as a wrong digest of the source or tensor.ErrOverflow, w has a part of the file.
// Write ends soon after ctx does. If w has a method Reserve(bytes int64), it is called
// first, with an estimate of the size.
func (p *Plan) Write(ctx context.Context, w io.Writer) error {
	if err := p.Err(); err != nil {
		return err
	}
	if err := p.checkDecoded(); err != nil {
		return err
	}
	if r, ok := w.(interface{ Reserve(bytes int64) }); ok {
		r.Reserve(p.size())
	}
	var progress func(done int64)
	total := p.size()
	if p.opts.Progress != nil {
		progress = func(done int64) {
			total = max(done, total)
			p.opts.Progress(done, total)
		}
	}
	err := p.write(ctx, format.Counted(ctx, w, progress))
	if err == nil && p.opts.Progress != nil { // the estimate was too large
		p.opts.Progress(total, total)
	}
	// The cause of ctx is the error, not that it was cancelled.
	if cause := context.Cause(ctx); cause != nil &&
		(err == nil || errors.Is(err, context.Canceled)) {
		err = cause
	}
	return fromSource(err)
}

// fromSource returns the error of the source that is in an error of the writer: both have
// the name of the tensor.
func fromSource(err error) error {
	var ofValue *valueError
	if errors.As(err, &ofValue) {
		err = ofValue.error
	}
	var placed *tensor.FormatError
	for inner := err; errors.As(inner, &placed); inner = placed.Err {
		err = placed // the innermost has the place in the source
	}
	return err
}

// checkDecoded fails if the sources declare more decoded bytes than the limit.
func (p *Plan) checkDecoded() error {
	size := int64(0)
	for _, f := range p.files {
		n := f.TotalSize()
		if n == 0 { // tensors that are in no file: the size is not known
			size = 0
			break
		}
		size += n
	}
	err := format.CheckDecoded(p.opts.Limits, size, func(yield func(tensor.Blob) bool) {
		for i := range p.items {
			for b := range format.Blobs(p.items[i].src) {
				if !yield(b) {
					return
				}
			}
		}
	})
	if err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	return nil
}

func (p *Plan) write(ctx context.Context, w io.Writer) error {
	if p.rewrite != nil {
		return p.rewrite(ctx, w)
	}
	out, err := p.writer(w)
	if err != nil {
		return err
	}
	defer out.Abort() // does nothing after Close
	if err := p.add(ctx, out); err != nil {
		return err
	}
	for _, b := range p.blobs {
		if err := addBlob(out, b.name, b.data); err != nil {
			return err
		}
	}
	return out.Close()
}
