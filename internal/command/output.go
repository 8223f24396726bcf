package command

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/pflag"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/remote"
)

// outputs are the flags of commands that write a file or a directory.
type outputs struct {
	name          string // of -o
	dryRun, force bool
}

func (o *outputs) flags(f *pflag.FlagSet, noun string) {
	f.StringVarP(&o.name, "output", "o", "", "write to `"+noun+"`, in place of the last argument")
	f.BoolVarP(&o.dryRun, "dry-run", "n", false, "check, and write nothing")
	f.BoolVar(&o.force, "force", false, "replace what exists")
}

// begin returns the names of the inputs, at least n, and the name of the output: -o or
// the last argument. It opens the files of --external.
func (a *app) begin(o *outputs, args []string, n int) (inputs []string, out string, err error) {
	if inputs, out = args, o.name; out == "" && len(args) > n {
		inputs, out = args[:len(args)-1], args[len(args)-1]
	}
	if out == "" || len(inputs) < n {
		return nil, "", errors.New("the name of the output is missing: the last argument, or -o")
	}
	if storeScheme(out) == "" {
		if out, err = onDisk(out); err != nil {
			return nil, "", err
		}
	}
	return inputs, out, a.openExternals()
}

// beginDirectory is begin for an output that is a directory on disk.
func (a *app) beginDirectory(o *outputs, args []string) (input, out string, err error) {
	inputs, out, err := a.begin(o, args, 1)
	if err == nil {
		out, err = onDisk(out)
	}
	if err != nil {
		return "", "", err
	}
	return inputs[0], out, nil
}

// beginFile is begin for an output that is a file, which is checked to be writable.
func (a *app) beginFile(o *outputs, args []string, n int) (inputs []string, out string,
	err error) {
	if inputs, out, err = a.begin(o, args, n); err == nil {
		err = a.mayWrite(out, o)
	}
	return inputs, out, err
}

// mayWrite fails if a file exists and --force is not set, or if the output is a terminal.
func (a *app) mayWrite(name string, o *outputs) error {
	if name == "-" {
		if a.terminal && !o.dryRun {
			return errors.New("bytes are not for a terminal: write them to a file or a pipe")
		}
		return nil
	}
	if storeScheme(name) != "" {
		return a.mayCreate(name, o)
	}
	if _, err := os.Lstat(name); !o.force && !errors.Is(err, fs.ErrNotExist) {
		return onFile(name, &atomicfile.Error{Name: name, Err: cmp.Or(err, fs.ErrExist)})
	}
	return nil
}

// checkExtension fails if the extension of a name belongs to another format.
func checkExtension(name string, f tensorfile.Format) error {
	if by := tensorfile.ByName(name); name != "-" && by != 0 && by != f {
		return wrong("tensorfile convert, which changes the format",
			"the file stays %v, and %s has the extension of %v", f, quote(name), by)
	}
	return nil
}

// write writes a file, which appears whole or not at all, or standard output. about is
// the estimated size in bytes, for showing progress.
func (a *app) write(name string, o *outputs, about int64, write func(w io.Writer) error) error {
	if o.dryRun {
		return nil
	}
	t := &target{a: a, bar: a.bar(name, about)}
	defer t.bar.end()
	if name == "-" {
		a.answered = true
		if err := write(t); err != nil {
			return err
		}
		return a.out.Flush()
	}
	if err := a.mayWrite(name, o); err != nil {
		return err
	}
	f, err := a.create(name, o)
	if err != nil {
		return err
	}
	defer f.Abort()
	t.f = f
	if err := write(t); err != nil {
		return err
	}
	return f.Close()
}

// writeText writes a small file, or text to standard output.
func (a *app) writeText(name string, o *outputs, text []byte) error {
	if name == "-" && !o.dryRun {
		_, err := a.out.Write(text)
		return err
	}
	return a.write(name, o, 0, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// A target writes a file or standard output. It fails when the app's context ends.
type target struct {
	a   *app
	f   remote.ObjectWriter // an object or a file; nil for standard output
	bar *bar
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

// Reserve takes an estimate of the size of the file before it is written.
func (t *target) Reserve(bytes int64) {
	t.bar.set(0, bytes)
	if f, ok := t.f.(*atomicfile.File); ok {
		f.Reserve(bytes)
	}
}

// A writtenDocument is printed by commands that write one file.
type writtenDocument struct {
	File    string `json:"file"`
	Output  string `json:"output"`
	Written bool   `json:"written"`
	Joined  int    `json:"joined,omitempty"` // shards that became one file
}

// wrote prints as JSON that a file was written.
func (a *app) wrote(d *writtenDocument) error {
	if a.json && d.Output != "-" {
		return a.printJSON(d)
	}
	return nil
}
