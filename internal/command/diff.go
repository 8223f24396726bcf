package command

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tensorfile/tensorfile/inspect"
	"github.com/tensorfile/tensorfile/tensor"
)

// A comparison holds the flags of diff.
type comparison struct {
	opts inspect.DiffOptions
	stat bool
	top  int

	namesOnly bool
	renames   renames
	nameMap   *nameMap // of --map, nil for none
	lister
}

func diffCommand(a *app) *cobra.Command {
	var c comparison
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Compare two files by content, also of different formats",
		Long: `Compare two files by content, also of different formats: tensors and blobs
by name, values independent of their order in the file, attributes, and programs if both
files have the same format. Content that the other format cannot represent is listed too;
--ignore leaves it out. The first line says how many differ. The exit status
is 1 if something differs.

--dequantize compares the numbers that quantised weights stand for, and ignores dtypes.

--rename and --rename-regex give tensors of A the names that they have in B: 'model.*=*' for
checkpoints of Lightning, 'module.*=*' for DataParallel. --map hf-gguf renames between the
names that Llama, Mistral, Mixtral, Qwen2 and Qwen3 have at Hugging Face and their names in
.gguf files. Either file may be A. It compares the values of tensors, and no attributes; add
--dequantize if a file is quantised. For the architecture llama, llama.cpp stores the rows of
query and key weights in another order; they are compared in that order. It also joins the
experts of a layer; they are compared as one tensor. If one file shares the output layer with
the embedding, the output layer is only in the other.

Without a tolerance values are equal if all their bits are equal; with a tolerance NaN equals
NaN.`,
		Example: `  tensorfile diff model.safetensors model.zt
  tensorfile diff --tolerance 1e-6 --stat --top 10 base.gguf tuned.gguf
  tensorfile diff --map hf-gguf --dequantize --stat Llama-3/ llama-3.gguf`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.opts.Numeric = cmd.Flags().Changed("tolerance") || cmd.Flags().Changed("relative")
			if !(c.opts.Tolerance >= 0) || !(c.opts.Relative >= 0) {
				return fmt.Errorf("a tolerance is not negative")
			}
			if err := a.openExternals(); err != nil {
				return err
			}
			var unmatched error
			err := a.with(args[0], func(x *input) error {
				return a.with(args[1], func(y *input) error {
					if err := c.mapNames(a, x, y); err != nil {
						return err
					}
					c.noteNames(a, x)
					c.noteNames(a, y)
					if unmatched = c.unmatched(a, nil); unmatched != nil {
						return nil
					}
					return a.diff(x, y, &c)
				})
			})
			return cmp.Or(err, unmatched)
		},
	}
	f := cmd.Flags()
	dequantizeFlag(f, &a.dequantize)
	f.Float64Var(&c.opts.Tolerance, "tolerance", 0, "values may differ by `T`")
	f.Float64Var(&c.opts.Relative, "relative", 0,
		"values may differ by `R` times the value in B")
	f.BoolVar(&c.opts.IgnoreDType, "ignore-dtype", false, "compare values of different dtypes")
	kinds := map[string]*bool{"attributes": &c.opts.IgnoreAttributes, "blobs": &c.opts.IgnoreBlobs}
	words := slices.Sorted(maps.Keys(kinds))
	chooseEach(f, func(word string) error {
		if err := checkWord("kind", word, words); err != nil {
			return err
		}
		*kinds[word] = true
		return nil
	}, "ignore", words, "leave out `KINDS`: attributes, blobs")
	c.filterFlag(f)
	c.renames.flags(f)
	choices(f, &c.nameMap, "map", "map", nameMaps,
		"give tensors of A their names in B by `MAP`: hf-gguf")
	f.BoolVar(&c.namesOnly, "names-only", false,
		"print only the names of tensors, blobs and attributes that differ")
	f.BoolVar(&c.stat, "stat", false,
		"also print mean, RMS and relative RMS of the differences, and the cosine of A and B")
	number(f, &c.top, "top", 1, math.MaxInt,
		"list only the `N` tensors whose values differ most")
	return cmd
}

// A diffDocument is diff --json.
type diffDocument struct {
	A string `json:"a"`
	B string `json:"b"`
	*inspect.DiffReport
}

