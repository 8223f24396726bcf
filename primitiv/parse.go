package primitiv

import (
	"errors"
	"fmt"
	"io"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// The fewest bytes that things take, so that an impossible count is refused before
// anything is done because of it.
const (
	minName      = 1
	minStatistic = 13
	minParameter = 19 // of a model
	minSetting   = 6
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
	where
	header
	entries

	r       *Reader
	lim     tensor.Limits
	payload int64 // bytes of payloads so far; everything else is metadata
	listed  int64 // bytes of names so far
}

func newParser(r *Reader, limits tensor.Limits) *parser {
	p := &parser{r: r, lim: limits, where: nowhere}
	p.size, p.order = r.src.Size(), tensor.ColumnMajor(maxRank+1)
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
		_, err = p.readShape(true)
		p.r.shape = p.shape()
	case KindTensor:
		p.part = "tensor"
		p.name = append(p.name, "tensor"...)
		start := p.offset()
		if err = p.tensor(true); err == nil {
			p.add(start, nil)
		}
		p.r.shape = p.shape()
	case KindParameter:
		p.name = append(p.name, parameterName(nil)...)
		_, err = p.parameter(p.offset())
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
		return p.fail(tensor.ErrMalformed, p.offset(), "", "%d bytes after the end", n)
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

// count reads the number of things that follow, of at least that size.
func (p *parser) count(field string, size int64) (int64, error) {
	// Most parameters have no statistics. The processor fetches ahead of this load, the
	// first after a payload, if no other integer is loaded at this place in the code.
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
func (p *parser) plausible(off int64, field string, n, size int64) error {
	switch {
	case n == 0:
		return nil
	case n > p.left()/size:
		return p.fail(io.ErrUnexpectedEOF, off, field,
			"%d of them cannot be in the %d bytes that follow", n, p.left())
	case n > p.lim.MaxTensors-p.tensors:
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
	p.reserve(int(min(n, trusted)))
	ordered := true // as the reference orders them, and all can be in one model
	var before *entry
	for i := range n {
		start := p.offset()
		p.index = i
		if err := p.readPath(); err != nil {
			return err
		}
		e, err := p.parameter(start)
		if err != nil {
			return err
		}
		ordered = ordered && (before == nil || comparePath(before.Path, e.Path) < 0 &&
			!isBelow(e.Path, before.Path))
		before = e
	}
	if ordered {
		return nil
	}
	return p.comparePaths()
}

// readPath reads the path of a parameter, which makes its name.
func (p *parser) readPath() error {
	p.ends, p.value = p.ends[:0], -1
	p.begin()
	off := p.offset()
	n, ok := p.number(familyArray)
	switch {
	case !ok:
		return p.refused("path")
	case n == 0:
		return p.fail(tensor.ErrMalformed, off, "path", "without a name")
	case n > p.left()/minName:
		return p.fail(io.ErrUnexpectedEOF, off, "path",
			"%d names cannot be in the %d bytes that follow", n, p.left())
	}
	for i := range n {
		b, ok := p.str(p.lim.MaxName)
		if !ok {
			return p.refused(fmt.Sprintf("path[%d]", i))
		}
		p.grow(1 + len(b))
		if i > 0 {
			p.name = append(p.name, '.')
		}
		p.name = append(p.name, b...)
		p.ends = append(p.ends, len(p.name))
		if int64(len(p.name))+n-1-i > p.lim.MaxName {
			return p.fail(tensor.ErrLimit, off, "path",
				"a name of more than %d bytes", p.lim.MaxName)
		}
	}
	return nil
}

// parameter reads a parameter that begins at start, after its path.
func (p *parser) parameter(start int64) (*entry, error) {
	p.value, p.part = len(p.name), "value"
	if err := p.tensor(false); err != nil {
		return nil, err
	}
	p.part = ""
	n, err := p.count("stats", minStatistic)
	if err != nil {
		return nil, err
	}
	value := p.add(start, nil)
	if n > 0 {
		if err := p.statistics(value, n); err != nil {
			return nil, err
		}
	}
	return value, p.metadata()
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
		p.begin()
		p.grow(p.value + 1 + len(b))
		p.name = append(append(append(p.name, value.tensor.Name...), ':'), b...)
		p.part = "stats"
		if err := p.tensor(true); err != nil {
			return err
		}
		p.add(start, value)
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
	_, dup := naming.Build(len(stats), func(i int) string { return stats[i].Statistic })
	if dup >= 0 {
		p.name = []byte(stats[dup].tensor.Name)
		return p.duplicate(stats[dup].start, "a second statistic of that name")
	}
	return nil
}
