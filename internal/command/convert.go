package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/bridge/gguf"
	"github.com/tensorfile/tensorfile/bridge/npz"
	"github.com/tensorfile/tensorfile/convert"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/pte"
	"github.com/tensorfile/tensorfile/rten"
	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// A conversion is what the flags of convert say.
type conversion struct {
	to, digest, sparse string
	duplicates         string
	allow, dtypes      []string
	rename             renames
	lister
	outputs
	rowMajor, dense       bool
	level                 int
	align                 int64
	dequantize            string
	externalize           string
	internalize, compress bool

	target  tensorfile.Format
	version string
	types   map[tensor.DType]tensor.DType // of --dtype
	blocks  map[tensor.DType]string       // of --dtype, quantised types
	opts    convert.Options
}

func convertCommand(a *app) *cobra.Command {
	var c conversion
	cmd := &cobra.Command{
		Use: "convert IN OUT",
		Example: `  tensorfile convert model.safetensors model.zt
  tensorfile convert model.gguf model.npz --allow attributes -n
  tensorfile convert a.zt b.safetensors --dtype float32=bfloat16 --allow narrow`,
		Short: "Write a file in another format, and list every loss before",
		Long: `Write a file in another format: that of OUT's extension, or of --to. What the format
cannot represent is listed first, and nothing is written while a kind of loss is not in
--allow:

  attributes   attributes of the file, or of a tensor
  blobs        named bytes that are no tensors
  graph        a program
  parts        parts of a dense tensor
  tensors      tensors that the target cannot represent in any form
  names        names that the target cannot represent
  shape        dimensions of 1 are dropped
  densify      sparse tensors become dense
  reorder      the order of dimensions in memory changes
  widen        elements become those of a dtype that has all their values
  narrow       elements are rounded
  all          all of these

OUT appears whole or not at all; - is standard output.`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			args, out, err := c.split(args, 1)
			if err != nil {
				return err
			}
			if err := c.prepare(out); err != nil {
				return err
			}
			if err := a.begin(); err != nil {
				return err
			}
			return a.convert(args[0], out, &c)
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.to, "to", "", "the `FORMAT`, and after an @ its version: ptd, ztensor@1.2, …")
	f.StringSliceVar(&c.allow, "allow", nil, "the `LOSSES` that may happen, separated by commas")
	c.outputFlags(f)
	f.StringArrayVar(&c.filter, "filter", nil, "only tensors whose names match `GLOB`")
	f.Var(&c.rename, "rename", "`OLD=NEW`: another name for a tensor, or with a * at both ends for many")
	f.StringSliceVar(&c.dtypes, "dtype", nil, "`FROM=TO`: another dtype, such as float32=bfloat16, or quantised blocks, such as float32=Q8_0 (matrices; .gguf, zTensor 2)")
	f.BoolVar(&c.rowMajor, "row-major", false, "no other order, also where the target has it")
	f.BoolVar(&c.dense, "dense", false, "no sparse tensors, also where the target has them")
	c.dequantizeFlag(f)
	f.StringVar(&c.sparse, "sparse", "", "make tensors sparse: `SCHEME` sparse_csr or sparse_coo (zTensor)")
	f.StringVar(&c.duplicates, "duplicates", "", "values for one element of a sparse tensor: take their `SUM` or the first: sum, first")
	f.StringVar(&c.digest, "digest", "", "put a digest next to each tensor: `ALGORITHM` crc32c or sha256, in version 2 xxh3 (zTensor)")
	f.IntVar(&c.level, "level", 0, "compress with zstd at `LEVEL` 1 to 22 (zTensor)")
	f.BoolVar(&c.compress, "compress", false, "deflate the arrays (.npz)")
	f.Int64Var(&c.align, "align", 0, "align data to `N` bytes (.ptd, .rten, .pte)")
	f.StringVar(&c.externalize, "externalize", "", ".pte to .pte: move the constants into `FILE`.ptd")
	f.BoolVar(&c.internalize, "internalize", false, ".pte to .pte: take in what --external has")
	return cmd
}

