package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tensorfile/tensorfile/tensor"
)

func hashCommand(a *app) *cobra.Command {
	var l lister
	cmd := &cobra.Command{
		Use:   "hash FILE...",
		Short: "Print the SHA-256 of every tensor's decoded bytes",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := l.check(); err != nil {
				return err
			}
			return a.each(args, func(in *input) (jsonValue, error) {
				return a.hash(in, &l)
			})
		},
	}
	cmd.Flags().StringArrayVar(&l.filter, "filter", nil, "only names that match `GLOB`")
	return cmd
}

// A sum is the digest of one payload, or why there is none.
type sum struct {
	role string // of a part
	hex  string
	err  error
}

// sums digests a tensor: its data where it is dense, and every part that it has.
func sums(ctx context.Context, t *tensor.Tensor, bar *bar) []sum {
	var all []sum
	if err := checkData(t); err != nil {
		return []sum{{err: err}}
	}
	if t.Dense() {
		all = append(all, digest(ctx, "", t.Data, bar))
	}
	for i := range t.Parts {
		all = append(all, digest(ctx, t.Parts[i].Role, t.Parts[i].Data, bar))
	}
	return all
}

// checkData returns an error for a tensor whose bytes do not fit its description, or
// are not there.
func checkData(t *tensor.Tensor) error {
	if n, ok := t.Shape.Elements(); t.Dense() && ok && n > 0 && t.Data.Size() == 0 {
		return fmt.Errorf("%w: %v without data", tensor.ErrMalformed, t.Shape)
	}
	return t.Check()
}

func digest(ctx context.Context, role string, b tensor.Blob, bar *bar) sum {
	h := sha256.New()
	if err := stream(ctx, b, bar, func(p []byte) { h.Write(p) }); err != nil {
		return sum{role: role, err: err}
	}
	return sum{role: role, hex: hex.EncodeToString(h.Sum(nil))}
}

func (s sum) set(o *object) {
	if s.err != nil {
		o.set("error", describe(s.err))
		return
	}
	o.set("sha256", s.hex)
}

func (a *app) hash(in *input, l *lister) (jsonValue, error) {
	if err := a.checkDecodedTotal(in, l); err != nil {
		return nil, err
	}
	type job struct {
		row  row // of a tensor
		name string
		blob *tensor.Blob
	}
	jobs := func(yield func(job) bool) {
		for r := range in.eachRow() {
			if l.wants(r.name) && !yield(job{row: *r}) {
				return
			}
		}
		for name, b := range in.Blobs() {
			if l.wants(name) && !yield(job{name: name, blob: &b}) {
				return
			}
		}
	}
	var tensorObjects, blobObjects lines
	show := func(label string, s sum) {
		if s.err != nil {
			if isInterrupt(s.err) {
				a.status = worse(a.status, statusInterrupted)
				return
			}
			a.fail(in.name, fmt.Errorf("%s: %w", label, s.err))
			return
		}
		if !a.json {
			fmt.Fprintf(a.out, "%s  %s\n", s.hex, label)
		}
	}
	bar := a.bar(in.name, in.payload())
	defer bar.done()
	inOrder(a.ctx, jobs, func(j job) []sum {
		if j.blob != nil {
			return []sum{digest(a.ctx, "", *j.blob, bar)}
		}
		t := a.resolve(j.row.tensor)
		if t.External || j.row.empty {
			return nil
		}
		return sums(a.ctx, t, bar)
	}, func(j job, all []sum) {
		if j.blob != nil {
			show(escape(j.name), all[0])
			o := appendName(nil, j.name)
			all[0].set(&o)
			if a.json {
				blobObjects.add(o)
			}
			return
		}
		r := &j.row
		o := append(appendName(nil, r.name), r.ids...)
		var parts []object
		for _, s := range all {
			if s.role == "" {
				show(r.label(), s)
				s.set(&o)
				continue
			}
			show(r.label()+":"+escape(s.role), s)
			p := object{{"role", s.role}}
			s.set(&p)
			parts = append(parts, p)
		}
		if parts != nil {
			o.set("parts", parts)
		}
		if all == nil && r.empty {
			if !a.json {
				fmt.Fprintf(a.out, "%-64s  %s\n", "(state without an initial value)", r.label())
			}
		} else if all == nil {
			o.set("external", true)
			if !a.json {
				fmt.Fprintf(a.out, "%-64s  %s\n", "(kept in another file: --external FILE)", r.label())
			}
		}
		if a.json {
			tensorObjects.add(o)
		}
	})
	if a.ctx.Err() != nil {
		return nil, a.ctx.Err()
	}
	return func(w *jsonWriter) {
		w.open('{')
		w.field("file", in.name)
		w.field("tensors", tensorObjects)
		w.field("blobs", blobObjects)
		w.close('}')
	}, nil
}

// resolve gives the tensor that a program keeps elsewhere, where --external
// named the file that has it.
func (a *app) resolve(t *tensor.Tensor) *tensor.Tensor {
	if !t.External {
		return t
	}
	if e := a.findExternal(t.Name); e != nil {
		return e
	}
	return t
}

// findExternal looks a tensor up in the files that --external names; nil where
// none has it.
func (a *app) findExternal(name string) *tensor.Tensor {
	for _, in := range a.externals {
		if t := in.Tensor(name); t != nil {
			return t
		}
	}
	return nil
}

// errExternal is the error of reading what is kept elsewhere.
var errExternal = advise("--external FILE", fmt.Errorf("%w: kept in another file, name it with --external", errors.ErrUnsupported))
