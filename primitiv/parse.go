package primitiv

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/names"
	"github.com/tensorfile/tensorfile/internal/slab"
	"github.com/tensorfile/tensorfile/tensor"
)

// The fewest bytes that things take, so that an impossible count is refused before
// anything is done because of it. The second column is for compact integers.
var (
	minName      = [2]int64{1, 1}
	minStatistic = [2]int64{13, 9}
	minParameter = [2]int64{19, 11} // of a model
	minSetting   = [2]int64{6, 2}
)

const (
	// A statistic is named PATH:STATISTIC, so that a long path with many statistics
	// makes names larger than the file: by freeNames, and beyond that namesRatio
	// times the metadata.
	freeNames  = 8 << 20
	namesRatio = 16

	// As many entries are allocated as the file declares, up to this many.
	trusted = 1 << 17
)

// A parser walks through a file once, from its first byte to its last.
type parser struct {
	cursor
	r   *Reader
	lim tensor.Limits

	column  int   // of the tables above
	payload int64 // bytes of payloads so far; everything else is metadata
	listed  int64 // bytes of the names so far

	where // for errors

	// The shape just read.
	rank  int
	dims  [maxRank + 1]uint32
	batch uint32

	entries slab.Slab[entry]
	parts   slab.Slab[string]
	shapes  slab.Slab[int64]
	text    slab.Slab[byte] // of names
	order   tensor.Order    // column-major; its end is that of fewer dimensions
	path    []byte          // the path just read, its parts joined with dots
	ends    []int           // of its parts
}

func newParser(r *Reader, limits tensor.Limits) *parser {
	p := &parser{r: r, lim: limits, where: nowhere, order: tensor.ColumnMajor(maxRank + 1)}
	p.size, p.compact = r.src.Size(), -1
	if r.opts.AllowCompactIntegers {
		p.column, p.integers = 1, familyCompact
	}
	return p
}

func (p *parser) parse() error {
	err := p.head()
	if err != nil {
		return err
	}
	switch p.r.kind {
	case KindShape:
		p.part = "shape"
		_, err = p.shape(true)
		p.r.shape = p.asShape()
	case KindTensor:
		p.part = "tensor"
		err = p.tensor(p.named("tensor"), true)
		p.r.shape = p.asShape()
	case KindParameter:
		err = p.parameterOf(p.named(parameterName(nil)))
	case KindModel:
		err = p.model()
	case KindOptimizer:
		err = p.optimizer()
	}
	if err != nil {
		return err
	}
	p.where = nowhere
	if err := p.metadata(); err != nil {
		return err
	}
	if n := p.left(); n > 0 {
		err := p.fail(tensor.ErrMalformed, p.offset(), "", "%d bytes after the end", n)
		if !p.r.opts.AllowTrailing {
			return err
		}
		p.r.trailing = n
		if err := p.r.warnings.Add(err); err != nil {
			return err
		}
	}
	if p.compact >= 0 {
		return p.r.warnings.Add(p.fail(tensor.ErrMalformed, p.compact, "",
			"an integer that is not uint 32, which primitiv refuses"))
	}
	return nil
}

// head reads what all files begin with.
func (p *parser) head() error {
	var n [3]uint32
	for i, field := range []string{"version_major", "version_minor", "data_type"} {
		off := p.offset()
		v, ok := p.uint32()
		switch {
		case !ok:
			return p.refused(field)
		case i == 1 && (n[0] != 0 || v != 1):
			return p.errorAt(0, "version",
				fmt.Errorf("%w: %d.%d; there is only %s", errors.ErrUnsupported, n[0], v, Version))
		case i == 2 && (v&0xff != 0 || v > KindOptimizer.dataType()):
			return p.fail(tensor.ErrMalformed, off, field, "0x%x is not a kind of file", v)
		}
		n[i] = v
	}
	p.r.kind = Kind(n[2]>>8) + 1
	return nil
}