func (c *conversion) dequantizeFlag(f *pflag.FlagSet) {
	f.StringVar(&c.dequantize, "dequantize", "",
		"make quantised blocks of ggml numbers: `DTYPE` float32, float16 or bfloat16")
	f.Lookup("dequantize").NoOptDefVal = tensor.F32.String()
}

// prepare reads the flags, and finds the target.
func (c *conversion) prepare(out string) error {
	name, version, _ := strings.Cut(c.to, "@")
	if name == "zt2" && version == "" {
		version = ztensor.Version2
	}
	if name == "" {
		f := tensorfile.ByName(out)
		if f == 0 {
			return wrong("--to FORMAT", "the extension of %s is that of no format", quote(out))
		}
		c.target = f
	} else {
		f, err := parseFormat("--to", name)
		if err != nil {
			return err
		}
		c.target = f
	}
	c.version = version
	if writes := c.target.Writes(); len(writes) == 0 || version != "" && !slices.Contains(writes, version) {
		return wrong("tensorfile version, which lists what is written", "%v is not written", strings.TrimSuffix(c.target.String()+"@"+version, "@"))
	}
	for _, w := range c.allow {
		k, err := convert.ParseLossKind(w)
		if err != nil {
			return fmt.Errorf("--allow: %w", err)
		}
		c.opts.Allow |= k
	}
	for _, d := range c.dtypes {
		from, to, ok := strings.Cut(d, "=")
		if !ok {
			return fmt.Errorf("--dtype: %s is not FROM=TO", quote(d))
		}
		x, err := tensor.ParseDType(from)
		if err != nil {
			return fmt.Errorf("--dtype: %w", err)
		}
		if gguf.CanQuantize(nil, to) {
			if c.blocks == nil {
				c.blocks = map[tensor.DType]string{}
			}
			c.blocks[x] = to
			continue
		}
		y, err := tensor.ParseDType(to)
		if err != nil {
			return fmt.Errorf("--dtype: %w", err)
		}
		if c.types == nil {
			c.types = map[tensor.DType]tensor.DType{}
		}
		c.types[x] = y
	}
	if err := c.check(); err != nil {
		return err
	}
	if len(c.rename.rules) > 0 || c.types != nil || len(c.filter) > 0 {
		c.opts.Map = func(t *tensor.Tensor) (string, tensor.DType, bool) {
			dtype := tensor.Unknown
			if t.Dense() {
				dtype = c.types[t.DType]
			}
			return c.rename.newName(t.Name), dtype, c.wants(t.Name)
		}
	}
	c.opts.RowMajor, c.opts.Dense, c.opts.Sparse = c.rowMajor, c.dense, c.sparse
	if c.blocks != nil {
		c.opts.Quantize = func(t *tensor.Tensor) string {
			if name := c.blocks[t.DType]; len(t.Shape) > 1 && gguf.CanQuantize(t.Shape, name) {
				return name
			}
			return ""
		}
	}
	if d := c.dequantize; d != "" {
		to, err := tensor.ParseDType(d)
		if err != nil || to != tensor.F32 && to != tensor.F16 && to != tensor.BF16 {
			return fmt.Errorf("--dequantize: %s is neither float32 nor float16 nor bfloat16", quote(d))
		}
		c.opts.Dequantize = to
	}
	if c.sparse != "" && c.sparse != "sparse_csr" && c.sparse != "sparse_coo" {
		return fmt.Errorf("--sparse: %s is neither sparse_csr nor sparse_coo", quote(c.sparse))
	}
	duplicates, ok := map[string]sparse.Duplicates{"": sparse.Refuse, "sum": sparse.Sum, "first": sparse.First}[c.duplicates]
	if !ok {
		return fmt.Errorf("--duplicates: %s is neither sum nor first", quote(c.duplicates))
	}
	c.opts.Duplicates = duplicates
	return c.writerOptions()
}

