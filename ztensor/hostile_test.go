package ztensor

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
)

// The attack list of the project's reliability plan, by its numbers. A case
// without a want opens; where strict differs from the default it has a case of
// its own.
type attack struct {
	name   string
	data   []byte
	strict bool
	want   error  // class of the error of opening; nil: opens
	field  string // in the error
	warns  string // in one of the warnings
}

func word(n int, v uint64) []byte {
	b := binary.LittleEndian.AppendUint64(nil, v)
	return b[:n]
}

// Items of CBOR that cbor.Marshal would not make.
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

// The manifests that attacks change one thing of.
func good10(change func(t, c map[string]any)) []byte {
	c := component10(64, 8)
	t := tensor10("float32", "dense", []any{2}, map[string]any{"data": c})
	change(t, c)
	return file10(manifest10(map[string]any{"w": t}), 72)
}

func good12(change func(t, c map[string]any)) []byte {
	c := component12("f32", 64, 8)
	t := object12("dense", []any{2}, map[string]any{"data": c})
	change(t, c)
	return file12(manifest12(map[string]any{"w": t}), 72)
}

func set(key string, v any) func(t, c map[string]any) {
	return func(t, c map[string]any) { c[key] = v }
}

func setT(key string, v any) func(t, c map[string]any) {
	return func(t, c map[string]any) { t[key] = v }
}

func unset(key string) func(t, c map[string]any) {
	return func(t, c map[string]any) { delete(c, key); delete(t, key) }
}

// rooted is a 1.0 file whose manifest is a map of these raw pairs beside a
// version and an empty list of tensors.
func rooted(pairs int, more ...any) []byte {
	return file10(raw(append([]any{0xa2 + pairs, "version", "1.0", "tensors", 0xa0}, more...)...), 64)
}

