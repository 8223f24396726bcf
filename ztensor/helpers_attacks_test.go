package ztensor

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/tensor"
	v1 "github.com/tensorfile/tensorfile/ztensor/internal/v1"
)

func attacks() []attack {
	const bad, truncated, limit, unsupported = 0, 1, 2, 3
	class := []error{tensor.ErrMalformed, io.ErrUnexpectedEOF, tensor.ErrLimit,
		errors.ErrUnsupported}
	var all []attack
	refuse := func(name string, data []byte, c int, field string) {
		all = append(all, attack{name: name, data: data, want: class[c], field: field})
	}
	strict := func(name string, data []byte, c int, field string) {
		all = append(all, attack{name: name + ", strict", data: data, strict: true, want: class[c],
			field: field})
	}
	accept := func(name string, data []byte) { all = append(all, attack{name: name, data: data}) }
	warn := func(name string, data []byte, field string) {
		all = append(all, attack{name: name, data: data, warns: true, field: field})
		strict(name, data, bad, field)
	}
	valid := good10(func(t, c map[string]any) {})
	valid12 := good12(func(t, c map[string]any) {})
	accept("a 1.0 file", valid)
	accept("a 1.2 file", valid12)
	all = append(all, attack{name: "a 1.0 file, strict", data: valid, strict: true},
		attack{name: "a 1.2 file, strict", data: valid12, strict: true})

	for _, n := range []int{0, 1, 3, 4, 7, 8, 11, 15} {
		refuse(fmt.Sprintf("%d bytes", n), valid[:n:n], truncated, "")
	}
	for _, n := range []int{39, 47, 63} {
		refuse(fmt.Sprintf("%d bytes", n), valid[:n:n], bad, "manifest_size")
	}
	refuse("magic only, and zeros", append([]byte(v1.Magic1), make([]byte, 8)...), bad,
		"manifest_size")
	refuse("the second magic alone", []byte(v1.Magic1+v1.Magic1), bad, "manifest_size")
	refuse("both magics of 1.1 and nothing",
		append(append([]byte(v1.Magic1), word(8, 1)...), v1.Magic1...), bad, "manifest_size")
	for _, magic := range []string{"ZTEN2000", "ZTEN0002", "zten1000",
		"PK\x03\x04\x00\x00\x00\x00", "\x00\x00\x00\x00\x00\x00\x00\x00"} {
		refuse(fmt.Sprintf("magic %q", magic), append([]byte(magic), valid[8:]...), bad, "magic")
	}
	version := func(v any) []byte { return file10(manifest10(map[string]any{}, "version", v), 64) }
	refuse("major version 2", version("2.0"), unsupported, "version")
	refuse("major version 0", version("0.1"), unsupported, "version")
	refuse("major version 10", version("10.0"), unsupported, "version")
	refuse("a version that is a number", version(1), bad, "version")
	refuse("a version that is null", version(nil), bad, "version")
	warn("a version that is none", version("one"), "version")
	warn("an empty version", version(""), "version")
	warn("a version with a sign", version("+1.0"), "version")
	warn("no version", file10(map[string]any{"generator": "", "attributes": map[string]any{},
		"tensors": map[string]any{}}, 64), "version")
	all = append(all, attack{name: "a later minor version", data: version("1.7"), warns: true,
		field: "version"},
		attack{name: "a later minor version, strict", data: version("1.7"), strict: true,
			want: errors.ErrUnsupported, field: "version"},
		attack{name: "version 1", data: version("1")},
		attack{name: "version 1.0.99", data: version("1.0.99")})
	refuse("a byte behind the footer", append(slices.Clone(valid), 0), bad, "manifest_size")
	refuse("a byte behind the footer of 1.2", append(slices.Clone(valid12), 0), bad,
		"manifest_size")
	refuse("a byte before the magic", append([]byte{0}, valid...), bad, "magic")
	for _, v := range []uint64{0, 1, math.MaxUint64, math.MaxUint64 - 1, math.MaxInt32, 1 << 31,
		1 << 32, 1 << 63, math.MaxInt64} {
		resized := append(slices.Clone(valid[:len(valid)-8]), word(8, v)...)
		resized12 := slices.Concat(valid12[:len(valid12)-16], word(8, v), []byte(v1.Magic1))
		field := "manifest_size"
		if v == 1 {
			field = "manifest"
		}
		refuse(fmt.Sprintf("manifest_size %d", v), resized, bad, field)
		refuse(fmt.Sprintf("manifest_size %d in 1.2", v), resized12, bad, field)
	}
	for _, v := range []uint64{math.MaxInt32, 1 << 31, 1 << 32, math.MaxInt64, 1 << 63,
		math.MaxUint64 - 1, math.MaxUint64} {
		refuse(fmt.Sprintf("offset %d", v), good10(set("offset", v)), bad,
			`tensors["w"].components["data"].length`)
		refuse(fmt.Sprintf("length %d", v), good12(set("length", v)), bad,
			`objects["w"].components["data"].length`)
		refuse(fmt.Sprintf("offset and length wrap, %d", v),
			good12(func(t, c map[string]any) { c["offset"], c["length"] = v, -v }), bad, ".length")
	}
	size := uint64(len(valid))
	refuse("the offset is the file's size", good10(set("offset", size)), bad, ".length")
	accept("nothing at the file's size",
		good10(func(t, c map[string]any) {
			c["offset"], c["length"], t["shape"] = size-size%64, 0, []any{0}
		}))
	refuse("nothing beyond the file's size",
		good10(func(t, c map[string]any) {
			c["offset"], c["length"], t["shape"] = size+64, 0, []any{0}
		}), bad, ".length")
	for _, shape := range [][]any{{uint64(1) << 32, uint64(1) << 32},
		{uint64(4194305 * 4194305), uint64(211106198978564)},
		{uint64(math.MaxUint64), uint64(math.MaxUint64)}, {uint64(1) << 32, uint64(1) << 32, 0},
		{uint64(math.MaxUint64), 2}} {
		refuse(fmt.Sprintf("shape %v", shape), good10(setT("shape", shape)), bad,
			`tensors["w"].shape`)
		refuse(fmt.Sprintf("shape %v of an unknown format", shape),
			good12(func(t, c map[string]any) { t["shape"], t["format"] = shape, "x" }), bad,
			`objects["w"].shape`)
	}
	refuse("elements that overflow with their width",
		good10(setT("shape", []any{uint64(1) << 62})), bad, "shape")
	refuse("more elements than int64", good10(setT("shape", []any{uint64(1) << 63})), limit,
		"shape")
	accept("elements of an unknown format do not overflow with their width",
		good12(func(t, c map[string]any) {
			t["shape"], t["format"] = []any{uint64(1) << 62}, "x"
		}))
	accept("a dimension of 0 before a large one",
		good10(func(t, c map[string]any) {
			t["shape"], c["length"] = []any{0, uint64(1) << 62, uint64(1) << 62}, 0
		}))
	accept("a scalar", good10(func(t, c map[string]any) { t["shape"], c["length"] = []any{}, 4 }))
	refuse("a negative dimension", good10(setT("shape", []any{-1})), bad, "shape")
	refuse("a dimension that is a float", good10(setT("shape", []any{2.0})), bad, "shape")
	refuse("a shape that is a number", good10(setT("shape", 2)), bad, "shape")
	for _, rank := range []int{16, 17, 65, 255, 256, 1_000_000} {
		data := good10(setT("shape", slices.Repeat([]any{1}, rank)))
		if rank <= 255 {
			data = good10(func(t, c map[string]any) {
				t["shape"], c["length"] = slices.Repeat([]any{1}, rank), 4
			})
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
		entry := encode(tensor10("uint8", "dense", []any{1},
			map[string]any{"data": component10(64, 1)}))
		return file10(raw(0xa2, "version", "1.0", "tensors", 0xa2, key, entry, key, entry), 72)
	}
	refuse("a name twice", twice("w"), bad, "tensors")
	refuse("an empty name twice", twice(""), bad, "tensors")
	refuse("a name that is not UTF-8",
		file10(raw(0xa2, "version", "1.0", "tensors", 0xa1, "\xff\xfe",
			encode(tensor10("uint8", "dense", []any{0},
				map[string]any{"data": component10(64, 0)}))), 64), bad, "tensors")
	refuse("a name of 1 MiB and one",
		file10(manifest10(map[string]any{strings.Repeat("n", 1<<20+1): tensor10("uint8", "dense",
			[]any{0}, map[string]any{"data": component10(64, 0)})}), 64), limit, "tensors")
	for _, name := range []string{"", "\x00", "a\x00b", strings.Repeat("n", 1<<20), "../../x", "/",
		"\x1b[31mred", "\u202e", "CON"} {
		accept(fmt.Sprintf("name %.20q", name),
			file10(manifest10(map[string]any{name: tensor10("uint8", "dense", []any{1},
				map[string]any{"data": component10(64, 1)})}), 72))
	}
	accept("names that only Unicode takes for the same", file10(manifest10(map[string]any{
		"é": tensor10("uint8", "dense", []any{1},
			map[string]any{"data": component10(64, 1)}),
		"e\u0301": tensor10("uint8", "dense", []any{1},
			map[string]any{"data": component10(64, 1)})}), 72))

	comp := func(extra ...any) []byte {
		return file10(raw(0xa2, "version", "1.0", "tensors", 0xa1, "w", 0xa4, "dtype", "uint8",
			"shape", 0x81, 1, "format", "dense", "components", 0xa1, "data", raw(extra...)), 72)
	}
	offset := func(item ...any) []byte {
		return comp(append(append([]any{0xa2, "offset"}, item...), "length", 1)...)
	}
	const where = `tensors["w"].components["data"]`
	accept("plain", offset(0x18, 64))
	refuse("a key twice in a component",
		comp(0xa3, "offset", 0x18, 64, "length", 1, "offset", 0x18, 64), bad, where)
	refuse("an unknown key twice in a component",
		comp(0xa4, "offset", 0x18, 64, "length", 1, "x", 1, "x", 2), bad, where)
	refuse("a key twice in the root", rooted(1, "version", "1.0"), bad, "version")
	refuse("an unknown key twice in the root", rooted(2, "x", 1, "x", 2), bad, "manifest")
	refuse("a key twice in something unknown", rooted(1, "x", 0xa2, "a", 1, "a", 2), bad, "x")
	refuse("a key twice, deep in something unknown",
		rooted(1, "x", 0x82, 1, 0xa1, "y", 0xa3, 2, 0, 1, 0, 2, 0), bad, "x")
	refuse("an attribute twice", rooted(1, "attributes", 0xa2, "a", "1", "a", "2"), bad,
		"attributes")
	refuse("an attribute twice, once with a long head",
		rooted(1, "attributes", 0xa2, "a", "1", 0x78, 1, 0x61, "2"), bad, "attributes")
	refuse("a role twice", file10(raw(0xa2, "version", "1.0", "tensors", 0xa1, "w", 0xa4, "dtype",
		"uint8", "shape", 0x81, 1, "format", "x", "components", 0xa2, "r",
		encode(component10(64, 1)), "r", encode(component10(64, 1))), 72), bad, `"w"`)
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
	warn("a tag around an offset", offset(0xd9, 0x27, 0x0f, 0x18, 64), "manifest")
	refuse("a tag before the root", file10(raw(0xc0, 0xa2, "version", "1.0", "tensors", 0xa0), 64),
		bad, "manifest")
	warn("a map of indefinite length",
		file10(raw(0xbf, "version", "1.0", "tensors", 0xbf, 0xff, 0xff), 64), "manifest")
	warn("text of indefinite length",
		file10(raw(0xa2, "version", 0x7f, "1.", "0", 0xff, "tensors", 0xa0), 64), "manifest")
	refuse("indefinite text of bytes",
		file10(raw(0xa2, "version", 0x7f, 0x41, 0x31, 0xff, "tensors", 0xa0), 64), bad, "version")
	refuse("an indefinite map that does not end",
		file10(raw(0xbf, "version", "1.0", "tensors", 0xa0), 64), bad, "manifest")
	refuse("a break in a definite map", file10(raw(0xa2, "version", "1.0", 0xff, 0xa0), 64), bad,
		"manifest")
	accept("heads that are not the shortest", offset(0x1b, 0, 0, 0, 0, 0, 0, 0, 64))
	accept("nested 33 deep", rooted(1, "x", bytes.Repeat([]byte{0x81}, 33), 0))
	refuse("nested 100 deep", rooted(1, "x", bytes.Repeat([]byte{0x81}, 100), 0), limit, "x")
	refuse("nested a million deep", rooted(1, "x", bytes.Repeat([]byte{0x81}, 1_000_000), 0),
		limit, "x")
	refuse("a million maps deep", rooted(1, "x", bytes.Repeat([]byte{0xa1}, 1_000_000), 0), limit,
		"x")
	warn("a million tags", rooted(1, "x", bytes.Repeat([]byte{0xc1}, 1_000_000), 0), "manifest")
	for name, claim := range map[string][]byte{"text": {0x7b}, "bytes": {0x5b}, "an array": {0x9b},
		"a map": {0xbb}} {
		refuse(""+name+" that claims 2⁶³", rooted(1, "x", claim, 0x80, 0, 0, 0, 0, 0, 0, 0), bad,
			"x")
		refuse(""+name+" that claims 2⁶⁴−1",
			rooted(1, "x", claim, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), bad, "x")
		refuse(""+name+" that claims 2⁴⁰", rooted(1, "x", claim, 0, 0, 1, 0, 0, 0, 0, 0), bad, "x")
	}
	refuse("tensors that claim 2³²",
		file10(raw(0xa2, "version", "1.0", "tensors", 0xba, 0xff, 0xff, 0xff, 0xff), 64), bad,
		"tensors")
	refuse("bytes behind the root", file10(raw(0xa2, "version", "1.0", "tensors", 0xa0, 0), 64),
		bad, "manifest")
	warn("bytes behind the root of 1.2",
		file12(raw(0xa2, "version", "1.2.0", "objects", 0xa0, 0), 64), "manifest")
	refuse("an array for the root", file10(raw(0x80), 64), bad, "manifest")
	refuse("a reserved head", rooted(1, "x", 0x1c), bad, "x")
	refuse("a simple value in two bytes that has one", rooted(1, "x", 0xf8, 20), bad, "x")
	accept("simple values, floats and undefined",
		rooted(1, "x", 0x85, 0xf8, 0xff, 0xf9, 0x7e, 0, 0xfb, 0, 0, 0, 0, 0, 0, 0, 0, 0xf7, 0xe0))
	refuse("an integer as a key", file10(raw(0xa3, "version", "1.0", "tensors", 0xa0, 1, 1), 64),
		bad, "manifest")
	refuse("keys in other letters",
		good10(func(t, c map[string]any) { delete(c, "offset"); c["Offset"] = 64 }), bad, where)
	accept("keys in other letters next to the right ones", good10(set("OFFSET", 0)))
	refuse("a byte string for a key",
		comp(0xa3, "offset", 0x18, 64, "length", 1, 0x46, []byte("offset"), 0), bad, where)
	refuse("a byte string for a key of the root", rooted(1, 0x47, []byte("version"), "9.9"), bad,
		"")
	refuse("a byte string for text",
		file10(raw(0xa2, "version", 0x43, []byte("1.0"), "tensors", 0xa0), 64), bad, "version")

	equal := slices.Concat([]byte(v1.Magic1), raw(0xa2, "version", "1.0", "tensors", 0xa0))
	equal = append(equal, word(8, uint64(len(equal)-8))...)
	warn("the manifest's size is the file's less 16", equal, "manifest_size")
	refuse("the manifest's size is one more",
		append(slices.Clone(equal[:len(equal)-8]), word(8, uint64(len(equal)-15))...), bad,
		"manifest_size")
	refuse("a manifest one byte too long",
		append(slices.Clone(valid[:len(valid)-8]),
			word(8, binary.LittleEndian.Uint64(valid[len(valid)-8:])+1)...), bad, "manifest")
	refuse("a component in the manifest", good10(set("offset", 128)), bad, ".length")
	refuse("a component that reaches into the manifest",
		good10(func(t, c map[string]any) { t["shape"], c["length"] = []any{3}, 12 }), bad,
		".length")
	refuse("a component over the magic", good10(set("offset", 0)), bad, ".offset")
	refuse("a component over the end of the magic", good10(set("offset", 7)), bad, ".offset")
	warn("a component below 64", good10(set("offset", 8)), ".offset")
	warn("a component that is not aligned",
		good10(func(t, c map[string]any) {
			c["offset"], c["length"], t["shape"] = 65, 4, []any{1}
		}), ".offset")
	refuse("a component over the footer",
		good10(func(t, c map[string]any) { c["offset"] = size - size%64 }), bad, ".length")
	many := func(extents ...int) []byte {
		objects := map[string]any{}
		for i := 0; i < len(extents); i += 2 {
			objects[fmt.Sprint(i/2)] = object12("dense", []any{extents[i+1]},
				map[string]any{"data": component12("u8", extents[i], extents[i+1])})
		}
		return file12(manifest12(objects), 1024)
	}
	warn("components that overlap", many(64, 128, 128, 128), `objects["1"]`)
	warn("components that overlap, in another order", many(128, 128, 512, 1, 64, 65),
		`objects["0"]`)
	warn("a component within another", many(64, 256, 128, 1), `objects["1"]`)
	warn("components that begin together", many(64, 8, 64, 4), `components["data"]`)
	accept("components that are the same", many(64, 8, 64, 8))
	accept("nothing at the offset of another", many(64, 8, 64, 0))
	accept("nothing inside of another", many(64, 256, 128, 0))

	accept("0.1 with nothing in it", append([]byte(v1.Magic0), make([]byte, 8)...))
	refuse("0.1 whose last bytes are zero", append([]byte(v1.Magic0), make([]byte, 9)...), bad,
		"manifest_size")
	strict("0.1", append([]byte(v1.Magic0), make([]byte, 8)...), unsupported, "magic")
	refuse("the tail of 0.1 under 1.0", slices.Concat(data1(64), []byte{0x80}, word(8, 1)), bad,
		"manifest")
	refuse("the tail of 1.0 under 0.1", append([]byte(v1.Magic0), valid[8:]...), bad, "manifest")
	refuse("the tail of 1.2 under 0.1", append([]byte(v1.Magic0), valid12[8:]...), bad,
		"manifest_size")
	refuse("1.2 cut before its second magic, where its size looks like 1.0",
		valid12[:len(valid12)-8], truncated, "footer")
	refuse("the manifest of 1.2 in a file of 1.0", file10(manifest12(map[string]any{}), 64),
		truncated, "footer")
	warn("the manifest of 1.0 in a file of 1.2", file12(manifest10(map[string]any{}), 64),
		"footer")
	entry := func(extra ...any) []byte {
		m := with(map[string]any{"name": "w", "offset": 64, "size": 4, "dtype": "float32",
			"layout": "dense", "shape": []any{1}, "encoding": "raw"}, extra)
		return append([]byte(v1.Magic0), footed(data1(72), []any{m}, false)[8:]...)
	}
	accept("an entry of 0.1", entry())
	for _, key := range []string{"name", "offset", "size", "dtype", "layout", "shape"} {
		refuse("0.1 with null "+key, entry(key, nil), bad, "entries[0]."+key)
	}
	refuse("0.1 over its magic", entry("offset", 0), bad, "offset")
	refuse("0.1 over its index", entry("offset", 128), bad, "length")
	warn01 := attack{name: "0.1 that is not aligned", data: entry("offset", 66),
		warns: true, field: "offset"}
	all = append(all, warn01, attack{name: "0.1 with a name twice", warns: true,
		field: "entries",
		data: append([]byte(v1.Magic0),
			footed(data1(72),
				[]any{map[string]any{"name": "w", "offset": 64, "size": 1, "dtype": "uint8",
					"layout": "dense", "shape": []any{}},
					map[string]any{"name": "w", "offset": 64, "size": 1, "dtype": "uint8",
						"layout": "dense", "shape": []any{}}}, false)[8:]...)})

	refuse("T1 the dtypes of tensor and component differ", good10(set("dtype", "int32")), bad,
		".dtype")
	warn("T1 a dtype on the component in 1.0", good10(set("dtype", "float32")), "dtype")
	warn("T1 a dtype on the tensor in 1.2", good12(setT("dtype", "f32")), "dtype")
	warn("T1 the spelling of 1.2 in 1.0", good10(setT("dtype", "f32")), "tensors")
	warn("O14 an attribute that is not text", rooted(1, "attributes", 0xa1, "n", 1),
		"attributes")
	warn("a null where something may be absent", good10(set("encoding", nil)), "encoding")
	refuse("attributes that are a list", rooted(1, "attributes", 0x80), bad, "attributes")
	refuse("a generator that is a number", rooted(1, "generator", 1), bad, "generator")
	refuse("an attribute of a number", rooted(1, "attributes", 0xa1, 1, "x"), bad, "attributes")
	return all
}

// The attack list of the project's reliability plan, by its numbers. A case
// without a want opens; where strict differs from the default it has a case of
// its own.
type attack struct {
	name   string
	data   []byte
	strict bool
	want   error  // class of the error of opening; nil: opens
	field  string // in the field of the error, or of a warning
	warns  bool
}

// rooted is a 1.0 file whose manifest is a map of these raw pairs and a
// version and an empty list of tensors.
func rooted(pairs int, extra ...any) []byte {
	return file10(raw(append([]any{0xa2 + pairs, "version", "1.0", "tensors", 0xa0}, extra...)...),
		64)
}
