package primitiv

import (
	"context"
	"errors"
	"io"
	"iter"
	"slices"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// ReaderOptions control how a file is read. nil is the zero value. With Strict, each of
// Warnings is an error. A file refers to no other.
type ReaderOptions = tensor.ReadOptions

// A Reader is an open file, with the methods of every Reader: Close, Size, Len, Tensors,
// Tensor, Blobs, Attributes and Warnings. Tensors are values, each followed by its
// statistics; the tensor of a parameter file is named value, of a tensor file tensor.
// Attributes are the settings of an optimizer, integers first. There are no Blobs. The
// one warning is of a parameter whose path is below another's, which no model can have.
// It is safe for concurrent use. See package tensor for how long borrowed slices are
// valid.
type Reader struct {
	format.Base
	kind      Kind
	shape     Shape     // KindShape, KindTensor
	entries   []*entry  // in file order: each value, then its statistics
	optimizer Optimizer // KindOptimizer
}

// An entry is one tensor of a file, and the source of its data.
type entry struct {
	source.Extent
	Origin
	tensor tensor.Tensor
	start  int64 // offset of the name
}

// Open maps the file, if the system can, and reads everything but the payloads.
func Open(name string, opts *ReaderOptions) (*Reader, error) {
	return format.Open(name, opts, read)
}

// OpenBytes reads a file that is in memory. It keeps b, which must not change while the
// Reader is in use.
func OpenBytes(b []byte, opts *ReaderOptions) (*Reader, error) {
	return format.OpenBytes(b, opts, read)
}

// NewReader reads the first size bytes of r, which the caller closes.
func NewReader(r io.ReaderAt, size int64, opts *ReaderOptions) (*Reader, error) {
	return format.NewReader(r, size, opts, read)
}

func read(in *format.Input) (*Reader, error) {
	r := new(Reader)
	format.InitBase(&r.Base, errs, in)
	mapped, err := in.Scan(func(all []byte) error { return parse(r, in, all) })
	if !mapped {
		err = parse(r, in, nil)
	}
	if err != nil {
		var fe *tensor.FormatError
		if !errors.As(err, &fe) {
			err = errs.Wrap(-1, "", err) // the file was truncated under its mapping
		}
		return nil, err
	}
	format.SetTensors(&r.Base, len(r.entries),
		func(i int) *tensor.Tensor { return &r.entries[i].tensor }, nil)
	format.SetAttributes(&r.Base, r.optimizer.attributes())
	return r, nil
}

// Kind returns the kind of content that the file has.
func (r *Reader) Kind() Kind { return r.kind }

// Version returns the version of the format, always [Version].
func (r *Reader) Version() string { return Version }

// Shape returns the shape in a shape file or a tensor file. For other kinds it is the
// zero Shape.
func (r *Reader) Shape() Shape { return Shape{slices.Clone(r.shape.Dims), r.shape.Batch} }

// Parameters yields the parameters of a model or of a parameter file, in file order.
func (r *Reader) Parameters() iter.Seq[*Parameter] {
	return func(yield func(*Parameter) bool) {
		for i := range r.entries {
			if r.isParameter(i) && !yield(r.parameter(i)) {
				return
			}
		}
	}
}

// NumParameters returns the number of parameters.
func (r *Reader) NumParameters() (n int) {
	for i := range r.entries {
		if r.isParameter(i) {
			n++
		}
	}
	return n
}

// isParameter reports whether entry i is the value of a parameter.
func (r *Reader) isParameter(i int) bool {
	return !r.entries[i].IsStatistic && r.kind != KindTensor
}

// Parameter returns the parameter of exactly that path, nil if there is none. The one of
// a parameter file has the empty path. Where several paths make the name, it tries all.
func (r *Reader) Parameter(path ...string) *Parameter {
	i := format.Index(&r.Base, parameterName(path))
	for ; i >= 0 && i < len(r.entries); i++ {
		if r.isParameter(i) && slices.Equal(r.entries[i].Path, path) {
			return r.parameter(i)
		}
	}
	return nil
}

// parameter makes the parameter whose value is entry i.
func (r *Reader) parameter(i int) *Parameter {
	value := r.entries[i]
	p := &Parameter{Path: slices.Clone(value.Path), Value: &value.tensor}
	for i++; i < len(r.entries) && r.entries[i].IsStatistic; i++ {
		e := r.entries[i]
		p.Stats = append(p.Stats, Statistic{Name: e.Statistic, Tensor: &e.tensor, Batch: e.Batch})
	}
	return p
}

// Optimizer returns a copy of the settings in an optimizer file, to be edited; nil for
// other kinds of files.
func (r *Reader) Optimizer() *Optimizer {
	if r.kind != KindOptimizer {
		return nil
	}
	return &Optimizer{slices.Clone(r.optimizer.Uints), slices.Clone(r.optimizer.Floats)}
}

// An Origin is the place of a tensor in its file. A name is not enough: elements of a
// path may have dots themselves.
type Origin struct {
	Path        []string // of the parameter; empty in parameter files and tensor files
	IsStatistic bool
	Statistic   string // its name
	Batch       uint32 // above 1, it is the last dimension of the tensor
}

// OriginOf returns the origin of a tensor that came from a Reader of this package, and
// false for any other. A tensor keeps its origin when it is copied and its name changed.
func OriginOf(t *tensor.Tensor) (Origin, bool) {
	if t == nil {
		return Origin{}, false
	}
	e, ok := t.Data.Source().(*entry)
	if !ok {
		return Origin{}, false
	}
	o := e.Origin
	o.Path = slices.Clone(o.Path)
	return o, true
}

// Spans yields the role of every byte of the file, in the order of offsets: the data of
// tensors, and metadata around them.
func (r *Reader) Spans() iter.Seq[tensor.Span] {
	return format.SpansOf(r, format.MetadataSpan(0, r.Size()))
}

// Load reads all tensors of a file into memory of their own, by name.
func Load(name string) (map[string]*tensor.Tensor, error) {
	return format.Load(Open(name, nil))
}

// Save writes tensors as the parameters of a model, under the names that are the keys of
// m, sorted, and in column-major order. The file appears whole or not at all.
func Save(name string, m map[string]*tensor.Tensor) error {
	return WriteFile(context.Background(), name, tensor.Sorted(m), &WriterOptions{Reorder: true})
}
