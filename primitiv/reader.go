package primitiv

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/tensorfile/tensorfile/internal/names"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// ReaderOptions control how a file is opened. nil is the zero value.
type ReaderOptions struct {
	// Strict refuses what would otherwise be in Warnings.
	Strict bool
	// Limits bound what a file may ask for.
	Limits tensor.Limits
	// NoMap keeps Open from mapping the file.
	NoMap bool
	// Companion is not used: a file refers to no other.
	Companion func(name string) (io.ReaderAt, int64, error)

	// AllowTrailing accepts bytes after the end, as the reference does; see Reader.Trailing.
	AllowTrailing bool
	// AllowDuplicates accepts names that stand twice and resolves them as the reference does: of parameters of one path
	// the last stays, of statistics and settings of one name the first. What does not stay is in Warnings alone.
	AllowDuplicates bool
	// AllowCompactIntegers accepts unsigned integers of any width, which other MessagePack writers prefer. The
	// reference cannot read such files.
	AllowCompactIntegers bool
}

// A Reader gives access to an open file. It is safe for concurrent use.
type Reader struct {
	src  *source.Source
	opts ReaderOptions

	kind     Kind
	shape    Shape // KindShape, KindTensor
	records  slab[record]
	values   int // of the records, those of parameters
	dims     dimensions
	names    arena
	uints    slab[Setting[uint32]]
	floats   slab[Setting[float32]]
	warnings []error
	trailing int64

	order tensor.Order // column-major, of the highest rank

	// The first tensors, made while opening, for whoever lists them first.
	ready [][]entry
	taken atomic.Bool

	list   sync.Once
	listed []uint32 // records of values, in file order

	lookup    sync.Once
	byName    *names.Table       // of listed, by joined path
	byStat    map[statKey]uint32 // records
	withStats map[int]struct{}   // lengths of the joined paths that have statistics

	sort   sync.Once
	sorted []uint32 // listed by path
}

// Open opens the file called name and reads everything but the payloads. The file is mapped where that is possible.
func Open(name string, opts *ReaderOptions) (*Reader, error) {
	src, err := source.Open(name, opts != nil && opts.NoMap)
	if err != nil {
		return nil, err
	}
	r, err := newReader(src, opts)
	if err != nil {
		src.Close()
		return nil, err
	}
	return r, nil
}

// OpenBytes reads a file that is in memory. It keeps b, which must not change while the Reader is in use.
func OpenBytes(b []byte, opts *ReaderOptions) (*Reader, error) {
	return newReader(source.OfBytes(b), opts)
}

// NewReader reads the first size bytes of r, which stays the caller's.
func NewReader(r io.ReaderAt, size int64, opts *ReaderOptions) (*Reader, error) {
	src, err := source.OfReaderAt(r, size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", format, err)
	}
	return newReader(src, opts)
}

// mostTensors keeps indexes of records and of dimensions within 32 bits.
const mostTensors = 1 << 28

func newReader(src *source.Source, opts *ReaderOptions) (*Reader, error) {
	r := &Reader{src: src, order: tensor.ColumnMajor(maxRank + 1)}
	if opts != nil {
		r.opts = *opts
	}
	if err := r.opts.Limits.Check(); err != nil {
		return nil, err
	}
	p := parser{r: r, lim: r.opts.Limits.WithDefaults(), where: where{parameter: -1}}
	p.lim.MaxTensors = min(p.lim.MaxTensors, mostTensors)
	p.lim.MaxMetadata = min(p.lim.MaxMetadata, mostNames)
	p.size, p.compact, p.allowCompact = src.Size(), -1, r.opts.AllowCompactIntegers
	if p.allowCompact {
		p.least = 1
	}
	mapped, err := src.Scan(func(all []byte) error {
		p.b = all
		return p.parse()
	})
	if !mapped {
		p.src = src
		err = p.parse()
	}
	if err != nil {
		var fe *tensor.FormatError
		if !errors.As(err, &fe) {
			err = p.errorAt(p.offset(), "", err) // the file was cut off under its mapping
		}
		return nil, err
	}
	return r, nil
}

// Close gives the file up; borrowed slices are invalid afterwards. A second Close does nothing.
func (r *Reader) Close() error { return r.src.Close() }

