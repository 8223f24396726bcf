package onnx

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

func TestVerifyFindsWhatOpeningAccepts(t *testing.T) {
	floatType, name := num(2, 1), msg(8, "w")
	int8s := func(v ...uint64) []byte {
		return one(num(1, uint64(len(v))), num(2, 3), name, msg(int32Data, packed(v...)))
	}
	three := join(num(1, 3), floatType, msg(8, "s"), msg(rawData, "0123456789ab"))
	for what, c := range map[string]struct {
		b    []byte
		want string // of the only finding, "" for none
	}{
		"a sound tensor": {one(floats("w")), ""},
		"raw data too long": {one(num(1, 2), floatType, name, msg(rawData, "012345678")),
			`error: onnx: graph.initializer[0].raw_data at byte 0x13: 9 bytes where [2] of ` +
				`float32 takes 8`},
		"raw data too short": {one(num(1, 2), floatType, name, msg(rawData, "0")),
			`error: onnx: graph.initializer[0].raw_data at byte 0x13: 1 bytes where [2] of ` +
				`float32 takes 8`},
		"no data": {one(num(1, 2), floatType, name),
			`error: onnx: graph.initializer[0] at byte 0x8: no elements where [2] of float32 ` +
				`takes 8 bytes`},
		"no elements": {one(num(1, 0), floatType, name), ""},
		"no elements, empty": {one(num(1, 0), floatType, name, msg(rawData),
			msg(floatData)), ""},
		"data for no elements": {one(num(1, 0), floatType, name, msg(rawData, "0123")),
			`error: onnx: graph.initializer[0].raw_data at byte 0x13: 4 bytes where [0] of ` +
				`float32 takes 0`},
		"entries for no elements": {one(num(1, 0), num(2, 7), name, msg(int64Data, packed(1))),
			`error: onnx: graph.initializer[0].int64_data at byte 0x8: elements of a tensor ` +
				`that has none`},
		"too few floats": {one(num(1, 2), floatType, name, msg(floatData, "0123")),
			`error: onnx: graph.initializer[0].float_data at byte 0x13: 4 bytes where [2] of ` +
				`float32 takes 8`},
		"too few entries": {one(num(1, 3), num(2, 7), name, msg(int64Data, packed(1,
			2))), `error: onnx: graph.initializer[0].int64_data at byte 0x15: 2 entries, not 3`},
		"too many entries": {one(num(1, 1), num(2, 7), name, msg(int64Data, packed(1,
			2))), `error: onnx: graph.initializer[0].int64_data at byte 0x14: more than 1 ` +
			`entries`},
		"a cut entry": {one(num(1, 1), num(2, 7), name, msg(int64Data, "\x80")),
			`error: onnx: graph.initializer[0].int64_data at byte 0x13: unexpected EOF: a ` +
				`number does not end with its message, at byte 20`},
		"the wrong field": {one(num(1, 2), floatType, name, msg(int64Data, packed(1,
			2))), `error: onnx: graph.initializer[0].int64_data at byte 0x8: elements of ` +
			`float32 are in float_data or raw_data` + "\n" + `error: onnx: ` +
			`graph.initializer[0] at byte 0x8: no elements where [2] of float32 takes 8 ` +
			`bytes`},
		"two fields": {one(num(1, 2), floatType, name, msg(rawData, "01234567"),
			msg(floatData, "01234567")), `error: onnx: graph.initializer[0].float_data at byte ` +
			`0x8: elements in raw_data as well, which count`},
		"strings in a number": {one(num(1, 2), floatType, name, msg(rawData, "01234567"),
			msg(stringData, "x")), `error: onnx: graph.initializer[0].string_data at byte 0x8: ` +
			`strings in a tensor of float32`},
		"too few strings": {one(num(1, 2), num(2, 8), name, msg(stringData, "x")),
			`error: onnx: graph.initializer[0].string_data at byte 0x8: 1 strings where [2] has ` +
				`2`},
		"strings in raw data": {one(num(1, 2), num(2, 8), name, msg(rawData, "x")),
			`error: onnx: graph.initializer[0].data_type at byte 0x8: strings that are not in string_data`},
		"strings": {one(num(1, 2), num(2, 8), name, msg(stringData, "x"),
			msg(stringData)), ""},
		"no dtype": {one(num(1, 2), name, msg(rawData, "x")),
			`error: onnx: data of "w" at byte 0x11: unsupported operation: elements of the type ` +
				`0`},
		"an unknown dtype": {one(num(1, 2), num(2, 99), name),
			`error: onnx: graph.initializer[0].data_type at byte 0x8: unsupported operation: ` +
				`elements of the type 99 in this form`},
		"segments": {one(num(1, 2), floatType, name, msg(rawData, "01234567"),
			msg(3, num(1, 0))), `error: onnx: graph.initializer[0].segment at byte 0x8: ` +
			`unsupported operation: a tensor in segments`},
		"an entry that is cut": {int8s(300, 1),
			`warning: onnx: graph.initializer[0].int32_data at byte 0x13: entry 0 is none of ` +
				`int8: its upper bits are cut off`},
		"negative entries": {int8s(1<<64-128, 127), ""},
		"a bool of 2": {one(num(1, 2), num(2, 9), name, msg(rawData, "\x01\x02")),
			`warning: onnx: data of "w" at byte 0x13: element 1 is the bool 0x02`},
		"bits after the last of six": {one(num(1, 1), num(2, 27), name, msg(rawData, "\x40")),
			`warning: onnx: data of "w" at byte 0x13: bits after the last element are not 0`},
		"a newer version": {join(one(floats("w")), num(1, 99)),
			`warning: onnx: ir_version: unsupported operation: 99 is newer than this library, ` +
				`which knows 14`},
		"a key twice": {join(one(floats("w")), msg(14, msg(1, "k")), msg(14, msg(1, "k"),
			msg(2, "v"))), `warning: onnx: metadata_props[1]: a second value for the key "k"`},
		"an unnamed tensor": {one(floats("")),
			`warning: onnx: graph.initializer[0] at byte 0x8: it has no name`},
		"a name twice": {modelOf(msg(5, floats("w")), msg(5, floats("w"))),
			`error: onnx: graph.initializer[1] at byte 0x1b: a second value named "w"`},
		"no name twice": {modelOf(msg(5, floats("")), msg(5, floats(""))),
			"warning: onnx: graph.initializer[0] at byte 0x8: it has no name\nwarning: onnx: " +
				"graph.initializer[1] at byte 0x1a: it has no name"},
		"an attribute of another type": {modelOf(node("", "o", msg(5, msg(1, "a"), num(3, 1),
			num(20, 4)))),
			`warning: onnx: graph.node[0].attribute[0] at byte 0x8: it has values of another type than it says`},
		"an attribute of two values": {modelOf(node("", "o", msg(5, msg(1, "a"), num(3, 1),
			msg(8, packed(1)), num(20, 2)))),
			`warning: onnx: graph.node[0].attribute[0] at byte 0x8: it has values of another type than it says`},

		"a graph": {modelOf(node("x w", "h"), node("h -", "y"), msg(5, floats("w")), value(11,
			"x"), value(11, "w"), value(12, "y")), ""},
		"a name that no value has": {modelOf(node("x", "y"), value(12, "y")),
			`error: onnx: graph.node[0].input[0] at byte 0x8: there is no value named "x"`},
		"an output that no node has": {modelOf(value(12, "y")),
			`error: onnx: graph.output[0] at byte 0x8: there is no value named "y"`},
		"an output of two nodes": {modelOf(node("", "y"), node("", "y")),
			`error: onnx: graph.node[1].output[0] at byte 0x11: a second value named "y"`},
		"an output that is an input": {modelOf(node("", "x"), value(11, "x")),
			`error: onnx: graph.node[0].output[0] at byte 0x8: a second value named "x"`},
		"no operator": {modelOf(msg(1, msg(2, "y"))),
			`error: onnx: graph.node[0].op_type at byte 0x8: missing`},
		"another order": {modelOf(node("h", "y"), node("x", "h"), value(11, "x")),
			`warning: onnx: graph.node[0] at byte 0x8: it comes before node[1], whose value it ` +
				`uses`},
		"a cycle": {modelOf(node("b", "a"), node("a", "b")),
			`error: onnx: graph.node[0] at byte 0x8: it waits for nodes that wait for each other`},
		"a node by itself": {modelOf(node("a", "a")),
			`error: onnx: graph.node[0] at byte 0x8: it waits for nodes that wait for each other`},
		"a subgraph that uses values around it": {modelOf(node("x", "h"),
			node("", "y", msg(5, msg(1, "body"), msg(6, node("h k", "z"), value(12, "z"),
				msg(5, floats("k"))))), value(11, "x")), ""},
		"a subgraph that uses its own node": {modelOf(node("", "y", msg(5, msg(1, "body"),
			msg(6, node("y", "z"), value(12, "z"))))),
			`error: onnx: graph.node[0] at byte 0x8: it waits for nodes that wait for each other`},
		"a value of a subgraph": {modelOf(node("", "y", msg(5, msg(1, "body"), msg(6, node("",
			"z"), value(12, "z")))), node("z", "o")),
			`error: onnx: graph.node[1].input[0] at byte 0x29: there is no value named "z"`},
		"a function that uses the graph": {join(modelOf(value(11, "x")), msg(25, msg(1, "f"),
			msg(4, "a"), msg(7, msg(1, "a"), msg(1, "x"), msg(4, "Op")))),
			`error: onnx: functions[0].node[0].input[1] at byte 0x16: there is no value named ` +
				`"x"`},
		"training that uses the graph": {join(modelOf(msg(5, floats("w"))), msg(20, msg(2,
			node("w", "v")))), ""},

		"sparse": {modelOf(sparseOf([]uint64{2, 3}, three, join(num(1, 3), num(2,
			7), msg(int64Data, packed(0, 2, 5))))), ""},
		"sparse rows": {modelOf(sparseOf([]uint64{2, 3}, three, join(msg(1, packed(3,
			2)), num(2, 7), msg(int64Data, packed(0, 0, 0, 1, 1, 2))))), ""},
		"sparse without any": {modelOf(sparseOf([]uint64{2, 3}, join(num(1, 0), floatType,
			msg(8, "s")), nil)), ""},
		"sparse, no order": {modelOf(sparseOf([]uint64{2, 3}, three, join(num(1, 3), num(2, 7),
			msg(int64Data, packed(0, 5, 2))))),
			`error: onnx: indices of "s" at byte 0x8: the index of value 2, element 2, does not ` +
				`come after element 5`},
		"sparse, twice": {modelOf(sparseOf([]uint64{2, 3}, three, join(num(1, 3), num(2, 7),
			msg(int64Data, packed(0, 2, 2))))),
			`error: onnx: indices of "s" at byte 0x8: the index of value 2, element 2, does not ` +
				`come after element 2`},
		"sparse, beyond": {modelOf(sparseOf([]uint64{2, 3}, three, join(num(1, 3), num(2, 7),
			msg(int64Data, packed(0, 2, 6))))),
			`error: onnx: indices of "s" at byte 0x8: element 6 of 6 at 2`},
		"sparse row beyond": {modelOf(sparseOf([]uint64{2, 3}, three, join(msg(1, packed(3,
			2)), num(2, 7), msg(int64Data, packed(0, 0, 0, 1, 2, 2))))),
			`error: onnx: indices of "s" at byte 0x8: coordinate 2 of 2 in dimension 0 at 2`},
		"sparse, too few": {modelOf(sparseOf([]uint64{2, 3}, three, join(num(1, 2), num(2, 7),
			msg(int64Data, packed(0, 2))))),
			`error: onnx: graph.sparse_initializer[0].indices at byte 0x8: [2] for [3] values ` +
				`of [2 3]`},
		"sparse, int32 indices": {modelOf(sparseOf([]uint64{2, 3}, three, join(num(1, 3),
			num(2, 6), msg(int32Data, packed(0, 2, 3))))),
			`error: onnx: graph.sparse_initializer[0].indices at byte 0x8: int32, not int64`},
		"sparse without elements": {modelOf(sparseOf([]uint64{0}, join(num(1, 0), floatType,
			msg(8, "s")), nil)),
			`error: onnx: graph.sparse_initializer[0].dims at byte 0x8: [0]: a sparse tensor ` +
				`has no dimensions of 0`},
	} {
		t.Run(what, func(t *testing.T) {
			got := verify(t, c.b, false)
			if strings.Join(got, "\n") != c.want {
				t.Errorf("%s\nwant %s", strings.Join(got, "\n"), c.want)
			}
			isWarning := strings.HasPrefix(c.want, "warning")
			if _, err := OpenBytes(c.b, &ReaderOptions{Strict: true}); isWarning &&
				!slices.Contains(
					[]string{"another order", "a bool of 2", "an entry that is cut",
						"bits after the last of six"}, what) != (err != nil) {
				t.Errorf("Strict: %v", err)
			}
			// What Verify calls an error of a tensor and not of the graph is one of
			// reading.
			api.Same(t, c.b, func(r *Reader) string {
				report, _ := r.Verify(t.Context(), nil)
				return strings.Join(texts(report), "\n")
			})
		})
	}
}

