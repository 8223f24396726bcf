package fb

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Limits bound what [Verify] accepts. The zero value is safe and reads every genuine file.
type Limits struct {
	// MaxTables bounds the visits of tables, a table that is referenced twice counting twice. 0 means as many as the
	// buffer could hold references to, and at most 16 Mi.
	MaxTables int
	// UTF8 refuses strings that are not valid UTF-8, as the Rust verifier does and the C++ one does not.
	UTF8 bool
	// Unions refuses unions that have a tag and no value, as the Rust verifier does and the C++ one does not.
	Unions bool
}

const (
	minSize   = 12       // the root's offset, an empty table and its vtable, as in C++
	maxDepth  = 64       // tables from the root to a leaf, as in C++ and Rust
	maxTables = 16 << 20 // of a buffer with all of its references in use: 64 MiB
	// Sharing lets a small buffer show many bytes: a vector that a thousand tables refer to is walked a thousand times.
	// A genuine buffer shows its bytes once, or a few times where the builder pooled strings.
	maxSharing = 64
)

// An Error says where a buffer is not what its schema says.
type Error struct {
	Offset int64  // of the bytes that are wrong, from the start of the buffer
	Path   string // of the field that led there, such as named_data[3].key; empty for the root
	Reason string
	// Limit is set when the buffer may be well formed but asks for more work than a file of its size should.
	Limit bool
}

func (e *Error) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("root table at byte %#x: %s", e.Offset, e.Reason)
	}
	return fmt.Sprintf("%s at byte %#x: %s", e.Path, e.Offset, e.Reason)
}

// Verify checks all that is reachable from the root table of buf, so that no accessor generated from the same schema can
// panic, loop, or read outside of buf. It reports nil or an [*Error] and allocates only in the second case.
//
// It refuses what the verifiers of C++ and Rust refuse in structure: offsets that are zero, go backwards or leave the
// buffer, vtables and fields outside of it or misaligned, vectors and strings that are longer than it, strings without
// their zero byte, required fields that are absent, tables nested deeper than 64. Beyond C++ it refuses vtables shorter
// than their own header, fields inside a table's header, union values whose tag is NONE, and the amplification that
// Limits describes. A union of a member that the schema does not know is accepted unseen, as any reader of the format
// must, and so is a field beyond the schema's last.
//
// It does not compare a field with the table size in the vtable: builders share vtables between tables of different
// size, and genuine files fail that comparison. The identifier is the caller's business.
func Verify(buf []byte, s *Schema, root int, l Limits) error {
	n := uint64(len(buf))
	if n < minSize {
		return &Error{Reason: "no room for a table"}
	}
	if n > 1<<31-1 {
		return &Error{Reason: "longer than the 2 GiB that an offset can span", Limit: true}
	}
	v := verifier{buf: buf, s: s, utf8: l.UTF8, unions: l.Unions}
	v.tables = l.MaxTables
	if v.tables <= 0 || v.tables > maxTables {
		v.tables = maxTables
	}
	v.tables = min(v.tables, len(buf)/4)
	v.bytes = maxSharing*n + 1<<20
	pos, err := v.offset(0)
	if err == nil {
		err = v.table(pos, root, 1)
	}
	if err != nil { // not "return err": a nil *Error is not a nil error
		return err
	}
	return nil
}

type verifier struct {
	buf    []byte
	s      *Schema
	tables int    // visits left
	bytes  uint64 // of vectors and strings, left to be shown
	utf8   bool
	unions bool // a tag needs a value
}

func malformed(pos uint64, reason string) *Error {
	return &Error{Offset: int64(pos), Reason: reason}
}

func (v *verifier) u16(pos uint64) uint64 { return uint64(binary.LittleEndian.Uint16(v.buf[pos:])) }
func (v *verifier) u32(pos uint64) uint64 { return uint64(binary.LittleEndian.Uint32(v.buf[pos:])) }

