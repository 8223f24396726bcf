package ptd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/names"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/schema/ptdfb"
	"github.com/tensorfile/tensorfile/tensor"
)

// firstRead is how much opening asks for before it knows how long the metadata is.
const firstRead = 64 << 10

// newReader reads the metadata of src and takes src over if it succeeds. all is what src has, if it is in memory that nobody
// changes; from a file the metadata is copied, so that what was checked stays as it was.
func newReader(src *source.Source, all []byte, opts *ReaderOptions) (r *Reader, err error) {
	p := parser{alias: all == nil}
	if opts != nil {
		p.opts = *opts
	}
	if err := p.opts.Limits.Check(); err != nil {
		return nil, err
	}
	p.limits, p.r = p.opts.Limits.WithDefaults(), &Reader{src: src}
	// Whatever is wrong in a file is an error before it can panic: this is for a bug of ours.
	defer func() {
		if e := recover(); e != nil {
			r, err = nil, bug(e)
		}
	}()
	head := all
	if all == nil {
		n := int64(firstRead)
		if src.Mapped() {
			n = headSize // another read costs nothing
		}
		if head, err = src.Metadata(0, min(src.Size(), n)); err != nil {
			return nil, err
		}
	}
	h, err := parseHeader(head[:min(headSize, len(head))], src.Size(), p.limits)
	if err != nil {
		return nil, err
	}
	if end := h.metadataEnd(); end > int64(len(head)) {
		if head, err = src.Extend(head, end); err != nil {
			return nil, err
		}
	}
	if err := p.metadata(h, head[:h.metadataEnd()]); err != nil {
		return nil, err
	}
	return p.r, nil
}

func bug(e any) error {
	return failure(-1, "", fmt.Errorf("%w: a bug in tensorfile: %v", tensor.ErrMalformed, e))
}

type parser struct {
	opts   ReaderOptions
	limits tensor.Limits
	r      *Reader
	shift  int64 // from a position in the FlatBuffer to one in the file
	names  int64 // bytes of names so far
	listed int64 // entries of the file
	alias  bool  // the metadata is ours, so that names can stay where they are
	cursor fb.Cursor
	scalar ScalarType // of the tensor that was read last
	key    uint32     // where the name that was read last begins in the FlatBuffer
	cols   columns

	tensors int // of the Reader's that are taken

	// Where the names, parts of segments, shapes and orders of many entries are kept together.
	text    []byte
	extents []source.Extent
	dims    []int64
	orders  []int

	// For filling the table of names by several goroutines.
	hashes []uint64 // of all names; nil where there is one goroutine, or no room for them
	filled bool

	// What the Reader gets in the end: several parsers may work on one file.
	strays   int
	warnings []error
}

// What entries cost in the index, for the budget, each beside a place in the table of names.
var (
	tensorCost  = sizeOf[tensor.Tensor]()
	segmentCost = sizeOf[source.Extent]()
)

func sizeOf[T any]() int64 { return int64(reflect.TypeFor[T]().Size()) }

// spend takes n bytes of the budget. A file that refers to the same table again and again could make the index many times
// as large as itself; that of a genuine one stays below: a scalar takes 48 bytes there or more (or 44, of type byte, in the first
// segment, with a name of up to three bytes), and here, with these, 192.
func (p *parser) spend(n int64) bool {
	for {
		have := p.r.budget.Load()
		if n > have {
			return false
		}
		if p.r.budget.CompareAndSwap(have, have-n) {
			return true
		}
	}
}

func (p *parser) spent(offset int64, field string) error {
	return failure(offset, field, fmt.Errorf("%w: more entries than %d bytes of metadata can describe without sharing them",
		tensor.ErrLimit, p.r.header.FlatbufferSize))
}

