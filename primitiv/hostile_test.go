package primitiv_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/primitiv"
	"github.com/tensorfile/tensorfile/tensor"
)

// Every truncation, every bit, bytes set; whatever is still accepted can be walked and
// written.
func TestDamagedFilesAreReadAndWrittenOrRefused(t *testing.T) {
	files, _ := goldens(t)
	var cut, changed readtest.Toll
	for name, data := range files {
		if len(data) > 1<<10 {
			continue // the 64 KiB one is data but for 41 bytes
		}
		a, b := readtest.Damage(t, data, 0, len(data), func(b []byte) error {
			r, err := primitiv.OpenBytes(b, nil)
			if err != nil {
				var fe *tensor.FormatError
				if !errors.As(err, &fe) || fe.Offset < 0 || fe.Offset > int64(len(b)) {
					t.Fatalf("%s: %v", name, err)
				}
				return err
			}
			if err := walk(r); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return nil
		})
		if a.Accepted > 0 {
			t.Errorf("%s: a part of it is accepted", name)
		}
		cut.Refused += a.Refused
		changed.Accepted += b.Accepted
		changed.Refused += b.Refused
	}
	t.Logf("%d truncations refused; of %d changes %.1f %% are accepted: the format has no digest",
		cut.Refused, changed.Accepted+changed.Refused, changed.Accepts())
	if changed.Accepts() > 70 {
		t.Error("more than there should be")
	}
}

func TestNegativeSizesAreErrors(t *testing.T) {
	if _, err := primitiv.NewReader(strings.NewReader("x"), -1, nil); err == nil {
		t.Error("a negative size")
	}
}

// It is written over, longer, replaced or gone; what was read when it was opened stays.
func TestOpenFilesSurviveAChangeOfTheFile(t *testing.T) {
	files, _ := goldens(t)
	data := files["model-nested.primitiv"]
	names := func(r *primitiv.Reader) (all []string) {
		for x := range r.Tensors() {
			all = append(all, fmt.Sprint(x.Name, x.Shape, x.Order, x.Size()))
		}
		return all
	}
	for what, change := range map[string]func(name string) error{
		"written over": func(name string) error {
			return os.WriteFile(name, bytes.Repeat([]byte{0xff}, len(data)), 0o666)
		},
		"longer": func(name string) error {
			return os.WriteFile(name, append(bytes.Clone(data), data...), 0o666)
		},
		"replaced": func(name string) error {
			if err := os.WriteFile(name+".new", files["parameter-scalar.primitiv"],
				0o666); err != nil {
				return err
			}
			return os.Rename(name+".new", name)
		},
		"gone": os.Remove,
	} {
		for _, noMap := range []bool{false, true} {
			name := filepath.Join(t.TempDir(), "f")
			if err := os.WriteFile(name, data, 0o666); err != nil {
				t.Fatal(err)
			}
			r, err := primitiv.Open(name, &primitiv.ReaderOptions{NoMap: noMap})
			if err != nil {
				t.Fatal(err)
			}
			before := names(r)
			if err := change(name); err != nil {
				t.Logf("%s: not here: %v", what, err) // an open file on windows
			}
			if after := names(r); !slices.Equal(after, before) {
				t.Errorf("%s, NoMap %v: %v, it was %v", what, noMap, after, before)
			}
			for x := range r.Tensors() {
				b, err := x.Data.ReadAll()
				if what != "written over" && (err != nil || int64(len(b)) != x.Size()) {
					t.Errorf("%s, NoMap %v: %s: %d bytes, %v", what, noMap, x.Name, len(b), err)
				}
			}
			r.Close()
		}
	}
}

