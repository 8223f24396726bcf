package tensorfile

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/rten"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
)

func TestDetectionReadsTheStartOnce(t *testing.T) {
	for f, names := range samples(t) {
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			size := int64(len(b))
			c := readtest.NewCounter(b)
			if got, err := Detect(c, size); err != nil || got != f {
				t.Errorf("%s: %v, %v", name, got, err)
			}
			if size <= edgeSize && c.Calls() != 1 || f != RTen && c.Calls() > 1 {
				t.Errorf("%s: detected by %v", name, c.Reads())
			}
			c.Reset()
			in, err := NewReader(c, size, nil)
			if err != nil {
				continue
			}
			for x := range in.Tensors() {
				_ = x.Shape
			}
			if size <= edgeSize && c.Calls() != 1 {
				t.Errorf("%s: opened by %v", name, c.Reads())
			}
			if c.Bytes() > size+2*edgeSize {
				t.Errorf("%s: %d bytes read of %d: %v", name, c.Bytes(), size, c.Reads())
			}
			in.Close()
		}
	}
	text := bytes.Repeat([]byte("text "), 1<<16)
	c := readtest.NewCounter(text)
	if _, err := NewReader(c, int64(len(text)), nil); !errors.Is(err, ErrUnknownFormat) ||
		c.Calls() != 1 {
		t.Errorf("%v, by %v", err, c.Reads())
	}
}

// A .rten of version 1 has no magic number: that it opens is its detection.
func TestVersion1IsReadOnce(t *testing.T) {
	g := rten.NewGraphBuilder()
	for i := range 50 {
		g.Constant(tensor.New(fmt.Sprint("w", i), tensor.Shape{10_000}, make([]float32, 10_000)))
	}
	var out bytes.Buffer
	if err := g.Write(t.Context(), &out, &rten.WriterOptions{Version: "1"}); err != nil {
		t.Fatal(err)
	}
	size := int64(out.Len())
	c := readtest.NewCounter(out.Bytes())
	f, err := NewReader(c, size, nil)
	if err != nil || f.Format() != RTen || f.Version() != "1" {
		t.Fatal(f, err)
	}
	defer f.Close()
	if c.Bytes() > size+edgeSize {
		t.Errorf("%d bytes read of %d: %v", c.Bytes(), size, c.Reads())
	}
}

func TestEdgesReadTheEndOnce(t *testing.T) {
	b := make([]byte, 4*edgeSize)
	for i := range b {
		b[i] = byte(i * 7)
	}
	c := readtest.NewCounter(b)
	e := newEdges(c, int64(len(b)))
	read := func(off, n int64) {
		t.Helper()
		p := make([]byte, n)
		if _, err := e.ReadAt(p, off); err != nil || !bytes.Equal(p, b[off:off+n]) {
			t.Errorf("%d bytes at %d: %v", n, off, err)
		}
	}
	size := int64(len(b))
	for range 3 {
		read(size-16, 16)
		read(size-edgeSize, 100)
		read(0, edgeSize)
		read(8, 8)
	}
	if c.Calls() != 2 {
		t.Error(c.Reads())
	}
	read(edgeSize-1, 2)
	read(edgeSize, size-edgeSize)
	if c.Calls() != 4 {
		t.Error(c.Reads())
	}
	e = newEdges(c, size)
	e.opened()
	c.Reset()
	read(size-16, 16)
	if c.Bytes() != 16 {
		t.Error("a payload costs more than itself:", c.Reads())
	}
}

