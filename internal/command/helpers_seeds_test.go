package command

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/pte"
	"github.com/tensorfile/tensorfile/tensor"
)

// A seed is a directory of which one file is damaged before a command reads it.
type seed struct {
	name   string // of the file in messages
	data   []byte
	file   string            // its name in the directory
	others map[string][]byte // the other files of the directory
	open   string            // what is opened: the file, another one, or "." for the directory
	tensor string            // the name of a tensor
}

// write makes the directory, with data in place of the file.
func (s *seed) write(t *testing.T, dir string, data []byte) {
	t.Helper()
	err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700),
		os.WriteFile(filepath.Join(dir, s.file), data, 0o600))
	for name, b := range s.others {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// commandLine fills in one of mutantCommands, for a seed that is written in dir.
func (s *seed) commandLine(t *testing.T, line, dir, out string) []string {
	t.Helper()
	sound, err := filepath.Abs("../../testdata")
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{
		"IN": filepath.Join(dir, s.open), "FILE": filepath.Join(dir, s.file),
		"DIR": dir, "OUT": out, "NAME": s.tensor,
		"SOUND":   filepath.Join(sound, "ztensor", "crate-1.2.3-dtypes.zt"),
		"PROGRAM": filepath.Join(sound, "pte", "export-1.5.1-external.pte"),
	}
	args := strings.Fields(line)
	for i := range args {
		args[i] = os.Expand(args[i], func(key string) string { return values[key] })
	}
	// A mutant may decode to more than the disk has.
	return append(args, "--limit-decoded-total", "256M")
}

// single is the seed of a file that is read alone.
func single(name, ext string, b []byte) *seed {
	s := &seed{name: name, data: b, file: "model" + ext, open: "model" + ext}
	if f, err := tensorfile.OpenBytes(b, nil); err == nil {
		for x := range f.Tensors() {
			s.tensor = x.Name
			break
		}
		f.Close()
	}
	return s
}

// seedsOfSet are the seeds of files that are read together, one for each file.
func seedsOfSet(dir string, files map[string][]byte, open string) (seeds []*seed) {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		others := maps.Clone(files)
		delete(others, name)
		seeds = append(seeds, &seed{
			name: dir + "/" + name, data: files[name],
			file: name, others: others, open: open, tensor: "a",
		})
	}
	return seeds
}

// filesOf reads the files of a directory whose names match.
func filesOf(t *testing.T, dir, pattern string) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(names) == 0 {
		t.Fatalf("%s in %s: %q, %v", pattern, dir, names, err)
	}
	files := map[string][]byte{}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(name)] = b
	}
	return files
}

// allSeeds are the files of testdata, what only differs from them in byte order or
// encoding, and directories of files that are read together.
func allSeeds(t *testing.T) (seeds []*seed) {
	t.Helper()
	names, files := readtest.Files(t, "../../testdata", func(b []byte) bool {
		_, err := tensorfile.Detect(bytes.NewReader(b), int64(len(b)))
		return err == nil
	})
	for i, b := range files {
		seeds = append(seeds, single(names[i], filepath.Ext(names[i]), b))
	}
	for _, name := range []string{"one.pt", "dtypes.pt", "deflated.pt", "kinds.pt"} {
		b := bigEndianArchive(t, filesOf(t, "../../testdata/torch", name)[name])
		seeds = append(seeds, single("big-endian "+name, ".pt", b))
	}
	for _, name := range []string{"crate-0.1.0-dtypes.zt", "crate-0.1.0-zstd.zt"} {
		b := bigEndianZTensor(t, filesOf(t, "../../testdata/ztensor", name)[name])
		seeds = append(seeds, single("big-endian "+name, ".zt", b))
	}
	for _, version := range []uint32{1, 2, 3} {
		name := fmt.Sprint("gguf ", version)
		seeds = append(seeds, single(name, ".gguf", quantizedGGUF(version, 4)))
	}
	dcp := filesOf(t, "../../testdata/torch/dcp", "*")
	seeds = append(seeds, seedsOfSet("dcp", dcp, ".")...)
	shards := filesOf(t, "../../testdata/torch/shards", "*.safetensors")
	seeds = append(seeds, seedsOfSet("shards", shards, ".")...)
	root := filesOf(t, "../../testdata/ztensor", "crate-2.1.1-sharded*.zt")
	seeds = append(seeds, seedsOfSet("ztensor", root, "crate-2.1.1-sharded.zt")...)
	model := modelDirectory(t)
	seeds = append(seeds, seedsOfSet("model", model, ".")...)
	return append(seeds, seedsOfSet("index", model, "model.safetensors.index.json")...)
}

