package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/convert"
	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/inspect"
	"github.com/tensorfile/tensorfile/pte"
	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// A conversion holds the flags of convert and merge.
type conversion struct {
	outputs
	lister
	target      tensorfile.Format // 0 is the format of the output's extension
	version     string
	rename      renames
	keep        globs                         // attributes that match are kept
	dtypes      map[tensor.DType]tensor.DType // of --dtype
	blocks      map[tensor.DType]string       // of --dtype: types of quantised blocks
	digest      ztensor.Digest
	level       int
	align       int64
	compress    bool
	externalize string
	internalize bool
	opts        convert.Options
	seen        matches
}

func convertCommand(a *app) *cobra.Command {
	c := conversion{dtypes: map[tensor.DType]tensor.DType{}, blocks: map[tensor.DType]string{}}
	cmd := &cobra.Command{
		Use: "convert IN OUT",
		Example: `  tensorfile convert model.safetensors model.zt
  tensorfile convert model.gguf model.npz --allow attributes -n
  tensorfile convert a.zt b.safetensors --dtype float32=bfloat16`,
		Short: "Write a file in another format, after listing every loss",
		Long: `Write a file in another format: the format of OUT's extension or of --to.
Losses, which are what the format cannot represent, are listed first. Nothing is written if
there is a loss whose kind --allow does not have:

  attributes   attributes of the file, or of a tensor
  blobs        named bytes that are not tensors
  graph        a program
  parts        parts of a dense tensor
  tensors      tensors that the format cannot represent in any form
  names        names that the format cannot represent
  shape        dimensions of 1 are dropped or added
  densify      sparse tensors become dense
  reorder      the order of dimensions in memory changes
  widen        elements get a dtype that can represent all their values
  narrow       elements are rounded
  scale        quantised elements lose the scale that is stored next to them
  overflow     numbers become infinities or NaN, which is found while writing
  all          all of these

Changes that --dtype and --dequantize request are listed too, and need no --allow. For a
model in shards, IN is its directory, its index, or its first shard. OUT appears whole or
not at all; - is standard output.`,
		Args: cobra.RangeArgs(1, 2),
	}
	many := a.many(cmd, a.inputs, false)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c.prepareInputs(a)
		if !many.isList() {
			return a.show(a.convert(cmd, args, &c))
		}
		var err error
		if many.output, err = c.outputNames(); err != nil {
			return err
		}
		return many.run(args, func(a *app, name string) (document, error) {
			one := c
			one.name = many.output(name)
			return a.convert(cmd, []string{name}, &one)
		})
	}
	f := cmd.Flags()
	c.flags(f)
	c.rename.flags(f)
	chooseEach(f, c.addDType, "dtype", nil, "`FROM=TO`: convert elements of dtype FROM to "+
		"dtype TO, such as float32=bfloat16, or matrices to quantised blocks, such as "+
		"float32=Q8_0 (.gguf, zTensor 2); applies after --dequantize, blocks last")
	f.BoolVar(&c.opts.RowMajor, "row-major", false,
		"write tensors in row-major order, even if the format has other orders")
	f.BoolVar(&c.opts.Dense, "dense", false,
		"write sparse tensors as dense, even if the format has sparse tensors")
	choose(f, &c.opts.Sparse, "sparse", "scheme", []string{"sparse_csr", "sparse_coo"},
		"make tensors sparse: `SCHEME` sparse_csr or sparse_coo (zTensor)")
	choices(f, &c.opts.Duplicates, "duplicates", "way",
		map[string]sparse.Duplicates{"sum": sparse.Sum, "first": sparse.First},
		"what a sparse tensor has for an element with several values: their `SUM` or the "+
			"first: sum, first")
	choices(f, &c.digest, "digest", "algorithm",
		map[string]ztensor.Digest{"none": ztensor.NoDigest, "crc32c": ztensor.CRC32C,
			"sha256": ztensor.SHA256, "xxh3": ztensor.XXH3},
		"store a digest of each tensor: `ALGORITHM` crc32c, sha256, xxh3, or none (zTensor)")
	number(f, &c.level, "level", 1, 22, "compress with zstd at `LEVEL` 1 to 22 (zTensor)")
	f.BoolVar(&c.compress, "compress", false, "deflate the arrays (.npz)")
	f.Int64Var(&c.align, "align", 0, "align data to `N` bytes (.ptd, .rten, .pte)")
	f.StringVar(&c.externalize, "externalize", "",
		".pte to .pte: move the constants into `FILE`, a .ptd")
	f.BoolVar(&c.internalize, "internalize", false,
		".pte to .pte: move the tensors of --external into the program")
	return cmd
}

