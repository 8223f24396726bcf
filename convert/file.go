package convert

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/quant"
	"github.com/tensorfile/tensorfile/tensor"
)

// File converts the file named in to the format of the extension of out, and writes it to
// out, which appears whole or not at all. For a model in shards, in is the first shard;
// the others are found by their names ([Shards]). If Options.Config is nil, File reads
// config.json next to in. It fails as [tensorfile.Open], [NewPlan] and [Plan.WriteFile]
// do: a *LossError has all losses that opts does not allow.
func File(ctx context.Context, in, out string, opts *Options) error {
	target := tensorfile.ByName(out)
	if target == 0 {
		return fmt.Errorf("convert: %w: the extension of %s is not one of a format",
			fs.ErrInvalid, naming.Quote(out))
	}
	o := orZero(opts)
	// Codes are read into buffers once: the pages of a mapping would stay in memory.
	open := &tensorfile.Options{Limits: o.Limits, NoMap: o.Dequantize != tensor.Unknown}
	f, err := tensorfile.Open(in, open)
	if err != nil {
		return err
	}
	defer f.Close()
	var names []string
	names, o.Shards = Shards(in, f)
	var others []*tensorfile.File
	for _, name := range names[1:] {
		shard, err := tensorfile.Open(name, open)
		if err != nil {
			return err
		}
		defer shard.Close()
		others = append(others, shard)
	}
	o.More = append(others, o.More...)
	if o.Config == nil {
		if o.Config, err = readConfig(filepath.Dir(in)); err != nil &&
			o.Dequantize != tensor.Unknown {
			return err
		}
	}
	p, err := NewPlan(ctx, f, target, &o)
	if err != nil {
		return err
	}
	return p.WriteFile(ctx, out)
}

// readConfig reads the configuration of quantised weights in a directory.
func readConfig(dir string) (*quant.Config, error) {
	return quant.ReadConfig(func(name string) (io.ReadCloser, error) {
		return os.Open(filepath.Join(dir, name))
	})
}
