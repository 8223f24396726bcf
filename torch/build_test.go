package torch

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
)

var api = readtest.API[*Reader]{
	Open: func(name string, noMap bool) (*Reader, error) {
		return Open(name, &ReaderOptions{NoMap: noMap})
	},
	OpenBytes: func(b []byte) (*Reader, error) { return OpenBytes(b, nil) },
	NewReader: func(r io.ReaderAt, size int64) (*Reader, error) {
		return NewReader(r, size,
			nil)
	},
}

func golden(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("../testdata/torch/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The functions below write pickles that Python would not.

func name(module, name string) string { return "c" + module + "\n" + name + "\n" }

func integer(n int64) string { return fmt.Sprintf("I%d\n", n) }

func str(s string) string {
	return "X" + string(binary.LittleEndian.AppendUint32(nil, uint32(len(s)))) + s
}

func tup(items ...string) string { return "(" + strings.Join(items, "") + "t" }

func ints(n ...int64) string {
	b := "("
	for _, n := range n {
		b += integer(n)
	}
	return b + "t"
}

func call(f string, args ...string) string { return f + tup(args...) + "R" }

func storageOf(class, key string, count int64) string {
	return tup(str("storage"), name("torch", class), str(key), str("cpu"), integer(count)) + "Q"
}

func tensorOf(storage string, first int64, size, stride []int64) string {
	return call(name("torch._utils", "_rebuild_tensor_v2"), storage, integer(first),
		ints(size...), ints(stride...), "\x89", "N")
}

// floats is a tensor of n elements of storage 0.
func floats(n int64) string {
	return tensorOf(storageOf("FloatStorage", "0", n), 0, []int64{n}, []int64{1})
}

// dictWith is a dict of one key.
func dictWith(key, value string) string { return "}" + str(key) + value + "s" }

// A file is a member of an archive.
type file struct{ name, data string }

// archive is what torch.save writes: a pickle, storage 0 of 16 bytes, and more members.
func archive(pickle string, extra ...file) []byte {
	return zipOf(append([]file{
		{"x/data.pkl", "\x80\x02" + pickle + "."}, {"x/version", "3\n"}, {"x/data/0",
			"0123456789abcdef"},
	}, extra...)...)
}

func zipOf(files ...file) []byte { return zipBy(zip.Store, files...) }

func zipBy(method uint16, files ...file) []byte {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range files {
		m, err := w.CreateHeader(&zip.FileHeader{Name: f.name, Method: method})
		if err != nil {
			panic(err)
		}
		io.WriteString(m, f.data)
	}
	w.Close()
	return b.Bytes()
}

const legacyStart = "\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}."

// legacy is a legacy stream with a list of keys, and what follows it.
func legacy(pickle, keys, data string) []byte {
	return []byte(legacyStart + "\x80\x02" + pickle + ".\x80\x02" + keys + "." + data)
}

// legacyStorage is storage 0 in a legacy stream.
func legacyStorage(count int64) string {
	return tup(str("storage"), name("torch", "FloatStorage"), str("0"), str("cpu"),
		integer(count), "N") + "Q"
}

func count(n int64) string { return string(binary.LittleEndian.AppendUint64(nil, uint64(n))) }
