package command

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/inspect"
	"github.com/tensorfile/tensorfile/pte"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// An editing holds the flags of edit.
type editing struct {
	attributes []attributeChange
	rename     renames
	drop       globs
	keep       globs // attributes that match are kept
	modernize  bool
	inPlace    bool
	headerOnly bool
	outputs
	lister
}

// An attributeChange is one --set or --unset.
type attributeChange struct {
	key    string
	value  *string // nil removes the attribute
	isFile bool    // value is the name of a file that has the value
}

// attributeFlag collects --set, --set-file or --unset in the order of the command line.
type attributeFlag struct {
	list         *[]attributeChange
	remove, file bool
}

func (f attributeFlag) String() string { return "" }
func (f attributeFlag) Type() string   { return "string" }

func (f attributeFlag) Set(text string) error {
	c := attributeChange{key: text}
	if !f.remove {
		key, value, ok := strings.Cut(text, "=")
		if !ok {
			return fmt.Errorf("%s is not KEY=VALUE", quote(text))
		}
		c = attributeChange{key, &value, f.file}
	}
	*f.list = append(*f.list, c)
	return nil
}

func editCommand(a *app) *cobra.Command {
	var e editing
	cmd := &cobra.Command{
		Use: "edit IN OUT | edit FILE --in-place",
		Example: `  tensorfile edit a.safetensors b.safetensors --set license=MIT
  tensorfile edit model.zt --in-place --rename 'model.*=*'
  tensorfile edit a.gguf b.gguf --set-file tokenizer.chat_template=chat.jinja`,
		Short: "Set attributes, rename or drop tensors, keep everything else",
		Long: `Set or remove attributes, rename or drop tensors, and keep everything
else. OUT has the format and version of IN, appears whole or not at all, and may be IN
with --in-place.

Each --rename applies to the names that the renames before it made: a=x, b=a and x=b swap
two tensors. --drop and --filter apply to the names in IN. If several flags set an
attribute, the last one counts.

By format:
  .primitiv     the attributes of an optimizer file are its settings
  .rten         operators stay connected to renamed tensors
  .pte          attributes are constant getters, such as get_vocab_size;
                tensors and blobs named/KEY can be renamed, such blobs dropped
  .bpte         test cases are kept
  .ptn          the program refers to renamed tensors by their new names
  .gguf         a value must fit the type of its key. A new key has the type
                that GGUF defines for it, or is a string; KEY:TYPE sets another
                type (uint32, float32, bool, []string, ...; arrays as JSON)
  .safetensors  shards become one file
  .zt           stored bytes do not change. Bytes in shards stay in their
                files next to IN, so OUT must be in the same directory. convert
                writes version 2 in canonical form again`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(e.attributes)+len(e.rename)+len(e.drop)+len(e.keep)+len(e.filter) == 0 &&
				!e.modernize {
				return errors.New("nothing to do: --set, --unset, --attributes, --rename, " +
					"--drop, --filter, --modernize")
			}
			if e.inPlace {
				if len(args) != 1 || e.name != "" {
					return errors.New("--in-place takes one FILE and no output")
				}
				e.name, e.force = args[0], true
			} else if e.headerOnly {
				return errors.New("--header-only needs --in-place")
			} else if len(args) == 1 && e.name == "" {
				return wrong("--in-place, which replaces FILE",
					"the name of the output is missing")
			}
			args, out, err := a.beginFile(&e.outputs, args, 1)
			if err != nil {
				return err
			}
			a.single = true
			return a.with(args[0], func(in *input) error { return a.edit(in, out, &e) })
		},
	}
	f := cmd.Flags()
	f.Var(attributeFlag{list: &e.attributes}, "set", "set the attribute `KEY=VALUE`")
	f.Var(attributeFlag{list: &e.attributes, file: true}, "set-file",
		"`KEY=FILE`: set an attribute to the content of FILE")
	f.Var(attributeFlag{list: &e.attributes, remove: true}, "unset",
		"remove the attributes that match `GLOB`")
	attributesFlag(f, &e.keep)
	e.rename.flags(f)
	e.filterFlag(f)
	f.Var(&e.drop, "drop", "leave out the tensors and blobs that match `GLOB`")
	f.BoolVar(&e.modernize, "modernize", false,
		"change an old .pte so that today's runtime of ExecuTorch loads it")
	f.BoolVar(&e.inPlace, "in-place", false, "replace FILE by the edited file")
	f.BoolVar(&e.headerOnly, "header-only", false, "with --in-place: overwrite only the header "+
		"of a .gguf, if its data can stay; an interruption damages the file")
	e.outputs.flags(f, "FILE")
	return cmd
}

