package tensor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Severity is how serious a finding is: damage, a deviation that does not prevent
// reading, or a note on something that is allowed.
type Severity uint8

// The severities.
const (
	SeverityError Severity = iota
	SeverityWarning
	SeverityNote
)

// String returns "error", "warning" or "note".
func (s Severity) String() string {
	switch s {
	case SeverityWarning:
		return "warning"
	case SeverityNote:
		return "note"
	}
	return "error"
}

// MarshalText returns the word of String.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// A Finding is one entry of a Report: an error or a warning.
type Finding struct {
	Severity Severity
	Class    Class  // ClassWarning for warnings, ClassNote for notes
	Code     string // what kind of finding it is, a code of docs/check.md; "" for most
	File     string // which of several files, as FormatError.File; "" for the verified one
	Offset   int64  // -1 when there is none
	Field    string // in the format's own words
	Err      error
}

// Codes of findings that several packages return. Package model has the other codes.
const (
	CodeRunsCode     = "runs-code"     // loading the file in Python calls a function
	CodeUnknownClass = "unknown-class" // an object of a class that is not known
	CodeUnlistedData = "unlisted-data" // bytes of elements that no listed tensor refers to
	// what is wrong with files that have elements of tensors
	CodeMissingShard    = "missing-shard"
	CodeUnsafePath      = "unsafe-path"
	CodeTruncated       = "truncated"
	CodeOverlappingData = "overlapping-data"
	// what is wrong with tensors that a program has in another file
	CodeMissingWeights  = "missing-weights"
	CodeWeightsMismatch = "weights-mismatch"
)

// FindingOf returns err as a finding of SeverityError. A *FormatError in it gives
// the code, the file, the offset and the field.
func FindingOf(err error) Finding {
	f := Finding{Severity: SeverityError, Class: ClassOf(err), Offset: -1, Err: err}
	var fe *FormatError
	if errors.As(err, &fe) {
		f.Code, f.File, f.Offset, f.Field = fe.Code, fe.File, fe.Offset, fe.Field
	}
	return f
}

// String returns the severity and the message.
func (f Finding) String() string { return f.Severity.String() + ": " + f.Err.Error() }

// MarshalJSON writes an object of severity, class, message and, where they are
// known, code, file, offset and field.
func (f Finding) MarshalJSON() ([]byte, error) {
	o := struct {
		Severity Severity `json:"severity"`
		Class    Class    `json:"class"`
		Code     string   `json:"code,omitempty"`
		File     string   `json:"file,omitempty"`
		Offset   *int64   `json:"offset,omitempty"`
		Field    string   `json:"field,omitempty"`
		Message  string   `json:"message"`
	}{f.Severity, f.Class, f.Code, f.File, nil, f.Field, f.Err.Error()}
	if f.Offset >= 0 {
		o.Offset = &f.Offset
	}
	return json.Marshal(o)
}

// A Report is the result of a Verify, which returns one with each error as well. If
// Verify stopped early, the last finding is why. A Report lists at most 10,000 errors and
// as many warnings; one more finding of either kind says that there were more.
type Report struct {
	Findings []Finding `json:"findings"` // in the order in which they were made
}

// Err returns nil when there are only warnings, else an error that wraps the errors of
// all findings of SeverityError.
func (r *Report) Err() error {
	var errs []error
	for _, f := range r.Findings {
		if f.Severity == SeverityError {
			errs = append(errs, f.Err)
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return &damageError{errs}
}

// A damageError is the errors of a Report, at least one.
type damageError struct{ errs []error }

func (e *damageError) Error() string {
	if n := len(e.errs) - 1; n > 0 {
		return fmt.Sprintf("%v (and %d more findings)", e.errs[0], n)
	}
	return e.errs[0].Error()
}

func (e *damageError) Unwrap() []error { return e.errs }

// Depth says how much Verify checks. Depths are ordered, and each includes the lower
// ones; the zero value is VerifyDigests.
type Depth int8

const (
	VerifyStructure Depth = iota - 1 // metadata, ranges, padding: no payload is decoded
	VerifyDigests                    // also every digest and every encoded payload
	VerifyCanonical                  // also that a canonical writer would have written the same
)

// VerifyOptions control a Reader's Verify. nil is the zero value.
type VerifyOptions struct {
	// Strict makes warnings errors.
	Strict bool
	// Depth says how much is checked; zero is VerifyDigests.
	Depth Depth
	// Companion opens a file that the verified file refers to by name. nil means the
	// Companion that the Reader was opened with.
	Companion func(name string) (io.ReaderAt, int64, error)
	// External finds a tensor that the file expects in another file, such as the
	// weights of a .pte in a .ptd. nil: such tensors are not checked.
	External func(name string) *Tensor
	// Progress, if not nil, is called now and then with the bytes checked so far
	// and in all, from the goroutine that called Verify. Its last call, if there is one
	// and everything could be read, has done = total.
	Progress func(done, total int64)
}