func mergeCommand(a *app) *cobra.Command {
	var c conversion
	cmd := &cobra.Command{
		Use:   "merge IN... OUT",
		Short: "Write the tensors and blobs of several files into one",
		Long: `Write the tensors and blobs of several files into one, in the format of
OUT's extension or of --to. A name that several files have is refused, unless --allow has
names. Equal tensors with the same name in .ptd files are written once. For a model in
shards, IN is its directory, its index, or its first shard.`,
		Example: `  tensorfile merge a.safetensors b.safetensors all.safetensors`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.prepareInputs(a)
			return a.show(a.convert(cmd, args, &c))
		},
	}
	c.flags(cmd.Flags())
	return cmd
}

// flags declares the flags that convert and merge share.
func (c *conversion) flags(f *pflag.FlagSet) {
	var targets []string
	for _, t := range tensorfile.Formats() {
		for i, v := range t.Writes() {
			if i == 0 {
				targets = append(targets, t.String())
			}
			if len(t.Writes()) > 1 {
				targets = append(targets, t.String()+"@"+v)
			}
		}
	}
	f.Var(&choice{"", targets, c.setTarget}, "to",
		"write `FORMAT`, such as ptd, or with a version, such as ztensor@1.0")
	chooseEach(f, func(word string) error {
		k, err := convert.ParseLossKind(word)
		c.opts.Allow |= k
		return err
	}, "allow", append(strings.Split(convert.LossAll.String(),
		","), "all"), "allow `LOSSES`, separated by commas (see tensorfile convert --help)")
	dequantizeFlag(f, &c.opts.Dequantize)
	c.filterFlag(f)
	attributesFlag(f, &c.keep)
	c.outputs.flags(f, "FILE")
}

// setTarget is --to.
func (c *conversion) setTarget(text string) (err error) {
	name, version, _ := strings.Cut(text, "@")
	if name == "zt2" && version == "" {
		version = ztensor.Version2
	}
	c.version = version
	c.target, err = parseFormat(name)
	return err
}

// addDType is --dtype.
func (c *conversion) addDType(text string) error {
	from, to, ok := strings.Cut(text, "=")
	if !ok {
		return fmt.Errorf("%s is not FROM=TO", quote(text))
	}
	x, err := tensor.ParseDType(from)
	if err != nil {
		return err
	}
	if gguf.CanQuantize(nil, to) {
		c.blocks[x] = to
		return nil
	}
	c.dtypes[x], err = tensor.ParseDType(to)
	return err
}

