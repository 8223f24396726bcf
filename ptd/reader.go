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
// deviation from the format; the default reads all files that the reference reads safely.
// A .ptd refers to no other file.
type ReaderOptions = tensor.ReadOptions

// A Reader is an open file, with the methods of every Reader: Close, Size, Len, Tensors,
// Blobs, Attributes and Warnings. Tensors are the entries that have a layout: the data of
// one is as long as its shape says; the segment may be longer, see [Entry]. Blobs are the
// other entries. There are no Attributes. It is safe for concurrent use. See package
// tensor for how long borrowed slices are valid.
type Reader struct {
	format.Base
	header   header
	legacy   bool
	align    int64           // tensor_alignment of a legacy file
	entries  []entry         // in file order
	segments []source.Extent // as the file lists them
	table    *naming.Table   // of entries
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

// NewReader reads the first size bytes of r, which the caller closes. Opening takes one
// read of up to 64 KiB, and a second where the metadata is longer.
func NewReader(r io.ReaderAt, size int64, opts *ReaderOptions) (*Reader, error) {
	return format.NewReader(r, size, opts, read)
}

// setEntries divides the entries into tensors and blobs.
func (r *Reader) setEntries() {
	n := 0
	for i := range r.entries {
		if r.entries[i].isTensor {
			n++
		}
	}
	at := func(i int) *tensor.Tensor { return &r.entries[i].Tensor }
	if n < len(r.entries) {
		index := make([]int32, len(r.entries)) // of entries: tensors first
		tensors, blobs := index[:n:n], index[n:]
		t, b := 0, 0
		for i := range r.entries {
			if r.entries[i].isTensor {
				tensors[t] = int32(i)
				t++
			} else {
				blobs[b] = int32(i)
				b++
			}
		}
		at = func(i int) *tensor.Tensor { return &r.entries[tensors[i]].Tensor }
		format.SetBlobs(&r.Base, b, func(i int) (string, tensor.Blob) {
			e := &r.entries[blobs[i]]
			return e.Name, e.Data
		})
	}
	format.SetTensors(&r.Base, n, at, nil)
}

// Version returns the version in the file: "0" for every file that can be opened, of both
// generations, which Schema distinguishes.
func (r *Reader) Version() string { return "0" }

// Schema returns the release of ExecuTorch that introduced the tables of the file: "0.7",
// or "0.6" for the earlier tables.
func (r *Reader) Schema() string {
	if r.legacy {
		return "0.6"
	}
	return "0.7"
}

// Tensor returns the tensor of that name, nil if there is none.
func (r *Reader) Tensor(name string) *tensor.Tensor {
	if i := r.table.Lookup(name); i >= 0 && r.entries[i].isTensor {
		return &r.entries[i].Tensor
	}
	return nil
}

// An Entry is a name with the bytes that it stands for.
type Entry struct {
	Name   string
	Layout *Layout // nil for a blob
	// Data is all of the segment. A tensor's elements are its beginning: a segment may
	// be longer than its layout needs.
	Data tensor.Blob
	// Segment is the index in Segments; entries of the same segment share its bytes. A
	// Writer ignores it: entries share whose Data is the same memory or source.
	Segment int
	// Alignment is the alignment of Data in the file that a Writer makes, in bytes; 0
	// asks for none. Files do not record it: a Reader returns 0, except for a file of
	// 0.6.
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

// Alignment returns the alignment in bytes that a file of 0.6 records; for other files
// the largest power of two that divides the start of every segment in the file.
func (r *Reader) Alignment() int64 {
	if r.align > 0 {
		return r.align
	}
	all := uint64(r.header.segmentBaseOffset)
	for i := range r.segments {
		all |= uint64(r.segments[i].Offset())
	}
	if all == 0 {
		return 1
	}
	return 1 << bits.TrailingZeros64(all)
}

// Spans yields the role of every byte of the file, in the order of offsets. A segment
// that no entry refers to is unused.
func (r *Reader) Spans() iter.Seq[tensor.Span] {
	h := r.header
	head := 8 + int64(h.length)
	frame := []tensor.Span{
		format.HeaderSpan(0, head), format.PaddingSpan(head, 8+h.flatbufferOffset-head),
		format.MetadataSpan(8+h.flatbufferOffset, h.flatbufferSize-8),
		format.PaddingSpan(h.metadataEnd(), h.segmentBaseOffset+h.segmentDataSize-h.metadataEnd()),
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
