package model

import (
	"path"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/internal/naming"
)

const safetensorsExt = ".safetensors"

// pickles are the extensions of PyTorch's checkpoints.
var pickles = []string{".bin", ".pt", ".pth", ".ckpt"}

// trainerState begins the names of pickles that a trainer keeps for itself.
var trainerState = []string{"training_args.", "optimizer.", "scheduler.", "scaler.", "rng_state",
	"random_states"}

func isPickle(name string) bool { return slices.Contains(pickles, path.Ext(name)) }

// The names by which a checkpoint of torch.distributed, and one that was unpacked, are
// opened.
const (
	distributed = ".metadata"
	unpacked    = "data.pkl"
)

// formatOf returns the format that a name promises; 0 for pickles, whose content decides,
// and other files. A .npy is data more often than weights.
func formatOf(name string) tensorfile.Format {
	if base := path.Base(name); base == distributed || base == unpacked {
		return tensorfile.Torch
	}
	for _, f := range tensorfile.Formats() {
		if f != tensorfile.NPY && path.Ext(name) == f.Ext() && !isPickle(name) {
			return f
		}
	}
	return 0
}

// setFormat is the format of a set of files of that name.
func setFormat(name string) tensorfile.Format {
	if isPickle(name) {
		return tensorfile.Torch
	}
	return formatOf(name)
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

// parseShard returns the shard that a file of weights is by its name.
func parseShard(name string) (s naming.Shard, ok bool) {
	s, ok = naming.ParseShard(name)
	return s, ok && isWeights(path.Base(name))
}

// missingShards returns the names of the siblings of s whose numbers are not in present,
// at most limit of them, and how many there are.
func missingShards(s naming.Shard, present map[int]bool,
	limit int) (names []string, count int) {
	there := 0
	for i := range present {
		if i >= 1 && i <= s.N {
			there++
		}
	}
	count = s.N - there
	for i := 1; len(names) < min(count, limit); i++ {
		if !present[i] {
			names = append(names, s.Name(i))
		}
	}
	return names, count
}

// stemSet has the stems of the indexes of one extension, each with its index; "" where
// it has only files of variants.
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
	number, numbered := parseShard(base)
	if numbered {
		stem = number.Stem
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
