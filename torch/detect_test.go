package torch

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/tensor"
)

func TestDetectKnowsEveryContainer(t *testing.T) {
	for name, c := range map[string]struct {
		b    []byte
		want bool
	}{
		"an archive":                    {golden(t, "values.pt"), true},
		"an archive that is cut":        {golden(t, "values.pt")[:300], true},
		"an archive in another order":   {golden(t, "deflated.pt"), true},
		"TorchScript":                   {golden(t, "script.pt"), true},
		"TorchScript that is cut":       {golden(t, "script.pt")[:300], true},
		"another order that is cut":     {golden(t, "deflated.pt")[:300], true},
		"a legacy stream":               {golden(t, "legacy.pt"), true},
		"a legacy stream in protocol 4": {golden(t, "legacy4.pt"), true},
		"a legacy stream in protocol 0": {[]byte("L119547037146038801333356L\n.I1001\n."), true},
		"distributed metadata":          {golden(t, "dcp/.metadata"), true},
		"its first 96 bytes":            {golden(t, "dcp/.metadata")[:96], true},
		"a tar file of the first torch": {golden(t, "cases/old_tar.pth"), true},
		"a tar file":                    {tarFile("a.txt"), false},
		"a program of torch.export":     {golden(t, "program.pt2"), true},
		"one of torch 2.1":              {zipOf(file{oldProgram, ""}), true},
		"an archive of something else": {zipOf(file{"a/b.txt", ""}, file{"a/c.pkl", "N."}),
			false},
		"a data.pkl in another directory": {zipOf(file{"a/b", ""}, file{"c/data.pkl", "N."}),
			false},
		"a pickle": {[]byte("\x80\x02N."), false},
		"a number": {[]byte("\x80\x02K\x01."), false},
		"nothing":  {nil, false},
	} {
		if got := Detect(bytes.NewReader(c.b), int64(len(c.b))); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if _, err := OpenBytes(tarFile("storages"), nil); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}

// The directory of an archive opens as the archive, and its files are the Reader's.
func TestUnpackedArchivesOpenAsArchives(t *testing.T) {
	const dir = "../testdata/torch/cases/unpacked/z"
	if Metadata(dir) != filepath.Join(dir, "data.pkl") {
		t.Error(Metadata(dir))
	}
	for _, name := range []string{dir, dir + "/data.pkl"} {
		r, err := Open(name, &ReaderOptions{Strict: true})
		if err != nil {
			t.Fatal(err)
		}
		w, err := r.Tensor("w").Data.ReadAll()
		if st, _ := r.Tensor("w").Data.Stored(); err != nil || len(w) != 24 ||
			st.File != "data/0" || r.Version() != "unpacked" {
			t.Errorf("%v %v %v", w, err, st)
		}
		files := 0
		for _, spans := range r.ShardSpans() {
			for s := range spans {
				if files++; s.Kind != tensor.SpanTensor || s.Offset != 0 {
					t.Errorf("%+v", s)
				}
			}
		}
		if files != 2 {
			t.Errorf("%d files", files)
		}
		if err := walk(r, nil); err != nil {
			t.Error(err)
		}
	}
}

func TestUnpackedIsRefused(t *testing.T) {
	files := map[string]string{"version": "3", "byteorder": "big", "data/0": "0123456789abcdef"}
	open := func(pickle string) (*Reader, error) {
		return OpenBytes([]byte("\x80\x02"+pickle+"."), &ReaderOptions{
			Companion: func(name string) (io.ReaderAt, int64, error) {
				s, ok := files[name]
				if !ok {
					return nil, 0, fs.ErrNotExist
				}
				return strings.NewReader(s), int64(len(s)), nil
			}})
	}
	r, err := open(floats(4))
	if err != nil {
		t.Fatal(err)
	}
	if b, err := r.Tensor("tensor").Data.ReadAll(); string(b) != "32107654ba98fedc" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	for pickle, want := range map[string]error{
		storageOf("FloatStorage", "1", 4):          fs.ErrNotExist,
		storageOf("FloatStorage", "0", 5):          tensor.ErrMalformed,
		storageOf("FloatStorage", "../version", 4): tensor.ErrMalformed,
		storageOf("FloatStorage", "..", 4):         tensor.ErrMalformed,
		storageOf("FloatStorage", "", 4):           tensor.ErrMalformed,
		"X\xff\xff\xff\xffa":                       io.ErrUnexpectedEOF,
	} {
		if _, err := open(pickle); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", pickle, err, want)
		}
	}
	delete(files, "version")
	if _, err := open(floats(4)); !errors.Is(err, tensor.ErrMalformed) {
		t.Errorf("without a version: %v", err)
	}
}

// tarFile is the header of a tar file with a member of that name.
func tarFile(name string) []byte {
	b := make([]byte, 1024)
	copy(b, name)
	copy(b[257:], "ustar")
	return b
}

