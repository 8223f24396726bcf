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

	starts  []int64 // where the statistics of a parameter, or settings, begin
	joined  []byte
	lens    []byte
	unusual bool // parameters are not in the reference's order, or cannot all be in one model
}

// where says which part of a file the parser is in.
type where struct {
	parameter int64 // index, -1 outside of a model's
	named     bool  // name is known
	name      string
	part      string // "value", "stats", …
	stat      string // in part "stats"
}

func (w *where) String() string {
	var parts []string
	switch {
	case w.parameter < 0:
	case w.named:
		parts = append(parts, "parameters["+tensor.Quote(w.name)+"]")
	default:
		parts = append(parts, fmt.Sprintf("parameters[%d]", w.parameter))
	}
	switch w.part {
	case "":
	case "stats":
		parts = append(parts, "stats["+tensor.Quote(w.stat)+"]")
	default:
		parts = append(parts, w.part)
	}
	return strings.Join(parts, ".")
}

func (p *parser) errorAt(off int64, field string, err error) error {
	if in := p.where.String(); field == "" {
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
	case KindTensor:
		p.part = "tensor"
		p.r.rows.push(row{offset: p.offset()}) // for look-ups by name
		err = p.tensor(record{name: "tensor"})
	case KindParameter:
		err = p.parameterAs("value", row{offset: p.offset()})
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
	for i := range n {
		p.where = where{parameter: i}
		r := row{offset: p.offset()}
		name, err := p.path()
		if err != nil {
			return err
		}
		r.lens = uint32(len(p.lens))
		p.name, p.named = name[:len(name)-len(p.lens)], true
		if err := p.parameterAs(name, r); err != nil {
			return err
		}
		p.follows()
	}
	if p.unusual {
		return p.compareAll()
	}
	return nil
}

// path takes the key of a parameter: its elements joined with dots, and then what takes them apart again, which lens
// has.
func (p *parser) path() (string, error) {
	p.joined, p.lens = p.joined[:0], p.lens[:0]
	off := p.offset()
	n, ok := p.array()
	switch {
	case !ok:
		return "", p.refused("path")
	case n == 0:
		return "", p.malformed(off, "path", "without a name")
	case n == 1:
		b, ok := p.str(p.lim.MaxName)
		if !ok {
			return "", p.refused("path[0]")
		}
		return p.r.names.copy(b), nil
	}
	if n > p.left()/leastName[p.least] {
		return "", p.errorAt(off, "path", fmt.Errorf("%w: %d names cannot be in the %d bytes that follow", io.ErrUnexpectedEOF, n, p.left()))
	}
	for i := range n {
		b, ok := p.str(p.lim.MaxName)
		if !ok {
			return "", p.refused(fmt.Sprintf("path[%d]", i))
		}
		if i > 0 {
			p.joined = append(p.joined, '.')
		}
		p.joined = append(p.joined, b...)
		p.lens = binary.AppendUvarint(p.lens, uint64(len(b)))
		if int64(len(p.joined)) > p.lim.MaxName {
			return "", p.limit(off, "path", "a name of more than %d bytes", p.lim.MaxName)
		}
	}
	p.joined = append(p.joined, p.lens...)
	return p.r.names.copy(p.joined), nil
}

// parameterAs takes a value and its statistics.
func (p *parser) parameterAs(name string, r row) error {
	at := uint32(p.r.rows.n)
	r.first = uint32(p.r.records.n)
	p.part = "value"
	if err := p.tensor(record{name: name, row: at}); err != nil {
		return err
	}
	p.listed += int64(len(name)) - int64(r.lens)
	p.part = ""
	n, err := p.count("stats", leastStatistic)
	if err != nil {
		return err
	}
	if n > 0 {
		if err := p.statistics(len(name)-int(r.lens), at, n); err != nil {
			return err
		}
	}
	p.r.rows.push(r)
	return p.metadata()
}

func (p *parser) statistics(nameLen int, at uint32, n int64) error {
	first := p.r.records.n
	for i := range n {
		p.part = ""
		b, ok := p.str(p.lim.MaxName)
		if !ok {
			return p.refused(fmt.Sprintf("stats[%d]", i))
		}
		p.part, p.stat = "stats", p.r.names.copy(b)
		p.listed += int64(nameLen) + 1 + int64(len(b))
		if err := p.tensor(record{name: p.stat, row: at, stat: true}); err != nil {
			return err
		}
		if err := p.metadata(); err != nil {
			return err
		}
	}
	// The reference keeps the first of one name.
	nth := func(i int) string { return p.r.records.at(first + i).name }
	again := repeated(int(n), nth)
	for _, i := range again {
		p.stat = nth(i)
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
func (p *parser) tensor(rec record) error {
	elements, err := p.shape(rec.stat || p.r.kind == KindTensor)
	if err != nil {
		return err
	}
	s := &p.r.shape
	off := p.offset()
	n, ok := p.bin()
	switch {
	case !ok:
		return p.refused("data")
	case n != 4*elements:
		return p.malformed(off, "data", "%d bytes, a float32 tensor of shape %v has %d", n, s, 4*elements)
	case n > p.left():
		return p.errorAt(off, "data", fmt.Errorf("%w: %d bytes, the file has %d more", io.ErrUnexpectedEOF, n, p.left()))
	}
	rec.data, rec.bytes = p.offset(), uint32(n)
	p.skip(n)
	p.payload += n

	var dims [maxRank + 1]int64
	for _, d := range s.Dims {
		dims[rec.rank] = int64(d)
		rec.rank++
	}
	if s.Batch > 1 {
		dims[rec.rank] = int64(s.Batch)
		rec.rank++
		rec.batch = true
	}
	rec.dims = p.r.dims.run(dims[:rec.rank])
	p.r.records.push(rec)
	return nil
}

// shape takes a shape into Reader.shape and returns the number of elements. It is held in 64 bits: the reference counts
// in 32, and takes what wraps around for a small tensor.
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
	s := &p.r.shape
	s.Dims = s.Dims[:0]
	product := uint64(1)
	for i := range rank {
		at := p.offset()
		d, ok := p.uint32()
		switch {
		case !ok:
			return 0, p.refused(fmt.Sprintf("shape.dims[%d]", i))
		case d == 0:
			return 0, p.malformed(at, fmt.Sprintf("shape.dims[%d]", i), "0")
		}
		if product *= uint64(d); product > math.MaxUint32 {
			return 0, p.malformed(off, "shape.dims", "2^32 elements or more")
		}
		s.Dims = append(s.Dims, d)
	}
	at := p.offset()
	if s.Batch, ok = p.uint32(); !ok {
		return 0, p.refused("shape.batch")
	}
	switch {
	case s.Batch == 0:
		return 0, p.malformed(at, "shape.batch", "0")
	case s.Batch > 1 && !batched:
		return 0, p.malformed(at, "shape.batch", "%d where values of parameters have 1", s.Batch)
	}
	if product *= uint64(s.Batch); product > math.MaxUint32 {
		return 0, p.malformed(off, "shape", "2^32 elements or more")
	}
	s.Dims = s.stripped()
	return int64(product), nil
}

// follows compares the parameter just taken with the one before. The reference writes them in ascending order of their
// paths, and then neighbours are all that must be compared: a path that is there twice, and one that lies below
// another, stand side by side. Where something is not as usual, compareAll has a closer look.
func (p *parser) follows() {
	if i := p.r.rows.n - 1; i > 0 && !p.unusual {
		cmp, inside := p.r.compareRows(i-1, i)
		p.unusual = cmp >= 0 || inside
	}
}

// compareAll looks for paths that are there twice, or below another one, among parameters in any order.
func (p *parser) compareAll() error {
	sorted := p.r.sortRows()
	var drop []int
	for i := 1; i < len(sorted); i++ {
		a, b := int(sorted[i-1]), int(sorted[i])
		off := p.r.rows.at(b).offset
		p.where = where{parameter: int64(b), named: true, name: p.r.rowName(b)}
		var err error
		switch cmp, inside := p.r.compareRows(a, b); {
		case cmp == 0: // the reference keeps the last
			err = p.duplicate(off, "a second parameter of that path")
			drop = append(drop, a)
		case inside:
			err = p.warn(p.malformed(off, "path", "it lies below the parameter %s: no model has both", tensor.Quote(p.r.rowName(a))))
		}
		if err != nil {
			return err
		}
	}
	slices.Sort(drop)
	p.r.dropRows(drop)
	return nil
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
		name := p.r.names.copy(b)
		v, ok := value()
		if !ok {
			return p.refused(fmt.Sprintf("%s[%s]", field, tensor.Quote(name)))
		}
		s.push(Setting[T]{name, v})
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
