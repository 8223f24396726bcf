package onnx

import (
	"cmp"
	"errors"
	"io"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

const (
	formatName = "onnx"
	errs       = format.Errors(formatName)
)

// LatestIR is the newest version of the format that this package knows.
const LatestIR = 14

// ReaderOptions control how a model is read. nil is the zero value. With Strict, each of
// Warnings is an error. Companion opens the files with external data.
type ReaderOptions = tensor.ReadOptions

// A Reader is an open model. It is safe for concurrent use. See package tensor for how
// long borrowed slices are valid. Its Attributes are metadata_props, and its Size does
// not count other files that have elements of tensors.
//
// Tensors are named after their places. An initializer of the main graph has its own
// name, or #INDEX if it has none, a sparse one sparse#INDEX; the value of a Constant has
// the name of the node's output; another tensor in an attribute is NODE.ATTRIBUTE, or
// NODE.ATTRIBUTE[INDEX] in a list, with #INDEX for a node without a name. In a graph that
// is an attribute all that follows NODE.ATTRIBUTE/ or NODE.ATTRIBUTE[INDEX]/, in a
// function DOMAIN:NAME/ or DOMAIN:NAME:OVERLOAD/, in a graph of training
// training[INDEX].initialization/ or training[INDEX].algorithm/; the default of an
// attribute of a function is attribute.NAME there. Names may repeat.
//
// A sparse tensor has the scheme sparse_coo and the parts values and indices: see package
// sparse. Strings are of the dtype Unknown, and their data is the bytes of the fields
// that have them.
type Reader struct {
	format.Base
	src       *source.Source
	companion func(name string) (io.ReaderAt, int64, error)
	model     *Model
	entries   []*entry
	files     map[string]*dataFile
	warnings  func() []error
	closed    atomic.Bool
}

// Open maps the file and reads all but the elements of tensors.
func Open(name string, opts *ReaderOptions) (*Reader, error) {
	return format.Open(name, opts, read)
}

// OpenBytes reads a file that is in memory. It keeps b, which must not change.
func OpenBytes(b []byte, opts *ReaderOptions) (*Reader, error) {
	return format.OpenBytes(b, opts, read)
}

// NewReader reads the first size bytes of r, which the caller closes. It skips the
// elements of tensors, with one read for the metadata between two large ones.
func NewReader(r io.ReaderAt, size int64, opts *ReaderOptions) (*Reader, error) {
	return format.NewReader(r, size, opts, read)
}

func read(in *format.Input) (*Reader, error) {
	src := in.Source
	r := &Reader{src: src, companion: in.Companion, model: new(Model),
		files: map[string]*dataFile{}}
	format.InitBase(&r.Base, errs, in)
	p := &parser{r: r}
	p.size, p.limits = src.Size(), in.Options.Limits
	if in.Asked.MaxDepth == 0 {
		p.limits.MaxDepth = maxMessages
	}
	parse := func(all []byte) error {
		p.window = all
		p.model(r.model)
		namer{p}.model(r.model)
		return p.err
	}
	mapped, err := src.Scan(parse)
	if !mapped {
		p.src = src
		err = parse(nil)
	}
	if err == nil {
		err = r.model.complete()
	}
	var placed *tensor.FormatError
	if err != nil && !errors.As(err, &placed) { // the file was truncated under its mapping
		err = &tensor.FormatError{Format: formatName, Offset: p.pos, Err: err}
	}
	if err != nil {
		return nil, err
	}
	format.SetTensors(&r.Base, len(r.entries),
		func(i int) *tensor.Tensor { return &r.entries[i].tensor }, nil)
	format.SetAttributes(&r.Base, r.model.metadata)
	r.warnings = sync.OnceValue(r.makeWarnings)
	return r, nil
}

// complete refuses a message that is not a model.
func (m *Model) complete() error {
	missing := func(field string) error {
		return errs.Malformed(-1, field, "missing: this is no complete model")
	}
	switch {
	case m.IRVersion == 0:
		return missing("ir_version")
	case m.IRVersion < 0 || m.IRVersion > math.MaxInt32:
		return errs.Malformed(-1, "ir_version", "%d", m.IRVersion)
	case m.Graph == nil:
		return missing("graph")
	case len(m.Opsets) == 0 && m.IRVersion >= 3:
		return missing("opset_import")
	}
	return nil
}

// Close releases the file, and the files with elements of tensors. It may be called
// twice.
func (r *Reader) Close() error {
	r.closed.Store(true)
	err := r.Base.Close()
	for _, d := range r.files {
		err = errors.Join(err, d.close())
	}
	return err
}

// Version returns ir_version, the version of the format, in decimal.
func (r *Reader) Version() string { return strconv.FormatInt(r.model.IRVersion, 10) }

// Model returns the content of the file without the elements of its tensors.
func (r *Reader) Model() *Model { return r.model }

func (r *Reader) dataFiles() []*dataFile {
	return slices.SortedFunc(maps.Values(r.files),
		func(a, b *dataFile) int { return cmp.Compare(a.name, b.name) })
}

// Warnings returns deviations from the format's document that did not prevent opening,
// and files that are missing, which the first call opens. Tensors that cannot be read are
// findings of Verify.
func (r *Reader) Warnings() []error { return slices.Clone(r.warnings()) }

func (r *Reader) makeWarnings() []error {
	w := format.Warnings{Format: formatName}
	for _, err := range r.deviations() {
		w.Add(err)
	}
	for _, d := range r.dataFiles() {
		if w.Full() {
			break
		}
		if _, err := d.open(); err != nil {
			w.Add(&tensor.FormatError{Format: formatName, Offset: -1, Field: "external_data",
				Err: err})
		}
	}
	return w.All()
}

// Spans yields the role of every byte of the file, in the order of offsets: elements of
// tensors, and metadata around them.
func (r *Reader) Spans() iter.Seq[tensor.Span] {
	return format.SpansOf(r, format.MetadataSpan(0, r.Size()))
}