// metadata parses the bytes of the file up to the end of the FlatBuffer.
func (p *parser) metadata(h Header, head []byte) error {
	p.r.header, p.shift = h, h.FlatbufferOffset
	times := int64(4)
	if p.alias {
		times-- // the metadata itself is kept
	}
	p.r.budget.Store(h.FlatbufferSize*times + 3<<18) // the rest of 1 MiB is for what does not grow with the file, and for rounding
	root := binary.LittleEndian.Uint32(head)
	if int64(root) < h.FlatbufferOffset+8 {
		return malformed(0, "root", "the root table at byte %d is not behind the header, which ends at %d", root, h.FlatbufferOffset+8)
	}
	if int64(root) > int64(len(head))-4 {
		return malformed(0, "root", "the root table at byte %d is not in the metadata, which ends at %d", root, len(head))
	}
	if h.FlatbufferOffset%8 != 0 {
		if err := p.warn(16, "header.flatbuffer_offset", "%d is no multiple of 8 and takes the flatbuffer out of alignment", h.FlatbufferOffset); err != nil {
			return err
		}
	}
	if over := p.r.src.Size() - h.SegmentBaseOffset - h.SegmentDataSize; over > 0 && h.SegmentBaseOffset > 0 {
		if err := p.warn(h.SegmentBaseOffset+h.SegmentDataSize, "", "%d bytes behind the last segment", over); err != nil {
			return err
		}
	}
	buf := head[h.FlatbufferOffset:]
	pos := root - uint32(h.FlatbufferOffset)
	limits := fb.Limits{MaxTables: math.MaxInt32}
	// Only verification against both tells the generations apart. A file of today does not have the field that makes us try.
	table := ptdfb.TableFlatTensor
	if hasField(buf, pos, legacySegments) && fb.VerifySpliced(buf, pos, &ptdfb.Schema, ptdfb.TableLegacyFlatTensor, limits) == nil {
		table = ptdfb.TableLegacyFlatTensor
	}
	row, e := p.cursor.Start(buf, pos, &ptdfb.Schema, table, limits)
	if e != nil {
		return p.refused(e, "")
	}
	if v := p.cursor.Uint32(row.At(flatTensorVersion)); v != 0 {
		return failure(p.place(row, flatTensorVersion), "version", fmt.Errorf("%w: version %d, only 0 is known", errors.ErrUnsupported, v))
	}
	if table == ptdfb.TableLegacyFlatTensor {
		return p.legacy(row)
	}
	return p.entries(row)
}

// finish gives the Reader what p found, and refuses a name that stands twice: ExecuTorch's readers disagree about which of the
// two it means. place tells the offset and the field of the name of an entry.
func (p *parser) finish(place func(i int) (int64, string)) error {
	r := p.r
	r.strays, r.warnings = p.strays, p.warnings
	if p.filled {
		return nil
	}
	if dup := r.table.Fill(r.names.len(), &r.names); dup >= 0 {
		off, field := place(dup)
		name := r.names.NameAt(dup)
		_, first := place(r.table.Lookup(name))
		return malformed(off, field, "the name %s stands twice, first in %s", tensor.Quote(name), first)
	}
	return nil
}

// Fields of the tables by id.
const (
	flatTensorVersion  = 0
	flatTensorSegments = 1
	flatTensorNamed    = 2

	namedKey     = 0
	namedSegment = 1
	namedLayout  = 2

	layoutType     = 0
	layoutSizes    = 1
	layoutDimOrder = 2

	segmentOffset = 0
	segmentSize   = 1
)

// slot is the place of a field in the vtable.
func slot(id int) int { return 4 + 2*id }

// A shape of entry tables: in which vector they stand, and where in them, or in a table below, the name and layout are.
type columns struct {
	vector, key, layout           string
	name, scalar, sizes, dimOrder int
}

// hasField looks for a field of the root before anything is verified.
func hasField(buf []byte, pos uint32, id int) bool {
	slot := int64(slot(id))
	vt := int64(pos) - int64(int32(binary.LittleEndian.Uint32(buf[pos:])))
	if vt < 0 || vt > int64(len(buf))-slot-2 {
		return false
	}
	return int64(binary.LittleEndian.Uint16(buf[vt:])) >= slot+2 && binary.LittleEndian.Uint16(buf[vt+slot:]) != 0
}

// refused turns what the verifier says about a field into an error of the file.
func (p *parser) refused(e *fb.Error, field string) error {
	class := tensor.ErrMalformed
	if e.Limit {
		class = tensor.ErrLimit
	}
	if e.Path != "" && field != "" {
		field += "."
	}
	return failure(p.shift+e.Offset, field+e.Path, fmt.Errorf("%w: %s", class, e.Reason))
}

// warn notes a departure from the format; it is an error if Strict.
func (p *parser) warn(offset int64, field, format string, args ...any) error {
	return p.tolerate(malformed(offset, field, format, args...))
}

