package npz

import (
	"archive/zip"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/internal/names"
	"github.com/tensorfile/tensorfile/internal/numpy"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

func npzError(off int64, field string, class error, format string, args ...any) error {
	err := fmt.Errorf("%w: "+format, append([]any{class}, args...)...)
	return &tensor.FormatError{Format: "npz", Offset: off, Field: field, Err: err}
}

func fieldOf(name string) string { return "members[" + tensor.Quote(name) + "]" }

// An opener reads the directory and the header of each array.
type opener struct {
	r       *Reader
	inflate io.ReadCloser // one for all headers
	extents []extent
}

// An extent is the place of a member in the file, with its local header.
type extent struct {
	start, end int64
	name       string
}

func (r *Reader) open() error {
	z, err := zip.NewReader(r.src, r.src.Size())
	if err != nil {
		if errors.Is(err, zip.ErrFormat) && !hasEndRecord(r.src) {
			return npzError(r.src.Size(), "end of central directory",
				io.ErrUnexpectedEOF, "the archive has no end record")
		}
		if errors.Is(err, zip.ErrFormat) || errors.Is(err, zip.ErrAlgorithm) || errors.Is(err, zip.ErrChecksum) {
			err = fmt.Errorf("%w: %w", tensor.ErrMalformed, err)
		}
		return &tensor.FormatError{Format: "npz", Offset: -1, Field: "central directory", Err: err}
	}
	if n := int64(len(z.File)); n > r.limits.MaxTensors {
		return npzError(-1, "central directory", tensor.ErrLimit, "%d members, the limit is %d",
			n, r.limits.MaxTensors)
	}
	if dup := duplicate(len(z.File), func(i int) string { return z.File[i].Name }); dup >= 0 {
		return npzError(-1, fieldOf(z.File[dup].Name), tensor.ErrMalformed, "duplicate member")
	}
	o := opener{r: r, extents: make([]extent, 0, len(z.File))}
	for _, f := range z.File {
		if err := o.add(f); err != nil {
			return err
		}
	}
	r.tensors = slices.Clip(r.tensors)
	// x.npy.npy and x.npy are arrays of two names, but x.npy and x are not.
	if dup := duplicate(len(r.tensors), func(i int) string { return r.tensors[i].Name }); dup >= 0 {
		return npzError(-1, fieldOf(r.tensors[dup].Name), tensor.ErrMalformed, "duplicate name")
	}
	if dup := duplicate(len(r.blobs), func(i int) string { return r.blobs[i].name }); dup >= 0 {
		return npzError(-1, fieldOf(r.blobs[dup].name), tensor.ErrMalformed, "duplicate name")
	}
	return o.disjoint()
}

func duplicate(n int, name func(i int) string) int {
	_, dup := names.Build(n, name)
	return dup
}

// hasEndRecord reports whether the signature of the end record (APPNOTE 4.3.16) is
// anywhere where it could be: only a comment of up to 65,535 bytes may follow the record.
func hasEndRecord(src *source.Source) bool {
	tail := make([]byte, min(src.Size(), 22+1<<16-1))
	n, _ := src.ReadAt(tail, src.Size()-int64(len(tail)))
	return bytes.Contains(tail[:n], []byte("PK\x05\x06"))
}

// disjoint refuses members that share bytes of the file: with them, a small archive would
// decode to any size.
func (o *opener) disjoint() error {
	slices.SortFunc(o.extents, func(a, b extent) int { return cmp.Compare(a.start, b.start) })
	for i := 1; i < len(o.extents); i++ {
		if a, b := o.extents[i-1], o.extents[i]; b.start < a.end {
			return npzError(b.start, fieldOf(b.name), tensor.ErrMalformed,
				"it overlaps the member %s", tensor.Quote(a.name))
		}
	}
	return nil
}

func (o *opener) add(f *zip.File) error {
	r, field := o.r, fieldOf(f.Name)
	if n := int64(len(f.Name)); n > r.limits.MaxName {
		return npzError(-1, field, tensor.ErrLimit, "a name of %d bytes, the limit is %d",
			n, r.limits.MaxName)
	}
	const encrypted = 1
	stored, size := f.CompressedSize64, f.UncompressedSize64
	switch {
	case f.Flags&encrypted != 0:
		return npzError(-1, field, errors.ErrUnsupported, "it is encrypted")
	case f.Method != zip.Store && f.Method != zip.Deflate:
		return npzError(-1, field, errors.ErrUnsupported, "compression method %d", f.Method)
	case size > math.MaxInt64/2 || stored > math.MaxInt64/2:
		return npzError(-1, field, tensor.ErrMalformed, "%d bytes", size)
	case f.Method == zip.Store && size != stored:
		return npzError(-1, field, tensor.ErrMalformed, "stored, but with two sizes: %d and %d",
			stored, size)
	}
	off, err := f.DataOffset()
	if err != nil {
		if errors.Is(err, zip.ErrFormat) {
			err = fmt.Errorf("%w: %w", tensor.ErrMalformed, err)
		}
		return &tensor.FormatError{Format: "npz", Offset: -1, Field: field, Err: err}
	}
	x, err := r.src.Extent(off, int64(stored))
	if err != nil {
		return &tensor.FormatError{Format: "npz", Offset: off, Field: field, Err: err}
	}
	const localHeader = 30 // and the name, and extra fields (APPNOTE 4.3.7)
	o.extents = append(o.extents, extent{off - localHeader - int64(len(f.Name)), off + int64(stored), f.Name})
	m := &member{f: f, extent: x, size: int64(size), maxSize: r.limits.MaxDecoded}
	if r.strict {
		m.strict = new(checkOnce)
	}
	// NumPy reads archives with Python's zipfile, which ends a name at its first NUL.
	name, _, cut := strings.Cut(f.Name, "\x00")
	if cut {
		r.warnings = append(r.warnings, npzError(-1, field, tensor.ErrMalformed,
			"its name has a NUL: read as %s, as NumPy does", tensor.Quote(name)))
	}
	switch {
	case strings.HasSuffix(f.Name, numpy.Suffix) || strings.HasSuffix(name, numpy.Suffix):
		return o.array(m, strings.TrimSuffix(name, numpy.Suffix), field, off)
	case !f.FileInfo().IsDir():
		r.files = append(r.files, file{f, name, -1 - len(r.blobs)})
		r.blobs = append(r.blobs, blob{name, m.blob()})
	}
	return nil
}

// array adds the member as an array of that name. off is where its data begin.
func (o *opener) array(m *member, name, field string, off int64) error {
	r := o.r
	in, err := m.decoded(&o.inflate)
	if err != nil {
		return &tensor.FormatError{Format: "npz", Offset: off, Field: field, Err: err}
	}
	h, err := numpy.ReadHeader(in, m.size, off, r.limits)
	if err != nil {
		var fe *tensor.FormatError
		if errors.As(err, &fe) {
			fe.Format, fe.Field = "npz", field+"."+fe.Field
			if m.f.Method != zip.Store {
				fe.Offset = off // offsets within a compressed member are not offsets of the file
			}
		}
		return err
	}
	if h.Warning != nil {
		r.warnings = append(r.warnings, h.Warning)
	}
	m.skip, m.size = h.Size, m.size-h.Size
	switch {
	case h.DType == tensor.Unknown:
		m.descr = h.Descr
	case m.size < h.Bytes:
		return npzError(off, field, io.ErrUnexpectedEOF,
			"%d bytes of elements where %v of %v takes %d", m.size, h.Shape, h.DType, h.Bytes)
	case m.size > h.Bytes:
		return npzError(off, field, tensor.ErrMalformed,
			"%d bytes of elements where %v of %v takes %d", m.size, h.Shape, h.DType, h.Bytes)
	}
	data := m.blob()
	if h.BigEndian {
		data = numpy.LittleEndian(data, h.DType.Align())
	}
	r.files = append(r.files, file{m.f, name, len(r.tensors)})
	r.tensors = append(r.tensors, tensor.Tensor{
		Name: name, DType: h.DType, Shape: h.Shape, Order: h.Order, Data: data,
	})
	return nil
}
