package inspect

import (
	"iter"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// A joined file is a Reader of several files, as package model makes it of a directory.
type joined interface {
	Files() []*tensorfile.File
	Names() []string     // of the files
	FileOf(i int) string // name of the file of tensor i
	IndexSize() int64    // size of the index that names the files
}

// A sharded file is an index or a root, which names the files that have its tensors.
type sharded interface {
	ShardSpans() iter.Seq2[string, iter.Seq[tensor.Span]]
}

// Shards returns the names of the files that an index, a root or a distributed checkpoint
// refers to, or of the files of a model; nil for any other file.
func Shards(f *tensorfile.File) (names []string) {
	switch r := f.Sys().(type) {
	case *safetensors.Reader:
		for name := range r.Shards() {
			names = append(names, name)
		}
	case *ztensor.Reader: // without opening the shards
		for s := range r.Shards() {
			names = append(names, s.Name)
		}
	case sharded:
		if isUnpacked(f) {
			return nil
		}
		for name := range r.ShardSpans() {
			names = append(names, name)
		}
	case joined:
		if len(r.Files()) > 1 {
			return r.Names()
		}
		for _, f := range r.Files() {
			names = Shards(f)
		}
	}
	return names
}

// isUnpacked reports whether a file is the directory of an unpacked archive: its files
// are members, not shards.
func isUnpacked(f *tensorfile.File) bool {
	return f.Format() == tensorfile.Torch && f.Version() == "unpacked"
}

// FileOf returns the name of the file that has bytes of tensor i of f. st says where they
// are stored. It returns "" if the file is f.
func FileOf(f *tensorfile.File, i int, st tensor.Stored) string {
	if r, ok := f.Sys().(joined); ok && st.File == "" {
		return r.FileOf(i)
	}
	return st.File
}

// shardGroups sums up the tensors of each file that Shards lists.
func shardGroups(f *tensorfile.File) []UsageGroup {
	g := newGrouping(func(name string) string { return name })
	switch r := f.Sys().(type) {
	case joined:
		for i, f := range r.Files() {
			shards := shardGroups(f)
			for _, s := range shards {
				g.add(s)
			}
			if len(shards) == 0 && len(r.Files()) > 1 {
				g.add(UsageGroup{r.Names()[i], int64(f.Len()), tensorBytes(f.Spans())})
			}
		}
	default:
		if isUnpacked(f) {
			break
		}
		isStored := true // each payload is one range of a file
		for t := range f.Tensors() {
			last := ""
			for b := range format.Blobs(t) {
				st, ok := b.Stored()
				isStored = isStored && (ok && st.Offset >= 0 || b.Size() == 0 || t.External)
				if st.File == "" {
					continue
				}
				one := UsageGroup{st.File, 1, st.Size}
				if st.File == last {
					one.Tensors = 0
				}
				g.add(one)
				last = st.File
			}
		}
		index, ok := f.Sys().(sharded)
		if isStored || !ok {
			break
		}
		g = newGrouping(g.key)
		for name, spans := range index.ShardSpans() {
			for s := range spans {
				if s.Kind == tensor.SpanTensor {
					g.add(UsageGroup{name, 1, s.Size})
				}
			}
		}
	}
	return g.sorted()
}

// chosenShards sums up the tensors that pass a filter by the file that has their bytes;
// nil if one of them is gathered from several files.
func chosenShards(f *tensorfile.File, filter func(name string) bool) []UsageGroup {
	if r, ok := f.Sys().(joined); ok && len(r.Files()) == 1 {
		return chosenShards(r.Files()[0], filter)
	}
	g := newGrouping(func(name string) string { return name })
	i := -1
	for t := range f.Tensors() {
		i++
		if t.External || !filter(t.Name) {
			continue
		}
		last := ""
		for b := range format.Blobs(t) {
			st, ok := b.Stored()
			if !(ok && st.Offset >= 0 || b.Size() == 0) {
				return nil
			}
			one := UsageGroup{FileOf(f, i, st), 1, storedSize(b)}
			if one.Name == "" {
				continue
			}
			if one.Name == last {
				one.Tensors = 0
			}
			g.add(one)
			last = one.Name
		}
	}
	return g.sorted()
}

func tensorBytes(spans iter.Seq[tensor.Span]) (n int64) {
	for s := range spans {
		if s.Kind == tensor.SpanTensor {
			n += s.Size
		}
	}
	return n
}

// storedSize returns how many bytes of a file a blob takes. For elements that are
// gathered from several ranges it is their size.
func storedSize(b tensor.Blob) int64 {
	if st, ok := b.Stored(); ok && (st.Offset >= 0 || st.File != "") {
		return st.Size
	}
	return max(b.Size(), 0)
}
