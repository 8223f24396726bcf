package ztensor

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"math"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/xxh3"

	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
	"github.com/tensorfile/tensorfile/ztensor/internal/layouts"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
	"github.com/tensorfile/tensorfile/ztensor/internal/v2"
)

// What a seek table begins and ends with (§8).
const (
	seekHeader = "\x5e\x2a\x4d\x18"
	seekMagic  = "\xb1\xea\x92\x8f"
)

// A pairList is a CBOR map in the order in which it is given, right or wrong.
type pairList []any // key, value, key, value

// A rawCBOR is an item as it is.
type rawCBOR string

func encodeCBOR(b []byte, v any) []byte {
	switch v := v.(type) {
	case rawCBOR:
		return append(b, v...)
	case string:
		return cbor.AppendText(b, v)
	case int:
		return cbor.AppendHead(b, cbor.Uint, uint64(v))
	case uint64:
		return cbor.AppendHead(b, cbor.Uint, v)
	case []any:
		b = cbor.AppendHead(b, cbor.Array, uint64(len(v)))
		for _, x := range v {
			b = encodeCBOR(b, x)
		}
		return b
	case pairList:
		b = cbor.AppendHead(b, cbor.Map, uint64(len(v)/2))
		for _, x := range v {
			b = encodeCBOR(b, x)
		}
		return b
	}
	panic(v)
}

// A made is a file of version 2 that a test takes to pieces. Its data is from
// 4096 on, 64 KiB of it, and the manifest behind that.
type made struct {
	manifest any
	raw      []byte // in place of manifest
	data     []byte // at 4096
	footer   func(f []byte)
	whole    func(b []byte) []byte
}

func (m made) file() []byte { return m.fileOf(4096 + 65536) }

// large is the file with as much room for data as there is.
func (m made) large() []byte { return m.fileOf(4096 + (len(m.data)+4095)&^4095) }

func (m made) fileOf(at int) []byte {
	b := append([]byte(core.Magic2), make([]byte, at-8)...)
	copy(b[4096:], m.data)
	manifest := m.raw
	if manifest == nil {
		manifest = encodeCBOR(nil, m.manifest)
	}
	b = append(b, manifest...)
	f := binary.LittleEndian.AppendUint64(nil, uint64(at))
	f = binary.LittleEndian.AppendUint64(f, uint64(len(manifest)))
	f = binary.LittleEndian.AppendUint64(f, xxh3.Hash(manifest))
	f = append(binary.LittleEndian.AppendUint32(f, 2), 0, 0, 0, 0)
	f = append(f, core.Magic2...)
	if m.footer != nil {
		m.footer(f)
	}
	b = append(b, f...)
	if m.whole != nil {
		b = m.whole(b)
	}
	return b
}

func objectsOf(objects ...any) made {
	return made{manifest: pairList{"objects",
		pairList(objects)}}
}

// object2Of is an object in the order of deterministic CBOR.
func object2Of(layout string, shape []any, parts ...any) pairList {
	return pairList{"parts", pairList(parts), "shape", shape, "layout", layout}
}

func partOf(dtype string, off, n any, extra ...any) pairList {
	return append(pairList{"blob", []any{off, n}, "dtype", dtype}, extra...)
}

func typedPart(typ, dtype string, off, n any) pairList {
	return pairList{"blob", []any{off, n}, "type", typ, "dtype", dtype}
}

// w4 is a float32 of four elements.
func w4() made {
	return objectsOf("w", object2Of("dense", []any{4}, "data", partOf("f32", 4096, 16)))
}

func attributesOf(v any) made {
	return made{manifest: pairList{"objects", pairList{}, "attributes", v}}
}

func csrOf(shape []any, indices, indptr, values pairList) made {
	return objectsOf("s", object2Of(layouts.CSR, shape, "indptr", indptr, "values", values,
		"indices", indices))
}

