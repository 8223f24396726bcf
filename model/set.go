package model

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/quant"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
)

// A Set is the files that are loaded together: the shards of an index, numbered shards
// without one, a root of zTensor 2 with its shards, or one file.
type Set struct {
	Name    string            `json:"name"` // of the files, without number and extension
	Format  tensorfile.Format `json:"format"`
	Index   string            `json:"index,omitempty"` // "" where there is none
	Primary bool              `json:"primary"`
	Files   []string          `json:"files"` // all that belong to it, in order
	Missing []string          `json:"missing,omitempty"`
	// Figures are of the files that could be read; in a Report, with quantised weights.
	Figures
	// TotalSize is metadata.total_size of the index; nil if it has none.
	TotalSize *int64 `json:"total_size,omitempty"`

	part          string // directory
	stem, variant string
	index         *safetensors.Index
	numbered      *naming.Shard // without index
	root          bool          // the first file knows the tensors of all
	unusable      bool          // the index is malformed, or names what is not looked at
	shards        []shard
	count         int              // of files, where not all are listed
	file          *tensorfile.File // the shards as one
	summary       tensorfile.Summary
	found         func() *quant.Set // the weights
}

// A shard is a file of a set.
type shard struct {
	named string // as the index names it
	*file
}

// Root returns the file that opens the whole set, relative to the directory: an index of
// safetensors, a file that names the others, or the only one. It is "" where no file
// does.
func (s *Set) Root() string {
	switch {
	case s.Index != "" && s.Format == tensorfile.Safetensors:
		return s.Index
	case s.root || len(s.Files) == 1:
		return s.Files[0]
	}
	return ""
}

// files yields the files that have the tensors of the set and could be read.
func (s *Set) files() (all []*tensorfile.File, names []string) {
	for i, sh := range s.shards {
		if sh.open != nil && (!s.root || i == 0) {
			all, names = append(all, sh.open), append(names, sh.name)
		}
	}
	return all, names
}

// tensors yields the shards for Index.Compare.
func (s *Set) tensors() iter.Seq2[string, tensorSeq] {
	return func(yield func(string, tensorSeq) bool) {
		for _, sh := range s.shards {
			var ts tensorSeq
			if sh.open != nil {
				ts = s.indexed(sh.open)
			}
			if !yield(sh.named, ts) {
				return
			}
		}
	}
}

// indexed yields the tensors of a shard as an index lists them: a tensor of a subclass in
// a checkpoint, which has others in its state, is one.
func (s *Set) indexed(f *tensorfile.File) tensorSeq {
	listed, subclasses := map[string]bool{}, map[string]bool{}
	for key := range f.Attributes() {
		name, ok := strings.CutSuffix(key, ".class")
		if !ok || s.index == nil || f.Tensor(name) != nil {
			continue
		}
		if len(listed) == 0 {
			for name := range s.index.Weights() {
				listed[name] = true
			}
		}
		if listed[name] {
			subclasses[name] = true
		}
	}
	if len(subclasses) == 0 {
		return f.Tensors()
	}
	return func(yield func(*tensor.Tensor) bool) {
		seen := map[string]bool{}
		for t := range f.Tensors() {
			for i := range min(len(t.Name), maxName) {
				if name := t.Name[:i]; t.Name[i] == '.' && subclasses[name] {
					t = &tensor.Tensor{Name: name}
					break
				}
			}
			if subclasses[t.Name] {
				if seen[t.Name] {
					continue
				}
				seen[t.Name] = true
			}
			if !yield(t) {
				return
			}
		}
	}
}

// maxName bounds the names that are looked up by their segments.
const maxName = 4096

// stems are the stems of primary sets, in the order in which they are looked for.
var stems = []string{"model", "diffusion_pytorch_model", "consolidated", "adapter_model"}

// formatRanks are the formats whose sets come before and after all other sets.
var formatRanks = map[tensorfile.Format]int{tensorfile.Safetensors: -1, tensorfile.Torch: 1}

// rank is what decides before the name which set is the primary one.
func (s *Set) rank() (rank [4]int) {
	rank[0] = formatRanks[s.Format]
	if rank[1] = slices.Index(stems, s.stem); rank[1] < 0 {
		rank[1] = len(stems)
	}
	rank[2], rank[3] = min(len(s.variant), 1), min(len(s.Index), 1)
	return rank
}

// compare orders sets, the primary one first.
func (s *Set) compare(other *Set) int {
	a, b := s.rank(), other.rank()
	return cmp.Or(slices.Compare(a[:], b[:]), cmp.Compare(s.Name, other.Name))
}

