package primitiv

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/internal/source"
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

// A parser walks through a file once, from its first byte to its last.
type parser struct {
	items
	r      *Reader
	limits tensor.Limits

	// The place in the file, for errors.
	index int64  // of a parameter, -1 outside of a model's
	name  []byte // of the tensor: of a value, with a colon and its own for a statistic
	value int    // the length of the value's part of name, -1 where it is not known
	part  string // "value", "stats", …

	// The tensor that was read last.
	dims  [maxRank + 1]uint32
	rank  int // without trailing ones
	batch uint32
	data  source.Extent

	tensors int64 // so far
	payload int64 // bytes of payloads so far; everything else is metadata
	listed  int64 // bytes of names so far

	ends   []int        // of the names of the path in the name of the value
	order  tensor.Order // column-major; its end is the order of fewer dimensions
	all    format.Arena[entry]
	parts  format.Arena[string]
	shapes format.Arena[int64]
}

// parse reads the file of r. all is the file if it is in memory, else nil.
func parse(r *Reader, in *format.Input, all []byte) error {
	p := &parser{r: r, limits: in.Options.Limits, index: -1,
		order: tensor.ColumnMajor(maxRank + 1)}
	p.items = items{src: in.Source, size: in.Size(), b: all}
	if all == nil && in.Size() > 0 {
		p.window = make([]byte, min(windowSize, in.Size()))
	}
	p.dec = msgpack.NewDecoder(&p.items)
	err := p.head()
	if err != nil {
		return err
	}
	switch r.kind {
	case KindShape:
		p.part = "shape"
		_, err = p.readShape(true)
		r.shape = p.shape()
	case KindTensor:
		p.part = "tensor"
		p.name = append(p.name, "tensor"...)
		start := p.offset()
		if err = p.readTensor(true); err == nil {
			p.add(start, nil)
		}
		r.shape = p.shape()
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
	p.index, p.part = -1, ""
	if err := p.checkMetadata(); err != nil {
		return err
	}
	if n := p.left(); n > 0 {
		return p.malformed(p.offset(), "", "%d bytes after the end", n)
	}
	return nil
}

// head reads the three numbers that all files begin with.
func (p *parser) head() error {
	var n [3]uint32
	for i, field := range []string{"version_major", "version_minor", "data_type"} {
		v, err := p.uint32()
		switch {
		case err != nil:
			return p.refused(field, err)
		case i == 1 && (n[0] != 0 || v != 1):
			return p.fail(errors.ErrUnsupported, 0, "version", "%d.%d; there is only %s", n[0], v,
				Version)
		case i == 2 && (v&0xff != 0 || v > KindOptimizer.dataType()):
			return p.malformed(p.at, field, "0x%x is not a kind of file", v)
		}
		n[i] = v
	}
	p.r.kind = Kind(n[2]>>8) + 1
	return nil
}

// shape returns a copy of the shape that was read last.
func (p *parser) shape() Shape { return Shape{slices.Clone(p.dims[:p.rank]), p.batch} }

// readShape reads a shape and returns the number of elements. It counts in 64 bits: the
// reference counts in 32, and takes what wraps around for a small tensor.
func (p *parser) readShape(batched bool) (elements int64, err error) {
	rank, err := p.length(familyArray)
	off := p.at
	switch {
	case err != nil:
		return 0, p.refused("shape.dims", err)
	case rank > maxRank:
		return 0, p.malformed(off, "shape.dims", "%d dimensions, there are at most %d", rank,
			maxRank)
	case rank > p.limits.MaxRank:
		return 0, p.fail(tensor.ErrLimit, off, "shape.dims",
			"%d dimensions, the limit is %d", rank, p.limits.MaxRank)
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
	for i := range numbers {
		if numbers[i], err = p.uint32(); err != nil {
			return 0, p.refused(field(i), err)
		}
		if numbers[i] == 0 {
			return 0, p.malformed(p.at, field(i), "0")
		}
		if product *= uint64(numbers[i]); product > math.MaxUint32 {
			return 0, p.malformed(off, "shape", "2^32 elements or more")
		}
	}
	p.batch = numbers[p.rank]
	if p.batch > 1 && !batched {
		return 0, p.malformed(p.at, "shape.batch", "%d where values of parameters have 1",
			p.batch)
	}
	for p.rank > 0 && numbers[p.rank-1] == 1 {
		p.rank--
	}
	return int64(product), nil
}

// readTensor reads a tensor, but for its bytes.
func (p *parser) readTensor(batched bool) error {
	elements, err := p.readShape(batched)
	if err != nil {
		return err
	}
	n, err := p.length(familyBin)
	switch {
	case err != nil:
		return p.refused("data", err)
	case n != 4*elements:
		return p.malformed(p.at, "data", "%d bytes, a float32 tensor of shape %v has %d", n,
			p.shape(), 4*elements)
	case n > p.left():
		return p.fail(io.ErrUnexpectedEOF, p.at, "data", "%d bytes, the file has %d more", n,
			p.left())
	}
	if p.data, err = p.src.Extent(p.offset(), n); err != nil {
		return err
	}
	p.skip(n)
	p.payload += n
	p.tensors++
	return nil
}

// parameter reads a parameter that begins at start, after its path.
func (p *parser) parameter(start int64) (*entry, error) {
	p.value, p.part = len(p.name), "value"
	if err := p.readTensor(false); err != nil {
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
	return value, p.checkMetadata()
}

// statistics reads n statistics of a value. A second one of a name is an error.
func (p *parser) statistics(value *entry, n int64) error {
	first := len(p.r.entries)
	for i := range n {
		p.part = ""
		start := p.offset()
		b, err := p.str(p.limits.MaxName)
		if err != nil {
			return p.refused(fmt.Sprintf("stats[%d]", i), err)
		}
		p.begin()
		p.grow(p.value + 1 + len(b))
		p.name = append(append(append(p.name, value.tensor.Name...), ':'), b...)
		p.part = "stats"
		if err := p.readTensor(true); err != nil {
			return err
		}
		p.add(start, value)
		if err := p.checkMetadata(); err != nil {
			return err
		}
	}
	if stats := p.r.entries[first:]; n > 1 {
		_, dup := naming.Build(len(stats), func(i int) string { return stats[i].Statistic })
		if dup >= 0 {
			p.name = []byte(stats[dup].tensor.Name)
			return p.malformed(stats[dup].start, "", "a second statistic of that name")
		}
	}
	p.part = ""
	return nil
}

func (p *parser) model() error {
	n, err := p.count("parameters", minParameter)
	if err != nil {
		return err
	}
	reserved := int(min(n, maxReserved))
	p.r.entries = make([]*entry, 0, reserved)
	p.all.Reserve(reserved)
	ordered := true // as the reference orders them, and all can be in one model
	var before *entry
	for i := range n {
		start := p.offset()
		p.index = i
		if err := p.path(); err != nil {
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

// path reads the path of a parameter, which makes its name.
func (p *parser) path() error {
	p.ends, p.value = p.ends[:0], -1
	p.begin()
	n, err := p.length(familyArray)
	off := p.at
	switch {
	case err != nil:
		return p.refused("path", err)
	case n == 0:
		return p.malformed(off, "path", "without a name")
	case n > p.left()/minName:
		return p.fail(io.ErrUnexpectedEOF, off, "path",
			"%d names cannot be in the %d bytes that follow", n, p.left())
	}
	for i := range n {
		b, err := p.str(p.limits.MaxName)
		if err != nil {
			return p.refused(fmt.Sprintf("path[%d]", i), err)
		}
		p.grow(1 + len(b))
		if i > 0 {
			p.name = append(p.name, '.')
		}
		p.name = append(p.name, b...)
		p.ends = append(p.ends, len(p.name))
		if int64(len(p.name))+n-1-i > p.limits.MaxName {
			return p.fail(tensor.ErrLimit, off, "path",
				"a name of more than %d bytes", p.limits.MaxName)
		}
	}
	return nil
}

// comparePaths finds duplicate paths, and paths below another one, among parameters in
// any order.
func (p *parser) comparePaths() error {
	values := slices.DeleteFunc(slices.Clone(p.r.entries),
		func(e *entry) bool { return e.IsStatistic })
	slices.SortStableFunc(values, func(a, b *entry) int { return comparePath(a.Path, b.Path) })
	for i := 1; i < len(values); i++ {
		a, b := values[i-1], values[i]
		p.index, p.name, p.value = 0, []byte(b.tensor.Name), len(b.tensor.Name)
		switch {
		case slices.Equal(a.Path, b.Path):
			return p.malformed(b.start, "", "a second parameter of that path")
		case isBelow(b.Path, a.Path):
			format.Warn(&p.r.Base, p.malformed(b.start, "path",
				"it is below the parameter %s: no model has both", naming.Quote(a.tensor.Name)))
		}
	}
	return nil
}

func (p *parser) optimizer() error {
	o := &p.r.optimizer
	if err := readSettings(p, "uint_configs", &o.Uints, p.uint32); err != nil {
		return err
	}
	return readSettings(p, "float_configs", &o.Floats, p.float32)
}

// readSettings reads one of the two maps of an optimizer.
func readSettings[T uint32 | float32](p *parser, field string, out *[]Setting[T],
	value func() (T, error)) error {
	n, err := p.length(familyMap)
	if err != nil {
		return p.refused(field, err)
	}
	if err := p.plausible(field, n, minSetting); err != nil {
		return err
	}
	seen := make(map[string]bool)
	for i := range n {
		start := p.offset()
		b, err := p.str(p.limits.MaxName)
		if err != nil {
			return p.refused(fmt.Sprintf("%s[%d]", field, i), err)
		}
		name := string(b)
		named := func() string { return fmt.Sprintf("%s[%s]", field, naming.Quote(name)) }
		v, err := value()
		switch {
		case err != nil:
			return p.refused(named(), err)
		case seen[name]:
			return p.malformed(start, named(), "a second setting of that name")
		}
		seen[name] = true
		*out = append(*out, Setting[T]{name, v})
		if err := p.checkMetadata(); err != nil {
			return err
		}
	}
	return nil
}

// count reads the number of things that follow, of at least that size.
func (p *parser) count(field string, size int64) (int64, error) {
	n, err := p.uint32()
	if err != nil {
		return 0, p.refused(field, err)
	}
	return int64(n), p.plausible(field, int64(n), size)
}

// plausible refuses a number of things of at least that size that cannot follow.
func (p *parser) plausible(field string, n, size int64) error {
	switch {
	case n == 0:
		return nil
	case n > p.left()/size:
		return p.fail(io.ErrUnexpectedEOF, p.at, field,
			"%d of them cannot be in the %d bytes that follow", n, p.left())
	case n > p.limits.MaxTensors-p.tensors:
		return p.fail(tensor.ErrLimit, p.at, field, "%d of them, the limit is %d in all",
			n, p.limits.MaxTensors)
	}
	return nil
}

// field returns the path of a field of the part of the file that the parser is in.
func (p *parser) field(name string) string {
	var parts []string
	switch {
	case p.index < 0:
	case p.value >= 0:
		parts = append(parts, "parameters["+naming.Quote(string(p.name[:p.value]))+"]")
	default:
		parts = append(parts, fmt.Sprintf("parameters[%d]", p.index))
	}
	switch p.part {
	case "":
	case "stats":
		parts = append(parts, "stats["+naming.Quote(string(p.name[p.value+1:]))+"]")
	default:
		parts = append(parts, p.part)
	}
	if name != "" {
		parts = append(parts, name)
	}
	return strings.Join(parts, ".")
}

// refused adds the place to the error of the item that was asked for last.
func (p *parser) refused(field string, err error) error {
	return errs.Wrap(p.at, p.field(field), err)
}

func (p *parser) fail(class error, off int64, field, text string, args ...any) error {
	return errs.At(off, p.field(field), class, text, args...)
}

func (p *parser) malformed(off int64, field, text string, args ...any) error {
	return p.fail(tensor.ErrMalformed, off, field, text, args...)
}