func attacks() []attack {
	const bad, truncated, limit, unsupported = 0, 1, 2, 3
	class := []error{tensor.ErrMalformed, io.ErrUnexpectedEOF, tensor.ErrLimit, errors.ErrUnsupported}
	var all []attack
	refuse := func(name string, data []byte, c int, field string) {
		all = append(all, attack{name: name, data: data, want: class[c], field: field})
	}
	strict := func(name string, data []byte, c int, field string) {
		all = append(all, attack{name: name + ", strict", data: data, strict: true, want: class[c], field: field})
	}
	accept := func(name string, data []byte) { all = append(all, attack{name: name, data: data}) }
	warn := func(name string, data []byte, warns, field string) {
		all = append(all, attack{name: name, data: data, warns: warns})
		strict(name, data, bad, field)
	}
	valid := good10(func(t, c map[string]any) {})
	valid12 := good12(func(t, c map[string]any) {})
	accept("a 1.0 file", valid)
	accept("a 1.2 file", valid12)
	all = append(all, attack{name: "a 1.0 file, strict", data: valid, strict: true}, attack{name: "a 1.2 file, strict", data: valid12, strict: true})

	for _, n := range []int{0, 1, 3, 4, 7, 8, 11, 15} {
		refuse(fmt.Sprintf("%d bytes", n), valid[:n:n], truncated, "")
	}
	for _, n := range []int{39, 47, 63} {
		refuse(fmt.Sprintf("%d bytes", n), valid[:n:n], bad, "manifest_size")
	}
	refuse("magic only, and zeros", append([]byte(core.Magic1), make([]byte, 8)...), bad, "manifest_size")
	refuse("the second magic alone", []byte(core.Magic1+core.Magic1), bad, "manifest_size")
	refuse("both magics of 1.1 and nothing", append(append([]byte(core.Magic1), word(8, 1)...), core.Magic1...), bad, "manifest_size")
	for _, magic := range []string{"ZTEN2000", "ZTEN0002", "zten1000", "PK\x03\x04\x00\x00\x00\x00", "\x00\x00\x00\x00\x00\x00\x00\x00"} {
		refuse(fmt.Sprintf("magic %q", magic), append([]byte(magic), valid[8:]...), bad, "magic")
	}
	version := func(v any) []byte { return file10(manifest10(map[string]any{}, "version", v), 64) }
	refuse("major version 2", version("2.0"), unsupported, "version")
	refuse("major version 0", version("0.1"), unsupported, "version")
	refuse("major version 10", version("10.0"), unsupported, "version")
	refuse("a version that is a number", version(1), bad, "version")
	refuse("a version that is null", version(nil), bad, "version")
	warn("a version that is none", version("one"), "version", "version")
	warn("an empty version", version(""), "version", "version")
	warn("a version with a sign", version("+1.0"), "version", "version")
	warn("no version", file10(map[string]any{"generator": "", "attributes": map[string]any{}, "tensors": map[string]any{}}, 64), "version", "version")
	all = append(all, attack{name: "a later minor version", data: version("1.7"), warns: "1.7"},
		attack{name: "a later minor version, strict", data: version("1.7"), strict: true, warns: "1.7"},
		attack{name: "version 1", data: version("1")}, attack{name: "version 1.0.99", data: version("1.0.99")})
	refuse("a byte behind the footer", append(slices.Clone(valid), 0), bad, "manifest_size")
	refuse("a byte behind the footer of 1.2", append(slices.Clone(valid12), 0), bad, "manifest_size")
	refuse("a byte before the magic", append([]byte{0}, valid...), bad, "magic")
	for _, v := range []uint64{0, 1, math.MaxUint64, math.MaxUint64 - 1, math.MaxInt32, 1 << 31, 1 << 32, 1 << 63, math.MaxInt64} {
		resized := append(slices.Clone(valid[:len(valid)-8]), word(8, v)...)
		resized12 := slices.Concat(valid12[:len(valid12)-16], word(8, v), []byte(core.Magic1))
		field := "manifest_size"
		if v == 1 {
			field = "manifest"
		}
		refuse(fmt.Sprintf("manifest_size %d", v), resized, bad, field)
		refuse(fmt.Sprintf("manifest_size %d in 1.2", v), resized12, bad, field)
	}
	for _, v := range []uint64{math.MaxInt32, 1 << 31, 1 << 32, math.MaxInt64, 1 << 63, math.MaxUint64 - 1, math.MaxUint64} {
		refuse(fmt.Sprintf("offset %d", v), good10(set("offset", v)), bad, `tensors["w"].components["data"].length`)
		refuse(fmt.Sprintf("length %d", v), good12(set("length", v)), bad, `objects["w"].components["data"].length`)
		refuse(fmt.Sprintf("offset and length wrap, %d", v), good12(func(t, c map[string]any) { c["offset"], c["length"] = v, -v }), bad, ".length")
	}
	size := uint64(len(valid))
	refuse("the offset is the file's size", good10(set("offset", size)), bad, ".length")
	accept("nothing at the file's size", good10(func(t, c map[string]any) { c["offset"], c["length"], t["shape"] = size-size%64, 0, []any{0} }))
	refuse("nothing beyond the file's size", good10(func(t, c map[string]any) { c["offset"], c["length"], t["shape"] = size+64, 0, []any{0} }), bad, ".length")
	for _, shape := range [][]any{{uint64(1) << 32, uint64(1) << 32}, {uint64(4194305 * 4194305), uint64(211106198978564)}, {uint64(math.MaxUint64), uint64(math.MaxUint64)}, {uint64(1) << 32, uint64(1) << 32, 0}, {uint64(math.MaxUint64), 2}} {
		refuse(fmt.Sprintf("shape %v", shape), good10(setT("shape", shape)), bad, `tensors["w"].shape`)
		refuse(fmt.Sprintf("shape %v of an unknown format", shape), good12(func(t, c map[string]any) { t["shape"], t["format"] = shape, "x" }), bad, `objects["w"].shape`)
	}
	refuse("elements that overflow with their width", good10(setT("shape", []any{uint64(1) << 62})), bad, "shape")
	refuse("more elements than int64", good10(setT("shape", []any{uint64(1) << 63})), limit, "shape")
	accept("elements of an unknown format do not overflow with their width", good12(func(t, c map[string]any) { t["shape"], t["format"] = []any{uint64(1) << 62}, "x" }))
	accept("a dimension of 0 before a large one", good10(func(t, c map[string]any) { t["shape"], c["length"] = []any{0, uint64(1) << 62, uint64(1) << 62}, 0 }))
	accept("a scalar", good10(func(t, c map[string]any) { t["shape"], c["length"] = []any{}, 4 }))
	refuse("a negative dimension", good10(setT("shape", []any{-1})), bad, "shape")
	refuse("a dimension that is a float", good10(setT("shape", []any{2.0})), bad, "shape")
	refuse("a shape that is a number", good10(setT("shape", 2)), bad, "shape")
	for _, rank := range []int{16, 17, 65, 255, 256, 1_000_000} {
		data := good10(setT("shape", slices.Repeat([]any{1}, rank)))
		if rank <= 255 {
			data = good10(func(t, c map[string]any) { t["shape"], c["length"] = slices.Repeat([]any{1}, rank), 4 })
			accept(fmt.Sprintf("rank %d", rank), data)
		} else {
			refuse(fmt.Sprintf("rank %d", rank), data, limit, "shape")
		}
	}
	for _, n := range []int{0, 4, 7} {
		strict(fmt.Sprintf("%d bytes for 8", n), good10(set("length", n)), bad, ".length")
	}
	strict("8 bytes for 4", good10(setT("shape", []any{1})), bad, ".length")
	accept("4 bytes for 8", good10(set("length", 4))) // an error of using it, below

	twice := func(key string) []byte {
		entry := encode(tensor10("uint8", "dense", []any{1}, map[string]any{"data": component10(64, 1)}))
		return file10(raw(0xa2, "version", "1.0", "tensors", 0xa2, key, entry, key, entry), 72)
	}
	refuse("a name twice", twice("w"), bad, "tensors")
	refuse("an empty name twice", twice(""), bad, "tensors")
	refuse("a name that is not UTF-8", file10(raw(0xa2, "version", "1.0", "tensors", 0xa1, "\xff\xfe", encode(tensor10("uint8", "dense", []any{0}, map[string]any{"data": component10(64, 0)}))), 64), bad, "tensors")
	refuse("a name of 1 MiB and one", file10(manifest10(map[string]any{strings.Repeat("n", 1<<20+1): tensor10("uint8", "dense", []any{0}, map[string]any{"data": component10(64, 0)})}), 64), limit, "tensors")
	for _, name := range []string{"", "\x00", "a\x00b", strings.Repeat("n", 1<<20), "../../x", "/", "\x1b[31mred", "\u202e", "CON"} {
		accept(fmt.Sprintf("name %.20q", name), file10(manifest10(map[string]any{name: tensor10("uint8", "dense", []any{1}, map[string]any{"data": component10(64, 1)})}), 72))
	}
	accept("names that only Unicode takes for the same", file10(manifest10(map[string]any{
		"é": tensor10("uint8", "dense", []any{1}, map[string]any{"data": component10(64, 1)}), "e\u0301": tensor10("uint8", "dense", []any{1}, map[string]any{"data": component10(64, 1)})}), 72))

	comp := func(more ...any) []byte {
		return file10(raw(0xa2, "version", "1.0", "tensors", 0xa1, "w", 0xa4, "dtype", "uint8", "shape", 0x81, 1, "format", "dense", "components", 0xa1, "data", raw(more...)), 72)
	}
	offset := func(item ...any) []byte {
		return comp(append(append([]any{0xa2, "offset"}, item...), "length", 1)...)
	}
	const where = `tensors["w"].components["data"]`
	accept("plain", offset(0x18, 64))
	refuse("a key twice in a component", comp(0xa3, "offset", 0x18, 64, "length", 1, "offset", 0x18, 64), bad, where)
	refuse("an unknown key twice in a component", comp(0xa4, "offset", 0x18, 64, "length", 1, "x", 1, "x", 2), bad, where)
	refuse("a key twice in the root", rooted(1, "version", "1.0"), bad, "version")
	refuse("an unknown key twice in the root", rooted(2, "x", 1, "x", 2), bad, "manifest")
	refuse("a key twice in something unknown", rooted(1, "x", 0xa2, "a", 1, "a", 2), bad, "x")
	refuse("a key twice, deep in something unknown", rooted(1, "x", 0x82, 1, 0xa1, "y", 0xa3, 2, 0, 1, 0, 2, 0), bad, "x")
	refuse("an attribute twice", rooted(1, "attributes", 0xa2, "a", "1", "a", "2"), bad, "attributes")
	refuse("an attribute twice, once with a long head", rooted(1, "attributes", 0xa2, "a", "1", 0x78, 1, 0x61, "2"), bad, "attributes")
	refuse("a role twice", file10(raw(0xa2, "version", "1.0", "tensors", 0xa1, "w", 0xa4, "dtype", "uint8", "shape", 0x81, 1, "format", "x", "components", 0xa2, "r", encode(component10(64, 1)), "r", encode(component10(64, 1))), 72), bad, `"w"`)
	refuse("tensors and objects", rooted(1, "objects", 0xa0), bad, "objects")
	refuse("neither tensors nor objects", file10(raw(0xa1, "version", "1.0"), 64), bad, "manifest")
	for _, key := range []string{"offset", "length"} {
		refuse("null "+key, good10(set(key, nil)), bad, where+"."+key)
		refuse("missing "+key, good10(unset(key)), bad, where)
		refuse("float "+key, good10(set(key, 64.0)), bad, where+"."+key)
		refuse("negative "+key, good10(set(key, -64)), bad, where+"."+key)
		refuse("text "+key, good10(set(key, "64")), bad, where+"."+key)
	}
	for _, key := range []string{"shape", "format", "components"} {
		refuse("null "+key, good10(setT(key, nil)), bad, `tensors["w"].`+key)
		refuse("missing "+key, good10(unset(key)), bad, `tensors["w"]`)
		refuse(""+key+" of another type", good10(setT(key, 1)), bad, `tensors["w"].`+key)
	}
	refuse("no dtype in 1.0", good10(unset("dtype")), bad, `dtype`)
	refuse("no dtype in 1.2", good12(unset("dtype")), bad, `objects["w"].components["data"].dtype`)
	refuse("a bignum", offset(0xc2, 0x41, 64), bad, where+".offset")
	warn("a tag around an offset", offset(0xd9, 0x27, 0x0f, 0x18, 64), "tag", "manifest")
	refuse("a tag before the root", file10(raw(0xc0, 0xa2, "version", "1.0", "tensors", 0xa0), 64), bad, "manifest")
	warn("a map of indefinite length", file10(raw(0xbf, "version", "1.0", "tensors", 0xbf, 0xff, 0xff), 64), "indefinite", "manifest")
	warn("text of indefinite length", file10(raw(0xa2, "version", 0x7f, "1.", "0", 0xff, "tensors", 0xa0), 64), "indefinite", "manifest")
	refuse("indefinite text of bytes", file10(raw(0xa2, "version", 0x7f, 0x41, 0x31, 0xff, "tensors", 0xa0), 64), bad, "version")
	refuse("an indefinite map that does not end", file10(raw(0xbf, "version", "1.0", "tensors", 0xa0), 64), bad, "manifest")
	refuse("a break in a definite map", file10(raw(0xa2, "version", "1.0", 0xff, 0xa0), 64), bad, "manifest")
	accept("heads that are not the shortest", offset(0x1b, 0, 0, 0, 0, 0, 0, 0, 64))
	accept("nested 33 deep", rooted(1, "x", bytes.Repeat([]byte{0x81}, 33), 0))
	refuse("nested 100 deep", rooted(1, "x", bytes.Repeat([]byte{0x81}, 100), 0), limit, "x")
	refuse("nested a million deep", rooted(1, "x", bytes.Repeat([]byte{0x81}, 1_000_000), 0), limit, "x")
	refuse("a million maps deep", rooted(1, "x", bytes.Repeat([]byte{0xa1}, 1_000_000), 0), limit, "x")
	warn("a million tags", rooted(1, "x", bytes.Repeat([]byte{0xc1}, 1_000_000), 0), "tag", "manifest")
	for name, claim := range map[string][]byte{"text": {0x7b}, "bytes": {0x5b}, "an array": {0x9b}, "a map": {0xbb}} {
		refuse(""+name+" that claims 2⁶³", rooted(1, "x", claim, 0x80, 0, 0, 0, 0, 0, 0, 0), bad, "x")
		refuse(""+name+" that claims 2⁶⁴−1", rooted(1, "x", claim, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), bad, "x")
		refuse(""+name+" that claims 2⁴⁰", rooted(1, "x", claim, 0, 0, 1, 0, 0, 0, 0, 0), bad, "x")
	}
	refuse("tensors that claim 2³²", file10(raw(0xa2, "version", "1.0", "tensors", 0xba, 0xff, 0xff, 0xff, 0xff), 64), bad, "tensors")
	refuse("bytes behind the root", file10(raw(0xa2, "version", "1.0", "tensors", 0xa0, 0), 64), bad, "manifest")
	warn("bytes behind the root of 1.2", file12(raw(0xa2, "version", "1.2.0", "objects", 0xa0, 0), 64), "after", "manifest")
	refuse("an array for the root", file10(raw(0x80), 64), bad, "manifest")
	refuse("a reserved head", rooted(1, "x", 0x1c), bad, "x")
	refuse("a simple value in two bytes that has one", rooted(1, "x", 0xf8, 20), bad, "x")
	accept("simple values, floats and undefined", rooted(1, "x", 0x85, 0xf8, 0xff, 0xf9, 0x7e, 0, 0xfb, 0, 0, 0, 0, 0, 0, 0, 0, 0xf7, 0xe0))
	refuse("an integer as a key", file10(raw(0xa3, "version", "1.0", "tensors", 0xa0, 1, 1), 64), bad, "manifest")
	refuse("keys in other letters", good10(func(t, c map[string]any) { delete(c, "offset"); c["Offset"] = 64 }), bad, where)
	accept("keys in other letters beside the right ones", good10(set("OFFSET", 0)))
	refuse("a byte string for a key", comp(0xa3, "offset", 0x18, 64, "length", 1, 0x46, []byte("offset"), 0), bad, where)
	refuse("a byte string for a key of the root", rooted(1, 0x47, []byte("version"), "9.9"), bad, "")
	refuse("a byte string for text", file10(raw(0xa2, "version", 0x43, []byte("1.0"), "tensors", 0xa0), 64), bad, "version")

	equal := slices.Concat([]byte(core.Magic1), raw(0xa2, "version", "1.0", "tensors", 0xa0))
	equal = append(equal, word(8, uint64(len(equal)-8))...)
	warn("the manifest's size is the file's less 16", equal, "manifest_size", "manifest_size")
	refuse("the manifest's size is one more", append(slices.Clone(equal[:len(equal)-8]), word(8, uint64(len(equal)-15))...), bad, "manifest_size")
	refuse("a manifest one byte too long", append(slices.Clone(valid[:len(valid)-8]), word(8, binary.LittleEndian.Uint64(valid[len(valid)-8:])+1)...), bad, "manifest")
	refuse("a component in the manifest", good10(set("offset", 128)), bad, ".length")
	refuse("a component that reaches into the manifest", good10(func(t, c map[string]any) { t["shape"], c["length"] = []any{3}, 12 }), bad, ".length")
	refuse("a component over the magic", good10(set("offset", 0)), bad, ".offset")
	refuse("a component over the end of the magic", good10(set("offset", 7)), bad, ".offset")
	warn("a component below 64", good10(set("offset", 8)), "multiple of 64", ".offset")
	warn("a component that is not aligned", good10(func(t, c map[string]any) { c["offset"], c["length"], t["shape"] = 65, 4, []any{1} }), "multiple of 64", ".offset")
	refuse("a component over the footer", good10(func(t, c map[string]any) { c["offset"] = size - size%64 }), bad, ".length")
	many := func(extents ...int) []byte {
		objects := map[string]any{}
		for i := 0; i < len(extents); i += 2 {
			objects[fmt.Sprint(i/2)] = object12("dense", []any{extents[i+1]}, map[string]any{"data": component12("u8", extents[i], extents[i+1])})
		}
		return file12(manifest12(objects), 1024)
	}
	warn("components that overlap", many(64, 128, 128, 128), "overlaps", `objects["1"]`)
	warn("components that overlap, in another order", many(128, 128, 512, 1, 64, 65), "overlaps", `objects["0"]`)
	warn("a component within another", many(64, 256, 128, 1), "overlaps", `objects["1"]`)
	warn("components that begin together", many(64, 8, 64, 4), "overlaps", `components["data"]`)
	accept("components that are the same", many(64, 8, 64, 8))
	accept("nothing at the offset of another", many(64, 8, 64, 0))
	accept("nothing inside of another", many(64, 256, 128, 0))

	accept("0.1 with nothing in it", append([]byte(core.Magic0), make([]byte, 8)...))
	refuse("0.1 whose last bytes are zero", append([]byte(core.Magic0), make([]byte, 9)...), bad, "manifest_size")
	strict("0.1", append([]byte(core.Magic0), make([]byte, 8)...), unsupported, "magic")
	refuse("the tail of 0.1 under 1.0", slices.Concat(data1(64), []byte{0x80}, word(8, 1)), bad, "manifest")
	refuse("the tail of 1.0 under 0.1", append([]byte(core.Magic0), valid[8:]...), bad, "manifest")
	refuse("the tail of 1.2 under 0.1", append([]byte(core.Magic0), valid12[8:]...), bad, "manifest_size")
	refuse("1.2 cut before its second magic, where its size looks like 1.0", valid12[:len(valid12)-8], truncated, "footer")
	refuse("the manifest of 1.2 in a file of 1.0", file10(manifest12(map[string]any{}), 64), truncated, "footer")
	warn("the manifest of 1.0 in a file of 1.2", file12(manifest10(map[string]any{}), 64), "footer", "footer")
	entry := func(more ...any) []byte {
		m := with(map[string]any{"name": "w", "offset": 64, "size": 4, "dtype": "float32", "layout": "dense", "shape": []any{1}, "encoding": "raw"}, more)
		return append([]byte(core.Magic0), footed(data1(72), []any{m}, false)[8:]...)
	}
	accept("an entry of 0.1", entry())
	for _, key := range []string{"name", "offset", "size", "dtype", "layout", "shape"} {
		refuse("0.1 with null "+key, entry(key, nil), bad, "entries[0]."+key)
	}
	refuse("0.1 over its magic", entry("offset", 0), bad, "offset")
	refuse("0.1 over its index", entry("offset", 128), bad, "length")
	warn01 := attack{name: "0.1 that is not aligned", data: entry("offset", 66), warns: "multiple of 64"}
	all = append(all, warn01, attack{name: "0.1 with a name twice", warns: "second time",
		data: append([]byte(core.Magic0), footed(data1(72), []any{map[string]any{"name": "w", "offset": 64, "size": 1, "dtype": "uint8", "layout": "dense", "shape": []any{}},
			map[string]any{"name": "w", "offset": 64, "size": 1, "dtype": "uint8", "layout": "dense", "shape": []any{}}}, false)[8:]...)})

	refuse("T1 the dtypes of tensor and component differ", good10(set("dtype", "int32")), bad, ".dtype")
	warn("T1 a dtype on the component in 1.0", good10(set("dtype", "float32")), "dtype", "dtype")
	warn("T1 a dtype on the tensor in 1.2", good12(setT("dtype", "f32")), "dtype", "dtype")
	warn("T1 the spelling of 1.2 in 1.0", good10(setT("dtype", "f32")), "spelled", "tensors")
	warn("O14 an attribute that is not text", rooted(1, "attributes", 0xa1, "n", 1), "not text", "attributes")
	warn("a null where something may be absent", good10(set("encoding", nil)), "null", "encoding")
	refuse("attributes that are a list", rooted(1, "attributes", 0x80), bad, "attributes")
	refuse("a generator that is a number", rooted(1, "generator", 1), bad, "generator")
	refuse("an attribute of a number", rooted(1, "attributes", 0xa1, 1, "x"), bad, "attributes")
	return all
}

