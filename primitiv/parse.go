package primitiv

import (
	"errors"
	"fmt"
	"math"
	"slices"

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
	// A statistic is listed as PATH:STATISTIC, so that a long path with many statistics
	// makes the list larger than the file: by freeNames, and beyond that namesRatio times
	// the metadata.
	freeNames  = 64 << 20
	namesRatio = 16
)

// A parser walks through a file once, from its first byte to its last.
type parser struct {
	cursor
	r   *Reader
	lim tensor.Limits

	column  int   // of the tables above
	payload int64 // bytes of payloads so far; everything else is metadata
	listed  int64 // bytes of the names that Tensors will give

	where // for errors

	// The shape just read.
	rank  int
	dims  [maxRank + 1]uint32
	batch uint32
}

func newParser(r *Reader, limits tensor.Limits) *parser {
	p := &parser{r: r, lim: limits, where: where{parameter: -1}}
	p.lim.MaxTensors = min(p.lim.MaxTensors, maxTensors)
	p.lim.MaxMetadata = min(p.lim.MaxMetadata, maxMetadata)
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
		err = p.tensor(record{}, true)
		p.r.shape = p.asShape()
	case KindParameter:
		err = p.parameterOf(record{start: p.offset()})
	case KindModel:
		err = p.model()
	case KindOptimizer:
		err = p.optimizer()
	}
	if err != nil {
		return err
	}
	p.where = where{parameter: -1}
	if err := p.metadata(); err != nil {
		return err
	}
	if n := p.left(); n > 0 {
		err := p.malformed(p.offset(), "", "%d bytes after the end", n)
		if !p.r.opts.AllowTrailing {
			return err
		}
		p.r.trailing = n
		if err := p.r.warnings.Add(err); err != nil {
			return err
		}
	}
	if p.compact >= 0 {
		return p.r.warnings.Add(p.malformed(p.compact, "",
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
			return p.malformed(off, field, "0x%x is not a kind of file", v)
		}
		n[i] = v
	}
	p.r.kind = Kind(n[2]>>8) + 1
	return nil
}

// count reads the number of things that follow.
func (p *parser) count(field string, size [2]int64) (int64, error) {
	// Most parameters have no statistics. This load is the first after a payload: one that
	// is not shared with other integers lets the processor fetch ahead.
	if b := p.b[p.p:]; len(b) >= 5 && b[0] == codeUint32 && b[1]|b[2]|b[3]|b[4] == 0 {
		p.p += 5
		return 0, nil
	}
	off := p.offset()
	n, ok := p.uint32()
	switch {
	case !ok:
		return 0, p.refused(field)
	case n == 0:
		return 0, nil
	}
	return int64(n), p.plausible(off, field, int64(n), size)
}

// plausible refuses a number of things of at least that size that cannot follow.
func (p *parser) plausible(off int64, field string, n int64, size [2]int64) error {
	if n > p.left()/size[p.column] {
		return p.truncated(off, field, "%d of them cannot be in the %d bytes that follow",
			n, p.left())
	}
	if n > p.lim.MaxTensors-int64(len(p.r.records)) {
		return p.limit(off, field, "%d of them, the limit is %d in all", n, p.lim.MaxTensors)
	}
	return nil
}

// metadata checks that headers and names are within their limit.
func (p *parser) metadata() error {
	n := p.offset() - p.payload
	if n > p.lim.MaxMetadata {
		return p.limit(p.offset(), "", "more than %d bytes of metadata", p.lim.MaxMetadata)
	}
	if p.listed > freeNames && (p.listed-freeNames)/namesRatio > n {
		return p.limit(p.offset(), "", "%d bytes of metadata make %d bytes of names", n, p.listed)
	}
	return nil
}

func (p *parser) model() error {
	n, err := p.count("parameters", minParameter)
	if err != nil {
		return err
	}
	const trusted = 1 << 14 // entries
	p.r.records = make([]record, 0, min(n, trusted))
	p.r.byPath = make([]uint32, 0, min(n, trusted))
	unordered := false // not in the reference's order, or they cannot all be in one model
	var before []string
	for i := range n {
		p.parameter, p.path = i, nil
		start := p.offset()
		path, err := p.parameterPath()
		if err != nil {
			return err
		}
		p.path = path
		if i > 0 && (slices.Compare(path, before) <= 0 || isBelow(path, before)) {
			unordered = true
		}
		before = path
		p.r.records, p.r.byPath = grown(p.r.records, n-i), grown(p.r.byPath, n-i)
		rec := record{start: start, path: uint32(len(p.r.parts) - len(path)),
			parts: uint32(len(path))}
		if err := p.parameterOf(rec); err != nil {
			return err
		}
	}
	if unordered {
		return p.comparePaths()
	}
	return nil
}

// grown returns s with capacity for at least one more entry of the n that are to come. It
// doubles, where append would add a quarter and copy twice as often; n is declared by the
// file, and not trusted with more.
func grown[T any](s []T, n int64) []T {
	if len(s) < cap(s) {
		return s
	}
	return slices.Grow(s, int(min(n, max(256, int64(len(s))))))
}

