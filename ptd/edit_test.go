package ptd_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/tensor"
)

func TestLoadGivesTheMapThatWasSaved(t *testing.T) {
	name := filepath.Join(t.TempDir(), "m.ptd")
	want := map[string]*tensor.Tensor{
		"b":     tensor.New("ignored", tensor.Shape{2}, []float32{1, 2}),
		"a":     tensor.New("", tensor.Shape{}, []int64{-3}),
		"empty": tensor.New("", tensor.Shape{0, 3}, []uint16{}),
		"nhwc": {DType: tensor.U8, Shape: tensor.Shape{1, 2, 2, 1},
			Order: tensor.Order{0, 2, 3, 1}, Data: tensor.BlobOf([]byte{1, 2, 3, 4})},
	}
	if err := ptd.Save(name, want); err != nil {
		t.Fatal(err)
	}
	got, err := ptd.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) {
		t.Fatalf("%d tensors, want %d", len(got), len(want))
	}
	for key, w := range want {
		g := got[key]
		if g == nil || g.Name != key || g.DType != w.DType || !g.Shape.Equal(w.Shape) ||
			!slices.Equal(g.Order, w.Order) {
			t.Fatalf("%s: got %+v", key, g)
		}
		a, _ := g.Data.ReadAll()
		b, _ := w.Data.ReadAll()
		if !bytes.Equal(a, b) {
			t.Errorf("%s: other bytes", key)
		}
	}
	first, _ := os.ReadFile(name)
	if err := ptd.Save(name, want); err != nil {
		t.Fatal(err)
	}
	if again, _ := os.ReadFile(name); !bytes.Equal(first, again) {
		t.Error("the same map gives other bytes the second time")
	}
}

// interop/ptd.sh lets ExecuTorch read the files that this test writes.
func TestEditBringsAFileOf06UpToDate(t *testing.T) {
	r := open(t, "../testdata/ptd/et-0.6.0-basic.ptd")
	if r.Schema() != "0.6" || r.Alignment() != 16 {
		t.Fatalf("schema %s, alignment %d", r.Schema(), r.Alignment())
	}
	dir := t.TempDir()
	if d := os.Getenv("TENSORFILE_PTD_CASES"); d != "" {
		dir = filepath.Join(d, "upgraded")
		text, err := os.ReadFile("../testdata/ptd/et-0.6.0-basic.json")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "legacy.json"), text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	name := filepath.Join(dir, "legacy.ours.ptd")
	if err := ptd.NewEdit(r).WriteFile(t.Context(), name, nil); err != nil {
		t.Fatal(err)
	}
	n := open(t, name)
	if n.Schema() != "0.7" {
		t.Errorf("schema %s", n.Schema())
	}
	compareEntries(t, slices.Collect(n.Entries()), slices.Collect(r.Entries()))
	// linear.weight and tied lie at one offset in the old file.
	if s := sharedSegments(n); len(s) != 1 ||
		!slices.Equal(s[0], []string{"linear.weight", "tied"}) {
		t.Errorf("shared: %v", s)
	}
}

func TestEditRealignsAFileInPlace(t *testing.T) {
	data, err := os.ReadFile("../testdata/ptd/et-1.5.1-shared.ptd")
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "x.ptd")
	if err := os.WriteFile(name, data, 0o666); err != nil {
		t.Fatal(err)
	}
	r := open(t, name)
	want := slices.Collect(r.Entries())
	if err := ptd.NewEdit(r).WriteFile(t.Context(), name,
		&ptd.WriterOptions{SegmentAlignment: 4096}); err != nil {
		t.Fatal(err)
	}
	n := open(t, name)
	if n.Alignment() != 4096 {
		t.Errorf("aligned to %d", n.Alignment())
	}
	compareEntries(t, slices.Collect(n.Entries()), want)
	if len(sharedSegments(n)[0]) != 4 {
		t.Errorf("shared: %v", sharedSegments(n))
	}
}

