package tensor

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sort"

	"github.com/tensorfile/tensorfile/internal/naming"
)

// An Index selects indices along one dimension: a Range, a Stride, or an At, which also
// removes the dimension.
type Index interface {
	// axis returns what is selected of a dimension of n indices.
	axis(n int64) (axis, error)
}

// A Range selects the indices from Start to before Stop. Negative values count from the
// end, and values beyond the dimension are cut off, as in Python.
type Range struct{ Start, Stop int64 }

// All selects a whole dimension.
var All = Range{0, End}

// End as a Stop is the end of the dimension, whichever way a Stride goes.
const End = math.MaxInt64

// A Stride selects every Step-th index from Start to before Stop; a negative Step goes
// backwards, from Start, or from the last index where Start is End.
type Stride struct{ Start, Stop, Step int64 }

// An At selects one index and removes its dimension. Negative values count from the
// end; a value beyond the dimension is an error.
type At int64

type axis struct {
	first, count, step int64
	drop               bool
}

func (r Range) axis(n int64) (axis, error) { return Stride{r.Start, r.Stop, 1}.axis(n) }

func (s Stride) axis(n int64) (axis, error) {
	if s.Step == 0 || s.Step == math.MinInt64 {
		return axis{}, fmt.Errorf("tensor: a step of %d", s.Step)
	}
	clamp := func(v, lo, hi int64) int64 {
		if v < 0 && v >= -n {
			v += n
		} else if v < 0 {
			v = lo
		}
		return min(max(v, lo), hi)
	}
	a := axis{step: s.Step}
	if s.Step > 0 {
		a.first = clamp(s.Start, 0, n)
		if stop := clamp(s.Stop, 0, n); stop > a.first {
			a.count = (stop-a.first-1)/s.Step + 1
		}
		return a, nil
	}
	a.first = clamp(s.Start, -1, n-1)
	stop := int64(-1)
	if s.Stop != End {
		stop = clamp(s.Stop, -1, n-1)
	}
	if stop < a.first {
		a.count = (a.first-stop-1)/-s.Step + 1
	}
	return a, nil
}

func (i At) axis(n int64) (axis, error) {
	at := int64(i)
	if at < 0 {
		at += n
	}
	if at < 0 || at >= n {
		return axis{}, fmt.Errorf("tensor: index %d of a dimension of %d", int64(i), n)
	}
	return axis{at, 1, 1, true}, nil
}

// Slice returns a part of a dense tensor, in row-major order, as NumPy's basic slicing
// does: the first dimensions are indexed as given, the others are whole. It reads
// nothing; the result's Data reads the elements of the part, gaps of less than 4 KiB
// between them, and what decoding them takes, in a few MiB of memory. The result has
// the name and dtype of t; a part of quantised blocks of ggml is float32.
func Slice(t *Tensor, index ...Index) (*Tensor, error) {
	t, err := numbers(t)
	if err != nil {
		return nil, err
	}
	if !t.DType.Known() {
		return nil, fmt.Errorf("%w: tensor %s is of unknown dtype", errors.ErrUnsupported,
			naming.Quote(t.Name))
	}
	if len(index) > len(t.Shape) {
		return nil, fmt.Errorf("tensor: %d indices for the %d dimensions of tensor %s", len(index),
			len(t.Shape), naming.Quote(t.Name))
	}
	strides, ok := t.Order.Strides(t.Shape)
	if !ok {
		return nil, fmt.Errorf("%w: tensor %s: shape %v", ErrMalformed, naming.Quote(t.Name),
			t.Shape)
	}
	p := &part{data: t.Data, bits: int64(t.DType.Bits())}
	out := &Tensor{Name: t.Name, DType: t.DType, Shape: Shape{}}
	for d, n := range t.Shape {
		a := axis{0, n, 1, false}
		if d < len(index) {
			var err error
			if a, err = index[d].axis(n); err != nil {
				return nil, fmt.Errorf("%w (dimension %d of tensor %s)", err, d,
					naming.Quote(t.Name))
			}
		}
		if !a.drop {
			out.Shape = append(out.Shape, a.count)
		}
		p.add(a.count, a.step, a.first, strides[d])
	}
	n, _ := out.Shape.Elements()
	if n == 0 {
		return out, nil
	}
	p.size, _ = t.DType.Bytes(n)
	if whole, _ := t.Shape.Elements(); n == whole && p.contiguous() {
		out.Data = t.Data
		return out, nil
	}
	out.Data = NewBlob(p)
	return out, nil
}

// A part is the bytes of some of the elements of a blob, in row-major order of dims.
type part struct {
	data  Blob
	bits  int64 // of an element
	first int64 // element of data
	dims  []dim // of more than one element, from slowest to fastest; adjacent ones are merged
	size  int64
}

