package inspect

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/quant"
	"github.com/tensorfile/tensorfile/tensor"
)

// UsageOptions are options of [NewUsage]; nil is the zero value.
type UsageOptions struct {
	// Depth is the number of parts of a name that name its group; dots and slashes
	// separate parts. 0 chooses a depth at which no group has nearly all bytes.
	Depth int
	// Config is the part of the model's configuration that describes quantised weights.
	Config *quant.Config
	// Filter, if not nil, reports which tensors Groups and Shards sum up. Other fields
	// are sums of the whole file. Shards is nil if such a tensor is gathered from several
	// files.
	Filter func(name string) bool
}

// A Usage sums up the bytes of a file by their role. Tensors, Blobs, Metadata, Padding
// and Unused add up to its size.
type Usage struct {
	Size     int64 `json:"size"`
	Tensors  int64 `json:"tensors"`
	Blobs    int64 `json:"blobs"`
	Metadata int64 `json:"metadata"` // headers and footers too
	Padding  int64 `json:"padding"`
	Unused   int64 `json:"unused"`
	Shared   int64 `json:"shared"` // bytes that tensors and blobs use more than once
	// Parameters and StoredElements are as in Info.
	Parameters     int64        `json:"parameters"`
	StoredElements int64        `json:"stored_elements"`
	Gaps           []UsageGap   `json:"gaps"`
	Groups         []UsageGroup `json:"groups"`           // the largest first
	Shards         []UsageGroup `json:"shards,omitempty"` // other files that have tensors
}

// A UsageGap is a range that nothing in the file refers to.
type UsageGap struct {
	Offset int64 `json:"offset"`
	Size   int64 `json:"size"`
}

// A UsageGroup sums up tensors whose names begin alike, or the tensors of a shard.
type UsageGroup struct {
	Name    string `json:"name"`
	Tensors int64  `json:"tensors"`
	Bytes   int64  `json:"bytes"` // as they are stored
}

// NewUsage sums up the bytes of a file by their role. For an index or a root it includes
// the bytes of the shards, which it opens.
func NewUsage(f *tensorfile.File, opts *UsageOptions) *Usage {
	var o UsageOptions
	if opts != nil {
		o = *opts
	}
	u := &Usage{Gaps: []UsageGap{}, Shards: shardGroups(f)}
	u.add(f)
	u.Size = u.Tensors + u.Blobs + u.Metadata + u.Padding + u.Unused
	if o.Filter != nil && len(u.Shards) > 0 {
		u.Shards = chosenShards(f, o.Filter)
	}
	var all []UsageGroup // one for each tensor
	for t := range f.Tensors() {
		if !t.External && (o.Filter == nil || o.Filter(t.Name)) {
			size := int64(0)
			for b := range format.Blobs(t) {
				size += storedSize(b)
			}
			all = append(all, UsageGroup{t.Name, 1, size})
		}
	}
	u.Groups = groupsOf(all, o.Depth)
	u.Parameters, u.StoredElements = quant.Find(f, o.Config).Parameters()
	return u
}

// add adds the bytes of a file and of its shards by their role. Gaps has gaps of the file
// only, because shards have offsets of their own.
func (u *Usage) add(f *tensorfile.File) {
	if r, ok := f.Sys().(joined); ok {
		u.Metadata += r.IndexSize()
		for _, f := range r.Files() {
			u.add(f)
		}
		u.Gaps = []UsageGap{}
		return
	}
	used := map[string]int64{} // bytes that tensors and blobs use, by file
	use := func(b tensor.Blob) {
		if st, ok := b.Stored(); ok && st.Offset >= 0 {
			used[st.File] += st.Size
		}
	}
	for t := range f.Tensors() {
		if !t.External {
			for b := range format.Blobs(t) {
				use(b)
			}
		}
	}
	for _, b := range f.Blobs() {
		use(b)
	}
	for s := range f.Spans() {
		if s.Kind == tensor.SpanUnused {
			u.Gaps = append(u.Gaps, UsageGap{s.Offset, s.Size})
		}
	}
	u.Shared += max(used[""]-u.addSpans(f.Spans()), 0)
	if r, ok := f.Sys().(sharded); ok {
		for name, spans := range r.ShardSpans() {
			u.Shared += max(used[name]-u.addSpans(spans), 0)
		}
	}
}

// addSpans adds the spans of one file. It returns how many bytes tensors and blobs have.
func (u *Usage) addSpans(spans iter.Seq[tensor.Span]) (payload int64) {
	for s := range spans {
		switch s.Kind {
		case tensor.SpanTensor:
			u.Tensors += s.Size
			payload += s.Size
		case tensor.SpanBlob:
			u.Blobs += s.Size
			payload += s.Size
		case tensor.SpanPadding:
			u.Padding += s.Size
		case tensor.SpanUnused:
			u.Unused += s.Size
		default:
			u.Metadata += s.Size
		}
	}
	return payload
}

// maxAutomaticDepth bounds the depth that UsageOptions.Depth 0 chooses.
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

// prefix returns the first depth parts of a name, and "*" if there are more.
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
