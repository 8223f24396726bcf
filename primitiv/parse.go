package primitiv

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/internal/names"
	"github.com/tensorfile/tensorfile/tensor"
)

// The fewest bytes that things take, so that an impossible count is refused before anything is done because of it. The
// second column is for compact integers.
var (
	leastName      = [2]int64{1, 1}
	leastStatistic = [2]int64{13, 9}
	leastParameter = [2]int64{19, 11} // of a model
	leastSetting   = [2]int64{6, 2}
)

const (
	// maxWarnings bounds what a hostile file can make us say.
	maxWarnings = 1000
	// A statistic is listed as PATH:STATISTIC, so that a long path with many statistics makes the list much larger than
	// the file. The list may take freeNames, and beyond that namesRatio times the metadata.
	freeNames  = 64 << 20
	namesRatio = 16
)

// A parser walks through a file once, from its first byte to its last.
type parser struct {
	cursor
	r   *Reader
	lim tensor.Limits

	least   int   // column of the table above
	payload int64 // bytes of payloads so far; everything else is metadata
	listed  int64 // bytes of the names that Tensors will give

	where // for errors

	first int64 // where the first parameter begins
	usual usualTensor

	rank  int // of the shape just taken
	dims  [maxRank + 1]uint32
	batch uint32

	before     nameRef // path of the parameter before
	beforeLens int
	joined     []byte
	lens       []byte
	parameters int64 // of a model
	prepared   int   // tensors in r.ready
	room       []entry
	unusual    bool // parameters are not in the reference's order, or cannot all be in one model
	nested     bool // a path has several names
}

// where says which part of a file the parser is in.
type where struct {
	parameter int64 // index, -1 outside of a model's
	named     bool  // its name is known
	name      nameRef
	lensOf    int    // bytes of it after the joined path
	part      string // "value", "stats", …
	stat      nameRef
}

func (p *parser) place() string {
	var parts []string
	switch {
	case p.parameter < 0:
	case p.named:
		parts = append(parts, "parameters["+tensor.Quote(p.r.names.name(p.name)[:int(p.name.n)-p.lensOf])+"]")
	default:
		parts = append(parts, fmt.Sprintf("parameters[%d]", p.parameter))
	}
	switch p.part {
	case "":
	case "stats":
		parts = append(parts, "stats["+tensor.Quote(p.r.names.name(p.stat))+"]")
	default:
		parts = append(parts, p.part)
	}
	return strings.Join(parts, ".")
}

func (p *parser) errorAt(off int64, field string, err error) error {
	if in := p.place(); field == "" {
		field = in
	} else if in != "" {
		field = in + "." + field
	}
	return &tensor.FormatError{Format: format, Offset: off, Field: field, Err: err}
}

// refused makes the error of an item that was not taken.
func (p *parser) refused(field string) error { return p.errorAt(p.at, field, p.err) }

func (p *parser) malformed(off int64, field, reason string, args ...any) error {
	return p.errorAt(off, field, fmt.Errorf("%w: %s", tensor.ErrMalformed, fmt.Sprintf(reason, args...)))
}

func (p *parser) limit(off int64, field, reason string, args ...any) error {
	return p.errorAt(off, field, fmt.Errorf("%w: %s", tensor.ErrLimit, fmt.Sprintf(reason, args...)))
}

// warn notes a departure that does not prevent reading, unless the reader is strict.
func (p *parser) warn(err error) error {
	if p.r.opts.Strict {
		return err
	}
	switch n := len(p.r.warnings); {
	case n < maxWarnings:
		p.r.warnings = append(p.r.warnings, err)
	case n == maxWarnings:
		p.r.warnings = append(p.r.warnings, &tensor.FormatError{Format: format, Offset: -1,
			Err: fmt.Errorf("more than %d warnings, the rest is not listed", maxWarnings)})
	}
	return nil
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
		err = p.tensor(p.r.names.keep([]byte("tensor")), false, 0)
		p.r.shape = p.asShape()
	case KindParameter:
		path := p.r.names.keep([]byte("value"))
		if err = p.value(path); err == nil {
			err = p.stats(path)
		}
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
		if err := p.warn(err); err != nil {
			return err
		}
	}
	if p.compact >= 0 {
		return p.warn(p.malformed(p.compact, "", "an integer that is not uint 32, which primitiv refuses"))
	}
	return nil
}

