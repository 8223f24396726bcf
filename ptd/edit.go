package ptd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// An Edit is a changed copy of a file. Names are those of the original, and all changes
// apply at once, when it is written. Remove drops the changes of an entry before it, and
// a later change brings the entry back. An Edit is for one goroutine at a time.
type Edit struct {
	r       *Reader
	changes map[int]change
	added   []Entry
	kept    format.Checksums // of added
}

// A change is what becomes of an entry of the original.
type change struct {
	removed bool
	renamed bool
	name    string // if renamed
	entry   *Entry // what replaces layout and data; nil: nothing
	kept    format.Checksums
}

// NewEdit begins an edition of the file of r, which must stay open until it is written.
func NewEdit(r *Reader) *Edit { return &Edit{r: r, changes: map[int]change{}} }

// update changes what becomes of the entry of that name in the original.
func (e *Edit) update(name string, f func(c *change)) error {
	i := e.r.table.Lookup(name)
	if i < 0 {
		return fmt.Errorf("ptd: %w: no entry %s", tensor.ErrNoTensor, naming.Quote(name))
	}
	c := e.changes[i]
	f(&c)
	e.changes[i] = c
	return nil
}

// Rename gives an entry, tensor or blob, another name, which is not empty. An absent one
// is tensor.ErrNoTensor; that the new name is taken is tensor.ErrDuplicate from Write.
func (e *Edit) Rename(old, new string) error {
	if err := checkNotEmpty(new); err != nil {
		return err
	}
	return e.update(old, func(c *change) { c.removed, c.renamed, c.name = false, true, new })
}

// Remove leaves an entry out.
func (e *Edit) Remove(name string) error {
	return e.update(name, func(c *change) { *c = change{removed: true} })
}

// Replace stores t, whose Name does not matter, in place of an entry. Its Data must
// stay readable until Write, and its memory unchanged: tensor.ErrChecksum.
func (e *Edit) Replace(name string, t *tensor.Tensor) error {
	entry, err := entryOf(t)
	if err != nil {
		return err
	}
	return e.replace(name, &entry)
}

// ReplaceBlob stores bytes without a layout in place of an entry.
func (e *Edit) ReplaceBlob(name string, data tensor.Blob) error {
	return e.replace(name, &Entry{Data: data})
}

func (e *Edit) replace(name string, entry *Entry) error {
	return e.update(name, func(c *change) {
		c.removed, c.entry, c.kept = false, entry, format.Checksums{}
		c.kept.Add(name, entry.Data)
	})
}

// Insert adds an entry after those of the original.
func (e *Edit) Insert(entry Entry) {
	e.added = append(e.added, entry)
	e.kept.Add(entry.Name, entry.Data)
}

// SetAttribute fails with errors.ErrUnsupported: the format has no attributes.
func (e *Edit) SetAttribute(key, value string) error {
	return fmt.Errorf("ptd: %w: the format has no attributes", errors.ErrUnsupported)
}

// RemoveAttribute fails with errors.ErrUnsupported: the format has no attributes.
func (e *Edit) RemoveAttribute(key string) error { return e.SetAttribute(key, "") }

// Entries yields the entries as Write writes them.
func (e *Edit) Entries() iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		for i := range e.r.entries {
			c, changed := e.changes[i]
			if c.removed {
				continue
			}
			entry := e.r.entry(i)
			if changed && c.entry != nil {
				entry.Layout, entry.Data = c.entry.Layout, c.entry.Data
			}
			if c.renamed {
				entry.Name = c.name
			}
			if !yield(entry) {
				return
			}
		}
		for _, entry := range e.added {
			if !yield(entry) {
				return
			}
		}
	}
}

// check reports memory of the caller that has changed since it was handed over.
func (e *Edit) check() error {
	err := e.kept.Check()
	for _, i := range slices.Sorted(maps.Keys(e.changes)) {
		if c := e.changes[i]; err == nil && !c.removed {
			err = c.kept.Check()
		}
	}
	if err != nil {
		return fmt.Errorf("ptd: %w", err)
	}
	return nil
}

// options are opts with the alignment of the original where they have none.
func (e *Edit) options(opts *WriterOptions) *WriterOptions {
	var o WriterOptions
	if opts != nil {
		o = *opts
	}
	o.SegmentAlignment = cmp.Or(o.SegmentAlignment, min(e.r.Alignment(), 1<<20))
	return &o
}

// Write writes the edition to w, which it neither seeks nor closes. Without
// opts.SegmentAlignment the segments keep the alignment that they have.
func (e *Edit) Write(ctx context.Context, w io.Writer, opts *WriterOptions) error {
	if err := e.check(); err != nil {
		return err
	}
	out := NewWriter(w, e.options(opts))
	defer out.Abort()
	if err := out.addEntries(e.Entries()); err != nil {
		return err
	}
	return out.close(ctx)
}

// WriteFile writes the edition as a file, atomically as Create does. name may be that
// of the original.
func (e *Edit) WriteFile(ctx context.Context, name string, opts *WriterOptions) error {
	if err := e.check(); err != nil {
		return err
	}
	return WriteEntries(ctx, name, e.Entries(), e.options(opts))
}
