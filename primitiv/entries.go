package primitiv

import (
	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/tensor"
)

const (
	// A statistic is named PATH:STATISTIC, so that a long path with many statistics
	// makes names larger than the file: by freeNames, and beyond that namesRatio
	// times the metadata.
	freeNames  = 8 << 20
	namesRatio = 16

	// As many entries are allocated as the file declares, up to this many.
	maxReserved = 1 << 17

	// Names are allocated together, in memory of this size, if they are not longer.
	nameChunk = 4 << 10
)

// checkMetadata checks that headers and names so far are within their limit.
func (p *parser) checkMetadata() error {
	n := p.offset() - p.payload
	if n > p.limits.MaxMetadata {
		return p.fail(tensor.ErrLimit, p.offset(), "", "more than %d bytes of metadata",
			p.limits.MaxMetadata)
	}
	if p.listed > freeNames && (p.listed-freeNames)/namesRatio > n {
		return p.fail(tensor.ErrLimit, p.offset(), "",
			"%d bytes of metadata make %d bytes of names", n, p.listed)
	}
	return nil
}

// begin makes an empty name, in what the one before, which an entry has, left of its
// memory.
func (p *parser) begin() { p.name = p.name[len(p.name):] }

// grow makes memory for n more bytes of the name, which append then does not move.
func (p *parser) grow(n int) {
	if n > cap(p.name)-len(p.name) {
		p.name = append(make([]byte, 0, max(nameChunk, 2*(len(p.name)+n))), p.name...)
	}
}

// add makes an entry of the tensor that was read: of a value, or of a statistic of one.
// Its name, if it has one, begins at start.
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
