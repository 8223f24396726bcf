package command

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/bridge/gguf"
	"github.com/tensorfile/tensorfile/bridge/safetensors"
	"github.com/tensorfile/tensorfile/convert"
	"github.com/tensorfile/tensorfile/inspect"
	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/primitiv"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

func splitCommand(a *app) *cobra.Command {
	var o splitting
	cmd := &cobra.Command{
		Use:   "split FILE -o DIR",
		Short: "Write a file as several of the same format, each of at most that many bytes of data",
		Long: `Write a file as several of the same format, each of at most that many bytes of data, into
a directory. A tensor is never split: a larger one gets a file of its own, but in a .ptd,
whose loader refuses that. Names are those that loaders find, from the name of FILE or
--name: safetensors get the index that Hugging Face's libraries read, and at most 5 GB each
without --max; .ptd the names of ExecuTorch's exporter; zTensor 2 shards and the root
NAME.zt that is the model when it is opened; .gguf the names and keys of gguf-split; others
NAME-00001-of-00003.`,
		Example: `  tensorfile split model.safetensors -o shards --max 5GB`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.dir == "" {
				return errors.New("split needs -o DIR")
			}
			if err := a.begin(); err != nil {
				return err
			}
			in, err := a.open(args[0])
			if err != nil {
				return onFile(args[0], err)
			}
			defer in.Close()
			if o.max == 0 && in.Format() != tensorfile.Safetensors {
				return wrong("--max 5GB", "split needs --max SIZE for %v", in.Format())
			}
			names, err := a.split(in, &o)
			if err != nil {
				return onFile(args[0], err)
			}
			return a.wrote(names)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.dir, "output", "o", "", "the `DIR` to write into, which is made if it does not exist")
	f.Var(&o.max, "max", "`SIZE` of the data of one file, such as 5GB")
	f.StringVar(&o.name, "name", "", "`NAME` that the names of files begin with, such as model")
	f.BoolVar(&o.force, "force", false, "replace files that exist")
	return cmd
}

// A splitting is what the flags of split say.
type splitting struct {
	dir, name string
	max       size
	force     bool
}

// maxShard is how much data a file of safetensors has unless told otherwise: that of
// Hugging Face's libraries.
const maxShard = 5e9

// A splitDocument is split --json.
type splitDocument struct {
	Written []string `json:"written"`
}

// wrote says which files there are now.
func (a *app) wrote(names []string) error {
	if a.json {
		return a.printJSON(splitDocument{names})
	}
	for _, n := range names {
		if !a.quiet {
			fmt.Fprintln(a.out, display(n))
		}
	}
	return nil
}

var shardName = regexp.MustCompile(`-\d{5}-of-\d{5}$`)

// stem is the name of a file or model without directory and extension, for naming others.
func stem(name string) string {
	base := filepath.Base(name)
	if i := strings.LastIndexByte(name, '/'); strings.Contains(name, "://") && i >= 0 {
		base, _, _ = strings.Cut(name[i+1:], "?")
	}
	base = strings.TrimSuffix(base, ".index.json")
	base = safeName(shardName.ReplaceAllString(strings.TrimSuffix(base, filepath.Ext(base)), ""))
	if name == "-" || base == "" {
		return "model"
	}
	return base
}

