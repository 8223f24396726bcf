package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/pflag"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/internal/atomicfile"
)

// writing says that err is about writing name, where it is the input that one
// would think of.
func writing(name string, err error) error {
	if err == nil || errors.As(err, new(*atomicfile.Error)) {
		return err
	}
	return &atomicfile.Error{Name: name, Err: err}
}

// outputs are the flags of commands that write a file.
type outputs struct {
	name          string // of -o
	dryRun, force bool
}

func (o *outputs) outputFlags(f *pflag.FlagSet) {
	f.StringVarP(&o.name, "output", "o", "", "write to `FILE`, in place of OUT")
	f.BoolVarP(&o.dryRun, "dry-run", "n", false, "check, and write nothing")
	f.BoolVar(&o.force, "force", false, "replace OUT if it exists")
}

// split separates the name of the output, which -o has or which is last, from those of
// at least n inputs.
func (o *outputs) split(args []string, n int) (inputs []string, out string, err error) {
	if o.name == "" && len(args) > n {
		return args[:len(args)-1], args[len(args)-1], nil
	}
	if o.name == "" || len(args) < n {
		return nil, "", errors.New("the name of the output is missing: OUT or -o OUT")
	}
	return args, o.name, nil
}

// checkExtension refuses a name whose extension is that of another format, so that a file
// is what its name says.
func checkExtension(name string, f tensorfile.Format) error {
	if by := tensorfile.ByName(name); name != "-" && by != 0 && by != f {
		return wrong("tensorfile convert, which changes the format", "the file stays %v, and the extension of %s is that of %v", f, quote(name), by)
	}
	return nil
}

// makeDir makes a directory for what is written, and those above it.
func makeDir(name string) error { return writing(name, os.MkdirAll(name, 0o777)) }

// mayWrite refuses a target that exists, unless it may be replaced.
func mayWrite(name string, force bool) error {
	if force {
		return nil
	}
	_, err := os.Lstat(name)
	switch {
	case err == nil:
		return fmt.Errorf("%w; --force replaces it", fs.ErrExist)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return err
}

// mayWriteOut is mayWrite where - is standard output.
func mayWriteOut(name string, force bool) error {
	if name == "" || name == "-" {
		return nil
	}
	return writing(name, mayWrite(name, force))
}

// writeOut writes a whole small file, or to standard output where there is no
// name.
func (a *app) writeOut(name string, b []byte, force bool) error {
	if name == "" || name == "-" {
		_, err := a.out.Write(b)
		return err
	}
	if err := mayWriteOut(name, force); err != nil {
		return err
	}
	f, err := atomicfile.Create(name)
	if err != nil {
		return err
	}
	defer f.Abort()
	if _, err := f.Write(b); err != nil {
		return err
	}
	return f.Close()
}

// A writtenDocument is printed by commands that write one file.
type writtenDocument struct {
	File    string `json:"file"`
	Output  string `json:"output"`
	Written bool   `json:"written"`
}

// made says, for programs, that a file was written.
func (a *app) made(from, out string) {
	if a.json && out != "-" {
		a.printJSON(writtenDocument{from, out, true})
	}
}

// A target is a file that is being written, or standard output.
type target struct {
	a   *app
	f   *atomicfile.File
	bar *bar
}

// create begins a file of about that many bytes, which appears with commit,
// whole, or not at all.
func (a *app) create(name string, force bool, about int64) (*target, error) {
	if name == "-" {
		a.answered = true
		return &target{a: a, bar: a.bar(name, about)}, nil
	}
	if err := mayWrite(name, force); err != nil {
		return nil, writing(name, &fs.PathError{Op: "create", Path: name, Err: err})
	}
	f, err := atomicfile.Create(name)
	if err != nil {
		return nil, err
	}
	return &target{a, f, a.bar(name, about)}, nil
}

func (t *target) Write(p []byte) (int, error) {
	if err := t.a.ctx.Err(); err != nil {
		return 0, err
	}
	t.bar.add(int64(len(p)))
	if t.f == nil {
		return t.a.out.Writer.Write(p)
	}
	return t.f.Write(p)
}

func (t *target) commit() error {
	t.bar.done()
	if t.f == nil {
		return t.a.out.Flush()
	}
	return t.f.Close()
}

// abort drops what is not committed.
func (t *target) abort() {
	t.bar.done()
	if t.f != nil {
		t.f.Abort()
	}
}