// mostWarnings are listed, and one that says that there are more.
const mostWarnings = 100

// silent tells whether one more warning would be listed nowhere. Whoever comes across one an entry does not make it then: a hundred
// thousand take more memory than the entries.
func (p *parser) silent() bool { return !p.opts.Strict && len(p.warnings) > mostWarnings }

func (p *parser) tolerate(err error) error {
	switch {
	case p.opts.Strict:
		return err
	case len(p.warnings) < mostWarnings:
		p.warnings = append(p.warnings, err)
	case len(p.warnings) == mostWarnings:
		p.warnings = append(p.warnings, fmt.Errorf("ptd: more than %d warnings, the rest is not listed", mostWarnings))
	}
	return nil
}

// A list is a vector of tables: where its elements begin, and how many there are.
type list struct {
	first uint32
	n     int
}

// list answers a vector of tables of the root, and whether it is there.
func (p *parser) list(root fb.Row, id int, field string) (list, bool, error) {
	off := root.At(id)
	if off == 0 {
		return list{}, false, nil
	}
	first, n, err := p.cursor.Vector(off, 4)
	if err != nil {
		return list{}, false, p.refused(err, field)
	}
	return list{first, int(n)}, true, nil
}

// entries reads a FlatTensor of 0.7 and later.
func (p *parser) entries(root fb.Row) error {
	segments, ok, err := p.list(root, flatTensorSegments, "segments")
	if err != nil {
		return err
	}
	if !ok {
		return malformed(p.place(root, flatTensorSegments), "segments", "absent")
	}
	named, ok, err := p.list(root, flatTensorNamed, "named_data")
	if err != nil {
		return err
	}
	if !ok {
		return malformed(p.place(root, flatTensorNamed), "named_data", "absent")
	}
	namedAt := p.place(root, flatTensorNamed)
	p.cols = columns{"named_data", ".key", ".tensor_layout", namedKey, layoutType, layoutSizes, layoutDimOrder}
	c := &p.cols
	const (
		worthwhile = 8192 // entries for a goroutine of its own
		most       = 16   // goroutines, each of which wants nine kilobytes that the budget does not know of
	)
	if workers := min(runtime.GOMAXPROCS(0), named.n/worthwhile, most); workers > 1 {
		err = p.parallel(segments, named, namedAt, workers)
	} else {
		err = p.serial(segments, named, namedAt)
	}
	if err != nil {
		return err
	}
	if p.names > p.r.header.FlatbufferSize {
		return p.overlap(namedAt, "named_data")
	}
	return p.finish(func(i int) (int64, string) {
		row, _ := p.cursor.Table(named.first+4*uint32(i), ptdfb.TableNamedData)
		return p.place(row, c.name), at(c.vector, i) + c.key
	})
}

// count answers how many of the entries from lo to hi have a layout. It only looks: of tables that no reader would take it may say
// anything, but of two looks at the same table the same.
func (p *parser) count(named list, lo, hi int) (tensors int) {
	buf := p.cursor.Buf()
	vtable, with := int64(-1), 0 // of the last table: most share one
	for i := lo; i < hi; i++ {
		at := named.first + 4*uint32(i)
		pos := int64(at) + int64(binary.LittleEndian.Uint32(buf[at:]))
		if pos > int64(len(buf))-4 {
			continue
		}
		if v := pos - int64(int32(binary.LittleEndian.Uint32(buf[pos:]))); v != vtable {
			if vtable, with = v, 0; hasField(buf, uint32(pos), namedLayout) {
				with = 1
			}
		}
		tensors += with
	}
	return tensors
}

