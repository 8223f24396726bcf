package rten

import (
	"context"
	"errors"
	"io"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/tensor"
)

// verify returns what Verify reports of the model, warnings too. Constants in the model
// are part of a file of version 1, so that it is asked for as one of version 2 as well.
func (g *GraphBuilder) verify(ctx context.Context, o WriterOptions) error {
	o.Version, o.InlineElements = "2", -1
	l, err := g.encode(o)
	if err != nil {
		return err
	}
	r, err := NewReader(l, l.size, &ReaderOptions{Limits: tensor.Limits{MaxMetadata: maxModel}})
	if err != nil {
		return err
	}
	found := format.NewFindings(&tensor.VerifyOptions{Strict: true})
	for err := range r.model.departures() {
		if !(o.Unlimited && errors.Is(err, tensor.ErrLimit)) {
			found.Warn(err)
		}
	}
	if err := r.model.verifyGraphs(ctx, found); err != nil {
		return err
	}
	return found.Err()
}

// ReadAt reads the file, with zeros in place of data that is not in memory.
func (l *layout) ReadAt(p []byte, off int64) (n int, err error) {
	if int64(len(p)) > l.size-off {
		p, err = p[:max(l.size-off, 0)], io.EOF
	}
	clear(p)
	for _, x := range l.pieces {
		b, ok := x.Data.Memory()
		if from := off - x.Off; ok && from < int64(len(b)) && from > -int64(len(p)) {
			copy(p[max(-from, 0):], b[max(from, 0):])
		}
	}
	return len(p), err
}