func TestAttacksOnOpening(t *testing.T) {
	for _, a := range attacks() {
		t.Run(a.name, func(t *testing.T) {
			opts := &ReaderOptions{Strict: a.strict}
			for _, f := range []func() (*Reader, error){
				func() (*Reader, error) { return OpenBytes(readtest.WithCanary(a.data), opts) },
				func() (*Reader, error) { return NewReader(bytes.NewReader(a.data), int64(len(a.data)), opts) },
			} {
				r, err := f()
				if a.want == nil {
					if err != nil {
						t.Fatal(err)
					}
					walk(t, r)
					text := fmt.Sprint(r.Warnings())
					if a.warns == "" && len(r.Warnings()) > 0 || !strings.Contains(text, a.warns) {
						t.Errorf("warnings %s, want %q", text, a.warns)
					}
					continue
				}
				var fe *tensor.FormatError
				if !errors.Is(err, a.want) || !errors.As(err, &fe) {
					t.Fatalf("%v, want %v", err, a.want)
				}
				if !strings.Contains(fe.Field, a.field) {
					t.Errorf("field %q, want %q", fe.Field, a.field)
				}
				if fe.Offset < 0 || fe.Offset > int64(len(a.data)) {
					t.Errorf("offset %d of a file of %d bytes", fe.Offset, len(a.data))
				}
				if fe.Format != "ztensor" || len(err.Error()) > 1000 {
					t.Errorf("%.300v", err)
				}
			}
		})
	}
}

