package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/tensor"
)

// readCheckpoint returns the value of all tensors of an index, and fails if they differ.
func readCheckpoint(t *testing.T, name string, n int) float32 {
	t.Helper()
	r, err := Open(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if r.Len() != n {
		t.Errorf("%d tensors, want %d", r.Len(), n)
	}
	var values []float32
	for x := range r.Tensors() {
		v, err := tensor.Load[float32](x)
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, v...)
	}
	if slices.Min(values) != slices.Max(values) {
		t.Errorf("a mixture of checkpoints: %v", values)
	}
	return values[0]
}

func list(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

var threeShards = []string{"m-00001-of-00003.safetensors", "m-00002-of-00003.safetensors",
	"m-00003-of-00003.safetensors", testIndex}

func TestShardsComeBack(t *testing.T) {
	dir := t.TempDir()
	ts := checkpoint(10, 1)
	ts = append(ts, tensor.New("large", tensor.Shape{100}, make([]float32, 100)))
	files, err := WriteShards(t.Context(), filepath.Join(dir, "model.safetensors"),
		tensor.Of(ts...), &ShardOptions{
			MaxSize: 120, Writer: &WriterOptions{Attributes: map[string]string{"format": "pt",
				"total_size": "unused"}}})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 6 || filepath.Base(files[0]) != "model-00001-of-00005.safetensors" ||
		filepath.Base(files[5]) != "model.safetensors.index.json" {
		t.Fatal(files)
	}
	r, err := Open(files[5], &ReaderOptions{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if said := maps.Collect(r.Attributes()); r.Len() != 11 ||
		len(slices.Collect(r.Shards())) != 5 || !maps.Equal(said,
		map[string]string{"total_size": "800", "format": "pt"}) {
		t.Errorf("%d tensors, %v", r.Len(), said)
	}
	for _, x := range ts {
		got := r.Tensor(x.Name)
		if got == nil || !got.Shape.Equal(x.Shape) {
			t.Errorf("%s is not there", x.Name)
		}
	}
	if v, err := tensor.Load[float32](r.Tensor("large")); err != nil || len(v) != 100 {
		t.Error(err)
	}
	if _, err := r.Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
	f, err := os.Open(files[5])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if fi, _ := f.Stat(); !Detect(f, fi.Size()) {
		t.Error("the index is not detected")
	}
	if _, err := OpenBytes([]byte(`{"weight_map":{"a":"b"}}`), nil); err == nil {
		t.Error("without companions an index cannot be read")
	}
}

func TestIndexAfterWhiteSpaceIsDetected(t *testing.T) {
	dir := t.TempDir()
	files, err := WriteShards(t.Context(), filepath.Join(dir, "m.safetensors"),
		tensor.Of(checkpoint(2, 1)...), &ShardOptions{MaxSize: 40})
	if err != nil {
		t.Fatal(err)
	}
	index, err := os.ReadFile(files[len(files)-1])
	if err != nil {
		t.Fatal(err)
	}
	for _, space := range []string{" ", "\n", "\r\n\t", strings.Repeat(" ", 9)} {
		name := filepath.Join(dir, "spaces.json")
		b := append([]byte(space), index...)
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if !Detect(bytes.NewReader(b), int64(len(b))) {
			t.Errorf("%q: the index is not detected", space)
		}
		r, err := Open(name, nil)
		if err != nil {
			t.Errorf("%q: %v", space, err)
			continue
		}
		if r.Len() != 2 {
			t.Errorf("%q: %d tensors", space, r.Len())
		}
		r.Close()
	}
	// The size of a header may have the byte of a space too.
	if _, err := OpenBytes(file("{}"+strings.Repeat(" ", 30), ""), nil); err != nil {
		t.Error(err)
	}
}

// What WriteShards wrote before is replaced as a whole, whatever the numbers of files.
func TestShardsReplaceTheWholeSet(t *testing.T) {
	dir := t.TempDir()
	others := []string{"m-00001-of-0003.safetensors", "m-1-of-2.safetensors", "mm.safetensors",
		"other"}
	for _, name := range others {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range []struct {
		n    int
		want []string
	}{
		{5, threeShards},
		{3, []string{"m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors", testIndex}},
		{1, []string{"m.safetensors"}},
		{5, threeShards},
		{5, threeShards},
		{0, []string{"m.safetensors"}},
	} {
		names := writeCheckpoint(t, dir, c.n, float32(i))
		want := slices.Concat(c.want, others)
		slices.Sort(want)
		if got := list(t, dir); !slices.Equal(got, want) {
			t.Errorf("%d: the directory has %q, want %q", i, got, want)
		}
		for k := range names {
			names[k] = filepath.Base(names[k])
		}
		if !slices.Equal(names, c.want) {
			t.Errorf("%d: wrote %q, want %q", i, names, c.want)
		}
		if c.n > 1 {
			if v := readCheckpoint(t, filepath.Join(dir, testIndex), c.n); v != float32(i) {
				t.Errorf("value %v after checkpoint %d", v, i)
			}
		}
	}
}

func TestShardsThatFailLeaveTheOldSet(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "m.safetensors")
	writeCheckpoint(t, dir, 5, 1)
	errSource := errors.New("no more")
	bad := checkpoint(5, 2)
	bad[4].Data = tensor.BlobFunc(40, func() (io.ReadCloser, error) { return nil, errSource })
	failing := func(yield func(*tensor.Tensor, error) bool) {
		_ = yield(checkpoint(1, 2)[0], nil) && yield(nil, errSource)
	}
	for what, c := range map[string]struct {
		ts   iter.Seq2[*tensor.Tensor, error]
		opts ShardOptions
		want error
	}{
		"a tensor of the last shard": {tensor.Of(bad...), ShardOptions{MaxSize: 80}, errSource},
		"the sequence":               {failing, ShardOptions{MaxSize: 80}, errSource},
		"a nil tensor": {tensor.Of(nil), ShardOptions{MaxSize: 80},
			tensor.ErrNoTensor},
		"a duplicate name": {tensor.Of(append(checkpoint(3, 2), checkpoint(1, 2)...)...),
			ShardOptions{MaxSize: 80}, tensor.ErrDuplicate},
		"an ID that is not UTF-8": {tensor.Of(checkpoint(3, 2)...),
			ShardOptions{MaxSize: 80, ID: "\xff"}, errors.ErrUnsupported},
		"NoReplace": {tensor.Of(checkpoint(3, 2)...), ShardOptions{MaxSize: 80, NoReplace: true},
			fs.ErrExist},
		"NoReplace of one file": {tensor.Of(checkpoint(1, 2)...),
			ShardOptions{MaxSize: 80, NoReplace: true}, fs.ErrExist},
	} {
		if _, err := WriteShards(t.Context(), name, c.ts, &c.opts); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
		if got := list(t, dir); !slices.Equal(got, threeShards) {
			t.Errorf("%s: the directory has %q", what, got)
		}
		if v := readCheckpoint(t, filepath.Join(dir, testIndex), 5); v != 1 {
			t.Errorf("%s: the value is %v", what, v)
		}
	}
	if _, err := WriteShards(t.Context(), name, tensor.Of(), nil); err == nil {
		t.Error("no MaxSize")
	}
	if _, err := WriteShards(t.Context(), filepath.Join(dir, "missing", "m"), tensor.Of(),
		&ShardOptions{MaxSize: 1}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that does not exist: %v", err)
	}
}

func TestShardsOfAnotherIDAreRefused(t *testing.T) {
	dir := t.TempDir()
	write := func(dir, id string) {
		t.Helper()
		_, err := WriteShards(t.Context(), filepath.Join(dir, "m.safetensors"),
			tensor.Of(checkpoint(5, 1)...), &ShardOptions{
				MaxSize: 80, ID: id,
				Writer: &WriterOptions{Attributes: map[string]string{"format": "pt"}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	write(dir, "step 1")
	for _, name := range threeShards {
		r, err := Open(filepath.Join(dir, name), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := maps.Collect(r.Attributes()); got["shard_set_id"] != "step 1" ||
			got["format"] != "pt" {
			t.Errorf("%s has %v", name, got)
		}
		r.Close()
	}
	for _, id := range []string{"step 2", ""} {
		other := t.TempDir()
		write(other, id)
		for k, name := range threeShards {
			mixed := t.TempDir()
			for i, n := range threeShards {
				from := dir
				if i == k {
					from = other
				}
				b, err := os.ReadFile(filepath.Join(from, n))
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(mixed, n), b, 0o666); err != nil {
					t.Fatal(err)
				}
			}
			r, err := Open(filepath.Join(mixed, testIndex), nil)
			if err == nil {
				r.Close()
			}
			// An index without an ID may have been written by another program.
			if refused := errors.Is(err,
				tensor.ErrMalformed); refused == (id == "" && name == testIndex) {
				t.Errorf("%s with the ID %q among others: %v", name, id, err)
			}
		}
	}
}

// A writer that was killed while it renamed its shards has left a journal. Whichever of
// the files were renamed by then, reading says so, and the next writer finishes the work.
func TestUnfinishedSetsAreErrorsUntilCompleted(t *testing.T) {
	const steps = 5 // the index removed, three renames of shards, the rename of the index
	for done := range steps {
		dir, newer := t.TempDir(), t.TempDir()
		index := filepath.Join(dir, testIndex)
		writeCheckpoint(t, dir, 5, 1)
		writeCheckpoint(t, newer, 5, 2)
		journal := fmt.Sprintf("tensorfile journal 1\nindex %q\n", testIndex)
		for i, name := range threeShards {
			b, err := os.ReadFile(filepath.Join(newer, name))
			if err != nil {
				t.Fatal(err)
			}
			temp := "." + name + ".tensorfile-tmp-0000000000001"
			journal += fmt.Sprintf("rename %q %q %d\n", temp, name, len(b))
			if i+2 <= done {
				temp = name
			}
			if err := os.WriteFile(filepath.Join(dir, temp), b, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if done > 0 {
			if err := os.Remove(index); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "."+testIndex+".tensorfile-journal"),
			[]byte(journal+"end\n"), 0o666); err != nil {
			t.Fatal(err)
		}
		strict := &ReaderOptions{Strict: true}
		for _, open := range []func(o *ReaderOptions) (*Reader, error){
			func(o *ReaderOptions) (*Reader, error) { return Open(index, o) },
			func(o *ReaderOptions) (*Reader, error) {
				return Open(filepath.Join(dir, "m.safetensors"), o) // as WriteShards was told
			},
		} {
			r, err := open(nil)
			if err == nil {
				if len(r.Warnings()) != 1 || !errors.Is(r.Warnings()[0], tensor.ErrUnfinished) {
					t.Errorf("%d steps: warnings %v", done, r.Warnings())
				}
				r.Close()
			}
			if _, errStrict := open(strict); err == nil && done > 0 ||
				!errors.Is(errStrict, tensor.ErrUnfinished) {
				t.Errorf("%d steps: %v, strict %v", done, err, errStrict)
			}
			if err != nil && (errors.Is(err, fs.ErrNotExist) ||
				tensor.ClassOf(err) != tensor.ClassUnfinished ||
				!strings.Contains(err.Error(), "tensorfile.Clean")) {
				t.Errorf("%d steps: %v", done, err)
			}
		}
		// A mixture of two sets, as it is where the system lost the removal of the index.
		old, err := os.ReadFile(filepath.Join(newer, testIndex))
		if err == nil {
			err = os.WriteFile(index, old, 0o666)
		}
		if err == nil {
			err = os.Truncate(filepath.Join(dir, threeShards[2]), 7)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Open(index, nil); tensor.ClassOf(err) != tensor.ClassUnfinished {
			t.Errorf("%d steps, a shard is damaged: %v", done, err)
		}
		if done < 4 {
			if err := os.Remove(index); err != nil {
				t.Fatal(err)
			}
		}
		writeCheckpoint(t, dir, 5, 3)
		if got := list(t, dir); !slices.Equal(got, threeShards) {
			t.Errorf("%d steps: the directory has %q", done, got)
		}
		if v := readCheckpoint(t, index, 5); v != 3 {
			t.Errorf("%d steps: the value is %v", done, v)
		}
	}
}

// Where a model becomes one file, the index of its shards goes first: readers never find
// an index whose shards are gone.
func TestASetBecomesOneFile(t *testing.T) {
	dir := t.TempDir()
	writeCheckpoint(t, dir, 5, 1)
	index, name := filepath.Join(dir, testIndex), filepath.Join(dir, "m.safetensors")
	x := tensor.New("x", tensor.Shape{2}, []float32{1, 2})
	var one bytes.Buffer
	w := NewWriter(&one, nil)
	if err := errors.Join(w.Add(x), w.Close()); err != nil {
		t.Fatal(err)
	}
	temp := ".m.safetensors.tensorfile-tmp-0000000000001"
	if err := os.WriteFile(filepath.Join(dir, temp), one.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	journal := fmt.Sprintf("tensorfile journal 1\nindex %q\nrename %q \"m.safetensors\" %d\n",
		testIndex, temp, one.Len())
	for _, name := range threeShards {
		journal += fmt.Sprintf("remove %q\n", name)
	}
	if err := os.WriteFile(filepath.Join(dir, "."+testIndex+".tensorfile-journal"),
		[]byte(journal+"end\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	// A directory in place of the last shard stops the work after the others are gone.
	last := filepath.Join(dir, threeShards[2])
	if err := errors.Join(os.Remove(last), os.Mkdir(last, 0o777)); err != nil {
		t.Fatal(err)
	}
	if _, err := WriteShards(t.Context(), name, tensor.Of(x),
		&ShardOptions{MaxSize: 100}); err == nil {
		t.Error("a set is written over one that cannot be finished")
	}
	if _, err := os.Lstat(filepath.Join(dir, threeShards[0])); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := Open(index, nil); tensor.ClassOf(err) != tensor.ClassUnfinished ||
		errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the index: %v", err)
	}
	if err := os.Remove(last); err != nil {
		t.Fatal(err)
	}
	files, err := WriteShards(t.Context(), name, tensor.Of(x), &ShardOptions{MaxSize: 100})
	if err != nil || !slices.Equal(files, []string{name}) {
		t.Errorf("%q, %v", files, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
	if _, err := Open(index, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the index when all is done: %v", err)
	}
}

// TestAccessorsAreSafeForConcurrentUse is for the race detector.
func TestAccessorsAreSafeForConcurrentUse(t *testing.T) {
	dir := t.TempDir()
	writeCheckpoint(t, dir, 5, 1)
	for _, name := range []string{filepath.Join(dir, testIndex),
		filepath.Join(dir, threeShards[0]), "../testdata/safetensors/names.safetensors"} {
		for _, noMap := range []bool{false, true} {
			r, err := Open(name, &ReaderOptions{NoMap: noMap})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			called := readtest.Accessors(t, r, "a", "b")
			if !called["*safetensors.Reader.Shards"] || !called["tensor.Blob.ReadAll"] {
				t.Errorf("%s: not all accessors were called: %v", name, called)
			}
		}
	}
}

// Hugging Face's cache has the files of a model as links to blobs.
func TestShardsThatAreLinksAreFollowed(t *testing.T) {
	cache := t.TempDir()
	blobs, snapshot := filepath.Join(cache, "blobs"), filepath.Join(cache, "snapshots", "main")
	for _, dir := range []string{blobs, snapshot} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	writeCheckpoint(t, blobs, 5, 1)
	for i, name := range threeShards {
		blob := fmt.Sprintf("sha%d", i)
		if err := os.Rename(filepath.Join(blobs, name), filepath.Join(blobs, blob)); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join("..", "..", "blobs", blob),
			filepath.Join(snapshot, name)); err != nil {
			t.Skipf("no links here: %v", err)
		}
	}
	index := filepath.Join(snapshot, testIndex)
	if v := readCheckpoint(t, index, 5); v != 1 {
		t.Errorf("the value is %v", v)
	}
	if _, err := Open(index, &ReaderOptions{NoLinks: true}); err == nil {
		t.Error("NoLinks: the shards are links out of the directory")
	}
	// A new set replaces the links, and leaves the blobs alone.
	blob, err := os.ReadFile(filepath.Join(blobs, "sha0"))
	if err != nil {
		t.Fatal(err)
	}
	writeCheckpoint(t, snapshot, 5, 2)
	if v := readCheckpoint(t, index, 5); v != 2 {
		t.Errorf("the value is %v", v)
	}
	if now, err := os.ReadFile(filepath.Join(blobs, "sha0")); err != nil ||
		string(now) != string(blob) {
		t.Errorf("a blob of the cache was replaced: %v", err)
	}
}

func TestIndexIsReadWhole(t *testing.T) {
	x, err := ParseIndex([]byte(`{"metadata":{"a":"b","n":[1],"total_size":96.0},`+
		`"weight_map":{"a":"1","":"2","b":"1","e":"gone","f":"2"}}`), tensor.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if got := maps.Collect(x.Metadata()); !maps.Equal(got,
		map[string]string{"a": "b", "n": "[1]", "total_size": "96.0"}) || !x.HasMetadata() {
		t.Errorf("metadata %v", got)
	}
	if n, err := x.TotalSize(); n != 96 || err != nil {
		t.Errorf("total_size %d, %v", n, err)
	}
	if got := x.Files(); !slices.Equal(got, []string{"1", "2", "gone"}) {
		t.Errorf("files %q", got)
	}
	if got := len(maps.Collect(x.Weights())); got != 5 {
		t.Errorf("%d weights", got)
	}
	named := func(names ...string) iter.Seq[*tensor.Tensor] {
		return func(yield func(*tensor.Tensor) bool) {
			for _, n := range names {
				if !yield(&tensor.Tensor{Name: n}) {
					return
				}
			}
		}
	}
	shards := []string{"1", "2", "gone"}
	tensors := []iter.Seq[*tensor.Tensor]{named("a", "", "new"), named("a", "f"), nil}
	got := x.Compare(func(yield func(string, iter.Seq[*tensor.Tensor]) bool) {
		for i := range shards {
			if !yield(shards[i], tensors[i]) {
				return
			}
		}
	})
	want := []Mismatch{{TensorMisplaced, "", "1", "2"},
		{Kind: TensorUnindexed, Tensor: "new", File: "1"},
		{Kind: TensorMissing, Tensor: "b", File: "1"}, {TensorDuplicate, "a", "2", "1"}}
	if !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

// Loaders take a tensor that a shard has and the index does not.
func TestIndexThatLacksATensorIsAWarning(t *testing.T) {
	dir := t.TempDir()
	index := filepath.Join(dir, testIndex)
	ts := tensor.Of(tensor.New("a", tensor.Shape{1}, []int8{1}),
		tensor.New("b", tensor.Shape{1}, []int8{2}))
	err := errors.Join(WriteFile(t.Context(), filepath.Join(dir, "1.safetensors"), ts, nil),
		os.WriteFile(index, []byte(`{"weight_map":{"a":"1.safetensors"}}`), 0o666))
	if err != nil {
		t.Fatal(err)
	}
	r, err := Open(index, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if r.Tensor("b") == nil || len(r.Warnings()) != 1 {
		t.Errorf("%d tensors, %v", r.Len(), r.Warnings())
	}
	if _, err := Open(index, &ReaderOptions{Strict: true}); !errors.Is(err,
		tensor.ErrMalformed) {
		t.Errorf("strict: %v", err)
	}
}

func TestTotalSizeOfAnIndexIsANumberOfBytes(t *testing.T) {
	for text, want := range map[string]int64{
		`{"weight_map":{}}`:                                    -1,
		`{"weight_map":{},"metadata":{}}`:                      -1,
		`{"weight_map":{},"metadata":{"total_size":0}}`:        0,
		`{"weight_map":{},"metadata":{"total_size":1.536e3}}`:  1536,
		`{"weight_map":{},"metadata":{"total_size":1.5}}`:      -2,
		`{"weight_map":{},"metadata":{"total_size":-1}}`:       -2,
		`{"weight_map":{},"metadata":{"total_size":"12"}}`:     -2,
		`{"weight_map":{},"metadata":{"total_size":null}}`:     -2,
		`{"weight_map":{},"metadata":{"total_size":1e300}}`:    -2,
		`{"weight_map":{},"metadata":null}`:                    -1,
		`{"weight_map":{},"metadata":{"total_size":9.3e18}}`:   -2,
		`{"weight_map":{},"metadata":{"total_size":[1]}}`:      -2,
		`{"weight_map":{},"metadata":{"total_size":true}}`:     -2,
		`{"weight_map":{},"metadata":{"total_parameters":12}}`: -1,
	} {
		x, err := ParseIndex([]byte(text), tensor.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		n, err := x.TotalSize()
		if (err != nil) != (want == -2) || err == nil && n != want {
			t.Errorf("%s: %d, %v", text, n, err)
		}
	}
}

func TestParseIndexRefusesWhatIsNoIndex(t *testing.T) {
	for _, text := range []string{
		``, `[]`, `{}`, `{"weight_map":[]}`, `{"weight_map":{"a":1}}`, `{"weight_map":{}} x`,
		`{"weight_map":{"a":"1","a":"2"}}`, `{"weight_map":{},"weight_map":{}}`,
		`{"weight_map":{},"metadata":{},"metadata":{}}`, `{"weight_map":{"a":"1"`,
	} {
		if _, err := ParseIndex([]byte(text), tensor.Limits{}); !errors.Is(err,
			tensor.ErrMalformed) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestCheckShardNameRefusesPathsThatLeave(t *testing.T) {
	for name, ok := range map[string]bool{
		"a.safetensors": true, "b/a.safetensors": true, "a..b": true, "./a": true,
		"": false, ".": false, "/a": false, "../a": false, "b/../a": false, `b\a`: false,
		"C:a": false, "a\x00": false,
	} {
		if err := CheckShardName(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// A warning about a shard names it, and the names of all shards are those that are
// written.
func TestWarningsNameTheShard(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "m.safetensors")
	o := &ShardOptions{MaxSize: 80, DryRun: true}
	planned, err := WriteShards(t.Context(), name, tensor.Of(checkpoint(5, 1)...), o)
	if err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Fatalf("%v, %v", entries, err)
	}
	names := writeCheckpoint(t, dir, 5, 1)
	if !slices.Equal(names, planned) {
		t.Errorf("%q, not %q", names, planned)
	}
	b, err := os.ReadFile(names[1])
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(b, []byte(`"dtype":`)) + len(`"dtype":`)
	b = slices.Concat(b[:at], []byte(" "), b[at:]) // which the README allows at the end only
	binary.LittleEndian.PutUint64(b, binary.LittleEndian.Uint64(b)+1)
	if err := os.WriteFile(names[1], b, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Open(names[len(names)-1], nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	w := r.Warnings()
	if len(w) == 0 || !strings.HasPrefix(w[0].Error(),
		`safetensors: "m-00002-of-00003.safetensors": `) {
		t.Errorf("%q", w)
	}
}