// rows reads the entries from lo to hi. It makes room for what comes before end.
func (p *parser) rows(named list, lo, hi, end int) error {
	r, c := p.r, &p.cols
	for i := lo; i < hi; i++ {
		row, e := p.cursor.Table(named.first+4*uint32(i), ptdfb.TableNamedData)
		if e != nil {
			return p.refused(e, at(c.vector, i))
		}
		name, err := p.name(row, c, i, end-i)
		if err != nil {
			return err
		}
		s := p.cursor.Uint32(row.At(namedSegment))
		if uint64(s) >= uint64(len(r.segments)) {
			return p.noSegment(row, namedSegment, s, c.vector, i)
		}
		data := &r.segments[s]
		off := row.At(namedLayout)
		if off == 0 {
			p.blob(i, name, s)
			continue
		}
		layout, e := p.cursor.Table(off, ptdfb.TableTensorLayout)
		if e != nil {
			return p.refused(e, at(c.vector, i)+c.layout)
		}
		t, n, err := p.tensor(layout, c, i, end-i, data.Size())
		if err != nil {
			return err
		}
		if t.Scheme != stray && n < data.Size() {
			if data = p.part(data.Offset(), n, end-i); data == nil {
				return p.spent(p.shift+int64(layout.Pos), at(c.vector, i)+c.layout)
			}
		}
		p.add(i, t, name, s, data)
	}
	return nil
}

// serial reads segments and entries on this goroutine.
func (p *parser) serial(segments, named list, namedAt int64) error {
	if err := p.roomForSegments(segments); err != nil {
		return err
	}
	if err := p.segments(segments); err != nil {
		return err
	}
	tensors := p.count(named, 0, named.n)
	if err := p.room(tensors, named.n-tensors, namedAt, "named_data"); err != nil {
		return err
	}
	return p.rows(named, 0, named.n, named.n)
}

// add takes the tensor that was read last as entry i.
func (p *parser) add(i int, t *tensor.Tensor, name string, segment uint32, data *source.Extent) {
	t.Name, t.Data = name, tensor.NewBlob(data)
	switch {
	case t.Scheme == stray:
		p.strays++
	case t.DType == tensor.Unknown:
		t.Data = tensor.NewBlob(&untyped{data, p.scalar})
	}
	p.note(i, name, uint32(p.tensors), segment)
	p.tensors++
}

// blob makes entry i one without a layout.
func (p *parser) blob(i int, name string, segment uint32) {
	p.note(i, name, isBlob, segment)
}

// note keeps what there is to know of entry i, whose name was read last.
func (p *parser) note(i int, name string, place, segment uint32) {
	r := p.r
	if r.names.at != nil {
		r.names.at[i] = p.key
	} else {
		r.names.all[i] = name
	}
	if p.hashes != nil {
		p.hashes[i] = r.table.Hash(name)
	}
	if r.places != nil {
		r.places[i] = place
	}
	if r.index != nil {
		r.index[i] = segment
	}
}

// part is n bytes of a segment, which has them; with this entry, left are to come. It is nil when the budget is spent.
func (p *parser) part(off, n int64, left int) *source.Extent {
	if k := len(p.extents); k > 0 && p.extents[k-1].Offset() == off && p.extents[k-1].Size() == n {
		return &p.extents[k-1] // what shares its bytes often comes together
	}
	if len(p.extents) == cap(p.extents) && !more(p, &p.extents, 1, left) {
		return nil
	}
	e, err := p.r.src.Extent(off, n)
	if err != nil { // cannot be: the segment lies in the file
		return nil
	}
	p.extents = append(p.extents, e)
	return &p.extents[len(p.extents)-1]
}

// untyped is the data of a tensor whose type has no name: it tells the file's own word.
type untyped struct {
	*source.Extent
	scalar ScalarType
}

// Stored tells where the data is, and its type in the file's word.
func (u *untyped) Stored() tensor.Stored {
	return tensor.Stored{Offset: u.Offset(), Size: u.Size(), Encoding: "raw", Type: u.scalar.String()}
}

// room makes room for entries, of which so many have a layout.
func (p *parser) room(tensors, blobs int, offset int64, field string) error {
	r, n := p.r, tensors+blobs
	if int64(n) > p.limits.MaxTensors {
		return failure(offset, field, fmt.Errorf("%w: %d entries, Limits.MaxTensors is %d", tensor.ErrLimit, n, p.limits.MaxTensors))
	}
	lists := make([]*[]uint32, 0, 3) // of a number an entry: those that the file needs, in one piece of memory
	if p.alias {
		lists = append(lists, &r.names.at)
	}
	if len(r.segments) > 1 {
		lists = append(lists, &r.index)
	}
	if tensors > 0 && blobs > 0 && !r.legacy { // there they have a vector each
		lists = append(lists, &r.places)
	}
	each := names.Each + 4*int64(len(lists))
	if !p.alias {
		each += sizeOf[string]()
	}
	if !p.spend(int64(tensors)*tensorCost + int64(n)*each) {
		return p.spent(offset, field)
	}
	p.listed, r.tensors = int64(n), make([]tensor.Tensor, tensors)
	numbers := make([]uint32, n*len(lists)+names.Slots(n))
	for k, l := range lists {
		*l = numbers[k*n:][:n:n]
	}
	r.table.Start(n, &r.names, numbers[n*len(lists):])
	if p.alias {
		r.names.buf = p.cursor.Buf()
	} else {
		r.names.all = make([]string, n)
	}
	return nil
}

