package model

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

type tensorSeq = iter.Seq[*tensor.Tensor]

// checkSet finds what the files of a set, each by itself opened, say against each other
// and their index. Tensors in files that are missing or damaged are left out.
func (m *Model) checkSet(s *Set) {
	whole := !s.unusable
	for _, sh := range s.shards {
		whole = whole && sh.open != nil
		if sh.missing() {
			s.Missing = append(s.Missing, sh.name)
			if !sh.dangling() && !(sh.outside && m.noLinks) {
				m.missingShard(s, sh.name, sh.mapped)
			}
		}
	}
	if s.numbered != nil {
		whole = m.checkNumbers(s) && whole
	}
	if !s.root {
		m.compare(s)
	}
	var index int64
	if s.Index != "" {
		index = m.entries[s.Index].size
	}
	files, names := s.files()
	s.file = joined(files, names, index)
	s.summary = s.file.Summary()
	s.Figures = figuresOf(s.summary, s.file)
	if s.index != nil {
		m.checkIndex(s, whole)
	}
	m.checkSetIDs(s)
	if s.Format == tensorfile.GGUF {
		m.checkSplits(s, whole)
	}
	if whole && s.Tensors == 0 {
		file := s.Index
		if file == "" {
			file = s.Files[0]
		}
		m.note(NoTensors, file, "", "no tensors")
	}
}

func (m *Model) missingShard(s *Set, name string, tensors int64) {
	by := "named by its siblings' names"
	switch e := m.entries[name]; {
	case (s.Index != "" || s.root) && tensors > 0:
		by = fmt.Sprintf("named by %s for %d tensor%s", cmp.Or(s.Index, s.Files[0]), tensors,
			strings.Repeat("s", int(min(tensors-1, 1))))
	case s.Index != "":
		by = "named by " + s.Index
	case s.root:
		by = "named by " + s.Files[0]
	case e != nil && e.link != "":
		by = "a link to " + naming.Quote(e.link) + ", which is not a regular file"
	}
	f := finding(MissingShard, name, "", "%s", by)
	f.Tensors = tensors
	m.found.add(f)
}

// checkNumbers reports whether numbered shards are complete.
func (m *Model) checkNumbers(s *Set) bool {
	numbers := map[int]bool{}
	for _, sh := range s.shards {
		n, _ := parseShard(sh.name)
		numbers[n.I] = true
	}
	names, count := missingShards(*s.numbered, numbers, maxFindings+1)
	for _, name := range names {
		name = path.Join(s.part, name)
		s.Missing, s.Files = append(s.Missing, name), append(s.Files, name)
		m.missingShard(s, name, 0)
	}
	slices.Sort(s.Missing)
	slices.Sort(s.Files)
	s.count = s.numbered.N
	complete := count == 0 && len(s.Missing) == 0
	if complete && s.Format == tensorfile.Safetensors {
		m.note(NoIndex, s.Files[0], "",
			"no index: transformers does not load numbered shards without one")
	}
	return complete
}

// compare reports tensors that are not where the index says, or in two shards.
func (m *Model) compare(s *Set) {
	x := s.index
	if x == nil {
		x = &safetensors.Index{}
	}
	names := map[string]string{}
	for _, sh := range s.shards {
		names[sh.named] = sh.name
	}
	for _, d := range x.Compare(s.tensors()) {
		file, other := names[d.File], naming.Quote(d.Other)
		switch {
		case d.Kind == safetensors.TensorDuplicate:
			m.note(DuplicateTensor, file, d.Tensor, "also in %s", other)
		case d.Kind == safetensors.TensorMissing:
			m.note(MissingTensor, file, d.Tensor, "in the index, in no shard")
		case d.Kind == safetensors.TensorMisplaced:
			m.note(MisplacedTensor, file, d.Tensor, "the index has it in %s", other)
		case s.index != nil:
			m.note(UnindexedTensor, file, d.Tensor, "not in %s", s.Index)
		}
	}
}

// checkIndex compares what an index says besides its map.
func (m *Model) checkIndex(s *Set, whole bool) {
	switch n, err := s.index.TotalSize(); {
	case err != nil:
		m.found.add(findingOf(TotalSize, s.Index, err))
	case n >= 0:
		s.TotalSize = &n
		// Tensors of a pickle may share a storage, which counts once.
		if whole && n != s.Bytes && s.Format != tensorfile.Torch {
			f := finding(TotalSize, s.Index, "", "%d, the tensors have %d bytes", n, s.Bytes)
			f.Field = "metadata.total_size"
			m.found.add(f)
		}
	}
	if s.unusable || len(s.Files) == 0 {
		return
	}
	first, ok := parseShard(s.Files[0])
	if !ok && len(s.Files) == 1 {
		return
	}
	seen := map[int]bool{}
	for _, name := range s.Files {
		n, isNumbered := parseShard(name)
		ok = ok && isNumbered && n.Group() == first.Group() && n.I >= 1 && n.I <= n.N
		seen[n.I] = true
	}
	if !ok || len(seen) != first.N || len(s.Files) != first.N {
		m.note(ShardNumbering, s.Index, "", "its %d files are not numbered from 1 to %d",
			len(s.Files), len(s.Files))
	}
}

// checkSetIDs compares the IDs of shards, which a writer gives them, with the ID of their
// index, or of the first where the index has none.
func (m *Model) checkSetIDs(s *Set) {
	want, known := "", false
	if s.index != nil {
		want, known = s.index.SetID()
	}
	for _, sh := range s.shards {
		if sh.open == nil {
			continue
		}
		r, ok := sh.open.Sys().(interface{ SetID() string })
		if !ok {
			continue
		}
		id := r.SetID()
		if !known {
			want, known = id, true
		}
		if id != want {
			m.note(MixedShards, sh.name, "",
				"of the set %s, not of %s: files of two models are mixed", naming.Quote(id),
				naming.Quote(want))
		}
	}
}

