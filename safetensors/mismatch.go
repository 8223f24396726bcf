package safetensors

import (
	"fmt"
	"iter"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// A Mismatch is a contradiction about a tensor between an index and its shards, or
// between two shards.
type Mismatch struct {
	Kind   MismatchKind
	Tensor string
	File   string // the shard that has the tensor; for TensorMissing, the shard in the index
	// Other is the shard in the index for TensorMisplaced, and the first shard that has
	// the tensor for TensorDuplicate.
	Other string
}

// A MismatchKind is a kind of Mismatch.
type MismatchKind uint8

const (
	TensorMissing   MismatchKind = iota // in the index, in no shard
	TensorMisplaced                     // in another shard than the index says
	TensorDuplicate                     // in two shards
	TensorUnindexed                     // in a shard, not in the index
)

// String names the tensor, the file and the contradiction.
func (m Mismatch) String() string {
	switch name, file := naming.Quote(m.Tensor), naming.Quote(m.File); m.Kind {
	case TensorMissing:
		return fmt.Sprintf("shard %s has no tensor %s", file, name)
	case TensorMisplaced:
		return fmt.Sprintf("%s is in shard %s, not in %s", name, file, naming.Quote(m.Other))
	case TensorDuplicate:
		return fmt.Sprintf("%s is in shard %s and in %s", name, naming.Quote(m.Other), file)
	default:
		return fmt.Sprintf("%s of shard %s is not in the index", name, file)
	}
}

// Compare lists the contradictions between the index and its shards, in the order of the
// shards and their tensors, duplicates last. shards yields the name and the tensors of
// each shard. nil in place of the tensors is a shard that could not be opened: none of
// its tensors is TensorMissing.
func (x *Index) Compare(shards iter.Seq2[string, iter.Seq[*tensor.Tensor]]) []Mismatch {
	type entry struct{ name, file string }
	var all []entry
	opened := map[string]bool{}
	for file, tensors := range shards {
		if tensors == nil {
			continue
		}
		opened[file] = true
		for t := range tensors {
			all = append(all, entry{t.Name, file})
		}
	}
	table, _ := naming.Build(len(all), func(i int) string { return all[i].name })
	var found, duplicates []Mismatch
	isDuplicate := map[string]bool{}
	for i, e := range all {
		if k := table.Lookup(e.name); k != i && all[k].file != e.file {
			duplicates = append(duplicates, Mismatch{TensorDuplicate, e.name, e.file, all[k].file})
			isDuplicate[e.name] = true
		}
	}
	for i, e := range all {
		indexed, ok := x.file(e.name)
		switch {
		case table.Lookup(e.name) != i: // not the first of its name
		case !ok:
			found = append(found, Mismatch{Kind: TensorUnindexed, Tensor: e.name, File: e.file})
		case indexed != e.file && !isDuplicate[e.name]:
			found = append(found, Mismatch{TensorMisplaced, e.name, e.file, indexed})
		}
	}
	for _, w := range x.weights {
		if opened[w[1]] && table.Lookup(w[0]) < 0 {
			found = append(found, Mismatch{Kind: TensorMissing, Tensor: w[0], File: w[1]})
		}
	}
	return append(found, duplicates...)
}

// file returns the shard that the index has for a tensor.
func (x *Index) file(name string) (string, bool) {
	if x.table == nil {
		return "", false
	}
	if i := x.table.Lookup(name); i >= 0 {
		return x.weights[i][1], true
	}
	return "", false
}
