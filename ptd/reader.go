package ptd

import (
	"encoding/binary"
	"io"
	"iter"
	"math"
	"math/bits"
	"sync/atomic"

	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/names"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// ReaderOptions control how a file is opened. nil is the zero value.
type ReaderOptions struct {
	// Strict refuses every departure from the format, where the default reads what the reference reads safely and puts the
	// departure into Warnings.
	Strict bool
	// Lenient turns an entry whose layout makes no sense (a negative size, a dimension order that is no permutation, more
	// bytes than its segment has) into a blob, with a warning, where the default refuses the file. Strict wins.
	Lenient bool
	// Limits bound what a file may ask for.
	Limits tensor.Limits
	// NoMap reads through the file instead of mapping it.
	NoMap bool
	// Companion is not used: a .ptd refers to no other file.
	Companion func(name string) (io.ReaderAt, int64, error)
}

// A Reader is an open .ptd file. All of its metadata was read and checked when it was opened. It is safe for concurrent
// use.
type Reader struct {
	src      *source.Source
	header   Header
	legacy   bool
	align    int64 // tensor_alignment of a legacy file
	names    nameList
	tensors  []tensor.Tensor // of the entries that have a layout, in file order
	places   []uint32        // by entry: its tensor, or isBlob; nil: tensors come first
	index    []uint32        // of the segment, by entry; nil: there is only one
	segments []source.Extent // as the file lists them
	strays   int             // how many of tensors are none
	table    names.Table
	warnings []error
	budget   atomic.Int64 // of the parser: bytes that the index may still take
}

// A nameList has the names of the entries. They have a list of their own, though tensors know their names, so that a look-up
// goes through as little memory as can be; and where the Reader keeps the metadata anyway, the list only says where in it they
// are: a Tensor alone takes two and a half times what a scalar does in the file, which leaves little for all else.
type nameList struct {
	all []string
	at  []uint32 // or where the bytes of a name begin in buf, behind their number
	buf []byte
}

func (l *nameList) len() int { return max(len(l.all), len(l.at)) }

func (l *nameList) NameAt(i int) string {
	if l.at == nil {
		return l.all[i]
	}
	at := l.at[i]
	n := binary.LittleEndian.Uint32(l.buf[at-4:])
	return le.String(l.buf[at:][:n])
}

// isBlob stands in Reader.places for an entry that has no tensor.
const isBlob = math.MaxUint32

// stray is the Scheme of a tensor whose layout was given up, because of ReaderOptions.Lenient: a blob, of which it has the name
// and the bytes. No caller sees it.
const stray = "stray"

// place is the index in tensors of what entry i was read into, or -1.
func (r *Reader) place(i int) int {
	switch {
	case r.places == nil && i < len(r.tensors):
		return i
	case r.places == nil || r.places[i] == isBlob:
		return -1
	}
	return int(r.places[i])
}

// tensor is nil for a blob.
func (r *Reader) tensor(i int) *tensor.Tensor {
	k := r.place(i)
	if k < 0 {
		return nil
	}
	return r.real(k)
}

// real is tensors[k], nil for one that was given up.
func (r *Reader) real(k int) *tensor.Tensor {
	t := &r.tensors[k]
	if r.strays > 0 && t.Scheme == stray {
		return nil
	}
	return t
}

func (r *Reader) segment(i int) int {
	if r.index == nil {
		return 0
	}
	return int(r.index[i])
}

// blob is the data of entry i, which has no tensor: all of its segment, or what was left for a tensor of 0.6.
func (r *Reader) blob(i int) tensor.Blob {
	if k := r.place(i); k >= 0 {
		return r.tensors[k].Data
	}
	return tensor.NewBlob(&r.segments[r.segment(i)])
}

// Open opens a file and maps it where the system can. The Reader owns it: close it.
func Open(name string, opts *ReaderOptions) (*Reader, error) {
	src, err := source.Open(name, opts != nil && opts.NoMap)
	if err != nil {
		return nil, err
	}
	r, err := newReader(src, nil, opts)
	if err != nil {
		src.Close()
		return nil, err
	}
	return r, nil
}

// OpenBytes reads a file that is in memory. It keeps b, which must not change while the Reader is in use.
func OpenBytes(b []byte, opts *ReaderOptions) (*Reader, error) {
	if b == nil {
		b = []byte{}
	}
	return newReader(source.OfBytes(b), b, opts)
}

// NewReader reads the first size bytes of r, which stays the caller's. Opening takes one read of up to 64 KiB, and a second
// where the metadata is longer.
func NewReader(r io.ReaderAt, size int64, opts *ReaderOptions) (*Reader, error) {
	src, err := source.OfReaderAt(r, size)
	if err != nil {
		return nil, err
	}
	return newReader(src, nil, opts)
}

// Close unmaps and closes the file if the Reader opened it. What was borrowed is invalid afterwards, and reading fails with
// fs.ErrClosed. A second Close does nothing.
func (r *Reader) Close() error { return r.src.Close() }

// Version is the version in the file: "0" for every file that can be opened, of both generations. Schema tells them apart.
func (r *Reader) Version() string { return "0" }

// Schema is the release of ExecuTorch that brought the tables that the file has: "0.7", or "0.6" for those before.
func (r *Reader) Schema() string {
	if r.legacy {
		return "0.6"
	}
	return "0.7"
}

// Header is the extended header.
func (r *Reader) Header() Header { return r.header }

// Len is the number of tensors.
func (r *Reader) Len() int { return len(r.tensors) - r.strays }

// Tensors yields the entries that have a layout, in file order. Data of a tensor is as long as its shape says; the segment
// may be longer, see [Entry].
func (r *Reader) Tensors() iter.Seq[*tensor.Tensor] {
	return func(yield func(*tensor.Tensor) bool) {
		for k := range r.tensors {
			if t := r.real(k); t != nil && !yield(t) {
				return
			}
		}
	}
}

// Tensor returns the tensor of that name, nil if there is none.
func (r *Reader) Tensor(name string) *tensor.Tensor {
	i := r.table.Lookup(name)
	if i < 0 {
		return nil
	}
	return r.tensor(i)
}

// Blobs yields the entries without a layout, in file order.
func (r *Reader) Blobs() iter.Seq2[string, tensor.Blob] {
	return func(yield func(string, tensor.Blob) bool) {
		if r.Len() == r.names.len() {
			return
		}
		for i := range r.names.len() {
			if r.tensor(i) == nil && !yield(r.names.NameAt(i), r.blob(i)) {
				return
			}
		}
	}
}

// Attributes yields nothing: the format has none.
func (r *Reader) Attributes() iter.Seq2[string, string] {
	return func(func(string, string) bool) {}
}

// Warnings are the departures from the format that opening came across and could live with.
func (r *Reader) Warnings() []error { return r.warnings }

// An Entry is a name with the bytes that it stands for.
type Entry struct {
	Name   string
	Layout *Layout // nil for a blob
	// Data is all of the segment. A tensor's elements are its beginning: a segment may be longer than its layout needs.
	Data tensor.Blob
	// Segment is the index in Segments; entries of the same segment share its bytes. A Writer ignores it: it makes a
	// segment for every Data, and one for several where its Dedup says so.
	Segment int
	// Alignment is what a Writer aligns Data to, in the file; 0 is no wish. A file does not record it: zero from a Reader,
	// but for a file of 0.6.
	Alignment int64
}

// Entries yields all entries, tensors and blobs, in file order.
func (r *Reader) Entries() iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		for i := range r.names.len() {
			if !yield(r.entry(i)) {
				return
			}
		}
	}
}