// A dim is count elements, step elements of data apart.
type dim struct{ count, step int64 }

func (p *part) add(count, step, first, stride int64) {
	p.first += first * stride
	if count < 2 {
		return
	}
	d := dim{count, step * stride}
	if last := len(p.dims) - 1; last >= 0 && p.dims[last].step == d.count*d.step {
		d.count *= p.dims[last].count
		p.dims = p.dims[:last]
	}
	p.dims = append(p.dims, d)
}

// contiguous reports whether the elements are adjacent in data.
func (p *part) contiguous() bool {
	return len(p.dims) == 0 || len(p.dims) == 1 && p.dims[0].step == 1
}

func (p *part) Size() int64 { return p.size }

func (p *part) Bytes() ([]byte, bool) { return p.borrow(p.data.Bytes()) }

// Memory is for Blob.Memory.
func (p *part) Memory() ([]byte, bool) { return p.borrow(p.data.Memory()) }

func (p *part) borrow(b []byte, ok bool) ([]byte, bool) {
	if !ok || !p.contiguous() || p.bits%8 != 0 {
		return nil, false
	}
	off := p.first * p.bits / 8
	return b[off : off+p.size : off+p.size], true
}

func (p *part) Stored() (Stored, bool) { return Stored{}, false }
func (p *part) Seekable() bool         { return p.data.Seekable() }
func (p *part) Identity() any          { return nil }

// Open is for Blob.Open. No byte of data that must be decoded from its start is decoded
// twice.
func (p *part) Open() (io.ReadCloser, error) {
	switch {
	case p.data.Seekable():
		return Stream(p), nil
	case p.ascending():
		r, err := p.data.Open()
		if err != nil {
			return nil, err
		}
		of := *p
		of.data = NewBlob(&forward{size: p.data.Size(), r: r})
		return &closing{sectionStream{src: &of}, r}, nil
	}
	b, err := p.data.ReadAll()
	if err != nil {
		return nil, err
	}
	of := *p
	of.data = BlobOf(b)
	return Stream(&of), nil
}

// ReadInto is for Blob.ReadInto.
func (p *part) ReadInto(b []byte) error { return readStream(NewBlob(p), b) }

// ascending reports whether the elements are in the order of data.
func (p *part) ascending() bool {
	next := int64(1)
	for _, d := range slices.Backward(p.dims) {
		if d.step < next {
			return false
		}
		next = d.count * d.step
	}
	return p.bits%8 == 0
}

// A closing reader closes what it reads.
type closing struct {
	sectionStream
	io.Closer
}

// A forward is a Source over a stream, whose reads must not go back.
type forward struct {
	Computed
	size, at int64
	r        io.Reader
}

func (f *forward) Size() int64                  { return f.size }
func (f *forward) ReadInto(p []byte) error      { return ReadFull(f, p) }
func (f *forward) Open() (io.ReadCloser, error) { return Stream(f), nil }

func (f *forward) ReadAt(p []byte, off int64) (int, error) {
	if off < f.at {
		return 0, fmt.Errorf("tensor: reading a stream at %d after %d", off, f.at)
	}
	n, err := io.CopyN(io.Discard, f.r, off-f.at)
	if f.at += n; err != nil {
		return 0, unexpected(err)
	}
	k, err := io.ReadFull(f.r, p)
	f.at += int64(k)
	return k, err
}

const (
	// gatherBytes is how much of the result is gathered at a time.
	gatherBytes = 4 << 20
	// gatherRuns is how many runs are gathered at a time.
	gatherRuns = 64 << 10
	// gapBytes between runs are read along with them.
	gapBytes = 4 << 10
	// extentBytes bounds what one read takes.
	extentBytes = 1 << 20
)

func (p *part) ReadAt(b []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("tensor: negative offset %d", off)
	}
	if len(b) == 0 {
		return p.data.ReadAt(nil, 0)
	}
	short := int64(len(b)) > p.size-off
	if short {
		b = b[:max(0, p.size-off)]
	}
	if p.bits%8 != 0 {
		return p.readPacked(b, off, short)
	}
	width := p.bits / 8
	for done := 0; done < len(b); {
		n := min(len(b)-done, gatherBytes)
		n, err := p.gather(b[done:done+n], off+int64(done), width)
		if err != nil {
			return done, err
		}
		done += n
	}
	if short {
		return len(b), io.EOF
	}
	return len(b), nil
}

// A run is elements that are adjacent in data.
type run struct {
	from, n int64 // bytes of data
	to      int   // in the result
}

