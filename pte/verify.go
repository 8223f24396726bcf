package pte

import (
	"context"
	"fmt"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// Verify reports whether the ExecuTorch runtime would load and run every method of the
// program: each value, tensor, instruction, delegate and segment is checked, also where
// the runtime itself does not check and would read other bytes or end the process.
//
// Warnings are what loads nevertheless, or loads in some builds only: constants inside
// the flatbuffer, which builds since 2025 refuse, misaligned constants, duplicate names,
// content of a newer schema, bytes after the end. With opts.Strict they are errors.
//
// External tensors are compared with what opts.External returns for their names, if it is
// not nil. Which operators and backends a runtime has is not known.
//
// The format has no digests, so that payloads are not read; the default depth does read
// the padding between segments, VerifyCanonical that between constants as well, and a
// byte that is not zero there is a warning.
func (r *Reader) Verify(ctx context.Context, opts *tensor.VerifyOptions) (*tensor.Report, error) {
	l := format.NewFindings(opts)
	return l.End(r.verify(ctx, l))
}

func (r *Reader) verify(ctx context.Context, found *format.Findings) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, err := r.in.ReadAt(nil, 0); err != nil { // it was closed
		return err
	}
	for _, f := range r.checked.All() { // when the program was opened
		if f.Severity == tensor.SeverityWarning {
			found.Warn(f.Err)
		} else {
			found.Error(f.Err)
		}
	}
	if found.Options.External != nil {
		if err := r.verifyExternal(ctx, found); err != nil {
			return err
		}
	}
	if found.Options.Depth <= tensor.VerifyStructure || r.checked.Err() != nil {
		return nil // of a damaged file nobody knows what is padding
	}
	return r.verifyPadding(ctx, found)
}

// verifyExternal compares external tensors with what Options.External returns.
func (r *Reader) verifyExternal(ctx context.Context, found *format.Findings) error {
	for e := range r.Entries() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !e.External || e.Name == "" {
			continue
		}
		if err := e.CheckExternal(found.Options.External(e.Name)); err != nil {
			found.Error(err)
		}
	}
	return nil
}

// CheckExternal reports whether t, from another file, can be the external tensor x: it
// must have the dtype, the shape and the order that the program requires, and all its
// bytes. The error is a *tensor.FormatError, whose Code is tensor.CodeMissingWeights if t
// is nil, else tensor.CodeWeightsMismatch.
func (x *Entry) CheckExternal(t *tensor.Tensor) error {
	code, err := tensor.CodeMissingWeights, error(nil)
	if t == nil {
		err = fmt.Errorf("%w: no external tensor %s, %v%v", tensor.ErrNoTensor,
			naming.Quote(x.Name), x.DType, x.Shape)
	} else if e := checkLayout(x.Tensor, t); e != nil {
		code, err = tensor.CodeWeightsMismatch, fmt.Errorf("%w: %w", tensor.ErrMalformed, e)
	}
	if err == nil {
		return nil
	}
	field := x.Method.Value(x.Value).path() + ".extra_tensor_info.fully_qualified_name"
	return &tensor.FormatError{Format: "pte", Offset: -1, Field: field, Code: code, Err: err}
}

// checkLayout returns how x differs from t, which it is to stand for. The runtime does not
// check the length of the data.
func checkLayout(t, x *tensor.Tensor) error {
	name := naming.Quote(t.Name)
	switch {
	case !x.Dense():
		return fmt.Errorf("external tensor %s is %s, not dense", name, naming.Quote(x.Scheme))
	case x.DType != t.DType || !x.Shape.Equal(t.Shape) || !t.Order.Equal(x.Order):
		return fmt.Errorf("external tensor %s is %v%v, order %v, not %v%v, order %v", name,
			x.DType, x.Shape, []int(x.Order), t.DType, t.Shape, []int(t.Order))
	}
	n, ok := t.Shape.Elements()
	if !ok {
		return fmt.Errorf("external tensor %s: %v is negative or overflows", name, t.Shape)
	}
	size, ok := t.DType.Bytes(n)
	if have := x.Data.Size(); ok && have >= 0 && have != size {
		return fmt.Errorf("external tensor %s has %d bytes, not %d", name, have, size)
	}
	return nil
}

// A gap that is longer than any alignment in use may be the hole of a sparse file.
const longestPadding = 16384

// verifyPadding reads what is between flatbuffer and segments, and, for the canonical
// form, also between the constants of a segment.
func (r *Reader) verifyPadding(ctx context.Context, found *format.Findings) error {
	var gaps []extent
	scanner := format.NewScanner(ctx, "pte", r.in.Source, found)
	add := func(off, size int64) {
		if size > 0 && size <= longestPadding {
			gaps = append(gaps, extent{off, size})
			scanner.Total += size
		}
	}
	if found.Options.Depth >= tensor.VerifyCanonical {
		for s := range r.Spans() {
			if s.Kind == tensor.SpanPadding {
				add(s.Offset, s.Size)
			}
		}
	} else if r.header.SegmentBase > 0 {
		at := r.at + r.header.ProgramSize
		for _, s := range r.segments { // those out of order have their warning
			if s.size > 0 {
				add(at, s.off-at)
				at = max(at, s.off+s.size)
			}
		}
	}
	for _, g := range gaps {
		at, err := scanner.NonZero(g.off, g.off+g.size, "padding")
		if err != nil {
			return err
		}
		if at >= 0 {
			found.Warn(errs.Malformed(at, "padding", "a byte that is not zero"))
		}
	}
	return nil
}