func (a *app) edit(in *input, out string, e *editing) error {
	if err := checkExtension(out, in.Format()); err != nil && !e.inPlace {
		return err
	}
	joined := 0 // files that become one
	if shards := inspect.Shards(in.File); len(shards) > 1 && in.Format() != tensorfile.ZTensor {
		if joined = len(shards); e.inPlace {
			return wrong("another name for the output, which is one file",
				"--in-place replaces one file, and the model is %d", joined)
		}
	}
	if err := e.readFiles(); err != nil {
		return err
	}
	types := map[string]string{}
	if in.Format() == tensorfile.GGUF {
		types = e.cutTypes(in)
	}
	c, err := e.changes(in)
	if err != nil {
		return err
	}
	try := "another name or value, or tensorfile convert into a format that supports it"
	if slices.Contains(flagsByTarget[in.Format()].names, "externalize") {
		try = "another name, or tensorfile convert --externalize, which moves constants " +
			"into a .ptd"
	}
	ed, err := tensorfile.NewEdit(in.File)
	if len(types) > 0 {
		ed = &ggufEdit{ed, ed.Sys().(*gguf.Edit), types}
	}
	if err == nil {
		err = c.apply(ed, in)
	}
	if err == nil && e.modernize {
		err = modernize(ed)
	}
	if err != nil {
		return suggest(try, err)
	}
	if z, ok := ed.Sys().(*ztensor.Edit); ok {
		name := out
		if out == "-" {
			name = in.path // whose directory has the shards
		}
		if err := z.CheckFile(name); err != nil {
			return advise("tensorfile convert, which writes all data into one file of version "+
				ztensor.Version2, err)
		}
	}
	if joined > 0 {
		a.note("%s: %d shards become one file, %s; tensorfile split makes shards of it",
			display(in.name), joined, display(out))
	}
	a.noteVersion(in.File, out, in.Format())
	a.adviseGGUF(in, c, types)
	a.adviseExternal(in, c)
	if e.headerOnly && !e.dryRun {
		return overwriteHeader(out, ed)
	}
	if err := a.write(out, &e.outputs, in.payload(),
		func(w io.Writer) error { return ed.Write(a.ctx, w) }); err != nil {
		return suggest(try, err)
	}
	return a.wrote(&writtenDocument{File: in.name, Output: out, Written: !e.dryRun,
		Joined: joined})
}

// modernize changes an old .pte so that today's runtime loads it.
func modernize(ed tensorfile.Edit) error {
	p, ok := ed.Sys().(*pte.Edit)
	if !ok {
		return fmt.Errorf("%w: the file has no old layout to change", errors.ErrUnsupported)
	}
	return p.Modernize()
}

// suggest adds what to try to the error of a change that is not supported, or of a name
// that exists or is not possible. The file itself is not damaged.
func suggest(try string, err error) error {
	var damage *tensor.FormatError
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return advise(try, err)
	case errors.Is(err, tensor.ErrDuplicate):
		return advise("another name with --rename, or --drop of the one that has it", err)
	case errors.Is(err, fs.ErrInvalid),
		errors.Is(err, tensor.ErrMalformed) && !errors.As(err, &damage):
		return advise("another name or value", err)
	}
	return err
}

// changes is the changes that the flags of edit make to a file.
type changes struct {
	names      map[string]*string // new names by old names; nil removes
	keys       []string           // of attributes, in the order of the flags
	attributes map[string]*string // values by key; nil removes
}