// parameterPath reads the path of a parameter.
func (p *parser) parameterPath() ([]string, error) {
	off := p.offset()
	n, ok := p.array()
	switch {
	case !ok:
		return nil, p.refused("path")
	case n == 0:
		return nil, p.malformed(off, "path", "without a name")
	case n > p.left()/minName[p.column]:
		return nil, p.truncated(off, "path", "%d names cannot be in the %d bytes that follow",
			n, p.left())
	}
	first := len(p.r.parts)
	length := n - 1 // of the name, with its dots
	for i := range n {
		b, ok := p.str(p.lim.MaxName)
		if !ok {
			return nil, p.refused(fmt.Sprintf("path[%d]", i))
		}
		if length += int64(len(b)); length > p.lim.MaxName {
			return nil, p.limit(off, "path", "a name of more than %d bytes", p.lim.MaxName)
		}
		p.r.parts = append(grown(p.r.parts, math.MaxInt32), string(b))
	}
	p.listed += length
	return p.r.parts[first:], nil
}

// parameterOf reads a parameter, of which rec has what is before its value.
func (p *parser) parameterOf(rec record) error {
	value := uint32(len(p.r.records))
	p.part = "value"
	if err := p.tensor(rec, false); err != nil {
		return err
	}
	p.part = ""
	p.r.byPath = append(p.r.byPath, value)
	n, err := p.count("stats", minStatistic)
	if err == nil && n > 0 {
		err = p.statistics(rec, n)
	}
	if err != nil {
		return err
	}
	return p.metadata()
}

// statistics reads n statistics of a value.
func (p *parser) statistics(value record, n int64) error {
	nameLength := int64(len(parameterName(p.r.pathOf(&value))))
	first := len(p.r.records)
	for i := range n {
		p.part = ""
		start := p.offset()
		b, ok := p.str(p.lim.MaxName)
		if !ok {
			return p.refused(fmt.Sprintf("stats[%d]", i))
		}
		p.part, p.stat = "stats", string(b)
		p.r.records = grown(p.r.records, n-i)
		p.listed += nameLength + 1 + int64(len(b))
		if err := p.tensor(record{stat: p.stat, start: start, path: value.path,
			parts: value.parts, isStat: true}, true); err != nil {
			return err
		}
		if err := p.metadata(); err != nil {
			return err
		}
	}
	// The reference keeps the first of one name.
	stats := p.r.records[first:]
	again := repeated(len(stats), func(i int) string { return stats[i].stat })
	for _, i := range again {
		p.stat = stats[i].stat
		if err := p.duplicate(stats[i].start, "a second statistic of that name"); err != nil {
			return err
		}
	}
	p.part = ""
	p.r.records = p.r.records[:first+len(without(stats, again))]
	return nil
}

// tensor reads a tensor, but for its bytes, into rec, which it adds.
func (p *parser) tensor(rec record, batched bool) error {
	elements, err := p.shape(batched)
	if err != nil {
		return err
	}
	off := p.offset()
	n, ok := p.bin()
	switch {
	case !ok:
		return p.refused("data")
	case n != 4*elements:
		return p.malformed(off, "data", "%d bytes, a float32 tensor of shape %v has %d",
			n, p.asShape(), 4*elements)
	case n > p.left():
		return p.truncated(off, "data", "%d bytes, the file has %d more", n, p.left())
	}
	rec.data, rec.bytes = p.offset(), uint32(n)
	p.r.dims = grown(p.r.dims, math.MaxInt32)
	rec.dims, rec.rank = uint32(len(p.r.dims)), uint8(p.rank)
	for _, d := range p.dims[:p.rank] {
		p.r.dims = append(p.r.dims, int64(d))
	}
	if p.batch > 1 {
		p.r.dims = append(p.r.dims, int64(p.batch))
		rec.rank++
		rec.batched = true
	}
	p.skip(n)
	p.payload += n
	p.r.records = append(p.r.records, rec)
	return nil
}

// shape reads a shape into rank, dims and batch, and returns the number of elements. It
// counts in 64 bits: the reference counts in 32, and takes what wraps around for a small
// tensor.
func (p *parser) shape(batched bool) (elements int64, err error) {
	off := p.offset()
	rank, ok := p.array()
	switch {
	case !ok:
		return 0, p.refused("shape.dims")
	case rank > maxRank:
		return 0, p.malformed(off, "shape.dims", "%d dimensions, there are at most %d",
			rank, maxRank)
	case rank > p.lim.MaxRank:
		return 0, p.limit(off, "shape.dims", "%d dimensions, the limit is %d", rank, p.lim.MaxRank)
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
			return 0, p.malformed(at, field(i), "0")
		}
		if product *= uint64(numbers[i]); product > math.MaxUint32 {
			return 0, p.malformed(off, "shape", "2^32 elements or more")
		}
	}
	p.batch = numbers[p.rank]
	if p.batch > 1 && !batched {
		return 0, p.malformed(at, "shape.batch", "%d where values of parameters have 1", p.batch)
	}
	for p.rank > 0 && numbers[p.rank-1] == 1 {
		p.rank--
	}
	return int64(product), nil
}

// asShape is the shape just read.
func (p *parser) asShape() Shape { return Shape{slices.Clone(p.dims[:p.rank]), p.batch} }
