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

// ReaderOptions control how a model is read. nil means the zero value. With Strict,
// opening fails if there are Warnings. Companion opens data files.
type ReaderOptions = tensor.ReadOptions

// A Reader is an open model. It is safe for concurrent use. See package tensor for how
// long borrowed slices are valid. Attributes are metadata_props. Size does not count data
// files.
//
// Tensors are named as follows; names may repeat:
//
//	NAME                    an initializer
//	#INDEX, sparse#INDEX    an initializer, a sparse initializer without a name
//	OUTPUT                  the value of a Constant: the name of the node's output
//	NODE.ATTRIBUTE          another tensor in an attribute; [INDEX] follows in a list
//	#INDEX.ATTRIBUTE        the same, for a node without a name
//	attribute.NAME          the default of an attribute of a function
//
// A prefix names the graph, unless it is the main graph; a graph in a graph has several:
//
//	NODE.ATTRIBUTE/                       a graph in an attribute; [INDEX] as above
//	DOMAIN:NAME/, DOMAIN:NAME:OVERLOAD/   the body of a function
//	training[INDEX].initialization/       a training graph
//	training[INDEX].algorithm/            a training graph
//
// A sparse tensor has the scheme sparse_coo and the parts values and indices: see package
// sparse. A tensor of strings has the dtype Unknown. Its data is the bytes of the fields
// that have the strings.
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

// Open opens a file, mapping it where the system can, and reads all but the elements of
// tensors. The caller must close the Reader. Open fails with tensor.ErrMalformed,
// io.ErrUnexpectedEOF or tensor.ErrLimit if the model cannot be read.
func Open(name string, opts *ReaderOptions) (*Reader, error) {
	return format.Open(name, opts, read)
}

// OpenBytes opens a file in memory. It does not copy b, which must not change while the
// Reader is in use.
func OpenBytes(b []byte, opts *ReaderOptions) (*Reader, error) {
	return format.OpenBytes(b, opts, read)
}

// NewReader opens a model of size bytes in r, which the caller closes. It skips the
// elements of large tensors: one read gets the metadata between two of them.
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

// complete returns an error if a part that every model has is missing.
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

// Close closes the file, if Open opened it, and the data files. It may be called twice.
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

// Warnings returns deviations from the format's specification that did not prevent
// opening, and data files that cannot be opened. The first call opens them. Verify, not
// Warnings, reports tensors that cannot be read.
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

// Spans yields the role of every byte of the file, in the order of offsets: tensors, and
// metadata.
func (r *Reader) Spans() iter.Seq[tensor.Span] {
	return format.SpansOf(r, format.MetadataSpan(0, r.Size()))
}
