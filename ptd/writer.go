package ptd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// Dedup says which entries share a segment.
type Dedup uint8

const (
	// DedupIdentity, the default, lets entries share whose Data is the same memory or the
	// same source, such as entries of a file that share a segment there.
	DedupIdentity Dedup = iota
	// DedupNone gives every entry a segment.
	DedupNone
	// DedupSHA256 lets entries of equal bytes share. Data of equal length is read
	// twice: to be hashed, and to be written.
	DedupSHA256
)

// Parity asks for the bytes that one of ExecuTorch's writers makes of the same entries.
// What ExecuTorch does not check is then not checked either: layouts, sizes, alignments.
type Parity uint8

const (
	// ParityNone, the default, writes what both readers accept and improves on the
	// reference: Alignment holds in the file and not only from the first segment on,
	// for all names of a segment and not only the first.
	ParityNone Parity = iota
	// ParityPython follows the serializer in Python, which exporters use.
	ParityPython
	// ParityCPP follows save_ptd, as g++ builds it: sorted names, no sharing, no blobs,
	// SegmentAlignment alone.
	ParityCPP
)

// WriterOptions control what a Writer makes. nil is the zero value.
type WriterOptions struct {
	// SegmentAlignment aligns the segments, in bytes; a power of two, 0 for
	// ExecuTorch's 128.
	SegmentAlignment int64
	// Alignment is that of every tensor, and of every blob that has none of its own; a
	// power of two, 0 for none beyond SegmentAlignment.
	Alignment int64
	// Dedup says which entries share a segment.
	Dedup Dedup
	// Sorted writes the entries in the order of their names, bytewise, in place of the
	// order in which they were added.
	Sorted bool
	// Parity asks for the bytes of one of ExecuTorch's own writers.
	Parity Parity
}

// A Writer makes a .ptd file. The index comes first in the file, so that Add only
// registers, and Close reads and writes all data. It is for one goroutine at a time.
type Writer struct {
	w       io.Writer
	file    *atomicfile.File // nil if w is the caller's
	opts    WriterOptions
	entries []Entry
	names   map[string]struct{}
	kept    format.Checksums
	done    bool
	err     error // of Close, or of bad options
}

// NewWriter writes to w, which stays the caller's; it never seeks. Whatever Close
// returns, w then has part of a file at most.
func NewWriter(w io.Writer, opts *WriterOptions) *Writer {
	out := &Writer{w: w, names: map[string]struct{}{}}
	if opts != nil {
		out.opts = *opts
	}
	out.opts.SegmentAlignment = cmp.Or(out.opts.SegmentAlignment, 128)
	out.err = out.opts.check()
	return out
}

// Create writes a file that appears under its name, whole, when Close succeeds, in
// place of what is there; before that, and after an error, there is nothing new.
func Create(name string, opts *WriterOptions) (*Writer, error) {
	w := NewWriter(nil, opts)
	if w.err != nil {
		return nil, w.err
	}
	f, err := atomicfile.Create(name)
	if err != nil {
		return nil, err
	}
	w.w, w.file = f, f
	return w, nil
}

func (o *WriterOptions) check() error {
	if err := o.aligned(o.SegmentAlignment); err != nil {
		return fmt.Errorf("ptd: segments: %w", err)
	}
	if err := o.aligned(o.Alignment); err != nil {
		return fmt.Errorf("ptd: tensors: %w", err)
	}
	if o.Dedup > DedupSHA256 || o.Parity > ParityCPP {
		return fmt.Errorf("ptd: WriterOptions: no such Dedup or Parity: %d, %d", o.Dedup, o.Parity)
	}
	return nil
}

// aligned checks an alignment that was asked for. The least common multiple of powers
// of two is the largest of them; of other numbers it could be beyond any file.
func (o *WriterOptions) aligned(a int64) error {
	const limit = 1 << 30
	switch {
	case a < 0 || a > limit:
		return fmt.Errorf("alignment %d is not between 1 and %d", a, limit)
	case o.Parity == ParityNone && a&(a-1) != 0:
		return fmt.Errorf("alignment %d is not a power of two", a)
	}
	return nil
}

// Add registers a dense tensor: Close reads its Data, so it must stay readable until then
// and unchanged. What is in memory is hashed, and a change of it is tensor.ErrChecksum in
// Close.
func (w *Writer) Add(t *tensor.Tensor) error {
	e, err := entryOf(t)
	if err == nil {
		err = w.named(e)
	}
	return err
}

func entryOf(t *tensor.Tensor) (Entry, error) {
	if t != nil && t.External {
		return Entry{}, fmt.Errorf("ptd: %w: the data of tensor %s is external",
			errors.ErrUnsupported, naming.Quote(t.Name))
	}
	l, err := LayoutOf(t)
	if err != nil {
		return Entry{}, fmt.Errorf("ptd: %w", err)
	}
	return Entry{Name: t.Name, Layout: l, Data: t.Data}, nil
}

// named registers an entry that is not one of a file, and that a program shall find.
func (w *Writer) named(e Entry) error {
	if err := w.checkNamed(e); err != nil {
		return err
	}
	return w.AddEntry(e)
}

func (w *Writer) checkNamed(e Entry) error {
	if err := checkNotEmpty(e.Name); err != nil {
		return err
	}
	return w.CheckEntry(e)
}

// checkNotEmpty refuses the name that no program asks for.
func checkNotEmpty(name string) error {
	if name == "" {
		return fmt.Errorf("ptd: entry %s: %w: an empty name", naming.Quote(name),
			errors.ErrUnsupported)
	}
	return nil
}

// AddAll adds what ts yields.
func (w *Writer) AddAll(ctx context.Context, ts iter.Seq2[*tensor.Tensor, error]) error {
	for t, err := range ts {
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
		if err := w.Add(t); err != nil {
			return err
		}
	}
	return nil
}

