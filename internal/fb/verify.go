package fb

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf8"

	flatbuffers "github.com/google/flatbuffers/go"
)

// Limits bound what [Verify] accepts. The zero value is safe and reads every valid file.
type Limits struct {
	// MaxTables bounds the visits of tables, a table that is referenced twice counting
	// twice. 0 means as many as the buffer could hold references to, and at most 16 Mi.
	MaxTables int
	// MaxDepth bounds how deep tables may be nested, the root counting as 1. 0 means
	// 64, which is also the max.
	MaxDepth int
	// UTF8 refuses strings that are not valid UTF-8, as the Rust verifier does and the
	// C++ one does not.
	UTF8 bool
	// Unions refuses unions that have a tag and no value, as the Rust verifier does and
	// the C++ one does not.
	Unions bool
}

const (
	minSize   = 12       // the root's offset, an empty table and its vtable, as in C++
	maxDepth  = 64       // tables from the root to a leaf, as in C++ and Rust
	maxTables = 16 << 20 // of a buffer with all of its references in use: 64 MiB
	// Sharing lets a small buffer show many bytes: a vector that a thousand tables refer
	// to is walked a thousand times. A valid buffer shows its bytes once, or a few times
	// where the builder pooled strings.
	maxSharing = 64
)

// An Error says where a buffer is not what its schema says.
type Error struct {
	Offset int64  // of the bytes that are wrong, from the start of the buffer
	Path   string // of the field that led there, such as named_data[3].key; empty for the root
	Reason string
	// Limit is set when the buffer may be well formed but asks for more work than a
	// file of its size should.
	Limit bool
}

func (e *Error) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("root table at byte %#x: %s", e.Offset, e.Reason)
	}
	return fmt.Sprintf("%s at byte %#x: %s", e.Path, e.Offset, e.Reason)
}

// Verify checks all that is reachable from the root table of buf, so that no accessor
// generated from the same schema can panic, loop, or read outside of buf. It reports
// nil or an [*Error] and allocates only in the second case.
//
// It refuses what the verifiers of C++ and Rust refuse in structure: offsets that are
// zero, go backwards or leave the buffer, vtables and fields outside of it or
// misaligned, vectors and strings that are longer than it, strings without their zero
// byte, required fields that are absent, tables nested deeper than 64. Beyond C++ it
// refuses vtables shorter than their own header, fields inside a table's header, union
// values whose tag is NONE, and the amplification that Limits describes. A union of a
// member that the schema does not know is accepted unseen, as any reader of the format
// must, and so is a field beyond the schema's last.
//
// It does not compare a field with the table size in the vtable: builders share vtables
// between tables of different size, and valid files fail that comparison. The caller
// checks the identifier.
func Verify(buf []byte, s *Schema, root int, l Limits) error {
	if err := sized(buf); err != nil {
		return err
	}
	v := newVerifier(buf, s, l)
	pos, err := v.offset(0)
	if err == nil {
		err = v.table(pos, root, 1)
	}
	return asError(err)
}

// A Summary counts what Verify visited.
type Summary struct {
	// Tables is the number of visits of tables, as the C++ verifier counts them.
	Tables int
	// Newer names the tables, by index in the schema, with a field beyond the last that
	// the schema knows, and where the first of each is.
	Newer []NewerTable
}

// A NewerTable is a table that was written with a newer schema.
type NewerTable struct {
	Table int
	Pos   int64
}

// VerifySummary is Verify, and returns what it visited.
func VerifySummary(buf []byte, s *Schema, root int, l Limits) (Summary, error) {
	if err := sized(buf); err != nil {
		return Summary{}, err
	}
	v := newVerifier(buf, s, l)
	search := newSearch(buf)
	v.search = &search
	budget := v.tables
	pos, err := v.offset(0)
	if err == nil {
		err = v.table(pos, root, 1)
	}
	return Summary{budget - v.tables, v.newer}, asError(err)
}

// noteNewer notes a table that has fields that the schema does not know.
func (v *verifier) noteNewer(pos uint64, t int) {
	table := flatbuffers.Table{Bytes: v.buf, Pos: flatbuffers.UOffsetT(pos)}
	v.search.newer(table, &v.s.Tables[t], func(int, string) {
		if !slices.ContainsFunc(v.newer, func(n NewerTable) bool { return n.Table == t }) {
			v.newer = append(v.newer, NewerTable{t, int64(pos)})
		}
	})
}

// VerifySpliced is Verify for a FlatBuffer in which an extended header stands between the
// first 8 bytes and the rest. buf begins 8 bytes before that rest, so that positions in
// it are positions in the FlatBuffer as it was built; what these 8 bytes hold is ignored,
// and nothing may be in them. pos is where the root table should be.
func VerifySpliced(buf []byte, pos uint32, s *Schema, root int, l Limits) error {
	if err := sized(buf); err != nil {
		return err
	}
	if pos < 8 || int64(pos) > int64(len(buf))-4 {
		return malformed(uint64(pos), "outside of the buffer")
	}
	v := newVerifier(buf, s, l)
	v.first = 8
	return asError(v.table(uint64(pos), root, 1))
}