// Entry returns the entry of that name, and whether there is one.
func (r *Reader) Entry(name string) (Entry, bool) {
	i := r.table.Lookup(name)
	if i < 0 {
		return Entry{}, false
	}
	return r.entry(i), true
}

func (r *Reader) entry(i int) Entry {
	out := Entry{Name: r.names.NameAt(i), Segment: r.segment(i), Alignment: r.align}
	t := r.tensor(i)
	if t == nil {
		out.Data = r.blob(i)
		return out
	}
	out.Data = t.Data
	if !r.legacy {
		out.Data = tensor.NewBlob(&r.segments[out.Segment])
	}
	l := &Layout{Sizes: make([]int32, len(t.Shape)), DimOrder: make([]uint8, len(t.Shape))}
	if u, ok := t.Data.Source().(*untyped); ok {
		l.ScalarType = u.scalar
	} else {
		l.ScalarType, _ = ScalarTypeOf(t.DType)
	}
	for d, n := range t.Shape {
		l.Sizes[d], l.DimOrder[d] = int32(n), uint8(d)
		if t.Order != nil {
			l.DimOrder[d] = uint8(t.Order[d])
		}
	}
	out.Layout = l
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

// Sharing answers, by segment, the names of the entries that share it, where there is more than one.
func (r *Reader) Sharing() map[int][]string {
	first := make([]int32, len(r.segments)) // entry + 1
	out := map[int][]string{}
	if r.legacy {
		return out // there all tensors lie in one segment, and share nothing by that
	}
	for i := range r.names.len() {
		s, name := r.segment(i), r.names.NameAt(i)
		switch {
		case first[s] == 0:
			first[s] = int32(i) + 1
		case out[s] == nil:
			out[s] = []string{r.names.NameAt(int(first[s]) - 1), name}
		default:
			out[s] = append(out[s], name)
		}
	}
	return out
}

// Alignment is the largest power of two that divides the start of the segments and every one of them, in the file. A file
// does not record what was asked for, except one of 0.6, whose own number this is then.
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
