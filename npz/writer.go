package npz

import (
	"archive/zip"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"iter"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/format"
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
	// NoReplace makes Create and WriteFile fail with fs.ErrExist if the file exists.
	NoReplace bool
	// Progress, if not nil, is called with the bytes written so far, as done and as
	// total: the size of the file is not known.
	Progress func(done, total int64)
}

// A Writer writes an archive as its tensors come, with the methods of every Writer:
// Check, Add, AddAll, Close and Abort. Tensors must be dense, row-major or column-major,
// with a dtype of [DTypes] and at most 64 dimensions; names must be UTF-8 of at most
// [MaxName] bytes without NUL, at which NumPy would cut them. Add refuses others with
// errors.ErrUnsupported. It fails with tensor.ErrDuplicate for a name that was added, and
// for one that differs from it by ".npy" at the end, because NumPy reads one array for
// both.
type Writer struct {
	format.Writer[member]
}

// A member is what becomes a member of the archive: a tensor, or a member of another
// archive.
type member struct {
	tensor *tensor.Tensor
	zip    *zip.File // copied as it is stored
	name   string    // in the archive, of zip
}

// NewWriter returns a Writer to w, which it neither seeks nor closes.
func NewWriter(w io.Writer, opts *WriterOptions) *Writer {
	return &Writer{format.NewWriter(w, opts.encoding(nil))}
}

// Create returns a Writer of the named archive, which appears whole when Close succeeds,
// or not at all.
func Create(name string, opts *WriterOptions) (*Writer, error) {
	w, err := format.Create(name, opts.encoding(nil))
	if err != nil {
		return nil, err
	}
	return &Writer{w}, nil
}

// WriteFile writes the tensors to the named archive, which appears whole or not at all.
// It has the names of members and at most 1 MiB of data in memory.
func WriteFile(ctx context.Context, name string, ts iter.Seq2[*tensor.Tensor, error],
	opts *WriterOptions) error {
	return format.WriteFile(ctx, name, ts, opts.encoding(nil))
}

// encoding returns how archives are written. deflates reports which arrays are compressed
// in addition to those that Compress asks for; nil: none.
func (o *WriterOptions) encoding(deflates func(name string) bool) *format.Encoding[member] {
	if o == nil {
		o = new(WriterOptions)
	}
	e := &encoder{compress: o.Compress, deflates: deflates}
	return &format.Encoding[member]{Format: errs, NoReplace: o.NoReplace, Progress: o.Progress,
		Item: func(t *tensor.Tensor) (member, error) {
			return member{tensor: t}, numpy.Check(errs, t)
		},
		Check:       checkMember,
		Key:         func(name string, m *member) string { return m.nameOf(name) },
		Equivalents: sameForNumPy,
		Append:      e.append,
		Encode:      func(out *format.Output, _ []member) error { return e.begin(out).Close() }}
}

// nameOf returns the name of the member in the archive.
func (m *member) nameOf(name string) string {
	if m.tensor != nil {
		return name + numpy.Suffix
	}
	return m.name
}

func checkMember(name string, m *member) error {
	refuse := func(text string) error {
		return errs.Tensor(name, errors.ErrUnsupported, "%s",
			text)
	}
	switch name := m.nameOf(name); {
	case !utf8.ValidString(name):
		return refuse("the name is not UTF-8")
	case strings.Contains(name, "\x00"):
		return refuse("the name has a NUL, at which NumPy cuts names")
	case len(name) > math.MaxUint16:
		return refuse("the name is longer than a zip file allows")
	}
	return nil
}

// sameForNumPy returns the members that NumPy takes for the one of that name.
func sameForNumPy(name string) []string {
	if shorter, ok := strings.CutSuffix(name, numpy.Suffix); ok {
		return []string{shorter, name + numpy.Suffix}
	}
	return []string{name + numpy.Suffix}
}

// An encoder writes the members of an archive.
type encoder struct {
	compress bool
	deflates func(name string) bool
	z        *zip.Writer // nil before the first member
	tail     int64       // bytes that still follow the last member: its sizes and CRC
}

func (e *encoder) begin(out *format.Output) *zip.Writer {
	if e.z == nil {
		e.z = zip.NewWriter(format.Begin(out, -1))
	}
	return e.z
}

func (e *encoder) append(out *format.Output, m *member) error {
	z := e.begin(out)
	if m.tensor == nil {
		return e.copyMember(out, m)
	}
	name := m.nameOf(m.tensor.Name)
	h := &zip.FileHeader{Name: name, Method: zip.Store}
	if e.compress || e.deflates != nil && e.deflates(m.tensor.Name) {
		h.Method = zip.Deflate
	} else if err := e.alignMember(out, h); err != nil {
		return err
	}
	to, err := z.CreateHeader(h)
	if err != nil {
		return err
	}
	n, err := numpy.WriteArray(to, m.tensor)
	if e.tail = 16; n > math.MaxUint32-1 {
		e.tail = 24 // as archive/zip writes it for zip64
	}
	if err != nil {
		return errs.Tensor(m.tensor.Name, err, "writing its data")
	}
	return nil
}

// alignMember gives the header an extra field of such a length, with the tag that
// Android's zipalign uses for the purpose, that the content of the member is aligned.
func (e *encoder) alignMember(out *format.Output, h *zip.FileHeader) error {
	if err := e.z.Flush(); err != nil {
		return err
	}
	const local, field = 30, 6
	padding := align.Padding(format.Written(out)+e.tail+local+int64(len(h.Name))+field,
		numpy.Alignment)
	h.Extra = binary.LittleEndian.AppendUint16(nil, 0xd935)
	h.Extra = binary.LittleEndian.AppendUint16(h.Extra, uint16(2+padding))
	h.Extra = binary.LittleEndian.AppendUint16(h.Extra, numpy.Alignment)
	h.Extra = append(h.Extra, make([]byte, padding)...)
	return nil
}

// copyMember copies an array or blob as it is stored.
func (e *encoder) copyMember(out *format.Output, m *member) error {
	in, err := m.zip.OpenRaw()
	if err != nil {
		return err
	}
	const utf8Name = 1 << 11
	f := m.zip
	h := &zip.FileHeader{
		Name: m.name, Method: f.Method, Flags: utf8Name, CRC32: f.CRC32,
		CompressedSize64: f.CompressedSize64, UncompressedSize64: f.UncompressedSize64,
		ModifiedTime: f.ModifiedTime, ModifiedDate: f.ModifiedDate,
		Comment: f.Comment, CreatorVersion: f.CreatorVersion, ExternalAttrs: f.ExternalAttrs,
	}
	if f.Method == zip.Store {
		if err := e.alignMember(out, h); err != nil {
			return err
		}
	}
	to, err := e.z.CreateRaw(h)
	if err == nil {
		_, err = io.Copy(to, in)
	}
	e.tail = 0 // the sizes precede the data
	return err
}