// walk looks at everything that an open file shows, and reads all payloads.
func walk(t testing.TB, r *Reader) {
	for ten := range r.Tensors() {
		ten.Check()
		ten.Size()
		for range r.TensorAttributes(ten) {
		}
		blobs := []tensor.Blob{ten.Data}
		for _, p := range ten.Parts {
			blobs = append(blobs, p.Data)
		}
		for _, b := range blobs {
			b.Stored()
			if in, err := b.Open(); err == nil {
				io.Copy(io.Discard, in)
				in.Close()
			}
			if b.Size() >= 0 && b.Size() < 1<<20 {
				b.ReadAll()
			}
			b.ReadAt(make([]byte, 7), 3)
		}
		if ten.Dense() {
			if _, err := tensor.View[float32](ten); err == nil && ten.Name == "\xff" {
				t.Error("a name that is not UTF-8")
			}
			ten.Data.ReadAt(make([]byte, 1), 0)
		}
		if other := r.Tensor(ten.Name); other == nil || other.Name != ten.Name {
			t.Errorf("tensor %q is not found", ten.Name)
		}
	}
	for range r.Attributes() {
	}
	for _, v := range r.AttributeValues() {
		if _, err := v.MarshalJSON(); err != nil {
			t.Errorf("attribute %v: %v", v, err)
		}
	}
	r.Warnings()
}

// zstdOf makes one frame, as upstream does: without a content size, unless sized.
func zstdOf(t testing.TB, b []byte, opts ...zstd.EOption) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out, append([]zstd.EOption{zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	for len(b) > 0 { // not in one call: that would write a content size
		n := min(len(b), 1<<20)
		z.Write(b[:n])
		z.Flush()
		b = b[n:]
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// zipped is a 1.2 file of one u8 tensor whose stored bytes are these.
func zipped(stored []byte, elements int64, more ...any) []byte {
	b := append(append([]byte(core.Magic1), make([]byte, 56)...), stored...)
	m := manifest12(map[string]any{"w": object12("dense", []any{elements}, map[string]any{"data": component12("u8", 64, len(stored), append([]any{"encoding", "zstd"}, more...)...)})})
	return footed(b, m, true)
}

// Zstd. Each is read as a whole, as a stream, and in the middle, from
// memory and from a reader.
func TestZstdAttacks(t *testing.T) {
	content := noise(100_000, 1)
	n := int64(len(content))
	frame := zstdOf(t, content)
	bomb := zstdOf(t, make([]byte, 64<<20))
	flipped := slices.Clone(frame)
	flipped[len(flipped)/2] ^= 4
	skippable := append([]byte{0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0}, 1, 2, 3, 4)
	window := func(log byte, rest ...byte) []byte {
		return append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, (log - 10) << 3}, rest...)
	}
	empty := []byte{1, 0, 0} // the last block, raw, of no bytes
	for _, c := range []struct {
		name string
		data []byte
		want error
	}{
		{"a frame", zipped(frame, n), nil},
		{"two frames", zipped(append(zstdOf(t, content[:n/3]), zstdOf(t, content[n/3:])...), n), nil},
		{"a frame behind a skippable one", zipped(append(skippable, frame...), n), nil},
		{"a frame before a skippable one", zipped(append(slices.Clone(frame), skippable...), n), nil},
		{"nothing as nothing", zipped(nil, 0), nil},
		{"an empty frame", zipped([]byte{0x28, 0xb5, 0x2f, 0xfd, 0x20, 0, 1, 0, 0}, 0), nil},
		{"a large window that is not used", zipped(window(27, empty...), 0), nil},
		{"nothing as something", zipped(nil, n), tensor.ErrMalformed},
		{"too short", zipped(frame, n+1), tensor.ErrMalformed},
		{"too long", zipped(frame, n-1), tensor.ErrMalformed},
		{"too short for uncompressed_length", zipped(frame, n+1, "uncompressed_length", n+1), tensor.ErrMalformed},
		{"a bomb of 64 MiB", zipped(bomb, 1000), tensor.ErrMalformed},
		{"truncated", zipped(frame[:len(frame)/2], n), tensor.ErrMalformed},
		{"a header alone", zipped(frame[:6], n), tensor.ErrMalformed},
		{"three bytes", zipped(frame[:3], n), tensor.ErrMalformed},
		{"not zstd", zipped(content[:1000], n), tensor.ErrMalformed},
		{"garbage behind the frame", zipped(append(slices.Clone(frame), 1, 2, 3, 4, 5), n), tensor.ErrMalformed},
		{"a bit turned over", zipped(flipped, n), errAny},
		{"a window of 1 GiB", zipped(window(30, empty...), 0), tensor.ErrLimit},
		{"a window of 2 TiB", zipped(window(41, empty...), 0), tensor.ErrLimit},
		{"a content size of 1 TiB in 15 bytes", zipped(append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0, 1, 0, 0}, empty...), 1<<40), errAny},
		{"a dictionary", zipped([]byte{0x28, 0xb5, 0x2f, 0xfd, 0x21, 7, 0, 1, 0, 0}, 0), errAny},
		{"a reserved block", zipped(window(20, 7, 0, 0), 1), tensor.ErrMalformed},
		{"a block that claims 2 MiB", zipped(window(20, 3, 0, 0xff), 1<<21), errAny},
		{"another encoding", zipped(frame, n, "encoding", "lz4"), errors.ErrUnsupported},
		{"an empty encoding", zipped(frame, n, "encoding", ""), errors.ErrUnsupported},
	} {
		t.Run(c.name, func(t *testing.T) {
			face.Each(t, c.data, func(t *testing.T, r *Reader) {
				b := r.Tensor("w").Data
				check := func(how string, got []byte, err error) {
					t.Helper()
					switch {
					case c.want == nil && (err != nil || len(got) > 0 && !bytes.Equal(got, content)):
						t.Errorf("%s: %d bytes, %v", how, len(got), err)
					case c.want == errAny && err == nil, c.want != nil && c.want != errAny && !errors.Is(err, c.want):
						t.Errorf("%s: %v, want %v", how, err, c.want)
					}
				}
				if size := b.Size(); size >= 0 && size < 1<<30 {
					p := make([]byte, size)
					check("ReadInto", p, b.ReadInto(p))
				}
				all, err := b.ReadAll()
				check("ReadAll", all, err)
				if in, err := b.Open(); err != nil {
					check("Open", nil, err)
				} else {
					all, err := io.ReadAll(in)
					check("Open", all, err)
					in.Close()
				}
				_, v := r.Verify(t.Context(), nil)
				check("Verify", nil, v)
			})
		})
	}
}