// Kind tells what the file holds.
func (r *Reader) Kind() Kind { return r.kind }

// Version is that of the format, always [Version].
func (r *Reader) Version() string { return Version }

// Shape is the shape of a file that holds one, or a tensor. Otherwise it is the zero Shape.
func (r *Reader) Shape() Shape {
	if r.kind != KindShape && r.kind != KindTensor {
		return Shape{}
	}
	return Shape{append([]uint32{}, r.shape.Dims...), r.shape.Batch}
}

// Len is the number of tensors: values and statistics.
func (r *Reader) Len() int { return r.records.n }

// Warnings are departures from the format that did not prevent reading, each a *[tensor.FormatError]. Without options
// there is one: a parameter whose path lies below that of another, which no model can hold.
func (r *Reader) Warnings() []error { return r.warnings }

// Trailing is the number of bytes after the end, which AllowTrailing lets pass.
func (r *Reader) Trailing() int64 { return r.trailing }

// Blobs yields nothing: the format has tensors alone.
func (r *Reader) Blobs() iter.Seq2[string, tensor.Blob] {
	return func(func(string, tensor.Blob) bool) {}
}

// Attributes yields the settings of an optimizer, integers first, in file order.
func (r *Reader) Attributes() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for i := range r.uints.n {
			s := r.uints.at(i)
			if !yield(s.Name, strconv.FormatUint(uint64(s.Value), 10)) {
				return
			}
		}
		for i := range r.floats.n {
			s := r.floats.at(i)
			if !yield(s.Name, formatFloat(s.Value)) {
				return
			}
		}
	}
}

// entry is a tensor with what its blob reads, so that both are one allocation.
type entry struct {
	t tensor.Tensor
	payload
}

// payload is the data of a tensor, as the source of its blob.
type payload struct {
	r   *Reader
	rec uint32
}

func (p *payload) record() *record { return p.r.records.at(int(p.rec)) }

func (p *payload) extent() source.Extent {
	rec := p.record()
	e, _ := p.r.src.Extent(rec.data, int64(rec.bytes)) // inside: the parser has looked
	return e
}

func (p *payload) Size() int64   { return int64(p.record().bytes) }
func (p *payload) Offset() int64 { return p.record().data }

func (p *payload) Bytes() ([]byte, bool) {
	e := p.extent()
	return e.Bytes()
}

func (p *payload) ReadAt(b []byte, off int64) (int, error) {
	e := p.extent()
	return e.ReadAt(b, off)
}

const (
	entriesAtOnce = 56       // fill 8 KiB
	freeEntries   = 64 << 10 // bytes of entries that opening makes in any case
)

var entryBytes = int64(reflect.TypeFor[entry]().Size())

// fill makes the tensor of a record, whose parameter has that joined path.
func (r *Reader) fill(e *entry, i int, rec *record, path string) *tensor.Tensor {
	if e.t.Name = path; rec.stat() {
		e.t.Name = path + ":" + r.names.name(rec.name)
	}
	e.t.DType = tensor.F32
	e.t.Shape = r.dims.shape(rec.dims, rec.rank)
	if rec.rank > 1 {
		e.t.Order = r.order[len(r.order)-int(rec.rank):]
	}
	e.payload = payload{r, uint32(i)}
	e.t.Data = tensor.NewBlob(&e.payload)
	return &e.t
}

func (r *Reader) tensor(i int) *tensor.Tensor {
	rec := r.records.at(i)
	return r.fill(new(entry), i, rec, r.joined(r.valueOf(i)))
}

// Tensors yields every tensor in file order: each value, followed by its statistics. The one of a parameter file is
// called value, that of a tensor file tensor.
func (r *Reader) Tensors() iter.Seq[*tensor.Tensor] {
	return func(yield func(*tensor.Tensor) bool) {
		first := 0
		if !r.taken.Swap(true) {
			ready := r.ready
			r.ready = nil
			for _, chunk := range ready {
				for i := range chunk {
					if e := &chunk[i]; e.t.DType == tensor.Unknown { // opening made no more
						break
					} else if first++; !yield(&e.t) {
						return
					}
				}
			}
		}
		var room []entry
		path := ""
		for i := first; i < r.records.n; i++ {
			if len(room) == 0 {
				room = make([]entry, min(entriesAtOnce, r.records.n-i))
			}
			e, rec := &room[0], r.records.at(i)
			room = room[1:]
			if !rec.stat() {
				name := r.names.name(rec.name)
				path = name[:len(name)-int(rec.owner)]
			}
			if !yield(r.fill(e, i, rec, path)) {
				return
			}
		}
	}
}

