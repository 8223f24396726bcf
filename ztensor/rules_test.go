package ztensor

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/layouts"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
	"github.com/tensorfile/tensorfile/ztensor/internal/v2"
)

// Each rule of §2 to §9, wherever it applies: a file that breaks nothing else is refused
// with the name of the rule, and accepted once that is repaired. The layouts are those
// that every reader holds to, and then those that only a strict one does.
func TestEveryRuleOfVersion2IsKept(t *testing.T) {
	tooSmall := w4()
	tooSmall.whole = func(b []byte) []byte {
		return append([]byte(v2.Magic2), make([]byte, 39)...)
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
	shard := pairList{"size", 1 << 20, "digest", "xxh3:00"}
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
			seekPart(seekBlob([][]byte{fa}, []int{maxFrame + 1}), maxFrame+1),
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
		{"C1 zeros", rule.FileTooSmall,
			made{raw: []byte{}, whole: func([]byte) []byte { return make([]byte, 47) }}, w4()},
		{"C4 the manifest reaches into the footer", rule.ManifestBounds,
			withFooter(w4(), func(f []byte) { f[8] += 40 }), w4()},
		{"D2 break", rule.CborSyntax, attributesOf(pairList{"a", rawCBOR("\xff")}),
			attributesOf(pairList{"a", 1})},
		{"D2 reserved", rule.CborSyntax, attributesOf(pairList{"a", rawCBOR("\x1c")}),
			attributesOf(pairList{"a", rawCBOR("\x18\x1c")})},
		{"D3 text", rule.CborSyntax, attributesOf(pairList{"a", rawCBOR("\x7f\x61a\xff")}),
			attributesOf(pairList{"a", "a"})},
		{"D3 map", rule.CborSyntax, withRaw("\xbf\x67objects\xa0\xff"),
			withRaw("\xa1\x67objects\xa0")},
		{"D4 in a shape", rule.CborDeterminism,
			objectsOf("w", object2Of("dense", []any{rawCBOR("\x18\x04")}, "data",
				partOf("f32", 4096, 16))), w4()},
		{"D4 in a blob", rule.CborDeterminism,
			objectsOf("w", object2Of("dense", []any{4}, "data",
				partOf("f32", rawCBOR("\x1a\x00\x00\x10\x00"), 16))), w4()},
		{"D4 in a key", rule.CborDeterminism,
			made{manifest: pairList{rawCBOR("\x78\x07objects"), pairList{}}},
			made{manifest: pairList{"objects", pairList{}}}},
		{"D4 in an unknown field", rule.CborDeterminism,
			one("zz unknown", rawCBOR("\x1b\x00\x00\x00\x00\x00\x00\x00\x01")),
			one("zz unknown", 1)},
		{"D5 objects", rule.CborDeterminism,
			objectsOf("bb", object2Of("dense", []any{1}, "data", partOf("u8", 4096, 1)), "a",
				object2Of("dense", []any{1}, "data", partOf("u8", 4096, 1))),
			objectsOf("a", object2Of("dense", []any{1}, "data", partOf("u8", 4096, 1)), "bb",
				object2Of("dense", []any{1}, "data", partOf("u8", 4096, 1)))},
		{"D5 the same object", rule.CborDuplicateKey,
			objectsOf("a", object2Of("dense", []any{1}, "data", partOf("u8", 4096, 1)), "a",
				object2Of("dense", []any{1}, "data", partOf("u8", 4096, 1))), w4()},
		{"D5 fields of a part", rule.CborDeterminism,
			objectsOf("w", object2Of("dense", []any{1}, "data",
				pairList{"dtype", "u8", "blob", []any{4096, 1}})), one()},
		{"D5 keys that are no text", rule.CborDeterminism,
			attributesOf(pairList{"a", pairList{2, 0, 1, 0}}),
			attributesOf(pairList{"a", pairList{1, 0, 2, 0}})},
		{"D6 zero", rule.CborDeterminism,
			attributesOf(pairList{"a", rawCBOR("\xfa\x80\x00\x00\x00")}),
			attributesOf(pairList{"a", rawCBOR("\xf9\x80\x00")})},
		{"D6 NaN of 32 bits", rule.CborDeterminism,
			attributesOf(pairList{"a", rawCBOR("\xfa\x7f\xc0\x00\x00")}),
			attributesOf(pairList{"a", rawCBOR("\xf9\x7e\x00")})},
		{"D6 NaN of 64 bits", rule.CborDeterminism,
			attributesOf(pairList{"a", rawCBOR("\xfb\x7f\xf8\x00\x00\x00\x00\x00\x01")}),
			attributesOf(pairList{"a", rawCBOR("\xf9\x7e\x00")})},
		{"D7 in a name", rule.CborSyntax,
			objectsOf(rawCBOR("\x61\xff"),
				object2Of("dense", []any{1}, "data", partOf("u8", 4096, 1))), one()},
		{"D7 overlong", rule.CborSyntax, attributesOf(pairList{"a", rawCBOR("\x62\xc0\x80")}),
			attributesOf(pairList{"a", rawCBOR("\x62\xc2\x80")})},
		{"D8 in an unknown field", rule.CborDepth,
			made{manifest: pairList{"a", deepArray(33, "\x00"), "objects", pairList{}}},
			made{manifest: pairList{"a", deepArray(31, "\x00"), "objects", pairList{}}}},
		{"D8 keys", rule.CborDepth,
			made{manifest: pairList{"objects", pairList{},
				rawCBOR(strings.Repeat("\x81", 32) + "\x00"), 0}},
			made{manifest: pairList{"objects", pairList{}, deepArray(31, "\x00"), 0}}},
		{"D10 objects", rule.CborSyntax,
			withRaw("\xa1\x67objects\xbb\x00\x00\x00\x7f\xff\xff\xff\xff"),
			withRaw("\xa1\x67objects\xa0")},
		{"D10 text", rule.CborSyntax, withRaw("\xa1\x7b\xff\xff\xff\xff\xff\xff\xff\xff"),
			withRaw("\xa1\x67objects\xa0")},

		{"S2 objects is a list", rule.Schema, made{manifest: pairList{"objects", []any{}}},
			objectsOf()},
		{"S2 an object is a list", rule.Schema,
			objectsOf("w", rawCBOR("\x98\x18"+strings.Repeat("\x00", 24))), w4()},
		{"S3 key", rule.Schema, shardTable(1, shard), shardTable("a", shard)},
		{"S4 list", rule.Schema, attributesOf([]any{}), attributesOf(pairList{})},
		{"S6 none", rule.Schema,
			objectsOf("w", pairList{"parts", pairList{"data", partOf("u8", 4096, 1)}, "layout",
				"dense", "zzzzzz", 0}), one()},
		{"S6 negative", rule.Schema,
			objectsOf("w", object2Of("dense", []any{rawCBOR("\x20")}, "data",
				partOf("u8", 4096, 1))), one()},
		{"S6 a number", rule.Schema,
			objectsOf("w", pairList{"parts", pairList{"data", partOf("u8", 4096, 1)}, "shape", 1,
				"layout", "dense"}), one()},
		{"S7 a number", rule.Schema,
			objectsOf("w", pairList{"parts", pairList{"data", partOf("u8", 4096, 1)}, "shape",
				[]any{1}, "layout", 1, "zzzzzzz", 0}), one()},
		{"S8 a list", rule.Schema,
			objectsOf("w", pairList{"parts", []any{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14},
				"shape", []any{1}, "layout", "dense"}), one()},
		{"S8 key", rule.Schema,
			objectsOf("w", object2Of("dense", []any{1}, 1, partOf("u8", 4096, 1))), one()},
		{"S9 null", rule.Schema,
			objectsOf("w", append(object2Of("dense", []any{1}, "data", partOf("u8", 4096, 1)),
				"attributes", rawCBOR("\xf6"))), one()},
		{"S9 key", rule.Schema,
			objectsOf("w", append(object2Of("dense", []any{1}, "data", partOf("u8", 4096, 1)),
				"attributes", pairList{1, 1})), one()},
		{"S10 none", rule.Schema,
			objectsOf("w", object2Of("dense", []any{1}, "data",
				pairList{"blob", []any{4096, 1}, "zzzzzzzzzz", "u8"})), one()},
		{"S10 case", rule.Schema,
			objectsOf("w", object2Of("dense", []any{1}, "data", partOf("U8", 4096, 1))), one()},
		{"S10 long", rule.Schema,
			objectsOf("w", object2Of("dense", []any{1}, "data", partOf("uint8", 4096, 1))), one()},
		{"S11", rule.Schema,
			objectsOf("w", object2Of("acme", []any{1}, "data",
				pairList{"blob", []any{4096, 1}, "type", 1, "dtype", "u8"})),
			objectsOf("w", object2Of("acme", []any{1}, "data",
				pairList{"blob", []any{4096, 1}, "type", "", "dtype", "u8"}))},
		{"S12 one number", rule.Schema,
			objectsOf("w", object2Of("dense", []any{1}, "data",
				pairList{"blob", []any{4096}, "dtype", "u8"})), one()},
		{"S12 text", rule.Schema,
			objectsOf("w", object2Of("dense", []any{1}, "data",
				pairList{"blob", []any{"4096", 1}, "dtype", "u8"})), one()},
		{"S13 name", rule.ShardName, one("shard", "../x"), shards("s", 1<<20, 4096)},
		{"S13 another", rule.ShardRef,
			made{manifest: pairList{"shards", pairList{"a", shard}, "objects",
				pairList{"w",
					object2Of("dense", []any{1}, "data", partOf("u8", 4096, 1, "shard", "b"))}}},
			shards("b", 1<<20, 4096)},
		{"S13 null", rule.Schema, one("shard", rawCBOR("\xf6")), one()},
		{"S14 type", rule.Schema, one("encoding", 1, "decoded_length", 1),
			one("encoding", "x", "decoded_length", 1)},
		{"S14 length", rule.Schema, one("encoding", "x", "decoded_length", rawCBOR("\x20")),
			one("encoding", "x", "decoded_length", 1)},
		{"S15 none", rule.Schema, one("digest", ""), one("digest", "a:0")},
		{"S15 no algorithm", rule.Schema, one("digest", ":ab"), one("digest", "9:ab")},
		{"S15 no sum", rule.Schema, one("digest", "xyz:"), one("digest", "xyz:0")},
		{"S15 hexadecimal", rule.Schema, one("digest", "xyz:0g"), one("digest", "xyz:0f")},
		{"S15 case", rule.Schema, one("digest", "XYZ:0f"), one("digest", "xyz:0f")},
		{"S15 type", rule.Schema, one("digest", rawCBOR("\x41a")), one()},
		{"S17 not ASCII", rule.ShardName, shardTable("ä", shard), shardTable("a", shard)},
		{"S17 NUL", rule.ShardName, shardTable("a\x00", shard), shardTable("a", shard)},
		{"S17 backslash", rule.ShardName, shardTable("a\\b", shard), shardTable("a", shard)},
		{"S17 drive", rule.ShardName, shardTable("c:", shard), shardTable("c", shard)},
		{"S17 dots", rule.ShardName, shardTable("..", shard), shardTable("a..", shard)},
		{"S18 no size", rule.Schema, shardTable("a", pairList{"digest", "a:0"}),
			shardTable("a", shard)},
		{"S18 no digest", rule.Schema, shardTable("a", pairList{"size", 48}),
			shardTable("a", pairList{"size", 48, "digest", "a:0"})},
		{"S18 digest", rule.Schema, shardTable("a", pairList{"size", 48, "digest", "a0"}),
			shardTable("a", shard)},
		{"S18 size", rule.Schema, shardTable("a", pairList{"size", "48", "digest", "a:0"}),
			shardTable("a", shard)},
		{"S18 type", rule.Schema, shardTable("a", []any{}), shardTable("a", shard)},
		{"N1 attribute of an object", rule.Name,
			objectsOf("w", append(object2Of("dense", []any{1}, "data", partOf("u8", 4096, 1)),
				"attributes", pairList{"a\x00", 1})),
			objectsOf("w", append(object2Of("dense", []any{1}, "data", partOf("u8", 4096, 1)),
				"attributes", pairList{"a", pairList{"a\x00", 1}}))},
		{"N1 long attribute", rule.Name, attributesOf(pairList{strings.Repeat("a", 1025), 1}),
			attributesOf(pairList{strings.Repeat("a", 1024), 1})},
		{"N1 NUL in a part", rule.Name,
			objectsOf("w", object2Of("acme", []any{}, "a\x00", partOf("u8", 4096, 1))),
			objectsOf("w", object2Of("acme", []any{}, "a", partOf("u8", 4096, 1)))},
		{"N1 long part", rule.Name,
			objectsOf("w", object2Of("acme", []any{}, strings.Repeat("a", 1025),
				partOf("u8", 4096, 1))),
			objectsOf("w", object2Of("acme", []any{}, strings.Repeat("a", 1024),
				partOf("u8", 4096, 1)))},
		{"B1 in a shard", rule.BlobAlignment, shards("a", 1<<20, 4097), shards("a", 1<<20, 8192)},
		{"B1 of nothing", rule.BlobAlignment,
			objectsOf("w", object2Of("dense", []any{0}, "data", partOf("u8", 100, 0))),
			objectsOf("w", object2Of("dense", []any{0}, "data", partOf("u8", 8192, 0)))},
		{"B2 the footer", rule.BlobBounds,
			objectsOf("w", object2Of("acme", []any{}, "x", partOf("u8", 4096, 70_000))),
			objectsOf("w", object2Of("acme", []any{}, "x", partOf("u8", 4096, 60_000)))},
		{"B3 the same start", rule.BlobOverlap,
			objectsOf("a", object2Of("dense", []any{2}, "data", partOf("u8", 4096, 2)), "b",
				object2Of("dense", []any{1}, "data", partOf("u8", 4096, 1))),
			objectsOf("a", object2Of("dense", []any{2}, "data", partOf("u8", 4096, 2)), "b",
				object2Of("dense", []any{0}, "data", partOf("u8", 4096, 0)))},
		{"T3 f8", rule.Schema,
			objectsOf("w", object2Of("dense", []any{1}, "data",
				typedPart("f8_e5m2", "f16", 4096, 2))),
			objectsOf("w", object2Of("dense", []any{1}, "data",
				typedPart("f8_e5m2", "u8", 4096, 1)))},
		{"T3 complex", rule.Schema,
			objectsOf("w", object2Of("dense", []any{1}, "data",
				typedPart("complex64", "f64", 4096, 8))),
			objectsOf("w", object2Of("dense", []any{1}, "data",
				typedPart("complex64", "f32", 4096, 8)))},
		{"T4 bool in another layout", rule.LayoutData,
			withData(objectsOf("w",
				object2Of("acme", []any{}, "x", typedPart("bool", "u8", 4096, 1))), []byte{2}),
			withData(objectsOf("w",
				object2Of("acme", []any{}, "x", typedPart("bool", "u8", 4096, 1))), []byte{1})},
		{"L1 complex", rule.DenseSize,
			objectsOf("w", object2Of("dense", []any{2}, "data",
				typedPart("complex64", "f32", 4096, 8))),
			objectsOf("w", object2Of("dense", []any{1}, "data",
				typedPart("complex64", "f32", 4096, 8)))},
		{"L1 encoded", rule.DenseSize,
			objectsOf("w", object2Of("dense", []any{2}, "data",
				partOf("u8", 4096, 9, "encoding", "x", "decoded_length", 9))),
			objectsOf("w", object2Of("dense", []any{2}, "data",
				partOf("u8", 4096, 9, "encoding", "x", "decoded_length", 2)))},
		{"csr indices", rule.LayoutRule,
			csrOf([]any{2, 3}, partOf("u32", 4096, 11), partOf("u32", 8192, 12),
				partOf("u8", 12288, 3)), goodCSR()},
		{"csr typed indices", rule.Schema,
			csrOf([]any{2, 3}, typedPart("bool", "u32", 4096, 12), partOf("u32", 8192, 12),
				partOf("u8", 12288, 3)), goodCSR()},
		{"csr rows", rule.LayoutRule,
			csrOf([]any{5, 1}, partOf("u32", 4096, 12), partOf("u32", 8192, 12),
				partOf("u8", 12288, 3)), goodCSR()},
		{"csr rows that overflow", rule.Shape,
			csrOf([]any{uint64(1<<63 - 1), 1}, partOf("u32", 4096, 12), partOf("u32", 8192, 12),
				partOf("u8", 12288, 3)), goodCSR()},
		{"csr twice", rule.LayoutData,
			withData(goodCSR(), csrData([]uint32{0, 0, 1}, []uint32{0, 2, 3})), goodCSR()},
		{"G1 sha256", rule.Digest, one("digest", "sha256:"+strings.Repeat("0", 64)),
			one("digest", "sha256:6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d")},
		{"G1 short", rule.Digest, one("digest", "xxh3:00"),
			one("digest", "xxh3:c44bdff4074eecdb")},
	} {
		t.Run(c.name, func(t *testing.T) { keepsRule(t, c.rule, c.bad, c.good, nil) })
	}

	mx := pairList{"axis", 0, "block_size", 2, "scale_form", "e8m0_exponent"}
	data, scales := typedPart("f4_e2m1", "u8", 4096, 1), typedPart("f8_e8m0", "u8", 8192, 1)
	goodMX := laidOut(layouts.MX, []any{2}, mx, "data", data, "scales", scales)
	coo := func(shape []any, coords, values any) made {
		return laidOut(layouts.COO, shape, nil, "coords", coords, "values", values)
	}
	goodCOO := coo([]any{2, 2}, partOf("u32", 4096, 8), partOf("u8", 8192, 1))
	q4 := pairList{"block_bytes", 18, "elems_per_block", 32}
	goodGGUF := laidOut("gguf.q4_0/1", []any{32}, q4, "data", partOf("u8", 4096, 18))
	for _, c := range []struct {
		name, rule string
		bad, good  made
	}{
		{"coo scalar", rule.LayoutRule,
			coo([]any{}, partOf("u32", 4096, 8), partOf("u8", 8192, 1)), goodCOO},
		{"coo coords", rule.LayoutRule,
			coo([]any{2, 2}, partOf("u32", 4096, 12), partOf("u8", 8192, 1)), goodCOO},
		{"coo signed", rule.LayoutRule,
			coo([]any{2, 2}, partOf("i32", 4096, 8), partOf("u8", 8192, 1)), goodCOO},
		{"coo values", rule.LayoutRule,
			coo([]any{2, 2}, partOf("u32", 4096, 8), partOf("u8", 8192, 2)), goodCOO},
		{"coo outside", rule.LayoutData, withData(goodCOO, []byte{2, 0, 0, 0}),
			withData(goodCOO, []byte{1, 0, 0, 0})},
		{"coo twice", rule.LayoutData,
			coo([]any{2, 2}, partOf("u32", 4096, 16), partOf("u8", 8192, 2)),
			withData(coo([]any{2, 2}, partOf("u32", 4096, 16), partOf("u8", 8192, 2)), []byte{1})},
		{"mx attributes", rule.LayoutRule,
			laidOut(layouts.MX, []any{2}, nil, "data", data, "scales", scales), goodMX},
		{"mx axis", rule.LayoutRule,
			laidOut(layouts.MX, []any{2},
				pairList{"axis", 1, "block_size", 2, "scale_form", "e8m0_exponent"}, "data", data,
				"scales", scales), goodMX},
		{"mx block", rule.LayoutRule,
			laidOut(layouts.MX, []any{2},
				pairList{"axis", 0, "block_size", 1, "scale_form", "e8m0_exponent"}, "data", data,
				"scales", scales), goodMX},
		{"mx scales", rule.LayoutRule,
			laidOut(layouts.MX, []any{2}, mx, "data", data, "scales", partOf("u8", 8192, 1)),
			goodMX},
		{"mx data", rule.LayoutRule,
			laidOut(layouts.MX, []any{2}, mx, "data", partOf("u8", 4096, 2), "scales", scales),
			goodMX},
		{"gguf parts", rule.LayoutRule,
			laidOut("gguf.q4_0/1", []any{32}, q4, "date", partOf("u8", 4096, 18)), goodGGUF},
		{"gguf size", rule.LayoutRule,
			laidOut("gguf.q4_0/1", []any{32}, q4, "data", partOf("u8", 4096, 17)), goodGGUF},
		{"gguf blocks", rule.LayoutRule,
			laidOut("gguf.q4_0/1", []any{33}, q4, "data", partOf("u8", 4096, 18)), goodGGUF},
		{"gguf dtype", rule.LayoutRule,
			laidOut("gguf.q4_0/1", []any{32}, q4, "data", partOf("i8", 4096, 18)), goodGGUF},
	} {
		t.Run(c.name, func(t *testing.T) {
			keepsRule(t, c.rule, c.bad, c.good, &ReaderOptions{Strict: true})
			if c.rule != rule.LayoutRule {
				return
			}
			r, err := OpenBytes(c.bad.file(), nil)
			if err != nil || len(r.Warnings()) != 1 {
				t.Errorf("not strict: %v", err)
			}
		})
	}
}