// prepare sets the target format and the options of its writer. It fails if a flag is not
// for that format.
func (c *conversion) prepare(cmd *cobra.Command, out string) error {
	if c.target == 0 {
		if c.target = tensorfile.ByName(out); c.target == 0 {
			return wrong("--to FORMAT", "no format has the extension of %s", quote(out))
		}
	}
	if writes := c.target.Writes(); len(writes) == 0 || c.version != "" &&
		!slices.Contains(writes, c.version) {
		what := "is not written"
		if slices.Contains(c.target.Reads(), c.version) {
			what = "is read, and not written"
		}
		return wrong("tensorfile version, which lists what is written", "%v %s",
			strings.TrimSuffix(c.target.String()+"@"+c.version, "@"), what)
	}
	if err := checkFlags(c.target, cmd.Flags().Changed); err != nil {
		return err
	}
	c.seen = matches{renamed: make([]bool, len(c.rename)), dtypes: map[tensor.DType]bool{},
		numbers: map[tensor.DType]bool{}, quantized: map[tensor.DType]bool{}}
	if len(c.rename) > 0 || len(c.dtypes) > 0 || len(c.filter) > 0 {
		c.opts.Map = func(t *tensor.Tensor) (string, tensor.DType, bool) {
			dtype := tensor.Unknown
			if t.Dense() {
				dtype = c.dtypes[t.DType]
			}
			isKept := c.passes(t.Name)
			c.seen.dtypes[t.DType], c.seen.isKept = true, c.seen.isKept || isKept
			return c.rename.newName(t.Name, c.seen.renamed), dtype, isKept
		}
	}
	if len(c.keep) > 0 {
		c.opts.Attributes = c.seen.noteAttribute(c.keep)
	}
	if len(c.blocks) > 0 {
		c.opts.Quantize = c.blocksOf
	}
	if options := flagsByTarget[c.target].options; options != nil {
		c.opts.Writer = options(c)
	}
	return nil
}

// outputNames returns a function that returns the name of the output of an input, in the
// directory of -o. It makes the directory.
func (c *conversion) outputNames() (func(input string) string, error) {
	dir := c.name
	if dir == "" || c.target == 0 {
		return nil, wrong("--to FORMAT -o DIR", "of several files, the format and the directory "+
			"of the outputs are missing")
	}
	if storeScheme(dir) == "" {
		var err error
		if dir, err = onDisk(dir); err != nil {
			return nil, err
		}
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return nil, onFile(dir, err)
		}
	}
	return func(input string) string {
		base := path.Base(filepath.ToSlash(strings.TrimRight(input, "/")))
		if isAddress(input) {
			base, _, _ = strings.Cut(base, "?")
		}
		base = strings.TrimSuffix(base, path.Ext(base)) + c.target.Ext()
		if storeScheme(dir) != "" {
			return strings.TrimSuffix(dir, "/") + "/" + base
		}
		return filepath.Join(dir, base)
	}, nil
}

// intoDirectory returns the name of the output of one file. If out is a directory, it is
// a file there with the name of the input.
func (c *conversion) intoDirectory(name, out string) (string, error) {
	info, err := os.Stat(out)
	if storeScheme(out) != "" || err != nil || !info.IsDir() || isListable(name) {
		return out, nil
	}
	isOther := c.target != 0 && c.target != tensorfile.Safetensors
	if info, err := os.Stat(name); err == nil && info.IsDir() && !isOther {
		return out, nil // the directory of a model is converted to another
	}
	if c.target == 0 {
		return filepath.Join(out, baseName(name)), nil
	}
	return filepath.Join(out, stem(name)+c.target.Ext()), nil
}

// theInputs is the name in errors about several files.
const theInputs = "the inputs"

// convert writes one file from one file or, for merge, from several.
func (a *app) convert(cmd *cobra.Command, args []string, c *conversion) (document, error) {
	names, out, err := a.begin(&c.outputs, args, 1)
	if err == nil && cmd.Name() == "convert" && len(names) > 1 {
		return nil, wrong("tensorfile merge, which makes one file of several",
			"convert takes one input, not %d", len(names))
	}
	if err == nil && cmd.Name() == "convert" {
		out, err = c.intoDirectory(names[0], out)
	}
	if err == nil && cmd.Name() == "convert" && a.isModelOutput(names[0], out, c) {
		return a.convertModel(cmd, names[0], out, c)
	}
	if err == nil {
		err = a.mayWrite(out, &c.outputs)
	}
	if err == nil {
		err = c.prepare(cmd, out)
	}
	if err != nil {
		return nil, err
	}
	var files []*tensorfile.File
	from, given := theInputs, len(names)
	if given == 1 {
		from = names[0]
	} else {
		a.single = true
	}
	for i := 0; i < len(names); i++ {
		in, err := a.open(names[i])
		if err != nil {
			return nil, onFile(names[i], err)
		}
		defer in.Close()
		count := 1
		if in.dir == nil { // or all shards are open
			var shards []string
			if shards, count = convert.Shards(in.name, in.File); given == 1 && i == 0 {
				names = shards
			}
		}
		if cmd.Name() == "merge" && len(names) == 1 && inspect.Shards(in.File) == nil {
			return nil, onFile(from, wrong("tensorfile convert, for one input",
				"merge takes several inputs, or the directory or the first shard of a model"))
		}
		c.opts.Shards = max(c.opts.Shards, count)
		if len(files) == 0 {
			if err := c.configure(in); err != nil {
				return nil, onFile(names[i], err)
			}
		}
		files = append(files, in.File)
	}
	d, err := a.convertFiles(files, from, out, c)
	return d, onFile(from, err)
}

