package tensorfile

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"math"
	"slices"
	"sync/atomic"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// A File is an open tensor file of any format. It may be used by several
// goroutines at the same time.
type File struct {
	r      Reader
	format Format
	size   int64
	limits tensor.Limits
	in     *format.Input // nil for FromReader and FromTensors
	closed atomic.Bool
}

// A Reader has the methods that the Readers of all format packages share.
type Reader interface {
	Close() error
	Version() string
	Size() int64
	Len() int
	Tensors() iter.Seq[*tensor.Tensor]
	Tensor(name string) *tensor.Tensor
	Blobs() iter.Seq2[string, tensor.Blob]
	Attributes() iter.Seq2[string, string]
	Warnings() []error
	Spans() iter.Seq[tensor.Span]
	Verify(ctx context.Context, opts *tensor.VerifyOptions) (*tensor.Report, error)
}

// Close releases the file. It may be called more than once. Afterwards reading fails with
// fs.ErrClosed, and borrowed slices must not be used.
func (f *File) Close() error {
	f.closed.Store(true)
	err := f.r.Close()
	if f.in != nil {
		err = cmp.Or(err, f.in.Close())
	}
	return err
}

// remote returns where the file is read from if that is neither memory nor a local file.
func (f *File) remote() io.ReaderAt {
	if f.in == nil {
		return nil
	}
	return f.in.ReaderAt
}

// Format returns the format that the file was opened as.
func (f *File) Format() Format { return f.format }

// Version returns the version or kind of the file, in the words of its format; "" for
// formats without versions.
func (f *File) Version() string { return f.r.Version() }

// Size returns the size of the file in bytes.
func (f *File) Size() int64 { return f.size }

// TotalSize returns the size of the file and of all files that it names as its shards, in
// bytes. It opens none of them.
func (f *File) TotalSize() int64 {
	n := f.size
	switch r := f.r.(type) {
	case interface{ TotalSize() int64 }: // several files as one
		return r.TotalSize()
	case *ztensor.Reader:
		for s := range r.Shards() {
			n += s.Size
		}
	case interface {
		ShardSpans() iter.Seq2[string, iter.Seq[tensor.Span]]
	}:
		for _, spans := range r.ShardSpans() {
			for s := range spans {
				n += s.Size
			}
		}
	}
	return n
}

// Len returns the number of tensors.
func (f *File) Len() int { return f.r.Len() }

// Tensors returns all tensors in file order. Names may repeat where the format
// allows it.
func (f *File) Tensors() iter.Seq[*tensor.Tensor] { return f.r.Tensors() }

// Tensor returns the first tensor of that name, or nil.
func (f *File) Tensor(name string) *tensor.Tensor { return f.r.Tensor(name) }

// Lookup returns the first tensor of that name, or an error that wraps
// tensor.ErrNoTensor and has the name.
func (f *File) Lookup(name string) (*tensor.Tensor, error) {
	t := f.Tensor(name)
	if t == nil {
		return nil, fmt.Errorf("%w: %s", tensor.ErrNoTensor, naming.Quote(name))
	}
	return t, nil
}

// Blobs returns the named payloads that are not tensors, in file order.
func (f *File) Blobs() iter.Seq2[string, tensor.Blob] { return f.r.Blobs() }

// Attributes returns the keys and texts that describe the file, in file order. A value
// that is not text in the file is JSON.
func (f *File) Attributes() iter.Seq2[string, string] { return f.r.Attributes() }

// Warnings returns the deviations from the format's document that did not
// prevent opening the file.
func (f *File) Warnings() []error { return f.r.Warnings() }

// Spans returns the role of every byte of the file, in the order of offsets, disjoint and
// without a gap. Shards are other files: File.Spans does not list their bytes.
func (f *File) Spans() iter.Seq[tensor.Span] { return f.r.Spans() }

// Verify reads everything and checks it: structure, padding, overlaps, digests, encoded
// payloads. The report, which is never nil, lists the findings; the error is Report.Err,
// which is not nil if the file is damaged or could not be read.
func (f *File) Verify(ctx context.Context, opts *tensor.VerifyOptions) (*tensor.Report, error) {
	return f.r.Verify(ctx, opts)
}

// Sys returns the Reader of the format's own package, for all that only one
// format has: a *ztensor.Reader, a *pte.Reader, …
func (f *File) Sys() any { return f.r }

// FromReader returns a File over a Reader of one of the format packages, such as one
// that was opened with options of its own. A Reader of another package may have a
// method Format. Closing the File closes the Reader.
func FromReader(r Reader) *File {
	f := &File{r: r, size: r.Size()}
	if r, ok := r.(interface{ Format() Format }); ok {
		f.format = r.Format()
		return f
	}
	for _, known := range Formats() {
		if formats[known].is(r) {
			f.format = known
		}
	}
	return f
}

// FromTensors returns a File of tensors that need not be in a file, for functions that
// take a File. attributes may be nil. Its Format is 0, its Version "", its Size 0, and
// Close does nothing. The tensors must not change while it is in use.
func FromTensors(ts []*tensor.Tensor, attributes map[string]string) *File {
	m := &inMemory{tensors: slices.Clone(ts), attributes: maps.Clone(attributes),
		index: map[string]int{}}
	for i, t := range m.tensors {
		if _, taken := m.index[t.Name]; !taken {
			m.index[t.Name] = i
		}
	}
	return &File{r: m}
}

