package ztensor

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/layouts"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
	"github.com/tensorfile/tensorfile/ztensor/internal/v2"
)

// Each rule of §2 to §9: a file that breaks nothing else is refused with the name of the
// rule, and accepted once that is repaired.
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
	} {
		t.Run(c.name, func(t *testing.T) { keepsRule(t, c.rule, c.bad, c.good, nil) })
	}
}

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
