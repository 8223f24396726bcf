package tensorfile

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/npz"
	"github.com/tensorfile/tensorfile/primitiv"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/pte"
	"github.com/tensorfile/tensorfile/rten"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

func TestEveryReferenceFileIsDetectedAndOpens(t *testing.T) {
	for f, names := range samples(t) {
		if len(f.Reads()) == 0 {
			continue
		}
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := Detect(bytes.NewReader(b), int64(len(b))); err != nil || got != f {
				t.Errorf("%s: detected as %v, %v", name, got, err)
				continue
			}
			file, err := Open(name, nil)
			if errors.Is(err, errors.ErrUnsupported) {
				continue
			}
			if err != nil {
				t.Error(err)
				continue
			}
			inMemory, err := OpenBytes(b, nil)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			s := file.Summary()
			if !reflect.DeepEqual(s, inMemory.Summary()) || s.Tensors != int64(file.Len()) ||
				s.Format != f || s.Size != int64(len(b)) {
				t.Errorf("%s: %v, but %v in memory", name, s, inMemory.Summary())
			}
			if !strings.HasPrefix(s.String(), f.String()) {
				t.Error(s.String())
			}
			file.Close()
			if err := file.Close(); err != nil {
				t.Errorf("%s: second Close: %v", name, err)
			}
		}
	}
}

func TestFormatsDoNotTakeEachOthersFiles(t *testing.T) {
	for f, names := range samples(t) {
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range Formats() {
				if g != f && formats[g].detect(bytes.NewReader(b), int64(len(b))) {
					t.Errorf("%s: also a %v", name, g)
				}
			}
		}
	}
}

// The fields that all formats share are written out in Options, so that they can be named
// in a literal.
func TestOptionsHaveTheFieldsOfAllFormats(t *testing.T) {
	all := reflect.TypeFor[tensor.ReadOptions]()
	for i := range all.NumField() {
		want := all.Field(i)
		if f, ok := reflect.TypeFor[Options]().FieldByName(want.Name); !ok || f.Type != want.Type {
			t.Errorf("%s is %v, not %v", want.Name, f.Type, want.Type)
		}
	}
}

// Options of the same meaning have the same name and type in every format.
func TestWriterOptionsShareTheirFields(t *testing.T) {
	types := map[string]reflect.Type{
		"Version": reflect.TypeFor[string](), "Alignment": reflect.TypeFor[int64](),
		"SegmentAlignment": reflect.TypeFor[int64](), "MaxSize": reflect.TypeFor[int64](),
		"KeepOrder": reflect.TypeFor[bool](), "NoReplace": reflect.TypeFor[bool](),
		"DryRun": reflect.TypeFor[bool](), "ID": reflect.TypeFor[string](),
		"Digest": reflect.TypeFor[ztensor.Digest](),
	}
	other := []string{"Align", "TensorAlignment", "Max", "MaxBytes", "Force", "Overwrite"}
	for _, o := range []reflect.Type{
		reflect.TypeFor[ztensor.WriterOptions](), reflect.TypeFor[pte.WriterOptions](),
		reflect.TypeFor[rten.WriterOptions](), reflect.TypeFor[safetensors.WriterOptions](),
		reflect.TypeFor[npz.WriterOptions](), reflect.TypeFor[gguf.WriterOptions](),
		reflect.TypeFor[ptd.WriterOptions](), reflect.TypeFor[primitiv.WriterOptions](),
		reflect.TypeFor[ztensor.ShardOptions](), reflect.TypeFor[safetensors.ShardOptions](),
		reflect.TypeFor[gguf.ShardOptions](), reflect.TypeFor[WriterOptions](),
	} {
		for i := range o.NumField() {
			f := o.Field(i)
			if want, ok := types[f.Name]; ok && f.Type != want {
				t.Errorf("%v.%s is %v, not %v", o, f.Name, f.Type, want)
			}
			if slices.Contains(other, f.Name) {
				t.Errorf("%v.%s has another name elsewhere", o, f.Name)
			}
		}
	}
}

// Shards of zTensor have names after the name of the file that refers to them.
func TestOpenFSFindsShards(t *testing.T) {
	dir := t.TempDir()
	ts := func() iter.Seq2[*tensor.Tensor, error] {
		return tensor.Of(tensor.New("a", tensor.Shape{3}, []uint8{1, 2, 3}),
			tensor.New("b", tensor.Shape{3}, []uint8{4, 5, 6}))
	}
	_, err1 := ztensor.WriteShards(t.Context(), filepath.Join(dir, "m.zt"), ts(),
		&ztensor.ShardOptions{MaxSize: 3})
	_, err2 := safetensors.WriteShards(t.Context(), filepath.Join(dir, "m.safetensors"), ts(),
		&safetensors.ShardOptions{MaxSize: 3})
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	onDisk := os.DirFS(filepath.Dir(dir))
	inMemory := fstest.MapFS{}
	for _, name := range []string{"m.zt", "m-00001.zt", "m-00002.zt", "m.safetensors.index.json",
		"m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		inMemory[filepath.Base(dir)+"/"+name] = &fstest.MapFile{Data: b}
	}
	for _, name := range []string{"m.zt", "m.safetensors.index.json"} {
		for how, fsys := range map[string]fs.FS{"disk": onDisk, "memory": inMemory} {
			for _, noMap := range []bool{false, true} {
				f, err := OpenFS(fsys, filepath.Base(dir)+"/"+name, &Options{NoMap: noMap})
				if err != nil {
					t.Errorf("%s, %s: %v", how, name, err)
					continue
				}
				b, err := f.Tensor("b").Data.ReadAll()
				if err != nil || string(b) != "\x04\x05\x06" {
					t.Errorf("%s, %s: %v, %v", how, name, b, err)
				}
				f.Close()
			}
		}
	}
}

