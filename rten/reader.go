package rten

import (
	"io"
	"iter"
	"slices"
	"sync"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// ReaderOptions control how a file is opened. nil means the zero value. With Strict,
// opening fails if there are [Reader.Warnings]. The model of a version 1 file contains
// the weights, so its default Limits.MaxMetadata is 2 GiB, the limit of the format.
// Companion is not used: a .rten refers to no other file.
type ReaderOptions = tensor.ReadOptions

// A Reader is an open model, with the methods of every Reader: Close, Size, Len, Tensors,
// Tensor, Blobs and Attributes. It is safe for concurrent use.
//
// Tensors yields the constants of all graphs, depth first in the order of the nodes. A
// constant of the top graph has its own name, or #INDEX, the index of its node, if it has
// none. The name of a constant of a subgraph begins with the path of its graph and a
// slash, as in nodes[6].then_branch/w. Attributes yields [Model.Metadata]. There are no
// Blobs. Names, shapes and the graph stay valid after Close.
type Reader struct {
	format.Base
	src     *source.Source
	version string
	header  Header // zero in version 1
	model   *Model

	tensors  func() []tensor.Tensor // all constants; made by the first call
	warnings func() []error
}

const errs = format.Errors("rten")

// Open opens a file, mapping it where the system can. The caller must close the Reader.
// Open fails with tensor.ErrMalformed, io.ErrUnexpectedEOF, tensor.ErrLimit or
// errors.ErrUnsupported if the file cannot be read.
func Open(name string, opts *ReaderOptions) (*Reader, error) {
	return format.Open(name, opts, read)
}

// OpenBytes opens a file in memory. It does not copy b, which must not change while the
// Reader is in use.
func OpenBytes(b []byte, opts *ReaderOptions) (*Reader, error) {
	return format.OpenBytes(b, opts, read)
}

// NewReader opens a model of size bytes in r, which the caller closes. It makes two
// reads, or one if the model ends in the first 64 KiB. A version 1 file is a model with
// all weights: it is read whole, once, and stays in memory.
func NewReader(r io.ReaderAt, size int64, opts *ReaderOptions) (*Reader, error) {
	return format.NewReader(r, size, opts, read)
}

// Detect reports whether a file is a .rten file. A file of version 2 begins with RTEN,
// and is detected even if it is damaged. Version 1 has no magic number: only a file that
// can be opened is detected, which reads all of it.
func Detect(r io.ReaderAt, size int64) bool {
	src, err := source.OfReaderAt(r, size)
	if err != nil {
		return false
	}
	head, err := src.Metadata(0, min(size, headerSize))
	if err != nil {
		return false
	}
	if hasMagic(head) {
		return true
	}
	if !plausible(head, src, size) {
		return false
	}
	_, err = NewReader(src, size, nil)
	return err == nil
}

// firstWindow is the size of the first read of an unmapped file. It has all of a small
// model.
const firstWindow = 64 << 10

// maxModel is the largest size of a flatbuffer in bytes.
const maxModel = 1<<31 - 1

// read reads and checks all metadata.
func read(in *format.Input) (_ *Reader, err error) {
	src, limits := in.Source, in.Options.Limits
	r := &Reader{src: src, version: "1"}
	format.InitBase(&r.Base, errs, in)
	size := src.Size()
	window := int64(headerSize)
	if !src.Mapped() {
		window = firstWindow
	}
	head, err := src.Metadata(0, min(window, size))
	if err != nil {
		return nil, err
	}
	var at, n int64
	switch {
	case len(head) < 4:
		return nil, errs.Truncated(size, "", "a model takes more than %d bytes",
			size)
	case hasMagic(head):
		if r.header, err = parseHeader(head, size); err != nil {
			return nil, err
		}
		r.version = "2"
		at, n = r.header.ModelOffset, r.header.ModelSize
	default:
		n = size
		if in.Asked.MaxMetadata == 0 {
			limits.MaxMetadata = maxModel
		}
		// All of a file is read only after a few bytes look like a model.
		if !plausible(head, src, size) {
			return nil, errs.Malformed(0, "",
				"neither the magic number RTEN nor a flatbuffer")
		}
	}
	if n > min(limits.MaxMetadata, maxModel) {
		return nil, errs.Limit(at, "model", "a model of %d bytes, more than %d", n,
			min(limits.MaxMetadata, maxModel))
	}
	buf, err := r.metadata(head, at, n, in.Memory)
	if err != nil {
		return nil, err
	}
	r.model = &Model{r: r, buf: buf, base: at}
	if err := r.model.check(limits); err != nil {
		return nil, err
	}
	r.tensors = sync.OnceValue(r.makeTensors)
	format.SetTensors(&r.Base, len(r.model.constants),
		func(i int) *tensor.Tensor { return &r.tensors()[i] }, nil)
	var attributes [][2]string
	for k, v := range r.model.Metadata() {
		attributes = append(attributes, [2]string{k, v})
	}
	format.SetAttributes(&r.Base, attributes)
	r.model.subgraphs = sync.OnceValue(r.model.graphIndex)
	r.model.links = sync.OnceValue(r.model.makeLinks)
	r.warnings = sync.OnceValue(r.model.warnings)
	return r, nil
}

// metadata returns the bytes of the model: a copy, or the memory of OpenBytes.
func (r *Reader) metadata(head []byte, at, n int64, memory []byte) ([]byte, error) {
	if memory != nil {
		return memory[at : at+n : at+n], nil
	}
	if at+n <= int64(len(head)) {
		return head[at : at+n : at+n], nil
	}
	if at == 0 { // of version 1 the model is all, and head its start
		return r.src.Extend(head, n)
	}
	return r.src.Metadata(at, n)
}

// Version returns "2" for a file with a header and "1" for a bare flatbuffer.
func (r *Reader) Version() string { return r.version }

// Header returns the header, and false for a version 1 file, which has none.
func (r *Reader) Header() (Header, bool) { return r.header, r.version == "2" }

// Model returns the content of the file.
func (r *Reader) Model() *Model { return r.model }

func (r *Reader) makeTensors() []tensor.Tensor {
	all, extents := make([]tensor.Tensor, r.Len()), make([]source.Extent, r.Len())
	var shapes format.Arena[int64]
	shapes.Reserve(len(all)) // not nil, also for a scalar
	for i := range all {
		c := r.model.Constant(i)
		c.fill(&all[i], &extents[i], shapes.Take(int(c.rank)))
	}
	return all
}

// Warnings returns deviations that did not prevent opening: what RTen's loader refuses,
// and what no writer of RTen makes. Each is a *tensor.FormatError. There are at most some
// hundred.
func (r *Reader) Warnings() []error { return slices.Clone(r.warnings()) }

// Spans yields the role of every byte of the file, in the order of offsets. In version 1
// the tensors are inside the metadata.
func (r *Reader) Spans() iter.Seq[tensor.Span] {
	h, ok := r.Header()
	if !ok {
		return format.SpansOf(r, format.MetadataSpan(0, r.Size()))
	}
	return format.SpansOf(r, format.HeaderSpan(0, headerSize), format.MetadataSpan(h.ModelOffset,
		h.ModelSize))
}
