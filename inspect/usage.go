package inspect

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/tensor"
)

// UsageOptions are options of [NewUsage]; nil is the zero value.
type UsageOptions struct {
	// Depth is after how many parts names are cut, to sum tensors up; dots and slashes
	// end a part. 0 goes as deep as it takes for no group to have nearly everything.
	Depth int
}

// A Usage says what the bytes of a file are for. Tensors, Blobs, Metadata, Padding and
// Unused add up to its size.
type Usage struct {
	Size     int64        `json:"size"`
	Tensors  int64        `json:"tensors"`
	Blobs    int64        `json:"blobs"`
	Metadata int64        `json:"metadata"` // headers and footers too
	Padding  int64        `json:"padding"`
	Unused   int64        `json:"unused"`
	Shared   int64        `json:"shared"` // bytes that tensors and blobs use more than once
	Gaps     []UsageGap   `json:"gaps"`
	Groups   []UsageGroup `json:"groups"`           // the largest first
	Shards   []UsageGroup `json:"shards,omitempty"` // other files that have tensors
}

// A UsageGap is a range that nothing in the file refers to.
type UsageGap struct {
	Offset int64 `json:"offset"`
	Size   int64 `json:"size"`
}

// A UsageGroup sums up tensors whose names begin alike, or those of a shard.
type UsageGroup struct {
	Name    string `json:"name"`
	Tensors int64  `json:"tensors"`
	Bytes   int64  `json:"bytes"` // as they are stored
}

// NewUsage returns what the bytes of a file are for. Of an index it sums up the tensors
// in the shards.
func NewUsage(f *tensorfile.File, opts *UsageOptions) *Usage {
	var o UsageOptions
	if opts != nil {
		o = *opts
	}
	u := &Usage{Size: f.Size(), Gaps: []UsageGap{}}
	for s := range f.Spans() {
		switch s.Kind {
		case tensor.SpanTensor:
			u.Tensors += s.Size
		case tensor.SpanBlob:
			u.Blobs += s.Size
		case tensor.SpanPadding:
			u.Padding += s.Size
		case tensor.SpanUnused:
			u.Unused += s.Size
			u.Gaps = append(u.Gaps, UsageGap{s.Offset, s.Size})
		default:
			u.Metadata += s.Size
		}
	}
	used := int64(0)
	shards := newGrouping(func(name string) string { return name })
	r, isJoined := f.Sys().(joined)
	if isJoined {
		u.addFiles(r, shards)
	}
	var all []UsageGroup // one for each tensor
	for t := range f.Tensors() {
		if t.External {
			continue
		}
		size := int64(0)
		for i := range 1 + len(t.Parts) {
			b := t.Data
			if i > 0 {
				b = t.Parts[i-1].Data
			}
			st, ok := b.Stored()
			switch {
			case !ok:
			case st.File != "" || isJoined:
				if size += st.Size; !isJoined {
					shards.add(UsageGroup{st.File, 1, st.Size})
				}
			case st.Offset >= 0:
				used += min(st.Size, f.Size()-min(st.Offset, f.Size()))
				size += st.Size
			}
		}
		all = append(all, UsageGroup{t.Name, 1, size})
	}
	for _, b := range f.Blobs() {
		if st, ok := b.Stored(); ok && st.File == "" && st.Offset >= 0 && !isJoined {
			used += min(st.Size, f.Size()-min(st.Offset, f.Size()))
		}
	}
	u.Shared += max(used-u.Tensors-u.Blobs, 0)
	u.Shards = shards.sorted()
	u.Groups = groupsOf(all, o.Depth)
	return u
}

// A joined file is several, as package model makes of a directory.
type joined interface {
	Files() []*tensorfile.File
	Names() []string // of the files
}

// addFiles adds what is in each file, whose gaps have offsets of their own.
func (u *Usage) addFiles(r joined, shards *grouping) {
	for i, f := range r.Files() {
		one := NewUsage(f, nil)
		u.Tensors += one.Tensors
		u.Blobs += one.Blobs
		u.Metadata += one.Metadata
		u.Padding += one.Padding
		u.Unused += one.Unused
		u.Shared += one.Shared
		for _, s := range one.Shards {
			shards.add(s)
		}
		if len(r.Files()) > 1 {
			shards.add(UsageGroup{r.Names()[i], int64(f.Len()), one.Tensors})
		}
	}
}

// maxAutomaticDepth bounds how deep names are cut without being asked to.
const maxAutomaticDepth = 6

// groupsOf sums tensors up by the first parts of their names.
func groupsOf(all []UsageGroup, depth int) []UsageGroup {
	for d := max(depth, 1); ; d++ {
		g := newGrouping(func(name string) string { return prefix(name, d) })
		total := int64(0)
		for _, t := range all {
			g.add(t)
			total += t.Bytes
		}
		list := g.sorted()
		isUseful := len(list) > 1 && list[0].Bytes <= total/5*4
		if depth > 0 || isUseful || len(list) == len(all) || len(list) > 100 ||
			d == maxAutomaticDepth {
			return list
		}
	}
}

type grouping struct {
	key    func(name string) string
	groups map[string]*UsageGroup
	order  []*UsageGroup
}

func newGrouping(key func(string) string) *grouping {
	return &grouping{key: key, groups: map[string]*UsageGroup{}}
}

func (g *grouping) add(t UsageGroup) {
	name := g.key(t.Name)
	sum := g.groups[name]
	if sum == nil {
		sum = &UsageGroup{Name: name}
		g.groups[name] = sum
		g.order = append(g.order, sum)
	}
	sum.Tensors += t.Tensors
	sum.Bytes += t.Bytes
}

func (g *grouping) sorted() []UsageGroup {
	slices.SortStableFunc(g.order,
		func(a, b *UsageGroup) int { return cmp.Compare(b.Bytes, a.Bytes) })
	list := []UsageGroup{}
	for _, s := range g.order {
		list = append(list, *s)
	}
	return list
}

// prefix cuts a name after its first depth parts.
func prefix(name string, depth int) string {
	at := 0
	for range depth {
		i := strings.IndexAny(name[at:], "./")
		if i < 0 {
			return name
		}
		at += i + 1
	}
	return name[:at] + "*"
}