// One tensor that cannot be read leaves the others.
func TestOtherTensorsAreRead(t *testing.T) {
	r, err := OpenBytes(modelOf(msg(5, num(1, 2), num(2, 1), msg(8, "bad"), msg(rawData, "1")),
		msg(5, floats("good")), msg(5, num(1, 1), num(2, 8), msg(8, "text"), msg(stringData,
			"x"))), nil)
	if err != nil {
		t.Fatal(err)
	}
	bad, good, text := r.Tensor("bad"), r.Tensor("good"), r.Tensor("text")
	if err := bad.Check(); err != nil || bad.DType != tensor.F32 {
		t.Error(err)
	}
	if _, err := bad.Data.ReadAll(); !errors.Is(err, tensor.ErrMalformed) {
		t.Error(err)
	}
	if err := bad.Data.ReadInto(make([]byte, 8)); !errors.Is(err, tensor.ErrMalformed) {
		t.Error(err)
	}
	if v, err := tensor.Load[float32](good); err != nil || len(v) != 2 {
		t.Error(v, err)
	}
	st, _ := text.Data.Stored()
	if b, err := text.Data.ReadAll(); err != nil || string(b) != "2\x01x" || st.Type != "string" ||
		st.Encoding != "string_data" || text.DType != tensor.Unknown || text.Check() != nil {
		t.Error(st, err)
	}
}