// place is where a field of a table is, or the table where the field is absent.
func (p *parser) place(row fb.Row, id int) int64 {
	if at := row.At(id); at != 0 {
		return p.shift + int64(at)
	}
	return p.shift + int64(row.Pos)
}

func (p *parser) roomForSegments(all list) error {
	if !p.spend(int64(all.n) * segmentCost) {
		return p.spent(p.shift+int64(all.first)-4, "segments")
	}
	p.r.segments = make([]source.Extent, all.n)
	return nil
}

// plainSegments reads the segments from lo to hi, of which it answers where the first begins and the last ends; or false where
// there is more to say, which is for segments to do.
func (p *parser) plainSegments(all list, lo, hi int) (first, end uint64, ok bool) {
	base, most := p.r.header.SegmentBaseOffset, uint64(p.r.header.SegmentDataSize)
	for i := lo; i < hi; i++ {
		row, e := p.cursor.Table(all.first+4*uint32(i), ptdfb.TableDataSegment)
		if e != nil {
			return 0, 0, false
		}
		off, size := p.cursor.Uint64(row.At(segmentOffset)), p.cursor.Uint64(row.At(segmentSize))
		if off > most || size > most-off || off < end {
			return 0, 0, false
		}
		extent, err := p.r.src.Extent(base+int64(off), int64(size))
		if err != nil {
			return 0, 0, false
		}
		p.r.segments[i] = extent
		if i == lo {
			first = off
		}
		end = off + size
	}
	return first, end, true
}

// segments reads where the segments are and holds them against the header.
func (p *parser) segments(all list) error {
	r, h := p.r, p.r.header
	most, end := uint64(h.SegmentDataSize), uint64(0)
	for i := range all.n {
		row, e := p.cursor.Table(all.first+4*uint32(i), ptdfb.TableDataSegment)
		if e != nil {
			return p.refused(e, at("segments", i))
		}
		off, size := p.cursor.Uint64(row.At(segmentOffset)), p.cursor.Uint64(row.At(segmentSize))
		switch {
		case off > most:
			return malformed(p.place(row, segmentOffset), at("segments", i)+".offset", "%d bytes at %d of the %d that header.segment_data_size counts", size, off, most)
		case size > most-off:
			return malformed(p.place(row, segmentSize), at("segments", i)+".size", "%d bytes at %d of the %d that header.segment_data_size counts", size, off, most)
		case off < end && !p.silent():
			if err := p.warn(p.place(row, segmentOffset), at("segments", i)+".offset", "%d, before the end of the segment listed before it, %d", off, end); err != nil {
				return err
			}
		}
		end = max(end, off+size)
		var err error
		if r.segments[i], err = r.src.Extent(h.SegmentBaseOffset+int64(off), int64(size)); err != nil {
			return failure(p.place(row, segmentOffset), at("segments", i), err)
		}
	}
	return nil
}

func (p *parser) noSegment(row fb.Row, id int, s uint32, vector string, i int) error {
	return malformed(p.place(row, id), at(vector, i)+".segment_index", "%d, there are %d segments", s, len(p.r.segments))
}

// at names an element of a vector.
func at(vector string, i int) string { return vector + "[" + strconv.Itoa(i) + "]" }

