package ztensor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	fxcbor "github.com/fxamacker/cbor/v2"
	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/xxh3"

	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
	"github.com/tensorfile/tensorfile/ztensor/internal/layouts"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
	"github.com/tensorfile/tensorfile/ztensor/internal/v1"
	"github.com/tensorfile/tensorfile/ztensor/internal/v2"
)

// Files for tests that no writer would make. Keys are in the order of CBOR's
// deterministic encoding, which readers must not care about.

// Numbers and words of version 2, as its specification has them.
const (
	footerSize   = 40
	minAlignment = 4096
	maxFrame     = 16 << 20
	seekable     = "zt.zstd-seekable/1"
)

// deterministic encodes as RFC 8949 §4.2 asks.
var deterministic = func() fxcbor.EncMode {
	m, err := fxcbor.CoreDetEncOptions().EncMode()
	if err != nil {
		panic(err)
	}
	return m
}()

// encode is v in deterministic CBOR.
func encode(v any) []byte {
	b, err := deterministic.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// data1 is n bytes that begin like a file of version 1, with 1, 2, 3, … from 64.
func data1(n int) []byte {
	b := append([]byte(v1.Magic1), make([]byte, n)...)[:n]
	for i := 64; i < n; i++ {
		b[i] = byte(i - 63)
	}
	return b
}

// file10 is a file of version 1.0 with this manifest, which bytes are as they are.
func file10(manifest any, data int) []byte { return footed(data1(data), manifest, false) }

// file12 is a file10 of version 1.1 or 1.2.
func file12(manifest any, data int) []byte { return footed(data1(data), manifest, true) }

// footed ends data with a manifest and its footer; second is for 1.1 and 1.2.
func footed(b []byte, manifest any, second bool) []byte {
	m, ok := manifest.([]byte)
	if !ok {
		m = encode(manifest)
	}
	b = binary.LittleEndian.AppendUint64(append(b, m...), uint64(len(m)))
	if second {
		b = append(b, v1.Magic1...)
	}
	return b
}

// with makes a map of more keys.
func with(m map[string]any, extra []any) map[string]any {
	for i := 0; i < len(extra); i += 2 {
		m[fmt.Sprint(extra[i])] = extra[i+1]
	}
	return m
}

// object12 is a tensor in a manifest of 1.1 or 1.2.
func object12(format string, shape []any, components map[string]any, extra ...any) map[string]any {
	return with(map[string]any{"format": format, "shape": shape, "components": components}, extra)
}

// component12 is a component of object12.
func component12(dtype string, offset, length int, extra ...any) map[string]any {
	return with(map[string]any{"dtype": dtype, "offset": offset, "length": length}, extra)
}

// tensor10 is a tensor in a manifest of 1.0.
func tensor10(dtype, format string, shape []any, components map[string]any,
	extra ...any) map[string]any {
	return with(map[string]any{"dtype": dtype, "format": format, "shape": shape,
		"components": components}, extra)
}

// component10 is a component of tensor10.
func component10(offset, length int, extra ...any) map[string]any {
	return with(map[string]any{"offset": offset, "length": length}, extra)
}

// manifest10 is the manifest of a file10.
func manifest10(tensors map[string]any, extra ...any) map[string]any {
	return with(map[string]any{"version": "1.0", "generator": "test",
		"attributes": map[string]any{}, "tensors": tensors}, extra)
}

// manifest12 is the manifest of a file12.
func manifest12(objects map[string]any, extra ...any) map[string]any {
	return with(map[string]any{"version": "1.2.0", "objects": objects}, extra)
}

// good10 is a sound file of version 1.0 but for change.
func good10(change func(t, c map[string]any)) []byte {
	c := component10(64, 8)
	t := tensor10("float32", "dense", []any{2}, map[string]any{"data": c})
	change(t, c)
	return file10(manifest10(map[string]any{"w": t}), 72)
}

// good12 is a sound file of version 1.2 but for change.
func good12(change func(t, c map[string]any)) []byte {
	c := component12("f32", 64, 8)
	t := object12("dense", []any{2}, map[string]any{"data": c})
	change(t, c)
	return file12(manifest12(map[string]any{"w": t}), 72)
}

// set is a change of a component.
func set(key string, v any) func(t, c map[string]any) {
	return func(t, c map[string]any) { c[key] = v }
}

// setT is a change of a tensor.
func setT(key string, v any) func(t, c map[string]any) {
	return func(t, c map[string]any) { t[key] = v }
}

// unset is a change that leaves a field out.
func unset(key string) func(t, c map[string]any) {
	return func(t, c map[string]any) { delete(c, key); delete(t, key) }
}

// word is the low n bytes of v.
func word(n int, v uint64) []byte {
	b := binary.LittleEndian.AppendUint64(nil, v)
	return b[:n]
}

// raw puts items of CBOR together that an encoder would not make.
func raw(parts ...any) []byte {
	var b []byte
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			b = append(b, byte(p))
		case string:
			b = cbor.AppendText(b, p)
		case []byte:
			b = append(b, p...)
		}
	}
	return b
}