// Lies of seek tables and of frames (§8), each refused when it is read, whole or
// at one place, and none for a price.
// What 64 bits hold and we do not is a limit, and breaks no rule.
func TestNumbersBeyondInt64AreRefused(t *testing.T) {
	dense := func(shape []any, off, n any, extra ...any) pairList {
		return object2Of("dense", shape, "data", partOf("u8", off, n, extra...))
	}
	shard := func(m made, size any) made {
		m.manifest = append(pairList{"shards",
			pairList{"s", pairList{"size", size, "digest", "a:0"}}}, m.manifest.(pairList)...)
		return m
	}
	huge := uint64(1) << 63
	for _, m := range []made{
		objectsOf("w", dense([]any{0, huge}, 4096, 0)),
		objectsOf("w", object2Of("acme", []any{huge}, "x", partOf("u8", 4096, 1))),
		objectsOf("w", object2Of("acme", []any{1}, "x",
			partOf("u8", 4096, 1, "encoding", "x", "decoded_length", huge))),
		shard(objectsOf("w", dense([]any{1}, 4096, 1)), huge),
		shard(objectsOf("w", dense([]any{1}, huge, 1, "shard", "s")), huge),
	} {
		var broken *rule.Error
		if _, err := OpenBytes(m.file(), nil); !errors.Is(err, tensor.ErrLimit) ||
			errors.As(err, &broken) {
			t.Errorf("%v: %v, not a limit", m.manifest, err)
		}
	}
}