func (a *app) convertFiles(files []*tensorfile.File, from, out string, c *conversion) (document,
	error) {
	if r, ok := files[0].Sys().(*pte.Reader); ok && c.target == tensorfile.PTE && len(files) == 1 {
		return a.convertProgram(r, from, out, c)
	}
	if c.externalize != "" || c.internalize {
		return nil, wrong("a .pte", "--externalize and --internalize are for .pte to .pte")
	}
	plan, refused, err := a.plan(files, from, c)
	if plan == nil {
		return refused, err
	}
	a.noteConfig(c, from)
	a.noteArchitecture(files, out, c)
	if c.version == "" {
		switch v := plan.Version(); {
		case c.dryRun:
		case v != "" && v != ztensor.Version2:
			a.note("%s: version %s, as the source; upstream's ztensor 2 reads version 2 only: "+
				"--to ztensor@2", display(out), v)
		default:
			a.noteVersion(files[0], out, c.target)
		}
		c.version = plan.Version()
	}
	return a.writeConverted(from, out, c, plan.Losses(),
		func(w io.Writer) error { return plan.Write(a.ctx, w) })
}

// noteVersion notes that the output has another version or byte order than its source,
// because the version or byte order of the source is not written.
func (a *app) noteVersion(f *tensorfile.File, out string, target tensorfile.Format) {
	if f.Format() != target {
		return
	}
	if w := target.Writes(); len(w) > 0 && !slices.Contains(w, f.Version()) {
		a.note("%s: version %s; the version of the source, %s, is read and not written",
			display(out), w[0], f.Version())
	}
	if r, ok := f.Sys().(*gguf.Reader); ok && r.BigEndian() {
		a.note("%s: little-endian; the byte order of the source, big-endian, is read and not "+
			"written", display(out))
	}
}

// plan plans a conversion, and lists its losses. If a loss is not allowed, it returns a
// document and no plan.
func (a *app) plan(files []*tensorfile.File, from string, c *conversion) (*convert.Plan, document,
	error) {
	c.opts.Limits, c.opts.External, c.opts.More = a.limits, a.findExternal, files[1:]
	plan, err := convert.NewPlan(a.ctx, files[0], c.target, &c.opts)
	names := c.checkNames() // a plan that failed may not have seen all names
	var wrongOption *convert.OptionError
	switch {
	case names != nil && (err == nil || len(c.filter) > 0 && !c.seen.isKept):
		return nil, nil, names
	case errors.As(err, &wrongOption):
		try := "tensorfile version, which lists what is written"
		flag := flagOf(wrongOption, c.target)
		switch flag {
		case "--align":
			try = "--align 64, or another power of two"
		case "--attributes":
			try = "no --attributes"
		}
		return nil, nil, wrong(try, "%s: %w", flag, wrongOption.Err)
	case err != nil && c.opts.Shards > len(files) && len(files) > 1:
		return nil, nil, advise("the directory of the model, or its first shard alone", err)
	case err != nil && c.target.Caps().MaxTensors == 1 && files[0].Len() > 1:
		return nil, nil, advise("--filter NAME, which leaves one tensor", err)
	case err != nil && c.target.Caps().DTypes == nil:
		return nil, nil, advise(fmt.Sprintf("another format, or a %s as the source",
			c.target.Ext()), err)
	case err != nil:
		return nil, nil, err
	}
	a.printLosses(from, plan.Losses(), c)
	if err := plan.Err(); err != nil {
		d, err := a.refused(from, c, plan.Losses(), err)
		return nil, d, err
	}
	return plan, nil, nil
}