// A rawCBOR is an item as it is.
type rawCBOR string

// A pairList is a CBOR map in the order in which it is given, right or wrong.
type pairList []any // key, value, key, value

// encodeCBOR appends v in CBOR, with maps in the order of their pairs.
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
	b := append([]byte(v2.Magic2), make([]byte, at-8)...)
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
	f = append(f, v2.Magic2...)
	if m.footer != nil {
		m.footer(f)
	}
	b = append(b, f...)
	if m.whole != nil {
		b = m.whole(b)
	}
	return b
}

// objectsOf is a file of these names and objects, in turns.
func objectsOf(objects ...any) made {
	return made{manifest: pairList{"objects",
		pairList(objects)}}
}

// object2Of is an object in the order of deterministic CBOR.
func object2Of(layout string, shape []any, parts ...any) pairList {
	return pairList{"parts", pairList(parts), "shape", shape, "layout", layout}
}

// partOf is a part of n bytes at off.
func partOf(dtype string, off, n any, extra ...any) pairList {
	return append(pairList{"blob", []any{off, n}, "dtype", dtype}, extra...)
}

// typedPart is a part of n bytes at off with a logical type.
func typedPart(typ, dtype string, off, n any) pairList {
	return pairList{"blob", []any{off, n}, "type", typ, "dtype", dtype}
}

// w4 is a float32 of four elements.
func w4() made {
	return objectsOf("w", object2Of("dense", []any{4}, "data", partOf("f32", 4096, 16)))
}

// one is an object called w with one byte of data, of which a field is another.
func one(fields ...any) made {
	part := pairList{"blob", []any{4096, 1}, "dtype", "u8"}
	return objectsOf("w", object2Of("dense", []any{1}, "data", append(part, fields...)))
}

// shardTable is a root without objects.
func shardTable(key, entry any) made {
	return made{manifest: pairList{"shards", pairList{key, entry}, "objects", pairList{}}}
}

// laidOut is an object of a layout with attributes, and all its data zero.
func laidOut(layout string, shape []any, attributes pairList, parts ...any) made {
	o := object2Of(layout, shape, parts...)
	if attributes != nil {
		o = append(o, "attributes", attributes)
	}
	return objectsOf("w", o)
}

// attributesOf is a file with these attributes and no object.
func attributesOf(v any) made {
	return made{manifest: pairList{"objects", pairList{}, "attributes", v}}
}

// csrOf is a file of one sparse matrix, s.
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

// csrData is the bytes of the indices and the row pointers of csrOf's matrix.
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

// withData is m with other bytes of data.
func withData(m made, data []byte) made {
	m.data = data
	return m
}

// withFooter is m with its footer changed.
func withFooter(m made, f func(f []byte)) made {
	m.footer = f
	return m
}

// withRaw is a file with this manifest, whether or not it is CBOR.
func withRaw(raw string) made { return made{raw: []byte(raw)} }

// deepArray is an item inside n arrays.
func deepArray(n int, inner string) rawCBOR { return rawCBOR(strings.Repeat("\x81", n) + inner) }

// shards is a file of one tensor whose byte is in a shard.
func shards(name string, size any, off int) made {
	return made{manifest: pairList{
		"shards", pairList{name, pairList{"size", size, "digest", "xxh3:00"}},
		"objects", pairList{"w",
			object2Of("dense", []any{1}, "data",
				pairList{"blob", []any{off, 1}, "dtype", "u8", "shard", name})},
	}}
}

// ones is a shape of n dimensions of 1.
func ones(n int) []any {
	dims := make([]any, n)
	for i := range dims {
		dims[i] = 1
	}
	return dims
}

// seekPart is a file of one tensor in compressed frames.
func seekPart(stored []byte, size int) made {
	m := objectsOf("w", object2Of("dense", []any{size}, "data",
		pairList{"blob", []any{4096, len(stored)}, "dtype", "u8", "encoding", seekable,
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

// zframe is b in one frame of Zstandard.
func zframe(t *testing.T, b []byte, crc bool) []byte {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderCRC(crc))
	if err != nil {
		t.Fatal(err)
	}
	return e.EncodeAll(b, nil)
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
