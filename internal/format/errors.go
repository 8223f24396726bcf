package format

import (
	"fmt"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// Errors is the name of a format, which begins its errors.
type Errors string

// At returns an error at a byte offset of the file, -1 for none, about a field in the
// format's own words. The class is what errors.Is finds.
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
	return f.At(-1, "tensor "+naming.Quote(name), class, text, args...)
}

// Wrap adds the format to an error that has its class already. Nil stays nil.
func (f Errors) Wrap(field string, err error) error {
	if err == nil {
		return nil
	}
	return &tensor.FormatError{Format: string(f), Offset: -1, Field: field, Err: err}
}
