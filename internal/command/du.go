package command

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tensorfile/tensorfile/tensor"
)

func duCommand(a *app) *cobra.Command {
	var depth int
	cmd := &cobra.Command{
		Use:   "du FILE...",
		Short: "Say where the bytes are: tensors, blobs, metadata, padding, holes",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.each(args, func(in *input) (jsonValue, error) {
				u, err := a.usage(in)
				if err != nil {
					return nil, err
				}
				groups := u.groups(in, depth)
				if a.json {
					return func(w *jsonWriter) { w.value(u.object(in, groups)) }, nil
				}
				u.print(a, in, groups)
				return nil, nil
			})
		},
	}
	cmd.Flags().IntVar(&depth, "depth", 1, "sum up tensors by the first `N` parts of their names")
	return cmd
}

// A usage says what every byte of a file is for. The kinds add up to its size.
type usage struct {
	tensors, blobs, metadata, padding, holes int64
	shared                                   int64  // bytes that more than one tensor or blob uses, counted once above
	gaps                                     []span // holes: not zero, or too many for padding
}

const (
	spanTensor = "tensor"
	spanBlob   = "blob"
)

// maxPadding is the most that alignment asks for between two things: zTensor 2
// in canonical form has the largest.
const maxPadding = 65536

// usage collects the ranges that the file tells of and looks at what is between
// them. A tensor within the metadata counts as a tensor.
func (a *app) usage(in *input) (*usage, error) {
	u := new(usage)
	var spans []span
	add := func(b tensor.Blob, what string) {
		if st, ok := b.Stored(); ok && st.Offset >= 0 && st.File == "" {
			spans = append(spans, span{st.Offset, st.Size, what})
		}
	}
	for t := range in.Tensors() {
		if t.External {
			continue
		}
		add(t.Data, spanTensor)
		for i := range t.Parts {
			add(t.Parts[i].Data, spanTensor)
		}
	}
	for _, b := range in.Blobs() {
		add(b, spanBlob)
	}
	if in.view.metadata != nil {
		spans = append(spans, in.view.metadata()...)
	}
	// Walk over the places where a range begins or ends, knowing how many of
	// each kind are open there.
	type edge struct {
		at    int64
		kind  int // 0 tensor, 1 blob, 2 metadata
		delta int
	}
	edges := make([]edge, 0, 2*len(spans))
	for _, s := range spans {
		kind := 2
		switch s.what {
		case spanTensor:
			kind = 0
		case spanBlob:
			kind = 1
		}
		if end := min(s.offset+s.size, in.Size()); s.size > 0 && s.offset < end {
			edges = append(edges, edge{s.offset, kind, 1}, edge{end, kind, -1})
			if kind < 2 {
				u.shared += end - s.offset
			}
		}
	}
	edges = append(edges, edge{at: in.Size()})
	slices.SortFunc(edges, func(x, y edge) int { return cmp.Compare(x.at, y.at) })
	at := int64(0)
	var open [3]int
	for _, e := range edges {
		if n := e.at - at; n > 0 {
			switch {
			case open[0] > 0:
				u.tensors += n
			case open[1] > 0:
				u.blobs += n
			case open[2] > 0:
				u.metadata += n
			default:
				if err := a.gap(in, u, at, e.at); err != nil {
					return nil, err
				}
			}
			at = e.at
		}
		open[e.kind] += e.delta
	}
	u.shared -= u.tensors + u.blobs
	return u, nil
}

// gap looks at bytes that nothing tells of. Where the format does not know its
// own metadata, bytes that are not padding are taken for it.
func (a *app) gap(in *input, u *usage, from, to int64) error {
	n := to - from
	if n <= maxPadding {
		zero, err := a.isZero(in, from, n)
		if err != nil {
			return err
		}
		if zero {
			u.padding += n
			return nil
		}
	}
	if in.view.metadata == nil {
		u.metadata += n
		return nil
	}
	u.holes += n
	u.gaps = append(u.gaps, span{from, n, "hole"})
	return nil
}

func (a *app) isZero(in *input, off, n int64) (bool, error) {
	p := make([]byte, n)
	if k, err := in.readAt(p, off); k < len(p) {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return false, err
	}
	return !slices.ContainsFunc(p, func(c byte) bool { return c != 0 }), nil
}

// A group is the tensors whose names begin alike.
type group struct {
	name           string
	tensors, bytes int64
}

// groups sums tensors up by the first depth parts of their names, largest first.
func (u *usage) groups(in *input, depth int) []group {
	if depth < 1 {
		return nil
	}
	byName := map[string]*group{}
	var all []*group
	for t := range in.Tensors() {
		if t.External {
			continue
		}
		name := prefix(t.Name, depth)
		g := byName[name]
		if g == nil {
			g = &group{name: name}
			byName[name] = g
			all = append(all, g)
		}
		g.tensors++
		size := func(b tensor.Blob) {
			if st, ok := b.Stored(); ok && st.File == "" {
				g.bytes += st.Size
			}
		}
		size(t.Data)
		for i := range t.Parts {
			size(t.Parts[i].Data)
		}
	}
	slices.SortStableFunc(all, func(x, y *group) int { return cmp.Compare(y.bytes, x.bytes) })
	out := make([]group, len(all))
	for i, g := range all {
		out[i] = *g
	}
	return out
}

// prefix cuts a name after its first depth parts, which dots and slashes end.
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

func (u *usage) kinds() object {
	return object{{"tensors", u.tensors}, {"blobs", u.blobs}, {"metadata", u.metadata}, {"padding", u.padding}, {"holes", u.holes}}
}

func (u *usage) object(in *input, groups []group) object {
	o := object{{"file", in.name}, {"size", in.Size()}}
	o = append(o, u.kinds()...)
	o.set("shared", u.shared)
	gaps, list := []object{}, []object{}
	for _, g := range u.gaps {
		gaps = append(gaps, object{{"offset", g.offset}, {"size", g.size}})
	}
	for _, g := range groups {
		list = append(list, object{{"name", g.name}, {"tensors", g.tensors}, {"bytes", g.bytes}})
	}
	o.set("gaps", gaps)
	o.set("groups", list)
	return o
}

func (u *usage) print(a *app, in *input, groups []group) {
	share := func(n int64) string {
		if in.Size() == 0 {
			return "-"
		}
		return fmt.Sprintf("%.1f%%", 100*float64(n)/float64(in.Size()))
	}
	t := newTable("WHAT", ">BYTES", ">", ">SHARE")
	for _, k := range u.kinds() {
		n := k.value.(int64)
		t.add(k.key, fmt.Sprint(n), human(n), share(n))
	}
	t.add("total", fmt.Sprint(in.Size()), human(in.Size()), share(in.Size()))
	t.print(a)
	if u.shared > 0 {
		fmt.Fprintf(a.out, "%d bytes are used more than once\n", u.shared)
	}
	for _, g := range u.gaps {
		fmt.Fprintf(a.out, "hole: %d bytes at %d\n", g.size, g.offset)
	}
	if len(groups) == 0 {
		return
	}
	a.out.WriteByte('\n')
	t = newTable("NAME", ">TENSORS", ">BYTES", ">", ">SHARE")
	const most = 20
	for _, g := range groups[:min(len(groups), most)] {
		t.add(escape(g.name), fmt.Sprint(g.tensors), fmt.Sprint(g.bytes), human(g.bytes), share(g.bytes))
	}
	t.print(a)
	if len(groups) > most {
		fmt.Fprintf(a.out, "and %d more: --json has them all\n", len(groups)-most)
	}
}
