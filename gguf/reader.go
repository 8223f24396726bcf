package gguf

import (
	"cmp"
	"context"
	"io"
	"iter"
	"sort"
	"strconv"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

const errs = format.Errors("gguf")

// ReaderOptions control how a file is read. nil is the zero value. With Strict,
// opening fails for a deviation that is a warning otherwise.
type ReaderOptions = tensor.ReadOptions

// A Reader is an open file, with the methods of every Reader: Close, Size, Len, Tensors,
// Tensor, Blobs and Warnings. Tensors have the order of their offsets, and there are no
// Blobs. There are warnings of bytes that belong to no tensor, of strings that are not
// UTF-8, and of deviations that ggml refuses: names above 63 bytes, more than four
// dimensions, empty keys, data in another order than the tensors, withdrawn and unknown
// types. A Reader is safe for concurrent use. See package tensor for how long borrowed
// slices are valid.
type Reader struct {
	format.Base
	h       *header
	tensors []tensor.Tensor
	parts   []tensor.Part
	extents []extent
	dataAt  int64 // where the data begins
}

// An extent is the data of one tensor, with the number and the name of its type.
type extent struct {
	source.Extent
	kind     uint32
	typeName string
}

// Stored is for tensor.Blob.
func (e *extent) Stored() (tensor.Stored, bool) {
	return tensor.Stored{Offset: e.Offset(), Size: e.Size(), Encoding: "raw",
		Type: e.typeName}, true
}

// Detect reports whether the file begins with "GGUF". It reads four bytes.
func Detect(r io.ReaderAt, size int64) bool {
	var b [len(magic)]byte
	n, _ := r.ReadAt(b[:], 0)
	return size >= 8 && n == len(b) && string(b[:]) == magic
}

// Open opens the file of that name, maps it if the system can, and reads its header.
func Open(name string, opts *ReaderOptions) (*Reader, error) {
	return format.Open(name, opts, read)
}

// OpenBytes opens a file that is in memory. It keeps b, which must not change while the
// Reader is in use.
func OpenBytes(b []byte, opts *ReaderOptions) (*Reader, error) {
	return format.OpenBytes(b, opts, read)
}

// NewReader opens the first size bytes of r, which the caller closes. The size of the
// header is not in the file: NewReader reads 256 KiB, and while the header does not end
// there, three times as many bytes as it has.
func NewReader(r io.ReaderAt, size int64, opts *ReaderOptions) (*Reader, error) {
	return format.NewReader(r, size, opts, read)
}

func read(in *format.Input) (*Reader, error) {
	limits := in.Options.Limits
	h, err := parse(windows(in.Source, limits), limits)
	if err != nil {
		return nil, err
	}
	return build(in, h)
}

// windows returns an extender that reads 256 KiB first, and then three times as many
// bytes as there are.
func windows(src *source.Source, limits tensor.Limits) extender {
	return func(b []byte, n int64) ([]byte, error) {
		have := int64(len(b))
		if err := available(have, n, src.Size(), limits); err != nil {
			return b, err
		}
		n = max(n, min(max(256<<10, 3*have), src.Size()-have, limits.MaxMetadata-have))
		next, err := src.Metadata(have, n)
		if err != nil {
			return b, errs.Wrap(have, "header", err)
		}
		return append(b, next...), nil
	}
}

// available fails if a header of have bytes cannot have n more, or exceeds MaxMetadata.
func available(have, n, size int64, limits tensor.Limits) error {
	if n > size-have {
		return errs.At(size, "header", io.ErrUnexpectedEOF, "it does not end")
	}
	if n > limits.MaxMetadata-have {
		return errs.At(limits.MaxMetadata, "header", tensor.ErrLimit, "more than %d bytes",
			limits.MaxMetadata)
	}
	return nil
}

// build makes the Reader of a file that has this header.
func build(in *format.Input, h *header) (*Reader, error) {
	r := &Reader{h: h}
	format.InitBase(&r.Base, errs, in)
	for _, w := range h.warnings.All() {
		format.Warn(&r.Base, w)
	}
	if err := h.checkDuplicates(); err != nil {
		return nil, err
	}
	if err := r.list(in.Source); err != nil {
		return nil, err
	}
	format.SetList(&r.Base, r.tensors)
	return r, nil
}

// checkDuplicates fails if two keys, or two names of tensors, are the same.
func (h *header) checkDuplicates() error {
	if _, dup := naming.Build(len(h.metadata),
		func(i int) string { return h.metadata[i].key }); dup >= 0 {
		a := &h.metadata[dup]
		return errs.At(a.at, keyField(a.key), tensor.ErrMalformed, "duplicate key")
	}
	if _, dup := naming.Build(len(h.entries),
		func(i int) string { return h.entries[i].name }); dup >= 0 {
		e := &h.entries[dup]
		return errs.At(e.at, e.field(""), tensor.ErrMalformed, "duplicate name")
	}
	return nil
}

// list makes the tensors, sorted by offset, and checks their extents.
func (r *Reader) list(src *source.Source) error {
	h := r.h
	dataAt, ok := align.Up(h.end, h.alignment)
	r.dataAt = dataAt
	if len(h.entries) == 0 {
		return nil // without tensors there need not be padding
	}
	if !ok || dataAt > src.Size() {
		return errs.At(h.end, "data", io.ErrUnexpectedEOF, "it would begin at %d", dataAt)
	}
	byOffset := func(i, j int) bool { return h.entries[i].offset < h.entries[j].offset }
	for i := range h.entries[1:] {
		if e := &h.entries[i+1]; byOffset(i+1, i) {
			format.Warn(&r.Base, errs.Malformed(e.at, e.field(".offset"),
				"the data is in another order than the tensors: ggml refuses the file"))
			break
		}
	}
	sort.SliceStable(h.entries, byOffset)
	r.resolveTypes(src.Size() - dataAt)
	r.tensors = make([]tensor.Tensor, len(h.entries))
	r.extents = make([]extent, len(h.entries))
	r.parts = make([]tensor.Part, len(h.entries))
	end := int64(0) // of the data so far, from dataAt
	for i := range h.entries {
		e := &h.entries[i]
		available := src.Size() - dataAt
		if !align.Is(e.offset, h.alignment) {
			return errs.At(e.at, e.field(".offset"), tensor.ErrMalformed,
				"%d is not a multiple of %d", e.offset, h.alignment)
		}
		n, err := e.size(available, h.entries[i+1:])
		if err != nil {
			return err
		}
		if n > available || e.offset > available-n {
			return errs.At(e.at, e.field(".offset"), io.ErrUnexpectedEOF,
				"%d bytes at %d, the file has %d", n, e.offset, available)
		}
		if n > 0 && e.offset < end {
			return errs.At(e.at, e.field(".offset"), tensor.ErrMalformed,
				"its data begins at %d, inside what ends at %d", e.offset, end)
		}
		if want, _ := align.Up(end, h.alignment); n > 0 && e.offset > want {
			format.Warn(&r.Base, errs.Malformed(dataAt+end, e.field(".offset"),
				"%d bytes that belong to no tensor", e.offset-want))
		}
		end = max(end, e.offset+n)
		x, err := src.Extent(dataAt+e.offset, n)
		if err != nil {
			return errs.Wrap(e.at, e.field(".offset"), err)
		}
		r.extents[i] = extent{x, e.kind, cmp.Or(e.t.name, foreignTypeName(e.kind))}
		if err := r.add(i, e); err != nil {
			return err
		}
	}
	if want, _ := align.Up(end, h.alignment); dataAt+want < src.Size() {
		format.Warn(&r.Base, errs.Malformed(dataAt+want, "data",
			"%d bytes after the last tensor", src.Size()-dataAt-want))
	}
	return nil
}

func (e *entry) field(part string) string { return "tensors[" + naming.Quote(e.name) + "]" + part }

// size returns how many bytes the data of the tensor has. For an unknown type it is all
// bytes up to the next tensor.
func (e *entry) size(available int64, later []entry) (int64, error) {
	n, ok := e.shape.Elements()
	t := e.t
	switch {
	case !ok:
		return 0, errs.At(e.at, e.field(".ne"), tensor.ErrMalformed,
			"%v is beyond 2^63 elements", e.shape)
	case t.name == "" && e.offset > available:
		return 0, errs.At(e.at, e.field(".offset"), io.ErrUnexpectedEOF,
			"data at %d, the file has %d", e.offset, available)
	case t.name == "":
		return e.space(available, later), nil
	}
	row := int64(1) // a scalar is one row of one element
	if len(e.shape) > 0 {
		row = e.shape[len(e.shape)-1]
	}
	if row%t.elements != 0 {
		return 0, errs.At(e.at, e.field(".ne"), tensor.ErrMalformed,
			"rows of %d elements are not a whole number of %s blocks of %d", row, t.name,
			t.elements)
	}
	size, ok := align.Mul(n/t.elements, t.bytes)
	if !ok {
		return 0, errs.At(e.at, e.field(".ne"), tensor.ErrMalformed,
			"%v of %s is beyond 2^63 bytes", e.shape, t.name)
	}
	return size, nil
}

// space returns the bytes up to the data of the next tensor, padding included.
func (e *entry) space(available int64, later []entry) int64 {
	for _, next := range later {
		if next.offset > e.offset {
			return min(next.offset, available) - e.offset
		}
	}
	return available - e.offset
}

// add makes tensor i.
func (r *Reader) add(i int, e *entry) (err error) {
	data := tensor.NewBlob(&r.extents[i])
	if r.h.big {
		data, err = e.littleEndian(data)
	}
	r.tensors[i] = tensor.Tensor{Name: e.name, Shape: e.shape, DType: e.t.dtype}
	if e.t.dtype.Known() {
		r.tensors[i].Data = data
		return err
	}
	r.parts[i] = tensor.Part{Role: "blocks", Data: data}
	r.tensors[i].Scheme = r.extents[i].typeName
	r.tensors[i].Parts = r.parts[i : i+1 : i+1]
	return err
}

// Version returns the version of the file: "1", "2" or "3".
func (r *Reader) Version() string { return strconv.FormatUint(uint64(r.h.version), 10) }

// BigEndian reports whether the file has its numbers in big-endian order. Engines on
// other machines refuse such a file, and writing makes it little-endian.
func (r *Reader) BigEndian() bool { return r.h.big }

// Alignment returns the alignment of the data of tensors, in bytes.
func (r *Reader) Alignment() int64 { return r.h.alignment }

// Attributes yields the metadata in the order of the file: strings as they are, numbers
// and bools as text, arrays as JSON. It makes the text of each value anew, which may be
// long for an array of a vocabulary.
func (r *Reader) Attributes() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, a := range r.h.metadata {
			if !yield(a.key, a.text(r.h.version)) {
				return
			}
		}
	}
}

