package pte

import (
	"context"
	"fmt"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// Verify reports whether the ExecuTorch runtime would load and run every method of the
// program. It checks each value, tensor, instruction, delegate and segment, including
// what the runtime does not check before it reads wrong bytes or ends the process. It
// does not know which operators and backends a runtime has.
//
// A warning is a deviation that the runtime, or some builds of it, accepts: constants
// inside the flatbuffer, which builds since 2025 refuse, misaligned constants, duplicate
// names, content of a newer schema, bytes after the end. With opts.Strict warnings are
// errors.
//
// If opts.External is not nil, external tensors are compared with the tensors that it
// returns. The format has no digests, so payloads are not read. The default depth reads
// the padding between segments, VerifyCanonical also the padding between constants, and
// warns of bytes that are not zero.
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
	for _, f := range r.checked.All() { // from opening
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
		return nil // in a damaged file padding cannot be told from data
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

// CheckExternal checks that t, from another file, can be the external tensor x: it must
// have the dtype, shape, order and size that the program requires. The error is a
// *tensor.FormatError with Code tensor.CodeMissingWeights if t is nil, else
// tensor.CodeWeightsMismatch.
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

// checkLayout checks that t has the dtype, shape, order and size of want. The runtime
// does not check the size.
func checkLayout(want, t *tensor.Tensor) error {
	name := naming.Quote(want.Name)
	switch {
	case !t.Dense():
		return fmt.Errorf("external tensor %s is %s, not dense", name, naming.Quote(t.Scheme))
	case t.DType != want.DType || !t.Shape.Equal(want.Shape) || !want.Order.Equal(t.Order):
		return fmt.Errorf("external tensor %s is %v%v, order %v, not %v%v, order %v", name,
			t.DType, t.Shape, []int(t.Order), want.DType, want.Shape, []int(want.Order))
	}
	n, ok := want.Shape.Elements()
	if !ok {
		return fmt.Errorf("external tensor %s: %v is negative or overflows", name, want.Shape)
	}
	size, ok := want.DType.Bytes(n)
	if have := t.Data.Size(); ok && have >= 0 && have != size {
		return fmt.Errorf("external tensor %s has %d bytes, not %d", name, have, size)
	}
	return nil
}

// longestPadding bounds the padding that is read. A gap that is longer than any alignment
// in use may be the hole of a sparse file.
const longestPadding = 16384

// verifyPadding reads the padding between the flatbuffer and the segments, and at
// VerifyCanonical also between the constants of a segment.
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
		for _, s := range r.segments { // segments out of order have their warning
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
