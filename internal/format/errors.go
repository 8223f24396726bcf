package format

import (
	"fmt"
	"io"
	"path"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// Errors makes the errors of a format. It is the name of the format, which begins each
// error.
type Errors string

// At returns a *tensor.FormatError at a byte offset of the file, -1 for none, about a
// field in the format's own words. errors.Is finds the class in it.
func (f Errors) At(off int64, field string, class error, text string, args ...any) error {
	return &tensor.FormatError{Format: string(f), Offset: off, Field: field,
		Err: fmt.Errorf("%w: "+text, append([]any{class}, args...)...)}
}

// Malformed is At for a file that breaks a rule of its format.
func (f Errors) Malformed(off int64, field, text string, args ...any) error {
	return f.At(off, field, tensor.ErrMalformed, text, args...)
}

// New returns an error that has neither an offset nor a field.
func (f Errors) New(class error, text string, args ...any) error {
	return f.At(-1, "", class, text, args...)
}

// Tensor returns an error about the tensor of that name.
func (f Errors) Tensor(name string, class error, text string, args ...any) error {
	return f.At(-1, Field(name), class, text, args...)
}

// Field returns the field of the tensor of that name in errors.
func Field(name string) string { return "tensors[" + naming.Quote(name) + "]" }

// Truncated is At for a file that ends too early.
func (f Errors) Truncated(off int64, field, text string, args ...any) error {
	return f.At(off, field, io.ErrUnexpectedEOF, text, args...)
}

// Limit is At for a file that exceeds a limit of the reader.
func (f Errors) Limit(off int64, field, text string, args ...any) error {
	return f.At(off, field, tensor.ErrLimit, text, args...)
}

// Wrap adds an offset and a field to an error that has its class already. nil stays nil.
func (f Errors) Wrap(off int64, field string, err error) error {
	if err == nil {
		return nil
	}
	return &tensor.FormatError{Format: string(f), Offset: off, Field: field, Err: err}
}

// InFile returns an error about another file than the one that was opened. The name is
// relative to the directory of the opened file. nil stays nil.
func (f Errors) InFile(file string, err error) error {
	if err == nil {
		return nil
	}
	fe, ok := err.(*tensor.FormatError)
	if !ok {
		return &tensor.FormatError{Format: string(f), File: file, Offset: -1, Err: err}
	}
	moved := *fe
	if moved.File = file; fe.File != "" {
		moved.File = path.Join(path.Dir(file), fe.File)
	}
	return &moved
}
