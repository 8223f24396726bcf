// Package fbtest tests the verifier of internal/fb: random buffers of any schema,
// mutants of buffers, and a walk through every generated accessor, which must not panic
// on a buffer that the verifier accepted.
package fbtest

import (
	"math/rand/v2"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/ptdfb"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/schema/ptnfb"
	"github.com/tensorfile/tensorfile/schema/rtenfb"
)

// A Root is a root table of one of our formats.
type Root struct {
	Name       string // as in C++: namespace::Table
	Identifier string
	Schema     *fb.Schema
	Table      int
	walk       func(*Walk, []byte, flatbuffers.UOffsetT)
}

// Roots returns the root tables of all formats, in the order that interop/fb/oracle.cpp
// numbers them.
func Roots() []Root {
	return []Root{
		{"ptdfb::FlatTensor", "FT01", &ptdfb.Schema, ptdfb.TableFlatTensor,
			func(w *Walk, b []byte, pos flatbuffers.UOffsetT) {
				var x ptdfb.FlatTensor
				x.Init(b, pos)
				w.ptdfbFlatTensor(&x)
			}},
		{"ptdfb::LegacyFlatTensor", "FT01", &ptdfb.Schema, ptdfb.TableLegacyFlatTensor,
			func(w *Walk, b []byte, pos flatbuffers.UOffsetT) {
				var x ptdfb.LegacyFlatTensor
				x.Init(b, pos)
				w.ptdfbLegacyFlatTensor(&x)
			}},
		{"ptefb::Program", "ET12", &ptefb.Schema, ptefb.TableProgram,
			func(w *Walk, b []byte, pos flatbuffers.UOffsetT) {
				var x ptefb.Program
				x.Init(b, pos)
				w.ptefbProgram(&x)
			}},
		{"ptefb::BundledProgram", "BP08", &ptefb.Schema, ptefb.TableBundledProgram,
			func(w *Walk, b []byte, pos flatbuffers.UOffsetT) {
				var x ptefb.BundledProgram
				x.Init(b, pos)
				w.ptefbBundledProgram(&x)
			}},
		{"rtenfb::Model", "RTEN", &rtenfb.Schema, rtenfb.TableModel,
			func(w *Walk, b []byte, pos flatbuffers.UOffsetT) {
				var x rtenfb.Model
				x.Init(b, pos)
				w.rtenfbModel(&x)
			}},
		{"ptnfb::Program", "NPTG", &ptnfb.Schema, ptnfb.TableProgram,
			func(w *Walk, b []byte, pos flatbuffers.UOffsetT) {
				var x ptnfb.Program
				x.Init(b, pos)
				w.ptnfbProgram(&x)
			}},
	}
}

// Walk counts what a walk touched.
type Walk struct {
	Steps int
	sum   byte
}

func (w *Walk) n(n int) int {
	w.Steps += n
	return n
}

func (w *Walk) bytes(p []byte) {
	w.Steps += len(p)
	for _, c := range p {
		w.sum += c
	}
}

// Walk calls every accessor of every table that is reachable from the root of buf and
// returns how many elements and bytes it saw. A read outside of buf panics, also where
// buf has capacity beyond its length.
func (r Root) Walk(buf []byte) int {
	buf = buf[:len(buf):len(buf)]
	var w Walk
	r.walk(&w, buf, flatbuffers.GetUOffsetT(buf))
	return w.Steps
}

// Random returns a buffer of the root's schema with about size tables: fields and union
// members at random, leaves and strings now and then shared.
func (r Root) Random(rng *rand.Rand, size int) []byte {
	g := generator{s: r.Schema, rng: rng, left: size, made: map[int][]fb.Offset{}}
	root := g.table(r.Table, 0)
	buf, err := g.b.Finish(root, r.Identifier)
	if err != nil {
		panic(err)
	}
	return buf
}

type generator struct {
	b       fb.Builder
	s       *fb.Schema
	rng     *rand.Rand
	left    int // tables
	made    map[int][]fb.Offset
	strings []fb.Offset
}

func (g *generator) chance(n int) bool { return g.rng.IntN(n) == 0 }

func (g *generator) str() fb.Offset {
	if len(g.strings) > 0 && g.chance(4) {
		return g.strings[g.rng.IntN(len(g.strings))]
	}
	p := make([]byte, g.rng.IntN(12))
	for i := range p {
		p[i] = byte('a' + g.rng.IntN(26))
	}
	o := g.b.String(string(p))
	g.strings = append(g.strings, o)
	return o
}

// child shares leaves only: sharing at several levels is the amplification that the
// verifier refuses.
func (g *generator) child(t, depth int) fb.Offset {
	if old := g.made[t]; len(old) > 0 && g.chance(8) && g.leaf(t) {
		return old[g.rng.IntN(len(old))]
	}
	return g.table(t, depth)
}

func (g *generator) leaf(t int) bool {
	for _, f := range g.s.Tables[t].Fields {
		if f.Kind == fb.Child || f.Kind == fb.Tables || f.Kind == fb.Union {
			return false
		}
	}
	return true
}

