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

// A usageError is wrong usage, with what to try.
type usageError struct {
	error
	try string
}

// wrong returns an error of wrong usage, with what to try.
func wrong(try, format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...), try}
}

// An advised error says what to try.
type advised struct {
	error
	try string
}

func (e advised) Unwrap() error { return e.error }

func advise(try string, err error) error { return advised{err, try} }

// A fileError is an error about a file, with its name.
type fileError struct {
	name string
	err  error
}

func (e *fileError) Error() string { return e.name + ": " + e.err.Error() }
func (e *fileError) Unwrap() error { return e.err }

// onFile adds the name of its file to an error. It returns nil for nil.
func onFile(name string, err error) error {
	if err == nil || errors.As(err, new(*fileError)) {
		return err
	}
	return &fileError{name, err}
}

// finish prints the error of a command, and sets the exit status.
func (a *app) finish(cmd *cobra.Command, err error) {
	var use usageError
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
	case isInterrupt(err): // run returns its status
	default: // an error of cobra
		a.message("%v\n  try: %s", err, cmd.CommandPath()+" --help")
		a.status = statusUsage
	}
}

// fail prints why a file could not be read or written, and what to try, and sets the exit
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
	if isAddress(name) { // the message begins with the address
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
		// A damaged file of a format without a magic number is not detected.
		h = fmt.Sprintf("--format %v, as the extension says, to see what is wrong", f)
	}
	if h != "" {
		a.message("%s: %s\n  try: %s", shown, text, h)
		return
	}
	a.message("%s: %s", shown, text)
}

// with opens a file, calls use and closes the file. Errors get the name of the file.
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

// hint returns what to try after an error, "" if that is not known.
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
	case errors.Is(err, tensor.ErrUnfinished): // its text says what to try
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
	case errors.As(err, &pe), isSystemError(err):
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

// isInterrupt reports whether err is the end of the context: the user interrupted the
// command.
func isInterrupt(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// isSystemError reports whether the reason of an error is in the system or the network,
// not in the file.
func isSystemError(err error) bool {
	return tensor.ClassOf(err) == tensor.ClassIO
}
