package model

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfile/tensorfile"
)

const safetensorsExt = ".safetensors"

// pickles are the extensions of PyTorch's checkpoints.
var pickles = []string{".bin", ".pt", ".pth", ".ckpt"}

// trainerState begins the names of pickles that a trainer keeps for itself.
var trainerState = []string{"training_args.", "optimizer.", "scheduler.", "scaler.", "rng_state",
	"random_states"}

func isPickle(name string) bool { return slices.Contains(pickles, path.Ext(name)) }

// distributed is the name by which a checkpoint of torch.distributed is opened.
const distributed = ".metadata"

// formatOf returns the format that a name promises; 0 for pickles, whose content decides,
// and other files. A .npy is data more often than weights.
func formatOf(name string) tensorfile.Format {
	if path.Base(name) == distributed {
		return tensorfile.Torch
	}
	for _, f := range tensorfile.Formats() {
		if f != tensorfile.NPY && path.Ext(name) == f.Ext() && !isPickle(name) {
			return f
		}
	}
	return 0
}

// formatName is what Set.Format says of files of that name.
func formatName(name string) string {
	if isPickle(name) {
		return tensorfile.Torch.String()
	}
	return formatOf(name).String()
}

// isWeights reports whether a file is weights by its name.
func isWeights(name string) bool {
	if !isPickle(name) {
		return formatOf(name) != 0
	}
	return !slices.ContainsFunc(trainerState, func(state string) bool {
		return strings.HasPrefix(path.Base(name), state)
	})
}

// An indexName is STEM.EXT.index.json or STEM.EXT.index.VARIANT.json.
type indexName struct{ stem, ext, variant string }

func parseIndexName(name string) (x indexName, ok bool) {
	rest, isJSON := strings.CutSuffix(path.Base(name), ".json")
	at := strings.LastIndex(rest, ".index")
	if !isJSON || at < 0 {
		return x, false
	}
	x.ext = path.Ext(rest[:at])
	x.stem = strings.TrimSuffix(rest[:at], x.ext)
	x.variant = rest[at+len(".index"):]
	ok = x.stem != "" && isWeights(rest[:at]) && (x.variant == "" || x.variant[0] == '.')
	return x, ok
}

// A shardName is STEM-00001-of-00003.EXT.
type shardName struct {
	stem, ext string
	i, n      int
	width     int
}

func parseShardName(name string) (s shardName, ok bool) {
	base := path.Base(name)
	s.ext = path.Ext(base)
	rest := strings.TrimSuffix(base, s.ext)
	rest, n, ok1 := cutLast(rest, "-of-")
	stem, i, ok2 := cutLast(rest, "-")
	if !ok1 || !ok2 || len(i) < 5 || len(i) != len(n) || !isWeights(base) {
		return s, false
	}
	var err1, err2 error
	s.i, err1 = digits(i)
	s.n, err2 = digits(n)
	s.stem, s.width = stem, len(i)
	return s, err1 == nil && err2 == nil && stem != ""
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

func digits(s string) (int, error) {
	if s[0] < '0' || s[0] > '9' {
		return 0, strconv.ErrSyntax
	}
	n, err := strconv.ParseInt(s, 10, 32)
	return int(n), err
}

// group is what the siblings of a shard share.
func (s shardName) group() shardName { s.i = 0; return s }

// name of the shard of that number.
func (s shardName) name(i int) string {
	return fmt.Sprintf("%s-%0*d-of-%0*d%s", s.stem, s.width, i, s.width, s.n, s.ext)
}

// missing returns the names of the numbers from 1 to n that are not in present, at most
// limit of them, and how many there are.
func (s shardName) missing(present map[int]bool, limit int) (names []string, count int) {
	there := 0
	for i := range present {
		if i >= 1 && i <= s.n {
			there++
		}
	}
	count = s.n - there
	for i := 1; len(names) < min(count, limit); i++ {
		if !present[i] {
			names = append(names, s.name(i))
		}
	}
	return names, count
}

// stemSet has the stems of the indexes of one extension, each with its index; "" where
// it has only those of variants.
type stemSet map[string]string

// indexedStems returns the stems of indexes by their extension.
func indexedStems(indexes []string) map[string]stemSet {
	all := map[string]stemSet{}
	for _, name := range indexes {
		x, _ := parseIndexName(name)
		if all[x.ext] == nil {
			all[x.ext] = stemSet{}
		}
		if x.variant == "" {
			all[x.ext][x.stem] = name
		} else if _, ok := all[x.ext][x.stem]; !ok {
			all[x.ext][x.stem] = ""
		}
	}
	return all
}

// exempt reports whether a file next to an index that does not name it is a model of
// its own, and not an orphan: another layout of the same weights, an adapter, a
// variant, or the single file of an index's stem.
func (s stemSet) exempt(name string) bool {
	base := path.Base(name)
	if strings.HasPrefix(base, "consolidated") || strings.HasPrefix(base, "adapter_model") {
		return true
	}
	stem := strings.TrimSuffix(base, path.Ext(base))
	number, numbered := parseShardName(base)
	if numbered {
		stem = number.stem
	}
	for i := range stem {
		if stem[i] != '.' {
			continue
		}
		if _, ok := s[stem[:i]]; ok {
			return true
		}
	}
	_, ok := s[stem]
	return ok && !numbered
}
