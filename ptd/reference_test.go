package ptd_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/tensor"
)

// A refCase is what interop/ptd/reference.py gave to ExecuTorch's serializer.
type refCase struct {
	Alignment int64
	Buffers   []string
	Entries   []struct {
		Name      string
		Buffer    int
		Alignment int64
		Layout    *struct {
			ScalarType int8    `json:"scalar_type"`
			Sizes      []int32 `json:"sizes"`
			DimOrder   []int   `json:"dim_order"`
		}
	}
}

// entries returns the case as a Writer takes it.
func (c *refCase) entries(t *testing.T) []ptd.Entry {
	var buffers []tensor.Blob
	for _, h := range c.Buffers {
		b, err := hex.DecodeString(h)
		if err != nil {
			t.Fatal(err)
		}
		data := tensor.BlobOf(b)
		if len(b) == 0 { // is shared too, but memory of no bytes has no identity
			data = tensor.BlobFunc(0,
				func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(nil)), nil })
		}
		buffers = append(buffers, data)
	}
	var out []ptd.Entry
	for _, e := range c.Entries {
		x := ptd.Entry{Name: e.Name, Data: buffers[e.Buffer], Alignment: e.Alignment}
		if l := e.Layout; l != nil {
			x.Layout = &ptd.Layout{ScalarType: ptd.ScalarType(l.ScalarType), Sizes: l.Sizes}
			for _, d := range l.DimOrder {
				x.Layout.DimOrder = append(x.Layout.DimOrder, uint8(d))
			}
		}
		out = append(out, x)
	}
	return out
}

// references yields the files that ExecuTorch made: the files in testdata, and the files
// of interop/ptd.sh.
func references(t *testing.T, do func(t *testing.T, base string, c *refCase, data []byte)) {
	for _, dir := range []string{"../testdata/ptd", os.Getenv("TENSORFILE_PTD_CASES")} {
		if dir == "" {
			continue
		}
		files, err := filepath.Glob(dir + "/*.json")
		if err != nil || len(files) == 0 {
			t.Fatalf("no files in %s: %v", dir, err)
		}
		for _, file := range files {
			base := strings.TrimSuffix(file, ".json")
			t.Run(filepath.Base(base), func(t *testing.T) {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				c := new(refCase)
				if err := json.Unmarshal(text, c); err != nil {
					t.Fatal(err)
				}
				data, err := os.ReadFile(base + ".ptd")
				if err != nil {
					t.Fatal(err)
				}
				do(t, base, c, data)
			})
		}
	}
}

func TestReadsWhatExecuTorchWrote(t *testing.T) {
	references(t, func(t *testing.T, base string, c *refCase, data []byte) {
		want := c.entries(t)
		api(ptd.ReaderOptions{}).Each(t, data, func(t *testing.T, r *ptd.Reader) {
			if len(r.Warnings()) > 0 {
				t.Errorf("warnings: %v", r.Warnings())
			}
			legacy := strings.Contains(base, "et-0.6")
			if legacy != (r.Schema() == "0.6") {
				t.Errorf("schema %s", r.Schema())
			}
			compareEntries(t, slices.Collect(r.Entries()), want)
			if _, err := r.Verify(t.Context(), nil); err != nil {
				t.Error(err)
			}
			if legacy {
				return
			}
			segmentOf := map[int]int{} // of a buffer
			for _, e := range c.Entries {
				got, _ := r.Entry(e.Name)
				if s, ok := segmentOf[e.Buffer]; ok && s != got.Segment {
					t.Errorf("%s: segment %d, its buffer is in %d", e.Name, got.Segment, s)
				}
				segmentOf[e.Buffer] = got.Segment
			}
		})
	})
}

// TestWritesWhatExecuTorchReads writes every case byte for byte as the reference did,
// unless an alignment is not recorded or one that only the reference takes, and in other
// ways, which are read back here, and by the reference where interop/ptd.sh calls this
// test.
func TestWritesWhatExecuTorchReads(t *testing.T) {
	same := 0
	references(t, func(t *testing.T, base string, c *refCase, data []byte) {
		entries := c.entries(t)
		odd := c.Alignment&(c.Alignment-1) != 0
		own := false // alignments above the file's, which we apply to the whole file
		plain := true
		for _, e := range entries {
			odd = odd || e.Alignment&(e.Alignment-1) != 0
			own = own || e.Alignment > c.Alignment
			plain = plain && e.Alignment <= 1 // what a file does not record
		}
		if odd {
			return
		}
		name := filepath.Base(base)
		latest := !strings.HasPrefix(name, "et-") || strings.HasPrefix(name, "et-1.5.1-")
		if latest && !own {
			same++
			got := write(t, entries, ptd.WriterOptions{SegmentAlignment: c.Alignment})
			if !bytes.Equal(got, data) {
				t.Errorf("other bytes than the reference: %d, want %d", len(got), len(data))
			}
		}
		if plain && !strings.HasPrefix(name, "et-0") && !strings.HasPrefix(name, "et-1.0") {
			// a copy shares what the file shares, be it nothing
			api(ptd.ReaderOptions{}).Each(t, data, func(t *testing.T, r *ptd.Reader) {
				if got := write(t, slices.Collect(r.Entries()),
					ptd.WriterOptions{SegmentAlignment: c.Alignment}); !bytes.Equal(got, data) {
					t.Errorf("a copy has other bytes: %d, want %d", len(got), len(data))
				}
			})
		}
		for name, opts := range map[string]ptd.WriterOptions{
			"ours":   {SegmentAlignment: c.Alignment},
			"tight":  {SegmentAlignment: 1},
			"coarse": {SegmentAlignment: 16, Alignment: 4096},
		} {
			got := write(t, entries, opts)
			if again := write(t, entries, opts); !bytes.Equal(got, again) {
				t.Errorf("%s: not the same bytes twice", name)
			}
			r, err := ptd.OpenBytes(got, &ptd.ReaderOptions{Strict: true})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			compareEntries(t, slices.Collect(r.Entries()), entries)
			for i, e := range slices.Collect(r.Entries()) {
				wish := max(entries[i].Alignment, opts.SegmentAlignment)
				if entries[i].Alignment == 0 {
					wish = max(wish, opts.Alignment)
				}
				if st, ok := e.Data.Stored(); ok && st.Offset%wish != 0 {
					t.Errorf("%s: %q is at %d, not at a multiple of %d", name, e.Name, st.Offset,
						wish)
				}
			}
			if strings.HasPrefix(base, os.Getenv("TENSORFILE_PTD_CASES")) &&
				os.Getenv("TENSORFILE_PTD_CASES") != "" {
				if err := os.WriteFile(base+"."+name+".ptd", got, 0o666); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
	if t.Logf("%d cases byte for byte", same); same < 10 {
		t.Errorf("%d cases byte for byte", same)
	}
}