func TestMergeTakesEqualEntriesOnce(t *testing.T) {
	one := []ptd.Entry{{Name: "a", Layout: float(2), Data: floats(1, 2)},
		{Name: "b", Layout: float(1), Data: floats(3)}}
	pair := []ptd.Entry{{Name: "b", Layout: float(1), Data: floats(3)},
		{Name: "c", Data: floats(9)}}
	got, err := ptd.Merge(t.Context(), slices.Values(one), slices.Values(pair))
	if err != nil {
		t.Fatal(err)
	}
	compareEntries(t, got, []ptd.Entry{one[0], one[1], pair[1]})

	bad := []ptd.Entry{{Name: "a", Layout: float(2), Data: floats(1, 3)},
		{Name: "b", Data: floats(3)}, {Name: "c", Data: floats(9, 9)}}
	_, err = ptd.Merge(t.Context(), slices.Values(one), slices.Values(pair), slices.Values(bad))
	var c *ptd.ConflictError
	if !errors.As(err, &c) {
		t.Fatal(err)
	}
	want := []ptd.Conflict{{Name: "a", Files: [2]int{0, 2}},
		{Name: "b", Files: [2]int{0, 2}, Layout: true}, {Name: "c", Files: [2]int{1, 2}}}
	if !slices.Equal(c.Conflicts, want) {
		t.Errorf("got %v", c.Conflicts)
	}
	if want := `ptd: merge: "a": file 2 has other bytes than file 0 (and 2 more conflicts)`; c.Error() !=
		want {
		t.Errorf("the message is %q, not %q", c, want)
	}
}

func TestSplitKeepsSharedBytesTogether(t *testing.T) {
	r := open(t, "../testdata/ptd/et-1.5.1-shared.ptd") // four names of 8 bytes, and one
	shards, err := ptd.Split(r.Entries(), 8, "part")
	if err != nil {
		t.Fatal(err)
	}
	var names [][]string
	for _, s := range shards {
		var n []string
		for _, e := range s.Entries {
			n = append(n, e.Name)
		}
		names = append(names, n)
	}
	if len(names) != 2 || !slices.Equal(names[0], []string{"bits", "bytes", "column", "row"}) ||
		!slices.Equal(names[1], []string{"own"}) {
		t.Fatalf("got %v", names)
	}
	// printf 'bits\0bytes\0column\0row' | sha256sum
	if want := "part_3dc09f940e34b0f50fd4e24e96cc518c2eb5ec864d62594d21e8a6a73abbb7bb"; shards[0].Tag != want {
		t.Errorf("tag %s", shards[0].Tag)
	}
	if one, err := ptd.Split(r.Entries(), 16, "part"); err != nil || len(one) != 1 {
		t.Errorf("%d shards, %v", len(one), err)
	}
	if _, err := ptd.Split(r.Entries(), 7, "part"); !errors.Is(err, tensor.ErrLimit) {
		t.Errorf("an entry larger than a shard: %v", err)
	}
}

