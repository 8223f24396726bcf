package ptd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"
	"sort"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// A Conflict is a name under which the files of a Merge have different entries.
type Conflict struct {
	Name   string
	Files  [2]int // of the first that has the name, and of the one that disagrees
	Layout bool   // the layouts differ; else the bytes do
}

// String names the entry, the two files and the difference.
func (c Conflict) String() string {
	what := "other bytes"
	if c.Layout {
		what = "another layout"
	}
	return fmt.Sprintf("%s: file %d has %s than file %d", naming.Quote(c.Name), c.Files[1], what,
		c.Files[0])
}

// A ConflictError lists all conflicts of a Merge.
type ConflictError struct{ Conflicts []Conflict }

func (e *ConflictError) Error() string {
	s := "ptd: merge: " + e.Conflicts[0].String()
	if n := len(e.Conflicts) - 1; n > 0 {
		s += fmt.Sprintf(" (and %d more conflicts)", n)
	}
	return s
}

// Merge joins the entries of several files in order. An entry that has the same name,
// layout and bytes in two of them is kept once; other duplicate names are a
// *ConflictError.
func Merge(ctx context.Context, files ...iter.Seq[Entry]) ([]Entry, error) {
	type origin struct{ file, index int }
	var out []Entry
	from := map[string]origin{}
	var conflicts []Conflict
	for f, es := range files {
		for e := range es {
			first, ok := from[e.Name]
			if !ok {
				from[e.Name] = origin{f, len(out)}
				out = append(out, e)
				continue
			}
			existing := &out[first.index]
			c := Conflict{e.Name, [2]int{first.file, f}, !sameLayout(existing.Layout, e.Layout)}
			if c.Layout {
				conflicts = append(conflicts, c)
				continue
			}
			same, err := format.SameBytes(ctx, existing.Data, e.Data)
			if err != nil {
				return nil, errs.Wrap(-1, format.Field(e.Name), err)
			}
			if !same {
				conflicts = append(conflicts, c)
			}
			existing.Alignment = max(existing.Alignment, e.Alignment)
		}
	}
	if len(conflicts) > 0 {
		return nil, &ConflictError{conflicts}
	}
	return out, nil
}

func sameLayout(a, b *Layout) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.ScalarType == b.ScalarType && slices.Equal(a.Sizes, b.Sizes) &&
		slices.Equal(a.DimOrder, b.DimOrder)
}

// A Shard is one of the files that Split makes.
type Shard struct {
	// Tag is the prefix, an underscore, and the SHA-256 of the sorted names joined by
	// NUL, as ExecuTorch has it. The file is TAG.ptd.
	Tag     string
	Entries []Entry // sorted by name
}

// Split parts entries into files of at most maxBytes of data each, padding not counted,
// in the way of ExecuTorch's exporter: in the order of names, entries that share their
// data together. It fails when an entry is larger than that.
func Split(es iter.Seq[Entry], maxBytes int64, prefix string) ([]Shard, error) {
	if maxBytes <= 0 || prefix == "" {
		return nil, errs.New(fs.ErrInvalid, "split: a positive size and a prefix are needed")
	}
	var groups [][]Entry // each of entries that share their data
	of := map[any]int{}
	for e := range es {
		if e.Data.Size() > maxBytes {
			return nil, errs.Tensor(e.Name, tensor.ErrLimit,
				"split: %d bytes, more than the %d of a shard", e.Data.Size(), maxBytes)
		}
		key := e.Data.Identity()
		if g, ok := of[key]; ok && key != nil {
			groups[g] = append(groups[g], e)
			continue
		}
		of[key] = len(groups)
		groups = append(groups, []Entry{e})
	}
	for _, g := range groups {
		sort.Slice(g, func(i, j int) bool { return g[i].Name < g[j].Name })
	}
	sort.Slice(groups, func(i, j int) bool { return groups[i][0].Name < groups[j][0].Name })
	var out []Shard
	var size int64
	for _, g := range groups {
		n := g[0].Data.Size()
		if len(out) == 0 || n > maxBytes-size {
			out = append(out, Shard{})
			size = 0
		}
		s := &out[len(out)-1]
		s.Entries = append(s.Entries, g...)
		size += n
	}
	for i := range out {
		s := &out[i]
		sort.Slice(s.Entries, func(i, j int) bool { return s.Entries[i].Name < s.Entries[j].Name })
		h := sha256.New()
		for i, e := range s.Entries {
			if i > 0 {
				h.Write([]byte{0})
			}
			io.WriteString(h, e.Name)
		}
		s.Tag = prefix + "_" + hex.EncodeToString(h.Sum(nil))
	}
	return out, nil
}
