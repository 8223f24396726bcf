package primitiv

import (
	"bytes"
	"context"
	"fmt"

	"github.com/tensorfile/tensorfile/internal/finding"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/internal/scan"
	"github.com/tensorfile/tensorfile/tensor"
)

// Verify reads everything, and notes what Warnings has. The format has no checksums:
// payloads are only read. With VerifyCanonical the file is also compared with what a
// Writer makes of its content, which is what the reference would write, but for the order
// of statistics and settings, which is free.
func (r *Reader) Verify(ctx context.Context, opts *tensor.VerifyOptions) (*tensor.Report, error) {
	l := finding.NewList(opts)
	return l.End(r.verify(ctx, l))
}

func (r *Reader) verify(ctx context.Context, found *finding.List) error {
	for _, w := range r.warnings.All() {
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
		c := &comparer{r: r}
		if err := NewEdit(r).Write(ctx, c, nil); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			found.Error(err)
		} else if c.off < r.src.Size()-r.trailing {
			found.Error(c.differs(c.off))
		}
	}
	return nil
}

// readAll reads the payloads.
func (r *Reader) readAll(ctx context.Context, found *finding.List) error {
	s := scan.New(ctx, format, r.src, found)
	for _, e := range r.entries {
		s.Total += e.Size()
	}
	for _, e := range r.entries {
		field := "data of " + quote.Name(e.tensor.Name)
		if err := s.Read(e.Offset(), e.Offset()+e.Size(), field, nil); err != nil || found.Full() {
			return err
		}
	}
	return nil
}

// A comparer is an io.Writer that expects the bytes of a file.
type comparer struct {
	r   *Reader
	off int64
	buf []byte
}

func (c *comparer) Write(p []byte) (int, error) {
	if c.buf == nil {
		c.buf = make([]byte, 64<<10)
	}
	for n := 0; n < len(p); {
		want := p[n:min(len(p), n+len(c.buf))]
		have := c.buf[:min(int64(len(want)), c.r.src.Size()-c.off)]
		if _, err := c.r.src.ReadAt(have, c.off); err != nil {
			return n, err
		}
		if !bytes.Equal(have, want) {
			at := 0
			for at < len(have) && have[at] == want[at] {
				at++
			}
			return n, c.differs(c.off + int64(at))
		}
		n += len(want)
		c.off += int64(len(want))
	}
	return len(p), nil
}

func (c *comparer) differs(off int64) error {
	return &tensor.FormatError{Format: format, Offset: off,
		Err: fmt.Errorf("%w: from here on not the bytes that primitiv writes for this content",
			tensor.ErrMalformed)}
}