// statKey names a statistic. value is the first record that has the joined path of the statistic's own value.
type statKey struct {
	value uint32
	name  string
}

// Tensor returns the first tensor of that name, nil if there is none. The first call builds a table.
func (r *Reader) Tensor(name string) *tensor.Tensor {
	r.lookup.Do(r.buildLookup)
	found := uint32(math.MaxUint32)
	if i := r.byName.Lookup(name); i >= 0 {
		found = r.listed[i]
	}
	for at := range r.withStats {
		// A lookup only where a name ends: a name of a million colons costs no more than the names in the file.
		if at >= len(name) || name[at] != ':' {
			continue
		}
		if i := r.byName.Lookup(name[:at]); i >= 0 {
			if rec, ok := r.byStat[statKey{r.listed[i], name[at+1:]}]; ok {
				found = min(found, rec)
			}
		}
	}
	if found == math.MaxUint32 {
		return nil
	}
	return r.tensor(int(found))
}

func (r *Reader) buildLookup() {
	r.list.Do(r.buildList)
	r.byName, _ = names.Build(len(r.listed), func(i int) string { return r.joined(int(r.listed[i])) })
	r.byStat, r.withStats = map[statKey]uint32{}, map[int]struct{}{}
	for i := range r.records.n {
		rec := r.records.at(i)
		if !rec.stat() {
			continue
		}
		path := r.joined(int(rec.owner))
		key := statKey{r.listed[r.byName.Lookup(path)], r.names.name(rec.name)}
		if _, ok := r.byStat[key]; !ok {
			r.byStat[key] = uint32(i)
			r.withStats[len(path)] = struct{}{}
		}
	}
}

// buildList lists the values, with that of a tensor file, which is no parameter. While parsing it is called as often as
// need be, afterwards through list.
func (r *Reader) buildList() {
	r.listed = make([]uint32, 0, max(r.values, 1))
	for i := range r.records.n {
		if !r.records.at(i).stat() {
			r.listed = append(r.listed, uint32(i))
		}
	}
}

// valueOf is the record of the value that record i is, or belongs to.
func (r *Reader) valueOf(i int) int {
	if rec := r.records.at(i); rec.stat() {
		return int(rec.owner)
	}
	return i
}

// path is that of the parameter whose value is record i: its elements joined with dots, and what takes them apart again.
func (r *Reader) path(i int) (joined, lens string) {
	rec := r.records.at(i)
	s := r.names.name(rec.name)
	cut := len(s) - int(rec.owner)
	return s[:cut], s[cut:]
}

func (r *Reader) joined(i int) string {
	joined, _ := r.path(i)
	return joined
}

func (r *Reader) comparePaths(a, b int) (cmp int, inside bool) {
	aName, aLens := r.path(a)
	bName, bLens := r.path(b)
	return comparePaths(aName, aLens, bName, bLens)
}

// numStats is the number of statistics that follow record i.
func (r *Reader) numStats(i int) (n int) {
	for i++; i < r.records.n && r.records.at(i).stat(); i++ {
		n++
	}
	return n
}

// drop takes parameters out; values is ascending.
func (r *Reader) drop(values []int) {
	if len(values) == 0 {
		return
	}
	r.ready = nil
	to, owner, out := 0, uint32(0), false
	for i := range r.records.n {
		rec := *r.records.at(i)
		switch {
		case rec.stat():
			rec.owner = owner
		case len(values) > 0 && values[0] == i:
			values, out = values[1:], true
			r.values--
		default:
			owner, out = uint32(to), false
		}
		if !out {
			*r.records.at(to) = rec
			to++
		}
	}
	r.records.truncate(to)
	r.buildList()
}