// Files that are not regular.
func TestOpenRefusesIrregularFiles(t *testing.T) {
	dir := t.TempDir()
	if socket, err := net.Listen("unix", filepath.Join(dir, "socket")); err == nil {
		defer socket.Close()
		if _, err := primitiv.Open(filepath.Join(dir, "socket"), nil); err == nil {
			t.Error("a socket")
		}
	}
	if pipe := filepath.Join(dir, "pipe"); exec.Command("mkfifo", pipe).Run() == nil {
		if _, err := primitiv.Open(pipe, nil); err == nil {
			t.Error("a pipe")
		}
	}
	for _, name := range []string{"/dev/zero", "/proc/self/status", filepath.Join(dir, "absent")} {
		if _, err := primitiv.Open(name, nil); err == nil {
			t.Error(name)
		}
	}
	if _, err := primitiv.Open(t.TempDir(), nil); err == nil {
		t.Error("a directory")
	}
	if _, err := primitiv.Open("/dev/null", nil); err == nil {
		t.Error("a device")
	}
	sparse := filepath.Join(t.TempDir(), "sparse")
	f, err := os.Create(sparse)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	// A tensor of 3 GiB that takes no room: beyond 2^31, and found by its header alone.
	begin := join(head(0x300), 2, "\x91\xa1a\x91", 3<<28, 1, "\xc6\xc0\x00\x00\x00")
	if _, err := f.Write(begin); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(join(0, row(1)), int64(len(begin))+3<<30); err != nil {
		t.Skip("no sparse files here:", err)
	}
	for _, noMap := range []bool{false, true} {
		r, err := primitiv.Open(sparse, &primitiv.ReaderOptions{NoMap: noMap})
		if err != nil {
			t.Fatal(err)
		}
		if r.Len() != 2 || r.Tensor("a").Size() != 3<<30 || r.Tensor("b") == nil {
			t.Errorf("%d tensors", r.Len())
		}
		r.Close()
	}
}

func model(n int, path func(i int) string, tail ...any) []byte {
	var b bytes.Buffer
	b.Write(join(head(0x300), n))
	for i := range n {
		b.WriteString(path(i))
		b.WriteString(tensorOf2)
		b.Write(join(tail...))
	}
	return b.Bytes()
}

