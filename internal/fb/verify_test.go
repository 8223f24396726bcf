package fb_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/readtest"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/fb/fbtest"
	"github.com/tensorfile/tensorfile/schema/ptdfb"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/schema/ptnfb"
	"github.com/tensorfile/tensorfile/schema/rtenfb"
)

func TestRandomBuffersAreAccepted(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, r := range fbtest.Roots() {
		for i := range readtest.Entries(400) {
			buf := r.Random(rng, 1+i)
			if err := verify(buf, r); err != nil {
				t.Fatalf("%s: %v", r.Name, err)
			}
			if err := fb.Verify(buf, r.Schema, r.Table, fb.Limits{UTF8: true}); err != nil {
				t.Fatalf("%s: %v", r.Name, err)
			}
			walkAccepted(t, buf, r, func() string { return "unchanged" })
		}
	}
}

func TestEveryBitAndByteOfSmallBuffersIsVerified(t *testing.T) {
	for _, r := range fbtest.Roots() {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(3, 4))
			seeds := goldens(t, r)
			for _, size := range []int{1, 5, 20} {
				seeds[fmt.Sprintf("random of size %d", size)] = r.Random(rng, size)
			}
			mutants, accepted := 0, 0
			for name, seed := range seeds {
				buf := append([]byte(nil), seed...)
				try := func(i int, c byte) {
					buf[i] = c
					mutants++
					if walkAccepted(t, buf, r,
						func() string { return fmt.Sprintf("%s, byte %#x = %#x", name, i, c) }) {
						accepted++
					}
					buf[i] = seed[i]
				}
				step := 1
				if len(buf) > 4<<10 { // sampled, the more the shorter a walk is
					step = 1 + len(buf)/max(16, 256*4<<10/len(buf))
				}
				step *= readtest.Stride()
				for i := 0; i < len(buf); i += step {
					for bit := range 8 {
						try(i, seed[i]^1<<bit)
					}
					try(i, 0)
					try(i, 0xff)
				}
				for n := 0; n < len(buf); n += step {
					walkAccepted(t, buf[:n], r,
						func() string { return fmt.Sprintf("%s, cut to %d bytes", name, n) })
				}
			}
			t.Logf("%d seeds, %d mutants, %d accepted and walked", len(seeds), mutants, accepted)
		})
	}
}

func TestVerifyAllocatesNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, r := range fbtest.Roots() {
		buf := r.Random(rng, 300)
		readtest.AllocatesNothing(t, func() {
			if err := verify(buf, r); err != nil {
				t.Fatalf("%s: %v", r.Name, err)
			}
		})
	}
}

// flatTensor is a FlatTensor with one entry and one segment.
func flatTensor(t testing.TB) []byte {
	var b fb.Builder
	b.Begin()
	b.Scalar(6, 8, 16, 0)
	segments := b.Offsets([]fb.Offset{b.End()})
	key := b.String("w")
	sizes := b.Scalars([]byte{2, 0, 0, 0, 2, 0, 0, 0}, 4, 0)
	order := b.Scalars([]byte{0, 1}, 1, 0)
	b.Begin()
	b.Ref(8, order)
	b.Ref(6, sizes)
	b.Scalar(4, 1, uint64(ptdfb.ScalarTypeFLOAT), 0)
	layout := b.End()
	b.Begin()
	b.Ref(8, layout)
	b.Ref(4, key)
	named := b.Offsets([]fb.Offset{b.End()})
	b.Begin()
	b.Ref(8, named)
	b.Ref(6, segments)
	buf, err := b.Finish(b.End(), "FT01")
	if err != nil {
		t.Fatal(err)
	}
	return buf
}

// at returns where a field's value or offset is, following a path such as
// "named_data.0.key".
func at(t testing.TB, buf []byte, s *fb.Schema, root int, path string) int {
	t.Helper()
	pos, table, off := int(binary.LittleEndian.Uint32(buf)), root, 0
	parts := strings.Split(path, ".")
	for i := 0; i < len(parts); i++ {
		for _, f := range s.Tables[table].Fields {
			if f.Name != parts[i] {
				continue
			}
			tab := flatbuffers.Table{Bytes: buf, Pos: flatbuffers.UOffsetT(pos)}
			at := tab.Offset(flatbuffers.VOffsetT(f.Slot))
			if at == 0 {
				t.Fatalf("%s is absent", path)
			}
			off = pos + int(at)
			if f.Kind == fb.Tables && i+1 < len(parts) {
				i++
				var n int
				fmt.Sscan(parts[i], &n)
				off += int(binary.LittleEndian.Uint32(buf[off:])) + 4 + 4*n
			}
			if f.Kind == fb.Child || f.Kind == fb.Tables {
				table = int(f.Index)
				if i+1 < len(parts) {
					pos = off + int(binary.LittleEndian.Uint32(buf[off:]))
				}
			}
		}
	}
	return off
}

