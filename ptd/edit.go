package ptd

import (
	"cmp"
	"context"
	"io"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/tensor"
)

// An Edit is a list of changes to a file, with the methods of every Edit: Rename, Remove
// and Replace. Names are the names in the Reader, and all changes apply at once, so that
// two names can be swapped. Without changes it makes a copy with today's tables. The
// Reader must stay open until the file is written.
type Edit struct {
	format.Edit
	format.NoAttributes
	r *Reader
}

// NewEdit begins a list of changes to the file of r.
func NewEdit(r *Reader) *Edit {
	check := func(t *tensor.Tensor) error {
		_, err := itemOf(t)
		return err
	}
	return &Edit{format.NewEdit(errs, &r.Base, check), format.NoAttributes{Format: errs}, r}
}

// Replace stores the dtype, shape and data of t, whose name is not used, in place of a
// tensor or a blob. Its data must stay readable until the file is written, and its memory
// unchanged: tensor.ErrChecksum. It fails with tensor.ErrNoTensor if the original has
// neither, and as Check of a Writer does.
func (e *Edit) Replace(name string, t *tensor.Tensor) error {
	return format.ReplaceEntry(&e.Edit, name, t)
}

// Write writes the changed file to w, its entries in the order of the original. Without
// opts.SegmentAlignment the segments have the alignment of the original. It fails with
// tensor.ErrDuplicate if two entries have the same name.
func (e *Edit) Write(ctx context.Context, w io.Writer, opts *WriterOptions) error {
	out := format.NewWriter(w, e.encoding(opts))
	return e.apply(ctx, &out)
}

// WriteFile writes the changed file as the file of that name, which appears whole or not
// at all. It may be the file that the Reader has open.
func (e *Edit) WriteFile(ctx context.Context, name string, opts *WriterOptions) error {
	out, err := format.Create(name, e.encoding(opts))
	if err != nil {
		return err
	}
	return e.apply(ctx, &out)
}

func (e *Edit) encoding(opts *WriterOptions) *format.Encoding[item] {
	var o WriterOptions
	if opts != nil {
		o = *opts
	}
	o.SegmentAlignment = cmp.Or(o.SegmentAlignment, min(e.r.Alignment(), 1<<20))
	return o.encoding()
}

// apply writes tensors and blobs in the order in which the file has them.
func (e *Edit) apply(ctx context.Context, out *format.Writer[item]) error {
	order, tensors, blobs := make([]int, len(e.r.entries)), 0, 0
	at := make(map[int]int, len(order)) // the entry of a tensor, or of blob -1-i
	for i := range order {
		if e.r.entries[i].isTensor {
			order[i] = tensors
			tensors++
		} else {
			blobs++
			order[i] = -blobs
		}
		at[order[i]] = i
	}
	return format.Apply(ctx, &e.Edit, out, order, func(i int, name string) (item, error) {
		x := e.r.entry(at[i])
		x.Name = name
		return item{Entry: x}, nil
	})
}