// Opening reads the directory, the headers of members and the pickle, and no storage.
func TestOpeningReadsNoStorage(t *testing.T) {
	const n = 1 << 20
	b := archive(tensorOf(storageOf("FloatStorage", "1", n), 0, []int64{n}, []int64{1}),
		file{"x/data/1", strings.Repeat("data", n)})
	c := readtest.NewCounter(b)
	r, err := NewReader(c, int64(len(b)), nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.Bytes() > 200<<10 || c.Calls() > 40 {
		t.Errorf("%d bytes in %d reads", c.Bytes(), c.Calls())
	}
	c.Reset()
	if p, err := r.Tensor("tensor").Data.ReadAll(); err != nil || len(p) != 4*n || c.Calls() != 1 {
		t.Errorf("%d bytes in %d reads, %v", len(p), c.Calls(), err)
	}
}

// Archives whose directories are wrong are refused.
func TestWrongDirectoriesAreRefused(t *testing.T) {
	b := archive(floats(4))
	at := bytes.LastIndex(b, []byte("PK\x01\x02"))
	set := func(off int, v ...byte) []byte {
		c := bytes.Clone(b)
		copy(c[at+off:], v)
		return c
	}
	short := zipBy(zip.Deflate, file{"x/data.pkl", floats(4) + "."}, file{"x/version", "3"},
		file{"x/data/0", "0123456789abcdef"})
	first := bytes.Index(short, []byte("PK\x01\x02"))
	short[first+24]++ // data.pkl has a byte more than it decodes to
	for name, c := range map[string]struct {
		b    []byte
		want error
	}{
		"an unknown method":                   {set(10, 99), errors.ErrUnsupported},
		"a stored member of two sizes":        {set(20, 15), tensor.ErrMalformed},
		"a member that begins in another":     {set(42, 0, 0, 0, 0), tensor.ErrMalformed},
		"a header outside of the file":        {set(42, 0, 0, 0, 1), tensor.ErrMalformed},
		"a pickle that is shorter than it is": {short, tensor.ErrMalformed},
	} {
		if _, err := OpenBytes(c.b, nil); !errors.Is(err, c.want) && !errors.Is(err,
			io.ErrUnexpectedEOF) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Names are what the file says; errors quote them.
func TestNamesAreAsInTheFile(t *testing.T) {
	names := []string{"../../etc/passwd", "a\nb", "", "\x1b[31m", "\xff"}
	pickle := "}("
	for _, n := range names {
		pickle += str(n) + floats(4)
	}
	r, err := OpenBytes(archive(pickle+"u"), nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for x := range r.Tensors() {
		got = append(got, x.Name)
	}
	if want := []string{"../../etc/passwd", "a\nb", "tensor", "\x1b[31m",
		"\uFFFD"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	_, err = OpenBytes(archive(dictWith("\x1b[31m", name("torch", "Tensor")+")\x81")), nil)
	if !errors.Is(err, tensor.ErrMalformed) || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("%q", err)
	}
}

// A memo's slots are a map: no number sizes anything.
func TestMemoSlotsSizeNothing(t *testing.T) {
	m, left := memo{}, &memory{memoryBase}
	for i, slot := range []uint64{0, 1<<32 - 1, 1, 3, 2, 3, 7} {
		if err := m.put(slot, i, left); err != nil {
			t.Fatal(err)
		}
	}
	for slot, want := range map[uint64]any{0: 0, 1: 2, 2: 4, 3: 5, 7: 6, 1<<32 - 1: 1} {
		if v, ok := m.get(slot); !ok || v != want {
			t.Errorf("slot %d is %v, want %v", slot, v, want)
		}
	}
	if _, ok := m.get(4); ok || m.len() != 6 || len(m.dense) != 4 {
		t.Errorf("%d slots, %d of them in a list", m.len(), len(m.dense))
	}
}

func TestLongIntegersDecode(t *testing.T) {
	for in, want := range map[string]any{
		"": int64(0), "\xff": int64(-1), "\x00\x01": int64(256),
		"\x00\x00\x00\x00\x00\x00\x00\x80":         int64(-1 << 63),
		"\xff\xff\xff\xff\xff\xff\xff\xff\x00":     bigInt("18446744073709551615"),
		"\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00": int64(1),
		"\xfe\xff\xff\xff\xff\xff\xff\xff\xff":     int64(-2),
		"\x00\x00\x00\x00\x00\x00\x00\x00\x01":     bigInt("0x10000000000000000"),
		"\x00\x00\x00\x00\x00\x00\x00\x00\xff":     bigInt("-0x10000000000000000"),
		"\x01\x00\x00\x00\x00\x00\x00\x80\x90":     bigInt("-0x6f7fffffffffffffff"),
	} {
		if got := longOf(in); got != want {
			t.Errorf("%q: %v, want %v", in, got, want)
		}
	}
}