// table writes children first, then the fields in the order of their sizes as builders
// like to, or of their slots.
func (g *generator) table(t, depth int) fb.Offset {
	g.left--
	fields := g.s.Tables[t].Fields
	refs := make([]fb.Offset, len(fields))
	tags := make([]uint64, len(fields))
	for i, f := range fields {
		deep := g.left <= 0 || depth > 24
		if !f.Required && (g.chance(5) || deep && f.Kind >= fb.Child &&
			f.Kind != fb.Scalars && f.Kind != fb.Strings) {
			continue
		}
		switch f.Kind {
		case fb.String:
			refs[i] = g.str()
		case fb.Child:
			refs[i] = g.child(int(f.Index), depth+1)
		case fb.Scalars:
			data := make([]byte, g.rng.IntN(6)*int(f.Size))
			for i := range data {
				data[i] = byte(g.rng.Uint32())
			}
			refs[i] = g.b.Scalars(data, int(f.Size), 1<<g.rng.IntN(5))
		case fb.Strings:
			v := make([]fb.Offset, g.rng.IntN(6))
			for i := range v {
				v[i] = g.str()
			}
			refs[i] = g.b.Offsets(v)
		case fb.Tables:
			n := g.rng.IntN(5)
			if depth < 4 { // near the root, in proportion to what is wanted
				n = g.rng.IntN(5 + max(g.left, 0)/8)
			}
			v := make([]fb.Offset, 0, n)
			for range n {
				if g.left > 0 || g.chance(4) {
					v = append(v, g.child(int(f.Index), depth+1))
				}
			}
			refs[i] = g.b.Offsets(v)
		case fb.Union:
			members := g.s.Unions[f.Index].Members
			tag := 1 + g.rng.IntN(len(members)-1)
			refs[i], tags[i-1] = g.child(int(members[tag]), depth+1), uint64(tag)
		}
	}
	g.b.Begin()
	for _, i := range g.rng.Perm(len(fields)) {
		f := fields[i]
		switch {
		case f.Type == fb.Tag && f.Kind == fb.Scalar:
			g.b.Scalar(int(f.Slot), 1, tags[i], 0)
		case f.Kind == fb.Scalar:
			if !g.chance(3) {
				g.b.Scalar(int(f.Slot), int(f.Size), uint64(g.rng.IntN(9)), 0)
			}
		default:
			g.b.Ref(int(f.Slot), refs[i])
		}
	}
	o := g.b.End()
	g.made[t] = append(g.made[t], o)
	return o
}

// Mutate changes buf in one to four places, the way that finds bugs: bits, bytes, small
// and large numbers in aligned words, words copied from elsewhere, a shorter buffer. It
// returns buf or a prefix of it.
func Mutate(rng *rand.Rand, buf []byte) []byte {
	for range 1 + rng.IntN(4) {
		i := rng.IntN(len(buf))
		switch k := rng.IntN(20); {
		case k < 5:
			buf[i] ^= 1 << rng.IntN(8)
		case k < 8:
			buf[i] = byte(rng.Uint32())
		case k < 10:
			buf[i] = [...]byte{0, 1, 2, 4, 0x7f, 0x80, 0xff}[rng.IntN(7)]
		case k < 12 && i+2 <= len(buf):
			i &^= 1
			x := [...]uint16{0, 1, 2, 3, 4, 5, 6, 8, 0x7fff, 0x8000, 0xffff,
				uint16(len(buf))}[rng.IntN(12)]
			buf[i], buf[i+1] = byte(x), byte(x>>8)
		case k < 16 && len(buf) >= 8:
			i = min(i&^3, len(buf)-4)
			x := uint32(rng.IntN(2 * len(buf)))
			switch rng.IntN(4) {
			case 0:
				x = -x // an offset back into the buffer, modulo 2³²
			case 1:
				x = [...]uint32{0, 1, 4, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1<<32 - 4,
					uint32(len(buf) - i), uint32(len(buf) - i - 1),
					uint32(len(buf) - i - 4)}[rng.IntN(10)]
			}
			flatbuffers.WriteUint32(buf[i:], x)
		case k < 19 && len(buf) >= 8:
			i, j := min(i&^3, len(buf)-4), rng.IntN(len(buf)/4)*4
			copy(buf[i:i+4], buf[j:])
		case k == 19 && len(buf) >= 16 && rng.IntN(2) == 0: // two words change places
			i, j := rng.IntN(len(buf)/4)*4, rng.IntN(len(buf)/4)*4
			x, y := flatbuffers.GetUint32(buf[i:]), flatbuffers.GetUint32(buf[j:])
			flatbuffers.WriteUint32(buf[i:], y)
			flatbuffers.WriteUint32(buf[j:], x)
		default:
			if rng.IntN(3) == 0 {
				buf = buf[:max(1, len(buf)-rng.IntN(16))]
			}
		}
	}
	return buf
}

// Redirect gives a table of buf, in place, the vtable of another one. A number that looks
// like a table may be something else.
func Redirect(rng *rand.Rand, buf []byte) []byte {
	find := func() (table, vtable int) {
		for range 200 {
			pos := rng.IntN(len(buf)/4) * 4
			vt := pos - int(flatbuffers.GetInt32(buf[pos:]))
			if vt < 4 || vt&1 != 0 || vt > len(buf)-4 {
				continue
			}
			if n := int(flatbuffers.GetUint16(buf[vt:])); n >= 4 && n <= 64 && n&1 == 0 &&
				n <= len(buf)-vt {
				return pos, vt
			}
		}
		return 0, 0
	}
	if table, _ := find(); table != 0 {
		if _, vtable := find(); vtable != 0 {
			flatbuffers.WriteInt32(buf[table:], int32(table-vtable))
		}
	}
	return buf
}

// Splice puts words of from over some of buf, in place: at the position that they have
// there, or at another.
func Splice(rng *rand.Rand, buf, from []byte) []byte {
	n := 4 * (1 + rng.IntN(1+min(len(buf), len(from))/8))
	if n > min(len(buf), len(from)) {
		return buf
	}
	i := rng.IntN((len(from)-n)/4+1) * 4
	j := i
	if j > len(buf)-n || rng.IntN(2) == 0 {
		j = rng.IntN((len(buf)-n)/4+1) * 4
	}
	copy(buf[j:], from[i:i+n])
	return buf
}