// writerOptions are those of the target's writer. A flag that it does not have
// is wrong usage.
func (c *conversion) writerOptions() error {
	only := func(flag string, given bool, formats ...tensorfile.Format) error {
		if given && !slices.Contains(formats, c.target) {
			return fmt.Errorf("--%s has no meaning for %v", flag, c.target)
		}
		return nil
	}
	err := errors.Join(
		only("digest", c.digest != "", tensorfile.ZTensor),
		only("level", c.level != 0, tensorfile.ZTensor),
		only("sparse", c.sparse != "", tensorfile.ZTensor),
		only("compress", c.compress, tensorfile.NPZ),
		only("align", c.align != 0, tensorfile.PTD, tensorfile.RTen, tensorfile.PTE),
		only("externalize", c.externalize != "", tensorfile.PTE),
		only("internalize", c.internalize, tensorfile.PTE),
	)
	if err != nil {
		return err
	}
	switch c.target {
	case tensorfile.ZTensor:
		o := &ztensor.WriterOptions{Version: c.version, Level: c.level}
		switch c.digest {
		case "", "none":
		case "crc32c":
			o.Digest = ztensor.CRC32C
		case "sha256":
			o.Digest = ztensor.SHA256
		case "xxh3":
			o.Digest = ztensor.XXH3
		default:
			return fmt.Errorf("--digest: %s is not crc32c, sha256 or xxh3", quote(c.digest))
		}
		if err := o.Check(); err != nil && c.version != "" {
			return err
		}
		c.opts.ZTensor = o
	case tensorfile.PTD:
		c.opts.PTD = &ptd.WriterOptions{SegmentAlignment: c.align, Alignment: c.align}
	case tensorfile.RTen:
		c.opts.RTen = &rten.WriterOptions{Align: c.align}
		if c.version == "1" {
			c.opts.RTen.Version = 1
		}
	case tensorfile.NPZ:
		c.opts.NPZ = &npz.WriterOptions{Compress: c.compress}
	}
	return nil
}

const bundleExt = ".bpte" // of a program with its test cases

func (a *app) convert(from, out string, c *conversion) error {
	if !c.dryRun {
		if err := mayWriteOut(out, c.force); err != nil {
			return onFile(out, err)
		}
		if out == "-" && a.terminal {
			return errors.New("bytes are not for a terminal: write them to a file or a pipe")
		}
	}
	in, err := a.open(from)
	if err != nil {
		return onFile(from, err)
	}
	defer in.Close()
	if err := c.checkNames(in.File); err != nil {
		return onFile(from, err)
	}
	switch r := in.Sys().(type) {
	case *pte.Reader:
		if c.target == tensorfile.PTE {
			return a.convertProgram(r, from, out, c, in.Size())
		}
	case *rten.Reader:
		if c.target == tensorfile.RTen && c.opts.Map == nil {
			// The same file in another layout: operators and all that is not
			// known here are kept.
			e := rten.NewEdit(r)
			o := *c.opts.RTen
			if c.version == "2" {
				o.Version = 2
			}
			return a.written(from, out, c, nil, in.Size(), func(w *target) error { return e.Write(a.ctx, w, &o) })
		}
	}
	if c.externalize != "" || c.internalize {
		return wrong("a .pte", "--externalize and --internalize are for .pte to .pte")
	}
	c.opts.External = a.findExternal
	plan, bar, err := a.plan(from, in.File, c, in.payload())
	defer bar.done()
	var wrongOption *convert.OptionError
	if errors.As(err, &wrongOption) {
		return wrongOption
	}
	if err != nil {
		if c.target.Caps().MaxTensors == 1 && in.Len() > 1 {
			err = advise("--filter NAME, which leaves one tensor", err)
		}
		return onFile(from, err)
	}
	losses := plan.Losses()
	a.tell(from, "allowed", slices.DeleteFunc(slices.Clone(losses), func(l convert.Loss) bool { return c.opts.Allow&l.Kind == 0 }))
	if err := plan.Err(); err != nil {
		a.refused(from, c, losses, err)
		return nil
	}
	if v := plan.Version(); c.target == tensorfile.ZTensor && c.version == "" {
		if v != ztensor.Version2 && !c.dryRun {
			a.message("%s: version %s, as the source; upstream's ztensor 2 reads version 2 only: --to ztensor@2", display(out), v)
		}
		c.version = v
	}
	return a.writePlan(from, out, c, plan, losses)
}