// gather fills the beginning of b with bytes of the result from off on, and returns how
// many.
func (p *part) gather(b []byte, off, width int64) (n int, err error) {
	var runs []run
	inner := dim{1, 1} // the fastest dimension, where its elements are adjacent
	outer := p.dims
	if k := len(p.dims) - 1; k >= 0 && p.dims[k].step == 1 {
		inner, outer = p.dims[k], p.dims[:k]
	}
	bytes := inner.count * width // of a run
	index := off / bytes         // of the run
	skip := off % bytes
	place, at := p.place(outer, index)
	for n < len(b) && len(runs) < gatherRuns {
		r := run{place*width + skip, min(bytes-skip, int64(len(b)-n)), n}
		if k := len(runs) - 1; k >= 0 && runs[k].from+runs[k].n == r.from {
			runs[k].n += r.n
		} else {
			runs = append(runs, r)
		}
		n, skip = n+int(r.n), 0
		for k := len(outer) - 1; k >= 0; k-- {
			if at[k]++; at[k] < outer[k].count {
				place += outer[k].step
				break
			}
			place -= (outer[k].count - 1) * outer[k].step
			at[k] = 0
		}
	}
	byPlace := func(i, j int) bool { return runs[i].from < runs[j].from }
	if !sort.SliceIsSorted(runs, byPlace) {
		sort.Slice(runs, byPlace)
	}
	return n, p.fetch(b, runs)
}

// place returns the element of data that is first in run index, and the indices of
// outer there.
func (p *part) place(outer []dim, index int64) (place int64, at []int64) {
	place, at = p.first, make([]int64, len(outer))
	for k := len(outer) - 1; k >= 0; k-- {
		at[k] = index % outer[k].count
		index /= outer[k].count
		place += at[k] * outer[k].step
	}
	return place, at
}

// fetch reads the runs, which are in the order of data, close ones together.
func (p *part) fetch(b []byte, runs []run) error {
	var buf []byte
	for len(runs) > 0 {
		k, end := 1, runs[0].from+runs[0].n
		for k < len(runs) && runs[k].from-end <= gapBytes &&
			runs[k].from+runs[k].n-runs[0].from <= extentBytes {
			end = max(end, runs[k].from+runs[k].n)
			k++
		}
		if k == 1 { // straight to its place
			r := runs[0]
			if err := p.readFull(b[r.to:r.to+int(r.n)], r.from); err != nil {
				return err
			}
			runs = runs[1:]
			continue
		}
		start := runs[0].from
		if int64(len(buf)) < end-start {
			buf = make([]byte, end-start)
		}
		extent := buf[:end-start]
		if err := p.readFull(extent, start); err != nil {
			return err
		}
		for _, r := range runs[:k] {
			copy(b[r.to:r.to+int(r.n)], extent[r.from-start:])
		}
		runs = runs[k:]
	}
	return nil
}

func (p *part) readFull(b []byte, off int64) error {
	n, err := p.data.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	return unexpected(cmp.Or(err, io.EOF))
}

// readPacked is ReadAt for elements of less than a byte, one by one through a window on
// data.
func (p *part) readPacked(b []byte, off int64, short bool) (int, error) {
	clear(b)
	total, err := p.data.sizeOrErr()
	if err != nil {
		return 0, err
	}
	var window []byte
	start := int64(0)
	bit := func(i int64) (byte, error) { // of data
		at := i / 8
		if at < start || at >= start+int64(len(window)) {
			start = at / extentBytes * extentBytes
			window = append(window[:0], make([]byte, min(extentBytes, total-start))...)
			if err := p.readFull(window, start); err != nil {
				return 0, err
			}
		}
		return window[at-start] >> (i % 8) & 1, nil
	}
	first, end := off*8, min((off+int64(len(b)))*8, p.elements()*p.bits)
	for i := first; i < end; {
		place, _ := p.place(p.dims, i/p.bits)
		for within := i % p.bits; within < p.bits && i < end; within++ {
			v, err := bit(place*p.bits + within)
			if err != nil {
				return 0, err
			}
			b[(i-first)/8] |= v << (i % 8)
			i++
		}
	}
	if short {
		return len(b), io.EOF
	}
	return len(b), nil
}

func (p *part) elements() int64 {
	n := int64(1)
	for _, d := range p.dims {
		n *= d.count
	}
	return n
}

// sizeOrErr is Size, which must be known.
func (b Blob) sizeOrErr() (int64, error) {
	if n := b.Size(); n >= 0 {
		return n, nil
	}
	return 0, fmt.Errorf("%w: the size of the data is known only by decoding",
		errors.ErrUnsupported)
}