// name copies and checks the name of entry i; with it, left are to come.
func (p *parser) name(row fb.Row, c *columns, i, left int) (string, error) {
	off := row.At(c.name)
	if off == 0 {
		return "", malformed(p.place(row, c.name), at(c.vector, i)+c.key, "absent")
	}
	key, e := p.cursor.String(off)
	if e != nil {
		return "", p.refused(e, at(c.vector, i)+c.key)
	}
	switch p.names += int64(len(key)); {
	case int64(len(key)) > p.limits.MaxName:
		return "", failure(p.place(row, c.name), at(c.vector, i)+c.key, fmt.Errorf("%w: a name of %d bytes, Limits.MaxName is %d", tensor.ErrLimit, len(key), p.limits.MaxName))
	case p.names > p.r.header.FlatbufferSize:
		return "", p.overlap(p.place(row, c.name), at(c.vector, i)+c.key)
	}
	p.key, _ = p.cursor.Follow(off)
	p.key += 4
	if !p.alias {
		if len(key) > cap(p.text)-len(p.text) {
			// For all that are to come, were they like this one, and did names make up a third of the metadata.
			each := min(int64(len(key))+4, p.r.header.FlatbufferSize/(3*p.listed))
			n := max(int64(len(key)), each*int64(left))
			if !p.spend(n) {
				return "", p.spent(p.place(row, c.name), at(c.vector, i)+c.key)
			}
			p.text = make([]byte, 0, n)
		}
		start := len(p.text)
		p.text = append(p.text, key...)
		key = p.text[start:]
	}
	name := le.String(key)
	if !plain(key) && (strings.IndexByte(name, 0) >= 0 || !utf8.ValidString(name)) {
		return "", malformed(p.place(row, c.name), at(c.vector, i)+c.key, "the name %s has a NUL or is not UTF-8", tensor.Quote(name))
	}
	return name, nil
}

func (p *parser) overlap(offset int64, field string) error {
	return failure(offset, field, fmt.Errorf("%w: the names share their bytes: together they are longer than the metadata", tensor.ErrLimit))
}

// plain tells whether b is ASCII without NUL, eight bytes at a time.
func plain(b []byte) bool {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for ; len(b) >= 8; b = b[8:] {
		// A byte that is zero borrows from its high bit; one that is not ASCII has it.
		if x := binary.LittleEndian.Uint64(b); (x|(x-ones))&highs != 0 {
			return false
		}
	}
	for _, c := range b {
		if c-1 >= 0x7f {
			return false
		}
	}
	return true
}

