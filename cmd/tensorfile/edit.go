package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/bridge/npz"
	"github.com/tensorfile/tensorfile/bridge/safetensors"
	"github.com/tensorfile/tensorfile/convert"
	"github.com/tensorfile/tensorfile/primitiv"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/pte"
	"github.com/tensorfile/tensorfile/rten"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// An editing is what the flags of edit say.
type editing struct {
	set, unset, rename, drop []string
	modernize                bool
	force                    bool

	newName func(string) string
}

func editCommand(a *app) *cobra.Command {
	var e editing
	cmd := &cobra.Command{
		Use:   "edit IN OUT",
		Short: "Set or remove attributes, rename or drop tensors, and keep everything else",
		Long: `Set or remove attributes, rename or drop tensors, and keep everything else. OUT has the
format and version of IN, appears whole or not at all, and may be IN with --force.

An optimizer file of primitiv has its settings for attributes. The operators of a .rten
keep what they are connected to. The attributes of a .pte are its constant getters, such as
get_vocab_size; of its tensors and named blobs the names can be changed, and named/KEY blobs
be left out. A .bpte keeps its test cases.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(e.set)+len(e.unset)+len(e.rename)+len(e.drop) == 0 && !e.modernize {
				return errors.New("nothing to do: --set, --unset, --rename, --drop, --modernize")
			}
			for _, s := range e.set {
				if !strings.Contains(s, "=") {
					return fmt.Errorf("--set: %s is not KEY=VALUE", quote(s))
				}
			}
			var err error
			if e.newName, err = renamer(e.rename); err != nil {
				return err
			}
			for _, g := range e.drop {
				if err := checkGlob(g); err != nil {
					return fmt.Errorf("--drop: %w", err)
				}
			}
			if err := a.begin(); err != nil {
				return err
			}
			return a.edit(args[0], args[1], &e)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&e.set, "set", nil, "`KEY=VALUE`: an attribute")
	f.StringArrayVar(&e.unset, "unset", nil, "remove the attribute `KEY`")
	f.StringArrayVar(&e.rename, "rename", nil, "`OLD=NEW`: another name for a tensor, or with a * at both ends for many")
	f.StringArrayVar(&e.drop, "drop", nil, "leave out the tensors and blobs that match `GLOB`")
	f.BoolVar(&e.modernize, "modernize", false, "write a .pte of an old ExecuTorch as its runtime loads it today")
	f.BoolVar(&e.force, "force", false, "replace OUT if it is there")
	return cmd
}

// errCannot is the error of an edit that the format has no place for.
func errCannot(f tensorfile.Format, what string) error {
	return advise("tensorfile convert, into a format that has them", fmt.Errorf("%w: a %v file has no %s to change", errors.ErrUnsupported, f, what))
}

func (a *app) edit(from, out string, e *editing) error {
	if err := mayWriteOut(out, e.force); err != nil {
		a.fail(out, err)
		return nil
	}
	in, err := a.open(from)
	if err != nil {
		a.fail(from, err)
		return nil
	}
	defer in.Close()
	if err := e.check(in); err != nil {
		return a.refuse(from, err)
	}
	write, err := e.writer(a, in)
	if err != nil {
		return a.refuse(from, err)
	}
	t, err := a.create(out, e.force, in.payload())
	if err != nil {
		a.fail(out, err)
		return nil
	}
	defer t.abort()
	if err = write(t); err == nil {
		err = t.commit()
	}
	if err != nil {
		a.fail(from, err)
		return nil
	}
	a.made(from, out)
	return nil
}

// check looks whether every flag means something in this file, so that a
// mistyped name is not taken for done.
func (e *editing) check(in *input) error {
	names := slices.Collect(in.names())
	for _, g := range e.drop {
		if !slices.ContainsFunc(names, func(n string) bool { return n == g || matchAny([]string{g}, n) }) {
			return wrong("tensorfile ls, which lists the names", "--drop: nothing is called %s", quote(g))
		}
	}
	for _, r := range e.rename {
		from, _, _ := strings.Cut(r, "=")
		one, _ := renamer([]string{r})
		if !slices.ContainsFunc(names, func(n string) bool { return one(n) != n || n == from }) {
			return wrong("tensorfile ls, which lists the names", "--rename: nothing is called %s", quote(from))
		}
	}
	if len(e.unset) > 0 {
		o := in.attributes()
		if r, ok := in.Sys().(*primitiv.Reader); ok {
			o = primitivSettings(r.Optimizer())
		}
		for _, k := range e.unset {
			if !slices.ContainsFunc(o, func(f field) bool { return f.key == k }) {
				return wrong("tensorfile info, which lists the attributes", "--unset: no attribute is called %s", quote(k))
			}
		}
	}
	return nil
}

// names yields those of tensors, then those of blobs.
func (in *input) names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for t := range in.Tensors() {
			if !yield(t.Name) {
				return
			}
		}
		for name := range in.Blobs() {
			if !yield(name) {
				return
			}
		}
	}
}

func (e *editing) drops(name string) bool {
	return slices.Contains(e.drop, name) || matchAny(e.drop, name)
}

func (e *editing) name(old string) string {
	if e.newName == nil {
		return old
	}
	return e.newName(old)
}

// writer gives the function that writes the edited file.
func (e *editing) writer(a *app, in *input) (func(io.Writer) error, error) {
	attributes := len(e.set)+len(e.unset) > 0
	tensors := len(e.rename)+len(e.drop) > 0
	if _, ok := in.Sys().(*pte.Reader); e.modernize && !ok {
		return nil, errCannot(in.Format(), "old layout")
	}
	switch r := in.Sys().(type) {
	case *rten.Reader:
		edit := rten.NewEdit(r)
		return func(w io.Writer) error { return edit.Write(a.ctx, w, nil) }, e.compose(edit, in.names())
	case *pte.Reader:
		return e.program(a.ctx, r)
	case *ptd.Reader:
		if attributes {
			return nil, errCannot(tensorfile.PTD, "attributes")
		}
		edit := ptd.NewEdit(r)
		return func(w io.Writer) error { return edit.Write(a.ctx, w, nil) }, e.compose(edit, in.names())
	case *primitiv.Reader:
		switch k := r.Kind(); {
		case k == primitiv.KindOptimizer && tensors:
			return nil, errCannot(tensorfile.Primitiv, "tensors (it is an optimizer's)")
		case k != primitiv.KindOptimizer && attributes:
			return nil, errCannot(tensorfile.Primitiv, "attributes")
		}
		edit := primitiv.NewEdit(r)
		err := e.compose(edit, in.names())
		switch {
		case err != nil && attributes:
			err = wrong("a number", "--set: %w", err)
		case err != nil:
			err = advise("tensorfile convert --rename", err)
		}
		return func(w io.Writer) error { return edit.Write(a.ctx, w, nil) }, err
	}
	if r, ok := in.Sys().(*npz.Reader); ok && !attributes {
		return e.npz(a.ctx, r)
	}
	caps := in.Format().CapsOf(in.Version())
	if caps.DTypes == nil {
		return nil, advise("tensorfile convert", fmt.Errorf("%w: %v files are not edited", errors.ErrUnsupported, in.Format()))
	}
	if attributes && !caps.Attributes {
		return nil, errCannot(in.Format(), "attributes")
	}
	opts := &convert.Options{
		Map: func(t *tensor.Tensor) (string, tensor.DType, bool) {
			return e.name(t.Name), tensor.Unknown, !e.drops(t.Name)
		},
	}
	switch r := in.Sys().(type) {
	case *ztensor.Reader:
		if !slices.Contains(tensorfile.ZTensor.Writes(), r.Version()) {
			return nil, advise("tensorfile convert --to ztensor@1.0 first", fmt.Errorf("%w: version %s is not written", errors.ErrUnsupported, r.Version()))
		}
		o := ztensorLike(r)
		o.Attributes = map[string]any{}
		for k, v := range r.AttributeValues() {
			o.Attributes[k] = v
		}
		e.attributes(func(k, v string) { o.Attributes[k] = v }, func(k string) { delete(o.Attributes, k) })
		opts.ZTensor = o
	case *safetensors.Reader:
		m := map[string]string{}
		for k, v := range r.Attributes() {
			m[k] = v
		}
		e.attributes(func(k, v string) { m[k] = v }, func(k string) { delete(m, k) })
		opts.Safetensors = &safetensors.WriterOptions{Metadata: m, KeepOrder: true}
	}
	plan, err := convert.NewPlan(a.ctx, in.File, in.Format(), opts)
	if err != nil {
		return nil, err
	}
	if err := plan.Err(); err != nil {
		return nil, err
	}
	return func(w io.Writer) error { return plan.Write(a.ctx, w) }, nil
}

func (e *editing) attributes(set func(k, v string), unset func(k string)) {
	for _, k := range e.unset {
		unset(k)
	}
	for _, s := range e.set {
		k, v, _ := strings.Cut(s, "=")
		set(k, v)
	}
}

// ztensorLike are the options that write a file like r: its version, its
// compression, its digests, as far as they are one for the whole file.
func ztensorLike(r *ztensor.Reader) *ztensor.WriterOptions {
	o := &ztensor.WriterOptions{Version: r.Version(), Generator: r.Generator()}
	for t := range r.Tensors() {
		blobs := []tensor.Blob{t.Data}
		for i := range t.Parts {
			blobs = append(blobs, t.Parts[i].Data)
		}
		for _, b := range blobs {
			st, _ := b.Stored()
			switch algorithm, _, _ := strings.Cut(st.Digest, ":"); algorithm {
			case "crc32c":
				o.Digest = ztensor.CRC32C
			case "sha256":
				if o.Version != "2" { // which writes xxh3 only
					o.Digest = ztensor.SHA256
				}
			}
			if strings.Contains(st.Encoding, "zstd") { // version 2 calls it zt.zstd-seekable/1
				o.Level = 3
			}
		}
	}
	return o
}

// An editor is the Edit of a format.
type editor interface {
	Rename(old, new string) error
	Remove(name string) error
	SetAttribute(key, value string) error
	RemoveAttribute(key string) error
}

// compose applies the flags to the tensors and blobs of these names.
func (e *editing) compose(ed editor, names iter.Seq[string]) error {
	var errs []error
	seen := map[string]bool{}
	for name := range names {
		switch {
		case seen[name]: // a name that repeats
		case e.drops(name):
			errs = append(errs, ed.Remove(name))
		case e.name(name) != name:
			errs = append(errs, ed.Rename(name, e.name(name)))
		}
		seen[name] = true
	}
	e.attributes(func(k, v string) { errs = append(errs, ed.SetAttribute(k, v)) }, func(k string) { errs = append(errs, ed.RemoveAttribute(k)) })
	return errors.Join(errs...)
}

// program edits the names and the metadata of a .pte. Its tensors are what its instructions work on, and stay.
func (e *editing) program(ctx context.Context, r *pte.Reader) (func(io.Writer) error, error) {
	const named = "named/"
	for t := range r.Tensors() {
		if e.drops(t.Name) {
			return nil, wrong("tensorfile convert --externalize, which moves constants into a .ptd",
				"--drop: %s: %w: the instructions of the program need its tensors", quote(t.Name), errors.ErrUnsupported)
		}
	}
	for name := range r.Blobs() {
		if !strings.HasPrefix(name, named) && (e.drops(name) || e.name(name) != name) {
			return nil, fmt.Errorf("%w: %s belongs to a method, and has no name of its own", errors.ErrUnsupported, quote(name))
		}
	}
	p := pte.NewEdit(r)
	var errs []error
	for t := range r.Tensors() {
		if n := e.name(t.Name); n != t.Name {
			errs = append(errs, p.Rename(t.Name, n))
		}
	}
	for name := range r.Blobs() {
		if e.drops(name) {
			errs = append(errs, p.RemoveBlob(name))
		} else if n := e.name(name); n != name {
			errs = append(errs, p.RenameBlob(name, n))
		}
	}
	e.attributes(func(k, text string) {
		err := p.SetAttribute(k, text)
		if errors.Is(err, tensor.ErrDType) {
			err = wrong("tensorfile info, which shows the old value", "--set: %w", err)
		}
		errs = append(errs, err)
	}, func(k string) { errs = append(errs, p.RemoveAttribute(k)) })
	if e.modernize {
		errs = append(errs, p.Modernize())
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return func(w io.Writer) error { return p.Write(ctx, w, nil) }, nil
}

// ptdLike are the options that write a file like r: its alignment. Entries that
// share their bytes do so again.
func ptdLike(r *ptd.Reader) *ptd.WriterOptions {
	return &ptd.WriterOptions{SegmentAlignment: r.Alignment()}
}

// npz edits the names of arrays and of other members, which are copied as they are stored.
func (e *editing) npz(ctx context.Context, r *npz.Reader) (func(io.Writer) error, error) {
	edit := npz.NewEdit(r)
	errs := []error{e.compose(edit, tensorNames(r.Tensors()))}
	for name := range r.Blobs() {
		if e.drops(name) {
			errs = append(errs, edit.RemoveBlob(name))
		} else if n := e.name(name); n != name {
			errs = append(errs, edit.RenameBlob(name, n))
		}
	}
	return func(w io.Writer) error { return edit.Write(ctx, w, nil) }, errors.Join(errs...)
}

func tensorNames(ts iter.Seq[*tensor.Tensor]) iter.Seq[string] {
	return func(yield func(string) bool) {
		for t := range ts {
			if !yield(t.Name) {
				return
			}
		}
	}
}