func TestEditsKeepWhatIsShared(t *testing.T) {
	// row, column, bytes and bits share, own does not
	r := open(t, "../testdata/ptd/et-1.5.1-shared.ptd")
	e := ptd.NewEdit(r)
	for _, err := range []error{e.Rename("row", "column"), e.Rename("column", "row"),
		e.Remove("own"),
		e.Replace("bytes", tensor.New("ignored", tensor.Shape{2}, []float64{1, 2})),
		e.Remove("bits")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	name := filepath.Join(t.TempDir(), "e.ptd")
	if err := e.WriteFile(t.Context(), name, nil); err != nil {
		t.Fatal(err)
	}
	n := open(t, name)
	if s := sharedSegments(n); len(s) != 1 || !slices.Equal(s[0], []string{"column", "row"}) {
		t.Errorf("shared: %v", s)
	}
	if v, err := tensor.Load[float64](n.Tensor("bytes")); err != nil ||
		!slices.Equal(v, []float64{1, 2}) {
		t.Error(v, err)
	}
	if x := n.Tensor("row"); !x.Shape.Equal(r.Tensor("column").Shape) || n.Tensor("own") != nil ||
		n.Tensor("bits") != nil {
		t.Error(x)
	}
	var blobs []string
	for name := range n.Blobs() {
		blobs = append(blobs, name)
	}
	if len(blobs) > 0 {
		t.Error(blobs)
	}
	var out bytes.Buffer
	if err := ptd.NewEdit(r).Write(t.Context(), &out, nil); err != nil {
		t.Fatal(err)
	}
	compareEntries(t, slices.Collect(readBytes(t, out.Bytes(), nil).Entries()),
		slices.Collect(r.Entries()))
}

func TestEditRefusesWhatAFileCannotHave(t *testing.T) {
	r := open(t, "../testdata/ptd/et-1.5.1-shared.ptd")
	e := ptd.NewEdit(r)
	x := tensor.New("x", tensor.Shape{1}, []int8{1})
	for what, err := range map[string]error{
		"rename": e.Rename("absent", "x"), "remove": e.Remove("absent"),
		"replace": e.Replace("absent", x),
	} {
		if !errors.Is(err, tensor.ErrNoTensor) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := e.Replace("row", &tensor.Tensor{Scheme: "sparse_coo"}); !errors.Is(err,
		errors.ErrUnsupported) {
		t.Error(err)
	}
	if err := errors.Join(e.SetAttribute("a", "b"), e.RemoveAttribute("a")); !errors.Is(err,
		errors.ErrUnsupported) {
		t.Error(err)
	}
	if err := e.Rename("row", "column"); err != nil {
		t.Fatal(err)
	}
	if err := e.Write(t.Context(), io.Discard, nil); !errors.Is(err, tensor.ErrDuplicate) {
		t.Error(err)
	}
	name := filepath.Join(t.TempDir(), "e.ptd")
	if err := e.WriteFile(t.Context(), name, nil); !errors.Is(err, tensor.ErrDuplicate) {
		t.Error(err)
	}
	if _, err := os.Stat(name); err == nil {
		t.Error("a file appeared")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := ptd.NewEdit(r).Write(ctx, io.Discard, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Edits of every entry cost as much a step as of one.
func TestEditCostsTheSameForEachEntry(t *testing.T) {
	n := readtest.Entries(50_000)
	es := make([]ptd.Entry, n)
	for i := range es {
		es[i] = ptd.Entry{Name: fmt.Sprint("some/long/prefix/", i), Data: floats(1)}
	}
	r := readBytes(t, write(t, es, ptd.WriterOptions{}), nil)
	e := ptd.NewEdit(r)
	for i := range es {
		if err := e.Rename(es[i].Name, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			if err := e.Remove(es[i].Name); err != nil {
				t.Fatal(err)
			}
		}
	}
	var out bytes.Buffer
	if err := e.Write(t.Context(), &out, nil); err != nil {
		t.Fatal(err)
	}
	m := readBytes(t, out.Bytes(), nil)
	if got := len(slices.Collect(m.Entries())); got != n/2 {
		t.Error(got)
	}
	if _, ok := m.Entry("1"); !ok {
		t.Error("not renamed")
	}
}

func TestEditKeepsTheAlignment(t *testing.T) {
	for name, want := range map[string]int64{"et-1.5.1-alignment-4096-16": 4096,
		"et-1.5.1-alignment-1": 1,
		"et-1.0.1-basic":       16} {
		r, err := ptd.Open("../testdata/ptd/"+name+".ptd", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		for asked, want := range map[int64]int64{0: want, 256: 256} {
			var out bytes.Buffer
			opts := &ptd.WriterOptions{SegmentAlignment: asked}
			if err := ptd.NewEdit(r).Write(t.Context(), &out, opts); err != nil {
				t.Fatal(err)
			}
			n, err := ptd.OpenBytes(out.Bytes(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if n.Alignment() < want || n.Alignment()%want != 0 ||
				asked == 0 && out.Len() != int(r.Size()) {
				t.Errorf("%s: alignment %d and %d bytes, want %d and %d", name, n.Alignment(),
					out.Len(), want, r.Size())
			}
		}
	}
}