// changes returns the changes that the flags make to a file. It fails if a flag matches
// nothing, such as a mistyped name.
func (e *editing) changes(in *input) (*changes, error) {
	c := &changes{names: map[string]*string{}, attributes: map[string]*string{}}
	names := slices.Collect(in.names())
	used := make([]bool, len(e.rename))
	for _, n := range names {
		if to := e.rename.newName(n, used); to != n {
			c.names[n] = &to
		}
	}
	if err := e.rename.unused(used); err != nil {
		return nil, err
	}
	for _, g := range e.drop {
		matched := false
		for _, n := range names {
			if ok, _ := glob(g, n); ok || n == g {
				c.names[n], matched = nil, true
			}
		}
		if !matched {
			return nil, globs{g}.noMatch("--drop")
		}
	}
	if len(e.filter) > 0 && !slices.ContainsFunc(names, e.passes) {
		return nil, e.filter.noMatch("--filter")
	}
	for _, n := range names {
		if !e.passes(n) {
			c.names[n] = nil
		}
	}
	had := map[string]bool{}
	isKept := len(e.keep) == 0
	for k := range in.Attributes() {
		had[k], isKept = true, isKept || e.keep.match(k)
	}
	if len(had) > 0 && !isKept {
		if err := e.keep.noAttribute(); err != nil {
			return nil, err
		}
	}
	for _, a := range e.matching(in) {
		_, added := c.attributes[a.key]
		if a.value == nil && !added && !had[a.key] {
			return nil, wrong("tensorfile info, which lists the attributes",
				"--unset: no attribute is named %s", quote(a.key))
		}
		if !added {
			c.keys = append(c.keys, a.key)
		}
		c.attributes[a.key] = a.value
	}
	// An attribute that is added and then removed needs no change.
	c.keys = slices.DeleteFunc(c.keys,
		func(k string) bool { return c.attributes[k] == nil && !had[k] })
	return c, nil
}

// matching returns the changes of attributes: first the removals of --attributes, then
// the flags, each pattern of --unset as the keys of the file that match it.
func (e *editing) matching(in *input) (all []attributeChange) {
	for k := range in.Attributes() {
		if !e.keep.match(k) {
			all = append(all, attributeChange{key: k})
		}
	}
	for _, a := range e.attributes {
		n := len(all)
		for k := range in.Attributes() {
			if ok, _ := glob(a.key, k); ok && a.value == nil && k != a.key {
				all = append(all, attributeChange{key: k})
			}
		}
		if len(all) == n {
			all = append(all, a)
		}
	}
	return all
}

const tryNames = "tensorfile ls, which lists the names"

// names yields the names of tensors, then the names of blobs.
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

// apply makes the changes, in the order of the file and of the flags.
func (c *changes) apply(ed tensorfile.Edit, in *input) error {
	var errs []error
	change := func(name string, rename func(old, new string) error,
		remove func(name string) error) {
		switch to, changed := c.names[name]; {
		case !changed:
		case to == nil:
			errs = append(errs, remove(name))
		case *to != name:
			errs = append(errs, rename(name, *to))
		}
	}
	for t := range in.Tensors() {
		change(t.Name, ed.Rename, ed.Remove)
	}
	for name := range in.Blobs() {
		change(name, ed.RenameBlob, ed.RemoveBlob)
	}
	for _, k := range c.keys {
		var err error
		if v := c.attributes[k]; v == nil {
			err = ed.RemoveAttribute(k)
		} else if err = ed.SetAttribute(k, *v); errors.Is(err, tensor.ErrDType) {
			err = wrong("tensorfile info --types, which shows old values, or KEY:TYPE=VALUE",
				"--set %s: %w", escape(k), err)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// adviseExternal notes renamed external tensors: they must be renamed in the .ptd too.
func (a *app) adviseExternal(in *input, c *changes) {
	r, ok := in.Sys().(*pte.Reader)
	if !ok {
		return
	}
	for e := range r.Entries() {
		if to := c.names[e.Name]; to != nil && e.Role.External() {
			a.note("%s: the program now looks for %s in its .ptd: rename %s there too",
				display(in.name), quote(*to), quote(e.Name))
		}
	}
}