func TestVerifyEndsWithItsContext(t *testing.T) {
	r, err := OpenBytes(one(floats("w")), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Verify(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	last := int64(0)
	if _, err := r.Verify(t.Context(), &tensor.VerifyOptions{Progress: func(done, total int64) {
		if last = done; total != 8 {
			t.Error(total)
		}
	}}); err != nil || last != 8 {
		t.Error(last, err)
	}
}

// inFile is a tensor of n bytes in another file.
func inFile(name string, n uint64, kv ...string) []byte {
	return msg(5, num(1, n), num(2, 2), msg(8, name), num(14, 1), pairs(kv...))
}

func TestExternalDataStayInTheDirectory(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777),
			os.WriteFile(path, []byte(content), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	write("w.bin", "0123456789")
	write("a/b/w", "abcdef")
	write("w..bin", "dots")
	write("../outside", "secret")
	const sum = "87acec17cd9dcd20a716cc2cf67417b71c8a7016" // SHA-1 of w.bin
	for what, c := range map[string]struct {
		tensor []byte
		want   string // the bytes
		err    string // of reading
		found  string // by Verify, if it is not err
	}{
		"a range": {tensor: inFile("w", 3, "location", "w.bin", "offset", "2",
			"length", "3"), want: "234"},
		"no offset": {tensor: inFile("w", 3, "location", "w.bin", "length", "3"),
			want: "012"},
		"no length": {tensor: inFile("w", 3, "location", "w.bin", "offset", "7"),
			want: "789"},
		"below":          {tensor: inFile("w", 6, "location", "./a//b/w"), want: "abcdef"},
		"two dots in it": {tensor: inFile("w", 4, "location", "w..bin"), want: "dots"},
		"the last key": {tensor: inFile("w", 3, "location", "x", "location", "w.bin",
			"offset", "9", "offset", "1"), want: "123"},
		"no elements": {tensor: inFile("w", 0, "location", "w.bin", "offset", "10"),
			want: ""},
		"other keys": {tensor: inFile("w", 1, "location", "w.bin", "basepath", "/",
			"note", "x"), want: "0", found: `warning: onnx: external_data of "w" at byte 0x8: ` +
			`the key "note" has no meaning`},
		"missing": {tensor: inFile("w", 3, "location", "none"),
			err: `onnx: external_data of "w" at byte 0x8: missing-shard: stat DIR/none: no such ` +
				`file or directory`},
		"missing and empty": {tensor: inFile("w", 0, "location", "none"), want: "",
			found: `error: onnx: external_data of "w" at byte 0x8: missing-shard: stat ` +
				`DIR/none: no such file or directory`},
		"beyond the end": {tensor: inFile("w", 3, "location", "w.bin", "offset", "8"),
			err: `onnx: external_data of "w" at byte 0x8: truncated: unexpected EOF: 3 bytes at ` +
				`8 of "w.bin", which has 10`},
		"far beyond": {tensor: inFile("w", 1<<62, "location", "w.bin", "offset",
			"9223372036854775807"), err: `onnx: external_data of "w" at byte 0x8: truncated: ` +
			`unexpected EOF: 4611686018427387904 bytes at 9223372036854775807 of "w.bin", ` +
			`which has 10`},
		"another length": {tensor: inFile("w", 3, "location", "w.bin", "length", "4"),
			err: `onnx: graph.initializer[0].external_data at byte 0x8: length 4 where [3] of ` +
				`uint8 takes 3`},
		"a negative offset": {tensor: inFile("w", 3, "location", "w.bin", "offset", "-1"),
			err: `onnx: graph.initializer[0].external_data at byte 0x26: offset: "-1" is no ` +
				`number`},
		"a number with a +": {tensor: inFile("w", 3, "location", "w.bin", "length", "+3"),
			err: `onnx: graph.initializer[0].external_data at byte 0x26: length: "+3" is no ` +
				`number`},
		"no number": {tensor: inFile("w", 3, "location", "w.bin", "offset", ""),
			err: `onnx: graph.initializer[0].external_data at byte 0x26: offset: no number`},
		"2^63": {tensor: inFile("w", 3, "location", "w.bin", "offset",
			"9223372036854775808"), err: `onnx: graph.initializer[0].external_data at byte ` +
			`0x26: offset: "9223372036854775808" is beyond every file`},
		"no location": {tensor: inFile("w", 3, "offset", "0"),
			err: `onnx: graph.initializer[0].external_data at byte 0x8: unsafe-path: the ` +
				`location "": no file is named`},
		"up": {tensor: inFile("w", 3, "location", "../outside"),
			err: `onnx: graph.initializer[0].external_data at byte 0x13: unsafe-path: the ` +
				`location "../outside": it leads out of the directory`},
		"up and down": {tensor: inFile("w", 3, "location", "a/../w.bin"),
			err: `onnx: graph.initializer[0].external_data at byte 0x13: unsafe-path: the ` +
				`location "a/../w.bin": it leads out of the directory`},
		"absolute": {tensor: inFile("w", 3, "location", "/etc/passwd"),
			err: `onnx: graph.initializer[0].external_data at byte 0x13: unsafe-path: the ` +
				`location "/etc/passwd": it leads out of the directory`},
		"a NUL": {tensor: inFile("w", 3, "location", "w.bin\x00x"),
			err: `onnx: graph.initializer[0].external_data at byte 0x13: unsafe-path: the ` +
				`location "w.bin\x00x": a backslash, a drive or a NUL`},
		"a backslash": {tensor: inFile("w", 3, "location", `a\b`),
			err: `onnx: graph.initializer[0].external_data at byte 0x13: unsafe-path: the ` +
				`location "a\\b": a backslash, a drive or a NUL`},
		"a drive": {tensor: inFile("w", 3, "location", `C:w`),
			err: `onnx: graph.initializer[0].external_data at byte 0x13: unsafe-path: the ` +
				`location "C:w": a backslash, a drive or a NUL`},
		"the directory": {tensor: inFile("w", 3, "location", `.`),
			err: `onnx: graph.initializer[0].external_data at byte 0x13: unsafe-path: the ` +
				`location ".": a directory`},
		"a directory": {tensor: inFile("w", 3, "location", `a/b`),
			err: `onnx: external_data of "w" at byte 0x8: missing-shard: open DIR/a/b: invalid ` +
				`argument: a directory`},
		"inside as well": {tensor: msg(5, num(1, 3), num(2, 2), msg(rawData, "xyz"), num(14,
			1), pairs("location", "w.bin"), msg(8, "w")),
			err: `onnx: graph.initializer[0].external_data at byte 0x8: elements in the file ` +
				`and in another one`},
		"not declared": {tensor: msg(5, num(1, 3), num(2, 2), msg(rawData, "xyz"),
			pairs("location", "/etc/passwd"), msg(8, "w")), want: "xyz"},
		"a string": {tensor: msg(5, num(1, 1), num(2, 8), msg(8, "w"), num(14, 1),
			pairs("location", "w.bin")), err: `onnx: graph.initializer[0].data_type at byte 0x8: ` +
			`strings that are not in string_data`},
		"a checksum": {tensor: inFile("w", 3, "location", "w.bin", "checksum", sum),
			want: "012"},
		"another checksum": {tensor: inFile("w", 3, "location", "w.bin", "checksum",
			strings.Repeat("0", 40)), want: "012",
			found: `error: onnx: external_data of "w" at byte 0x8: checksum mismatch: the SHA-1 ` +
				`of "w.bin" is ` + sum + `, not "` + strings.Repeat("0", 40) + `"`},
	} {
		t.Run(what, func(t *testing.T) {
			name := filepath.Join(dir, "model.onnx")
			if err := os.WriteFile(name, modelOf(c.tensor), 0o666); err != nil {
				t.Fatal(err)
			}
			for _, noMap := range []bool{false, true} {
				r, err := Open(name, &ReaderOptions{NoMap: noMap})
				if err != nil {
					t.Fatal(err)
				}
				tidy := func(s string) string { return strings.ReplaceAll(s, dir, "DIR") }
				b, err := r.Tensor("w").Data.ReadAll()
				switch {
				case c.err != "" && (err == nil || tidy(err.Error()) != c.err):
					t.Errorf("read: %v\nwant  %s", err, c.err)
				case c.err == "" && (err != nil || string(b) != c.want):
					t.Errorf("%q, %v; want %q", b, err, c.want)
				}
				want := c.found
				if c.err != "" && want == "" {
					want = "error: " + c.err
				}
				strict := strings.Contains(what, "checksum")
				report, _ := r.Verify(t.Context(), &tensor.VerifyOptions{Strict: strict})
				got := strings.Join(texts(report), "\n")
				if what == "other keys" { // as a warning of opening
					got, _, _ = strings.Cut(got, "\n")
				}
				if tidy(got) != want {
					t.Errorf("found %s\nwant  %s", tidy(got), want)
				}
				if err := r.Close(); err != nil {
					t.Error(err)
				}
				if _, err := r.Tensor("w").Data.ReadAll(); err == nil && c.want != "" {
					t.Error("read after Close")
				}
			}
		})
	}
}

func TestDataFilesAreOpenedOnceAndLate(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "w.bin"), make([]byte, 100), 0o666); err != nil {
		t.Fatal(err)
	}
	var g []byte
	for i := range 50 {
		g = append(g, inFile(string(rune('A'+i)), 2, "location", "w.bin", "offset", "10")...)
	}
	opens := 0
	o := &ReaderOptions{}
	o.Companion = func(name string) (io.ReaderAt, int64, error) {
		opens++
		return readerOf(make([]byte, 100)), 100, nil
	}
	r, err := OpenBytes(modelOf(g), o)
	if err != nil || opens != 0 {
		t.Fatal(opens, err)
	}
	for x := range r.Tensors() {
		if _, err := x.Data.ReadAll(); err != nil {
			t.Fatal(err)
		}
		if st, _ := x.Data.Stored(); st.File != "w.bin" || st.Offset != 10 || st.Size != 2 {
			t.Error(st)
		}
	}
	if findings := texts(first(r.Verify(t.Context(), nil))); opens != 1 || len(findings) != 0 {
		t.Errorf("opened %d times, %v", opens, findings)
	}
	if got := r.DataFiles(); len(got) != 1 || got[0] != (DataFile{Name: "w.bin", Size: 100,
		Tensors: 50,
		Bytes:   2, Alignment: 2, End: 12}) {
		t.Error(got)
	}
	if x, y := r.Tensor("A").Data.Identity(), r.Tensor("B").Data.Identity(); x != y || x == nil {
		t.Error("tied tensors have two identities")
	}
}