// errAny stands for an error of any class.
var errAny = errors.New("any error")

// The reader of 1.0.0 unpacks 256 MiB that hide in 8 KB of a sparse part,
// whose size nothing gives.
func TestSparseBombsWithoutSize(t *testing.T) {
	if testing.Short() {
		t.Skip("long where the machine is emulated or races are looked for")
	}
	bomb := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 10 << 3} // blocks of one repeated byte, 128 KiB each
	for i := range 2048 {
		head := uint32(128<<10)<<3 | 1<<1
		if i == 2047 {
			head |= 1
		}
		bomb = append(bomb, byte(head), byte(head>>8), byte(head>>16), 0)
	}
	b := append(append([]byte(core.Magic1), make([]byte, 56)...), bomb...)
	part := component10(64, len(bomb), "encoding", "zstd")
	data := footed(b, manifest10(map[string]any{"w": tensor10("uint8", "sparse_coo", []any{3}, map[string]any{"values": part, "coords": part})}), false)
	face.Each(t, data, func(t *testing.T, r *Reader) {
		peak := readtest.PeakHeap(func() {
			for _, p := range r.Tensor("w").Parts {
				if p.Data.Size() != -1 {
					t.Errorf("size %d of a part whose size nothing tells", p.Data.Size())
				}
				if _, err := p.Data.ReadAll(); !errors.Is(err, tensor.ErrLimit) {
					t.Errorf("%v", err)
				}
			}
			if _, err := r.Verify(t.Context(), nil); !errors.Is(err, tensor.ErrLimit) {
				t.Errorf("Verify: %v", err)
			}
		})
		if peak > 128<<20 {
			t.Errorf("%d MiB for %d bytes", peak>>20, len(bomb))
		}
	})
}