// head takes what all files begin with.
func (p *parser) head() error {
	var n [3]uint32
	for i, field := range []string{"version_major", "version_minor", "data_type"} {
		off := p.offset()
		v, ok := p.uint32()
		switch {
		case !ok:
			return p.refused(field)
		case i == 1 && (n[0] != 0 || v != 1):
			return p.errorAt(0, "version", fmt.Errorf("%w: %d.%d; there is only %s", errors.ErrUnsupported, n[0], v, Version))
		case i == 2 && (v&0xff != 0 || v > KindOptimizer.dataType()):
			return p.malformed(off, field, "0x%x is no kind of file", v)
		}
		n[i] = v
	}
	p.r.kind = Kind(n[2]>>8) + 1
	return nil
}

// count takes the number of things that follow.
func (p *parser) count(field string, least [2]int64) (int64, error) {
	off := p.offset()
	n, ok := p.uint32()
	if !ok {
		return 0, p.refused(field)
	}
	if n == 0 {
		return 0, nil
	}
	return int64(n), p.plausible(off, field, int64(n), least)
}

// plausible refuses a number of things that cannot be.
func (p *parser) plausible(off int64, field string, n int64, least [2]int64) error {
	if n > p.left()/least[p.least] {
		return p.errorAt(off, field, fmt.Errorf("%w: %d of them cannot be in the %d bytes that follow", io.ErrUnexpectedEOF, n, p.left()))
	}
	if n > p.lim.MaxTensors-int64(p.r.records.n) {
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
	n, err := p.count("parameters", leastParameter)
	if err != nil {
		return err
	}
	p.r.records.expect(n)
	p.r.names.expect(n)
	p.first, p.parameters = p.offset(), n
	for i := range n {
		p.parameter, p.named, p.part = i, false, ""
		if p.usualParameter() {
			p.follows(p.name, 0)
			if err := p.metadata(); err != nil {
				return err
			}
			continue
		}
		path, err := p.path()
		if err != nil {
			return err
		}
		p.name, p.lensOf, p.named = path, len(p.lens), true
		p.nested = p.nested || len(p.lens) > 0
		if err := p.value(path); err != nil {
			return err
		}
		p.follows(path, len(p.lens))
		if err := p.stats(path); err != nil {
			return err
		}
	}
	if p.unusual {
		return p.compareAll()
	}
	return nil
}

// path takes the key of a parameter: its elements joined with dots, and then what takes them apart again, which lens
// has.
func (p *parser) path() (nameRef, error) {
	p.joined, p.lens = p.joined[:0], p.lens[:0]
	off := p.offset()
	n, ok := p.array()
	switch {
	case !ok:
		return nameRef{}, p.refused("path")
	case n == 0:
		return nameRef{}, p.malformed(off, "path", "without a name")
	case n == 1:
		b, ok := p.str(p.lim.MaxName)
		if !ok {
			return nameRef{}, p.refused("path[0]")
		}
		return p.r.names.keep(b), nil
	}
	if n > p.left()/leastName[p.least] {
		return nameRef{}, p.errorAt(off, "path", fmt.Errorf("%w: %d names cannot be in the %d bytes that follow", io.ErrUnexpectedEOF, n, p.left()))
	}
	for i := range n {
		b, ok := p.str(p.lim.MaxName)
		if !ok {
			return nameRef{}, p.refused(fmt.Sprintf("path[%d]", i))
		}
		if i > 0 {
			p.joined = append(p.joined, '.')
		}
		p.joined = append(p.joined, b...)
		p.lens = binary.AppendUvarint(p.lens, uint64(len(b)))
		if int64(len(p.joined)) > p.lim.MaxName {
			return nameRef{}, p.limit(off, "path", "a name of more than %d bytes", p.lim.MaxName)
		}
	}
	p.joined = append(p.joined, p.lens...)
	return p.r.names.keep(p.joined), nil
}

// value takes the value of a parameter.
func (p *parser) value(path nameRef) error {
	p.part = "value"
	if err := p.tensor(path, false, uint32(len(p.lens))); err != nil {
		return err
	}
	p.r.values++
	p.listed += int64(path.n) - int64(len(p.lens))
	p.part = ""
	return nil
}

// stats takes the statistics of the value just taken.
func (p *parser) stats(path nameRef) error {
	value := p.r.records.n - 1
	off := p.offset()
	n, err := p.count("stats", leastStatistic)
	if err != nil {
		return err
	}
	if width := p.offset() - off; width != uintSize || n > 0 {
		p.r.records.at(value).count = uint8(width)
		if err := p.statistics(int64(path.n)-int64(len(p.lens)), value, n); err != nil {
			return err
		}
	}
	return p.metadata()
}

func (p *parser) statistics(pathLen int64, value int, n int64) error {
	first := p.r.records.n
	for i := range n {
		p.part = ""
		b, ok := p.str(p.lim.MaxName)
		if !ok {
			return p.refused(fmt.Sprintf("stats[%d]", i))
		}
		ref := p.r.names.keep(b)
		p.part, p.stat = "stats", ref
		p.listed += pathLen + 1 + int64(len(b))
		if err := p.tensor(ref, true, uint32(value)); err != nil {
			return err
		}
		if err := p.metadata(); err != nil {
			return err
		}
	}
	// The reference keeps the first of one name.
	again := repeated(int(n), func(i int) string { return p.r.names.name(p.r.records.at(first + i).name) })
	for _, i := range again {
		p.stat = p.r.records.at(first + i).name
		before := p.r.records.at(first + i - 1) // it begins where the one before ends
		if err := p.duplicate(before.data+int64(before.bytes), "a second statistic of that name"); err != nil {
			return err
		}
	}
	p.part = ""
	without(&p.r.records, first, again)
	return nil
}

// duplicate is called with what is there for a second time.
func (p *parser) duplicate(off int64, reason string) error {
	err := p.malformed(off, "", "%s", reason)
	if !p.r.opts.AllowDuplicates {
		return err
	}
	return p.warn(err)
}

// repeated returns the indexes of names that stood before, in ascending order.
func repeated(n int, name func(i int) string) (again []int) {
	if n <= 8 {
		for i := 1; i < n; i++ {
			for j := range i {
				if name(j) == name(i) {
					again = append(again, i)
					break
				}
			}
		}
		return again
	}
	table, dup := names.Build(n, name)
	if dup < 0 {
		return nil
	}
	for i := dup; i < n; i++ {
		if table.Lookup(name(i)) != i {
			again = append(again, i)
		}
	}
	return again
}

// without takes entries out of a slab: drop is ascending and counts from first.
func without[T any](s *slab[T], first int, drop []int) {
	if len(drop) == 0 {
		return
	}
	to := first
	for i := first; i < s.n; i++ {
		if len(drop) > 0 && first+drop[0] == i {
			drop = drop[1:]
			continue
		}
		*s.at(to) = *s.at(i)
		to++
	}
	s.truncate(to)
}

// tensor takes a tensor, but for its bytes.
func (p *parser) tensor(name nameRef, stat bool, owner uint32) error {
	rec := p.r.records.push()
	rec.name, rec.owner, rec.count = name, owner, uintSize
	if stat {
		rec.flags = isStat
	}
	if t := &p.usual; t.take(p.b[p.p:]) && int64(t.rank) <= p.lim.MaxRank && 4*t.elements <= p.left()-int64(t.data) && p.r.kind != KindTensor {
		p.p += t.data
		p.data(rec, 4*t.elements)
		rec.dims, rec.rank = p.r.dims.run(t.dims[:t.rank], 1, t.elements)
		return nil
	}
	elements, err := p.shape(stat || p.r.kind == KindTensor)
	if err != nil {
		return err
	}
	off := p.offset()
	n, ok := p.bin()
	switch {
	case !ok:
		return p.refused("data")
	case n != 4*elements:
		return p.malformed(off, "data", "%d bytes, a float32 tensor of shape %v has %d", n, p.asShape(), 4*elements)
	case n > p.left():
		return p.errorAt(off, "data", fmt.Errorf("%w: %d bytes, the file has %d more", io.ErrUnexpectedEOF, n, p.left()))
	}
	p.data(rec, n)
	rec.dims, rec.rank = p.r.dims.run(p.dims[:p.rank], p.batch, elements)
	if p.batch > 1 {
		rec.flags |= isBatched
	}
	return nil
}

// data takes the data of a tensor, that is, goes past it.
func (p *parser) data(rec *record, n int64) {
	rec.data, rec.bytes = p.offset(), uint32(n)
	p.skip(n)
	p.payload += n
}

// shape takes a shape into rank, dims and batch, and returns the number of elements. It is held in 64 bits: the
// reference counts in 32, and takes what wraps around for a small tensor.
func (p *parser) shape(batched bool) (elements int64, err error) {
	off := p.offset()
	rank, ok := p.array()
	switch {
	case !ok:
		return 0, p.refused("shape.dims")
	case rank > maxRank:
		return 0, p.malformed(off, "shape.dims", "%d dimensions, there are at most %d", rank, maxRank)
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
	// The batch is taken like one more dimension, which is what it is but for its place in the file.
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

// asShape is the shape just taken.
func (p *parser) asShape() Shape { return Shape{slices.Clone(p.dims[:p.rank]), p.batch} }

// follows compares the parameter just taken with the one before. The reference writes them in ascending order of their
// paths, and then neighbours are all that must be compared: a path that is there twice, and one that lies below
// another, stand side by side. Where something is not as usual, compareAll has a closer look.
func (p *parser) follows(path nameRef, lens int) {
	if p.r.values > 1 && !p.unusual {
		a, b := p.r.names.name(p.before), p.r.names.name(path)
		if lens == 0 && p.beforeLens == 0 {
			p.unusual = a >= b
		} else {
			aCut, bCut := len(a)-p.beforeLens, len(b)-lens
			cmp, inside := comparePaths(a[:aCut], a[aCut:], b[:bCut], b[bCut:])
			p.unusual = cmp >= 0 || inside
		}
	}
	p.before, p.beforeLens = path, lens
}

// compareAll looks for paths that are there twice, or below another one, among parameters in any order.
func (p *parser) compareAll() error {
	p.r.buildList()
	if !p.nested {
		if _, dup := names.Build(p.r.values, func(i int) string { return p.r.joined(int(p.r.listed[i])) }); dup < 0 {
			return nil
		}
	}
	sorted := p.r.sortValues()
	var drop []int
	for i := 1; i < len(sorted); i++ {
		a, b := int(sorted[i-1]), int(sorted[i])
		off := p.start(b)
		rec := p.r.records.at(b)
		p.where = where{parameter: int64(b), named: true, name: rec.name, lensOf: int(rec.owner)}
		var err error
		switch cmp, inside := p.r.comparePaths(a, b); {
		case cmp == 0: // the reference keeps the last
			err = p.duplicate(off, "a second parameter of that path")
			drop = append(drop, a)
		case inside:
			err = p.warn(p.malformed(off, "path", "it lies below the parameter %s: no model has both", tensor.Quote(p.r.joined(a))))
		}
		if err != nil {
			return err
		}
	}
	slices.Sort(drop)
	p.r.drop(drop)
	return nil
}

// start is where the parameter begins whose value is record i.
func (p *parser) start(i int) int64 {
	if i == 0 {
		return p.first
	}
	before := p.r.records.at(i - 1)
	off := before.data + int64(before.bytes)
	if !before.stat() {
		off += int64(before.count)
	}
	return off
}

func (p *parser) optimizer() error {
	err := settings(p, "uint_configs", &p.r.uints, p.uint32)
	if err != nil {
		return err
	}
	return settings(p, "float_configs", &p.r.floats, p.float32)
}

// settings takes one of the two maps of an optimizer.
func settings[T uint32 | float32](p *parser, field string, s *slab[Setting[T]], value func() (T, bool)) error {
	p.where = where{parameter: -1}
	off := p.offset()
	n, ok := p.maplen()
	if !ok {
		return p.refused(field)
	}
	if err := p.plausible(off, field, n, leastSetting); err != nil {
		return err
	}
	start := p.offset()
	for i := range n {
		b, ok := p.str(p.lim.MaxName)
		if !ok {
			return p.refused(fmt.Sprintf("%s[%d]", field, i))
		}
		name := p.r.names.name(p.r.names.keep(b))
		v, ok := value()
		if !ok {
			return p.refused(fmt.Sprintf("%s[%s]", field, tensor.Quote(name)))
		}
		*s.push() = Setting[T]{name, v}
		if err := p.metadata(); err != nil {
			return err
		}
	}
	// The reference keeps the first of one name.
	again := repeated(int(n), func(i int) string { return s.at(i).Name })
	if again == nil {
		return nil
	}
	end := p.offset()
	p.seek(start)
	at := 0
	for _, i := range again {
		for ; at < i; at++ { // to where it begins
			if _, ok := p.str(p.lim.MaxName); !ok {
				return p.refused(field)
			}
			if _, ok := value(); !ok {
				return p.refused(field)
			}
		}
		p.part = fmt.Sprintf("%s[%s]", field, tensor.Quote(s.at(i).Name))
		if err := p.duplicate(p.offset(), "a second setting of that name"); err != nil {
			return err
		}
	}
	p.seek(end)
	p.part = ""
	without(s, 0, again)
	return nil
}