// Verify reads all data, unless the depth is VerifyStructure, and reports bytes that
// cannot be read: the format has no digests. It adds to the warnings of the Reader arrays
// of arrays and a missing general.architecture, which llama.cpp refuses. opts may be nil.
func (r *Reader) Verify(ctx context.Context, opts *tensor.VerifyOptions) (*tensor.Report, error) {
	l := format.NewFindings(opts)
	return l.End(r.verify(ctx, l))
}

func (r *Reader) verify(ctx context.Context, l *format.Findings) error {
	for _, w := range r.Warnings() {
		l.Warn(w)
	}
	r.h.checkModel(l)
	if l.Options.Depth <= tensor.VerifyStructure {
		return nil
	}
	var done, total int64
	for i := range r.extents {
		total += r.extents[i].Size()
	}
	buf := make([]byte, 1<<20)
	for i := 0; i < len(r.extents) && !l.Full(); i++ {
		x := &r.extents[i]
		at, err := format.ReadBlob(ctx, tensor.NewBlob(x), tensor.Unknown, buf, func(n int64) {
			if done += n; l.Options.Progress != nil {
				l.Options.Progress(done, total)
			}
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			l.Error(errs.Wrap(x.Offset()+at, "data["+naming.Quote(r.tensors[i].Name)+"]", err))
		}
	}
	return nil
}
