package torch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

// openDistributed opens .metadata with these files next to it.
func openDistributed(metadata string, files map[string]string) (*Reader, error) {
	return OpenBytes([]byte(metadata), &ReaderOptions{Companion: func(name string) (io.ReaderAt,
		int64, error) {
		data, ok := files[name]
		if !ok {
			return nil, 0, fs.ErrNotExist
		}
		return strings.NewReader(data), int64(len(data)), nil
	}})
}

func TestDistributedIsRefused(t *testing.T) {
	a, b := chunkArchive([]int64{2, 2}, "aabbccdd"), chunkArchive([]int64{1, 2}, "eeff")
	files := map[string]string{"0": a + b}
	top, bottom := chunkFile{[]int64{0, 0}, []int64{2, 2}, "0", 0,
		int64(len(a))}, chunkFile{[]int64{2, 0}, []int64{1, 2}, "0", int64(len(a)), int64(len(b))}
	good := metadata([]int64{3, 2}, []chunkFile{top, bottom}, "")
	r, err := openDistributed(good, files)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := r.Tensor("w").Data.ReadAll(); string(p) != "aabbccddeeff" || err != nil {
		t.Fatalf("%q, %v", p, err)
	}
	with := func(c chunkFile, change func(c *chunkFile)) chunkFile {
		change(&c)
		return c
	}
	huge := metadata([]int64{3, 2}, []chunkFile{top, bottom}, "")
	for name, c := range map[string]struct {
		metadata string
		want     error
	}{
		"a file in another directory": {strings.ReplaceAll(good, str("0"), str("../0")),
			tensor.ErrMalformed},
		"an absolute path": {strings.ReplaceAll(good, str("0"), str("/0")),
			tensor.ErrMalformed},
		"a drive": {strings.ReplaceAll(good, str("0"), str("c:0")),
			tensor.ErrMalformed},
		"the directory above": {strings.ReplaceAll(good, str("0"), str("..")),
			tensor.ErrMalformed},
		"a file that is absent": {strings.ReplaceAll(good, str("0"), str("1")),
			fs.ErrNotExist},
		"a hole": {metadata([]int64{3, 2}, []chunkFile{top}, ""),
			tensor.ErrMalformed},
		"a chunk that is outside": {metadata([]int64{2, 2}, []chunkFile{top, bottom}, ""),
			tensor.ErrMalformed},
		"a row of 2^40": {strings.Replace(huge, ints(3, 2), ints(1<<40, 2), 1),
			tensor.ErrMalformed},
		"chunks that overlap": {metadata([]int64{3, 2}, []chunkFile{top, with(bottom,
			func(c *chunkFile) { c.offsets = []int64{1, 0} })}, ""),
			tensor.ErrMalformed},
		"no entry for a chunk": {strings.Replace(good, dataclass("MetadataIndex", "fqn", str("w"),
			"offset", ints(2, 0), "index", "K\x00"),
			dataclass("MetadataIndex", "fqn", str("v"), "offset", ints(2, 0), "index",
				"K\x00"), 1), tensor.ErrMalformed},
		"an entry of another shape": {metadata([]int64{4, 2}, []chunkFile{top, with(bottom,
			func(c *chunkFile) { c.sizes = []int64{2, 2} })}, ""), tensor.ErrMalformed},
		"an entry of another dtype": {strings.Replace(good, "int16", "int32", 1),
			tensor.ErrMalformed},
		"an offset beyond the file": {metadata([]int64{3, 2}, []chunkFile{top, with(bottom,
			func(c *chunkFile) { c.at = 1 << 40 })}, ""), io.ErrUnexpectedEOF},
		"a length beyond the file": {metadata([]int64{3, 2}, []chunkFile{top, with(bottom,
			func(c *chunkFile) { c.length = 1 << 40 })}, ""), io.ErrUnexpectedEOF},
		"a length that is short": {metadata([]int64{3, 2}, []chunkFile{top, with(bottom,
			func(c *chunkFile) { c.length -= 30 })}, ""), io.ErrUnexpectedEOF},
		"entries that share bytes": {metadata([]int64{3, 2}, []chunkFile{top, with(bottom,
			func(c *chunkFile) { c.at = 4 })}, ""), tensor.ErrMalformed},
		"another rank": {metadata([]int64{3, 2, 1}, []chunkFile{top, bottom}, ""),
			tensor.ErrMalformed},
		"an entry that is transformed": {strings.Replace(good, str("length"),
			str("transform_descriptors")+"]"+str("x")+"a"+str("length"), 1),
			errors.ErrUnsupported},
		"another class": {strings.Replace(good, "Metadata\n)\x81", "StorageMeta\n)\x81", 1),
			tensor.ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			if c.metadata == good {
				t.Fatal("nothing was changed")
			}
			if _, err := openDistributed(c.metadata, files); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
	if _, err := OpenBytes([]byte(good), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a Companion: %v", err)
	}
}

// Code in .metadata, and in an entry, is found and not run.
func TestForeignGlobalsOfDistributedAreFoundAndNotRun(t *testing.T) {
	value := string(archive(dictWith("a", reinvoked)))
	index := dataclass("MetadataIndex", "fqn", str("v"), "offset", "N", "index",
		"N") + storageInfo("0", 0, int64(len(value)))
	good := metadata(nil, nil, index)
	state := "}(" + str("v") + dataclass("BytesStorageMetadata") + "u"
	from := strings.Index(good, str("state_dict_metadata")) + len(str("state_dict_metadata"))
	to := strings.Index(good, str("storage_data"))
	m := good[:from] + state + str("planner_data") + reinvoked + good[to:]
	r, err := openDistributed(m, map[string]string{"0": value})
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for g := range r.Globals() {
		if !g.Known {
			found = append(found, fmt.Sprint(g.File, " ", g.Pickle, " ", g, " ", g.Called))
		}
	}
	if want := "[ .metadata os.system true 0 data.pkl os.system true]"; fmt.Sprint(found) != want {
		t.Errorf("%q, want %q", found, want)
	}
	if report, err := r.Verify(t.Context(), nil); !errors.Is(err, errors.ErrUnsupported) ||
		len(report.Findings) != 3 { // and the storage that no tensor has
		t.Errorf("%v", report.Findings)
	}
}

// A tensor in random boxes is read like one in a piece, at any place.
func TestChunksAreAssembled(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		rank := 1 + random.IntN(3)
		c := chunked{dtype: dtype{d: tensor.U8, size: 1, packed: 1}, shape: make(tensor.Shape,
			rank)}
		n := 1
		for i := range c.shape {
			c.shape[i] = int64(1 + random.IntN(6))
			n *= int(c.shape[i])
		}
		whole := make([]byte, n)
		for i := range whole {
			whole[i] = byte(i)
		}
		strides, _ := tensor.Order(nil).Strides(c.shape)
		var split func(offsets, sizes []int64)
		split = func(offsets, sizes []int64) {
			d := random.IntN(rank)
			if sizes[d] > 1 && random.IntN(4) > 0 {
				at := 1 + random.Int64N(sizes[d]-1)
				left, right, start := clonedInts(sizes), clonedInts(sizes), clonedInts(offsets)
				left[d], right[d], start[d] = at, sizes[d]-at, offsets[d]+at
				split(offsets, left)
				split(start, right)
				return
			}
			first := int64(0)
			for i := range offsets {
				first += offsets[i] * strides[i]
			}
			data, err := tensor.Gather(tensor.BlobOf(whole), 1, sizes, strides, first, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			c.chunks = append(c.chunks, chunk{offsets, sizes, data})
		}
		split(make([]int64, rank), clonedInts(c.shape))
		x, err := c.tensor()
		if err != nil {
			t.Fatal(err)
		}
		if p, err := x.Data.ReadAll(); err != nil || !bytes.Equal(p, whole) {
			t.Fatalf("%v of %d chunks: %v, %v", c.shape, len(c.chunks), p, err)
		}
		from := random.IntN(n)
		p := make([]byte, random.IntN(n-from)+1)
		if _, err := x.Data.ReadAt(p, int64(from)); err != nil || !bytes.Equal(p,
			whole[from:from+len(p)]) {
			t.Fatalf("at %d: %v, %v", from, p, err)
		}
	}
}

func clonedInts(s []int64) []int64 { return append([]int64(nil), s...) }

// The directory and its .metadata open the same; a link in the place of a file does not.
func TestDirectoriesOpenByTheirMetadata(t *testing.T) {
	dir := "../testdata/torch/dcp"
	for _, name := range []string{dir, filepath.Join(dir, ".metadata")} {
		r, err := Open(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.Version() != "dcp" || r.Len() != 4 || !strings.Contains(describe(r),
			"betas [0.9,0.999]") {
			t.Errorf("%s: %s", name, describe(r))
		}
		if err := r.Close(); err != nil || r.Close() != nil {
			t.Error(err)
		}
	}
	linked := t.TempDir()
	files, _ := os.ReadDir(dir)
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if f.Name() == "__0_0.distcp" {
			outside := filepath.Join(t.TempDir(), "outside")
			os.WriteFile(outside, b, 0o666)
			if err := os.Symlink(outside, filepath.Join(linked, f.Name())); err != nil {
				t.Skip("links are not possible here: ", err)
			}
			continue
		}
		os.WriteFile(filepath.Join(linked, f.Name()), b, 0o666)
	}
	r, err := Open(linked, nil) // as in Hugging Face's cache
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	if r, err := Open(linked, &ReaderOptions{NoLinks: true}); err == nil {
		r.Close()
		t.Error("a link out of the directory was followed")
	}
}

// TestCellsAreInProportionToChunks: 125 chunks at 81 places divide a tensor in a
// million cells, which are not looked at.
func TestCellsAreInProportionToChunks(t *testing.T) {
	c := chunked{name: "w", shape: tensor.Shape{100, 100, 100}}
	for i := range int64(125) {
		at := i % 81
		c.chunks = append(c.chunks,
			chunk{offsets: []int64{at, at, at}, sizes: []int64{20, 20, 20}})
	}
	if err := c.covered(100 * 100 * 100); !errors.Is(err, tensor.ErrLimit) {
		t.Error(err)
	}
}
