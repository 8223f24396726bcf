package command

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tensorfile/tensorfile/convert"
	"github.com/tensorfile/tensorfile/inspect"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
)

func catCommand(a *app) *cobra.Command {
	var c catFlags
	cmd := &cobra.Command{
		Use:   "cat FILE [NAME[SLICE]...]",
		Short: "Print the values of tensors, or write them to a NumPy file",
		Long: `Print the values of tensors. A slice is written as in Python: 'w[0]',
'w[:, 2:8:2]', 'w[..., -1]'. NAME may have * and ?, and may be left out if the file has one
tensor. --raw writes the decoded bytes of one tensor or blob, numbers little-endian: a whole
tensor in storage order, a slice in row-major order. --npy writes a NumPy file. On a terminal
long output is abbreviated, unless --all is given.`,
		Example: `  tensorfile cat model.zt 'embedding.weight[0, :8]'
  tensorfile cat model.gguf '*.attn_norm.weight[:4]' output_norm.weight
  tensorfile cat --npy model.pte w -o w.npy`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if c.raw && c.array || (c.raw || c.array) && a.json {
				return errors.New("--json, --raw and --npy exclude each other")
			}
			c.name = cmp.Or(c.name, "-")
			args, out, err := a.begin(&c.outputs, args, len(args))
			if err == nil && (c.raw || c.array || out != "-") {
				err = a.mayWrite(out, &c.outputs)
			}
			if err != nil {
				return err
			}
			err = a.with(args[0], func(in *input) error {
				c.noteNames(a, in)
				names, err := c.names(in, args[1:])
				if err != nil || len(names) == 0 {
					return err
				}
				if len(names) > 1 && (c.raw || c.array) {
					return wrong("tensorfile extract, which writes a file for each",
						"--raw and --npy take one tensor, not %d", len(names))
				}
				all := make([]*chosen, len(names))
				shown := map[string]bool{}
				for i, name := range names {
					if all[i], err = a.find(in, name, &c); err != nil {
						return fmt.Errorf("%s: %w", escape(name), err)
					}
					shown[all[i].name] = !c.raw
				}
				a.noteStored(in, shown)
				abbreviate := out == "-" && a.terminal && !a.json && !c.all
				return a.write(out, &c.outputs, in.payload(),
					func(w io.Writer) error { return a.cat(w, in, all, &c, abbreviate) })
			})
			return c.unmatched(a, err)
		},
	}
	f := cmd.Flags()
	dequantizeFlag(f, &a.dequantize)
	dtypeFlag(f, &c.dtype)
	c.filterFlag(f)
	f.BoolVar(&c.raw, "raw", false, "write the decoded bytes")
	f.BoolVar(&c.array, "npy", false, "write a NumPy file")
	f.BoolVar(&c.all, "all", false, "print all values on a terminal too")
	f.StringVar(&c.part, "part", "",
		"print the part with `ROLE` of a tensor that is not dense, such as values")
	c.outputs.flags(f, "FILE")
	f.Lookup("output").Usage = "write to `FILE`"
	return cmd
}

// catFlags holds the flags of cat.
type catFlags struct {
	outputs
	lister
	raw, array, all bool
	part            string
	dtype           tensor.DType // to convert to; Unknown: as stored
}

// A chosen is the blob or the tensor that NAME[SLICE] names.
type chosen struct {
	name string
	blob *tensor.Blob
	t    *tensor.Tensor
}

