package tensor

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/tensorfile/tensorfile/internal/naming"
)

// The classes of errors, for errors.Is. In addition there are errors.ErrUnsupported
// (valid, but not implemented or not known here, or not held by a format), fs.ErrInvalid
// (a wrong argument), fs.ErrClosed, io.ErrUnexpectedEOF (the file ends early), and errors
// of the operating system or a server, which pass through wrapped.
var (
	ErrMalformed = errors.New("malformed")
	ErrChecksum  = errors.New("checksum mismatch")
	ErrLimit     = errors.New("limit exceeded")
	ErrDType     = error(dtypeError{})    // also errors.ErrUnsupported
	ErrOverflow  = errors.New("overflow") // a value becomes an infinity or NaN
	ErrNoView    = errors.New("no view without a copy")
	ErrNoTensor  = errors.New("no such tensor") // never fs.ErrNotExist: the file is there
	ErrDuplicate = errors.New("duplicate name") // also a new name that is taken
	// ErrUnfinished is the error of a set of files whose writer was killed while it
	// replaced the set, or is still replacing it: tensorfile.Clean finishes the set. It
	// is never fs.ErrNotExist.
	ErrUnfinished = errors.New("unfinished set of files")
)

type dtypeError struct{}

func (dtypeError) Error() string        { return "dtype mismatch" }
func (dtypeError) Is(target error) bool { return target == errors.ErrUnsupported }

// A FormatError says which format's rule a file breaks, and where.
type FormatError struct {
	Format string // "ptd", "pte", "rten", "ztensor", "primitiv", "safetensors", …
	// File is the file that has the error, if it is not the file that was opened, such as
	// a shard of an index. It is a name with slashes, relative to the directory of the
	// opened file. Otherwise it is "".
	File   string
	Offset int64  // from the start of the file; -1 when there is none
	Field  string // a path in the format's own words, such as segments[3].size
	Code   string // what kind of finding it is, a code of docs/check.md; "" for most
	Err    error  // wraps a class
}

func (e *FormatError) Error() string {
	s := e.Format + ": "
	if e.File != "" {
		s += naming.Quote(e.File) + ": "
	}
	if e.Field != "" {
		s += e.Field
	}
	if e.Offset >= 0 {
		if e.Field != "" {
			s += " "
		}
		s += "at byte 0x" + strconv.FormatInt(e.Offset, 16)
	}
	if e.Field != "" || e.Offset >= 0 {
		s += ": "
	}
	text := e.Err.Error()
	if errors.Is(e.Err, ErrMalformed) { // which the position says already
		text = strings.TrimPrefix(text, ErrMalformed.Error()+": ")
	}
	if e.Code != "" { // which says more than the class
		text = e.Code + ": " + strings.TrimPrefix(text, errors.ErrUnsupported.Error()+": ")
	}
	return s + text
}

func (e *FormatError) Unwrap() error { return e.Err }

// A Class is the word for a kind of error in reports and JSON.
type Class string

// The classes of docs/json.md.
const (
	ClassMalformed   Class = "malformed"
	ClassChecksum    Class = "checksum"
	ClassLimit       Class = "limit"
	ClassUnsupported Class = "unsupported"
	ClassTruncated   Class = "truncated"
	ClassWarning     Class = "warning"
	ClassNote        Class = "note"
	ClassUnfinished  Class = "unfinished" // of a set of files that is being replaced
	ClassIO          Class = "io"         // of the operating system or a server
)

// ClassOf returns the class of an error. An error that is not one of the errors of this
// package or of the list above comes from the system or a server: ClassIO.
func ClassOf(err error) Class {
	switch {
	case errors.Is(err, ErrUnfinished): // which explains what else is wrong
		return ClassUnfinished
	case errors.Is(err, ErrChecksum):
		return ClassChecksum
	case errors.Is(err, ErrLimit):
		return ClassLimit
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, ErrOverflow),
		errors.Is(err, ErrNoView):
		return ClassUnsupported
	case errors.Is(err, io.ErrUnexpectedEOF):
		return ClassTruncated
	case errors.Is(err, ErrMalformed), errors.Is(err, ErrNoTensor), errors.Is(err, ErrDuplicate):
		return ClassMalformed
	}
	return ClassIO
}

// errNil is of both classes: look-ups return nil for a tensor that is absent.
var errNil = fmt.Errorf("%w: a nil *Tensor: %w", fs.ErrInvalid, ErrNoTensor)

// An invalidTensor is the error of a description that makes no sense, of both classes.
type invalidTensor struct{ text string }

func invalid(text string, args ...any) error {
	return &invalidTensor{fmt.Sprintf(text, args...)}
}

func (e *invalidTensor) Error() string { return ErrMalformed.Error() + ": " + e.text }

// Is is for errors.Is.
func (e *invalidTensor) Is(target error) bool {
	return target == ErrMalformed || target == fs.ErrInvalid
}
