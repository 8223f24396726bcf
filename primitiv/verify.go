package primitiv

import (
	"context"
	"io"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// Verify reads everything, and notes what Warnings has. The format has no checksums:
// payloads are only read. With VerifyCanonical the file is also compared with the file
// that a Writer makes of its content. The reference would write the same, but for the
// order of statistics and settings, which is free.
func (r *Reader) Verify(ctx context.Context, opts *tensor.VerifyOptions) (*tensor.Report, error) {
	l := format.NewFindings(opts)
	return l.End(r.verify(ctx, l))
}

func (r *Reader) verify(ctx context.Context, found *format.Findings) error {
	for _, w := range r.Warnings() {
		found.Warn(w)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if found.Options.Depth > tensor.VerifyStructure {
		if err := r.readAll(ctx, found); err != nil {
			return err
		}
	}
	if found.Options.Depth >= tensor.VerifyCanonical && found.Err() == nil {
		in := format.InputOf(&r.Base)
		c := &format.Comparer{R: io.NewSectionReader(in, 0, in.Size())}
		err := NewEdit(r).Write(ctx, c, nil)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case c.Differs, err == nil && c.Same < in.Size():
			found.Error(errs.Malformed(c.Same, "",
				"from here on not the bytes that primitiv writes for this content"))
		case err != nil:
			found.Error(err)
		}
	}
	return nil
}

// readAll reads the payloads.
func (r *Reader) readAll(ctx context.Context, found *format.Findings) error {
	s := format.NewScanner(ctx, string(errs), format.InputOf(&r.Base).Source, found)
	for _, e := range r.entries {
		s.Total += e.Size()
	}
	for _, e := range r.entries {
		field := "data of " + naming.Quote(e.tensor.Name)
		if err := s.Read(e.Offset(), e.Offset()+e.Size(), field, nil); err != nil || found.Full() {
			return err
		}
	}
	return nil
}
