package safetensors

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/tensor"
)

const suffix = ".safetensors"

// WriteShards writes a model in files of at most most bytes of data each, in the
// order given, with names as Hugging Face's libraries use them: for
// "dir/model.safetensors" they are dir/model-00001-of-00003.safetensors and so
// on, and dir/model.safetensors.index.json, which is written last. One tensor is
// never split: a larger one has a file of its own. Where everything fits, the
// one file is called name and there is no index. It returns the names.
//
// Each file appears whole or not at all; after an error those that were
// finished stay.
func WriteShards(ctx context.Context, name string, ts iter.Seq2[*tensor.Tensor, error], most int64, opts *WriterOptions) ([]string, error) {
	if most <= 0 {
		return nil, fmt.Errorf("safetensors: a shard of at most %d bytes", most)
	}
	var shards [][]*tensor.Tensor
	var room, total int64
	where := map[string]int{}
	for t, err := range ts {
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return nil, err
		}
		if _, twice := where[t.Name]; twice {
			return nil, refuse(t, tensor.ErrMalformed, "the name stands twice")
		}
		size := t.Size()
		if len(shards) == 0 || size > room {
			shards, room = append(shards, nil), most
		}
		room -= size
		last := len(shards) - 1
		shards[last] = append(shards[last], t)
		where[t.Name] = last
		var ok bool
		if total, ok = align.Add(total, size); !ok {
			return nil, refuse(t, tensor.ErrLimit, "data beyond 2^63 bytes")
		}
	}
	if len(shards) == 0 {
		return []string{name}, WriteFile(ctx, name, tensor.Of(), opts)
	}
	if len(shards) == 1 {
		return []string{name}, WriteFile(ctx, name, tensor.Of(shards[0]...), opts)
	}
	dir, base := filepath.Split(strings.TrimSuffix(name, suffix))
	files := make([]string, len(shards))
	for i, shard := range shards {
		files[i] = fmt.Sprintf("%s-%05d-of-%05d%s", base, i+1, len(shards), suffix)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := WriteFile(ctx, dir+files[i], tensor.Of(shard...), opts); err != nil {
			return nil, err
		}
	}
	index := dir + base + suffix + ".index.json"
	f, err := atomicfile.Create(index)
	if err != nil {
		return nil, err
	}
	defer f.Abort()
	b := []byte("{\n  \"metadata\": {\n    \"total_size\": " + strconv.FormatInt(total, 10) + "\n  },\n  \"weight_map\": {")
	for i, key := range slices.Sorted(maps.Keys(where)) {
		b = append(comma(b, i), "\n    "...)
		b = appendString(b, key)
		b = append(b, ": "...)
		b = appendString(b, files[where[key]])
	}
	b = append(b, "\n  }\n}\n"...)
	if _, err := f.Write(b); err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	for i := range files {
		files[i] = dir + files[i]
	}
	return append(files, index), nil
}
