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
func sums(ctx context.Context, t *tensor.Tensor) []sum {
	var all []sum
	if t.Dense() {
		all = append(all, digest(ctx, "", t.Data))
	}
	for i := range t.Parts {
		all = append(all, digest(ctx, t.Parts[i].Role, t.Parts[i].Data))
	}
	return all
}

func digest(ctx context.Context, role string, b tensor.Blob) sum {
	h := sha256.New()
	if err := stream(ctx, b, func(p []byte) { h.Write(p) }); err != nil {
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
	rows := l.apply(in.rows())
	var names []string
	var blobs []tensor.Blob
	for name, b := range in.Blobs() {
		if l.wants(name) {
			names, blobs = append(names, name), append(blobs, b)
		}
	}
	var tensorObjects, blobObjects []object
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
	bar := a.bar(in.name, in.Size())
	defer bar.done()
	inOrder(a.ctx, len(rows)+len(blobs), func(i int) []sum {
		if i >= len(rows) {
			return []sum{digest(a.ctx, "", blobs[i-len(rows)])}
		}
		t := a.resolve(rows[i].tensor)
		if t.External || rows[i].empty {
			return nil
		}
		return sums(a.ctx, t)
	}, func(i int, all []sum) {
		if i >= len(rows) {
			bar.add(max(blobs[i-len(rows)].Size(), 0))
			name := names[i-len(rows)]
			show(escape(name), all[0])
			o := appendName(nil, name)
			all[0].set(&o)
			blobObjects = append(blobObjects, o)
			return
		}
		r := &rows[i]
		bar.add(max(r.bytes, 0))
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
		tensorObjects = append(tensorObjects, o)
	})
	if a.ctx.Err() != nil {
		return nil, a.ctx.Err()
	}
	return func(w *jsonWriter) {
		w.open('{')
		w.field("file", in.name)
		w.field("tensors", orEmpty(tensorObjects))
		w.field("blobs", orEmpty(blobObjects))
		w.close('}')
	}, nil
}

func orEmpty(list []object) []object {
	if list == nil {
		return []object{}
	}
	return list
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
var errExternal = fmt.Errorf("%w: kept in another file, name it with --external", errors.ErrUnsupported)
