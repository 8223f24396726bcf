package command

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tensorfile/tensorfile/inspect"
)

func duCommand(a *app) *cobra.Command {
	var opts inspect.UsageOptions
	var l lister
	cmd := &cobra.Command{
		Use:   "du FILE...",
		Short: "Show what takes up the space: tensors, metadata, padding, unused",
		Long: `Show what takes up the space, and the sums of groups of tensors. A group
has the same first parts of its names, up to dots: --depth parts, or as few as give several
groups. For a model of several files, sums for each file are shown too. With --filter, only
the tensors that match are counted, and shares are shares of their sum.`,
		Example: `  tensorfile du model.gguf
  tensorfile du --filter '*.mlp.*' model.safetensors
  tensorfile du --depth 3 model.safetensors`,
		Args: cobra.MinimumNArgs(1),
	}
	many := a.many(cmd, a.inputs, true)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		err := many.run(args, opened(func(a *app, in *input) (document, error) {
			a.notePart(in)
			l.noteNames(a, in)
			o := opts
			o.Config = in.config()
			if len(l.filter) > 0 {
				o.Filter = l.passes
			}
			d := &duDocument{File: in.name, Usage: inspect.NewUsage(in.File, &o),
				filtered: o.Filter != nil, matched: a.matched}
			for t := range in.Tensors() {
				if !t.External {
					d.tensors++
				}
			}
			return d, nil
		}))
		return l.unmatched(a, err)
	}
	l.filterFlag(cmd.Flags())
	number(cmd.Flags(), &opts.Depth, "depth", 0, 1<<20,
		"group tensors by the first `N` parts of their names")
	return cmd
}

// A duDocument is du --json.
type duDocument struct {
	File string `json:"file"`
	*inspect.Usage
	outcome

	filtered bool
	matched  bool // a name passed the filters
	tensors  int  // in the file, without external ones
}

func (d *duDocument) print(a *app) {
	switch {
	case !d.filtered:
		a.printUsage(d.Usage)
	case d.matched: // otherwise unmatched reports it
		chosen := int64(0)
		for _, g := range d.Groups {
			chosen += g.Tensors
		}
		fmt.Fprintf(a.out, "--filter chooses %d of %s; nothing else is counted\n", chosen,
			count(d.tensors, "tensor"))
		if chosen > 0 {
			a.out.WriteByte('\n')
		}
		a.printGroups(d.Usage)
	}
}

// shareOf returns a share in percent.
func shareOf(n, of int64) string {
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100*float64(n)/float64(of))
}

func (a *app) printUsage(u *inspect.Usage) {
	if len(u.Shards) > 0 && u.Tensors == 0 {
		a.printGroups(u)
		return
	}
	t := newTable("WHAT", ">BYTES", ">SHARE")
	for _, kind := range []struct {
		name  string
		bytes int64
	}{{"tensors", u.Tensors}, {"blobs", u.Blobs}, {"metadata", u.Metadata}, {"padding",
		u.Padding}, {"unused", u.Unused}} {
		t.add(kind.name, a.size(kind.bytes), shareOf(kind.bytes, u.Size))
	}
	t.add("total", a.size(u.Size), shareOf(u.Size, u.Size))
	t.print(a)
	if u.Parameters != u.StoredElements {
		fmt.Fprintf(a.out, "parameters: %s\n", parametersInWords(u.Parameters, u.StoredElements))
	}
	if u.Shared > 0 {
		fmt.Fprintf(a.out, "%s are used more than once\n", a.size(u.Shared))
	}
	for _, g := range u.Gaps {
		fmt.Fprintf(a.out, "unused: %d bytes at %d\n", g.Size, g.Offset)
	}
	if len(u.Groups) > 0 {
		a.out.WriteByte('\n')
	}
	a.printGroups(u)
}

// printGroups prints the sums of tensors by shard and by the first parts of their names.
func (a *app) printGroups(u *inspect.Usage) {
	all, tensors := int64(0), int64(0)
	for _, g := range u.Groups {
		all += g.Bytes
		tensors += g.Tensors
	}
	for i, list := range []struct {
		title  string
		groups []inspect.UsageGroup
	}{{"SHARD", u.Shards}, {"NAME", u.Groups}} {
		if len(list.groups) == 0 {
			continue
		}
		if i > 0 && len(u.Shards) > 0 {
			a.out.WriteByte('\n')
		}
		t := newTable(list.title, ">TENSORS", ">BYTES", ">SHARE")
		const shown = 20
		groups := slices.Clone(list.groups[:min(len(list.groups), shown)])
		if rest := list.groups[len(groups):]; len(rest) > 0 {
			others := inspect.UsageGroup{Name: fmt.Sprintf("(%d more, which --json has)",
				len(rest))}
			for _, g := range rest {
				others.Tensors += g.Tensors
				others.Bytes += g.Bytes
			}
			groups = append(groups, others)
		}
		for _, g := range append(groups, inspect.UsageGroup{Name: "total", Tensors: tensors,
			Bytes: all}) {
			t.add(escape(g.Name), fmt.Sprint(g.Tensors), a.size(g.Bytes), shareOf(g.Bytes, all))
		}
		t.print(a)
	}
}
