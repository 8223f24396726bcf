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
		Use:   "cat FILE [NAME[SLICE] [OUT]]",
		Short: "Print the values of a tensor, or write them to a NumPy file",
		Long: `Print the values of a tensor. A slice is written as in Python: 'w[0]',
'w[:, 2:8:2]', 'w[..., -1]'. --raw writes the decoded bytes, little-endian: of a whole
tensor in storage order, of a slice in row-major order; of a blob as they are. --npy
writes a NumPy file. NAME may be left out where the file has one tensor. On a terminal
many values are abbreviated, unless --all.`,
		Example: `  tensorfile cat model.zt 'embedding.weight[0, :8]'
  tensorfile cat --npy model.pte w w.npy`,
		Args: cobra.RangeArgs(1, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			if c.raw && c.array || (c.raw || c.array) && a.json {
				return errors.New("--json, --raw and --npy exclude each other")
			}
			if len(args) < 3 && c.name == "" {
				c.name = "-"
			}
			args, out, err := a.begin(&c.outputs, args, min(len(args), 2))
			if err == nil && (c.raw || c.array || out != "-") {
				err = a.mayWrite(out, &c.outputs)
			}
			if err != nil {
				return err
			}
			return a.with(args[0], func(in *input) error {
				name, err := onlyName(in, args[1:])
				if err != nil {
					return err
				}
				x, err := a.find(in, name, c.part)
				if err == nil {
					abbreviate := out == "-" && a.terminal && !a.json
					err = a.write(out, &c.outputs, in.payload(),
						func(w io.Writer) error { return a.cat(w, in, x, &c, abbreviate) })
				}
				if err != nil {
					return fmt.Errorf("%s: %w", escape(name), err)
				}
				return nil
			})
		},
	}
	f := cmd.Flags()
	dequantizeFlag(f, &a.dequantize)
	f.BoolVar(&c.raw, "raw", false, "write the decoded bytes")
	f.BoolVar(&c.array, "npy", false, "write a NumPy file")
	f.BoolVar(&c.all, "all", false, "print all values on a terminal too")
	f.StringVar(&c.part, "part", "", "the part of that `ROLE` of a tensor that is not dense")
	c.outputs.flags(f, "FILE")
	return cmd
}

// catFlags holds the flags of cat.
type catFlags struct {
	outputs
	raw, array, all bool
	part            string
}

// A chosen is what NAME[SLICE] means in a file: a blob, or a tensor or a part of one.
type chosen struct {
	name string
	blob *tensor.Blob
	t    *tensor.Tensor
}

// find looks a name up: whole first, because names may have brackets, then
// without its slice.
func (a *app) find(in *input, arg, part string) (*chosen, error) {
	name, slice, sliced := arg, "", false
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
	if err := t.Check(); err != nil {
		return nil, err
	}
	if err := a.checkDecoded(in, t.Data); err != nil {
		return nil, err
	}
	if sliced && !t.DType.Known() {
		return nil, noNumbers(t)
	}
	if sliced {
		index, err := tensor.ParseSlice(slice, len(t.Shape))
		whole := t.Shape
		if err == nil {
			t, err = tensor.Slice(t, index...)
		}
		if err != nil {
			return nil, wrong("an index for each dimension, such as [0, 2:8, ...]",
				"slice [%s] of %v: %w", slice, whole, err)
		}
	}
	return &chosen{name: name, t: t}, nil
}

// onlyName is the name of a tensor or blob that is given, or the name of the only one.
func onlyName(in *input, args []string) (name string, err error) {
	if len(args) > 0 {
		return args[0], nil
	}
	n := 0
	for name = range in.names() {
		if n++; n > 1 {
			return "", wrong(tryNames, "the file has several tensors: one has to be named")
		}
	}
	if n == 0 {
		return "", wrong("tensorfile info", "the file has no tensor")
	}
	return name, nil
}

// splitSlice separates NAME[SLICE]. Names may have brackets themselves, so the
// caller looks for the whole text first.
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

// A catHead is how cat --json of a tensor begins; "values" follow one by one.
type catHead struct {
	File  string       `json:"file"`
	Name  string       `json:"name"`
	DType string       `json:"dtype"`
	Shape tensor.Shape `json:"shape"`
}

// A catDocument is cat --json of a blob.
type catDocument struct {
	File   string     `json:"file"`
	Name   string     `json:"name"`
	Bytes  int        `json:"bytes"`
	Values bytesField `json:"values"`
}

// bytesField is {"$bytes": "hex"}.
type bytesField []byte

func (b bytesField) MarshalJSON() ([]byte, error) {
	return []byte(`{"$bytes":"` + hex.EncodeToString(b) + `"}`), nil
}

// cat writes what was chosen.
func (a *app) cat(w io.Writer, in *input, x *chosen, c *catFlags, abbreviate bool) error {
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
		return a.writeJSON(w, catDocument{in.name, x.name, len(b), b})
	case x.blob != nil:
		d := hex.Dumper(w)
		defer d.Close()
		return copyBlob(a.ctx, d, *x.blob)
	case c.raw:
		return copyBlob(a.ctx, w, x.t.Data)
	case c.array:
		return convert.WriteNPY(a.ctx, w, x.t)
	}
	return a.catValues(w, in, x, abbreviate && !c.all)
}

func (a *app) catValues(w io.Writer, in *input, x *chosen, abbreviate bool) error {
	before, after := "", "\n"
	if a.json {
		head, err := marshal(catHead{in.name, x.name, dtypeOf(x.t.DType, x.t.Data), *shapeOf(x.t)})
		if err != nil {
			return err
		}
		before = strings.TrimRight(string(appendJSON(nil, head, a.indent(0))), "\n}")
		if a.jsonLines {
			before, after = before+`, "values": `, "}\n"
		} else {
			before, after = before+",\n  \"values\": ", "\n}\n"
		}
	}
	if !x.t.DType.Known() {
		return noNumbers(x.t)
	}
	if _, err := io.WriteString(w, before); err != nil {
		return err
	}
	opts := &inspect.ValuesOptions{JSON: a.json, Abbreviate: abbreviate}
	if err := inspect.WriteValues(a.ctx, w, x.t, opts); err != nil {
		return adviseOnValues(err)
	}
	_, err := io.WriteString(w, after)
	return err
}

// noNumbers is the error of an unknown dtype.
func noNumbers(t *tensor.Tensor) error {
	return adviseOnValues(fmt.Errorf("%w: %s has no numbers", tensor.ErrDType,
		quote(dtypeOf(t.DType, t.Data))))
}

// copyBlob writes a blob until ctx ends, and checks its digest.
func copyBlob(ctx context.Context, w io.Writer, b tensor.Blob) error {
	_, err := b.WriteTo(format.Until(ctx, w))
	return err
}