// checkSplits compares the split keys of GGUF files with their names and each other.
func (m *Model) checkSplits(s *Set, whole bool) {
	total, declared := int64(0), int64(-1)
	for _, sh := range s.shards {
		if sh.open == nil {
			continue
		}
		total += int64(sh.open.Len())
		no, count := int64(-1), int64(-1)
		if n, ok := parseShard(sh.name); ok {
			no, count = int64(n.I)-1, int64(n.N)
		}
		gotNo, ok1 := m.splitKey(sh.file, "split.no", gguf.TypeUint16)
		gotCount, ok2 := m.splitKey(sh.file, "split.count", gguf.TypeUint16)
		sum, ok3 := m.splitKey(sh.file, "split.tensors.count", gguf.TypeInt32)
		declared, whole = max(declared, sum), whole && ok3
		switch {
		case !ok1 || !ok2:
		case gotCount > 1 && 0 <= gotNo && gotNo < gotCount &&
			(gotCount != count || gotNo != no):
			want := m.expectedName(sh.name, int(gotNo), int(gotCount))
			m.noteSplit(sh.name, "split.no", "is %d and split.count %d: loaders expect the "+
				"name %s", gotNo, gotCount, naming.Quote(want))
			whole = false
		case gotCount != count && !(count == -1 && gotCount <= 1):
			m.split(sh.name, "split.count", gotCount, count)
		case count > 0 && gotNo != no:
			m.split(sh.name, "split.no", gotNo, no)
		}
	}
	if whole && declared >= 0 && declared != total {
		m.split(s.Files[0], "split.tensors.count", declared, total)
	}
}

// expectedName returns the name that a shard needs to be loaded: with the stem that it
// has, or a numbered shard of as many next to it, else with NAME.
func (m *Model) expectedName(file string, no, count int) string {
	stem := "NAME"
	for _, s := range m.sets {
		if s.numbered != nil && s.Format == tensorfile.GGUF && s.numbered.N == count &&
			path.Dir(file) == s.part {
			stem = s.numbered.Stem
		}
	}
	if s, ok := parseShard(file); ok {
		stem = s.Stem
	}
	return gguf.ShardName(stem, no, count)
}

// splitKey returns the value of a split key, -1 where it is absent. It is false for a
// value of another type, which llama.cpp refuses.
func (m *Model) splitKey(f *file, key string, want gguf.ValueType) (n int64, ok bool) {
	r, isGGUF := f.open.Sys().(*gguf.Reader)
	if !isGGUF {
		return -1, true
	}
	v, found := r.Value(key)
	if !found {
		return -1, true
	}
	if v.Type() == want {
		n, err := strconv.ParseInt(v.String(), 10, 64)
		return n, err == nil
	}
	m.noteSplit(f.name, key, "is of type %v, not %v", v.Type(), want)
	return -1, false
}

// split reports a split key whose value is not what the names or the files mean.
func (m *Model) split(file, key string, got, want int64) {
	is, means := "is "+strconv.FormatInt(got, 10), strconv.FormatInt(want, 10)
	if got < 0 {
		is = "is absent"
	}
	if want < 0 {
		means = "none"
	}
	m.noteSplit(file, key, "%s where the files mean %s", is, means)
}

func (m *Model) noteSplit(file, key, format string, args ...any) {
	f := finding(GGUFSplit, file, "", key+" "+format, args...)
	f.Field = key
	m.found.add(f)
}

// joinShards gives roots of zTensor 2 their shards, which are no sets of their own.
func (m *Model) joinShards() (added []*file) {
	taken := map[string]bool{}
	for _, s := range m.sets {
		if len(s.shards) != 1 || s.shards[0].open == nil {
			continue
		}
		root := s.shards[0]
		r, ok := root.open.Sys().(*ztensor.Reader)
		if !ok {
			continue
		}
		for sh := range r.Shards() {
			s.root = true
			e := m.ztensorShard(root.name, sh)
			_, known := m.files[e.name]
			f := m.join(s, e.name, e.name)
			taken[e.name] = true
			if !known && e.regular {
				added = append(added, f)
			}
			if e.regular && e.size != sh.Size {
				m.note(SizeMismatch, e.name, "", "%d bytes, %s says %d", e.size, root.name,
					sh.Size)
			}
		}
	}
	m.sets = slices.DeleteFunc(m.sets, func(s *Set) bool {
		return !s.root && len(s.Files) == 1 && taken[s.Files[0]]
	})
	return added
}

// ztensorShard returns what there is of a shard, in the places where the format says it
// is: next to the root, or in a store that is addressed by content.
func (m *Model) ztensorShard(root string, sh ztensor.Shard) *entry {
	content := strings.Replace(sh.Digest, ":", "/", 1)
	names := append(companionNames(root, sh.Name+".zt"),
		path.Join(path.Dir(root), "store/blobs", content),
		path.Join(path.Dir(root), "blobs", content))
	for _, name := range names {
		if safetensors.CheckShardName(name) == nil && m.entry(name).regular {
			return m.entry(name)
		}
	}
	return m.entry(names[0])
}

// limitOr returns Limit for an error of a limit.
func limitOr(err error, code Code) Code {
	if errors.Is(err, tensor.ErrLimit) {
		return Limit
	}
	return code
}
