package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tensorfile/tensorfile/bridge/npy"
	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
)

func catCommand(a *app) *cobra.Command {
	var raw, array bool
	var part string
	cmd := &cobra.Command{
		Use:   "cat FILE NAME[SLICE]",
		Short: "Print the values of a tensor, or write them as bytes or as a NumPy file",
		Long: `Print the values of a tensor. A slice is written as in Python: 'w[0]', 'w[:, 2:8:2]',
'w[..., -1]'. --raw writes the decoded bytes, little-endian: of a whole tensor in
storage order, of a slice in row-major order; of a blob as they are. --npy writes
a NumPy file.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if raw && array || (raw || array) && a.json {
				return errors.New("--json, --raw and --npy exclude each other")
			}
			if (raw || array) && a.terminal {
				return errors.New("bytes are not for a terminal: write them to a file or a pipe")
			}
			if err := a.begin(); err != nil {
				return err
			}
			in, err := a.open(args[0])
			if err != nil {
				a.fail(args[0], err)
				return nil
			}
			defer in.Close()
			c, err := a.find(in, args[1], part)
			if err != nil {
				return a.refuse(args[0], err)
			}
			switch {
			case c.blob != nil:
				err = a.catBlob(in, c, raw, array)
			case raw:
				err = c.writeRaw(a)
			case array:
				err = c.writeNPY(a.ctx, a.out.Writer)
			default:
				err = a.catValues(in, c)
			}
			if err != nil {
				a.fail(args[0], fmt.Errorf("%s: %w", escape(args[1]), err))
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.BoolVar(&raw, "raw", false, "write the decoded bytes")
	f.BoolVar(&array, "npy", false, "write a NumPy file")
	f.StringVar(&part, "part", "", "the part of that `ROLE` of a tensor that is not dense")
	return cmd
}

// A chosen is what NAME[SLICE] means in a file.
type chosen struct {
	name   string
	blob   *tensor.Blob
	t      *tensor.Tensor
	region region
	sliced bool
}

// find looks a name up: whole first, because names may have brackets, then
// without its slice.
func (a *app) find(in *input, arg, part string) (*chosen, error) {
	name, slice, sliced := arg, "", false
	t := in.Tensor(arg)
	if t == nil {
		if b, ok := findBlob(in, arg); ok {
			return &chosen{name: arg, blob: &b}, nil
		}
		if name, slice, sliced = splitSlice(arg); sliced {
			t = in.Tensor(name)
		}
	}
	if t == nil {
		return nil, wrong("tensorfile ls, which lists the names", "no tensor or blob is called %s", quote(arg))
	}
	t = a.resolve(t)
	switch {
	case t.External:
		return nil, errExternal
	case part != "":
		p := t.Part(part)
		if p == nil {
			return nil, wrong("--part with one of: "+plain(roles(t)), "%s has no part %s", quote(name), quote(part))
		}
		var err error
		if t, err = partTensor(a.ctx, t, p); err != nil {
			return nil, err
		}
	case sparse.Known(t.Scheme):
		var err error
		if t, err = sparse.Densify(a.ctx, t, nil); err != nil {
			return nil, err
		}
	case !t.Dense():
		return nil, advise("--part with one of: "+plain(roles(t)), fmt.Errorf("%w: %s is %s, which has no dense form here",
			errors.ErrUnsupported, quote(name), quote(t.Scheme)))
	}
	if err := t.Check(); err != nil {
		return nil, err
	}
	c := &chosen{name: name, t: t, region: whole(t.Shape), sliced: sliced}
	if sliced {
		var err error
		if c.region, err = parseSlice(slice, t.Shape); err != nil {
			return nil, wrong("an index for each dimension, such as [0, 2:8, ...]", "slice [%s] of %v: %w", slice, t.Shape, err)
		}
	}
	return c, nil
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

// partTensor returns a part as a tensor of one dimension, of bytes where they are no
// whole number of elements. One whose size only decoding tells is decoded.
func partTensor(ctx context.Context, t *tensor.Tensor, p *tensor.Part) (*tensor.Tensor, error) {
	out := &tensor.Tensor{Name: t.Name + ":" + p.Role, DType: partType(t, p), Data: p.Data}
	if out.Data.Size() < 0 {
		all, err := readAll(ctx, p.Data)
		if err != nil {
			return nil, err
		}
		out.Data = tensor.BlobOf(all)
	}
	n := out.Data.Size()
	if bits := int64(out.DType.Bits()); bits > 0 {
		n = n/bits*8 + n%bits*8/bits
	}
	if size, ok := out.DType.Bytes(n); out.DType.Known() && (!ok || size != out.Data.Size()) {
		out.DType, n = tensor.U8, out.Data.Size()
	}
	out.Shape = tensor.Shape{n}
	return out, nil
}

// partType is the element type of a part: zTensor 1.0 gives none for indices,
// which are uint64.
func partType(t *tensor.Tensor, p *tensor.Part) tensor.DType {
	if p.DType == tensor.Unknown && dtypeOf(p.DType, p.Data) == "" && (t.Scheme == "sparse_csr" || t.Scheme == "sparse_coo") {
		return tensor.U64
	}
	return p.DType
}

func (a *app) catValues(in *input, c *chosen) error {
	e, err := elementOf(c.t.DType)
	if err != nil {
		return err
	}
	shape := c.region.shape()
	if !a.json {
		if err := c.values(a, e, shape, false); err != nil {
			return err
		}
		return a.out.Writer.WriteByte('\n')
	}
	w := &jsonWriter{w: a.out}
	w.open('{')
	w.field("file", in.name)
	w.field("name", c.name)
	w.field("dtype", dtypeOf(c.t.DType, c.t.Data))
	w.field("shape", shape)
	w.key("values")
	w.flush(0)
	if err := c.values(a, e, shape, true); err != nil {
		return err
	}
	w.keyed = false
	w.close('}')
	w.end()
	return nil
}

// values writes nested lists, a row of the last dimension a line.
func (c *chosen) values(a *app, e element, shape tensor.Shape, json bool) error {
	if c.region.elements() == 0 {
		return c.nothing(a.out, shape)
	}
	win := newWindow(a.ctx, c.t.Data, e.bits)
	defer win.close()
	rank := len(shape)
	index := make([]int64, rank)
	var b []byte
	for range rank {
		b = append(b, '[')
	}
	first := true
	err := c.region.walk(c.t, func(at int64) error {
		if !first {
			// The dimensions that turn over close, and open again.
			d := rank - 1
			for ; d > 0; d-- {
				if index[d]++; index[d] < shape[d] {
					break
				}
				index[d] = 0
			}
			if d == 0 {
				index[0]++
			}
			turned := rank - 1 - d
			for range turned {
				b = append(b, ']')
			}
			b = append(b, ',')
			if turned == 0 || json {
				b = append(b, ' ')
			} else {
				b = append(b, '\n')
				b = appendSpaces(b, d+1)
			}
			for range turned {
				b = append(b, '[')
			}
		}
		first = false
		p, i, err := win.at(at)
		if err == nil {
			err = e.check(p, i)
		}
		if err != nil {
			return err
		}
		b = e.append(b, p, i, json)
		if len(b) > 32<<10 {
			if err := a.ctx.Err(); err != nil {
				return err
			}
			_, err = a.out.Write(b)
			b = b[:0]
		}
		return err
	})
	if err != nil {
		return err
	}
	for range rank {
		b = append(b, ']')
	}
	_, err = a.out.Write(b)
	return err
}

// nothing writes the lists of a tensor without elements.
func (c *chosen) nothing(w io.Writer, shape tensor.Shape) error {
	var lists func(d int) string
	lists = func(d int) string {
		if shape[d] == 0 || d == len(shape)-1 {
			return "[]"
		}
		if shape[d] > 1<<10 { // there is nothing in them: do not count them out
			return "[]"
		}
		inner := lists(d + 1)
		s := "["
		for i := range shape[d] {
			if i > 0 {
				s += ", "
			}
			s += inner
			if len(s) > 1<<16 {
				return "[]"
			}
		}
		return s + "]"
	}
	_, err := io.WriteString(w, lists(0))
	return err
}

// writeRaw writes the decoded bytes: all in storage order, or those of the
// slice.
func (c *chosen) writeRaw(a *app) error {
	if !c.sliced {
		return copyBlob(a.ctx, a.out.Writer, c.t.Data)
	}
	return c.writeElements(a.ctx, a.out.Writer)
}

// writeElements writes the elements of the region in row-major order.
func (c *chosen) writeElements(ctx context.Context, w io.Writer) error {
	width := c.t.DType.Size()
	if width == 0 {
		return advise("the whole tensor", fmt.Errorf("%w: a slice of elements of less than a byte", errors.ErrUnsupported))
	}
	win := newWindow(ctx, c.t.Data, 8*width)
	defer win.close()
	return c.region.walk(c.t, func(at int64) error {
		p, i, err := win.at(at)
		if err == nil {
			_, err = w.Write(p[i*width : (i+1)*width])
		}
		return err
	})
}

// copyBlob writes a blob through a copy, for the reason that stream has.
func copyBlob(ctx context.Context, w io.Writer, b tensor.Blob) error {
	var failed error
	err := stream(ctx, b, nil, func(p []byte) {
		if failed == nil {
			_, failed = w.Write(p)
		}
	})
	return errors.Join(err, failed)
}

// writeNPY writes the chosen elements as a NumPy file. A whole tensor in column-major order stays
// so.
func (c *chosen) writeNPY(ctx context.Context, w io.Writer) error {
	as, _, ok := numpyType(c.t.DType)
	if !ok {
		return fmt.Errorf("%w: NumPy does not support %v", tensor.ErrDType, c.t.DType)
	}
	array := tensor.Tensor{Name: c.name, DType: as, Shape: c.region.shape()}
	column := tensor.ColumnMajor(len(array.Shape))
	whole := !c.sliced && (c.t.Order.RowMajor() || slices.Equal(c.t.Order, column))
	if whole && !c.t.Order.RowMajor() {
		array.Order = column
	}
	head, err := npy.AppendHeader(nil, &array)
	if err != nil {
		return err
	}
	if _, err := w.Write(head); err != nil {
		return err
	}
	if whole {
		return copyBlob(ctx, w, c.t.Data)
	}
	return c.writeElements(ctx, w)
}

// numpyType returns the dtype of which NumPy gets elements of d: its own, or an integer of the same
// bits, which note then names.
func numpyType(d tensor.DType) (as tensor.DType, note string, ok bool) {
	switch {
	case slices.Contains(npy.DTypes(), d):
		return d, "", true
	case d == tensor.QI8:
		as = tensor.I8
	case d == tensor.QI32:
		as = tensor.I32
	case d == tensor.C32:
		as = tensor.U32
	case d.Bits() == 8:
		as = tensor.U8
	case d.Bits() == 16:
		as = tensor.U16
	default:
		return tensor.Unknown, "", false
	}
	return as, as.String(), true
}

func (a *app) catBlob(in *input, c *chosen, raw, array bool) error {
	switch {
	case array:
		return advise("--raw", fmt.Errorf("%w: a blob has no dtype", errors.ErrUnsupported))
	case raw:
		return copyBlob(a.ctx, a.out.Writer, *c.blob)
	case a.json:
		b, err := readAll(a.ctx, *c.blob)
		if err != nil {
			return err
		}
		w := &jsonWriter{w: a.out}
		w.value(object{{"file", in.name}, {"name", c.name}, {"bytes", len(b)}, {"values", b}})
		w.end()
		return nil
	}
	d := hex.Dumper(a.out)
	defer d.Close()
	return copyBlob(a.ctx, d, *c.blob)
}