// find returns the blob or tensor that arg names. It looks up arg as a whole first,
// because names may have brackets, and then without a slice.
func (a *app) find(in *input, arg string, c *catFlags) (*chosen, error) {
	name, slice, sliced, part := arg, "", false, c.part
	t := in.Tensor(arg)
	if t == nil {
		weights := inspect.BlobTensors(in.File)
		if b, ok := findBlob(in, arg); ok && weights[arg] == nil {
			return &chosen{name: arg, blob: &b}, a.checkDecoded(in, b)
		}
		if t = weights[arg]; t == nil {
			if name, slice, sliced = splitSlice(arg); sliced {
				t = cmp.Or(in.Tensor(name), weights[name])
			}
		}
	}
	if t == nil {
		return nil, noTensor(in, arg)
	}
	t = a.resolve(t)
	switch {
	case t.External:
		return nil, errExternal
	case part != "":
		p := t.Part(part)
		if p == nil {
			return nil, wrong("--part with one of: "+plain(roles(t)), "%s has no part %s",
				quote(name), quote(part))
		}
		err := a.checkDecoded(in, p.Data)
		if err != nil {
			return nil, err
		}
		if t, err = inspect.Part(a.ctx, t, p); err != nil {
			return nil, err
		}
	case sparse.Known(t.Scheme):
		err := a.checkDecoded(in, slices.Collect(format.Blobs(t))...)
		if err != nil {
			return nil, err
		}
		if t, err = sparse.Densify(a.ctx, t, nil); err != nil {
			return nil, err
		}
	case !t.Dense():
		values, err := tensor.As(t, tensor.F32) // of quantised blocks
		if errors.Is(err, tensor.ErrMalformed) || errors.Is(err, tensor.ErrLimit) {
			return nil, err
		}
		if err != nil {
			return nil, advise("--part with one of: "+plain(roles(t)),
				fmt.Errorf("%w: %s is %s, which has no dense form here",
					errors.ErrUnsupported, quote(name), quote(t.Scheme)))
		}
		t = values
	}
	err := t.Check()
	if err == nil {
		err = a.checkDecoded(in, t.Data)
	}
	if err != nil {
		return nil, err
	}
	cut := tensor.Slice
	switch {
	case inspect.IsText(t):
		cut = inspect.SliceText
	case sliced && !t.DType.Known():
		return nil, noNumbers(t)
	}
	if sliced {
		index, err := tensor.ParseSlice(slice, len(t.Shape))
		whole := t.Shape
		if err == nil {
			t, err = cut(t, index...)
		}
		if err != nil {
			return nil, wrong("an index for each dimension, such as [0, 2:8, ...]",
				"slice [%s] of %v: %w", slice, whole, err)
		}
	}
	if c.dtype != tensor.Unknown && c.dtype != t.DType {
		if t, err = tensor.As(t, c.dtype); err != nil {
			return nil, err
		}
	}
	return &chosen{name: name, t: t}, nil
}

// names returns the names that the arguments match, each with its slice. Without
// arguments it returns the names that pass the filters, and without filters the only
// name.
func (l *lister) names(in *input, args []string) (all []string, err error) {
	if len(args) == 0 {
		for name := range in.names() {
			if l.passes(name) {
				all = append(all, name)
			}
			if len(l.filter) == 0 && len(all) > 1 {
				return nil, wrong(tryNames, "the file has several tensors: one has to be named")
			}
		}
		if len(all) == 0 && len(l.filter) == 0 {
			err = wrong("tensorfile info", "the file has no tensor")
		}
		return all, err
	}
	for _, arg := range args {
		pattern, _, _ := splitSlice(arg)
		n := len(all)
		for name := range in.names() {
			if name == arg {
				all = append(all[:n], arg)
				break
			}
			if ok, _ := glob(pattern, name); ok && strings.ContainsAny(pattern, "*?") &&
				l.passes(name) {
				all = append(all, name+arg[len(pattern):])
			}
		}
		if len(all) == n {
			all = append(all, arg)
		}
	}
	return all, nil
}

// splitSlice separates NAME[SLICE].
func splitSlice(arg string) (name, slice string, ok bool) {
	if !strings.HasSuffix(arg, "]") {
		return arg, "", false
	}
	i := strings.LastIndexByte(arg, '[')
	if i < 0 {
		return arg, "", false
	}
	return arg[:i], arg[i+1 : len(arg)-1], true
}

func findBlob(in *input, name string) (tensor.Blob, bool) {
	for n, b := range in.Blobs() {
		if n == name {
			return b, true
		}
	}
	return tensor.Blob{}, false
}

func roles(t *tensor.Tensor) []string {
	var all []string
	for i := range t.Parts {
		all = append(all, t.Parts[i].Role)
	}
	return all
}

// A catHead is the start of cat --json for a tensor; "values" are written after it.
type catHead struct {
	File  string       `json:"file,omitempty"` // of one tensor
	Name  string       `json:"name"`
	DType string       `json:"dtype"`
	Shape tensor.Shape `json:"shape"`
}

