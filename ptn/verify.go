package ptn

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/jsonheader"
	"github.com/tensorfile/tensorfile/internal/zipfile"
	"github.com/tensorfile/tensorfile/tensor"
)

// Verify checks what Open does not: that each value of a graph is defined before it is
// used and has one definition, that inputs, outputs and buffers have dtypes and shapes,
// that the weights are there and have the dtypes and shapes of the program, the CRC-32 of
// each member, and that bools are 0 or 1. opts may be nil.
//
// The weights of a .ptg are compared with what opts.External returns for their names, if
// it is not nil. Which operators a runtime has is not known.
func (r *Reader) Verify(ctx context.Context, opts *tensor.VerifyOptions) (*tensor.Report, error) {
	l := format.NewFindings(opts)
	return l.End(r.verify(ctx, l))
}

func (r *Reader) verify(ctx context.Context, l *format.Findings) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, err := format.InputOf(&r.Base).ReadAt(nil, 0); err != nil { // it was closed
		return err
	}
	for _, w := range r.Warnings() {
		if jsonheader.IsUnknownDType(w) {
			l.Error(w)
		} else {
			l.Warn(w)
		}
	}
	c := checker{r: r, found: l, lookup: r.Tensor}
	if r.archive == nil {
		c.lookup = l.Options.External
	}
	c.check()
	if r.archive == nil || l.Full() {
		return nil
	}
	known := slices.Collect(maps.Values(dtypes)) // that a program can describe
	for i := range r.owners {
		if t := &r.owners[i]; t.DType.Known() && !slices.Contains(known, t.DType) {
			l.Warn(errs.At(-1, jsonheader.Field(t.Name), errors.ErrUnsupported,
				"%v, for which the runtime refuses the file", t.DType))
		}
	}
	if l.Options.Depth <= tensor.VerifyStructure {
		return nil
	}
	return r.verifyData(ctx, l)
}

// verifyData reads all members, and then bools, to check them.
func (r *Reader) verifyData(ctx context.Context, l *format.Findings) error {
	type part struct {
		tensor.Blob
		dtype tensor.DType
		field string
	}
	var all []part
	for i := range r.archive.Members {
		m := &r.archive.Members[i]
		all = append(all, part{m.Blob(0, ""), tensor.Unknown, zipfile.Field(m.File.Name)})
	}
	for i := range r.owners {
		if t := &r.owners[i]; t.DType == tensor.Bool {
			all = append(all, part{t.Data, t.DType, jsonheader.Field(t.Name)})
		}
	}
	var done, total int64
	for _, p := range all {
		total += p.Size()
	}
	buf := make([]byte, 1<<20)
	for _, p := range all {
		at, err := format.ReadBlob(ctx, p.Blob, p.dtype, buf, func(n int64) {
			if done += n; l.Options.Progress != nil {
				l.Options.Progress(done, total)
			}
		})
		if e := ctx.Err(); e != nil || l.Full() {
			return e
		}
		if st, _ := p.Stored(); err != nil {
			l.Error(&tensor.FormatError{Format: string(errs), Offset: st.Offset + at,
				Field: p.field, Err: err})
		}
	}
	return nil
}
