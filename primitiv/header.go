package primitiv

import (
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// A header is what is read of a tensor.
type header struct {
	dims  [maxRank + 1]uint32
	rank  int // without trailing ones
	batch uint32
	data  source.Extent
}

// shape is a copy of the shape just read.
func (h *header) shape() Shape { return Shape{slices.Clone(h.dims[:h.rank]), h.batch} }

// tensor reads a tensor, but for its bytes.
func (p *parser) tensor(batched bool) error {
	elements, err := p.readShape(batched)
	if err != nil {
		return err
	}
	off := p.offset()
	n, ok := p.number(familyBin)
	switch {
	case !ok:
		return p.refused("data")
	case n != 4*elements:
		return p.fail(tensor.ErrMalformed, off, "data",
			"%d bytes, a float32 tensor of shape %v has %d", n, p.shape(), 4*elements)
	case n > p.left():
		return p.fail(io.ErrUnexpectedEOF, off, "data", "%d bytes, the file has %d more",
			n, p.left())
	}
	if p.data, err = p.r.src.Extent(p.offset(), n); err != nil {
		return err
	}
	p.skip(n)
	p.payload += n
	p.tensors++
	return nil
}

// readShape reads a shape and returns the number of elements. It counts in 64 bits: the
// reference counts in 32, and takes what wraps around for a small tensor.
func (p *parser) readShape(batched bool) (elements int64, err error) {
	off := p.offset()
	rank, ok := p.number(familyArray)
	switch {
	case !ok:
		return 0, p.refused("shape.dims")
	case rank > maxRank:
		return 0, p.fail(tensor.ErrMalformed, off, "shape.dims",
			"%d dimensions, there are at most %d", rank, maxRank)
	case rank > p.lim.MaxRank:
		return 0, p.fail(tensor.ErrLimit, off, "shape.dims",
			"%d dimensions, the limit is %d", rank, p.lim.MaxRank)
	}
	p.rank = int(rank)
	field := func(i int) string {
		if i == p.rank {
			return "shape.batch"
		}
		return fmt.Sprintf("shape.dims[%d]", i)
	}
	// The batch is read like one more dimension, which it is but for its place in the
	// file.
	numbers := p.dims[:p.rank+1]
	product := uint64(1)
	var at int64
	for i := range numbers {
		at = p.offset()
		if numbers[i], ok = p.uint32(); !ok {
			return 0, p.refused(field(i))
		}
		if numbers[i] == 0 {
			return 0, p.fail(tensor.ErrMalformed, at, field(i), "0")
		}
		if product *= uint64(numbers[i]); product > math.MaxUint32 {
			return 0, p.fail(tensor.ErrMalformed, off, "shape", "2^32 elements or more")
		}
	}
	p.batch = numbers[p.rank]
	if p.batch > 1 && !batched {
		return 0, p.fail(tensor.ErrMalformed, at, "shape.batch",
			"%d where values of parameters have 1", p.batch)
	}
	for p.rank > 0 && numbers[p.rank-1] == 1 {
		p.rank--
	}
	return int64(product), nil
}

// entries makes the entries of a file, in memory that grows with what was read.
type entries struct {
	tensors int64        // so far
	ends    []int        // of the names of the path in the name of the value
	order   tensor.Order // column-major; its end is that of fewer dimensions

	all    format.Arena[entry]
	parts  format.Arena[string]
	shapes format.Arena[int64]
}

// reserve makes memory for n parameters.
func (p *parser) reserve(n int) {
	p.r.entries = make([]*entry, 0, n)
	p.all.Reserve(n)
}

// pieceOfNames is what names are allocated in, if they are not longer.
const pieceOfNames = 4 << 10

// begin makes an empty name, in what the one before, which an entry has, left of its
// memory.
func (p *parser) begin() { p.name = p.name[len(p.name):] }

// grow makes memory for n more bytes of the name, which append then does not move.
func (p *parser) grow(n int) {
	if n > cap(p.name)-len(p.name) {
		p.name = append(make([]byte, 0, max(pieceOfNames, 2*(len(p.name)+n))), p.name...)
	}
}

// add makes an entry of the tensor that was read: of a value, or of a statistic of one.
// What begins at start is its name.
func (p *parser) add(start int64, value *entry) *entry {
	e := &p.all.Take(1)[0]
	p.listed += int64(len(p.name))
	e.Extent, e.start, e.Batch = p.data, start, p.batch

	t := &e.tensor
	t.Name, t.DType, t.Data = le.String(p.name), tensor.F32, tensor.NewBlob(e)
	dims := p.dims[:p.rank]
	if p.batch > 1 {
		dims = append(dims, p.batch)
	}
	t.Shape = p.shapes.Take(len(dims))
	for i, d := range dims {
		t.Shape[i] = int64(d)
	}
	if len(dims) > 1 {
		t.Order = p.order[len(p.order)-len(dims):]
	}
	if value != nil {
		e.Path, e.IsStatistic, e.Statistic = value.Path, true, t.Name[p.value+1:]
	} else {
		e.Path = p.parts.Take(len(p.ends))
		begin := 0
		for i, end := range p.ends {
			e.Path[i] = t.Name[begin:end]
			begin = end + 1
		}
	}
	p.r.entries = append(p.r.entries, e)
	return e
}