func newVerifier(buf []byte, s *Schema, l Limits) *verifier {
	tables := l.MaxTables
	if tables <= 0 || tables > maxTables {
		tables = maxTables
	}
	depth := l.MaxDepth
	if depth <= 0 || depth > maxDepth {
		depth = maxDepth
	}
	return &verifier{
		buf: buf, s: s, depth: depth, utf8: l.UTF8, unions: l.Unions,
		tables: min(tables, len(buf)/4), bytes: maxSharing*uint64(len(buf)) + 1<<20,
	}
}

func sized(buf []byte) *Error {
	switch n := int64(len(buf)); {
	case n < minSize:
		return &Error{Reason: "too short for a table"}
	case n > 1<<31-1:
		return &Error{Reason: "longer than the 2 GiB that an offset can span", Limit: true}
	}
	return nil
}

// asError keeps a nil *Error from becoming an error that is not nil.
func asError(err *Error) error {
	if err != nil {
		return err
	}
	return nil
}

type verifier struct {
	buf    []byte
	s      *Schema
	first  uint64 // byte that a vtable may begin at
	tables int    // visits left
	depth  int    // max
	bytes  uint64 // of vectors and strings, left to be shown
	utf8   bool
	unions bool    // a tag needs a value
	search *search // nil where nobody asks for newer
	newer  []NewerTable
	shapes [128]shape // by table; two tables of a schema with more would take turns
}

func malformed(pos uint64, reason string) *Error {
	return &Error{Offset: int64(pos), Reason: reason}
}

func (v *verifier) u16(pos uint64) uint64 {
	return uint64(binary.LittleEndian.Uint16(v.buf[pos:]))
}

func (v *verifier) u32(pos uint64) uint64 {
	return uint64(binary.LittleEndian.Uint32(v.buf[pos:]))
}

// offset follows the unsigned offset at pos, of which the caller knows that it is
// inside the buffer and aligned.
func (v *verifier) offset(pos uint64) (uint64, *Error) {
	// pos+4 ≤ len < 2³¹: nothing overflows, and what goes backwards modulo 2³² is as
	// far outside as what goes forwards.
	o := v.u32(pos)
	if o-1 >= uint64(len(v.buf))-pos-4 {
		return 0, badOffset(pos, o)
	}
	return pos + o, nil
}

func badOffset(pos, o uint64) *Error {
	switch {
	case o == 0:
		return malformed(pos, "offset to itself")
	case o >= 1<<31:
		return malformed(pos, "offset goes backwards")
	}
	return malformed(pos, "offset leaves the buffer")
}

// A shape is what a vtable says about the tables that use it: builders share a vtable
// among thousands, so that what was checked for the last table of a type mostly holds
// for the next.
type shape struct {
	table  int    // + 1; 0 is none
	vtable uint64 // its position, which can be any number before it was checked
	mask   uint64 // of the bits of the table's position that its fields' alignment depends on,
	low    uint64 // and what they were
	end    uint64 // of the field that ends last, from the start of the table
	refs   uint64 // the fields that are there and hold an offset, one bit each
}

// enter checks the table of type t at pos, whose first four bytes are inside the
// buffer, as far as it goes itself: its vtable, and where its fields are.
func (v *verifier) enter(pos uint64, t int) (*shape, *Error) {
	if v.tables--; v.tables < 0 {
		return nil, &Error{Offset: int64(pos),
			Reason: "more tables than a buffer of this size may have", Limit: true}
	}
	if pos&3 != 0 {
		return nil, malformed(pos, "misaligned table")
	}
	// The vtable is before the table or, with some builders, after it: the offset is
	// signed and is subtracted. Modulo 2⁶⁴, which makes what is before the buffer very
	// large.
	vt := pos - uint64(int64(int32(v.u32(pos))))
	seen := &v.shapes[t&(len(v.shapes)-1)]
	if seen.table != t+1 || seen.vtable != vt || seen.low != pos&seen.mask ||
		seen.end > uint64(len(v.buf))-pos {
		if err := v.vtable(pos, vt, &v.s.Tables[t], seen); err != nil {
			return nil, err
		}
		seen.table = t + 1
		if v.search != nil {
			v.noteNewer(pos, t)
		}
	}
	return seen, nil
}

// table checks the table of type t at pos, whose first four bytes are inside the
// buffer, and all below it.
func (v *verifier) table(pos uint64, t int, depth int) *Error {
	if depth > v.depth {
		return &Error{Offset: int64(pos),
			Reason: "tables nested deeper than " + strconv.Itoa(v.depth), Limit: true}
	}
	seen, err := v.enter(pos, t)
	if err != nil {
		return err
	}
	vt := seen.vtable // the shape may be another's after the first child
	table := &v.s.Tables[t]
	for refs := seen.refs; refs != 0; refs &= refs - 1 {
		f := &table.Fields[bits.TrailingZeros64(refs)]
		off := pos + v.u16(vt+uint64(f.Slot))
		to, err := v.offset(off)
		if err == nil {
			switch f.Kind {
			case Child:
				err = v.table(to, int(f.Index), depth+1)
			case String:
				err = v.str(to)
			case Scalars:
				_, err = v.vector(to, uint64(f.Size))
			case Tables:
				err = v.vectorOfTables(to, int(f.Index), depth+1)
			case Strings:
				err = v.vectorOfStrings(to)
			case Union:
				// The tag's slot comes before.
				var tag int
				if o := v.u16(vt + uint64(f.TagSlot())); o != 0 {
					tag = int(v.buf[pos+o])
				}
				if tag == 0 {
					err = malformed(off, "union value without a type")
				} else if members := v.s.Unions[f.Index].Members; tag < len(members) {
					err = v.table(to, int(members[tag]), depth+1)
				}
			}
		}
		if err != nil {
			return inField(err, f)
		}
	}
	return nil
}

