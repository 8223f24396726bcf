package command

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/convert"
	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/quant"
	"github.com/tensorfile/tensorfile/tensor"
)

// quantization returns what the configuration of a directory, or next to a file, says of
// quantised weights; nil if it says nothing.
func (in *input) quantization() (*quant.Config, error) {
	if in.dir != nil {
		return in.dir.Quantization(), nil
	}
	return quant.ReadConfig(func(name string) (io.ReadCloser, error) {
		if in.path != "" && in.name != "-" {
			return os.Open(filepath.Join(filepath.Dir(in.path), name))
		}
		next, ok := in.raw.(tensor.Companion)
		if !ok {
			return nil, fs.ErrNotExist
		}
		r, size, err := next.Companion(name)
		if err != nil {
			return nil, err
		}
		c, ok := r.(io.Closer)
		if !ok {
			c = io.NopCloser(nil)
		}
		return struct {
			io.Reader
			io.Closer
		}{io.NewSectionReader(r, 0, size), c}, nil
	})
}

// dequantizeFlag declares --dequantize.
func dequantizeFlag(f *pflag.FlagSet, d *tensor.DType) {
	const name = "dequantize"
	choices(f, d, name, "dtype", map[string]tensor.DType{"float32": tensor.F32,
		"float16": tensor.F16, "bfloat16": tensor.BF16},
		"convert quantised weights to `DTYPE` float32, float16 or bfloat16")
	f.Lookup(name).NoOptDefVal = tensor.F32.String()
}

// config returns quantization for an input on this machine; nil if it cannot be read, and
// for other inputs.
func (in *input) config() *quant.Config {
	if in.dir == nil && in.path == "" {
		return nil // it costs requests
	}
	cfg, err := in.quantization()
	if err != nil {
		return nil
	}
	return cfg
}

// parametersInWords returns the number of parameters as text, and the number of stored
// elements if it differs.
func parametersInWords(n, stored int64) string {
	text := shortCount(n)
	if exact := withCommas(n); exact != text {
		text += " (" + exact + ")"
	}
	if n != stored {
		text += ", " + withCommas(stored) + " elements stored"
	}
	return text
}

// schemeLines returns how weights are quantised, such as nvfp4: 224 weights, 16-element
// blocks, 2 scales each.
func schemeLines(all []quant.Total) (lines []field) {
	for _, t := range all {
		text := count(t.Weights, "weight")
		switch {
		case len(t.Block) == 0:
		case t.Block[0] == 1:
			text += fmt.Sprintf(", %d-element blocks", t.Block[1])
		default:
			text += fmt.Sprintf(", blocks of %d by %d", t.Block[0], t.Block[1])
		}
		lines = append(lines, field{label: t.Scheme,
			text: text + ", " + count(t.Scales, "scale") + " each"})
	}
	return lines
}

// prepareInputs sets how inputs are opened. With --dequantize they are read, not mapped:
// their bytes are read once, and the pages of a mapping would stay in memory.
func (c *conversion) prepareInputs(a *app) {
	a.noMap = a.noMap || c.opts.Dequantize != tensor.Unknown
}

// configure sets the quantisation of the first input. Without --dequantize it decides
// only which conversions of dtypes lose a scale.
func (c *conversion) configure(in *input) error {
	if c.opts.Dequantize == tensor.Unknown {
		c.opts.Config = in.config()
		return nil
	}
	var err error
	c.opts.Config, err = in.quantization()
	return err
}

// isModelOutput reports whether the output of a conversion is a directory: one that
// exists, a name that ends with a slash, or for a directory a name without an extension.
func (a *app) isModelOutput(input, out string, c *conversion) bool {
	if storeScheme(out) != "" || out == "-" {
		return false
	}
	info, err := os.Stat(out)
	if err == nil {
		return info.IsDir()
	}
	if os.IsPathSeparator(out[len(out)-1]) {
		return true
	}
	return isModelName(input) && c.target == 0 && filepath.Ext(out) == ""
}

// isModelName reports whether a name is a directory or a repository.
func isModelName(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir() || isListable(name) && tensorfile.ByName(name) == 0
}

