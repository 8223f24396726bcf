package tensorfile

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// An Edit changes names and attributes of a file of any format, and keeps everything
// else. Names are the names in the original, so that two tensors can swap names. A change
// that the format does not support fails with errors.ErrUnsupported.
type Edit interface {
	Rename(old, new string) error
	Remove(name string) error
	RenameBlob(old, new string) error
	RemoveBlob(name string) error
	SetAttribute(key, value string) error
	// RemoveAttribute removes an attribute. One that is absent is no error.
	RemoveAttribute(key string) error
	// Write writes the changed file, in the layout and version of the original.
	Write(ctx context.Context, w io.Writer) error
	// Sys returns the Edit of the format, such as *ptd.Edit.
	Sys() any
}

// NewEdit begins a list of changes to an open file. It fails with errors.ErrUnsupported
// for formats that are not edited.
func NewEdit(f *File) (Edit, error) {
	row, what := f.format.row(), "files are not edited"
	switch {
	case row.edit == nil:
	case row.is(f.r):
		return row.edit(f.r), nil
	default: // f is several of them
		what = "files are edited one by one"
	}
	return nil, fmt.Errorf("tensorfile: %w: %v %s", errors.ErrUnsupported, f.Format(), what)
}

// A formatEdit is the Edit of a format, which has Write with options of its own too.
type formatEdit interface {
	Rename(old, new string) error
	Remove(name string) error
	SetAttribute(key, value string) error
	RemoveAttribute(key string) error
}

// An edit makes an Edit of a formatEdit.
type edit struct {
	formatEdit
	write func(ctx context.Context, w io.Writer) error
}

// edits completes the row of a format that a package edits.
func edits[R Reader, O any, E interface {
	formatEdit
	Write(ctx context.Context, w io.Writer, opts *O) error
}](newEdit func(R) E, row formatRow) formatRow {
	row.edit = func(r Reader) Edit {
		e := newEdit(r.(R))
		return edit{e, func(ctx context.Context, w io.Writer) error {
			return e.Write(ctx, w, nil)
		}}
	}
	return row
}

func (e edit) Write(ctx context.Context, w io.Writer) error { return e.write(ctx, w) }

func (e edit) Sys() any { return e.formatEdit }

// RenameBlob is Rename where blobs and tensors share their names.
func (e edit) RenameBlob(old, new string) error {
	if b, ok := e.formatEdit.(interface{ RenameBlob(old, new string) error }); ok {
		return b.RenameBlob(old, new)
	}
	return e.Rename(old, new)
}

// RemoveBlob is Remove where blobs and tensors share their names.
func (e edit) RemoveBlob(name string) error {
	if b, ok := e.formatEdit.(interface{ RemoveBlob(name string) error }); ok {
		return b.RemoveBlob(name)
	}
	return e.Remove(name)
}