// count reads the number of things that follow.
func (p *parser) count(field string, size [2]int64) (int64, error) {
	// Most parameters have no statistics. This load is the first after a payload: one
	// that is not shared with other integers lets the processor fetch ahead.
	if b := p.b[p.p:]; len(b) >= 5 && b[0] == codeUint32 && b[1]|b[2]|b[3]|b[4] == 0 {
		p.p += 5
		return 0, nil
	}
	off := p.offset()
	n, ok := p.uint32()
	if !ok {
		return 0, p.refused(field)
	}
	return int64(n), p.plausible(off, field, int64(n), size)
}

// plausible refuses a number of things of at least that size that cannot follow.
func (p *parser) plausible(off int64, field string, n int64, size [2]int64) error {
	if n > p.left()/size[p.column] {
		return p.fail(io.ErrUnexpectedEOF, off, field,
			"%d of them cannot be in the %d bytes that follow", n, p.left())
	}
	if n > p.lim.MaxTensors-int64(len(p.r.entries)) {
		return p.fail(tensor.ErrLimit, off, field, "%d of them, the limit is %d in all",
			n, p.lim.MaxTensors)
	}
	return nil
}

// metadata checks that headers and names are within their limit.
func (p *parser) metadata() error {
	n := p.offset() - p.payload
	if n > p.lim.MaxMetadata {
		return p.fail(tensor.ErrLimit, p.offset(), "", "more than %d bytes of metadata",
			p.lim.MaxMetadata)
	}
	if p.listed > freeNames && (p.listed-freeNames)/namesRatio > n {
		return p.fail(tensor.ErrLimit, p.offset(), "",
			"%d bytes of metadata make %d bytes of names", n, p.listed)
	}
	return nil
}

func (p *parser) model() error {
	n, err := p.count("parameters", minParameter)
	if err != nil {
		return err
	}
	p.r.entries = make([]*entry, 0, min(n, trusted))
	p.entries.Reserve(int(min(n, trusted)))

	ordered := true // as the reference orders them, and all can be in one model
	var before []string
	for i := range n {
		p.where = where{parameter: i}
		e, err := p.parameterPath()
		if err != nil {
			return err
		}
		p.value = e
		ordered = ordered && (i == 0 || slices.Compare(before, e.Path) < 0 &&
			!isBelow(e.Path, before))
		before = e.Path
		if err := p.parameterOf(e); err != nil {
			return err
		}
	}
	if ordered {
		return nil
	}
	return p.comparePaths()
}

// named returns an entry with a name.
func (p *parser) named(name ...string) *entry {
	e := &p.entries.Take(1)[0]
	n := 0
	for _, s := range name {
		n += len(s)
	}
	text := p.text.Take(n)[:0]
	for _, s := range name {
		text = append(text, s...)
	}
	e.start, e.tensor.Name = p.offset(), le.String(text)
	p.listed += int64(n)
	return e
}

// parameterPath reads the path of a parameter, of which its name is made.
func (p *parser) parameterPath() (*entry, error) {
	off := p.offset()
	n, ok := p.length(familyArray)
	switch {
	case !ok:
		return nil, p.refused("path")
	case n == 0:
		return nil, p.fail(tensor.ErrMalformed, off, "path", "without a name")
	case n > p.left()/minName[p.column]:
		return nil, p.fail(io.ErrUnexpectedEOF, off, "path",
			"%d names cannot be in the %d bytes that follow", n, p.left())
	}
	p.path, p.ends = p.path[:0], p.ends[:0]
	for i := range n {
		b, ok := p.str(p.lim.MaxName)
		if !ok {
			return nil, p.refused(fmt.Sprintf("path[%d]", i))
		}
		if i > 0 {
			p.path = append(p.path, '.')
		}
		p.path = append(p.path, b...)
		p.ends = append(p.ends, len(p.path))
		if int64(len(p.path))+n-1-i > p.lim.MaxName {
			return nil, p.fail(tensor.ErrLimit, off, "path",
				"a name of more than %d bytes", p.lim.MaxName)
		}
	}
	e := p.named(le.String(p.path))
	e.start, e.Path = off, p.parts.Take(len(p.ends))
	begin := 0
	for i, end := range p.ends {
		e.Path[i] = e.tensor.Name[begin:end]
		begin = end + 1
	}
	return e, nil
}

