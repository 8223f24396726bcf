package ztensor

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
	v2 "github.com/tensorfile/tensorfile/ztensor/internal/v2"
)

// A root with the file of another vector as its shard.
func TestLinkMakesUpstreamsBytes(t *testing.T) {
	one := write(t, &WriterOptions{Version: "2"},
		adding(t, tensor.New("w", tensor.Shape{4}, []float32{1, 2, 3, 4})))
	r, err := OpenBytes(one, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := r.Identity(t.Context(), "00001", SHA256)
	if err != nil {
		t.Fatal(err)
	}
	root := write(t, &WriterOptions{Version: "2"}, func(w *Writer) {
		if err := w.Link(s, r); err != nil {
			t.Fatal(err)
		}
	})
	const manifest = "a266736861726473a1653030303031a26473697a651a0002008a6664696765737478477368613235363a36323930626366373536623266316432313665363237666463623336653936623162373066663131323637623932653964303534366263363533616637353562676f626a65637473a16177a3657061727473a16464617461a464626c6f62821a0001000010656474797065636633326573686172646530303030316664696765737475787868333a613832663532326563343531306462346573686170658104666c61796f75746564656e7365"
	if len(root) != 65791 || hex.EncodeToString(root[65536:65536+215]) != manifest {
		t.Errorf("%d bytes, manifest %x", len(root), root[65536:])
	}
	whole, err := OpenBytes(root, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err1 := r.ContentDigest(SHA256)
	b, err2 := whole.ContentDigest(SHA256)
	if a != b || err1 != nil || err2 != nil {
		t.Errorf("content %s, %v, of the shard %s, %v", b, err2, a, err1)
	}
}

func TestLinkRefusesUnsafeNamesAndOtherVersions(t *testing.T) {
	r, err := OpenBytes(write(t, &WriterOptions{Version: "2"},
		adding(t, tensor.New("w", tensor.Shape{1}, []byte{1}))), nil)
	if err != nil {
		t.Fatal(err)
	}
	one, err := OpenBytes(write(t, &WriterOptions{Version: "1.0"},
		adding(t, tensor.New("w", tensor.Shape{1}, []byte{1}))), nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := r.Identity(t.Context(), "s", XXH3)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := one.Identity(t.Context(), "s", SHA256); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	named := func(name string) Shard { return Shard{Name: name, Size: s.Size, Digest: s.Digest} }
	var out bytes.Buffer
	w := NewWriter(&out, &WriterOptions{Version: "2"})
	for _, name := range []string{"", ".", "..", ".a", "a/b", "a\\b", "../a", "/a", "a\x00", "ä",
		"a:b", strings.Repeat("a", 65)} {
		if err := w.Link(named(name), r); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, bad := range []Shard{
		{Name: "a", Size: s.Size - 1, Digest: s.Digest}, {Name: "a", Size: s.Size},
		{Name: "a", Size: s.Size, Digest: "xxh3:AB"}, {Name: "a", Size: s.Size, Digest: "md5:ab"},
	} {
		if err := w.Link(bad, r); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%v: %v", bad, err)
		}
	}
	if err := w.Link(s, r, "none"); !errors.Is(err, tensor.ErrNoTensor) {
		t.Error(err)
	}
	if err := w.Link(s, r, "w", "w"); !errors.Is(err, tensor.ErrDuplicate) {
		t.Error(err)
	}
	if err := w.Link(s, one); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	if err := w.Link(s, r, "w"); err != nil {
		t.Error(err)
	}
	if err := w.Link(named("t"), r); !errors.Is(err, tensor.ErrDuplicate) {
		t.Error("the same name again:", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	root, err := OpenBytes(out.Bytes(), nil)
	if err != nil {
		t.Fatal(err)
	}
	id, err := root.Identity(t.Context(), "r", SHA256)
	if err != nil {
		t.Fatal(err)
	}
	w = NewWriter(&out, &WriterOptions{Version: "2"})
	if err := w.Link(id, root); !errors.Is(err, errors.ErrUnsupported) {
		t.Error("a shard of a shard:", err)
	}
	for _, o := range []*WriterOptions{{Version: "1.0"},
		{Version: "2", Canonical: true}} {
		if err := NewWriter(&out, o).Link(s, r); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestShardsAreTheModel(t *testing.T) {
	attributes := map[string]any{"of": "the file"}
	own := func(x *tensor.Tensor) map[string]any {
		if x.Name == "scalar" {
			return map[string]any{"k": 1}
		}
		return nil
	}
	single := write(t, &WriterOptions{Version: "2", Canonical: true, Attributes: attributes},
		func(w *Writer) {
			if err := w.TensorAttributes("scalar",
				own(tensor.New("scalar", nil, []byte{1}))); err != nil {
				t.Fatal(err)
			}
			adding(t, model()...)(w)
		})
	want, err := OpenBytes(single, nil)
	if err != nil {
		t.Fatal(err)
	}
	content, err := want.ContentDigest(SHA256)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []ShardOptions{
		{MaxSize: 3000}, {MaxSize: 1, Digest: XXH3},
		{MaxSize: 5000, Writer: &WriterOptions{Version: "2", Level: 3}},
		{MaxSize: 5000, Writer: &WriterOptions{Version: "2", Alignment: 4096}}, {MaxSize: 1 << 30},
	} {
		t.Run(fmt.Sprintf("%+v", o), func(t *testing.T) {
			dir := t.TempDir()
			if o.Writer == nil {
				o.Writer = new(WriterOptions)
			}
			o.Writer.Attributes = attributes
			o.TensorAttributes = own
			name := filepath.Join(dir, "a model.zt")
			files, err := WriteShards(t.Context(), name, tensor.Of(model()...), &o)
			if err != nil {
				t.Fatal(err)
			}
			if files[len(files)-1] != name || o.MaxSize < 1<<30 && len(files) < 4 ||
				o.MaxSize == 1<<30 && len(files) > 1 {
				t.Errorf("%q", files)
			}
			r, err := Open(name, &ReaderOptions{Strict: true})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if report, err := r.Verify(t.Context(),
				&tensor.VerifyOptions{Strict: true}); err != nil {
				t.Error(report.Findings)
			}
			if got, err := r.ContentDigest(SHA256); got != content {
				t.Errorf("content %s, %v, of one file %s", got, err, content)
			}
			i := 0
			for s := range r.Shards() {
				if b, err := os.ReadFile(files[i]); err != nil || int64(len(b)) != s.Size {
					t.Errorf("%s: %v", files[i], err)
				}
				one, err := Open(files[i], nil)
				if err != nil {
					t.Fatal(err)
				}
				if found, err := one.CanonicalViolations(t.Context()); o.Writer.Level == 0 &&
					o.Writer.Alignment == 0 && (len(found) > 0 || err != nil) {
					t.Error(found, err)
				}
				one.Close()
				i++
			}
			if i != len(files)-1 {
				t.Errorf("%d shards in %d files", i, len(files))
			}
			for v := range r.AttributeValues() {
				if v != "of" {
					t.Error(v)
				}
			}
			for _, x := range model() {
				for _, p := range append(x.Parts, tensor.Part{Data: x.Data}) {
					y := r.Tensor(x.Name)
					data := y.Data
					if p.Role != "" {
						data = y.Part(p.Role).Data
					}
					a, err1 := p.Data.ReadAll()
					if b, err := data.ReadAll(); err != nil || err1 != nil || !bytes.Equal(a, b) {
						t.Errorf("%s: %v", x.Name, err)
					}
				}
			}
		})
	}
}

func TestShardedFilesAreAppendedTo(t *testing.T) {
	name := filepath.Join(t.TempDir(), "m.zt")
	if _, err := WriteShards(t.Context(), name, tensor.Of(model()...),
		&ShardOptions{MaxSize: 4000}); err != nil {
		t.Fatal(err)
	}
	w, err := Append(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	other, err := OpenBytes(write(t, &WriterOptions{Version: "2"},
		adding(t, tensor.New("more", tensor.Shape{1}, []byte{1}))), nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := other.Identity(t.Context(), "00001", SHA256)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Link(s, other); !errors.Is(err, tensor.ErrDuplicate) {
		t.Error("another shard of the same name:", err)
	}
	adding(t, tensor.New("here", tensor.Shape{2}, []int8{1, 2}))(w)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := Open(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if report, err := r.Verify(t.Context(), nil); err != nil || r.Len() != len(model())+1 {
		t.Error(r.Len(), report.Findings)
	}
}

// No link takes a shard out of the directory of its root.
func TestShardsAreNotWrittenThroughLinks(t *testing.T) {
	outside := t.TempDir()
	dir := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(dir, "m-00002.zt")); err != nil {
		t.Skip("no links here: ", err)
	}
	_, err := WriteShards(t.Context(), filepath.Join(dir, "m.zt"), tensor.Of(model()...),
		&ShardOptions{MaxSize: 4000})
	if !errors.Is(err, fs.ErrInvalid) {
		t.Error(err)
	}
	if all, err := os.ReadDir(outside); err != nil || len(all) > 0 {
		t.Error(all, err)
	}
}

// A set replaces the one before it as a whole, or not at all.
func TestASetOfShardsIsReplacedTogether(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "m.zt")
	values := func(v byte, n int) (ts []*tensor.Tensor) {
		for i := range n {
			ts = append(ts, tensor.New(fmt.Sprintf("t%d", i), tensor.Shape{100},
				bytes.Repeat([]byte{v}, 100)))
		}
		return ts
	}
	files := func() (names []string) {
		all, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range all {
			names = append(names, e.Name())
		}
		return names
	}
	check := func(v byte, n int) {
		t.Helper()
		r, err := Open(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if r.Len() != n {
			t.Errorf("%d tensors", r.Len())
		}
		for x := range r.Tensors() {
			if b, err := x.Data.ReadAll(); err != nil || b[0] != v {
				t.Errorf("%s: %v, %v", x.Name, b, err)
			}
		}
		if _, err := r.Verify(t.Context(), nil); err != nil {
			t.Error(err)
		}
	}
	opts := &ShardOptions{MaxSize: 100, ID: "step 1"}
	if _, err := WriteShards(t.Context(), name, tensor.Of(values(1, 4)...), opts); err != nil {
		t.Fatal(err)
	}
	check(1, 4)
	before := files()
	// A source that fails in the third shard leaves all as it was.
	failing := values(2, 4)
	failing[2].Data = tensor.BlobFunc(100,
		func() (io.ReadCloser, error) { return nil, io.ErrUnexpectedEOF })
	if _, err := WriteShards(t.Context(), name, tensor.Of(failing...), opts); !errors.Is(err,
		io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	check(1, 4)
	if after := files(); !slices.Equal(before, after) {
		t.Errorf("%q, before %q", after, before)
	}
	// Fewer shards: the old ones are gone.
	if _, err := WriteShards(t.Context(), name, tensor.Of(values(3, 2)...),
		&ShardOptions{MaxSize: 100, ID: "step 2"}); err != nil {
		t.Fatal(err)
	}
	check(3, 2)
	if got := files(); !slices.Equal(got, []string{"m-00001.zt", "m-00002.zt", "m.zt"}) {
		t.Errorf("%q", got)
	}
	if _, err := WriteShards(t.Context(), name, tensor.Of(values(4, 2)...),
		&ShardOptions{MaxSize: 1000}); err != nil {
		t.Fatal(err)
	}
	check(4, 2)
	if got := files(); !slices.Equal(got, []string{"m.zt"}) {
		t.Errorf("%q", got)
	}
}

func TestAShardOfAnotherSetIsRefused(t *testing.T) {
	dir := t.TempDir()
	write := func(id string) string {
		name := filepath.Join(dir, id, "m.zt")
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if _, err := WriteShards(t.Context(), name, tensor.Of(model()...),
			&ShardOptions{MaxSize: 4000, ID: id}); err != nil {
			t.Fatal(err)
		}
		return name
	}
	one, second := write("one"), write("two")
	r, err := Open(second, nil)
	if err != nil {
		t.Fatal(err)
	}
	for s := range r.Shards() {
		b, err := os.ReadFile(filepath.Join(filepath.Dir(one), "m-"+s.Name+".zt"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(filepath.Dir(second), "m-"+s.Name+".zt"), b,
			0o666); err != nil {
			t.Fatal(err)
		}
	}
	defer r.Close()
	refused := 0
	for x := range r.Tensors() {
		var broken *rule.Error
		if _, err := x.Data.ReadAll(); errors.As(err, &broken) &&
			broken.Rule == rule.ShardIdentity {
			refused++
		}
	}
	if refused == 0 {
		t.Error("shards of another set are read")
	}
}

// A writer that was killed while it renamed its shards has left a journal: opening
// says so, and the next writer finishes the work.
func TestAnInterruptedSetIsReportedAndFinished(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	name := filepath.Join(dir, "m.zt")
	shards := func(dir, id string) []string {
		t.Helper()
		files, err := WriteShards(t.Context(), filepath.Join(dir, "m.zt"), tensor.Of(model()...),
			&ShardOptions{MaxSize: 4000, ID: id})
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	shards(dir, "old")
	journal := "tensorfile journal 1\nindex \"m.zt\"\n"
	for _, file := range shards(other, "new") {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		base := filepath.Base(file)
		temp := "." + base + ".tensorfile-tmp-0000000000001"
		if err := os.WriteFile(filepath.Join(dir, temp), b, 0o666); err != nil {
			t.Fatal(err)
		}
		journal += fmt.Sprintf("rename %q %q %d\n", temp, base, len(b))
	}
	if err := os.WriteFile(filepath.Join(dir, ".m.zt.tensorfile-journal"), []byte(journal+"end\n"),
		0o666); err != nil {
		t.Fatal(err)
	}
	before, err := Open(name, nil) // as if it had been opened before the writer began
	if err != nil {
		t.Fatal(err)
	}
	defer before.Close()
	r, err := Open(name, nil) // the old root is still there
	if err != nil {
		t.Fatal(err)
	}
	if w := r.Warnings(); len(w) != 1 || !errors.Is(w[0], tensor.ErrUnfinished) {
		t.Errorf("warnings: %v", w)
	}
	r.Close()
	if _, err := Open(name, &ReaderOptions{Strict: true}); !errors.Is(err, tensor.ErrUnfinished) {
		t.Errorf("strict: %v", err)
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(name, nil); tensor.ClassOf(err) != tensor.ClassUnfinished ||
		errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "tensorfile.Clean") {
		t.Errorf("without a root: %v", err)
	}
	// The first shard of the new set, and half of the second.
	rename(t, filepath.Join(dir, ".m-00001.zt.tensorfile-tmp-0000000000001"),
		filepath.Join(dir, "m-00001.zt"))
	if err := os.Truncate(filepath.Join(dir, "m-00002.zt"), 70_000); err != nil {
		t.Fatal(err)
	}
	failed := 0
	for x := range before.Tensors() {
		st, _ := x.Data.Stored()
		if st.File != "00001" && st.File != "00002" {
			continue
		}
		_, err := x.Data.ReadAll()
		_, errView := tensor.View[uint8](x)
		var at *tensor.FormatError
		if err == nil || tensor.ClassOf(err) != tensor.ClassUnfinished || !errors.As(err, &at) ||
			!strings.Contains(at.Field, naming.Quote(x.Name)) || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s of shard %s: %v", x.Name, st.File, err)
		}
		if x.DType == tensor.U8 && tensor.ClassOf(errView) != tensor.ClassUnfinished {
			t.Errorf("a view of %s of shard %s: %v", x.Name, st.File, errView)
		}
		failed++
	}
	report, err := before.Verify(t.Context(), nil)
	if failed < 2 || tensor.ClassOf(err) != tensor.ClassUnfinished || len(report.Findings) < 2 {
		t.Errorf("%d tensors, %v, %v", failed, report.Findings, err)
	}
	for _, f := range report.Findings {
		if f.Severity == tensor.SeverityError && f.Class != tensor.ClassUnfinished {
			t.Errorf("%v is of class %v", f, f.Class)
		}
	}
	set, err := atomicfile.NewSet(name)
	if err != nil {
		t.Fatal(err)
	}
	set.Abort()
	if r, err = Open(name, nil); err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if id := maps.Collect(r.Attributes())[v2.SetKey]; id != "new" || len(r.Warnings()) > 0 {
		t.Errorf("the set %q, %v", id, r.Warnings())
	}
	if _, err := r.Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
}