// manyTensors writes n tensors of size bytes into one safetensors file.
func manyTensors(t *testing.T, n, size int) []byte {
	t.Helper()
	var out bytes.Buffer
	w := safetensors.NewWriter(&out, nil)
	for i := range n {
		data := bytes.Repeat([]byte{byte(i)}, size)
		if err := w.Add(tensor.New(fmt.Sprint("t", i), tensor.Shape{int64(size)},
			data)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestLoadAllCoalescesReads(t *testing.T) {
	const n, size = 2000, 10_000
	b := manyTensors(t, n, size)
	c := readtest.NewCounter(b)
	f, err := NewReader(c, int64(len(b)), nil)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]byte{}
	load := func(skip func(i int) bool) {
		t.Helper()
		clear(got)
		c.Reset()
		i := -1
		if err := f.LoadAll(t.Context(), func(x *tensor.Tensor) tensor.Dst {
			if i++; skip(i) {
				return tensor.Dst{}
			}
			got[x.Name] = make([]byte, x.Data.Size())
			return tensor.IntoBytes(got[x.Name])
		}); err != nil {
			t.Fatal(err)
		}
		for name, p := range got {
			if want, _ := f.Tensor(name).Data.ReadAll(); !bytes.Equal(p, want) {
				t.Fatalf("%s differs", name)
			}
		}
	}
	load(func(int) bool { return false })
	if calls := c.Calls() - n; len(got) != n || calls > n*size/loadPiece+1 {
		t.Errorf("%d tensors by %d calls", len(got), calls)
	}
	load(func(i int) bool { return i%2 == 0 }) // small gaps are read over
	if calls := c.Calls() - n/2; len(got) != n/2 || calls > n*size/loadPiece+1 {
		t.Errorf("%d tensors by %d calls", len(got), calls)
	}
	load(func(i int) bool { return i%100 != 0 }) // large ones are not
	if bytes := c.Bytes(); len(got) != n/100 || bytes > 2*n/100*(size+1) {
		t.Errorf("%d tensors by %d bytes", len(got), bytes)
	}
	f.Close()
	if err := f.LoadAll(t.Context(),
		func(x *tensor.Tensor) tensor.Dst {
			return tensor.IntoBytes(make([]byte,
				size))
		}); !errors.Is(err, fs.ErrClosed) {
		t.Error("after Close:", err)
	}
}

// Converted tensors cost as few reads as others.
func TestLoadAllConverts(t *testing.T) {
	for _, name := range []string{"testdata/gguf/many.gguf",
		"testdata/safetensors/many.safetensors", "testdata/ztensor/crate-1.2.3-dtypes.zt",
		"testdata/primitiv/model-nested.primitiv"} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		c := readtest.NewCounter(b)
		far, err := NewReader(c, int64(len(b)), nil)
		if err != nil {
			t.Fatal(err)
		}
		local, err := Open(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range []*File{far, local} {
			got := map[string][]float32{}
			c.Reset()
			err := f.LoadAll(t.Context(), func(x *tensor.Tensor) tensor.Dst {
				if tensor.CanConvert(x.DType, tensor.F32) != nil && x.Dense() {
					return tensor.Dst{}
				}
				n, _ := x.Shape.Elements()
				got[x.Name] = make([]float32, n)
				return tensor.Into(got[x.Name])
			})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if calls := c.Calls(); len(got) == 0 || filepath.Ext(name) != ".zt" && calls > 2 {
				t.Errorf("%s: %d tensors by %d reads", name, len(got), calls)
			}
			for x := range local.Tensors() {
				if v, ok := got[x.Name]; ok {
					if want, err := tensor.Convert[float32](x); err != nil ||
						!slices.EqualFunc(v, want,
							func(a,
								b float32) bool {
								return math.Float32bits(a) == math.Float32bits(b)
							}) {
						t.Errorf("%s: %s: %v", name, x.Name, err)
					}
				}
			}
			for _, n := range []int64{-1, 1} { // memory of the wrong length
				err := f.LoadAll(t.Context(), func(x *tensor.Tensor) tensor.Dst {
					elements, _ := x.Shape.Elements()
					return tensor.Into(make([]float32, max(0, elements+n)))
				})
				if err == nil {
					t.Errorf("%s: %d elements too many", name, n)
				}
			}
			f.Close()
		}
	}
}

func TestLoadAllKeepsSeveralReadsInFlight(t *testing.T) {
	const n = 4
	header := `{"a":{"dtype":"U8","shape":[33554432],"data_offsets":[0,33554432]}}     `
	head := append([]byte{byte(len(header)), 0, 0, 0, 0, 0, 0, 0}, header...)
	var inFlight atomic.Int32
	all := make(chan struct{})
	r := readtest.ReaderFunc(func(p []byte, off int64) (int, error) {
		clear(p)
		if off < int64(len(head)) {
			copy(p, head[off:])
		}
		if len(p) > edgeSize {
			if inFlight.Add(1) == n {
				close(all)
			}
			select {
			case <-all:
			case <-time.After(time.Minute):
				return 0, errors.New("the reads came one after the other")
			}
		}
		return len(p), nil
	})
	f, err := NewReader(r, int64(len(head))+n*loadPiece, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := make([]byte, n*loadPiece)
	if err := f.LoadAll(t.Context(),
		func(*tensor.Tensor) tensor.Dst { return tensor.IntoBytes(p) }); err != nil {
		t.Error(err)
	}
}

func TestLoadAllBoundsWhatIsDecoded(t *testing.T) {
	for _, limit := range []int64{0, 100} {
		f, err := Open("testdata/ztensor/crate-1.2.3-zstd.zt",
			&Options{Limits: tensor.Limits{MaxDecodedTotal: limit}})
		if err != nil {
			t.Fatal(err)
		}
		err = f.LoadAll(t.Context(),
			func(x *tensor.Tensor) tensor.Dst {
				return tensor.IntoBytes(make([]byte,
					max(x.Data.Size(), 0)))
			})
		if errors.Is(err, tensor.ErrLimit) != (limit > 0) {
			t.Errorf("limit %d: %v", limit, err)
		}
		f.Close()
	}
}

func TestSummaryOfUnknownDTypesMarshals(t *testing.T) {
	header := `{"a":{"dtype":"F128","shape":[1],"data_offsets":[0,16]}}        `
	b := append([]byte{byte(len(header)), 0, 0, 0, 0, 0, 0, 0}, header...)
	f, err := OpenBytes(append(b, make([]byte, 16)...), nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(f.Summary())
	if err != nil || !strings.Contains(string(out), `"unknown":{`) {
		t.Errorf("%s, %v", out, err)
	}
	var back Summary
	if err := json.Unmarshal(out, &back); err != nil || back.ByDType[tensor.Unknown].Tensors != 1 {
		t.Error(back, err)
	}
}

func TestOpenErrorsNameTheFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "model.safetensors")
	for _, content := range []string{"", "no tensors", "\x40\x00\x00\x00\x00\x00\x00\x00{\"a\":",
		"ZTEN0001"} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, noMap := range []bool{false, true} {
			var in *FileError
			if _, err := Open(name, &Options{NoMap: noMap}); !errors.As(err, &in) ||
				in.Name != name {
				t.Errorf("%q: %v", content, err)
			}
		}
	}
	var absent *fs.PathError
	if _, err := Open(name+".absent", nil); !errors.Is(err, fs.ErrNotExist) ||
		!errors.As(err, &absent) || absent.Path != name+".absent" {
		t.Error(err)
	}
}

func TestLookupNamesAnAbsentTensor(t *testing.T) {
	f, err := OpenBytes(manyTensors(t, 2, 8), nil)
	if err != nil {
		t.Fatal(err)
	}
	if x, err := f.Lookup("t1"); err != nil || x != f.Tensor("t1") {
		t.Error(x, err)
	}
	x, err := f.Lookup("renamed")
	if x != nil || !errors.Is(err, tensor.ErrNoTensor) || errors.Is(err, fs.ErrNotExist) {
		t.Error(x, err)
	} else if !strings.Contains(err.Error(), "renamed") {
		t.Errorf("the message does not name it: %v", err)
	}
}

func TestErrorsOfOpenHaveTheName(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "broken.ptd")
	b, err := os.ReadFile("testdata/ztensor/crate-1.2.3-digests.zt")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, b[:len(b)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	_, one := Open(name, nil)
	_, fromFS := OpenFS(os.DirFS(dir), "broken.ptd", nil)
	_, three := Open(filepath.Join(dir, "absent"), nil)
	for _, err := range []error{one, fromFS} {
		var fe *FileError
		if !errors.As(err, &fe) || strings.Count(err.Error(), "broken.ptd") != 1 ||
			tensor.ClassOf(err) == tensor.ClassIO {
			t.Errorf("%v", err)
		}
	}
	if !errors.Is(three, fs.ErrNotExist) || strings.Count(three.Error(), "absent") != 1 ||
		tensor.ClassOf(three) != tensor.ClassIO {
		t.Error(three)
	}
}

func TestNoLinksRefusesFilesBehindLinks(t *testing.T) {
	dir := t.TempDir()
	snapshot := filepath.Join(dir, "snapshots", "main")
	if err := os.MkdirAll(snapshot, 0o700); err != nil {
		t.Fatal(err)
	}
	index := filepath.Join(snapshot, "m.safetensors.index.json")
	for name, b := range map[string][]byte{index: []byte(
		`{"metadata":{},"weight_map":{"t0":"a.safetensors"}}`),
		filepath.Join(dir, "blob"): manyTensors(t, 1, 64)} {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join("..", "..", "blob"),
		filepath.Join(snapshot, "a.safetensors")); err != nil {
		t.Skipf("no links here: %v", err)
	}
	for name, open := range map[string]func(o *Options) (*File, error){
		"Open": func(o *Options) (*File, error) { return Open(index, o) },
		"OpenFS": func(o *Options) (*File, error) {
			return OpenFS(os.DirFS(snapshot), filepath.Base(index), o)
		},
	} {
		f, err := open(nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		f.Close()
		if f, err := open(&Options{NoLinks: true}); err == nil {
			f.Close()
			t.Errorf("%s: a shard that is a link opens", name)
		}
	}
}

// A link out of the directory is found in the middle of a path too, and after many steps.
func TestNoLinksRefusesALinkInTheMiddleOfAPath(t *testing.T) {
	dir := t.TempDir()
	model := filepath.Join(dir, "model")
	for _, name := range []string{"outside", "model", "model/real"} {
		if err := os.Mkdir(filepath.Join(dir, filepath.FromSlash(name)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	index := `{"metadata":{},"weight_map":{"t0":"sub/a.safetensors"}}`
	for name, b := range map[string][]byte{"model/m.safetensors.index.json": []byte(index),
		"outside/a.safetensors":    manyTensors(t, 1, 64),
		"model/real/a.safetensors": manyTensors(t, 1, 64)} {
		if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), b,
			0o600); err != nil {
			t.Fatal(err)
		}
	}
	sub := filepath.Join(model, "sub")
	for _, c := range []struct {
		link   string
		inside bool
	}{
		{"real", true}, {"./real/../real", true}, {"../outside", false},
		{strings.Repeat("./", 1500) + "../outside", false},
		{filepath.Join(dir, "outside"), false},
	} {
		if err := os.Symlink(c.link, sub); err != nil {
			t.Skipf("no links here: %v", err)
		}
		for name, open := range map[string]func(o *Options) (*File, error){
			"Open": func(o *Options) (*File, error) {
				return Open(filepath.Join(model, "m.safetensors.index.json"), o)
			},
			"OpenFS": func(o *Options) (*File, error) {
				return OpenFS(os.DirFS(dir), "model/m.safetensors.index.json", o)
			},
		} {
			for _, o := range []*Options{nil, {NoLinks: true}} {
				f, err := open(o)
				if err == nil {
					f.Close()
				}
				if want := o == nil || c.inside; (err == nil) != want {
					t.Errorf("%s, NoLinks %v, a link to %.20s: %v", name, o != nil, c.link, err)
				}
			}
		}
		if err := os.Remove(sub); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOpenFSFindsShardsAndMaps(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "model")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	index := `{"metadata":{},"weight_map":{"t0":"a.safetensors"}}`
	files := map[string][]byte{"m.safetensors.index.json": []byte(index),
		"a.safetensors": manyTensors(t, 1, 64)}
	mem := fstest.MapFS{}
	for name, b := range files {
		mem["model/"+name] = &fstest.MapFile{Data: b}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, fsys := range []fs.FS{mem, &closingFS{FS: mem}, os.DirFS(filepath.Dir(dir))} {
		f, err := OpenFS(fsys, "model/m.safetensors.index.json", nil)
		if err != nil {
			t.Fatalf("%T: %v", fsys, err)
		}
		if v, err := tensor.Load[uint8](f.Tensor("t0")); err != nil || len(v) != 64 {
			t.Errorf("%T: %v, %v", fsys, v, err)
		}
		f.Close()
	}
	local, err := Open(filepath.Join(dir, "a.safetensors"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	f, err := OpenFS(os.DirFS(dir), "a.safetensors", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, want := local.Tensor("t0").Data.Bytes()
	if _, mapped := f.Tensor("t0").Data.Bytes(); mapped != want {
		t.Errorf("mapped: %v, by name %v", mapped, want)
	}
	x := f.Tensor("t0")
	f.Close()
	if _, err := x.Data.ReadAll(); !errors.Is(err, fs.ErrClosed) {
		t.Error("after Close:", err)
	}
	if _, err := OpenFS(mem, "model", nil); !errors.Is(err, fs.ErrInvalid) {
		t.Error(err)
	}
}

func TestRecognizeNamesWhatIsNoTensorFile(t *testing.T) {
	for file, want := range map[[2]string]string{
		{"", ""}: "an empty file",
		{"", "version https://git-lfs.github.com/spec/v1\noid"}: "a Git LFS pointer",
		{"", "\xef\xbb\xbf \n<!DOCTYPE html><p>"}:               "an HTML page",
		{"", "<html>"}:                               "an HTML page",
		{"", "\x1f\x8b\x08"}:                         "gzip",
		{"", "\x28\xb5\x2f\xfd\x00"}:                 "Zstandard",
		{"", "\x89HDF\r\n\x1a\n"}:                    "an HDF5 file",
		{"", "\x1c\x00\x00\x00TFL3"}:                 "a TFLite model",
		{"", "LITERTLM\x01\x00"}:                     "a LiteRT-LM bundle",
		{"", "\x80\x02}q"}:                           "a Python pickle",
		{"", strings.Repeat("\x00", 257) + "ustar"}:  "a tar archive",
		{"", "\x18\x00\x00\x00ORTM"}:                 "a model in onnxruntime's own format",
		{"", "tjgg\x03\x00\x00\x00"}:                 "before GGUF",
		{"", "PK\x03\x04"}:                           "a zip archive",
		{"", "<?xml version='1.0'?>\n<net name=''>"}: "an OpenVINO model",
		{"", "{\"error\": \"not found é"[:22]}:       "a text file",
		{"", "\x00\x01\x02"}:                         "", {"", "\x80"}: "", {"", "a\x1b[m"}: "",

		{"a/__0_0.distcp", "PK\x03\x04"}:                           "a shard of a checkpoint",
		{"u/data.pkl", "\x80\x02}q"}:                               "an unpacked checkpoint",
		{"m.mlmodel", "\x08\x04\x12"}:                              "a Core ML model",
		{"M.MLPACKAGE", ""}:                                        "an empty file",
		{"m.keras", "PK\x03\x04"}:                                  "a Keras model",
		{"m.nemo", "\x1f\x8b\x08"}:                                 "a NeMo checkpoint",
		{"m.pdparams", "\x80\x02}q"}:                               "a Paddle checkpoint",
		{"old.pkl", "(dp0\n"}:                                      "a Python pickle",
		{"v/variables.data-00000-of-00001", "\x00"}:                "a TensorFlow checkpoint",
		{"m.tflite", "version https://git-lfs.github.com/spec/v1"}: "a Git LFS pointer",
		{"m.bin", "\x00"}:                                          "",
	} {
		what, advice := Recognize(file[0], []byte(file[1]), int64(len(file[1])))
		if !strings.Contains(what, want) || (what == "") != (want == "") ||
			(advice == "") != (want == "") {
			t.Errorf("%q is %q: %q", file, what, advice)
		}
	}
	if what, _ := Recognize("dir/M.mlpackage", nil, -1); what != "a Core ML model, by its name" {
		t.Error(what)
	}
}

// A distributed checkpoint in the form of safetensors opens as one file: the committed
// one, and the one of interop/torch.sh when TENSORFILE_TORCH names its directory.
func TestShardsOfTorchOpenAsOneFile(t *testing.T) {
	dir := "testdata/torch/shards"
	if d := os.Getenv("TENSORFILE_TORCH"); d != "" {
		dir = filepath.Join(d, "shards")
	}
	raw, err := os.ReadFile(filepath.Join(dir, "all.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		Tensors map[string]struct {
			DType, SHA256 string
			Shape         tensor.Shape
		}
	}
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	f, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Format() != Torch || f.Version() != "dcp" || f.Len() != len(want.Tensors) {
		t.Errorf("%v %s, %d tensors", f.Format(), f.Version(), f.Len())
	}
	for x := range f.Tensors() {
		w := want.Tensors[x.Name]
		p, err := x.Data.ReadAll()
		sum := sha256.Sum256(p)
		if err != nil || x.DType.String() != w.DType || !x.Shape.Equal(w.Shape) ||
			hex.EncodeToString(sum[:]) != w.SHA256 {
			t.Errorf("%s: %v %v %v, torch has %+v", x.Name, x.DType, x.Shape, err, w)
		}
	}
	if _, err := f.Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

// A shard that is missing leaves a hole.
func TestMissingShardOfTorchIsMalformed(t *testing.T) {
	dir := t.TempDir()
	names, err := filepath.Glob("testdata/torch/shards/*.safetensors")
	if err != nil || len(names) < 5 {
		t.Fatal(names, err)
	}
	for _, name := range names[1:] {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(dir, nil); !errors.Is(err, tensor.ErrMalformed) {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, filepath.Base(names[0])), []byte("{"),
		0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, nil); err == nil {
		t.Error("a damaged shard was read")
	}
}

// The directory and the metadata of a distributed checkpoint are the same file.
func TestDirectoryAndMetadataOfTorchOpenTheSame(t *testing.T) {
	for _, name := range []string{"testdata/torch/dcp", "testdata/torch/dcp/.metadata"} {
		f, err := Open(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		if f.Format() != Torch || f.Len() != 4 {
			t.Errorf("%s: %v, %d tensors", name, f.Format(), f.Len())
		}
		f.Close()
	}
	if f, err := OpenFS(os.DirFS("testdata/torch"), "dcp/.metadata", nil); err != nil ||
		f.Len() != 4 {
		t.Error(err)
	} else {
		f.Close()
	}
}
