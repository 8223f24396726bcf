package pte

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/tensor"
)

// Verify answers whether the ExecuTorch runtime would load and run every method of the program: each value, tensor,
// instruction, delegate and segment is looked at, also where the runtime itself does not look and would read elsewhere or
// end the process. It returns nil when there are only warnings, else an error with all findings; see [tensor.Findings].
//
// Warnings are what loads all the same, or loads in some builds only: constants inside the flatbuffer, which builds since
// 2025 refuse, misaligned constants, duplicate names, content of a newer schema, bytes behind the end. With opts.Strict
// they are errors.
//
// Tensors that are kept in a .ptd are held against what opts.External returns for their names; if it is nil they are
// taken on trust. Which operators and backends a runtime has, a file cannot tell.
//
// The format has no digests, so that payloads are not read; the default depth does read the padding between segments,
// and a byte that is not zero there is a warning.
func (r *Reader) Verify(ctx context.Context, opts *tensor.VerifyOptions) (err error) {
	if opts == nil {
		opts = new(tensor.VerifyOptions)
	}
	found := tensor.NewFindingList(opts)
	checked, err := r.checkContext(ctx)
	if err != nil {
		return err
	}
	for _, f := range checked.All() {
		if f.Severity == tensor.SeverityWarning {
			found.Warn(f.Err)
		} else {
			found.Error(f.Err)
		}
	}
	if opts.External != nil {
		if err := r.verifyExternal(ctx, opts.External, found); err != nil {
			return err
		}
	}
	if opts.Depth != tensor.VerifyStructure && checked.Err() == nil { // else nobody knows what is padding
		if err := r.verifyPadding(ctx, opts, found); err != nil {
			return err
		}
	}
	return found.Err()
}

// check is checkContext for those who cannot be interrupted.
func (r *Reader) check() *tensor.FindingList {
	l, _ := r.checkContext(context.Background())
	return l
}

// checkContext looks at all metadata. What it finds is the same at every call and kept.
func (r *Reader) checkContext(ctx context.Context) (*tensor.FindingList, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.checked == nil {
		c := checker{r: r, ctx: ctx, out: tensor.NewFindingList(nil)}
		if err := c.program(); err != nil {
			return nil, err
		}
		r.checked = c.out
	}
	return r.checked, nil
}

// verifyExternal holds tensors that are kept elsewhere against what lookup finds.
func (r *Reader) verifyExternal(ctx context.Context, lookup func(string) *tensor.Tensor, found *tensor.FindingList) error {
	for e := range r.Entries() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !e.External || e.Name == "" {
			continue
		}
		x := lookup(e.Name)
		field := e.Method.field("values[%d].val.extra_tensor_info.fully_qualified_name", e.Value)
		if x == nil {
			found.Error(fail(fs.ErrNotExist, -1, field, "no external tensor %s", tensor.Quote(e.Name)))
			continue
		}
		if err := sameLayout(e.Tensor, x); err != nil {
			found.Error(fail(tensor.ErrMalformed, -1, field, "%v", err))
		}
	}
	return nil
}

// sameLayout says how x, of another file, differs from what the program wants t to be. The runtime does not look at the
// length of the data.
func sameLayout(t, x *tensor.Tensor) error {
	rank := len(t.Shape)
	switch {
	case !x.Dense():
		return fmt.Errorf("external tensor %s is %s, not dense", tensor.Quote(t.Name), tensor.Quote(x.Scheme))
	case x.DType != t.DType:
		return fmt.Errorf("external tensor %s is %v, not %v", tensor.Quote(t.Name), x.DType, t.DType)
	case !x.Shape.Equal(t.Shape):
		return fmt.Errorf("external tensor %s has shape %v, not %v", tensor.Quote(t.Name), x.Shape, t.Shape)
	}
	for i := range rank {
		a, b := i, i
		if t.Order != nil {
			a = t.Order[i]
		}
		if x.Order != nil && i < len(x.Order) {
			b = x.Order[i]
		}
		if a != b {
			return fmt.Errorf("external tensor %s has order %v, not %v", tensor.Quote(t.Name), []int(x.Order), []int(t.Order))
		}
	}
	n, ok := t.Shape.Elements()
	if !ok {
		return fmt.Errorf("external tensor %s: %v is negative or overflows", tensor.Quote(t.Name), t.Shape)
	}
	want, ok := t.DType.Bytes(n)
	if have := x.Data.Size(); ok && have >= 0 && have != want {
		return fmt.Errorf("external tensor %s has %d bytes, not %d", tensor.Quote(t.Name), have, want)
	}
	return nil
}

// verifyPadding reads what lies between the parts of the file.
func (r *Reader) verifyPadding(ctx context.Context, opts *tensor.VerifyOptions, found *tensor.FindingList) error {
	var done, total int64
	for p := range r.Layout() {
		if p.Kind == PartPadding {
			total = addTo(total, p.Size)
		}
	}
	for p := range r.Layout() {
		if p.Kind != PartPadding {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		b, err := r.src.Metadata(p.Offset, p.Size)
		if err != nil {
			found.Error(&tensor.FormatError{Format: "pte", Offset: p.Offset, Err: err})
			if errors.Is(err, fs.ErrClosed) {
				return found.Err()
			}
			continue
		}
		for i, c := range b {
			if c != 0 {
				found.Warn(malformed(p.Offset+int64(i), "padding", "a byte that is not zero"))
				break
			}
		}
		if done = addTo(done, p.Size); opts.Progress != nil {
			opts.Progress(done, total)
		}
	}
	return nil
}

// misaligned reports that a constant is not where its elements could be read in place.
func misaligned(off int64, d tensor.DType) bool {
	return d.Align() > 1 && !align.Is(off, int64(d.Align()))
}