// goodCSR is [2,3] with values at (0,0), (0,2), (1,1).
func goodCSR() made {
	m := csrOf([]any{2, 3}, partOf("u32", 4096, 12), partOf("u32", 8192, 12),
		partOf("u8", 12288, 3))
	m.data = csrData([]uint32{0, 2, 1}, []uint32{0, 2, 3})
	return m
}

func csrData(indices, indptr []uint32) []byte {
	b := make([]byte, 12288-4096)
	for i, x := range indices {
		binary.LittleEndian.PutUint32(b[4*i:], x)
	}
	for i, x := range indptr {
		binary.LittleEndian.PutUint32(b[4096+4*i:], x)
	}
	return b
}

func withData(m made, data []byte) made {
	m.data = data
	return m
}

func withFooter(m made, f func(f []byte)) made {
	m.footer = f
	return m
}

func withRaw(raw string) made { return made{raw: []byte(raw)} }

func deepArray(n int, inner string) rawCBOR { return rawCBOR(strings.Repeat("\x81", n) + inner) }

func shards(name string, size any, off int) made {
	return made{manifest: pairList{
		"shards", pairList{name, pairList{"size", size, "digest", "xxh3:00"}},
		"objects", pairList{"w",
			object2Of("dense", []any{1}, "data",
				pairList{"blob", []any{off, 1}, "dtype", "u8", "shard", name})},
	}}
}

func ones(n int) []any {
	dims := make([]any, n)
	for i := range dims {
		dims[i] = 1
	}
	return dims
}

func seekPart(stored []byte, size int) made {
	m := objectsOf("w", object2Of("dense", []any{size}, "data",
		pairList{"blob", []any{4096, len(stored)}, "dtype", "u8", "encoding", v2.Seekable,
			"decoded_length", size}))
	m.data = stored
	return m
}

// seekBlob is frames with a table that says of them what it is told to.
func seekBlob(frames [][]byte, sizes []int, extra ...byte) []byte {
	var b, table []byte
	for i, f := range frames {
		b = append(b, f...)
		table = binary.LittleEndian.AppendUint32(table, uint32(len(f)))
		table = binary.LittleEndian.AppendUint32(table, uint32(sizes[i]))
	}
	b = binary.LittleEndian.AppendUint32(append(b, seekHeader...), uint32(len(table)+9))
	b = binary.LittleEndian.AppendUint32(append(b, table...), uint32(len(frames)))
	return append(append(append(b, 0), seekMagic...), extra...)
}

func zframe(t *testing.T, b []byte, crc bool) []byte {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderCRC(crc))
	if err != nil {
		t.Fatal(err)
	}
	return e.EncodeAll(b, nil)
}