func TestDigests(t *testing.T) {
	payload := []byte{1, 2, 3, 4, 5, 6, 7, 8} // what data1 has at 64
	sum := fmt.Sprintf("%08X", crc32.Checksum(payload, crc32.MakeTable(crc32.Castagnoli)))
	const sha = "66840dda154e8a113c31dd0ad32f7f3a366a80e8136979d8f5a101d3d29d6f72"
	for _, c := range []struct {
		name, digest string
		strict       bool
		want         error // of Verify
	}{
		{"crc32c", "crc32c:0x" + sum, true, nil},
		{"sha256", "sha256:" + sha, true, nil},
		{"lower-case hex", "crc32c:0x" + strings.ToLower(sum), false, nil},
		{"lower-case hex, strict", "crc32c:0x" + strings.ToLower(sum), true, tensor.ErrMalformed},
		{"0X", "crc32c:0X" + sum, false, nil},
		{"no 0x", "crc32c:" + sum, false, nil},
		{"no 0x, strict", "crc32c:" + sum, true, tensor.ErrMalformed},
		{"upper-case sha256", "sha256:" + strings.ToUpper(sha), false, nil},
		{"upper-case sha256, strict", "sha256:" + strings.ToUpper(sha), true, tensor.ErrMalformed},
		{"wrong", "crc32c:0x00000000", false, tensor.ErrChecksum},
		{"wrong sha256", "sha256:" + strings.Repeat("0", 64), false, tensor.ErrChecksum},
		{"seven digits", "crc32c:0x" + sum[1:], false, tensor.ErrChecksum},
		{"nine digits", "crc32c:0x0" + sum, false, tensor.ErrMalformed},
		{"a space behind it", "crc32c:0x" + sum + " ", false, tensor.ErrMalformed},
		{"a sign", "crc32c:0x+" + sum[1:], false, tensor.ErrMalformed},
		{"no digits", "crc32c:0x", false, tensor.ErrMalformed},
		{"63 digits", "sha256:" + sha[1:], false, tensor.ErrMalformed},
		{"sha256 with 0x", "sha256:0x" + sha, false, tensor.ErrMalformed},
		{"no value", "crc32c:", false, tensor.ErrMalformed},
		{"no colon", "crc32c", false, tensor.ErrMalformed},
		{"no algorithm", ":" + sum, false, tensor.ErrMalformed},
		{"an unknown algorithm", "md5:" + sum, false, errors.ErrUnsupported},
		{"another case of the algorithm", "CRC32C:0x" + sum, false, errors.ErrUnsupported},
	} {
		t.Run(c.name, func(t *testing.T) {
			data := good12(set("digest", c.digest))
			r, err := OpenBytes(data, &ReaderOptions{Strict: c.strict}) // never judged at open
			if err != nil {
				t.Fatal(err)
			}
			w := r.Tensor("w")
			if st, _ := w.Data.Stored(); st.Digest != c.digest {
				t.Errorf("shown as %q", st.Digest)
			}
			report, err := r.Verify(t.Context(), &tensor.VerifyOptions{Strict: c.strict})
			if c.want == nil && err != nil || !errors.Is(err, c.want) {
				t.Errorf("Verify: %v, want %v", err, c.want)
			}
			if c.want != nil && !strings.HasSuffix(report.Findings[0].Field, ".digest") {
				t.Errorf("field %q", report.Findings[0].Field)
			}
			// A stream checks it before its end, unless it cannot be checked at all.
			in, err := w.Data.Open()
			if err == nil {
				_, err = io.Copy(io.Discard, in)
			}
			if strictOnly := c.strict && errors.Is(c.want, tensor.ErrMalformed); !strictOnly && !errors.Is(c.want, errors.ErrUnsupported) && !errors.Is(err, c.want) {
				t.Errorf("Open: %v, want %v", err, c.want)
			}
		})
	}
	t.Run("an empty digest", func(t *testing.T) {
		r, err := OpenBytes(good12(set("digest", "")), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Verify(t.Context(), nil); !errors.Is(err, tensor.ErrMalformed) {
			t.Error(err)
		}
	})
}

// A strict reader checks the digest whenever bytes are read, views included.
func TestStrictReadersCheckDigests(t *testing.T) {
	data := good12(set("digest", "crc32c:0x00000000"))
	faceWith(&ReaderOptions{Strict: true}).Each(t, data, func(t *testing.T, r *Reader) {
		w := r.Tensor("w")
		if _, err := tensor.View[float32](w); !errors.Is(err, tensor.ErrChecksum) && (le.HostIsLittle || !errors.Is(err, tensor.ErrNoView)) {
			t.Errorf("View: %v", err)
		}
		if _, err := tensor.Load[float32](w); !errors.Is(err, tensor.ErrChecksum) {
			t.Errorf("Load: %v", err)
		}
		if _, err := w.Data.ReadAt(make([]byte, 1), 0); !errors.Is(err, tensor.ErrChecksum) {
			t.Errorf("ReadAt: %v", err)
		}
	})
	face.Each(t, data, func(t *testing.T, r *Reader) {
		if _, err := tensor.Load[float32](r.Tensor("w")); err != nil {
			t.Errorf("Load: %v", err)
		}
	})
}

// T13: 1.1 and 1.2 have uint64 indices. Others are read, though not by a strict
// reader: upstream takes them for uint64 whatever they say.
func TestNarrowIndices(t *testing.T) {
	index := func(offset, length int, dtype string) map[string]any {
		return map[string]any{"dtype": dtype, "offset": offset, "length": length}
	}
	for _, c := range []struct {
		scheme, dtype string
		strict        bool
		parts         map[string]any
	}{
		{"sparse_coo", "u64", true, map[string]any{"coords": index(64, 0, "u64")}},
		{"sparse_coo", "u8", false, map[string]any{"coords": index(64, 0, "u8")}},
		{"sparse_csr", "u32", false, map[string]any{"indices": index(64, 0, "u64"), "indptr": index(64, 8, "u32")}},
		{"sparse_csr", "i64", false, map[string]any{"indices": index(64, 0, "i64"), "indptr": index(64, 8, "u64")}},
		{"of_another_kind", "u8", true, map[string]any{"indices": index(64, 8, "u8"), "coords": index(64, 8, "u8")}},
	} {
		b := good12(func(t, _ map[string]any) {
			c.parts["values"] = index(64, 0, "f32")
			t["shape"], t["format"], t["components"] = []int{1, 3}, c.scheme, c.parts
		})
		if _, err := OpenBytes(b, nil); err != nil {
			t.Errorf("%s of %s: %v", c.scheme, c.dtype, err)
		}
		if _, err := OpenBytes(b, &ReaderOptions{Strict: true}); (err == nil) != c.strict || err != nil && !strings.Contains(err.Error(), ".dtype") {
			t.Errorf("%s of %s, strict: %v", c.scheme, c.dtype, err)
		}
	}
}

func TestSparseIndices(t *testing.T) {
	with := func(change func(t *tensor.Tensor)) *tensor.Tensor {
		t := csr("s", []uint64{0, 2, 2, 3}, []uint64{0, 3, 1}, 4)
		change(t)
		return t
	}
	part := func(role string, v any, d tensor.DType) func(t *tensor.Tensor) {
		return func(t *tensor.Tensor) {
			var b bytes.Buffer
			binary.Write(&b, binary.LittleEndian, v)
			*t.Part(role) = tensor.Part{Role: role, DType: d, Data: tensor.BlobOf(b.Bytes())}
		}
	}
	coo := func(shape tensor.Shape, coords any) *tensor.Tensor {
		t := with(func(t *tensor.Tensor) { t.Scheme, t.Shape = sparse.COO, shape })
		t.Parts = append(t.Parts[:1:1], tensor.Part{Role: "coords"})
		part("coords", coords, tensor.U64)(t)
		return t
	}
	for _, c := range []struct {
		name string
		t    *tensor.Tensor
		want error
	}{
		{"csr", with(func(t *tensor.Tensor) {}), nil},
		{"csr, unsorted", with(part("indices", []uint64{3, 0, 1}, tensor.U64)), nil},
		{"csr of int32 indices", with(part("indices", []int32{0, 3, 1}, tensor.I32)), nil},
		{"csr of uint8 indptr", with(part("indptr", []uint8{0, 2, 2, 3}, tensor.U8)), nil},
		{"indptr that falls", with(part("indptr", []uint64{0, 3, 2, 3}, tensor.U64)), tensor.ErrMalformed},
		{"indptr that begins with 1", with(part("indptr", []uint64{1, 2, 2, 3}, tensor.U64)), tensor.ErrMalformed},
		{"indptr that ends early", with(part("indptr", []uint64{0, 2, 2, 2}, tensor.U64)), tensor.ErrMalformed},
		{"indptr that ends late", with(part("indptr", []uint64{0, 2, 2, 4}, tensor.U64)), tensor.ErrMalformed},
		{"indptr of 2⁶⁴−1", with(part("indptr", []uint64{0, 2, 2, math.MaxUint64}, tensor.U64)), tensor.ErrMalformed},
		{"indptr too short", with(part("indptr", []uint64{0, 2, 3}, tensor.U64)), tensor.ErrMalformed},
		{"indptr too long", with(part("indptr", []uint64{0, 2, 2, 3, 3}, tensor.U64)), tensor.ErrMalformed},
		{"indptr of nothing", with(part("indptr", []uint64{}, tensor.U64)), tensor.ErrMalformed},
		{"a column too far", with(part("indices", []uint64{0, 4, 1}, tensor.U64)), tensor.ErrMalformed},
		{"a column of 2⁶⁴−1", with(part("indices", []uint64{0, math.MaxUint64, 1}, tensor.U64)), tensor.ErrMalformed},
		{"a negative column", with(part("indices", []int64{0, -1, 1}, tensor.I64)), tensor.ErrMalformed},
		{"indices that are one too few", with(part("indices", []uint64{0, 3}, tensor.U64)), tensor.ErrMalformed},
		{"indices that are one too many", with(part("indices", []uint64{0, 3, 1, 1}, tensor.U64)), tensor.ErrMalformed},
		{"half an index", with(part("indices", []byte{0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3}, tensor.U64)), tensor.ErrMalformed},
		{"indices of floats", with(part("indices", []float64{0, 3, 1}, tensor.F64)), tensor.ErrDType},
		{"values that are one too few", with(part("values", []float32{1, 2}, tensor.F32)), tensor.ErrMalformed},
		{"values that are one too many", with(part("values", []float32{1, 2, 3, 4}, tensor.F32)), tensor.ErrMalformed},
		{"half a value", with(part("values", []byte{1, 2, 3, 4, 5}, tensor.F32)), tensor.ErrMalformed},
		{"one dimension", with(func(t *tensor.Tensor) { t.Shape = tensor.Shape{3} }), tensor.ErrMalformed},
		{"three dimensions", with(func(t *tensor.Tensor) { t.Shape = tensor.Shape{3, 4, 1} }), tensor.ErrMalformed},
		{"no indptr", with(func(t *tensor.Tensor) { t.Parts = t.Parts[:2] }), tensor.ErrMalformed},
		{"no values", with(func(t *tensor.Tensor) { t.Parts = t.Parts[1:] }), tensor.ErrMalformed},
		{"2⁶² rows", with(func(t *tensor.Tensor) { t.Shape = tensor.Shape{1 << 62, 1} }), tensor.ErrMalformed},
		{"coo", coo(tensor.Shape{3, 4}, []uint64{0, 1, 2, 3, 3, 3}), nil},
		{"coo of one dimension", coo(tensor.Shape{9}, []uint64{0, 8, 4}), nil},
		{"coo too far", coo(tensor.Shape{3, 4}, []uint64{0, 1, 3, 3, 3, 3}), tensor.ErrMalformed},
		{"coo too far in the second dimension", coo(tensor.Shape{3, 4}, []uint64{0, 1, 2, 3, 4, 3}), tensor.ErrMalformed},
		{"coo one too few", coo(tensor.Shape{3, 4}, []uint64{0, 1, 2, 3, 3}), tensor.ErrMalformed},
		{"coo one too many", coo(tensor.Shape{3, 4}, []uint64{0, 1, 2, 3, 3, 3, 3}), tensor.ErrMalformed},
		{"coo of 2⁶⁴−1", coo(tensor.Shape{3, 4}, []uint64{0, 1, math.MaxUint64, 3, 3, 3}), tensor.ErrMalformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			check := func(how string, err error) {
				t.Helper()
				if c.want == nil && err != nil || !errors.Is(err, c.want) {
					t.Errorf("%s: %v, want %v", how, err, c.want)
				}
			}
			check("Check", sparse.Check(t.Context(), c.t, nil))
			_, err := sparse.Densify(t.Context(), c.t, nil)
			check("Densify", err)
			check("Add", NewWriter(io.Discard, &WriterOptions{Version: "1.0"}).Add(c.t))
			// The same out of a file, which opens in any case.
			b := append([]byte(core.Magic1), make([]byte, 56)...)
			components := map[string]any{}
			for _, p := range c.t.Parts {
				data, _ := p.Data.ReadAll()
				b = append(b, make([]byte, (64-len(b)%64)%64)...)
				word := core.StorageWord(p.DType, true)
				components[p.Role] = component12(word, len(b), len(data))
				b = append(b, data...)
			}
			shape := make([]any, len(c.t.Shape))
			for i, d := range c.t.Shape {
				shape[i] = d
			}
			r, err := OpenBytes(footed(b, manifest12(map[string]any{"s": object12(c.t.Scheme, shape, components)}), true), nil)
			if err != nil {
				t.Fatal(err)
			}
			_, err = r.Verify(t.Context(), nil)
			check("Verify", err)
		})
	}
}