// WithTensors returns a File with other tensors, and with all else of f, such as its
// attributes. The tensors must not change while it is in use. Sys is not a Reader of the
// format's package, which would have the tensors of f. Closing the File closes f.
func (f *File) WithTensors(ts []*tensor.Tensor) *File {
	return FromReader(&otherTensors{f, FromTensors(ts, nil)})
}

// otherTensors is the Reader of WithTensors.
type otherTensors struct {
	*File
	others *File
}

func (r *otherTensors) Len() int                          { return r.others.Len() }
func (r *otherTensors) Tensors() iter.Seq[*tensor.Tensor] { return r.others.Tensors() }
func (r *otherTensors) Tensor(name string) *tensor.Tensor { return r.others.Tensor(name) }

// inMemory is the Reader of FromTensors.
type inMemory struct {
	tensors    []*tensor.Tensor
	attributes map[string]string
	index      map[string]int
}

func (m *inMemory) Close() error                      { return nil }
func (m *inMemory) Version() string                   { return "" }
func (m *inMemory) Size() int64                       { return 0 }
func (m *inMemory) Len() int                          { return len(m.tensors) }
func (m *inMemory) Tensors() iter.Seq[*tensor.Tensor] { return slices.Values(m.tensors) }
func (m *inMemory) Warnings() []error                 { return nil }
func (m *inMemory) Spans() iter.Seq[tensor.Span]      { return func(func(tensor.Span) bool) {} }

func (m *inMemory) Tensor(name string) *tensor.Tensor {
	if i, ok := m.index[name]; ok {
		return m.tensors[i]
	}
	return nil
}

func (m *inMemory) Blobs() iter.Seq2[string, tensor.Blob] {
	return func(func(string, tensor.Blob) bool) {}
}

func (m *inMemory) Attributes() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, k := range slices.Sorted(maps.Keys(m.attributes)) {
			if !yield(k, m.attributes[k]) {
				return
			}
		}
	}
}

// Verify checks descriptions and reads all data, which checks digests.
func (m *inMemory) Verify(ctx context.Context,
	opts *tensor.VerifyOptions) (*tensor.Report, error) {
	found := format.NewFindings(opts)
	return found.End(m.verify(ctx, found))
}

func (m *inMemory) verify(ctx context.Context, found *format.Findings) error {
	for _, t := range m.tensors {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := t.Check(); err != nil {
			found.Error(err)
			continue
		}
		if t.External {
			continue
		}
		if _, err := t.Data.WriteTo(io.Discard); err != nil {
			found.Error(fmt.Errorf("tensor %s: %w", naming.Quote(t.Name), err))
		}
		for _, p := range t.Parts {
			if _, err := p.Data.WriteTo(io.Discard); err != nil {
				found.Error(fmt.Errorf("tensor %s, %s: %w", naming.Quote(t.Name),
					naming.Quote(p.Role),
					err))
			}
		}
	}
	return nil
}

// A Summary has the main figures of a file.
type Summary struct {
	Format     Format
	Version    string
	Size       int64 // of the file
	Tensors    int64
	Parameters int64 // elements of all tensors, at most math.MaxInt64
	Bytes      int64 // decoded, of all tensors whose size is known
	ByDType    map[tensor.DType]Total
	Blobs      int64
	Attributes map[string]string
}

// A Total sums up the tensors of one dtype.
type Total struct{ Tensors, Parameters, Bytes int64 }

// Summary returns the summary of the file. It walks the metadata once, and reads no data.
func (f *File) Summary() Summary {
	s := Summary{
		Format: f.format, Version: f.Version(), Size: f.size,
		ByDType: map[tensor.DType]Total{}, Attributes: maps.Collect(f.Attributes()),
	}
	var all Total
	for t := range f.Tensors() {
		n, _ := t.Shape.Elements()
		size := t.Size()
		if t.External {
			size, _ = t.DType.Bytes(n)
		}
		one := Total{1, n, max(size, 0)}
		all = all.plus(one)
		s.ByDType[t.DType] = s.ByDType[t.DType].plus(one)
	}
	s.Tensors, s.Parameters, s.Bytes = all.Tensors, all.Parameters, all.Bytes
	for range f.Blobs() {
		s.Blobs++
	}
	return s
}

func (t Total) plus(u Total) Total {
	sum := func(a, b int64) int64 {
		if c, ok := align.Add(a, b); ok {
			return c
		}
		return math.MaxInt64
	}
	return Total{t.Tensors + u.Tensors, sum(t.Parameters, u.Parameters), sum(t.Bytes, u.Bytes)}
}

// String writes the summary on one line.
func (s Summary) String() string {
	line := s.Format.String()
	if s.Version != "" {
		line += " " + s.Version
	}
	line += fmt.Sprintf(": %d tensors, %d parameters, %d bytes", s.Tensors, s.Parameters, s.Bytes)
	for _, d := range slices.Sorted(maps.Keys(s.ByDType)) {
		line += fmt.Sprintf(", %v %d", d, s.ByDType[d].Bytes)
	}
	return line
}
