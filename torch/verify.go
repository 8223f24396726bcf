package torch

import (
	"context"
	"errors"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/zipfile"
	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
)

// Verify reads all data. A function that Python would call is an error; the other
// Warnings are warnings. It checks the CRC-32 of each member, that bools are 0 or 1, and
// that sparse tensors are valid. A wrong CRC is an error, or a warning if it is 0, which
// torch writes on request. opts may be nil.
func (r *Reader) Verify(ctx context.Context, opts *tensor.VerifyOptions) (*tensor.Report, error) {
	l := format.NewFindings(opts)
	return l.End(r.verify(ctx, l))
}

func (r *Reader) verify(ctx context.Context, l *format.Findings) error {
	for _, g := range r.globals {
		switch {
		case l.Full():
		case g.Code == tensor.CodeRunsCode:
			l.Error(g.err())
		case g.Code != "":
			l.Warn(g.err())
		}
	}
	for _, w := range r.notes.All() {
		l.Warn(w)
	}
	if l.Options.Depth <= tensor.VerifyStructure {
		return nil
	}
	v := verifier{ctx: ctx, list: l}
	if err := v.count(r); err != nil {
		return err
	}
	v.buf = make([]byte, min(v.total+1, 1<<20))
	for _, c := range r.parts {
		if err := v.members(c); err != nil {
			return err
		}
	}
	for i := range r.tensors {
		if err := v.tensor(&r.tensors[i]); err != nil {
			return err
		}
	}
	return nil
}

type verifier struct {
	ctx         context.Context
	list        *format.Findings
	buf         []byte
	done, total int64
}

// count adds up the bytes that will be read. It fails if they exceed the limit.
func (v *verifier) count(r *Reader) error {
	size := r.Size()
	for _, spans := range r.ShardSpans() {
		for s := range spans {
			size += s.Size
		}
	}
	budget := format.NewBudget(r.limits, size)
	add := func(b tensor.Blob) error {
		v.total += max(b.Size(), 0)
		if err := budget.Add(b); err != nil {
			return errs.Wrap(-1, "", err)
		}
		return nil
	}
	for _, c := range r.parts {
		if c.zip == nil {
			continue
		}
		for i := range c.zip.Members {
			if err := add(c.zip.Members[i].Blob(0, "")); err != nil {
				return err
			}
		}
	}
	for i := range r.tensors {
		for b := range format.Blobs(&r.tensors[i]) {
			if err := add(b); err != nil {
				return err
			}
		}
	}
	return nil
}

// members checks the CRC of every member.
func (v *verifier) members(c *checkpoint) error {
	if c.zip == nil {
		return nil
	}
	for i := range c.zip.Members {
		m := &c.zip.Members[i]
		err := v.read(m.Blob(0, ""))
		if e := v.ctx.Err(); e != nil {
			return e
		}
		if err == nil {
			continue
		}
		x := m.Extent()
		err = &tensor.FormatError{Format: formatName, File: c.file, Offset: x.Offset(),
			Field: zipfile.Field(m.File.Name), Err: err}
		if errors.Is(err, tensor.ErrChecksum) && m.File.CRC32 == 0 {
			v.list.Warn(err)
		} else {
			v.list.Error(err)
		}
		if v.list.Full() {
			return nil
		}
	}
	return nil
}

// tensor reads the data of a tensor. A bool that is neither 0 nor 1 is a warning, because
// torch reads it as true.
func (v *verifier) tensor(t *tensor.Tensor) error {
	err := v.read(t.Data)
	if t.DType == tensor.Bool && err == nil {
		_, e := format.ReadBlob(v.ctx, t.Data, tensor.Bool, v.buf, func(int64) {})
		if errors.Is(e, tensor.ErrMalformed) {
			v.list.Warn(errs.Wrap(-1, printable(t.Name), e))
		}
	}
	for i := range t.Parts {
		if err == nil {
			err = v.read(t.Parts[i].Data)
		}
	}
	if err == nil && sparse.Known(t.Scheme) {
		err = sparse.Check(v.ctx, t, nil)
	}
	if e := v.ctx.Err(); e != nil {
		return e
	}
	if err != nil && !errors.Is(err, tensor.ErrChecksum) { // reported for the member
		st, ok := t.Data.Stored()
		if !ok {
			st.Offset = -1
		}
		v.list.Error(&tensor.FormatError{Format: formatName, File: st.File, Offset: st.Offset,
			Field: printable(t.Name), Err: err})
	}
	return nil
}

// read reads all of data.
func (v *verifier) read(data tensor.Blob) error {
	_, err := format.ReadBlob(v.ctx, data, tensor.Unknown, v.buf, func(n int64) {
		if v.done += n; n > 0 && v.list.Options.Progress != nil {
			v.list.Options.Progress(v.done, v.total)
		}
	})
	return err
}
