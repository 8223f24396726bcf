package tensorfile

import (
	"path/filepath"

	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/torch"
)

// openShards opens the shards in a directory, in which torch.distributed.checkpoint keeps
// the chunks of each process as safetensors, as one file.
func openShards(o Options, dir string, names []string) (*File, error) {
	opts := &safetensors.ReaderOptions{Strict: o.Strict, Limits: o.Limits, NoMap: o.NoMap,
		NoLinks: true}
	var shards []torch.Shard
	for _, name := range names {
		r, err := safetensors.Open(filepath.Join(dir, name), opts)
		if err != nil {
			for _, s := range shards {
				s.Closer.Close()
			}
			return nil, inFile(filepath.Join(dir, name), err)
		}
		shards = append(shards, torch.Shard{Name: name, Tensors: r.Tensors(),
			Attributes: r.Attributes(), Spans: r.Spans(), Closer: r})
	}
	r, err := torch.FromShards(shards)
	if err != nil {
		return nil, err
	}
	return &File{r: r, format: Torch, limits: o.Limits}, nil
}