// A frame may claim a window far beyond what it decodes to, and libzstd, which has all
// of it, does not mind.
func TestWindowsOfFrames(t *testing.T) {
	content := []byte("0123456789")
	sum := zframe(t, content, true)
	for _, c := range []struct {
		window byte // 2^(10 + its upper five bits), and as many eighths more as the others say
		fits   bool
	}{{0, true}, {17 << 3, true}, {17<<3 | 1, strconv.IntSize == 64},
		{21<<3 | 7, strconv.IntSize == 64}, {22 << 3, false}} {
		f := append([]byte("\x28\xb5\x2f\xfd\x04"), c.window, 1|10<<3, 0, 0)
		f = append(append(f, content...), sum[len(sum)-4:]...)
		r, err := OpenBytes(seekPart(seekBlob([][]byte{f}, []int{10}), 10).file(), nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.Tensor("w").Data.ReadAll()
		if c.fits && (err != nil || string(got) != string(content)) ||
			!c.fits && !errors.Is(err, tensor.ErrLimit) {
			t.Errorf("window %#x: %q, %v", c.window, got, err)
		}
	}
}

func TestSeekTablesThatLie(t *testing.T) {
	a, b := []byte("0123456789"), []byte("abcdefghij")
	fa, fb := zframe(t, a, true), zframe(t, b, true)
	good := seekBlob([][]byte{fa, fb}, []int{10, 10})
	change := func(at int, x ...byte) []byte { // at counts from the end where it is negative
		c := bytes.Clone(good)
		if at < 0 {
			at += len(c)
		}
		copy(c[at:], x)
		return c
	}
	size := func(first, second uint32) []byte {
		c := bytes.Clone(good)
		binary.LittleEndian.PutUint32(c[len(c)-25:], first)
		binary.LittleEndian.PutUint32(c[len(c)-17:], second)
		return c
	}
	skippable := []byte("\x50\x2a\x4d\x18\x02\x00\x00\x00ab")
	long := seekBlob([][]byte{append(slices.Clip(fa), skippable...), fb}, []int{10, 10})
	empty := zframe(t, nil, true)
	table := func(descriptor byte, width int) []byte { // with a third column
		c := append(slices.Clip(fa), seekHeader...)
		c = binary.LittleEndian.AppendUint32(c, uint32(width+9))
		c = binary.LittleEndian.AppendUint32(c, uint32(len(fa)))
		c = binary.LittleEndian.AppendUint32(c, 10)
		c = append(c, make([]byte, width-8)...)
		return append(append(binary.LittleEndian.AppendUint32(c, 1), descriptor), seekMagic...)
	}
	for _, c := range []struct {
		name   string
		stored []byte
		size   int
	}{
		{"nothing", nil, 20},
		{"16 bytes", good[len(good)-16:], 20},
		{"no magic", change(-1, 0), 20},
		{"no header", change(-17-16, 0), 20},
		{"another length in the header", change(-17-16+4, 0xff), 20},
		{"descriptor", change(-5, 1), 20},
		{"a third column that is not there", change(-5, 0x80), 20},
		{"one entry more", change(-9, 3), 20},
		{"one entry less", change(-9, 1), 20},
		{"2^32-1 entries", change(-9, 0xff, 0xff, 0xff, 0xff), 20},
		{"the first frame overlaps the second", size(uint32(len(fa)+1), uint32(len(fb)-1)), 20},
		{"the second begins in the first", size(uint32(len(fa)-1), uint32(len(fb)+1)), 20},
		{"more bytes than there are", size(uint32(len(fa)), uint32(len(fb)+1)), 20},
		{"fewer", size(uint32(len(fa)), uint32(len(fb)-1)), 20},
		{"no bytes for ten", size(0, uint32(len(fa)+len(fb))), 20},
		{"sums to less", good, 19},
		{"sums to more", good, 21},
		{"shorter than it says", seekBlob([][]byte{fa, fb}, []int{11, 9}), 20},
		{"a skippable frame in an entry", long, 20},
		{"a frame of nothing in an entry",
			seekBlob([][]byte{append(slices.Clip(fa), empty...)}, []int{10}), 10},
		{"bytes between", seekBlob([][]byte{append(slices.Clip(fa), 0), fb}, []int{10, 10}), 20},
		{"no frame", seekBlob([][]byte{[]byte("no frame at all, but bytes")}, []int{20}), 20},
		{"its checksum", change(len(fa)-1, fa[len(fa)-1]^1), 20},
		{"its content", change(len(fa)-6, fa[len(fa)-6]^1), 20},
		{"a frame cut off", seekBlob([][]byte{fa[:len(fa)-4]}, []int{10}), 10},
		{"16 MiB of ten bytes", seekBlob([][]byte{fa}, []int{16 << 20}), 16 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := OpenBytes(seekPart(c.stored, c.size).file(), nil)
			if err != nil {
				t.Fatal(err)
			}
			d := r.Tensor("w").Data
			check := func(how string, err error) {
				t.Helper()
				var broken *rule.Error
				if !errors.As(err, &broken) || broken.Rule != rule.Encoding &&
					broken.Rule != rule.Digest {
					t.Errorf("%s: %v", how, err)
				}
			}
			_, err = d.ReadAll()
			check("read", err)
			err = nil
			for at := range min(c.size, 20) { // one of the places is wrong
				if _, e := d.ReadAt(make([]byte, 1), int64(at)); e != nil {
					err = e
				}
			}
			check("read at", err)
			_, err = r.Verify(t.Context(), nil)
			check("verify", err)
		})
	}
	for name, stored := range map[string][]byte{"two frames": good,
		"a third column": table(0x80, 12)} {
		n := 20
		if name != "two frames" {
			n = 10
		}
		r, err := OpenBytes(seekPart(stored, n).file(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := r.Tensor("w").Data.ReadAll(); err != nil ||
			string(b) != "0123456789abcdefghij"[:n] {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
}

// A table of a million frames is read in time and memory in proportion to its
// bytes, and of its claims nothing is believed.
func TestAMillionFrames(t *testing.T) {
	if testing.Short() {
		t.Skip("long where the machine is emulated or races are looked for")
	}
	const n = 1_000_000
	frame := zframe(t, []byte{7}, true)
	frames, sizes := make([][]byte, n), make([]int, n)
	for i := range frames {
		frames[i], sizes[i] = frame, 1
	}
	stored := seekBlob(frames, sizes)
	m := objectsOf("w", object2Of("dense", []any{n}, "data",
		pairList{"blob", []any{4096, len(stored)}, "dtype", "u8", "encoding", seekable,
			"decoded_length", n}))
	m.data = stored
	r, err := OpenBytes(m.large(), nil)
	if err != nil {
		t.Fatal(err)
	}
	d := r.Tensor("w").Data
	p := make([]byte, 3)
	if _, err := d.ReadAt(p, n/2); err != nil || p[0] != 7 || p[2] != 7 {
		t.Error(p, err)
	}
	// 16 MiB each, says another table.
	for i := range sizes {
		sizes[i] = maxFrame
	}
	m.data = seekBlob(frames, sizes)
	m.manifest = pairList{"objects", pairList{"w", object2Of("acme", []any{}, "data",
		pairList{"blob", []any{4096, len(stored)}, "dtype", "u8", "encoding", seekable,
			"decoded_length", uint64(n) * maxFrame})}}
	if r, err = OpenBytes(m.large(), nil); err != nil {
		t.Fatal(err)
	}
	lie := r.Tensor("w").Part("data").Data
	if _, err := lie.ReadAll(); !errors.Is(err, tensor.ErrLimit) &&
		!errors.Is(err, tensor.ErrMalformed) {
		t.Error(err)
	}
	if _, err := lie.ReadAt(p, 1<<40); err == nil {
		t.Error(fmt.Sprint("a byte of ", uint64(n)*maxFrame))
	}
}
