package npz

import (
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/internal/numpy"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/internal/zipfile"
	"github.com/tensorfile/tensorfile/tensor"
)

// An opener reads the header of each array.
type opener struct {
	r       *Reader
	blobs   []blob        // so far
	inflate io.ReadCloser // one for all headers
}

// A blob is a member that is not an array.
type blob struct {
	name string
	data tensor.Blob
}

func (r *Reader) open(src *source.Source) error {
	o := opener{r: r}
	var err error
	r.archive, err = zipfile.Open(src, 0, src.Size(),
		zipfile.Options{Format: "npz", Limits: r.limits, Strict: r.strict, Each: o.add})
	if err != nil {
		return err
	}
	if end, size := r.archive.End, src.Size(); end < size {
		format.Warn(&r.Base, errs.Malformed(end, "archive", "%d bytes after its end",
			size-end))
	}
	r.tensors = slices.Clip(r.tensors)
	// x.npy.npy and x.npy are arrays of two names, but x.npy and x are not.
	if dup := duplicate(len(r.tensors),
		func(i int) string { return r.tensors[i].Name }); dup >= 0 {
		return errs.Malformed(-1, zipfile.Field(r.tensors[dup].Name), "duplicate name")
	}
	if dup := duplicate(len(o.blobs),
		func(i int) string { return o.blobs[i].name }); dup >= 0 {
		return errs.Malformed(-1, zipfile.Field(o.blobs[dup].name), "duplicate name")
	}
	format.SetBlobs(&r.Base, len(o.blobs), func(i int) (string, tensor.Blob) {
		return o.blobs[i].name, o.blobs[i].data
	})
	return nil
}

func duplicate(n int, name func(i int) string) int {
	_, dup := naming.Build(n, name)
	return dup
}

// add adds the member as an array, or as a blob.
func (o *opener) add(m *zipfile.Member) error {
	r, f := o.r, m.File
	// NumPy reads archives with Python's zipfile, which ends a name at its first NUL.
	name, _, cut := strings.Cut(f.Name, "\x00")
	if cut {
		format.Warn(&r.Base, errs.Malformed(-1, zipfile.Field(f.Name),
			"its name has a NUL: read as %s, as NumPy does", naming.Quote(name)))
	}
	switch {
	case strings.HasSuffix(f.Name, numpy.Suffix) || strings.HasSuffix(name, numpy.Suffix):
		return o.array(m, strings.TrimSuffix(name, numpy.Suffix))
	case !f.FileInfo().IsDir():
		r.files = append(r.files, file{f, name, -1 - len(o.blobs)})
		o.blobs = append(o.blobs, blob{name, m.Blob(0, "")})
	}
	return nil
}

// array adds the member as an array of that name.
func (o *opener) array(m *zipfile.Member, name string) error {
	r, field, x := o.r, zipfile.Field(m.File.Name), m.Extent()
	off := x.Offset()
	in, err := m.Decode(&o.inflate)
	if err != nil {
		return errs.Wrap(off, field, err)
	}
	h, err := numpy.ReadHeader(in, m.Size(), off, r.limits)
	ofMember := func(err error) error {
		var fe *tensor.FormatError
		if errors.As(err, &fe) {
			fe.Format, fe.Field = "npz", field+"."+fe.Field
			fe.Err = zipfile.Classify(fe.Err)
			if !m.Stored() {
				fe.Offset = off // offsets within a compressed member are not offsets of the file
			}
		}
		return err
	}
	if err != nil {
		return ofMember(err)
	}
	if h.Warning != nil {
		format.Warn(&r.Base, ofMember(h.Warning))
	}
	size, descr := m.Size()-h.Size, ""
	if h.DType == tensor.Unknown {
		descr = h.Descr
	}
	switch {
	case h.Bytes < 0 || size == h.Bytes:
	case size < h.Bytes:
		return errs.At(off, field, io.ErrUnexpectedEOF,
			"%d bytes of elements where %v of %s takes %d", size, h.Shape, h.TypeName(), h.Bytes)
	default:
		return errs.Malformed(off, field,
			"%d bytes of elements where %v of %s takes %d", size, h.Shape, h.TypeName(), h.Bytes)
	}
	data := m.Blob(h.Size, descr)
	if h.BigEndian {
		data = numpy.LittleEndian(data, h.DType.Align())
	}
	r.files = append(r.files, file{m.File, name, len(r.tensors)})
	r.tensors = append(r.tensors, tensor.Tensor{
		Name: name, DType: h.DType, Shape: h.Shape, Order: h.Order, Data: data,
	})
	return nil
}