func TestOpenFSClosesWhatItOpened(t *testing.T) {
	b, err := os.ReadFile("testdata/ztensor/crate-1.2.3-digests.zt")
	if err != nil {
		t.Fatal(err)
	}
	mem := fstest.MapFS{"a.zt": {Data: b}, "bad": {Data: b[:100]}}
	t.Run("a file with ReadAt", func(t *testing.T) {
		f, err := OpenFS(mem, "a.zt", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, ok := f.Sys().(*ztensor.Reader); !ok || f.Format() != ZTensor ||
			f.Version() != "1.2" || f.Len() != 8 {
			t.Errorf("%T %v", f.Sys(), f.Summary())
		}
		if _, err := f.Verify(t.Context(), nil); err != nil {
			t.Error(err)
		}
	})
	t.Run("a file without", func(t *testing.T) {
		c := &closingFS{FS: mem}
		f, err := OpenFS(c, "a.zt", nil)
		if err != nil || c.closed != c.opened {
			t.Fatal(err, c.opened, c.closed)
		}
		if v, err := tensor.Load[float32](f.Tensor("float32 crc32c")); err != nil || len(v) != 7 {
			t.Error(v, err)
		}
		if _, err := OpenFS(c, "a.zt",
			&Options{Limits: tensor.Limits{MaxDecoded: 100}}); !errors.Is(err, tensor.ErrLimit) {
			t.Error(err)
		}
	})
	t.Run("one that is damaged", func(t *testing.T) {
		if _, err := OpenFS(mem, "bad", nil); err == nil {
			t.Error("opened")
		}
	})
}

func TestLoadAllFillsTheCallersMemory(t *testing.T) {
	for _, name := range []string{"testdata/ztensor/crate-1.2.3-dtypes.zt",
		"testdata/ztensor/crate-1.2.3-zstd.zt", "testdata/safetensors/many.safetensors"} {
		f, err := Open(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string][]byte{}
		err = f.LoadAll(t.Context(), func(t *tensor.Tensor) tensor.Dst {
			if t.Data.Size() < 0 {
				return tensor.Dst{}
			}
			got[t.Name] = make([]byte, t.Data.Size())
			return tensor.IntoBytes(got[t.Name])
		})
		if err != nil {
			t.Fatal(err)
		}
		for x := range f.Tensors() {
			if want, err := x.Data.ReadAll(); err != nil || !bytes.Equal(got[x.Name], want) {
				t.Errorf("%s: %s differs, %v", name, x.Name, err)
			}
		}
		short := errors.New("asked after an error")
		err = f.LoadAll(t.Context(), func(t *tensor.Tensor) tensor.Dst {
			if t.Data.Size() < 1 {
				return tensor.Dst{}
			}
			return tensor.IntoBytes(make([]byte, t.Data.Size()-1))
		})
		if err == nil || errors.Is(err, short) {
			t.Errorf("%s: memory of the wrong size: %v", name, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := f.LoadAll(ctx,
			func(t *tensor.Tensor) tensor.Dst {
				return tensor.IntoBytes(make([]byte,
					t.Data.Size()))
			}); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		f.Close()
	}
}

func TestCapsAgreeWithWhatTheFilesHave(t *testing.T) {
	for f, names := range samples(t) {
		if f.Caps().DTypes == nil {
			continue
		}
		for _, name := range names {
			file, err := Open(name, nil)
			if err != nil {
				continue
			}
			caps := f.CapsOf(file.Version())
			if !slices.Contains(f.Writes(), file.Version()) {
				caps = f.Caps()
			}
			for x := range file.Tensors() {
				rank := len(x.Shape)
				if x.DType.Known() && !caps.Holds(x.DType) {
					t.Errorf("%s: %s is %v", name, x.Name, x.DType)
				}
				if !caps.Orders.Hold(x.Order, rank) && x.Dense() {
					t.Errorf("%s: %s has order %v", name, x.Name, x.Order)
				}
				if caps.MaxRank > 0 && rank > caps.MaxRank+1 ||
					!caps.ZeroDims && slices.Contains(x.Shape, 0) {
					t.Errorf("%s: %s is %v", name, x.Name, x.Shape)
				}
			}
			file.Close()
		}
	}
}