// Parameters yields the parameters of a model or of a parameter file, in file order.
func (r *Reader) Parameters() iter.Seq[*Parameter] {
	return func(yield func(*Parameter) bool) {
		for i := 0; i < r.records.n && r.values > 0; i += 1 + r.numStats(i) {
			if !yield(r.parameter(i)) {
				return
			}
		}
	}
}

// NumParameters is the number of parameters.
func (r *Reader) NumParameters() int { return r.values }

// Parameter returns the parameter of exactly that path, nil if there is none. The one of a parameter file has the empty
// path.
func (r *Reader) Parameter(path ...string) *Parameter {
	switch {
	case r.values == 0 || (r.kind == KindParameter) != (len(path) == 0):
		return nil
	case r.kind == KindParameter:
		return r.parameter(0)
	}
	r.sort.Do(func() {
		r.list.Do(r.buildList)
		r.sorted = r.sortValues()
	})
	name, lens := joinPath(path)
	i, ok := slices.BinarySearchFunc(r.sorted, struct{}{}, func(i uint32, _ struct{}) int {
		aName, aLens := r.path(int(i))
		cmp, _ := comparePaths(aName, aLens, name, lens)
		return cmp
	})
	if !ok {
		return nil
	}
	return r.parameter(int(r.sorted[i]))
}

// sortValues returns the records of values in the order of their paths, and of the file where paths are equal.
func (r *Reader) sortValues() []uint32 {
	sorted := slices.Clone(r.listed)
	slices.SortFunc(sorted, func(a, b uint32) int {
		if cmp, _ := r.comparePaths(int(a), int(b)); cmp != 0 {
			return cmp
		}
		return int(a) - int(b)
	})
	return sorted
}

// parameter makes the parameter whose value is record i.
func (r *Reader) parameter(i int) *Parameter {
	p := &Parameter{Value: r.tensor(i)}
	if r.kind == KindModel {
		p.Path = splitPath(r.path(i))
	}
	if n := r.numStats(i); n > 0 {
		p.Stats = make([]Statistic, n)
	}
	for j := range p.Stats {
		rec := r.records.at(i + 1 + j)
		p.Stats[j] = Statistic{Name: r.names.name(rec.name), Tensor: r.tensor(i + 1 + j), Batch: r.batch(rec)}
	}
	return p
}

func (r *Reader) batch(rec *record) uint32 {
	if rec.flags&isBatched == 0 {
		return 1
	}
	s := r.dims.shape(rec.dims, rec.rank)
	return uint32(s[len(s)-1])
}

// Model returns the parameters as a list to edit: it has the payloads by reference, so the Reader must stay open.
func (r *Reader) Model() Model {
	m := make(Model, 0, r.NumParameters())
	for p := range r.Parameters() {
		m = append(m, *p)
	}
	return m
}

// Optimizer returns a copy of the settings in an optimizer file, to be edited; nil for other kinds of files.
func (r *Reader) Optimizer() *Optimizer {
	if r.kind != KindOptimizer {
		return nil
	}
	o := new(Optimizer)
	for i := range r.uints.n {
		o.Uints = append(o.Uints, *r.uints.at(i))
	}
	for i := range r.floats.n {
		o.Floats = append(o.Floats, *r.floats.at(i))
	}
	return o
}

// An Origin says where in its file a tensor stands. A name does not: parts of a path may have dots themselves.
type Origin struct {
	Path        []string // of the parameter; empty in parameter files and tensor files
	IsStatistic bool
	Statistic   string // its name
	Batch       uint32 // above 1, it is the last dimension of the tensor
}

// OriginOf returns the origin of a tensor that came from a Reader of this package, and false for any other. A tensor
// keeps its origin when it is copied and its name changed.
func OriginOf(t *tensor.Tensor) (Origin, bool) {
	if t == nil {
		return Origin{}, false
	}
	p, ok := t.Data.Source().(*payload)
	if !ok {
		return Origin{}, false
	}
	rec := p.r.records.at(int(p.rec))
	o := Origin{IsStatistic: rec.stat(), Batch: p.r.batch(rec)}
	if rec.stat() {
		o.Statistic = p.r.names.name(rec.name)
	}
	if p.r.kind == KindModel {
		o.Path = splitPath(p.r.path(p.r.valueOf(int(p.rec))))
	}
	return o, true
}