func (a *app) diff(x, y *input, c *comparison) error {
	for _, in := range []*input{x, y} {
		a.notePart(in)
		if err := a.checkDecodedTotal(in, &c.lister); err != nil {
			return onFile(in.name, err)
		}
	}
	opts := c.opts
	opts.Figures = c.stat
	opts.External = a.findExternal
	opts.IgnoreDType = opts.IgnoreDType || a.dequantize != tensor.Unknown
	if len(c.filter) > 0 {
		opts.Filter = c.passes
	}
	if len(c.renames) > 0 {
		opts.RenameA = func(name string) string { return c.renames.newName(name, nil) }
	}
	var end func()
	opts.Progress, end = a.progress(x.name)
	report, err := inspect.Diff(a.ctx, x.File, y.File, &opts)
	end()
	if err != nil {
		if !isInterrupt(err) {
			a.fail(x.name+", "+y.name, err)
		}
		return nil
	}
	for _, d := range report.Differences {
		if d.Err != nil {
			a.fail(x.name+", "+y.name, fmt.Errorf("%s: %w", escape(d.Name), d.Err))
		} else {
			a.status = worse(a.status, statusFound)
		}
	}
	summary := report.Summary()
	if c.top > 0 {
		rest := slices.DeleteFunc(slices.Clone(report.Differences),
			func(d inspect.Difference) bool {
				return d.Kind == "tensor" && d.Comparison != nil
			})
		report.Differences = append(report.Largest(c.top), rest...)
	}
	switch {
	case a.json:
		return a.printJSON(diffDocument{x.name, y.name, report})
	case a.quiet:
	case c.namesOnly:
		printed := ""
		for _, d := range report.Differences {
			if d.Err == nil && d.Name != printed {
				printed = d.Name
				fmt.Fprintln(a.out, escape(d.Name))
			}
		}
	case report.Equal:
		line := "the same: " + count(report.Tensors, "tensor")
		if report.Blobs > 0 {
			line += ", " + count(report.Blobs, "blob")
		}
		a.printLine(line)
	default:
		a.printLine(summary)
		rest := report.Differences
		if c.stat || c.top > 0 {
			rest = a.printFigures(rest, c.stat)
		}
		for _, d := range rest {
			if d.Err == nil {
				a.printLine(differenceLine(d))
			}
		}
	}
	return nil
}

// differenceLine returns a difference as text.
func differenceLine(d inspect.Difference) string {
	label := d.Kind + " " + escape(d.Name) + ": "
	switch {
	case d.Change == inspect.ChangeOnlyA:
		return label + "only in a"
	case d.Change == inspect.ChangeOnlyB:
		return label + "only in b"
	case d.Comparison == nil && d.Change == "value":
		return label + sides(d)
	case d.Comparison == nil:
		return label + d.Change + " " + sides(d)
	case d.A == nil:
		return fmt.Sprintf("%s%d of %d bytes differ", label, d.Different, d.Of)
	}
	line := fmt.Sprintf("%s%d of %d elements differ, first at %s: %s, %s", label, d.Different,
		d.Of,
		appendInts(nil, d.First), inspect.AppendValue(nil, d.A), inspect.AppendValue(nil, d.B))
	if largest := float64(d.Largest); !math.IsNaN(largest) {
		line += fmt.Sprintf("; largest difference %.6g", largest)
	}
	if d.NotFinite > 0 {
		line += fmt.Sprintf("; %d with a NaN or an infinity", d.NotFinite)
	}
	return line
}

// sides returns both values of a difference. If they look alike, as a number and its
// text, strings have quotes.
func sides(d inspect.Difference) string {
	a, b := plain(d.A), plain(d.B)
	if a == b {
		x, err1 := marshal(d.A)
		y, err2 := marshal(d.B)
		if err1 == nil && err2 == nil {
			a, b = string(appendJSON(nil, x, oneLine)), string(appendJSON(nil, y, oneLine))
		}
	}
	return a + ", " + b
}

// printFigures prints a table of the tensors whose values differ, and returns the other
// differences.
func (a *app) printFigures(list []inspect.Difference, stat bool) (rest []inspect.Difference) {
	titles := []string{"NAME", ">DIFFERENT", ">OF", ">NAN/INF", ">LARGEST"}
	if stat {
		titles = append(titles, ">MEAN", ">RMS", ">RELATIVE", ">COSINE")
	}
	t := newTable(titles...)
	t.spare = []int{2, 5, 8, 6}[:1+len(titles)/9*3] // OF; MEAN, COSINE, RMS with stat
	allFinite := true
	for _, d := range list {
		if d.Comparison == nil {
			rest = append(rest, d)
			continue
		}
		cells := []string{escape(d.Name), fmt.Sprint(d.Different), fmt.Sprint(d.Of), "",
			shortNumber(d.Largest)}
		if d.NotFinite > 0 {
			cells[3], allFinite = fmt.Sprint(d.NotFinite), false
		}
		if d.Figures != nil {
			for _, v := range []inspect.Float{d.Mean, d.RMS, d.RelativeRMS, d.Cosine} {
				cells = append(cells, shortNumber(v))
			}
		}
		t.add(cells...)
	}
	t.print(a)
	if stat && !allFinite {
		a.printLine("MEAN, RMS, RELATIVE and COSINE are of pairs of finite values")
	}
	return rest
}
