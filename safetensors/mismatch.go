package safetensors

import (
	"fmt"
	"iter"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// A Mismatch is a tensor of which an index and its shards, or two shards, say different
// things.
type Mismatch struct {
	Kind   MismatchKind
	Tensor string
	File   string // the shard that has it; where it is missing, the shard that should
	Other  string // Misplaced: where the index says it is; Duplicate: the first shard with it
}

// A MismatchKind is a kind of contradiction between an index and shards.
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

// Compare lists where the index and its open shards differ, in the order of the shards
// and their tensors. A shard whose sequence is nil, because it could not be opened, is
// left out: no tensor that the index has there is missing. A program that trusts the
// index would load another model than one that trusts the shards.
func (x *Index) Compare(shards iter.Seq2[string, iter.Seq[*tensor.Tensor]]) []Mismatch {
	type place struct{ name, file string }
	var all []place
	opened := map[string]bool{}
	for file, tensors := range shards {
		if tensors == nil {
			continue
		}
		opened[file] = true
		for t := range tensors {
			all = append(all, place{t.Name, file})
		}
	}
	table, _ := naming.Build(len(all), func(i int) string { return all[i].name })
	var found, duplicates []Mismatch
	isDuplicate := map[string]bool{}
	for i, p := range all {
		if k := table.Lookup(p.name); k != i && all[k].file != p.file {
			duplicates = append(duplicates, Mismatch{TensorDuplicate, p.name, p.file, all[k].file})
			isDuplicate[p.name] = true
		}
	}
	for i, p := range all {
		mapped, ok := x.file(p.name)
		switch {
		case table.Lookup(p.name) != i:
		case !ok:
			found = append(found, Mismatch{Kind: TensorUnindexed, Tensor: p.name, File: p.file})
		case mapped != p.file && !isDuplicate[p.name]:
			found = append(found, Mismatch{TensorMisplaced, p.name, p.file, mapped})
		}
	}
	for _, w := range x.weights {
		if opened[w[1]] && table.Lookup(w[0]) < 0 {
			found = append(found, Mismatch{Kind: TensorMissing, Tensor: w[0], File: w[1]})
		}
	}
	return append(found, duplicates...)
}

// file returns the shard of a tensor.
func (x *Index) file(name string) (string, bool) {
	if x.table == nil {
		return "", false
	}
	if i := x.table.Lookup(name); i >= 0 {
		return x.weights[i][1], true
	}
	return "", false
}