// Each rule of §2 to §9: a file that breaks nothing else is refused with the
// name of the rule, and accepted once that is repaired.
func TestEveryRuleOfVersion2IsKept(t *testing.T) {
	tooSmall := w4()
	tooSmall.whole = func(b []byte) []byte {
		return append([]byte(core.Magic2), make([]byte, 39)...)
	}
	noMagic := w4()
	noMagic.whole = func(b []byte) []byte { return b[:len(b)-1] }
	noHeader := w4()
	noHeader.whole = func(b []byte) []byte { return append([]byte{0}, b[1:]...) }
	dataShard := made{raw: []byte{}, footer: func(f []byte) { clear(f[:24]) }}
	longName := strings.Repeat("n", 1025)
	with := func(m made, object ...any) made {
		m.manifest = pairList{"objects", pairList(object)}
		return m
	}
	a, b := []byte("0123456789"), []byte("abcdefghij")
	fa, fb := zframe(t, a, true), zframe(t, b, true)
	second := seekBlob([][]byte{fa, fb}, []int{10, 10})
	for _, c := range []struct {
		name, rule string
		bad, good  made
	}{
		{"C1", rule.FileTooSmall, tooSmall, w4()},
		{"C2", rule.HeaderMagic, noHeader, w4()},
		{"C3", rule.FooterMagic, noMagic, w4()},
		// C6: reserved is ignored
		{"C5", rule.Version, withFooter(w4(), func(f []byte) { f[24] = 3 }),
			withFooter(w4(), func(f []byte) { f[28] = 9 })},
		{"C7", rule.ManifestBounds, made{raw: []byte{}}, dataShard},
		{"C8", rule.ManifestTooLarge,
			withFooter(w4(), func(f []byte) { binary.LittleEndian.PutUint64(f[8:], 1<<30+1) }),
			w4()},
		{"C9 misaligned", rule.BlobAlignment, withFooter(w4(), func(f []byte) { f[0]++ }), w4()},
		{"C9 at 0", rule.BlobAlignment, withFooter(w4(), func(f []byte) { clear(f[:8]) }), w4()},
		{"C10", rule.ManifestBounds, withFooter(w4(), func(f []byte) { f[8]++ }), w4()},
		{"C10 far", rule.ManifestBounds,
			withFooter(w4(), func(f []byte) { binary.LittleEndian.PutUint64(f, 1<<64-4096) }),
			w4()},
		{"C11", rule.ManifestHash, withFooter(w4(), func(f []byte) { f[16]++ }), w4()},

		{"B1", rule.BlobAlignment,
			objectsOf("w", object2Of("dense", []any{4}, "data", partOf("f32", 4097, 16))), w4()},
		{"B1 at 0", rule.BlobAlignment,
			objectsOf("w", object2Of("dense", []any{0}, "data", partOf("f32", 0, 0))),
			objectsOf("w", object2Of("dense", []any{0}, "data", partOf("f32", 4096, 0)))},
		{"B2", rule.BlobBounds,
			objectsOf("w", object2Of("dense", []any{1 << 20}, "data", partOf("u8", 4096, 1<<20))),
			w4()},
		{"B2 overflow", rule.BlobBounds,
			objectsOf("w", object2Of("acme", []any{}, "x",
				partOf("u8", 4096, uint64(math.MaxUint64)))),
			objectsOf("w", object2Of("acme", []any{}, "x", partOf("u8", 4096, 1)))},
		{"B2 of nothing", rule.BlobBounds,
			objectsOf("w", object2Of("dense", []any{0}, "data", partOf("u8", 1<<20, 0))),
			objectsOf("w", object2Of("dense", []any{0}, "data", partOf("u8", 8192, 0)))},
		{"B3", rule.BlobOverlap,
			objectsOf("a", object2Of("dense", []any{8192}, "data", partOf("u8", 4096, 8192)), "b",
				object2Of("dense", []any{1}, "data", partOf("u8", 8192, 1))),
			objectsOf("a", object2Of("dense", []any{8192}, "data", partOf("u8", 4096, 8192)), "b",
				object2Of("dense", []any{8192}, "data", partOf("i8", 4096, 8192)))},
		{"B3 manifest", rule.BlobOverlap,
			objectsOf("a", object2Of("dense", []any{1}, "data", partOf("u8", 4096+65536, 1))),
			objectsOf("a", object2Of("dense", []any{0}, "data", partOf("u8", 4096+65536, 0)))},
		{"B3 shard", rule.BlobOverlap,
			made{manifest: pairList{"shards",
				pairList{"s", pairList{"size", 1 << 20, "digest", "a:0"}}, "objects", pairList{
					"a", object2Of("dense", []any{9000}, "data",
						pairList{"blob", []any{4096, 9000}, "dtype", "u8", "shard", "s"}),
					"b", object2Of("dense", []any{1}, "data",
						pairList{"blob", []any{8192, 1}, "dtype", "u8", "shard", "s"})}}},
			shards("s", 1<<20, 4096)},

		{"D1", rule.CborSyntax, withRaw("\xa1\x67objects\xa0\x00"),
			withRaw("\xa1\x67objects\xa0")},
		{"D2 tag", rule.CborSyntax, attributesOf(pairList{"a", rawCBOR("\xc1\x01")}),
			attributesOf(pairList{"a", 1})},
		{"D2 undefined", rule.CborSyntax, attributesOf(pairList{"a", rawCBOR("\xf7")}),
			attributesOf(pairList{"a", rawCBOR("\xf6")})},
		{"D2 simple", rule.CborSyntax, attributesOf(pairList{"a", rawCBOR("\xf8\x20")}),
			attributesOf(pairList{"a", rawCBOR("\xf5")})},
		{"D3", rule.CborSyntax, attributesOf(pairList{"a", rawCBOR("\x9f\xff")}),
			attributesOf(pairList{"a", []any{}})},
		{"D4", rule.CborDeterminism, attributesOf(pairList{"a", rawCBOR("\x18\x17")}),
			attributesOf(pairList{"a", 23})},
		{"D4 length", rule.CborDeterminism, attributesOf(pairList{"a", rawCBOR("\x59\x00\x01x")}),
			attributesOf(pairList{"a", rawCBOR("\x41x")})},
		{"D5", rule.CborDeterminism, attributesOf(pairList{"aa", 1, "b", 1}),
			attributesOf(pairList{"b", 1, "aa", 1})},
		{"D5 twice", rule.CborDuplicateKey, attributesOf(pairList{"a", 1, "a", 1}),
			attributesOf(pairList{"a", 1, "b", 1})},
		{"D5 unknown field", rule.CborDuplicateKey,
			made{manifest: pairList{"x", pairList{1, 1, 1, 1}, "objects", pairList{}}},
			made{manifest: pairList{"x", pairList{1, 1, 2, 1}, "objects", pairList{}}}},
		{"D6 NaN", rule.CborDeterminism, attributesOf(pairList{"a", rawCBOR("\xf9\x7e\x01")}),
			attributesOf(pairList{"a", rawCBOR("\xf9\x7e\x00")})},
		{"D6 single", rule.CborDeterminism,
			attributesOf(pairList{"a", rawCBOR("\xfa\x3f\xc0\x00\x00")}),
			attributesOf(pairList{"a", rawCBOR("\xf9\x3e\x00")})},
		{"D6 double", rule.CborDeterminism,
			attributesOf(pairList{"a", rawCBOR("\xfb\x3f\xb9\x99\x99\xa0\x00\x00\x00")}),
			attributesOf(pairList{"a", rawCBOR("\xfb\x3f\xb9\x99\x99\x99\x99\x99\x9a")})},
		{"D6 subnormal", rule.CborDeterminism,
			attributesOf(pairList{"a", rawCBOR("\xfa\x33\x80\x00\x00")}),
			attributesOf(pairList{"a", rawCBOR("\xf9\x00\x01")})},
		{"D6 infinity", rule.CborDeterminism,
			attributesOf(pairList{"a", rawCBOR("\xfa\x7f\x80\x00\x00")}),
			attributesOf(pairList{"a", rawCBOR("\xf9\x7c\x00")})},
		{"D7", rule.CborSyntax, attributesOf(pairList{"a", rawCBOR("\x63\xed\xa0\x80")}),
			attributesOf(pairList{"a", "\xed\x9f\xbf"})},
		{"D8", rule.CborDepth, attributesOf(pairList{"a", deepArray(31, "\x00")}),
			attributesOf(pairList{"a", deepArray(30, "\x00")})},
		{"D8 empty", rule.CborDepth, attributesOf(pairList{"a", deepArray(31, "\x80")}),
			attributesOf(pairList{"a", deepArray(30, "\x80")})},
		{"D10", rule.CborSyntax,
			attributesOf(pairList{"a", rawCBOR("\x9b\x00\x00\x00\x7f\xff\xff\xff\xff")}),
			attributesOf(pairList{"a", []any{1}})},

		{"S1", rule.Schema, made{manifest: []any{}}, w4()},
		{"S2", rule.Schema, made{manifest: pairList{}}, objectsOf()},
		{"S2 keys", rule.Schema, objectsOf(1, pairList{}), objectsOf()},
		{"S3", rule.Schema, made{manifest: pairList{"shards", []any{}, "objects", pairList{}}},
			made{manifest: pairList{"shards", pairList{}, "objects", pairList{}}}},
		{"S4", rule.Schema, attributesOf(rawCBOR("\xf6")), attributesOf(pairList{})},
		{"S4 key", rule.Schema, attributesOf(pairList{1, 1}), attributesOf(pairList{"a", 1})},
		{"S5", rule.Schema, made{manifest: pairList{1, 1, "object", pairList{}}},
			made{manifest: pairList{1, 1, "x", 1, "objects", pairList{}}}},
		{"S6", rule.Schema, objectsOf("w",
			object2Of("dense", []any{"4"}, "data", partOf("f32", 4096, 16))), w4()},
		{"S6 rank", rule.Shape,
			objectsOf("w", object2Of("dense", ones(65), "data", partOf("u8", 4096, 1))),
			objectsOf("w", object2Of("dense", ones(64), "data", partOf("u8", 4096, 1)))},
		{"S6 product of the widest", rule.Shape,
			objectsOf("w", object2Of("dense", []any{uint64(math.MaxUint64), 2, 0}, "data",
				partOf("u8", 4096, 0))),
			objectsOf("w", object2Of("dense", []any{0, 2}, "data", partOf("u8", 4096, 0)))},
		{"T6 elements", rule.DenseSize,
			objectsOf("w", object2Of("dense", []any{uint64(1 << 63)}, "data",
				partOf("u8", 4096, 16))),
			objectsOf("w", object2Of("dense", []any{16}, "data", partOf("u8", 4096, 16)))},
		{"S6 product", rule.Shape,
			objectsOf("w", object2Of("dense", []any{uint64(1 << 62), 4, 0}, "data",
				partOf("u8", 4096, 0))),
			objectsOf("w", object2Of("dense", []any{0, uint64(1 << 62), 4}, "data",
				partOf("u8", 4096, 0)))},
		{"S7", rule.Schema, objectsOf("w",
			pairList{"parts", pairList{"data", partOf("u8", 4096, 1)}, "shape", []any{}}),
			objectsOf("w", object2Of("", []any{}, "data", partOf("u8", 4096, 1)))},
		{"S8", rule.Schema, objectsOf("w", object2Of("acme", []any{})),
			objectsOf("w", object2Of("acme", []any{}, "x", partOf("u8", 4096, 1)))},
		{"S9", rule.Schema, objectsOf("w",
			append(object2Of("acme", []any{}, "x", partOf("u8", 4096, 1)), "attributes", 1)),
			objectsOf("w", append(object2Of("acme", []any{}, "x", partOf("u8", 4096, 1)),
				"attributes", pairList{}))},
		{"S10", rule.Schema,
			objectsOf("w", object2Of("dense", []any{1}, "data", partOf("bool", 4096, 1))),
			objectsOf("w", object2Of("dense", []any{1}, "data", partOf("i8", 4096, 1)))},
		{"S12", rule.Schema,
			objectsOf("w", object2Of("dense", []any{1}, "data",
				pairList{"blob", []any{0, 4096, 1}, "dtype", "u8"})), w4()},
		{"S12 none", rule.Schema,
			objectsOf("w", object2Of("dense", []any{1}, "data", pairList{"dtype", "u8"})), w4()},
		{"S13", rule.ShardRef,
			objectsOf("w", object2Of("dense", []any{1}, "data",
				partOf("u8", 4096, 1, "shard", "s"))), shards("s", 1<<20, 4096)},
		{"S14", rule.Schema,
			objectsOf("w", object2Of("dense", []any{1}, "data",
				partOf("u8", 4096, 1, "encoding", "x"))),
			objectsOf("w", object2Of("dense", []any{1}, "data",
				partOf("u8", 4096, 9, "encoding", "x", "decoded_length", 1)))},
		{"S14 alone", rule.Schema,
			objectsOf("w", object2Of("dense", []any{1}, "data",
				partOf("u8", 4096, 1, "decoded_length", 1))), w4()},
		{"S15", rule.Schema,
			objectsOf("w", object2Of("dense", []any{1}, "data",
				partOf("u8", 4096, 1, "digest", "xxh3:AB"))),
			objectsOf("w", object2Of("dense", []any{1}, "data",
				partOf("u8", 4096, 1, "digest", "other:ab")))},
		{"S15 colons", rule.Schema,
			objectsOf("w", object2Of("dense", []any{1}, "data",
				partOf("u8", 4096, 1, "digest", "a:b:c"))), w4()},
		{"S17 empty", rule.ShardName, shards("", 1<<20, 4096), shards("a..", 1<<20, 4096)},
		{"S17 dot", rule.ShardName, shards(".a", 1<<20, 4096), shards("a", 1<<20, 4096)},
		{"S17 path", rule.ShardName, shards("../a", 1<<20, 4096), shards("a-b_c.9", 1<<20, 4096)},
		{"S17 separator", rule.ShardName, shards("a/b", 1<<20, 4096), shards("ab", 1<<20, 4096)},
		{"S17 long", rule.ShardName, shards(strings.Repeat("a", 65), 1<<20, 4096),
			shards(strings.Repeat("a", 64), 1<<20, 4096)},
		{"S18", rule.Schema, shards("a", 47, 4096), shards("a", 8193, 4096)},
		{"S18 bounds", rule.BlobBounds, shards("a", 4096+40, 4096), shards("a", 4096+41, 4096)},
		{"N1 empty", rule.Name,
			with(w4(), "", object2Of("dense", []any{1}, "data", partOf("u8", 4096, 1))), w4()},
		{"N1 NUL", rule.Name,
			with(w4(), "a\x00", object2Of("dense", []any{1}, "data", partOf("u8", 4096, 1))),
			w4()},
		{"N1 long", rule.Name,
			with(w4(), longName, object2Of("dense", []any{1}, "data", partOf("u8", 4096, 1))),
			with(w4(), longName[1:], object2Of("dense", []any{1}, "data", partOf("u8", 4096, 1)))},
		{"N1 part", rule.Name,
			objectsOf("w", object2Of("acme", []any{}, "", partOf("u8", 4096, 1))),
			objectsOf("w", object2Of("acme", []any{}, "e\u0301", partOf("u8", 4096, 1)))},
		{"N1 attribute", rule.Name, attributesOf(pairList{"", 1}),
			attributesOf(pairList{"a", pairList{"", 1}})},

		{"T3", rule.Schema, objectsOf("w",
			object2Of("acme", []any{}, "x", typedPart("bool", "i8", 4096, 1))),
			objectsOf("w", object2Of("acme", []any{}, "x", typedPart("bool", "u8", 4096, 1)))},
		{"T6", rule.DenseSize,
			objectsOf("w", object2Of("dense", []any{uint64(1 << 62)}, "data",
				partOf("f64", 4096, 8))),
			objectsOf("w", object2Of("dense", []any{1}, "data", partOf("f64", 4096, 8)))},
		{"T6 complex", rule.DenseSize,
			objectsOf("w", object2Of("dense", []any{uint64(1 << 60)}, "data",
				typedPart("complex128", "f64", 4096, 16))),
			objectsOf("w", object2Of("dense", []any{1}, "data",
				typedPart("complex128", "f64", 4096, 16)))},
		{"T4 bool", rule.LayoutData,
			withData(objectsOf("w",
				object2Of("dense", []any{3}, "data", typedPart("bool", "u8", 4096, 3))),
				[]byte{1, 2, 0}),
			withData(objectsOf("w",
				object2Of("dense", []any{3}, "data", typedPart("bool", "u8", 4096, 3))),
				[]byte{1, 1, 0})},
		{"T4 f4", rule.LayoutData,
			withData(objectsOf("w",
				object2Of("dense", []any{3}, "data", typedPart("f4_e2m1", "u8", 4096, 2))),
				[]byte{0x21, 0x13}),
			withData(objectsOf("w",
				object2Of("dense", []any{3}, "data", typedPart("f4_e2m1", "u8", 4096, 2))),
				[]byte{0x21, 0x03})},
		{"L1", rule.LayoutRule,
			objectsOf("w", object2Of("dense", []any{1}, "data", partOf("u8", 4096, 1), "more",
				partOf("u8", 4096, 1))), w4()},
		{"L1 name", rule.LayoutRule,
			objectsOf("w", object2Of("dense", []any{1}, "date", partOf("u8", 4096, 1))), w4()},
		{"L1 size", rule.DenseSize,
			objectsOf("w", object2Of("dense", []any{5}, "data", partOf("f32", 4096, 16))), w4()},
		{"L1 f4", rule.DenseSize,
			objectsOf("w", object2Of("dense", []any{3}, "data",
				typedPart("f4_e2m1", "u8", 4096, 1))),
			objectsOf("w", object2Of("dense", []any{3}, "data",
				typedPart("f4_e2m1", "u8", 4096, 2)))},
		{"csr rank", rule.LayoutRule,
			csrOf([]any{2}, partOf("u32", 4096, 12), partOf("u32", 8192, 12),
				partOf("u8", 12288, 3)), goodCSR()},
		{"csr part", rule.LayoutRule,
			objectsOf("s", object2Of(layouts.CSR, []any{2, 3}, "indptr", partOf("u32", 4096, 12),
				"values", partOf("u8", 8192, 3))), goodCSR()},
		{"csr signed", rule.LayoutRule,
			csrOf([]any{2, 3}, partOf("i32", 4096, 12), partOf("i32", 8192, 12),
				partOf("u8", 12288, 3)), goodCSR()},
		{"csr mixed", rule.LayoutRule,
			csrOf([]any{2, 3}, partOf("u64", 4096, 24), partOf("u32", 8192, 12),
				partOf("u8", 12288, 3)), goodCSR()},
		{"csr indptr", rule.LayoutRule,
			csrOf([]any{3, 3}, partOf("u32", 4096, 12), partOf("u32", 8192, 12),
				partOf("u8", 12288, 3)), goodCSR()},
		{"csr values", rule.LayoutRule,
			csrOf([]any{2, 3}, partOf("u32", 4096, 12), partOf("u32", 8192, 12),
				partOf("u8", 12288, 4)), goodCSR()},
		{"csr base", rule.LayoutData,
			withData(goodCSR(), csrData([]uint32{0, 2, 1}, []uint32{1, 2, 3})), goodCSR()},
		{"csr end", rule.LayoutData,
			withData(goodCSR(), csrData([]uint32{0, 2, 1}, []uint32{0, 2, 2})), goodCSR()},
		{"csr falls", rule.LayoutData,
			withData(goodCSR(), csrData([]uint32{0, 2, 1}, []uint32{0, 4, 3})), goodCSR()},
		{"csr order", rule.LayoutData,
			withData(goodCSR(), csrData([]uint32{2, 0, 1}, []uint32{0, 2, 3})), goodCSR()},
		{"csr column", rule.LayoutData,
			withData(goodCSR(), csrData([]uint32{0, 3, 1}, []uint32{0, 2, 3})), goodCSR()},

		{"E1 none", rule.Encoding, seekPart(fa, 10), seekPart(second, 20)},
		{"E2 checksum", rule.Encoding,
			seekPart(seekBlob([][]byte{zframe(t, a, false)}, []int{10}), 10),
			seekPart(seekBlob([][]byte{fa}, []int{10}), 10)},
		{"E2 unequal", rule.Encoding,
			seekPart(seekBlob([][]byte{fa, zframe(t, append(b, b...), true)}, []int{10, 20}), 30),
			seekPart(second, 20)},
		{"E2 long", rule.Encoding, seekPart(seekBlob([][]byte{fa, fb}, []int{10, 11}), 21),
			seekPart(second, 20)},
		{"E2 huge", rule.Encoding,
			seekPart(seekBlob([][]byte{fa}, []int{v2.MaxFrame + 1}), v2.MaxFrame+1),
			seekPart(second, 20)},
		{"E3 sum", rule.Encoding, seekPart(second, 21), seekPart(second, 20)},
		{"E3 two in one", rule.Encoding,
			seekPart(seekBlob([][]byte{append(fa[:len(fa):len(fa)], fb...)}, []int{20}), 20),
			seekPart(second, 20)},
		{"E6 of another size", rule.Encoding,
			seekPart(seekBlob([][]byte{fa, fb}, []int{16 << 20, 16 << 20}), 32<<20),
			seekPart(second, 20)},
		{"G2", rule.Digest, objectsOf("w",
			object2Of("dense", []any{1}, "data",
				partOf("u8", 4096, 1, "digest", "xxh3:0000000000000000"))),
			withData(objectsOf("w",
				object2Of("dense", []any{1}, "data",
					partOf("u8", 4096, 1, "digest", "xxh3:c44bdff4074eecdb"))), []byte{0})},
	} {
		t.Run(c.name, func(t *testing.T) { keepsRule(t, c.rule, c.bad, c.good, nil) })
	}
}