// modelDirectory is a model in shards, with a configuration, manifests, and what a
// writer left that was killed.
func modelDirectory(t *testing.T) map[string][]byte {
	t.Helper()
	dir := t.TempDir()
	status, out := command(t, "split", "../../testdata/safetensors/many.safetensors",
		"-o", dir, "--max", "1500", "--name", "model")
	if status != statusOK {
		t.Fatal(out)
	}
	files := filesOf(t, dir, "*")
	var sums, tree strings.Builder
	journal := "tensorfile journal 1\nindex \"model.safetensors.index.json\"\n"
	for _, name := range slices.Sorted(maps.Keys(files)) {
		b, sum := files[name], sha256.Sum256(files[name])
		fmt.Fprintf(&sums, "%x  %s\n", sum, name)
		fmt.Fprintf(&tree, `,{"type":"file","path":%q,"size":%d,"lfs":{"oid":"%x","size":%d}}`,
			name, len(b), sum, len(b))
		temp := "." + name + ".tensorfile-tmp-0000000000001"
		journal += fmt.Sprintf("rename %q %q %d\n", temp, name, len(b))
		files[temp] = b
	}
	files["sums"] = []byte(sums.String())
	files["tree.json"] = []byte("[" + tree.String()[1:] + "]")
	files["config.json"] = []byte(`{"torch_dtype":"float32","num_hidden_layers":2,` +
		`"quantization_config":{"quant_method":"gptq","bits":4,"group_size":128}}`)
	journal += "remove \"model-00009-of-00009.safetensors\"\nend\n"
	files[".model.safetensors.index.json.tensorfile-journal"] = []byte(journal)
	return files
}