func TestRefusalsNameOffsetAndPath(t *testing.T) {
	put32 := binary.LittleEndian.PutUint32
	field := func(path string) int {
		return at(t, flatTensor(t), &ptdfb.Schema, ptdfb.TableFlatTensor, path)
	}
	root := int(binary.LittleEndian.Uint32(flatTensor(t)))
	vtable := root - int(int32(binary.LittleEndian.Uint32(flatTensor(t)[root:])))
	key := field("named_data.0.key")
	str := key + int(binary.LittleEndian.Uint32(flatTensor(t)[key:]))
	layout := field("named_data.0.tensor_layout")
	layoutTable := layout + int(binary.LittleEndian.Uint32(flatTensor(t)[layout:]))
	layoutVtable := layoutTable - int(
		int32(binary.LittleEndian.Uint32(flatTensor(t)[layoutTable:])))
	sizes := field("named_data.0.tensor_layout.sizes")
	element := field("named_data.0") // of the vector
	for _, c := range []struct {
		name   string
		change func(b []byte) []byte
		offset int
		path   string
		reason string
	}{
		{"an empty buffer", func(b []byte) []byte { return nil }, 0, "", "too short for a table"},
		{"a buffer of eleven bytes", func(b []byte) []byte { return b[:11] }, 0, "",
			"too short for a table"},
		{"a root offset of zero", func(b []byte) []byte { put32(b, 0); return b }, 0, "",
			"offset to itself"},
		{"a root outside", func(b []byte) []byte { put32(b, uint32(len(b))); return b }, 0, "",
			"offset leaves the buffer"},
		{"a root in the last three bytes",
			func(b []byte) []byte { put32(b, uint32(len(b)-3)); return b }, 0, "",
			"offset leaves the buffer"},
		{"a misaligned root", func(b []byte) []byte { put32(b, uint32(root+2)); return b },
			root + 2, "", "misaligned table"},
		{"a vtable before the buffer",
			func(b []byte) []byte { put32(b[root:], uint32(root+2)); return b }, root, "",
			"vtable outside of the buffer"},
		{"a vtable behind the buffer",
			func(b []byte) []byte { put32(b[root:], -uint32(len(b)-root)); return b }, root, "",
			"vtable outside of the buffer"},
		{"a vtable at an odd byte",
			func(b []byte) []byte { put32(b[root:], uint32(root-vtable+1)); return b }, root, "",
			"misaligned vtable"},
		{"a vtable of size 0", func(b []byte) []byte { b[vtable] = 0; return b }, vtable, "",
			"bad vtable size"},
		{"a vtable of size 2", func(b []byte) []byte { b[vtable] = 2; return b }, vtable, "",
			"bad vtable size"},
		{"a vtable of odd size", func(b []byte) []byte { b[vtable] = 9; return b }, vtable, "",
			"bad vtable size"},
		{"a vtable longer than the buffer", func(b []byte) []byte { b[vtable+1] = 0xff; return b },
			vtable, "", "bad vtable size"},
		{"a field in its table's header", func(b []byte) []byte { b[vtable+8] = 2; return b },
			vtable + 8, "named_data", "field inside the header of its table"},
		{"a field outside", func(b []byte) []byte { b[vtable+9] = 0xff; return b }, vtable + 8,
			"named_data", "field outside of the buffer"},
		{"a scalar outside", func(b []byte) []byte { b[layoutVtable+5] = 0xff; return b },
			layoutVtable + 4, "named_data[0].tensor_layout.scalar_type",
			"field outside of the buffer"},
		{"an offset that wraps backwards",
			func(b []byte) []byte { put32(b[layout:], uint32(root-layout)); return b }, layout,
			"named_data[0].tensor_layout", "offset goes backwards"},
		{"an offset outside",
			func(b []byte) []byte { put32(b[layout:], uint32(len(b))); return b }, layout,
			"named_data[0].tensor_layout", "offset leaves the buffer"},
		{"an element that is itself", func(b []byte) []byte { put32(b[element:], 0); return b },
			element, "named_data[0]", "offset to itself"},
		{"a vector longer than the buffer",
			func(b []byte) []byte {
				b[sizes+int(binary.LittleEndian.Uint32(b[sizes:]))+
					3] = 0x40
				return b
			}, sizes + int(binary.LittleEndian.Uint32(flatTensor(t)[sizes:])),
			"named_data[0].tensor_layout.sizes", "vector longer than the buffer"},
		{"a misaligned vector", func(b []byte) []byte { b[sizes]++; return b },
			sizes + int(binary.LittleEndian.Uint32(flatTensor(t)[sizes:])) + 1,
			"named_data[0].tensor_layout.sizes", "misaligned vector"},
		{"a string without its zero byte", func(b []byte) []byte { b[str+5] = 'x'; return b }, str,
			"named_data[0].key", "string without its terminating zero"},
		{"a string that ends with the buffer",
			func(b []byte) []byte { put32(b[str:], uint32(len(b)-str-4)); return b }, str,
			"named_data[0].key", "string without its terminating zero"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := c.change(flatTensor(t))
			err := fb.Verify(b, &ptdfb.Schema, ptdfb.TableFlatTensor, fb.Limits{})
			var e *fb.Error
			if !errors.As(err, &e) {
				t.Fatalf("accepted")
			}
			if e.Offset != int64(c.offset) || e.Path != c.path || e.Reason != c.reason || e.Limit {
				t.Errorf("got %+v, want %+v", *e,
					fb.Error{Offset: int64(c.offset), Path: c.path, Reason: c.reason})
			}
		})
	}
}

