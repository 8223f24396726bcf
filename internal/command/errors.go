package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/convert"
	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/model"
	"github.com/tensorfile/tensorfile/tensor"
)

// A wrongUse is wrong usage of which more is known than cobra says.
type wrongUse struct {
	error
	try string
}

func wrong(try, format string, args ...any) error {
	return wrongUse{fmt.Errorf(format, args...), try}
}

// An advised error is one of which is known what to try, whatever its class.
type advised struct {
	error
	try string
}

func (e advised) Unwrap() error { return e.error }

func advise(try string, err error) error { return advised{err, try} }

// A fileError is an error of a command about a file.
type fileError struct {
	name string
	err  error
}

func (e *fileError) Error() string { return e.name + ": " + e.err.Error() }
func (e *fileError) Unwrap() error { return e.err }

// onFile gives an error the name of its file; nil stays nil.
func onFile(name string, err error) error {
	if err == nil || errors.As(err, new(*fileError)) {
		return err
	}
	return &fileError{name, err}
}

// finish turns the error of a command into text and exit status.
func (a *app) finish(cmd *cobra.Command, err error) {
	var use wrongUse
	var of *fileError
	switch isFile := errors.As(err, &of); {
	case err == nil:
	case errors.As(err, &use) && isFile:
		a.message("%s: %v\n  try: %s", display(of.name), use.error, use.try)
		a.status = statusUsage
	case errors.As(err, &use):
		a.message("%v\n  try: %s", use.error, use.try)
		a.status = statusUsage
	case isFile:
		a.fail(of.name, of.err)
	case isInterrupt(err): // the status says so
	default: // of cobra
		a.message("%v\n  try: %s", err, cmd.CommandPath()+" --help")
		a.status = statusUsage
	}
}

// fail reports that a file could not be read, or written, and notes the exit
// status.
func (a *app) fail(name string, err error) {
	var w *atomicfile.Error
	if errors.As(err, &w) {
		name, err = w.Name, w.Err
	}
	a.status = worse(a.status, statusOf(err))
	if a.failed == nil {
		a.failed = errorOf(name, err)
	}
	if a.ctx.Err() != nil && errors.Is(err, a.ctx.Err()) {
		a.message("%s: interrupted", display(withoutSecrets(name)))
		return
	}
	h, text := hint(err), describe(err)
	if isAddress(name) { // which the message begins with
		text = strings.Replace(text, withoutSecrets(name)+": ", "", 1)
	}
	f := tensorfile.ByName(name)
	shown := display(withoutSecrets(name))
	switch {
	case w != nil && errors.Is(err, fs.ErrPermission):
		h = "check who may write there"
	case w != nil && errors.Is(err, fs.ErrNotExist):
		h = "check that the directory exists"
	case w != nil && h == "":
		h = "another name or directory"
	case isAddress(name):
		h = remoteHint(name, err)
	case f != 0 && errors.Is(err, tensorfile.ErrUnknownFormat) && !errors.As(err, new(advised)):
		// Where formats have no mark at their start, what is damaged looks like nothing
		// at all.
		h = fmt.Sprintf("--format %v, as the name has it, to hear what is wrong", f)
	}
	if h != "" {
		a.message("%s: %s\n  try: %s", shown, text, h)
		return
	}
	a.message("%s: %s", shown, text)
}

// with calls use with an open file, whose name errors get.
func (a *app) with(name string, use func(in *input) error) error {
	in, err := a.open(name)
	if err != nil {
		return onFile(name, err)
	}
	defer in.Close()
	return onFile(name, use(in))
}

func statusOf(err error) int {
	switch {
	case isInterrupt(err):
		return statusInterrupted
	case errors.Is(err, tensor.ErrLimit):
		return statusLimit
	}
	return statusUnreadable
}

// hint returns what to try.
func hint(err error) string {
	var pe *fs.PathError
	var le *convert.LossError
	var known advised
	switch {
	case errors.As(err, &known):
		return known.try
	case errors.As(err, &le):
		return "leaving out what cannot be kept"
	case errors.Is(err, model.ErrNoModel):
		return "tensorfile ls -r, which lists the files in it"
	case errors.Is(err, tensor.ErrNoTensor):
		return "tensorfile ls, which lists the names"
	case errors.Is(err, tensor.ErrUnfinished): // whose text says it
		return ""
	case errors.Is(err, fs.ErrExist):
		return "another name, or --force"
	case errors.Is(err, fs.ErrNotExist) && errors.As(err, new(*tensor.FormatError)):
		return "fetching that file too"
	case errors.Is(err, fs.ErrNotExist):
		return "check the name and the directory"
	case errors.Is(err, fs.ErrPermission):
		return "check who may read the file"
	case errors.Is(err, tensorfile.ErrUnknownFormat):
		return "--format FORMAT if you know what it is (tensorfile version lists the formats)"
	case errors.As(err, &pe), outside(err):
		return ""
	}
	switch tensor.ClassOf(err) {
	case tensor.ClassLimit:
		return "a larger --limit-… (tensorfile help limits lists them) if you trust the file"
	case tensor.ClassChecksum:
		return "fetching the file again: bytes have changed since it was written"
	case tensor.ClassTruncated:
		return "fetching the file again: it ends early"
	case tensor.ClassUnsupported:
		return "tensorfile version, which lists what this program reads and writes"
	}
	return "tensorfile verify, which lists everything that is wrong; fetching the file again"
}

// isInterrupt reports whether err only says that the user interrupted the command.
func isInterrupt(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// outside reports an error whose reason is not in a file, but in the system or the
// network.
func outside(err error) bool {
	return tensor.ClassOf(err) == tensor.ClassIO
}
