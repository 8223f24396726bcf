package npz

import (
	"archive/zip"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/internal/numpy"
	"github.com/tensorfile/tensorfile/tensor"
)

// MaxName is the length of the longest name, in bytes.
const MaxName = math.MaxUint16 - len(numpy.Suffix)

// WriterOptions control how an archive is written. nil is the zero value.
type WriterOptions struct {
	// Compress deflates members, as numpy.savez_compressed does. Stored members are laid
	// out so that their elements begin at multiples of 64.
	Compress bool
}

// A Writer writes an archive as its tensors come. It is not safe for concurrent use.
type Writer struct {
	z     *zip.Writer
	count *counter
	tail  int64            // bytes that still follow the last member: its sizes and CRC
	file  *atomicfile.File // of Create
	opts  WriterOptions
	names map[string]struct{} // of members
	err   error               // of writing
	done  bool

	original func(name string) bool // for an Edit: whether the archive has such a member
}

// counter counts the bytes written.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// NewWriter writes an archive to w, which it neither seeks nor closes.
func NewWriter(w io.Writer, opts *WriterOptions) *Writer {
	nw := &Writer{count: &counter{w: format.Until(context.Background(), w)},
		names: map[string]struct{}{}, original: func(string) bool { return false }}
	nw.z = zip.NewWriter(nw.count)
	if opts != nil {
		nw.opts = *opts
	}
	return nw
}

// Create writes the named archive, which appears whole when Close succeeds, or not
// at all.
func Create(name string, opts *WriterOptions) (*Writer, error) {
	f, err := atomicfile.Create(name)
	if err != nil {
		return nil, err
	}
	w := NewWriter(f, opts)
	w.file = f
	return w, nil
}

// Check reports why Add would refuse t: dtypes other than [DTypes] are tensor.ErrDType,
// tensors that are not dense, or neither row-major nor column-major,
// errors.ErrUnsupported, and so are names that are not UTF-8, have a NUL, at which NumPy
// would cut them, or are longer than [MaxName]. A name that was added is
// tensor.ErrDuplicate; so is one that differs from it by a last ".npy", since NumPy then
// reads one array for both. It reads no data.
func (w *Writer) Check(t *tensor.Tensor) error {
	switch {
	case w.err != nil:
		return w.err
	case w.done:
		return fs.ErrClosed
	}
	if err := numpy.Check(t); err != nil {
		return err
	}
	return w.checkName(t.Name + numpy.Suffix)
}

// checkName reports why a member cannot have the name. NumPy takes two names that differ
// by a last ".npy" for one: only an archive that has both keeps them.
func (w *Writer) checkName(name string) error {
	refuse := func(reason string, class error) error {
		return fmt.Errorf("npz: member %s: %s: %w", naming.Quote(name), reason, class)
	}
	_, duplicate := w.names[name]
	switch {
	case !utf8.ValidString(name):
		return refuse("its name is not UTF-8", errors.ErrUnsupported)
	case strings.Contains(name, "\x00"):
		return refuse("its name has a NUL, at which NumPy cuts names", errors.ErrUnsupported)
	case len(name) > math.MaxUint16:
		return refuse("its name is longer than a zip file allows", errors.ErrUnsupported)
	case duplicate:
		return refuse("a second member of that name", tensor.ErrDuplicate)
	}
	for _, other := range []string{strings.TrimSuffix(name, numpy.Suffix), name + numpy.Suffix} {
		if _, taken := w.names[other]; taken && other != name &&
			!(w.original(name) && w.original(other)) {
			return refuse("NumPy reads one array for it and "+naming.Quote(other),
				tensor.ErrDuplicate)
		}
	}
	return nil
}

// Add writes a tensor. After an error of writing, the archive is lost.
func (w *Writer) Add(t *tensor.Tensor) error {
	if err := w.Check(t); err != nil {
		return err
	}
	w.names[t.Name+numpy.Suffix] = struct{}{}
	w.err = w.add(t.Name+numpy.Suffix,
		func(m io.Writer) (int64, error) { return numpy.WriteArray(m, t) })
	return w.err
}

// add writes a member, whose content write writes.
func (w *Writer) add(name string, write func(m io.Writer) (int64, error)) error {
	h := &zip.FileHeader{Name: name, Method: zip.Store}
	if w.opts.Compress {
		h.Method = zip.Deflate
	} else if err := w.alignMember(h); err != nil {
		return err
	}
	m, err := w.z.CreateHeader(h)
	if err != nil {
		return err
	}
	n, err := write(m)
	if w.tail = 16; n > math.MaxUint32-1 {
		w.tail = 24 // as archive/zip writes it for zip64
	}
	return err
}

// alignMember gives the header an extra field of such a length, with the tag that
// Android's zipalign uses for the purpose, that the content of the member is aligned.
func (w *Writer) alignMember(h *zip.FileHeader) error {
	if err := w.z.Flush(); err != nil {
		return err
	}
	const local, field = 30, 6
	padding := align.Padding(w.count.n+w.tail+local+int64(len(h.Name))+field, numpy.Alignment)
	h.Extra = binary.LittleEndian.AppendUint16(nil, 0xd935)
	h.Extra = binary.LittleEndian.AppendUint16(h.Extra, uint16(2+padding))
	h.Extra = binary.LittleEndian.AppendUint16(h.Extra, numpy.Alignment)
	h.Extra = append(h.Extra, make([]byte, padding)...)
	return nil
}

// AddAll adds tensors until one is refused, ts fails, or ctx ends.
func (w *Writer) AddAll(ctx context.Context, ts iter.Seq2[*tensor.Tensor, error]) error {
	for t, err := range ts {
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
		if err := w.Add(t); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Close writes the directory of the archive. A second Close returns what the first did.
func (w *Writer) Close() error {
	if w.done {
		return w.err
	}
	w.done = true
	if w.err == nil {
		w.err = w.z.Close()
	}
	switch {
	case w.file == nil:
	case w.err != nil:
		w.file.Abort()
	default:
		w.err = w.file.Close()
	}
	return w.err
}

// Abort drops the archive: that of Create does not appear. After Close it does nothing.
func (w *Writer) Abort() {
	if w.done {
		return
	}
	w.done, w.err = true, cmp.Or(w.err, fs.ErrClosed)
	if w.file != nil {
		w.file.Abort()
	}
}

// WriteFile writes the tensors to the named archive, which appears whole or not at
// all.
func WriteFile(ctx context.Context, name string, ts iter.Seq2[*tensor.Tensor, error],
	opts *WriterOptions) error {
	w, err := Create(name, opts)
	if err != nil {
		return err
	}
	defer w.Abort()
	if err := w.AddAll(ctx, ts); err != nil {
		return err
	}
	return w.Close()
}