func (a *app) split(in *input, o *splitting) ([]string, error) {
	dir, force, limit := o.dir, o.force, cmp.Or(int64(o.max), maxShard)
	if err := a.checkDecodedTotal(in, &lister{}); err != nil { // of all shards together
		return nil, err
	}
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	name := stem(in.name)
	if o.name != "" {
		name = safeName(o.name)
	}
	may := func(names ...string) error {
		for _, n := range names {
			if err := mayWrite(n, force); err != nil {
				return writing(n, err)
			}
		}
		return nil
	}
	base := filepath.Join(dir, name)
	switch r := in.Sys().(type) {
	case *ptd.Reader:
		shards, err := ptd.Split(r.Entries(), limit, name)
		if err != nil {
			return nil, err
		}
		var names []string
		for _, s := range shards {
			names = append(names, filepath.Join(dir, safeName(s.Tag)+".ptd"))
		}
		if err := may(names...); err != nil {
			return nil, err
		}
		return names, a.writeSet(in, base, names, func(i int, w io.Writer) error {
			pw := ptd.NewWriter(w, ptdLike(r))
			for _, e := range shards[i].Entries {
				if err := pw.AddEntry(e); err != nil {
					return err
				}
			}
			return pw.Close()
		})
	case *safetensors.Reader:
		m := map[string]string{}
		for k, v := range r.Attributes() {
			m[k] = v
		}
		if inspect.Shards(in.File) != nil {
			delete(m, "total_size") // of the old ones
		}
		names, err := safetensors.WriteShards(a.ctx, base+".safetensors", tensor.Each(r.Tensors()),
			&safetensors.ShardOptions{
				MaxSize: limit, NoReplace: !force, Writer: &safetensors.WriterOptions{Metadata: m,
					KeepOrder: true}})
		var pe *fs.PathError
		if errors.As(err, &pe) && errors.Is(err, fs.ErrExist) {
			err = writing(pe.Path, fmt.Errorf("%w; --force replaces it", fs.ErrExist))
		}
		return names, err
	case *gguf.Reader:
		names, err := splitGGUF(a, r, base, limit, force)
		var pe *fs.PathError
		if errors.As(err, &pe) && errors.Is(err, fs.ErrExist) {
			err = writing(pe.Path, fmt.Errorf("%w; --force replaces it", fs.ErrExist))
		}
		return names, err
	case *primitiv.Reader:
		if r.Kind() == primitiv.KindModel {
			parts := splitModel(r, limit)
			names := shardNames(base, len(parts), tensorfile.Primitiv.Ext())
			if err := may(names...); err != nil {
				return nil, err
			}
			return names, a.writeSet(in, base, names,
				func(i int, w io.Writer) error {
					pw := primitiv.NewWriter(w, nil)
					for _, p := range parts[i] {
						if err := cmp.Or(a.ctx.Err(), pw.AddParameter(p)); err != nil {
							return err
						}
					}
					return pw.Close()
				})
		}
	}
	if r, ok := in.Sys().(*ztensor.Reader); ok && r.Version() == "2" {
		old, err := matching(dir,
			regexp.MustCompile("^"+regexp.QuoteMeta(name)+`-\d{5}\.zt$`))
		if err != nil {
			return nil, err
		}
		if err := may(append(old, base+".zt")...); err != nil {
			return nil, err
		}
		bar := a.bar(in.name, in.payload())
		defer bar.done()
		return ztensorShards(a.ctx, r, base+".zt", limit, bar.add)
	}
	if caps := in.Format().Caps(); caps.DTypes == nil || caps.Program || caps.MaxTensors == 1 ||
		in.Format() == tensorfile.Primitiv {
		return nil, advise("tensorfile convert to ztensor or safetensors, and split that",
			fmt.Errorf("%w: %v files like this one are not split", errors.ErrUnsupported,
				in.Format()))
	}
	// Which shard each tensor goes to, by its place in the file.
	var shard []int
	used, count := int64(0), 1
	for t := range in.Tensors() {
		n := max(t.Size(), 0)
		if used > 0 && n > limit-used {
			count++
			used = 0
		}
		used += n
		shard = append(shard, count)
	}
	names := shardNames(base, count, in.Format().Ext())
	if err := may(names...); err != nil {
		return nil, err
	}
	return names, a.writeSet(in, base, names, func(i int, w io.Writer) error {
		at := -1
		opts := &convert.Options{Map: func(t *tensor.Tensor) (string, tensor.DType, bool) {
			at++
			return t.Name, tensor.Unknown, shard[at] == i+1
		}}
		if z, ok := in.Sys().(*ztensor.Reader); ok {
			opts.ZTensor = ztensorLike(z)
		}
		plan, err := convert.NewPlan(a.ctx, in.File, in.Format(), opts)
		if err != nil {
			return err
		}
		return plan.Write(a.ctx, w)
	})
}

func shardNames(base string, count int, ext string) (names []string) {
	for i := range count {
		names = append(names, fmt.Sprintf("%s-%05d-of-%05d%s", base, i+1, count, ext))
	}
	return names
}