// What is structural, and so listed, fails only when it is used.
func TestStructuralTensorsFailWhenUsed(t *testing.T) {
	for _, c := range []struct {
		name string
		data []byte
		load error // of Load[float32]; nil: any error will do, but there has to be one
		find tensor.Class
	}{
		{"an unknown dtype", good10(setT("dtype", "float31")), tensor.ErrDType, tensor.ClassUnsupported},
		{"an unknown dtype in 1.2", good12(set("dtype", "f31")), tensor.ErrDType, tensor.ClassUnsupported},
		{"an unknown logical type", good12(set("type", "posit32")), tensor.ErrDType, tensor.ClassUnsupported},
		{"a logical type on another storage", good12(set("type", "f8_e5m2")), tensor.ErrDType, tensor.ClassUnsupported},
		{"an unknown encoding", good12(set("encoding", "lz4")), errors.ErrUnsupported, tensor.ClassUnsupported},
		{"no data", good12(func(t, c map[string]any) { t["components"] = map[string]any{"other": c} }), tensor.ErrDType, tensor.ClassMalformed},
		{"no components", good10(setT("components", map[string]any{})), tensor.ErrMalformed, tensor.ClassMalformed},
		{"too few bytes", good10(set("length", 4)), tensor.ErrMalformed, tensor.ClassMalformed},
		{"too many bytes", good10(setT("shape", []any{1})), tensor.ErrMalformed, tensor.ClassMalformed},
		{"another uncompressed_length", good12(set("uncompressed_length", 9)), tensor.ErrMalformed, tensor.ClassMalformed},
		{"csr without its parts", good12(setT("format", "sparse_csr")), errors.ErrUnsupported, tensor.ClassMalformed},
		{"another format", good12(setT("format", "my/own")), errors.ErrUnsupported, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := OpenBytes(c.data, nil)
			if err != nil {
				t.Fatal(err)
			}
			if r.Len() != 1 {
				t.Fatal("not listed")
			}
			if _, err := tensor.Load[float32](r.Tensor("w")); !errors.Is(err, c.load) {
				t.Errorf("Load: %v, want %v", err, c.load)
			}
			report, _ := r.Verify(t.Context(), nil)
			findings := slices.DeleteFunc(report.Findings, func(f tensor.Finding) bool { return f.Severity == tensor.SeverityWarning })
			if c.find == "" && len(findings) > 0 || c.find != "" && (len(findings) == 0 || findings[0].Class != c.find) {
				t.Errorf("Verify: %v, want %q", findings, c.find)
			}
		})
	}
}

// full reports that the long form of a test is wanted.
func full() bool { return os.Getenv("TENSORFILE_FULL") != "" }

// Every cut and every bit of every golden. Where a digest
// covers the byte, no change passes unseen. TENSORFILE_FULL=1 takes all files;
// without it those above 1 KiB have every 61st bit turned over.
func TestEveryCutAndEveryBit(t *testing.T) {
	var meta, padding, data readtest.Toll
	unseen := 0
	for _, g := range goldens(t, version1...) {
		step := 1
		if len(g.data) > 1<<10 && !full() {
			step = 61
		}
		for n := 0; n < len(g.data); n += step {
			_, err := OpenBytes(g.data[:n:n], nil)
			switch {
			case err != nil:
			case g.Version == "0.1" && n == 16: // an empty file of its own
			default:
				t.Errorf("%s cut after %d bytes opens", g.name, n)
			}
		}
		b := readtest.WithCanary(g.data)
		whole, err := OpenBytes(b, nil)
		if err != nil {
			t.Fatal(err)
		}
		covers := make([]*core.Payload, len(b))
		for c := range whole.f.Payloads.All() {
			for i := c.Offset; i < c.Offset+c.Length; i++ {
				covers[i] = c
			}
		}
		note := func(toll *readtest.Toll, err error) {
			if err == nil {
				toll.Accepted++
			} else {
				toll.Refused++
			}
		}
		for bit := 0; bit < 8*len(b); bit += step {
			at := bit / 8
			b[at] ^= 1 << (bit % 8)
			if c := covers[at]; c != nil {
				// A payload: whole reads the bytes as they are now.
				err := readtest.Survives(t, func() error {
					if c.Encoded() && c.DecodedSize >= 0 {
						c.ReadInto(make([]byte, c.DecodedSize))
					}
					return c.CheckStored(func(int64) error { return nil }, nil)
				}, "%s with bit %d turned over", g.name, bit)
				if _, h, _ := c.Wanted(); h != nil && err == nil {
					unseen++
				}
				note(&data, err)
			} else {
				toll := &meta
				if at >= 8 && int64(at) < whole.f.ManifestAt {
					toll = &padding
				}
				note(toll, readtest.Survives(t, func() error {
					r, err := OpenBytes(b, nil)
					if err == nil {
						glance(r)
					}
					return err
				}, "%s with bit %d turned over", g.name, bit))
			}
			b[at] ^= 1 << (bit % 8)
		}
	}
	if unseen > 0 {
		t.Errorf("%d bits turned over under a digest, and nobody noticed", unseen)
	}
	// What the manifest says of itself is covered by nothing; this share may fall
	// and must not rise.
	t.Logf("metadata: %d damaged files, %.1f %% of which open; padding: %d, %.1f %%; payloads: %d, %.1f %% of which no digest can tell",
		meta.Accepted+meta.Refused, meta.Accepts(), padding.Accepted+padding.Refused, padding.Accepts(), data.Accepted+data.Refused, data.Accepts())
	if meta.Accepts() > 46 {
		t.Errorf("%.1f %% of damaged metadata is accepted", meta.Accepts())
	}
}

// glance looks at the metadata of everything.
func glance(r *Reader) {
	for ten := range r.Tensors() {
		ten.Check()
		ten.Size()
		r.Tensor(ten.Name)
		for _, v := range r.TensorAttributes(ten) {
			v.MarshalJSON()
		}
		ten.Data.Stored()
		ten.Data.Bytes()
		for _, p := range ten.Parts {
			p.Data.Stored()
		}
	}
	for range r.Attributes() {
	}
	r.Warnings()
}