// AddBlob registers an entry without a layout.
func (w *Writer) AddBlob(name string, data tensor.Blob) error {
	return w.named(Entry{Name: name, Data: data})
}

// AddEntry registers an entry as it is: from a Reader, with an Alignment, or with more
// data than its layout needs. Its name may be empty, which Add and AddBlob refuse.
func (w *Writer) AddEntry(e Entry) error {
	if err := w.CheckEntry(e); err != nil {
		return err
	}
	w.names[e.Name] = struct{}{}
	w.kept.Add(e.Name, e.Data)
	w.entries = append(w.entries, e)
	return nil
}

// Check reports whether Add would accept a tensor. It reads no data.
func (w *Writer) Check(t *tensor.Tensor) error {
	e, err := entryOf(t)
	if err == nil {
		err = w.checkNamed(e)
	}
	return err
}

// CheckEntry reports whether AddEntry would accept an entry. It reads no data.
func (w *Writer) CheckEntry(e Entry) error {
	switch {
	case w.done:
		return fmt.Errorf("ptd: add to a writer: %w", fs.ErrClosed)
	case w.err != nil:
		return w.err
	}
	fail := func(format string, args ...any) error {
		return fmt.Errorf("ptd: entry "+naming.Quote(e.Name)+": "+format, args...)
	}
	switch _, twice := w.names[e.Name]; {
	case twice:
		return fail("%w: the name is taken", tensor.ErrDuplicate)
	case strings.IndexByte(e.Name, 0) >= 0 || !utf8.ValidString(e.Name):
		return fail("%w: a name has no NUL and is UTF-8", errors.ErrUnsupported)
	case e.Data.Size() < 0:
		return fail("%w: the size of the data is not known beforehand, and the index comes first",
			errors.ErrUnsupported)
	case e.Layout == nil && w.opts.Parity == ParityCPP:
		return fail("%w: save_ptd writes no blobs", errors.ErrUnsupported)
	}
	if err := w.opts.aligned(e.Alignment); err != nil {
		return fail("%w", err)
	}
	rank := 0
	if e.Layout != nil {
		rank = len(e.Layout.Sizes)
	}
	if err := format.CheckWritten(e.Name, rank); err != nil {
		return fail("%w", err)
	}
	if e.Layout != nil && w.opts.Parity == ParityNone {
		if err := e.Layout.check(e.Data.Size()); err != nil {
			return fail("%w", err)
		}
	}
	return nil
}

// Close writes the file. With NewWriter the io.Writer stays open.
func (w *Writer) Close() error { return w.close(context.Background()) }

func (w *Writer) close(ctx context.Context) error {
	if w.done {
		return w.err
	}
	err := w.err
	w.done, w.err = true, fs.ErrClosed // should a source panic
	if w.file != nil {
		defer w.file.Abort() // nothing after its Close
	}
	if err == nil {
		err = w.write(ctx)
	}
	if err == nil && w.file != nil {
		err = w.file.Close()
	}
	w.err, w.entries, w.names, w.kept = err, nil, nil, format.Checksums{}
	return err
}

// Abort drops the file. After Close it does nothing.
func (w *Writer) Abort() {
	if !w.done {
		w.err = fs.ErrClosed // so that Close writes nothing
		w.Close()
	}
}

func (w *Writer) write(ctx context.Context) error {
	if err := w.kept.Check(); err != nil {
		return fmt.Errorf("ptd: %w", err)
	}
	if w.opts.Sorted || w.opts.Parity == ParityCPP {
		sort.SliceStable(w.entries,
			func(i, j int) bool { return w.entries[i].Name < w.entries[j].Name })
	}
	p, err := newPlan(ctx, w.entries, &w.opts)
	if err != nil {
		return fmt.Errorf("ptd: %w", err)
	}
	head := tensor.BlobOf(p.head)
	all := append([]format.Section{
		{Name: "header", Size: head.Size(), Data: head},
		{Name: "metadata", Off: head.Size(), Size: int64(len(p.rest)),
			Data: tensor.BlobOf(p.rest)},
	}, p.segments...)
	for i := range p.segments {
		all[2+i].Off += p.base
	}
	// Up to the base also without segments, as the reference does.
	size := p.base
	if last := all[len(all)-1]; len(p.segments) > 0 {
		size = last.Off + last.Size
	}
	if err := format.WriteTo(ctx, w.w, func(out *format.Output) error {
		return format.WriteSections(out, nil, all, size)
	}); err != nil {
		return fmt.Errorf("ptd: %w", err)
	}
	return nil
}

// WriteFile writes a file of tensors, atomically as Create does.
func WriteFile(ctx context.Context, name string, ts iter.Seq2[*tensor.Tensor, error],
	opts *WriterOptions) error {
	return writeFile(ctx, name, opts, func(w *Writer) error { return w.AddAll(ctx, ts) })
}

// WriteEntries writes a file of entries, tensors and blobs, atomically as Create does.
// Those of a Reader make a copy, aligned anew and of today's tables, even in its place.
func WriteEntries(ctx context.Context, name string, es iter.Seq[Entry],
	opts *WriterOptions) error {
	return writeFile(ctx, name, opts, func(w *Writer) error { return w.addEntries(es) })
}

func writeFile(ctx context.Context, name string, opts *WriterOptions,
	add func(*Writer) error) error {
	w, err := Create(name, opts)
	if err != nil {
		return err
	}
	defer w.Abort()
	if err := add(w); err != nil {
		return err
	}
	return w.close(ctx)
}

func (w *Writer) addEntries(es iter.Seq[Entry]) error {
	for e := range es {
		if err := w.AddEntry(e); err != nil {
			return err
		}
	}
	return nil
}
