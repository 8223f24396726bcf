package repotest

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
)

func TestSpansCoverEveryFile(t *testing.T) {
	eachTestFile(t, func(t *testing.T, f *tensorfile.File) {
		at := int64(0)
		payload := int64(0)
		for s := range f.Spans() {
			if s.Offset != at || s.Size <= 0 || s.Size > f.Size()-at {
				t.Fatalf("%+v, and the file of %d bytes is covered up to %d", s, f.Size(), at)
			}
			at += s.Size
			if s.Kind == tensor.SpanTensor || s.Kind == tensor.SpanBlob {
				payload += s.Size
			} else if s.Name != "" {
				t.Errorf("a name, %q, for %v", s.Name, s.Kind)
			}
		}
		if at != f.Size() {
			t.Errorf("covered up to %d of %d", at, f.Size())
		}
		for range f.Spans() {
			break // an iterator may be left
		}
		// Bytes of payloads are in spans of payloads, and have one owner. A tensor of
		// torch whose elements are not adjacent is at no one place, but has a span.
		var extents []tensor.Stored
		add := func(b tensor.Blob) {
			st, ok := b.Stored()
			if ok && st.File == "" && st.Size > 0 && st.Offset >= 0 {
				extents = append(extents, st)
			}
		}
		for x := range f.Tensors() {
			if x.External {
				continue
			}
			add(x.Data)
			for _, p := range x.Parts {
				add(p.Data)
			}
		}
		for _, b := range f.Blobs() {
			add(b)
		}
		stored := unionSize(extents)
		if payload < stored || payload > stored && f.Format() != tensorfile.PTE &&
			f.Format() != tensorfile.Torch {
			t.Errorf("%d bytes of payloads, in spans of %d", stored, payload)
		}
	})
}

// The spans of an index are spans of its own file. Each shard has its own, in which a
// tensor of the set is where its Stored says.
func TestEachShardOfASetHasItsOwnSpans(t *testing.T) {
	dir := t.TempDir()
	names, err := safetensors.WriteShards(t.Context(), filepath.Join(dir, "m.safetensors"),
		tensor.Of(
			tensor.New("a", tensor.Shape{3}, []float32{1, 2, 3}),
			tensor.New("b", tensor.Shape{2}, []int64{4, 5}),
		), &safetensors.ShardOptions{MaxSize: 16})
	if err != nil {
		t.Fatal(err)
	}
	set, err := tensorfile.Open(names[len(names)-1], nil)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	if got := slices.Collect(set.Spans()); !slices.Equal(got,
		[]tensor.Span{{Size: set.Size(), Kind: tensor.SpanMetadata}}) {
		t.Errorf("the index of %d bytes has the spans %v", set.Size(), got)
	}
	for x := range set.Tensors() {
		st, ok := x.Data.Stored()
		if !ok {
			t.Fatal(x.Name)
		}
		shard, err := tensorfile.Open(filepath.Join(dir, st.File), nil)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(slices.Collect(shard.Spans()),
			tensor.Span{Offset: st.Offset, Size: st.Size, Kind: tensor.SpanTensor, Name: x.Name}) {
			t.Errorf("%s is not at %d in %s", x.Name, st.Offset, st.File)
		}
		shard.Close()
	}
}

// unionSize is how many bytes are in at least one of the extents.
func unionSize(extents []tensor.Stored) (n int64) {
	slices.SortFunc(extents,
		func(a, b tensor.Stored) int { return cmp.Compare(a.Offset, b.Offset) })
	end := int64(0)
	for _, x := range extents {
		from := max(end, x.Offset)
		end = max(end, x.Offset+x.Size)
		n += end - from
	}
	return n
}

func TestSpansNameEveryPartOfAFile(t *testing.T) {
	for _, c := range []struct{ file, want string }{
		{"ptd/et-1.5.1-shared.ptd", `
0+48 header
48+8 padding
56+416 metadata
472+40 padding
512+8 tensor row
520+120 padding
640+8 tensor own`},
		{"pte/generation-0.7.0-mutable-state.pte", `
0+32 header
32+1240 metadata
1272+8 padding
1280+8 tensor forward/1
1288+120 padding
1408+8 tensor counter`},
		{"pte/export-1.5.1-bundled.bpte", `
0+64 metadata
64+40 header
104+1408 metadata
1512+88 padding
1600+24 tensor forward/0
1624+8 padding
1632+8 tensor forward/1
1640+568 metadata`},
		{"rten/convert-0.22.0-control.rten", `
0+32 header
32+1060 metadata
1092+12 tensor nodes[6].else_branch/k
1104+760 metadata
1864+12 tensor nodes[6].then_branch.nodes[2].then_branch/k
1876+380 metadata
2256+4 tensor trips
2260+4 metadata
2264+40 padding
2304+72 tensor nodes[6].then_branch.nodes[2].else_branch/big`},
		{"ztensor/crate-1.2.3-removed.zt", `
0+8 header
8+56 padding
64+20 tensor a
84+44 padding
128+20 tensor c
148+227 metadata
375+16 header`},
		{"ztensor/crate-2.1.1-sharded.zt", `
0+8 header
8+4088 padding
4096+2 tensor here
4098+4094 padding
8192+766 metadata
8958+40 header`},
		{"primitiv/parameter-matrix.primitiv", `
0+33 metadata
33+60 tensor value
93+5 metadata`},
		{"safetensors/scalar-and-zero.safetensors", `
0+8 header
8+224 metadata
232+4 tensor s
236+1 tensor b`},
		{"npy/version2.npy", `
0+12 header
12+116 metadata
128+32 tensor data`},
		{"npy/one-be-deflated.npz", `
0+55 metadata
55+77 tensor a
132+73 metadata`},
		{"gguf/align4096.gguf", `
0+24 header
24+193 metadata
217+3879 padding
4096+10 tensor a
4106+4086 padding
8192+108 tensor b
8300+3988 padding
12288+1 tensor c
12289+4095 padding`},
	} {
		t.Run(c.file, func(t *testing.T) {
			f, err := tensorfile.Open("testdata/"+c.file, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			var b strings.Builder
			for s := range f.Spans() {
				fmt.Fprintln(&b,
					strings.TrimSpace(fmt.Sprintf("%d+%d %v %s", s.Offset, s.Size, s.Kind,
						s.Name)))
			}
			if got := strings.TrimSpace(b.String()); got != strings.TrimSpace(c.want) {
				t.Errorf("got\n%s", got)
			}
		})
	}
}