// checkNames refuses a --filter, --rename or --dtype that nothing in the file matches.
func (c *conversion) checkNames(f *tensorfile.File) error {
	filtered := len(c.filter) == 0
	renamed := make([]bool, len(c.rename.rules))
	dtypes := map[tensor.DType]bool{}
	for t := range f.Tensors() {
		filtered = filtered || c.wants(t.Name)
		dtypes[t.DType] = true
		for i, r := range c.rename.rules {
			if _, ok := r.apply(t.Name); ok {
				renamed[i] = true
			}
		}
	}
	if !filtered {
		return wrong(tryNames, "--filter: no tensor or blob is named %s", quote(strings.Join(c.filter, " or ")))
	}
	for i, r := range c.rename.rules {
		if !renamed[i] {
			return wrong(tryNames, "--rename: no tensor or blob is named %s", quote(r.old))
		}
	}
	for _, d := range tensor.DTypes() {
		_, toDType := c.types[d]
		_, toBlocks := c.blocks[d]
		if (toDType || toBlocks) && !dtypes[d] {
			return wrong("tensorfile info, which lists the dtypes", "--dtype: no tensor is %v", d)
		}
	}
	return nil
}

// plan makes a plan whose Write shows progress, until the bar is done.
func (a *app) plan(from string, in *tensorfile.File, c *conversion, about int64) (*convert.Plan, *bar, error) {
	var b *bar
	if !c.dryRun {
		b = a.bar(from, about)
	}
	c.opts.Limits = a.limits
	c.opts.Progress = func(done, _ int64) { b.set(done) }
	plan, err := convert.NewPlan(a.ctx, in, c.target, &c.opts)
	return plan, b, err
}

// writePlan writes the output, whole or not at all.
func (a *app) writePlan(from, out string, c *conversion, plan *convert.Plan, losses []convert.Loss) error {
	if out == "-" || c.dryRun {
		return a.written(from, out, c, losses, 0, func(w *target) error { return plan.Write(a.ctx, w) })
	}
	if err := plan.WriteFile(a.ctx, out); err != nil {
		a.failWriting(from, out, err)
		return nil
	}
	return a.converted(from, out, c, losses)
}

// failWriting reports an error of the input or of the output, whichever it is about.
func (a *app) failWriting(from, out string, err error) {
	var pe *fs.PathError
	if errors.As(err, &pe) && filepath.Dir(pe.Path) == filepath.Dir(filepath.Clean(out)) && strings.Contains(pe.Path, filepath.Base(out)) {
		err = writing(out, err)
	} else if errors.Is(err, tensor.ErrDType) {
		err = advise("another target, or --filter, which leaves tensors out", err)
	}
	a.fail(from, err)
}

// tell lists losses, those of one kind and reason together, the first hundred.
func (a *app) tell(from, what string, losses []convert.Loss) {
	const maxGroups = 100
	groups := convert.GroupLosses(losses)
	for i, g := range groups {
		if i == maxGroups && len(groups) > maxGroups+1 {
			a.message("%s: %s: and %d more", display(from), what, len(groups)-maxGroups)
			return
		}
		a.message("%s: %s: %s", display(from), what, g)
	}
}

// refused tells what is lost and not allowed.
func (a *app) refused(from string, c *conversion, losses []convert.Loss, err error) {
	a.status = worse(a.status, statusUnreadable)
	var le *convert.LossError
	if !errors.As(err, &le) {
		a.fail(from, err)
		return
	}
	var kinds convert.LossKind
	for _, l := range le.Losses {
		kinds |= l.Kind
	}
	a.tell(from, "would be lost", le.Losses)
	try := "--allow " + kinds.String()
	if strings.Contains(le.Error(), convert.TryDequantize) {
		try += ", or --dequantize"
	}
	a.message("%s: nothing was written\n  try: %s", display(from), try)
	if a.json {
		a.printJSON(c.result(from, "", losses, false))
	}
}

// A convertDocument is convert --json.
type convertDocument struct {
	File    string    `json:"file"`
	Output  string    `json:"output"`
	Format  string    `json:"format"`
	Version string    `json:"version"`
	Written bool      `json:"written"`
	Losses  []lossRow `json:"losses"`
}