// convertModel writes the directory of a model as another: its weights as safetensors in
// shards, config.json as it is then, and all other files as they are.
func (a *app) convertModel(cmd *cobra.Command, name, out string, c *conversion) (document, error) {
	if c.target == 0 {
		c.target = tensorfile.Safetensors
	}
	if c.target != tensorfile.Safetensors {
		return nil, wrong("the name of a file",
			"a directory as the output is for safetensors, not %v", c.target)
	}
	if err := c.prepare(cmd, out); err != nil {
		return nil, err
	}
	in, err := a.open(name)
	if err != nil {
		return nil, onFile(name, err)
	}
	defer in.Close()
	if in.dir == nil || !isModelName(name) {
		return nil, wrong("the name of a file, or of a directory that exists",
			"there is no directory %s: one is made only for all files of a model", quote(out))
	}
	if err := c.configure(in); err != nil {
		return nil, onFile(name, err)
	}
	plan, refused, err := a.plan([]*tensorfile.File{in.File}, name, c)
	if plan == nil {
		return refused, onFile(name, err)
	}
	var names []string
	if !c.dryRun {
		if names, err = a.writeModel(in, out, plan, c); err != nil {
			return nil, onFile(name, explainWrite(err))
		}
	}
	d := c.result(name, out, plan.Losses(), !c.dryRun)
	d.Files = names
	return d, nil
}

// writeModel writes the files of convertModel, the weights last, and returns their names.
// If it fails it leaves none.
func (a *app) writeModel(in *input, out string, plan *convert.Plan, c *conversion) (names []string,
	err error) {
	files, err := in.dir.FS()
	if err != nil {
		return nil, err
	}
	undo, err := atomicfile.MakeDir(out)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			for _, name := range names {
				os.Remove(name)
			}
			undo()
		}
	}()
	for _, other := range in.dir.Others() {
		to := filepath.Join(out, filepath.FromSlash(other))
		base := filepath.Base(to)
		isStale := c.opts.Dequantize != tensor.Unknown && in.dir.Quantization() != nil
		if isStale && (base == "hf_quant_config.json" || base == "quantize_config.json") {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
			return names, err
		}
		if err := a.mayWrite(to, &c.outputs); err != nil {
			return names, err
		}
		err := atomicfile.Write(to, func(w io.Writer) error {
			f, err := files.Open(other)
			if err != nil {
				return err
			}
			defer f.Close()
			if !isStale || base != "config.json" {
				_, err = io.Copy(w, f)
				return err
			}
			b, err := io.ReadAll(f)
			if err == nil {
				b, err = quant.WithoutQuantization(b)
			}
			if err == nil {
				_, err = w.Write(b)
			}
			return err
		})
		if err != nil {
			return names, err
		}
		names = append(names, to)
	}
	show, end := a.progress(in.name)
	defer end()
	weights, err := plan.WriteShards(a.ctx, filepath.Join(out, "model"),
		&convert.SplitOptions{NoReplace: !c.force, Progress: show})
	var exists *fs.PathError
	if errors.As(err, &exists) && errors.Is(err, fs.ErrExist) {
		err = &atomicfile.Error{Name: exists.Path, Err: fs.ErrExist}
	}
	return append(names, weights...), err
}

// noteConfig says that config.json next to the input does not fit the output.
func (a *app) noteConfig(c *conversion, from string) {
	if method := c.opts.Config.Method(); c.opts.Dequantize != tensor.Unknown && method != "" {
		a.note("%s: config.json says %s; the weights no longer are", display(from),
			display(method))
	}
}

// noteStored says that tensors have values that scales in other tensors multiply, where
// somebody looks at them as they are stored.
func (a *app) noteStored(in *input, shown map[string]bool) {
	if a.dequantize != tensor.Unknown || a.json || in.dir == nil && in.path == "" {
		return
	}
	n, first := 0, ""
	for _, w := range quant.Find(in.File, in.config()).Weights {
		for _, p := range w.Parts {
			if p.Role == "codes" && p.Tensor.Dense() && shown[p.Tensor.Name] {
				first = cmp.Or(first, p.Tensor.Name)
				n++
			}
		}
	}
	if n > 0 {
		a.note("%s: stored values, which other tensors scale, of %s, such as %s\n"+
			"  try: --dequantize, for the values of the weights", display(in.name),
			count(n, "tensor"), shownName(escape(first)))
	}
}

// noteArchitecture says that no engine loads a .gguf without an architecture.
func (a *app) noteArchitecture(files []*tensorfile.File, out string, c *conversion) {
	const key = "general.architecture"
	has := func(f *tensorfile.File) bool {
		_, ok := attribute(f, key)
		return ok
	}
	if c.target == tensorfile.GGUF && !slices.ContainsFunc(files, has) {
		a.note("%s: without the key %s, and the other keys and names of an architecture, no "+
			"engine loads it as a model: convert_hf_to_gguf.py of llama.cpp makes one",
			display(out), key)
	}
}