// A catDocument is the start of cat --json for a blob.
type catDocument struct {
	File  string `json:"file,omitempty"`
	Name  string `json:"name"`
	Bytes int    `json:"bytes"`
}

// cat writes the values of tensors and blobs; if there are several, each after its name.
func (a *app) cat(w io.Writer, in *input, all []*chosen, c *catFlags, abbreviate bool) error {
	file, before, between, after := in.name, "", "\n", ""
	if a.json && len(all) > 1 {
		head, err := marshal(map[string]string{"file": in.name})
		if err != nil {
			return err
		}
		file, before = "", strings.TrimRight(string(appendJSON(nil, head, a.indent(0))), "\n}")
		if before, between, after = before+`, "tensors": [`, ", ", "]}\n"; !a.jsonLines {
			before = strings.Replace(before, `, "t`, ",\n  \"t", 1) + "\n    "
			between, after = ",\n    ", "\n  ]\n}\n"
		}
	}
	for i, x := range all {
		if i > 0 {
			before = between
		}
		if len(all) > 1 && !a.json {
			before += escape(x.name) + ":\n"
		}
		_, err := io.WriteString(w, before)
		if err == nil {
			err = a.catOne(w, file, x, c, abbreviate)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", escape(x.name), err)
		}
	}
	_, err := io.WriteString(w, after)
	return err
}

func (a *app) catOne(w io.Writer, file string, x *chosen, c *catFlags, abbreviate bool) error {
	switch {
	case x.blob != nil && c.array:
		return advise("--raw", fmt.Errorf("%w: a blob has no dtype", errors.ErrUnsupported))
	case x.blob != nil && c.raw:
		return copyBlob(a.ctx, w, *x.blob)
	case x.blob != nil && a.json:
		b, err := x.blob.ReadAll()
		if err != nil {
			return err
		}
		return a.catJSON(w, file, catDocument{file, x.name, len(b)}, func() error {
			_, err := fmt.Fprintf(w, `{"$bytes": "%x"}`, b)
			return err
		})
	case x.blob != nil:
		d := hex.Dumper(w)
		defer d.Close()
		return copyBlob(a.ctx, d, *x.blob)
	case c.raw:
		return copyBlob(a.ctx, w, x.t.Data)
	case c.array:
		return convert.WriteNPY(a.ctx, w, x.t)
	case !x.t.DType.Known() && !inspect.IsText(x.t):
		return noNumbers(x.t)
	}
	values := func() error {
		opts := &inspect.ValuesOptions{JSON: a.json, Abbreviate: abbreviate}
		return adviseOnValues(inspect.WriteValues(a.ctx, w, x.t, opts))
	}
	if a.json {
		return a.catJSON(w, file, catHead{file, x.name, dtypeOf(x.t.DType, x.t.Data),
			*shapeOf(x.t)}, values)
	}
	err := values()
	if err == nil {
		_, err = io.WriteString(w, "\n")
	}
	return err
}

// catJSON writes the JSON object of a tensor or blob; values writes its last field. If
// file is "", the object is one of several.
func (a *app) catJSON(w io.Writer, file string, head any, values func() error) error {
	text, err := marshal(head)
	if err != nil {
		return err
	}
	indent, separator, end := a.indent(0), ", ", "}"
	if file == "" {
		indent = oneLine
	} else if end = "}\n"; !a.jsonLines {
		separator, end = ",\n  ", "\n}\n"
	}
	before := strings.TrimRight(string(appendJSON(nil, text, indent)), "\n}")
	if _, err = io.WriteString(w, before+separator+`"values": `); err == nil {
		err = values()
	}
	if err == nil {
		_, err = io.WriteString(w, end)
	}
	return err
}

// noNumbers returns the error for a tensor of an unknown dtype.
func noNumbers(t *tensor.Tensor) error {
	return adviseOnValues(fmt.Errorf("%w: %s has no numbers", tensor.ErrDType,
		quote(dtypeOf(t.DType, t.Data))))
}

// copyBlob writes a blob and checks its digest. It fails if ctx ends.
func copyBlob(ctx context.Context, w io.Writer, b tensor.Blob) error {
	_, err := b.WriteTo(format.Until(ctx, w))
	return err
}