// bigEndianArchive is a checkpoint that says that its elements are big-endian.
func bigEndianArchive(t *testing.T, b []byte) []byte {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range r.File {
		m, err := w.CreateHeader(&zip.FileHeader{Name: f.Name, Method: f.Method})
		in, err2 := f.Open()
		if err = errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(f.Name, "/byteorder") {
			_, err = io.WriteString(m, "big")
		} else {
			_, err = io.Copy(m, in)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil || !bytes.Contains(out.Bytes(), []byte("byteorder")) {
		t.Fatal(err)
	}
	return out.Bytes()
}

// bigEndianZTensor is a file of version 0.1 that says that its elements are big-endian.
func bigEndianZTensor(t *testing.T, b []byte) []byte {
	t.Helper()
	end := len(b) - 8
	start := end - int(binary.LittleEndian.Uint64(b[end:]))
	var index []map[string]any
	if err := cbor.Unmarshal(b[start:end], &index); err != nil {
		t.Fatal(err)
	}
	for _, entry := range index {
		entry["data_endianness"] = "big"
	}
	text, err := cbor.Marshal(index)
	if err != nil {
		t.Fatal(err)
	}
	return binary.LittleEndian.AppendUint64(slices.Concat(b[:start], text), uint64(len(text)))
}

// quantizedGGUF has the tensor a, n rows of a block of 256 elements each in Q4_K.
func quantizedGGUF(version uint32, n uint64) []byte {
	b := binary.LittleEndian.AppendUint32([]byte("GGUF"), version)
	number := binary.LittleEndian.AppendUint64
	if version == 1 { // whose counts have half the size
		number = func(b []byte, n uint64) []byte {
			return binary.LittleEndian.AppendUint32(b, uint32(n))
		}
	}
	b = number(number(b, 1), 0)
	b = append(number(b, 1), "a\x02\x00\x00\x00"...)
	b = number(number(b, 256), n)
	b = binary.LittleEndian.AppendUint32(b, 12)
	b = binary.LittleEndian.AppendUint64(b, 0)
	b = append(b, make([]byte, -len(b)&31)...)
	for i := range 144 * n {
		b = append(b, byte(i%61))
	}
	return b
}

// pickleOf is the pickle of a dict with the tensor a, of n floats in storage 0; view
// is what a legacy stream has after the number of elements.
func pickleOf(n int, view string) string {
	text := func(s string) string { return "X" + string(rune(len(s))) + "\x00\x00\x00" + s }
	storage := "(" + text("storage") + "ctorch\nFloatStorage\n" + text("0") + text("cpu") +
		fmt.Sprintf("I%d\n", n) + view + "tQ"
	return "\x80\x02}" + text("a") + "ctorch._utils\n_rebuild_tensor_v2\n(" + storage +
		fmt.Sprintf("I0\n(I%d\nt(I1\nt\x89NtRs.", n)
}

// archiveOf is a checkpoint of n floats.
func archiveOf(t *testing.T, n int) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, m := range [][2]string{
		{"data.pkl", pickleOf(n, "")}, {"byteorder", "little"}, {"version", "3\n"},
		{"data/0", strings.Repeat("\x00\x01\x02\x3f", n)},
	} {
		f, err := w.CreateHeader(&zip.FileHeader{Name: "x/" + m[0]})
		if _, err2 := io.WriteString(f, m[1]); err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// legacyOf is a legacy stream of n floats.
func legacyOf(n int) []byte {
	const start = "\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}."
	b := []byte(start + pickleOf(n, "N") + "\x80\x02(X\x01\x00\x00\x000l.")
	b = binary.LittleEndian.AppendUint64(b, uint64(n))
	return append(b, strings.Repeat("\x00\x01\x02\x3f", n)...)
}

// programOf is a program with a constant of n floats.
func programOf(t *testing.T, n int) []byte {
	t.Helper()
	p := pte.NewBuilder()
	m := p.Method("forward")
	shape := tensor.Shape{int64(n)}
	x, y := m.Input(tensor.F32, shape), m.Tensor(tensor.F32, shape)
	a := m.Constant(tensor.New("a", shape, make([]float32, n)))
	m.Call("aten::add.out", x, a, m.Value(1), y, y)
	m.Return(y)
	name := filepath.Join(t.TempDir(), "x.pte")
	if err := p.WriteFile(t.Context(), name, nil); err != nil {
		t.Fatal(err)
	}
	return filesOf(t, filepath.Dir(name), "x.pte")["x.pte"]
}

// packageOf returns a package with the weights of a file of safetensors.
func packageOf(t *testing.T, weights string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, m := range [][2]string{{"program.ptg", "../../testdata/ptn/made-002.ptg"},
		{"program.safetensors", weights}} {
		w, err := z.CreateHeader(&zip.FileHeader{Name: m[0]})
		dir, file := filepath.Split(m[1])
		if err == nil {
			_, err = w.Write(filesOf(t, dir, file)[file])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// largeSeeds are files of some MiB, of every format: long enough to change while they
// are read.
func largeSeeds(t *testing.T) (seeds []*seed) {
	t.Helper()
	const n = 1 << 19
	data := make([]float32, n)
	for i := range data {
		data[i] = float32(i % 1000)
	}
	dir := t.TempDir()
	sound := created(t, dir, "sound.safetensors", st(safetensorsOptions),
		tensor.New("a", tensor.Shape{1 << 9, n >> 9}, data))
	for _, to := range []string{
		"x.safetensors", "x.zt --to ztensor@1.0", "x.zt --to ztensor@1.0 --level 1",
		"x.zt --to ztensor@2", "x.zt --to ztensor@2 --level 1", "x.ptd", "x.npz",
		"x.npz --compress", "x.npy", "x.rten", "x.primitiv",
	} {
		words := strings.Fields(to)
		args := []string{"convert", sound, filepath.Join(dir, words[0]), "--force", "--allow",
			"all"}
		args = append(args, words[1:]...)
		if status, out := command(t, args...); status != statusOK {
			t.Fatalf("%q: %s", args, out)
		}
		b := filesOf(t, dir, words[0])[words[0]]
		seeds = append(seeds, single(to, filepath.Ext(words[0]), b))
	}
	for kind, b := range map[string][]byte{
		".gguf": quantizedGGUF(3, n>>8), ".pt": archiveOf(t, n), ".pth": legacyOf(n),
		".pte": programOf(t, n), ".ptn": packageOf(t, sound),
		".onnx": onnxOf(n),
	} {
		seeds = append(seeds, single("large", kind, b))
	}
	seeds = append(seeds, single("large", ".pt", bigEndianArchive(t, archiveOf(t, n))))
	formats := map[tensorfile.Format]bool{}
	for _, s := range seeds {
		f, err := tensorfile.OpenBytes(s.data, nil)
		if err != nil {
			t.Fatal(s.name, s.file, err)
		}
		formats[f.Format()] = true
	}
	if len(formats) != len(tensorfile.Formats()) {
		t.Errorf("large files of %v, not of all formats", formats)
	}
	slices.SortFunc(seeds, func(a, b *seed) int {
		return strings.Compare(a.name+a.file, b.name+b.file)
	})
	return seeds
}

// onnxOf is a model with one initializer of n bytes.
func onnxOf(n int) []byte {
	field := func(number int, content ...byte) []byte {
		b := binary.AppendUvarint([]byte{byte(number<<3 | 2)}, uint64(len(content)))
		return append(b, content...)
	}
	w := binary.AppendUvarint([]byte{1 << 3}, uint64(n))
	w = append(append(w, 2<<3, 2), field(8, 'w')...) // of uint8
	w = append(w, field(9, make([]byte, n)...)...)
	opset := field(8, 2<<3, 21)
	return append(append([]byte{1 << 3, 10}, opset...), field(7, field(5, w...)...)...)
}