// newSet names a set after the stem of its files, of which the variant is a part.
func newSet(part, stem, ext string) *Set {
	s := &Set{Name: path.Join(part, stem), Format: setFormat("x" + ext), part: part, stem: stem,
		Files: []string{}}
	if base, variant, ok := strings.Cut(stem, "."); ok && slices.Contains(stems, base) {
		s.stem, s.variant = base, variant
	}
	return s
}

// find divides the weights of a directory into sets.
func (m *Model) find(part string) {
	var indexes, weights []string
	for _, name := range slices.Sorted(maps.Keys(m.entries)) {
		switch e := m.entries[name]; {
		case path.Dir(name) != part || e.err == nil && !e.regular && !e.outside:
		case isIndex(name):
			indexes = append(indexes, name)
		case isWeights(name):
			weights = append(weights, name)
		}
	}
	var sets []*Set
	named := map[string]bool{}
	unusable := map[string]bool{} // extensions of which nothing is said
	for _, name := range indexes {
		x, _ := parseIndexName(name)
		s := m.indexed(part, name, x)
		sets = append(sets, s)
		for _, sh := range s.shards {
			named[sh.name] = true
		}
		unusable[x.ext] = unusable[x.ext] || s.index == nil
	}
	byExt := indexedStems(indexes)
	groups := map[naming.Shard]*Set{}
	for _, name := range weights {
		ext := path.Ext(name)
		if named[name] || unusable[ext] {
			continue
		}
		if ext == safetensorsExt && len(byExt[ext]) > 0 && !byExt[ext].exempt(name) {
			m.note(OrphanFile, name, "", "no index names it: loaders ignore it")
			continue
		}
		if index, ok := byExt[ext][strings.TrimSuffix(path.Base(name), ext)]; ok && index != "" {
			m.note(ShadowedIndex, name, "", "%s does not name it: transformers loads this file, "+
				"other loaders the shards", index)
		}
		number, ok := parseShard(name)
		if !ok {
			s := newSet(part, strings.TrimSuffix(path.Base(name), ext), ext)
			m.join(s, name, name)
			sets = append(sets, s)
			continue
		}
		s := groups[number.Group()]
		if s == nil {
			s = newSet(part, number.Stem, ext)
			s.numbered = &number
			groups[number.Group()] = s
			sets = append(sets, s)
		}
		m.join(s, name, name)
	}
	slices.SortStableFunc(sets, (*Set).compare)
	m.sets = append(m.sets, sets...)
}

// join adds a file to a set.
func (m *Model) join(s *Set, named, name string) *file {
	f := m.files[name]
	if f == nil {
		f = &file{entry: m.entry(name)}
		m.files[name] = f
	}
	s.Files = append(s.Files, name)
	s.shards = append(s.shards, shard{named, f})
	return f
}

// indexed makes the set of an index.
func (m *Model) indexed(part, name string, x indexName) *Set {
	s := newSet(part, x.stem, x.ext)
	s.Index = name
	if x.variant != "" {
		s.variant = x.variant[1:]
		s.Name += x.variant
	}
	if s.index = m.readIndex(name); s.index == nil {
		s.unusable = true
		return s
	}
	count := map[string]int64{}
	first := map[string]string{} // tensor
	for t, f := range s.index.Weights() {
		if count[f]++; count[f] == 1 {
			first[f] = t
		}
	}
	for _, f := range s.index.Files() {
		if err := safetensors.CheckShardName(f); err != nil {
			bad := finding(UnsafePath, name, "", "%v", errors.Unwrap(err))
			bad.Field = fmt.Sprintf("weight_map[%q]", first[f])
			bad.Tensors = count[f]
			m.found.add(bad)
			s.unusable = true
			continue
		}
		file := path.Join(part, f)
		if path.Ext(file) != x.ext {
			bad := finding(WrongExtension, file, "", "named by %s, not a %s file", name, x.ext)
			bad.Tensors = count[f]
			m.found.add(bad)
			s.unusable = true
			continue
		}
		joined := m.join(s, f, file)
		joined.mapped = max(joined.mapped, count[f])
	}
	return s
}

// readIndex returns an index, or nil where a finding says why not.
func (m *Model) readIndex(name string) *safetensors.Index {
	b := m.readJSON(name, IndexMalformed)
	if b == nil {
		return nil
	}
	index, err := safetensors.ParseIndex(b, m.limits)
	if err != nil {
		m.found.add(findingOf(limitOr(err, IndexMalformed), name, err))
		return nil
	}
	if !index.HasMetadata() {
		m.note(IndexNoMetadata, name, "",
			`no object "metadata": transformers and diffusers do not load it`)
	}
	return index
}