// flagOf returns the flag that sets the invalid field of convert.Options.
func flagOf(err *convert.OptionError, target tensorfile.Format) string {
	switch {
	case err.Option == "Map", err.Option == "Quantize":
		return "--dtype"
	case err.Option == "Writer" && len(flagsByTarget[target].names) > 0:
		return "--" + flagsByTarget[target].names[0]
	}
	return "--" + strings.ToLower(err.Option)
}

// writeConverted writes the output. It returns no document if the output is standard
// output.
func (a *app) writeConverted(from, out string, c *conversion, losses []convert.Loss,
	write func(w io.Writer) error) (document, error) {
	if err := a.write(out, &c.outputs, 0, write); err != nil {
		return nil, explainWrite(err)
	}
	if out == "-" && !c.dryRun {
		return nil, nil
	}
	return c.result(from, out, losses, !c.dryRun), nil
}

// explainWrite adds advice to an error about the values of elements.
func explainWrite(err error) error {
	switch {
	case errors.Is(err, tensor.ErrOverflow):
		return advise("another dtype, or --allow overflow", err)
	case errors.Is(err, tensor.ErrDType):
		return advise("another target, or --filter, which leaves tensors out", err)
	}
	return err
}

// blocksOf returns the type of quantised blocks that a tensor is converted to; "" for
// none.
func (c *conversion) blocksOf(t *tensor.Tensor) string {
	c.seen.numbers[t.DType] = true
	if name := c.blocks[t.DType]; len(t.Shape) > 1 && gguf.CanQuantize(t.Shape, name) {
		c.seen.quantized[t.DType] = true
		return name
	}
	return ""
}

// matches records which flags match tensors and attributes of the sources.
type matches struct {
	isKept  bool   // --filter keeps a tensor
	renamed []bool // the --rename with this index applies to a name
	// The sources have an attribute; --attributes keeps one.
	hasAttribute, keepsAttribute bool
	// The dtypes of the sources; the dtypes of dense numbers; the dtypes of matrices that
	// are quantised.
	dtypes, numbers, quantized map[tensor.DType]bool
}

// noteAttribute returns a function that reports whether an attribute is kept, and records
// it.
func (c *matches) noteAttribute(keep globs) func(key string) bool {
	return func(key string) bool {
		isKept := keep.match(key)
		c.hasAttribute, c.keepsAttribute = true, c.keepsAttribute || isKept
		return isKept
	}
}

// checkNames fails if nothing in the sources matches --filter, --attributes, a --rename
// or a --dtype.
func (c *conversion) checkNames() error {
	if len(c.filter) > 0 && !c.seen.isKept {
		return c.filter.noMatch("--filter")
	}
	for _, d := range tensor.DTypes() {
		if c.dtypes[d] != tensor.Unknown && !c.seen.dtypes[d] ||
			c.blocks[d] != "" && !c.seen.numbers[d] {
			return wrong("tensorfile info, which lists the dtypes", "--dtype: no tensor is %v", d)
		}
		if c.blocks[d] != "" && !c.seen.quantized[d] {
			return wrong("tensorfile ls, which lists the shapes",
				"--dtype: no tensor of %v is a matrix whose rows are whole blocks of %s", d,
				c.blocks[d])
		}
	}
	if c.seen.hasAttribute && !c.seen.keepsAttribute {
		if err := c.keep.noAttribute(); err != nil {
			return err
		}
	}
	return c.rename.unused(c.seen.renamed)
}