// writeSet writes files that appear together, if in no order that readers rely on.
func (a *app) writeSet(in *input, base string, names []string,
	write func(i int, w io.Writer) error) error {
	set, err := atomicfile.NewSet(base)
	if err != nil {
		return err
	}
	defer set.Abort()
	bar := a.bar(in.name, in.payload())
	defer bar.done()
	for i, name := range names {
		f, err := set.Create(filepath.Base(name))
		if err != nil {
			return err
		}
		if err := write(i, &target{a: a, f: f, bar: bar}); err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return set.Commit()
}

// matching lists the files of a directory with such names.
func matching(dir string, pattern *regexp.Regexp) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if pattern.MatchString(e.Name()) {
			names = append(names, filepath.Join(dir, e.Name()))
		}
	}
	return names, writing(dir, err)
}

// splitModel keeps the statistics of a parameter with its value.
func splitModel(r *primitiv.Reader, most int64) (parts [][]*primitiv.Parameter) {
	used := int64(0)
	for p := range r.Parameters() {
		n := p.Value.Size()
		for _, s := range p.Stats {
			n += s.Tensor.Size()
		}
		if len(parts) == 0 || used > 0 && n > most-used {
			parts, used = append(parts, nil), 0
		}
		used += n
		parts[len(parts)-1] = append(parts[len(parts)-1], p)
	}
	return parts
}

func mergeCommand(a *app) *cobra.Command {
	var c conversion
	cmd := &cobra.Command{
		Use:   "merge IN... OUT",
		Short: "Write the tensors and blobs of several files into one",
		Long: `Write the tensors and blobs of several files into one, of the format of OUT's ending or of
--to. Names that more than one file has are refused, unless --allow has names; in .ptd
files what is the same under the same name is kept once. Of a split .gguf the first shard is
enough: the others are found by their names. The index of sharded safetensors, and the root of
a sharded zTensor 2, is one file: convert it.`,
		Example: `  tensorfile merge a.safetensors b.safetensors all.safetensors`,
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			args, out, err := c.outputs.split(args, 1)
			if err != nil {
				return err
			}
			if err := c.prepare(out); err != nil {
				return err
			}
			if err := a.begin(); err != nil {
				return err
			}
			if err := mayWriteOut(out, c.force); err != nil {
				return onFile(out, err)
			}
			var all []*input
			defer func() {
				for _, in := range all {
					in.Close()
				}
			}()
			for _, name := range args {
				in, err := a.open(name)
				if err != nil {
					return onFile(name, err)
				}
				all = append(all, in)
			}
			if len(all) == 1 {
				if all, err = a.withSiblings(all[0]); err != nil {
					return err
				}
			}
			var files []*tensorfile.File
			about := int64(0)
			for _, in := range all {
				files = append(files, in.File)
				about += in.payload()
			}
			return a.merge(files, out, about, &c)
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.to, "to", "", "the `FORMAT`, and after an @ its version")
	f.StringSliceVar(&c.allow, "allow", nil, "the `LOSSES` that may happen (see convert)")
	c.dequantizeFlag(f)
	c.outputFlags(f)
	return cmd
}

func (a *app) merge(files []*tensorfile.File, out string, about int64, c *conversion) error {
	const from = "the inputs"
	var all []iter.Seq[ptd.Entry]
	var like *ptd.WriterOptions
	for _, f := range files {
		if r, ok := f.Sys().(*ptd.Reader); ok && c.target == tensorfile.PTD {
			all = append(all, r.Entries())
			like = ptdLike(r)
		}
	}
	if len(all) == len(files) {
		entries, err := ptd.Merge(a.ctx, all...)
		if err != nil {
			return onFile(from, err)
		}
		return a.written(from, out, c, nil, about, func(w *target) error {
			pw := ptd.NewWriter(w, like)
			for _, e := range entries {
				if err := pw.AddEntry(e); err != nil {
					return err
				}
			}
			return pw.Close()
		})
	}
	if shards := shardsOfGGUF(files); len(shards) > 0 {
		metadata, ts, err := gguf.Merge(shards...)
		if err != nil {
			return onFile(from, err)
		}
		if c.target == tensorfile.GGUF {
			return a.written(from, out, c, nil, about,
				func(w *target) error { return a.mergeGGUF(metadata, ts, w) })
		}
	}
	c.opts.More = files[1:]
	plan, bar, err := a.plan(from, files[0], c, about)
	defer bar.done()
	if err != nil {
		return onFile(from, err)
	}
	if err := plan.Err(); err != nil {
		a.refused(from, c, plan.Losses(), err)
		return nil
	}
	return a.writePlan(from, out, c, plan, plan.Losses())
}
