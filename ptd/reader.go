package ptd

import (
	"context"
	"io"
	"iter"
	"math/bits"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// ReaderOptions control how a file is opened. nil is the zero value. Strict refuses every
// deviation from the format, where the default reads what the reference reads safely. A
// .ptd refers to no other file.
type ReaderOptions = tensor.ReadOptions

// A Reader is an open .ptd file. All of its metadata was read and checked when it was
// opened. It is safe for concurrent use.
type Reader struct {
	src      *source.Source
	header   Header
	legacy   bool
	align    int64           // tensor_alignment of a legacy file
	entries  []entry         // in file order
	tensors  int             // how many entries are tensors
	segments []source.Extent // as the file lists them
	table    *naming.Table   // of entries
	warnings format.Warnings
}

// Open opens a file and maps it where the system can. The Reader owns it: close it.
func Open(name string, opts *ReaderOptions) (*Reader, error) {
	return format.Open(name, opts, read)
}

// OpenBytes reads a file that is in memory. It keeps b, which must not change while the
// Reader is in use.
func OpenBytes(b []byte, opts *ReaderOptions) (*Reader, error) {
	return format.OpenBytes(b, opts, read)
}

// NewReader reads the first size bytes of r, which stays the caller's. Opening takes
// one read of up to 64 KiB, and a second where the metadata is longer.
func NewReader(r io.ReaderAt, size int64, opts *ReaderOptions) (*Reader, error) {
	return format.NewReader(r, size, opts, read)
}

// Close unmaps and closes the file if the Reader opened it. What was borrowed is
// invalid afterwards, and reading fails with fs.ErrClosed. A second Close does nothing.
func (r *Reader) Close() error { return r.src.Close() }

// Version is the version in the file: "0" for every file that can be opened, of both
// generations. Schema says which.
func (r *Reader) Version() string { return "0" }

// Schema is the release of ExecuTorch that brought the tables that the file has: "0.7",
// or "0.6" for those before.
func (r *Reader) Schema() string {
	if r.legacy {
		return "0.6"
	}
	return "0.7"
}

// Header is the extended header.
func (r *Reader) Header() Header { return r.header }

// Size returns the size of the file in bytes.
func (r *Reader) Size() int64 { return r.src.Size() }

// Len is the number of tensors.
func (r *Reader) Len() int { return r.tensors }

// Tensors yields the entries that have a layout, in file order. Data of a tensor is as
// long as its shape says; the segment may be longer, see [Entry].
func (r *Reader) Tensors() iter.Seq[*tensor.Tensor] {
	return func(yield func(*tensor.Tensor) bool) {
		for i := range r.entries {
			if e := &r.entries[i]; e.isTensor && !yield(&e.Tensor) {
				return
			}
		}
	}
}

// Tensor returns the tensor of that name, nil if there is none.
func (r *Reader) Tensor(name string) *tensor.Tensor {
	if i := r.table.Lookup(name); i >= 0 && r.entries[i].isTensor {
		return &r.entries[i].Tensor
	}
	return nil
}

// Blobs yields the entries without a layout, in file order.
func (r *Reader) Blobs() iter.Seq2[string, tensor.Blob] {
	return func(yield func(string, tensor.Blob) bool) {
		if r.tensors == len(r.entries) {
			return
		}
		for i := range r.entries {
			if e := &r.entries[i]; !e.isTensor && !yield(e.Name, e.Data) {
				return
			}
		}
	}
}

// Attributes yields nothing: the format has none.
func (r *Reader) Attributes() iter.Seq2[string, string] {
	return func(func(string, string) bool) {}
}

// Warnings returns the departures from the format that did not prevent
// opening.
func (r *Reader) Warnings() []error { return r.warnings.All() }

// An Entry is a name with the bytes that it stands for.
type Entry struct {
	Name   string
	Layout *Layout // nil for a blob
	// Data is all of the segment. A tensor's elements are its beginning: a segment may
	// be longer than its layout needs.
	Data tensor.Blob
	// Segment is the index in Segments; entries of the same segment share its bytes. A
	// Writer ignores it: its Dedup says what shares.
	Segment int
	// Alignment is what a Writer aligns Data to, in the file; 0 asks for none. A file
	// does not record it: zero from a Reader, but for a file of 0.6.
	Alignment int64
}

// Entries yields all entries, tensors and blobs, in file order.
func (r *Reader) Entries() iter.Seq[Entry] { return format.Each(len(r.entries), r.entry) }

// Entry returns the entry of that name, and whether there is one.
func (r *Reader) Entry(name string) (Entry, bool) {
	i := r.table.Lookup(name)
	if i < 0 {
		return Entry{}, false
	}
	return r.entry(i), true
}

func (r *Reader) entry(i int) Entry {
	e := &r.entries[i]
	out := Entry{Name: e.Name, Data: e.Data, Segment: int(e.segment), Alignment: r.align}
	if !e.isTensor {
		return out
	}
	if !r.legacy {
		out.Data = tensor.NewBlob(&r.segments[e.segment])
	}
	out.Layout = layoutOf(e.Data.Source().(*payload).scalar, &e.Tensor)
	return out
}

// A Segment is a range of the file.
type Segment struct {
	Offset int64 // from the start of the file
	Size   int64
}

// Segments yields the segments with their indices, as the file lists them.
func (r *Reader) Segments() iter.Seq2[int, Segment] {
	return func(yield func(int, Segment) bool) {
		for i := range r.segments {
			if s := &r.segments[i]; !yield(i, Segment{s.Offset(), s.Size()}) {
				return
			}
		}
	}
}

// Alignment is that of a file of 0.6, which records it; else the largest power of two
// that divides the start of every segment in the file.
func (r *Reader) Alignment() int64 {
	if r.align > 0 {
		return r.align
	}
	all := uint64(r.header.SegmentBaseOffset)
	for i := range r.segments {
		all |= uint64(r.segments[i].Offset())
	}
	if all == 0 {
		return 1
	}
	return 1 << bits.TrailingZeros64(all)
}

// Spans yields what every byte of the file is for, in the order of offsets. A segment
// that no entry refers to is unused.
func (r *Reader) Spans() iter.Seq[tensor.Span] {
	h := r.header
	head := 8 + int64(h.Length)
	frame := []tensor.Span{
		format.HeaderSpan(0, head), format.PaddingSpan(head, 8+h.FlatbufferOffset-head),
		format.MetadataSpan(8+h.FlatbufferOffset, h.FlatbufferSize-8),
		format.PaddingSpan(h.metadataEnd(), h.SegmentBaseOffset+h.SegmentDataSize-h.metadataEnd()),
	}
	for i := range r.segments {
		if r.legacy { // one segment has all tensors, and padding between them
			break
		}
		frame = append(frame, format.UnusedSpan(r.segments[i].Offset(), r.segments[i].Size()))
	}
	return format.SpansOf(r, frame...)
}

// Load reads all tensors of a file into memory of their own, by name; blobs are left
// out.
func Load(name string) (map[string]*tensor.Tensor, error) {
	return format.Load(Open(name, nil))
}

// Save writes tensors under the names that are the keys of m, sorted. The file appears
// whole or not at all.
func Save(name string, m map[string]*tensor.Tensor) error {
	return WriteFile(context.Background(), name, tensor.Sorted(m), nil)
}