// offset follows the unsigned offset at pos, of which the caller knows that it is inside the buffer.
func (v *verifier) offset(pos uint64) (uint64, *Error) {
	n := uint64(len(v.buf))
	if pos&3 != 0 {
		return 0, malformed(pos, "misaligned offset")
	}
	o := v.u32(pos)
	if o == 0 {
		return 0, malformed(pos, "offset to itself")
	}
	if o >= 1<<31 {
		return 0, malformed(pos, "offset goes backwards")
	}
	// pos+4 ≤ n < 2³¹, so nothing overflows.
	if o > n-pos-4 {
		return 0, malformed(pos, "offset leaves the buffer")
	}
	return pos + o, nil
}

// table checks the table of type t at pos, whose first four bytes are inside the buffer, and all below it.
func (v *verifier) table(pos uint64, t int, depth int) *Error {
	n := uint64(len(v.buf))
	if depth > maxDepth {
		return &Error{Offset: int64(pos), Reason: "tables nested deeper than 64", Limit: true}
	}
	if v.tables--; v.tables < 0 {
		return &Error{Offset: int64(pos), Reason: "more tables than a buffer of this size may have", Limit: true}
	}
	if pos&3 != 0 {
		return malformed(pos, "misaligned table")
	}
	// The vtable lies before the table or, with some builders, behind: the offset is signed and is subtracted. Modulo
	// 2⁶⁴, which makes what lies before the buffer very large.
	vt := pos - uint64(int64(int32(v.u32(pos))))
	if vt > n-4 {
		return malformed(pos, "vtable outside of the buffer")
	}
	if vt&1 != 0 {
		return malformed(pos, "misaligned vtable")
	}
	size := v.u16(vt)
	if size < 4 || size&1 != 0 || size > n-vt || size == n {
		return malformed(vt, "bad vtable size")
	}
	vtable := v.buf[vt : vt+size]
	table := &v.s.Tables[t]
	for i := range table.Fields {
		f := &table.Fields[i]
		var off uint64
		if int(f.Slot) < len(vtable) {
			off = uint64(binary.LittleEndian.Uint16(vtable[f.Slot:]))
		}
		if off == 0 {
			if f.Required {
				return inField(malformed(pos, "required field is absent"), f)
			}
			if f.Kind == Union && v.unions && int(f.Slot-2) < len(vtable) && binary.LittleEndian.Uint16(vtable[f.Slot-2:]) != 0 {
				return inField(malformed(pos, "union type without a value"), f)
			}
			continue
		}
		if off < 4 {
			return inField(malformed(vt+uint64(f.Slot), "field inside the header of its table"), f)
		}
		off += pos
		if f.Kind == Scalar {
			if off&uint64(f.Size-1) != 0 {
				return inField(malformed(off, "misaligned field"), f)
			}
			if off >= n || uint64(f.Size) > n-off {
				return inField(malformed(vt+uint64(f.Slot), "field outside of the buffer"), f)
			}
			continue
		}
		if off > n-4 {
			return inField(malformed(vt+uint64(f.Slot), "field outside of the buffer"), f)
		}
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
			case Union:
				// The tag's slot comes before and was checked before.
				var tag int
				if o := uint64(binary.LittleEndian.Uint16(vtable[f.Slot-2:])); o != 0 {
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

// vector checks a vector of elements of size bytes, and answers its length.
func (v *verifier) vector(pos, size uint64) (uint64, *Error) {
	if pos&3 != 0 {
		return 0, malformed(pos, "misaligned vector")
	}
	count := v.u32(pos)
	if count > (uint64(len(v.buf))-pos-4)/size {
		return 0, malformed(pos, "vector longer than the buffer")
	}
	if count*size > v.bytes {
		return 0, &Error{Offset: int64(pos), Reason: "the same bytes are shared too often", Limit: true}
	}
	v.bytes -= count * size
	return count, nil
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

// The path of an error grows on the way back from where it was found, so that a good buffer pays nothing for it.

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
