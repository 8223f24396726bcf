package ptn

import (
	"context"
	"errors"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/jsonheader"
	"github.com/tensorfile/tensorfile/internal/zipfile"
	"github.com/tensorfile/tensorfile/tensor"
)

// Verify checks what Open does not: that each value of a graph is defined before it is
// used and has one definition, that inputs, outputs and buffers have dtypes and shapes,
// that the weights are there and are what the program says, the CRC-32 of each member,
// and that bools are 0 or 1. opts may be nil.
//
// The weights of a .ptg are compared with what opts.External returns for their names,
// if it is not nil. Which operators a runtime has is not known.
func (r *Reader) Verify(ctx context.Context, opts *tensor.VerifyOptions) (*tensor.Report, error) {
	l := format.NewFindings(opts)
	return l.End(r.verify(ctx, l))
}

func (r *Reader) verify(ctx context.Context, l *format.Findings) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, err := r.src.ReadAt(nil, 0); err != nil { // it was closed
		return err
	}
	for _, w := range r.warnings.All() {
		if jsonheader.IsUnknownDType(w) {
			l.Error(w)
		} else {
			l.Warn(w)
		}
	}
	c := checker{program: r.program, found: l, lookup: r.Tensor}
	if r.archive == nil {
		c.lookup = l.Options.External
	}
	c.check()
	if r.archive == nil || l.Full() {
		return nil
	}
	r.verifyDTypes(l)
	if l.Options.Depth <= tensor.VerifyStructure {
		return nil
	}
	return r.verifyData(ctx, l)
}

// verifyDTypes reports weights that a program cannot describe.
func (r *Reader) verifyDTypes(l *format.Findings) {
	known := map[tensor.DType]bool{tensor.Unknown: true} // has its own error
	for _, d := range dtypes {
		known[d] = true
	}
	for i := range r.owners {
		t := &r.owners[i]
		if !known[t.DType] {
			l.Warn(errs.At(-1, jsonheader.Field(t.Name)+".dtype", errors.ErrUnsupported,
				"%v, for which the runtime refuses the file", t.DType))
		}
		if n := t.Data.Size(); n > maxBytes {
			l.Warn(errs.At(-1, jsonheader.Field(t.Name), tensor.ErrLimit,
				"%d bytes, the runtime's limit is %d", n, int64(maxBytes)))
		}
	}
}

// verifyData reads all members, and then bools, to check them.
func (r *Reader) verifyData(ctx context.Context, l *format.Findings) error {
	var done, total int64
	buf := make([]byte, 1<<20)
	read := func(b tensor.Blob, d tensor.DType, off int64, field string) error {
		at, err := format.ReadBlob(ctx, b, d, buf, func(n int64) {
			if done += n; l.Options.Progress != nil {
				l.Options.Progress(done, total)
			}
		})
		if err != nil && ctx.Err() == nil {
			l.Error(&tensor.FormatError{Format: string(errs), Offset: off + at, Field: field,
				Err: err})
		}
		return ctx.Err()
	}
	members, owners := r.archive.Members, r.owners
	for i := range members {
		total += members[i].Size()
	}
	for i := range owners {
		if owners[i].DType == tensor.Bool {
			total += owners[i].Data.Size()
		}
	}
	for i := range members {
		m := &members[i]
		x := m.Extent()
		err := read(m.Blob(0, ""), tensor.Unknown, x.Offset(), zipfile.Field(m.File.Name))
		if err != nil || l.Full() {
			return err
		}
	}
	for i := range owners {
		if t := &owners[i]; t.DType == tensor.Bool {
			st, _ := t.Data.Stored()
			if err := read(t.Data, t.DType, st.Offset, jsonheader.Field(t.Name)); err != nil ||
				l.Full() {
				return err
			}
		}
	}
	return nil
}