// vtable checks the vtable at vt for the table at pos, and all fields as far as they
// are in the table itself.
func (v *verifier) vtable(pos, vt uint64, table *Table, out *shape) *Error {
	n := uint64(len(v.buf))
	*out = shape{}
	if vt > n-4 || vt < v.first {
		return malformed(pos, "vtable outside of the buffer")
	}
	if vt&1 != 0 {
		return malformed(pos, "misaligned vtable")
	}
	size := v.u16(vt)
	if size < 4 || size&1 != 0 || size > n-vt || size == n {
		return malformed(vt, "bad vtable size")
	}
	s := shape{vtable: vt}
	for i := range table.Fields {
		f := &table.Fields[i]
		var off uint64
		if uint64(f.Slot) < size {
			off = v.u16(vt + uint64(f.Slot))
		}
		if off == 0 {
			if f.Required {
				return inField(malformed(pos, "required field is absent"), f)
			}
			if f.Kind == Union && v.unions && uint64(f.Slot) <= size &&
				v.u16(vt+uint64(f.TagSlot())) != 0 {
				return inField(malformed(pos, "union type without a value"), f)
			}
			continue
		}
		if off < 4 {
			return inField(malformed(vt+uint64(f.Slot), "field inside the header of its table"), f)
		}
		width := uint64(4)
		if f.Kind == Scalar {
			width = uint64(f.Size)
		} else {
			s.refs |= 1 << i
		}
		if (pos+off)&(width-1) != 0 {
			return inField(malformed(pos+off, "misaligned field"), f)
		}
		if off > n-pos || width > n-pos-off {
			return inField(malformed(vt+uint64(f.Slot), "field outside of the buffer"), f)
		}
		s.end, s.mask = max(s.end, off+width), s.mask|(width-1)
	}
	s.low = pos & s.mask
	*out = s
	return nil
}

// vector checks a vector of elements of size bytes, and returns its length.
func (v *verifier) vector(pos, size uint64) (uint64, *Error) {
	count := v.u32(pos)
	bytes := count * size // below 2³⁵
	if pos&3 != 0 || bytes > uint64(len(v.buf))-pos-4 || bytes > v.bytes {
		return 0, v.badVector(pos, bytes)
	}
	v.bytes -= bytes
	return count, nil
}

func (v *verifier) badVector(pos, bytes uint64) *Error {
	switch {
	case pos&3 != 0:
		return malformed(pos, "misaligned vector")
	case bytes > uint64(len(v.buf))-pos-4:
		return malformed(pos, "vector longer than the buffer")
	}
	return &Error{Offset: int64(pos), Reason: "the same bytes are shared too often", Limit: true}
}

func (v *verifier) str(pos uint64) *Error {
	count, err := v.vector(pos, 1)
	if err != nil {
		return err
	}
	end := pos + 4 + count
	if end >= uint64(len(v.buf)) || v.buf[end] != 0 {
		return malformed(pos, "string without its terminating zero")
	}
	if v.utf8 && !utf8.Valid(v.buf[pos+4:end]) {
		return malformed(pos, "string is not valid UTF-8")
	}
	return nil
}

func (v *verifier) vectorOfTables(pos uint64, t int, depth int) *Error {
	count, err := v.vector(pos, 4)
	if err != nil {
		return err
	}
	for i := range count {
		to, err := v.offset(pos + 4 + 4*i)
		if err == nil {
			err = v.table(to, t, depth)
		}
		if err != nil {
			return inElement(err, i)
		}
	}
	return nil
}

func (v *verifier) vectorOfStrings(pos uint64) *Error {
	count, err := v.vector(pos, 4)
	if err != nil {
		return err
	}
	for i := range count {
		to, err := v.offset(pos + 4 + 4*i)
		if err == nil {
			err = v.str(to)
		}
		if err != nil {
			return inElement(err, i)
		}
	}
	return nil
}

// The path of an error grows on the way back from where it was found, so that a good
// buffer pays nothing for it.

func inField(e *Error, f *Field) *Error {
	switch {
	case e.Path == "":
		e.Path = f.Name
	case e.Path[0] == '[':
		e.Path = f.Name + e.Path
	default:
		e.Path = f.Name + "." + e.Path
	}
	return e
}

func inElement(e *Error, i uint64) *Error {
	index := "[" + strconv.FormatUint(i, 10) + "]"
	if e.Path != "" {
		index += "."
	}
	e.Path = index + e.Path
	return e
}