// Every byte of the metadata set to values that break arithmetic.
func TestEveryByteOfTheMetadata(t *testing.T) {
	for _, g := range goldens(t, version1...) {
		r, err := OpenBytes(g.data, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.f.ManifestSize > 1000 && !full() {
			continue
		}
		for i, b := range readtest.ByteSets(g.data, int(r.f.ManifestAt), len(g.data), 0x00, 0x1b, 0x7f, 0x80, 0xbf, 0xff) {
			readtest.Survives(t, func() error {
				r, err := OpenBytes(b, nil)
				if err == nil {
					glance(r)
				}
				return err
			}, "%s with byte %d changed", g.name, i)
		}
	}
}

// A reader that is slow, or blocks, is not asked again once the context
// has ended.
func TestCancelling(t *testing.T) {
	data := write(t, &WriterOptions{Version: "1.0", Digest: CRC32C}, func(w *Writer) {
		for i := range 4 {
			w.Add(tensor.New(fmt.Sprint(i), tensor.Shape{8 << 20}, make([]uint8, 8<<20)))
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	var after atomic.Int64 // bytes asked for afterwards
	r, err := NewReader(readtest.ReaderFunc(func(p []byte, off int64) (int, error) {
		if off > 10<<20 && off < 30<<20 {
			cancel()
		}
		if ctx.Err() != nil {
			after.Add(int64(len(p)))
		}
		return copy(p, data[off:]), nil
	}), int64(len(data)), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Verify(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if most := int64(runtime.GOMAXPROCS(0)+1) << 21; after.Load() > most {
		t.Errorf("%d bytes read after the end of the context", after.Load())
	}
}

// Another file takes the name, or the file grows, while it is open: what
// was opened is what is read.
func TestReplacedAndExtended(t *testing.T) {
	old := write(t, &WriterOptions{Version: "1.0", Digest: CRC32C}, func(w *Writer) { w.AddAll(t.Context(), tensor.Of(samples()...)) })
	for _, noMap := range []bool{false, true} {
		if runtime.GOOS == "windows" {
			t.Skip("an open file keeps its name there")
		}
		name := store(t, old)
		r, err := Open(name, &ReaderOptions{NoMap: noMap})
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		f.Write([]byte("more"))
		f.Close()
		if _, err := r.Verify(t.Context(), nil); err != nil {
			t.Errorf("extended: %v", err)
		}
		if s, err := Open(name, nil); err == nil {
			t.Error("a file with something behind its end opens")
			s.Close()
		}
		if err := WriteFile(t.Context(), name, tensor.Of(samples()[:1]...), &WriterOptions{Version: "1.0"}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Verify(t.Context(), nil); err != nil || r.Len() != len(samples()) {
			t.Errorf("replaced: %v", err)
		}
		r.Close()
	}
}

// The file is cut off while it is open.
func TestTheFileChanges(t *testing.T) {
	data := write(t, &WriterOptions{Version: "1.0"}, func(w *Writer) {
		w.Add(tensor.New("w", tensor.Shape{1 << 20}, make([]uint8, 1<<20)))
		w.Add(tensor.New("x", tensor.Shape{1 << 20}, make([]uint8, 1<<20)))
	})
	for _, noMap := range []bool{false, true} {
		name := store(t, data)
		r, err := Open(name, &ReaderOptions{NoMap: noMap})
		if err != nil {
			t.Fatal(err)
		}
		if runtime.GOOS == "windows" && !noMap {
			r.Close()
			continue // a mapped file cannot be cut there
		}
		if err := os.Truncate(name, 1<<16); err != nil {
			t.Fatal(err)
		}
		for ten := range r.Tensors() {
			if _, err := ten.Data.ReadAll(); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s: %v", ten.Name, err)
			}
		}
		if _, err := r.Verify(t.Context(), nil); err == nil {
			t.Error("a truncated file verifies")
		}
		r.Close()
	}
}

// What is not a regular file, and what is larger than memory.
func TestNotRegularAndHuge(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(dir, nil); err == nil {
		t.Error("a folder opens")
	}
	if _, err := Open(filepath.Join(dir, "none"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if runtime.GOOS != "linux" {
		return
	}
	for _, name := range []string{"/dev/zero", "/dev/null", "/proc/self/maps"} {
		if _, err := Open(name, nil); err == nil {
			t.Errorf("%s opens", name)
		}
	}
	// A sparse file of 8 TiB: a hole for a manifest, and a manifest of holes.
	name := filepath.Join(dir, "huge")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const size = 8 << 40
	if err := f.Truncate(size); err != nil {
		t.Skip("no sparse files here:", err)
	}
	f.WriteAt([]byte(core.Magic1), 0)
	for _, n := range []int64{1 << 20, 1 << 30, 1<<30 + 1, size - 24} {
		f.WriteAt(slices.Concat(word(8, uint64(n)), []byte(core.Magic1)), size-16)
		for _, noMap := range []bool{false, true} {
			if n == 1<<30 && (noMap || testing.Short()) {
				continue // reads it all, as it may
			}
			if _, err := Open(name, &ReaderOptions{NoMap: noMap, Limits: tensor.Limits{MaxMetadata: 64 << 20}}); err == nil {
				t.Errorf("%d bytes of holes are a manifest", n)
			}
		}
	}
	// And a file beyond 32 bits whose tensors are read.
	m := encode(manifest12(map[string]any{"w": object12("dense", []any{8}, map[string]any{"data": component12("u8", 0, 8, "offset", int64(5<<30))})}))
	name = filepath.Join(dir, "large")
	g, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	const at = 6 << 30
	g.WriteAt([]byte(core.Magic1), 0)
	g.WriteAt([]byte("abcdefgh"), 5<<30)
	g.WriteAt(slices.Concat(m, word(8, uint64(len(m))), []byte(core.Magic1)), at)
	r, err := Open(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if b, err := r.Tensor("w").Data.ReadAll(); err != nil || string(b) != "abcdefgh" {
		t.Errorf("%q, %v", b, err)
	}
}

// A file that is two.
func TestPolyglots(t *testing.T) {
	valid := good12(func(t, c map[string]any) {})
	zip := append(slices.Clone(valid), "PK\x05\x06\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"...)
	if _, err := OpenBytes(zip, nil); err == nil {
		t.Error("an archive behind the footer")
	}
	hidden := slices.Clone(valid)
	copy(hidden[16:], "%PDF-1.7 hidden in the padding")
	r, err := OpenBytes(hidden, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Verify(t.Context(), nil); err != nil {
		t.Error("padding is only a warning:", err)
	}
	if _, err := r.Verify(t.Context(), &tensor.VerifyOptions{Strict: true}); !errors.Is(err, tensor.ErrMalformed) {
		t.Errorf("hidden bytes, strict: %v", err)
	}
}

// manyEntries is a file of n tensors of that many bytes each, of which the first is where data says, in units of 64.
func manyEntries(n, bytes int, name func(i int) string, data func(i int) int) []byte {
	b := raw(0xa2, "version", "1.0", "tensors")
	b = cbor.AppendHead(b, cbor.Map, uint64(n))
	for i := range n {
		b = cbor.AppendText(b, name(i))
		b = append(b, raw(0xa4, "dtype", "uint8", "shape", 0x81, 0x18, bytes, "format", "dense", "components", 0xa1, "data", 0xa2, "offset")...)
		b = cbor.AppendHead(b, cbor.Uint, uint64(64+64*data(i)))
		b = append(b, raw("length", 0x18, bytes)...)
	}
	return file10(b, 64+64*n+bytes)
}

func TestWarningsOfOverlapsAreBounded(t *testing.T) {
	b := manyEntries(20_000, 100, func(i int) string { return fmt.Sprintf("%09d", i) }, func(i int) int { return i })
	r, err := OpenBytes(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(r.Warnings()); n == 0 || n > core.MaxWarnings {
		t.Errorf("%d warnings", n)
	}
}

func TestTimeIsLinear(t *testing.T) {
	readtest.Measure(t)
	measure := func(data []byte) time.Duration {
		best := time.Hour
		for range 3 {
			start := time.Now()
			r, err := OpenBytes(data, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Warnings()
			r.Tensor("none")
			best = min(best, time.Since(start))
		}
		return best
	}
	small, large, tolerance := 10_000, 100_000, 25 // ten times the work; caches are smaller than it
	if full() {
		small, large, tolerance = 100_000, 1_000_000, 15
	}
	for name, c := range map[string]struct {
		name  func(i int) string
		order func(n int) func(i int) int
	}{
		"descending names":       {func(i int) string { return fmt.Sprintf("%09d", 999_999_999-i) }, func(n int) func(int) int { return func(i int) int { return i } }},
		"descending components":  {func(i int) string { return fmt.Sprintf("%09d", i) }, func(n int) func(int) int { return func(i int) int { return n - 1 - i } }},
		"names of long prefixes": {func(i int) string { return strings.Repeat("x", 40) + fmt.Sprint(i*7919%100_003, i) }, func(n int) func(int) int { return func(i int) int { return i } }},
	} {
		few, many := manyEntries(small, 24, c.name, c.order(small)), manyEntries(large, 24, c.name, c.order(large))
		one, ten := measure(few), measure(many)
		t.Logf("%s: %v for %d, %v for %d", name, one, small, ten, large)
		if ten > time.Duration(tolerance)*one {
			t.Errorf("%s: %v for %d entries, %v for %d", name, one, small, ten, large)
		}
	}
}
