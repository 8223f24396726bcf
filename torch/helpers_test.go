package torch

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/internal/readtest/lifecycle"
	"github.com/tensorfile/tensorfile/tensor"
)

// The helpers of tests in several files.

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

// A chunkFile is an entry of a distributed checkpoint of one tensor, w.
type chunkFile struct {
	offsets, sizes []int64
	file           string
	at, length     int64
}

// metadata is the .metadata of a tensor of int16 in chunks, and further values.
func metadata(shape []int64, chunks []chunkFile, extra string) string {
	list, data := "](", "}("
	for _, c := range chunks {
		list += dataclass("ChunkStorageMetadata", "offsets", ints(c.offsets...), "sizes",
			ints(c.sizes...))
		data += dataclass("MetadataIndex", "fqn", str("w"), "offset", ints(c.offsets...), "index",
			"K\x00") + storageInfo(c.file, c.at, c.length)
	}
	properties := name(metadataModule, "TensorProperties") + ")\x81" + tup(name("torch", "int16"),
		str("strided"), "\x89", "N", "\x89") + "b"
	whole := dataclass("TensorStorageMetadata", "properties", properties, "size", ints(shape...),
		"chunks", list+"e")
	return "\x80\x02" + dataclass("Metadata", "state_dict_metadata", "}("+str("w")+whole+"u",
		"storage_data", data+extra+"u") + "."
}

// chunkArchive is the archive of a tensor of int16.
func chunkArchive(shape []int64, data string) string {
	stride := make([]int64, len(shape))
	step := int64(1)
	for i := len(shape) - 1; i >= 0; i-- {
		stride[i] = step
		step *= max(shape[i], 1)
	}
	return string(zipOf(file{"x/data.pkl", "\x80\x02" + tensorOf(storageOf("ShortStorage", "0",
		int64(len(data)/2)), 0, shape, stride) + "."},
		file{"x/version", "3"}, file{"x/data/0", data}))
}

func describe(r *Reader) string {
	var b strings.Builder
	for x := range r.Tensors() {
		fmt.Fprintln(&b, x.Name, x.DType, x.Shape, x.Scheme)
		for _, data := range append([]tensor.Part{{Data: x.Data}}, x.Parts...) {
			if data.Data.Size() > 1<<16 {
				continue
			}
			p, err := data.Data.ReadAll()
			st, _ := data.Data.Stored()
			fmt.Fprintln(&b, data.Role, p, err, st)
		}
	}
	for k, v := range r.Attributes() {
		fmt.Fprintln(&b, k, v)
	}
	fmt.Fprintln(&b, r.Warnings(), r.Version(), r.Len())
	return b.String()
}

var walk = lifecycle.Walker(describe)

var (
	osSystem  = name("os", "system")
	rebuild   = name("torch._utils", "_rebuild_tensor_v2")
	reinvoked = call(osSystem, str("id"))
)

// ndarray is what NumPy pickles.
func ndarray(shape, word, data string) string {
	return call("cnumpy.core.multiarray\n_reconstruct\n", "cnumpy\nndarray\n", ints(0), "C\x01b") +
		tup("K\x01", shape, call("cnumpy\ndtype\n", str(word), "K\x00", "K\x01"), "\x89",
			"B"+string(binary.LittleEndian.AppendUint32(nil, uint32(len(data))))+data) + "b"
}

func sum(t *testing.T, b tensor.Blob) string {
	t.Helper()
	p, err := b.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if borrowed, ok := b.Bytes(); ok && string(borrowed) != string(p) {
		t.Error("borrowed bytes differ from those that are read")
	}
	s := sha256.Sum256(p)
	return hex.EncodeToString(s[:])
}

// rowsOf returns the names of the tensors, and the attributes.
func rowsOf(t *testing.T, r *Reader) (names []string, attributes map[string]string) {
	t.Helper()
	for x := range r.Tensors() {
		names = append(names, x.Name)
	}
	return names, maps.Collect(r.Attributes())
}

func dataclass(class string, fields ...string) string {
	state := "}("
	for i := 0; i < len(fields); i += 2 {
		state += str(fields[i]) + fields[i+1]
	}
	return name(metadataModule, class) + ")\x81" + state + "ub"
}

func storageInfo(file string, at, length int64) string {
	return strings.Replace(dataclass("_StorageInfo", "relative_path", str(file), "offset",
		integer(at), "length", integer(length)),
		metadataModule, "torch.distributed.checkpoint.filesystem", 1)
}