func TestUnionsStringsAndRequiredFieldsAreVerified(t *testing.T) {
	build := func(f func(b *fb.Builder) fb.Offset) []byte {
		var b fb.Builder
		buf, err := b.Finish(f(&b), "")
		if err != nil {
			t.Fatal(err)
		}
		return buf
	}
	empty := func(b *fb.Builder) fb.Offset { b.Begin(); return b.End() }
	value := func(tag uint64) []byte { // Program{[ExecutionPlan{[EValue{tag, a table}]}]}
		return build(func(b *fb.Builder) fb.Offset {
			v := empty(b)
			b.Begin()
			b.Ref(6, v)
			b.Scalar(4, 1, tag, 0)
			values := b.Offsets([]fb.Offset{b.End()})
			b.Begin()
			b.Ref(8, values)
			plans := b.Offsets([]fb.Offset{b.End()})
			b.Begin()
			b.Ref(6, plans)
			return b.End()
		})
	}
	accepted := func(name string, buf []byte, s *fb.Schema, root int, l fb.Limits) {
		t.Helper()
		if err := fb.Verify(buf, s, root, l); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	refused := func(name string, buf []byte, s *fb.Schema, root int, l fb.Limits, path string) {
		t.Helper()
		var e *fb.Error
		if !errors.As(fb.Verify(buf, s, root, l), &e) || e.Path != path || e.Limit {
			t.Errorf("%s: got %+v, want an error at %q", name, e, path)
		}
	}
	refused("a union value of type NONE", value(0), &ptefb.Schema, ptefb.TableProgram, fb.Limits{},
		"execution_plan[0].values[0].val")
	accepted("a union member of the schema", value(2), &ptefb.Schema, ptefb.TableProgram,
		fb.Limits{})
	accepted("a union member of a newer schema", value(200), &ptefb.Schema, ptefb.TableProgram,
		fb.Limits{})
	refused("a required field that is absent", build(empty), &rtenfb.Schema, rtenfb.TableModel,
		fb.Limits{}, "graph")
	metadata := build(func(b *fb.Builder) fb.Offset {
		s := b.String("\xff")
		b.Begin()
		b.Ref(6, s)
		return b.End()
	})
	accepted("a string that is not UTF-8, as in C++", metadata, &rtenfb.Schema,
		rtenfb.TableMetadata, fb.Limits{})
	refused("a string that is not UTF-8, as in Rust", metadata, &rtenfb.Schema,
		rtenfb.TableMetadata, fb.Limits{UTF8: true}, "description")
	tag := build(func(b *fb.Builder) fb.Offset {
		b.Begin()
		b.Scalar(6, 1, 2, 0)
		return b.End()
	})
	accepted("a union tag without a value, as in C++", tag, &rtenfb.Schema, rtenfb.TableNode,
		fb.Limits{})
	refused("a union tag without a value, as in Rust", tag, &rtenfb.Schema, rtenfb.TableNode,
		fb.Limits{Unions: true}, "data")
	names := build(func(b *fb.Builder) fb.Offset {
		v := b.Offsets([]fb.Offset{b.String("x"), b.String("\xff")})
		b.Begin()
		b.Ref(4, v)
		return b.End()
	})
	list := ptnfb.TableTensorListArg
	accepted("a vector of strings", names, &ptnfb.Schema, list, fb.Limits{})
	refused("a vector of strings with one that is not UTF-8", names, &ptnfb.Schema, list,
		fb.Limits{UTF8: true}, "names[1]")
	names[bytes.Index(names, []byte("x\x00"))+1]++
	refused("a vector of strings with one that does not end", names, &ptnfb.Schema, list,
		fb.Limits{}, "names[0]")
}

// The vtable of the first table type, one byte before the buffer: modulo 2⁶⁴ that once
// was what an empty cache of vtables held.
func TestVtableBeforeTheBufferIsRefused(t *testing.T) {
	buf := flatTensor(t)
	off := at(t, buf, &ptdfb.Schema, ptdfb.TableFlatTensor, "segments.0")
	pos := off + int(binary.LittleEndian.Uint32(buf[off:]))
	for before := range 16 {
		binary.LittleEndian.PutUint32(buf[pos:], uint32(pos+before))
		err := fb.Verify(buf, &ptdfb.Schema, ptdfb.TableFlatTensor, fb.Limits{})
		var e *fb.Error
		if before > 0 && (!errors.As(err, &e) || e.Path != "segments[0]") {
			t.Errorf("%d bytes before: %v", before, err)
		}
	}
}

// nested returns a model of n Loops, one inside the other: Model, then Graph, Node,
// OperatorNode, LoopAttrs for each.
func nested(t *testing.T, n int) []byte {
	var b fb.Builder
	b.Begin()
	graph := b.End()
	for range n {
		b.Begin()
		b.Ref(4, graph)
		attrs := b.End()
		b.Begin()
		b.Ref(8, attrs)
		b.Scalar(6, 1, 49, 0) // LoopAttrs
		op := b.End()
		b.Begin()
		b.Ref(8, op)
		b.Scalar(6, 1, 1, 0) // OperatorNode
		nodes := b.Offsets([]fb.Offset{b.End()})
		b.Begin()
		b.Ref(4, nodes)
		graph = b.End()
	}
	b.Begin()
	b.Ref(6, graph)
	buf, err := b.Finish(b.End(), "RTEN")
	if err != nil {
		t.Fatal(err)
	}
	return buf
}

func TestDepthIsAtMost64(t *testing.T) {
	// The model, four tables a level, and the innermost graph: 2 + 4n.
	for n, good := range map[int]bool{0: true, 15: true, 16: false, 100_000: false} {
		err := fb.Verify(nested(t, n), &rtenfb.Schema, rtenfb.TableModel, fb.Limits{})
		var e *fb.Error
		if good && err != nil || !good && (!errors.As(err, &e) || !e.Limit) {
			t.Errorf("%d levels: %v", n, err)
		}
	}
}

// A graph of 20 Ifs whose branches are the same graph: 2²⁰ tables to walk in little
// more than a kilobyte.
func TestAmplificationIsRefused(t *testing.T) {
	limit := func(name string, err error) {
		t.Helper()
		var e *fb.Error
		if !errors.As(err, &e) || !e.Limit {
			t.Errorf("%s: %v", name, err)
		}
	}
	var b fb.Builder
	b.Begin()
	graph := b.End()
	for range 14 {
		b.Begin()
		b.Ref(4, graph)
		b.Ref(6, graph)
		attrs := b.End()
		b.Begin()
		b.Ref(8, attrs)
		b.Scalar(6, 1, 39, 0) // IfAttrs
		op := b.End()
		b.Begin()
		b.Ref(8, op)
		b.Scalar(6, 1, 1, 0)
		nodes := b.Offsets([]fb.Offset{b.End()})
		b.Begin()
		b.Ref(4, nodes)
		graph = b.End()
	}
	b.Begin()
	b.Ref(6, graph)
	buf, err := b.Finish(b.End(), "RTEN")
	if err != nil {
		t.Fatal(err)
	}
	limit("nested sharing", fb.Verify(buf, &rtenfb.Schema, rtenfb.TableModel, fb.Limits{}))

	// n plans that are one plan, of n values that are one value.
	b = fb.Builder{}
	b.Begin()
	one := b.End()
	many := make([]fb.Offset, 2000)
	for i := range many {
		many[i] = one
	}
	values := b.Offsets(many)
	b.Begin()
	b.Ref(8, values)
	plan := b.End()
	for i := range many {
		many[i] = plan
	}
	plans := b.Offsets(many)
	b.Begin()
	b.Ref(6, plans)
	if buf, err = b.Finish(b.End(), ""); err != nil {
		t.Fatal(err)
	}
	limit("a product of vectors", fb.Verify(buf, &ptefb.Schema, ptefb.TableProgram, fb.Limits{}))

	// A long vector that many tables share is cheap to verify and dear to walk.
	b = fb.Builder{}
	items := b.Scalars(make([]byte, 1<<20), 8, 0)
	children := make([]fb.Offset, 1000)
	for i := range children {
		b.Begin()
		b.Ref(6, items)
		children[i] = b.End()
	}
	segments := b.Offsets(children)
	b.Begin()
	b.Ref(16, segments)
	if buf, err = b.Finish(b.End(), ""); err != nil {
		t.Fatal(err)
	}
	limit("a shared vector", fb.Verify(buf, &ptefb.Schema, ptefb.TableProgram, fb.Limits{}))

	random := fbtest.Roots()[2].Random(rand.New(rand.NewPCG(1, 1)), 50)
	limit("more tables than the caller allows",
		fb.Verify(random, &ptefb.Schema, ptefb.TableProgram, fb.Limits{MaxTables: 5}))
}

// The 100 bytes of reliability: an If whose branch is, modulo 2³², the graph that it is
// in.
func TestCycleIsRefused(t *testing.T) {
	buf := nested(t, 1)
	offsets := 0
	fb.EachTable(buf, &rtenfb.Schema, rtenfb.TableModel, func(v *fb.Visit) bool {
		v.Parts(func(pos, _ int, f *fb.Field) {
			if f == nil || f.Kind == fb.Scalar {
				return
			}
			offsets++
			for to := 0; to < pos; to += 4 {
				mutant := append([]byte(nil), buf...)
				binary.LittleEndian.PutUint32(mutant[pos:], uint32(to-pos))
				if verify(mutant, fbtest.Roots()[4]) == nil {
					t.Errorf("the offset %s at %d may lead back to %d", f.Name, pos, to)
				}
			}
		})
		return true
	})
	if offsets < 5 {
		t.Errorf("only %d offsets", offsets)
	}
	for i := 0; i+4 <= len(buf); i += 4 {
		mutant := append([]byte(nil), buf...)
		for to := 0; to < i; to += 4 {
			binary.LittleEndian.PutUint32(mutant[i:], uint32(to-i))
			walkAccepted(t, mutant, fbtest.Roots()[4],
				func() string { return fmt.Sprintf("word %d leads to %d", i, to) })
		}
	}
}

func FuzzVerify(f *testing.F) {
	roots := fbtest.Roots()
	rng := rand.New(rand.NewPCG(7, 8))
	for i, r := range roots {
		for _, b := range goldens(f, r) {
			if len(b) < 16<<10 {
				f.Add(byte(i), b)
			}
		}
		f.Add(byte(i), r.Random(rng, 30))
	}
	f.Fuzz(func(t *testing.T, i byte, b []byte) {
		walkAccepted(t, b, roots[int(i)%len(roots)], func() string { return "fuzzed" })
	})
}

func BenchmarkVerify(b *testing.B) {
	rng := rand.New(rand.NewPCG(9, 10))
	for _, r := range fbtest.Roots() {
		buf := r.Random(rng, 100_000)
		tables := countTables(buf, r)
		b.Run(strings.ReplaceAll(r.Name, "::", "."), func(b *testing.B) {
			b.SetBytes(int64(len(buf)))
			b.ReportAllocs()
			for b.Loop() {
				if err := verify(buf, r); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(tables),
				"ns/table")
		})
	}
}

// countTables finds the number of visits by the smallest budget that suffices.
func countTables(buf []byte, r fbtest.Root) int {
	lo, hi := 1, len(buf)/4
	for lo < hi {
		mid := (lo + hi) / 2
		if fb.Verify(buf, r.Schema, r.Table, fb.Limits{MaxTables: mid}) == nil {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}