// Names of every kind, a million parameters, limits.
func TestNamesOfEveryKindAreReadWithinLimits(t *testing.T) {
	name := func(s string) string { return string(item(0xdb, 0, s, 0, nil)) }
	long := strings.Repeat("n", 1<<20)
	data := model(1, func(int) string { return "\x91" + name(long) }, 0)
	if r := open(t, data); r.Tensor(long) == nil {
		t.Error("a name of 1 MiB")
	}
	for what, c := range map[string]struct {
		file []byte
		lim  tensor.Limits
	}{
		"name": {model(1, func(int) string { return "\x91" + name(long+"n") }, 0),
			tensor.Limits{}},
		"joined name": {model(1, func(int) string { return "\x92" + name(long) + "\xa0" }, 0),
			tensor.Limits{}},
		"short name": {model(1, func(int) string { return "\x91\xa4name" }, 0),
			tensor.Limits{MaxName: 3}},
		"statistic": {join(head(0x200), tensorOf2, 1, "\xa4name", tensorOf2),
			tensor.Limits{MaxName: 3}},
		"setting": {join(head(0x400), "\x81\xa4name", 1, "\x80"),
			tensor.Limits{MaxName: 3}},
		"tensors": {model(5, func(i int) string { return "\x91" + string(eight(i)) }, 0),
			tensor.Limits{MaxTensors: 4}},
		"statistics": {join(head(0x200), tensorOf2, 2, stat(0), stat(1)),
			tensor.Limits{MaxTensors: 2}},
		"settings": {join(head(0x400), "\x80\x82\xa1a", float1, "\xa1b", float1),
			tensor.Limits{MaxTensors: 1}},
		"rank": {join(head(0x200), tensorOf2, 0), tensor.Limits{MaxRank: -1 + 1<<0}},
		"metadata": {model(5, func(i int) string { return "\x91" + string(eight(i)) }, 0),
			tensor.Limits{MaxMetadata: 100}},
		"names times many": {manyStats(1000, strings.Repeat("p", 200<<10)), tensor.Limits{}},
	} {
		if what == "rank" {
			c.file, c.lim.MaxRank = join(head(0x200), "\x92", 2, 1, 1, "\xc4\x08--------", 0), 1
		}
		if _, err := primitiv.OpenBytes(c.file,
			&primitiv.ReaderOptions{Limits: c.lim}); !errors.Is(err, tensor.ErrLimit) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := primitiv.OpenBytes(data,
		&primitiv.ReaderOptions{Limits: tensor.Limits{MaxRank: -1}}); err == nil {
		t.Error("a negative limit")
	}
	// A name of a million colons, where every prefix could be a parameter.
	colons := strings.Repeat(":", 1<<20)
	data = model(1000, func(i int) string { return "\x91" + name(colons[:i]) }, 1, "\xa1m",
		tensorOf2)
	r := open(t, data)
	if r.Tensor(colons) != nil {
		t.Error("found")
	}
	if x := r.Tensor(colons[:501] + "m"); x == nil {
		t.Error("not found")
	} else if o, _ := primitiv.OriginOf(x); o.Path[0] != colons[:500] {
		t.Errorf("%d colons", len(o.Path[0]))
	}
}

func eight(i int) []byte { return fmt.Appendf(nil, "\xa8%08d", i) }

func manyStats(n int, path string) []byte {
	b := join(head(0x300), 1, "\x91", item(0xdb, 0, path, 0, nil), tensorOf2, n)
	for i := range n {
		b = append(append(b, eight(i)...), tensorOf2...)
	}
	return b
}

// Memory is a small multiple of the metadata, whatever the order.
func TestMemoryIsASmallMultipleOfTheMetadata(t *testing.T) {
	readtest.Measure(t)
	var perm []int
	for what, file := range map[string]func(n int) []byte{
		"in order": func(n int) []byte {
			return model(n, func(i int) string { return "\x91" + string(eight(i)) }, 0)
		},
		"in no order": func(n int) []byte {
			return model(n, func(i int) string { return "\x91" + string(eight(perm[i])) }, 0)
		},
		"in submodels": func(n int) []byte {
			return model(n, func(i int) string { return "\x93\xa1m" + string(eight(i)) + "\xa1w" },
				0)
		},
		"statistics": func(n int) []byte { return manyStats(n, "p") },
		"settings": func(n int) []byte {
			b := join(head(0x400), "\x80\xdf", binary.BigEndian.AppendUint32(nil, uint32(n)))
			for i := range n {
				b = append(append(b, eight(i)...), float1...)
			}
			return b
		},
	} {
		t.Run(what, func(t *testing.T) {
			for _, n := range []int{20_000, 200_000} {
				perm = rand.New(rand.NewPCG(1, 2)).Perm(n)
				data := file(n)
				metadata := int64(len(data))
				if what != "settings" {
					metadata -= 8 * int64(n)
				}
				var r *primitiv.Reader
				var err error
				// Listing keeps nothing.
				opening := readtest.PeakHeap(func() { r, err = primitiv.OpenBytes(data, nil) })
				if err != nil {
					t.Fatal(err)
				}
				for x := range r.Tensors() {
					if x.Size() != 8 {
						t.Error(x.Size())
					}
				}
				if opening > 1<<20+12*metadata {
					t.Errorf("%d entries: a peak of %d bytes for %d bytes of metadata", n, opening,
						metadata)
				}
			}
		})
	}
}

// Another version is recognised, so that Open can say that it is one.
func TestDetectKnowsEveryVersion(t *testing.T) {
	for _, c := range []struct {
		b    []byte
		want bool
	}{
		{join(0, 1, 0x200), true}, {join(0, 1, 0x400), true}, {join(0, 2, 0x300), true},
		{join(1, 0, 0), true},
		{join(0, 1, 0x500), false}, {join(0, 1, 0x201), false}, {join(0, 256, 0x200), false},
		{join(0, 1, 0x200)[:14], false},
		{join("\x00\x01", 0x200), false}, {nil, false},
	} {
		if got := primitiv.Detect(bytes.NewReader(c.b), int64(len(c.b))); got != c.want {
			t.Errorf("% x: %v", c.b, got)
		}
	}
}