type lossRow struct {
	Kind    string `json:"kind"`
	Field   string `json:"field"`
	Reason  string `json:"reason"`
	Allowed bool   `json:"allowed"`
}

func (c *conversion) result(from, out string, losses []convert.Loss, written bool) *convertDocument {
	d := &convertDocument{from, out, c.target.String(), c.version, written, []lossRow{}}
	if c.version == "" && len(c.target.Writes()) > 0 {
		d.Version = c.target.Writes()[0]
	}
	for _, l := range losses {
		d.Losses = append(d.Losses, lossRow{l.Kind.String(), l.Field, l.Reason, c.opts.Allow&l.Kind != 0})
	}
	return d
}

// written writes the output, of about that many bytes, whole or not at all, and
// says so.
func (a *app) written(from, out string, c *conversion, losses []convert.Loss, about int64, write func(w *target) error) error {
	if c.dryRun {
		return a.converted(from, "", c, losses)
	}
	t, err := a.create(out, c.force, about)
	if err == nil {
		if err = write(t); err == nil {
			err = t.commit()
		}
		t.abort()
	}
	if err != nil {
		if errors.Is(err, tensor.ErrDType) {
			err = advise("another target, or --filter, which leaves tensors out", err)
		}
		return onFile(from, err)
	}
	return a.converted(from, out, c, losses)
}

func (a *app) converted(from, out string, c *conversion, losses []convert.Loss) error {
	if a.json && out != "-" {
		return a.printJSON(c.result(from, out, losses, out != ""))
	}
	if c.dryRun {
		fmt.Fprintf(a.out, "%s to %v: %s\n", display(from), c.target, map[bool]string{true: "nothing is lost", false: "what is lost is allowed"}[len(losses) == 0])
	}
	return nil
}

// convertProgram rewrites a .pte: constants moved out or in, data aligned anew.
func (a *app) convertProgram(r *pte.Reader, from, out string, c *conversion, size int64) error {
	e := pte.NewEdit(r)
	var moved []*tensor.Tensor
	err := func() (err error) {
		if c.externalize != "" {
			choose := func(x *pte.Entry) string {
				if x.Role != pte.RoleConstant || !c.wants(x.Name) {
					return ""
				}
				return x.Name
			}
			if moved, err = e.Externalize(choose); err != nil {
				return err
			}
		}
		if c.internalize {
			n, err := e.Internalize(a.findExternal)
			if err == nil && n == 0 {
				err = fmt.Errorf("%w: --external has none of the tensors that the program keeps elsewhere", errExternal)
			}
			return err
		}
		return nil
	}()
	if err != nil {
		return onFile(from, err)
	}
	bundle := r.Bundle()
	var losses []convert.Loss
	if bundle != nil && !strings.EqualFold(filepath.Ext(out), bundleExt) {
		losses = append(losses, convert.LoseTestCases(bundle, tensorfile.PTE))
		if c.opts.Allow&losses[0].Kind == 0 {
			a.refused(from, c, losses, &convert.LossError{Target: tensorfile.PTE, Losses: losses})
			return nil
		}
		a.tell(from, "allowed", losses)
		bundle = nil
	}
	if c.externalize != "" && len(moved) == 0 {
		a.message("%s: nothing to externalize: %s is not written", display(from), display(c.externalize))
	}
	if c.dryRun {
		return a.converted(from, "", c, losses)
	}
	if len(moved) > 0 {
		if err := mayWrite(c.externalize, c.force); err != nil {
			return onFile(c.externalize, err)
		}
		// First the weights: a program without them is worth nothing.
		if err := ptd.WriteFile(context.Background(), c.externalize, tensor.Of(moved...), nil); err != nil {
			return onFile(c.externalize, err)
		}
	}
	if bundle == nil {
		e.Unwrap()
	}
	return a.written(from, out, c, losses, size, func(w *target) error {
		return e.Write(a.ctx, w, &pte.WriterOptions{SegmentAlignment: c.align})
	})
}