func first(report *tensor.Report, _ error) *tensor.Report { return report }

func TestOverlappingDataIsAWarning(t *testing.T) {
	companion := func(string) (io.ReaderAt, int64, error) {
		return readerOf(make([]byte, 100)),
			100, nil
	}
	b := modelOf(inFile("a", 10, "location", "w"), inFile("b", 10, "location", "w", "offset", "9"),
		inFile("c", 10, "location", "w", "offset", "9"), inFile("d", 10, "location", "w",
			"offset", "19"),
		inFile("e", 10, "location", "v"))
	r, err := OpenBytes(b, &ReaderOptions{Companion: companion})
	if err != nil {
		t.Fatal(err)
	}
	report, err := r.Verify(t.Context(), nil)
	if err != nil || len(report.Findings) != 1 || report.Findings[0].Code != "overlapping-data" ||
		!strings.Contains(report.Findings[0].String(),
			`"b" at byte 0x23: overlapping-data: bytes 9 to 19 of "w" are also data of "a"`) {
		t.Error(texts(report), err)
	}
}

func TestMissingDataIsAWarningOfOpening(t *testing.T) {
	b := modelOf(inFile("a", 1, "location", "w"), inFile("b", 1, "location", "w"))
	r, err := OpenBytes(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	if w := r.Warnings(); len(w) != 1 || !strings.Contains(w[0].Error(), `"w"`) {
		t.Error(w)
	}
	if _, err := OpenBytes(b, &ReaderOptions{Strict: true}); err == nil {
		t.Error("Strict opened it")
	}
}
