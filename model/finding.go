package model

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"sort"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// A Finding is one thing that is wrong with a directory.
type Finding struct {
	Severity tensor.Severity
	Code     Code
	File     string // relative to the directory, with slashes; "" for the directory itself
	Tensor   string // "" if it is not about one tensor
	Offset   int64  // in the file; -1 if there is none
	Field    string // of the file, in its format's words
	Tensors  int64  // number of tensors in the index, of a file that is missing or damaged
	Count    int64  // of NaNs or infinities
	Err      error  // wraps a class of package tensor
}

// String returns the severity, the file, the tensor, the code and the message on one
// line.
func (f Finding) String() string {
	return f.Severity.String() + ": " + f.place() + string(f.Code) + ": " + f.Err.Error()
}

// place names the file and the tensor, each with a colon after it.
func (f Finding) place() (s string) {
	for _, name := range []string{f.File, f.Tensor} {
		if name != "" {
			s += naming.Quote(name) + ": "
		}
	}
	return s
}

// Class returns the class of the error, tensor.ClassWarning and tensor.ClassNote for
// warnings and notes.
func (f Finding) Class() tensor.Class {
	switch f.Severity {
	case tensor.SeverityWarning:
		return tensor.ClassWarning
	case tensor.SeverityNote:
		return tensor.ClassNote
	}
	return tensor.ClassOf(f.Err)
}

// MarshalJSON writes the fields of docs/json.md, without those that are empty.
func (f Finding) MarshalJSON() ([]byte, error) {
	o := struct {
		Severity string       `json:"severity"`
		Code     Code         `json:"code"`
		Class    tensor.Class `json:"class"`
		File     string       `json:"file,omitempty"`
		Tensor   string       `json:"tensor,omitempty"`
		Offset   *int64       `json:"offset,omitempty"`
		Field    string       `json:"field,omitempty"`
		Tensors  int64        `json:"tensors,omitempty"`
		Count    int64        `json:"count,omitempty"`
		Message  string       `json:"message"`
	}{f.Severity.String(), f.Code, f.Class(), f.File, f.Tensor, nil, f.Field, f.Tensors, f.Count,
		f.Err.Error()}
	if f.Offset >= 0 {
		o.Offset = &f.Offset
	}
	return json.Marshal(o)
}

// finding returns a Finding with the severity and class of its code.
func finding(code Code, file, name, format string, args ...any) Finding {
	severity, class := code.properties()
	return Finding{Severity: severity, Code: code, File: file, Tensor: name, Offset: -1,
		Err: &classed{fmt.Sprintf(format, args...), class}}
}

// findingOf returns a Finding with an error, which keeps its class.
func findingOf(code Code, file string, err error) Finding {
	severity, _ := code.properties()
	f := Finding{Severity: severity, Code: code, File: file, Offset: -1, Err: err}
	var fe *tensor.FormatError
	if !errors.As(err, &fe) {
		return f
	}
	f.Offset, f.Field = fe.Offset, fe.Field
	if fe.File != "" { // a shard of the file
		f.File = path.Join(path.Dir(file), fe.File)
		if e, ok := err.(*tensor.FormatError); ok {
			unnamed := *e
			unnamed.File, f.Err = "", &unnamed
		}
	}
	return f
}

// A classed error has a text without the class, which errors.Is finds.
type classed struct {
	text  string
	class error
}

func (e *classed) Error() string { return e.text }
func (e *classed) Unwrap() error { return e.class }

// maxFindings is how many errors, and how many warnings, a report lists at most: a
// hostile directory could have any number.
const maxFindings = 10_000

// findings collects findings, up to maxFindings of each severity.
type findings struct {
	list []Finding
	n    [3]int // by Severity, with those that are not in the list
}

func (l *findings) add(all ...Finding) {
	for _, f := range all {
		if l.n[f.Severity]++; l.n[f.Severity] <= maxFindings {
			l.list = append(l.list, f)
		}
	}
}

// join adds the findings of another list.
func (l *findings) join(other *findings) {
	before := l.n
	l.add(other.list...)
	for i := range l.n {
		l.n[i] = before[i] + other.n[i]
	}
}

// sorted returns the findings by file, code and tensor. Its last findings say that more
// were left out, if there were.
func (l *findings) sorted() []Finding {
	all := append([]Finding{}, l.list...)
	sort.SliceStable(all, func(i, j int) bool {
		a, b := &all[i], &all[j]
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Code, b.Code),
			cmp.Compare(a.Tensor, b.Tensor)) < 0
	})
	for severity, n := range l.n {
		if n > maxFindings {
			f := finding(Limit, "", "", "more than %d findings: the rest is not listed",
				maxFindings)
			f.Severity = tensor.Severity(severity)
			all = append(all, f)
		}
	}
	return all
}
