package command

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tensorfile/tensorfile/convert"
	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/internal/naming"
)

func splitCommand(a *app) *cobra.Command {
	var o outputs
	var name string
	var max size
	cmd := &cobra.Command{
		Use:   "split FILE DIR",
		Short: "Write a file as several files of the same format and a maximum size",
		Long: `Write a file as several files of the same format into a directory, each
with at most --max bytes of data. A tensor is never split: a larger tensor gets a file of
its own; in a .ptd it is an error, because loaders refuse it. Loaders find the files by
their names, which begin with the name of FILE or --name:

  safetensors  with the index that Hugging Face's libraries read; without
               --max, at most 5 GB each
  .ptd         the names of ExecuTorch's exporter
  zTensor 2    shards, and the root NAME.zt, which opens as the model
  .gguf        the names and keys of gguf-split
  others       NAME-00001-of-00003

All tensors are written; use convert --filter to choose tensors. All files appear together
or not at all.`,
		Example: `  tensorfile split model.safetensors shards --max 5GB`,
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			file, dir, err := a.beginDirectory(&o, args)
			if err != nil {
				return err
			}
			a.single = true
			return a.with(file, func(in *input) error {
				if name == "" {
					name = stem(cmp.Or(in.set, in.name))
				}
				return a.split(in, filepath.Join(dir, naming.SafeFile(name)), int64(max), &o)
			})
		},
	}
	f := cmd.Flags()
	o.flags(f, "DIR")
	f.Var(&max, "max", "`SIZE` of the data of one file, such as 5GB")
	f.StringVar(&name, "name", "", "`NAME` that the names of files begin with, such as model")
	return cmd
}

// A splitDocument is split --json.
type splitDocument struct {
	Written []string `json:"written"`
}

func (a *app) split(in *input, name string, max int64, o *outputs) error {
	if _, count := convert.Shards(in.name, in.File); count > 1 {
		return wrong("the directory of the model or its index, or tensorfile merge first",
			"it is one of %d files, which are one model together", count)
	}
	if err := a.checkDecodedTotal(in, &lister{}); err != nil { // of all shards together
		return err
	}
	opts := &convert.SplitOptions{MaxSize: max, NoReplace: !o.force, DryRun: o.dryRun}
	if !o.dryRun {
		undo, err := atomicfile.MakeDir(filepath.Dir(name))
		if err != nil {
			return err
		}
		defer undo() // it does not remove a directory with files
		var end func()
		opts.Progress, end = a.progress(in.name)
		defer end()
	}
	names, err := convert.Split(a.ctx, in.File, name, opts)
	var pe *fs.PathError
	switch {
	case errors.As(err, &pe) && errors.Is(err, fs.ErrExist):
		return &atomicfile.Error{Name: pe.Path, Err: fs.ErrExist}
	case max == 0 && errors.Is(err, fs.ErrInvalid):
		return wrong("--max 5GB", "split needs --max SIZE for %v", in.Format())
	case errors.Is(err, errors.ErrUnsupported):
		return advise("tensorfile convert to ztensor or safetensors, and split that", err)
	case err != nil:
		return err
	case a.json:
		return a.printJSON(splitDocument{names})
	}
	for _, n := range names {
		if !a.quiet {
			fmt.Fprintln(a.out, display(n))
		}
	}
	return nil
}

// stem returns the name of a file or model without directory, extension and shard number.
func stem(name string) string {
	base := strings.TrimSuffix(baseName(name), ".index.json")
	if s, ok := naming.ParseShard(base); ok {
		return s.Stem
	}
	base = strings.TrimSuffix(base, filepath.Ext(base))
	if name == "-" || base == "" {
		return "model"
	}
	return base
}