// keepsRule opens and verifies two files: bad breaks that rule, good does not.
func keepsRule(t *testing.T, name string, bad, good made, o *ReaderOptions) {
	t.Helper()
	open := func(m made) error {
		r, err := OpenBytes(m.file(), o)
		if err != nil {
			return err
		}
		report, err := r.Verify(t.Context(), nil)
		if len(r.f.Shards) > 0 && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		for _, f := range report.Findings {
			if f.Class != tensor.ClassUnsupported && f.Severity == tensor.SeverityError {
				return f.Err
			}
		}
		return nil
	}
	err := open(bad)
	var broken *rule.Error
	var fe *tensor.FormatError
	if !errors.As(err, &broken) || broken.Rule != name {
		t.Errorf("%v, not the rule %s", err, name)
	} else if !errors.As(err, &fe) || fe.Format != string(core.Errs) ||
		tensor.ClassOf(err) != tensor.ClassMalformed &&
			tensor.ClassOf(err) != tensor.ClassChecksum {
		t.Errorf("%v is no format error, or of another class: %v", err, tensor.ClassOf(err))
	}
	if err := open(good); err != nil {
		t.Errorf("repaired: %v", err)
	}
}

func FuzzVersion2(f *testing.F) {
	for _, g := range goldens(f, "2") {
		if len(g.data) < 1<<20 {
			f.Add(g.data)
		}
	}
	f.Add(goodCSR().file())
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > v2.MinSize { // most mutations would only break the hash
			at, n := binary.LittleEndian.Uint64(b[len(b)-40:]),
				binary.LittleEndian.Uint64(b[len(b)-32:])
			if at < uint64(len(b)) && n <= uint64(len(b))-at {
				binary.LittleEndian.PutUint64(b[len(b)-24:], xxh3.Hash(b[at:at+n]))
			}
		}
		r, err := OpenBytes(b, &ReaderOptions{Limits: tensor.Limits{MaxDecoded: 1 << 20}})
		if err != nil {
			return
		}
		r.Verify(t.Context(), nil)
		r.ContentDigest(XXH3)
		r.CanonicalViolations(t.Context())
		for x := range r.Tensors() {
			if r.Tensor(x.Name) != x {
				t.Errorf("%q is not found", x.Name)
			}
			for _, p := range core.PayloadsOf(x) {
				if s, err := p.Blob().Open(); err == nil {
					io.Copy(io.Discard, io.LimitReader(s, 1<<20))
					s.Close()
				}
			}
		}
	})
}