// parameterOf reads a parameter, of which e has what is before its value.
func (p *parser) parameterOf(e *entry) error {
	p.part = "value"
	if err := p.tensor(e, false); err != nil {
		return err
	}
	p.part = ""
	n, err := p.count("stats", minStatistic)
	if err == nil && n > 0 {
		err = p.statistics(e, n)
	}
	if err != nil {
		return err
	}
	return p.metadata()
}

// statistics reads n statistics of a value.
func (p *parser) statistics(value *entry, n int64) error {
	first := len(p.r.entries)
	for i := range n {
		p.part = ""
		start := p.offset()
		b, ok := p.str(p.lim.MaxName)
		if !ok {
			return p.refused(fmt.Sprintf("stats[%d]", i))
		}
		e := p.named(value.tensor.Name, ":", le.String(b))
		e.Statistic = e.tensor.Name[len(value.tensor.Name)+1:]
		e.start, e.IsStatistic, e.Path = start, true, value.Path
		p.part, p.stat = "stats", e.Statistic
		if err := p.tensor(e, true); err != nil {
			return err
		}
		if err := p.metadata(); err != nil {
			return err
		}
	}
	if err := p.distinct(p.r.entries[first:]); err != nil {
		return err
	}
	p.part = ""
	return nil
}

// distinct looks for duplicate names among the statistics of a value, which are the last
// entries. Of each name the first stays, as in the reference.
func (p *parser) distinct(stats []*entry) error {
	if len(stats) < 2 {
		return nil
	}
	kept := stats[:0]
	seen := names.New(len(stats), func(i int) string { return stats[i].Statistic })
	for _, e := range stats {
		kept = append(kept, e)
		if seen.Add(len(kept) - 1) {
			continue
		}
		kept = kept[:len(kept)-1]
		p.stat = e.Statistic
		if err := p.duplicate(e.start, "a second statistic of that name"); err != nil {
			return err
		}
	}
	p.r.entries = p.r.entries[:len(p.r.entries)-len(stats)+len(kept)]
	return nil
}

// tensor reads a tensor, but for its bytes, into e, which it adds.
func (p *parser) tensor(e *entry, batched bool) error {
	elements, err := p.shape(batched)
	if err != nil {
		return err
	}
	off := p.offset()
	n, ok := p.length(familyBin)
	switch {
	case !ok:
		return p.refused("data")
	case n != 4*elements:
		return p.fail(tensor.ErrMalformed, off, "data",
			"%d bytes, a float32 tensor of shape %v has %d", n, p.asShape(), 4*elements)
	case n > p.left():
		return p.fail(io.ErrUnexpectedEOF, off, "data", "%d bytes, the file has %d more",
			n, p.left())
	}
	if e.Extent, err = p.r.src.Extent(p.offset(), n); err != nil {
		return err
	}
	p.skip(n)
	p.payload += n
	t := &e.tensor
	t.DType, t.Shape, t.Data = tensor.F32, p.tensorShape(), tensor.NewBlob(e)
	if rank := len(t.Shape); rank > 1 {
		t.Order = p.order[len(p.order)-rank:]
	}
	e.Batch = p.batch
	p.r.entries = append(p.r.entries, e)
	return nil
}

// tensorShape is the shape just read, as tensors have it.
func (p *parser) tensorShape() tensor.Shape {
	n := p.rank
	if p.batch > 1 {
		n++
	}
	shape := p.shapes.Take(n)
	for i, d := range p.dims[:p.rank] {
		shape[i] = int64(d)
	}
	if n > p.rank {
		shape[p.rank] = int64(p.batch)
	}
	return shape
}

// shape reads a shape into rank, dims and batch, and returns the number of elements. It
// counts in 64 bits: the reference counts in 32, and takes what wraps around for a small
// tensor.
func (p *parser) shape(batched bool) (elements int64, err error) {
	off := p.offset()
	rank, ok := p.length(familyArray)
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

// asShape is the shape just read.
func (p *parser) asShape() Shape { return Shape{slices.Clone(p.dims[:p.rank]), p.batch} }