// tensor reads the layout of entry i, which has size bytes, into the next tensor, and answers how many bytes the tensor has: all
// where its type has no meaning. Where the layout makes no sense it answers an error or, if the caller of Open tolerates that,
// a stray.
func (p *parser) tensor(row fb.Row, c *columns, i, left int, size int64) (*tensor.Tensor, int64, error) {
	sizesAt, orderAt := row.At(c.sizes), row.At(c.dimOrder)
	switch {
	case sizesAt == 0:
		return p.bad(row, c, i, c.sizes, ".sizes", "absent")
	case orderAt == 0:
		return p.bad(row, c, i, c.dimOrder, ".dim_order", "absent")
	}
	first, rank, e := p.cursor.Vector(sizesAt, 4)
	if e != nil {
		return nil, 0, p.refused(e, at(c.vector, i)+c.layout+".sizes")
	}
	firstOrder, n32, e := p.cursor.Vector(orderAt, 1)
	if e != nil {
		return nil, 0, p.refused(e, at(c.vector, i)+c.layout+".dim_order")
	}
	switch {
	case int64(rank) > p.limits.MaxRank:
		return nil, 0, failure(p.place(row, c.sizes), at(c.vector, i)+c.layout+".sizes", fmt.Errorf("%w: %d dimensions, Limits.MaxRank is %d", tensor.ErrLimit, rank, p.limits.MaxRank))
	case n32 != rank:
		return p.bad(row, c, i, c.dimOrder, ".dim_order", "%d dimensions for %d sizes", n32, rank)
	}
	sizes, order := p.cursor.Buf()[first:][:4*rank], p.cursor.Buf()[firstOrder:][:rank]
	if int(rank) > cap(p.dims)-len(p.dims) && !more(p, &p.dims, int(rank), left) {
		return nil, 0, p.spent(p.shift+int64(row.Pos), at(c.vector, i)+c.layout)
	}
	start := len(p.dims)
	count, over := uint64(1), false // elements; as in the runtime, a 0 saves what comes behind it, not what went over before
	for d := range rank {
		n := int64(int32(binary.LittleEndian.Uint32(sizes[4*d:])))
		if n < 0 {
			return p.bad(row, c, i, c.sizes, at(".sizes", int(d)), "%d", n)
		}
		hi, lo := bits.Mul64(count, uint64(n))
		over = over || hi != 0
		count = lo
		p.dims = append(p.dims, n)
	}
	shape := tensor.Shape(p.dims[start:len(p.dims):len(p.dims)])
	dimOrder, ok := tensor.Order(nil), true
	if !rowMajor(order) {
		if len(order) > cap(p.orders)-len(p.orders) && !more(p, &p.orders, len(order), left) {
			return nil, 0, p.spent(p.place(row, c.dimOrder), at(c.vector, i)+c.layout+".dim_order")
		}
		dimOrder = p.order(order)
		ok = dimOrder.Valid(len(order))
	}
	if !ok {
		return p.bad(row, c, i, c.dimOrder, ".dim_order", "%v is no permutation", order)
	}
	p.scalar = ScalarType(p.cursor.Uint8(row.At(c.scalar)))
	dtype := p.scalar.DType()
	n := int64(count)
	over = over || n < 0
	known := dtype != tensor.Unknown
	if known && !over {
		n, ok = dtype.Bytes(n)
	}
	switch {
	case over || !ok:
		return p.bad(row, c, i, c.sizes, ".sizes", "%v of %v is beyond 2^63 bytes", shape, dtype)
	case known && n > size:
		return p.bad(row, c, i, c.sizes, ".sizes", "%v of %v takes %d bytes, and there are %d", shape, dtype, n, size)
	case !known:
		n = size
		if !p.spend(sizeOf[untyped]()) {
			return nil, 0, p.spent(p.shift+int64(row.Pos), at(c.vector, i)+c.layout)
		}
		if p.silent() {
			break
		}
		if err := p.warn(p.place(row, c.scalar), at(c.vector, i)+c.layout+".scalar_type", "%d stands for no type", int8(p.scalar)); err != nil {
			return nil, 0, err
		}
	}
	if rank > runtimeRank && !p.silent() {
		if err := p.warn(p.place(row, c.sizes), at(c.vector, i)+c.layout+".sizes", "%d dimensions, the runtime makes no tensor of more than %d", rank, runtimeRank); err != nil {
			return nil, 0, err
		}
	}
	t := &p.r.tensors[p.tensors]
	t.DType, t.Shape, t.Order = dtype, shape, dimOrder
	return t, n, nil
}

// bad is what tensor answers for a layout that makes no sense.
func (p *parser) bad(row fb.Row, c *columns, i, id int, field, format string, args ...any) (*tensor.Tensor, int64, error) {
	lenient := p.opts.Lenient && !p.opts.Strict
	if lenient {
		t := &p.r.tensors[p.tensors]
		if t.Scheme = stray; p.silent() {
			return t, 0, nil
		}
	}
	err := malformed(p.place(row, id), at(c.vector, i)+c.layout+field, format, args...)
	if lenient {
		return &p.r.tensors[p.tensors], 0, p.tolerate(err)
	}
	return nil, 0, err
}

// more makes new room in s for the n things that one of the left entries needs, at best for all of them, or answers false because
// the budget is spent.
func more[T any](p *parser, s *[]T, n, left int) bool {
	room := p.some(int64(n), left, sizeOf[T]())
	if room == 0 {
		return false
	}
	*s = make([]T, 0, room)
	return true
}

// some answers how many things of size bytes to make room for when one entry needs each and left are to come, at best what all
// of them would, and spends that. It is 0 when the budget is not enough for one entry.
func (p *parser) some(each int64, left int, size int64) int64 {
	for {
		have := p.r.budget.Load()
		n := min(each*int64(left), max(have/2/size, each))
		if n*size > have {
			return 0
		}
		if p.r.budget.CompareAndSwap(have, have-n*size) {
			return n
		}
	}
}

// runtimeRank is ExecuTorch's kTensorDimensionLimit.
const runtimeRank = 16

// rowMajor tells whether a dim_order says what nil says too.
func rowMajor(o []byte) bool {
	for i, d := range o {
		if int(d) != i {
			return false
		}
	}
	return true
}

// order copies a dim_order.
func (p *parser) order(o []byte) tensor.Order {
	start := len(p.orders)
	for _, d := range o {
		p.orders = append(p.orders, int(d))
	}
	return p.orders[start:len(p.orders):len(p.orders)]
}
