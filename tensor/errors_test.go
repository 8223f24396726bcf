package tensor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"testing"
)

func TestFormatErrorNamesFormatFieldAndOffset(t *testing.T) {
	inner := fmt.Errorf("%w: 9 bytes exceed the file", ErrMalformed)
	for _, c := range []struct {
		e    FormatError
		want string
	}{
		{FormatError{Format: "ptd", Offset: 0x1c8, Field: "segments[3].size", Err: inner},
			"ptd: segments[3].size at byte 0x1c8: 9 bytes exceed the file"},
		{FormatError{Format: "ptd", Offset: -1, Field: "segments[3].size", Err: inner},
			"ptd: segments[3].size: 9 bytes exceed the file"},
		{FormatError{Format: "zt", Offset: 0, Err: inner},
			"zt: at byte 0x0: 9 bytes exceed the file"},
		{FormatError{Format: "zt", Offset: -1, Err: inner}, "zt: 9 bytes exceed the file"},
		{FormatError{Format: "zt", Offset: 8, Code: "odd-size", Err: inner},
			"zt: at byte 0x8: odd-size: 9 bytes exceed the file"},
	} {
		if got := c.e.Error(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
		if !errors.Is(&c.e, ErrMalformed) {
			t.Error("the class is hidden")
		}
	}
}

func TestClassOfKnowsWrappedErrors(t *testing.T) {
	for err, want := range map[error]Class{
		ErrMalformed: ClassMalformed, ErrChecksum: ClassChecksum, ErrLimit: ClassLimit,
		errors.ErrUnsupported: ClassUnsupported,
		io.ErrUnexpectedEOF:   ClassTruncated, fs.ErrClosed: ClassIO, ErrNoTensor: ClassMalformed,
		ErrDuplicate: ClassMalformed, ErrDType: ClassUnsupported,
		fmt.Errorf("%w: %w", ErrUnfinished, ErrChecksum):    ClassUnfinished,
		fmt.Errorf("%w: %w", ErrMalformed, ErrUnfinished):   ClassUnfinished,
		fmt.Errorf("%w: %w", fs.ErrNotExist, ErrUnfinished): ClassUnfinished,
	} {
		fe := &FormatError{Format: "x", Offset: -1, Err: fmt.Errorf("a: %w", err)}
		if got := ClassOf(fe); got != want {
			t.Errorf("ClassOf(%v) = %v, want %v", err, got, want)
		}
	}
}

func TestFindingOfKeepsOffsetAndField(t *testing.T) {
	first := &FormatError{Format: "zt", Offset: 64, Field: "w", Err: ErrChecksum}
	f := FindingOf(fmt.Errorf("while verifying: %w", first))
	if f.Severity != SeverityError || f.Class != ClassChecksum || f.Offset != 64 ||
		f.Field != "w" {
		t.Errorf("%+v", f)
	}
	if f := FindingOf(io.ErrUnexpectedEOF); f.Class != ClassTruncated || f.Offset != -1 {
		t.Errorf("%+v", f)
	}
}

func TestReportErrHasTheClassesOfItsErrors(t *testing.T) {
	warning := Finding{Severity: SeverityWarning, Class: ClassWarning, Offset: 8,
		Err: ErrMalformed}
	r := Report{Findings: []Finding{warning}}
	if err := r.Err(); err != nil {
		t.Errorf("a warning alone: %v", err)
	}
	r.Findings = append(r.Findings,
		FindingOf(&FormatError{Format: "zt", Offset: 64, Field: "w", Err: ErrChecksum}),
		FindingOf(&FormatError{Format: "zt", Offset: -1, Field: "v",
			Err: fmt.Errorf("%w: too many", ErrLimit)}))
	err := r.Err()
	if !errors.Is(err, ErrChecksum) || !errors.Is(err, ErrLimit) || errors.Is(err, ErrMalformed) {
		t.Errorf("%v does not show its classes", err)
	}
	var fe *FormatError
	if !errors.As(err, &fe) || fe.Offset != 64 {
		t.Errorf("%v has not the place of its first finding", err)
	}
	if want := "zt: w at byte 0x40: checksum mismatch (and 1 more findings)"; err.Error() != want {
		t.Errorf("the message is %q, not %q", err, want)
	}
}

func TestReportAsJSONHasAllFindings(t *testing.T) {
	r := Report{Findings: []Finding{
		{Severity: SeverityWarning, Class: ClassWarning, Offset: 0, Err: errors.New("odd")},
		FindingOf(&FormatError{Format: "zt", Offset: -1, Field: "w", Err: ErrChecksum}),
		FindingOf(&FormatError{Format: "zt", Offset: -1, Code: "odd-size", Err: ErrMalformed}),
	}}
	b, err := json.Marshal(r)
	want := `{"findings":[` +
		`{"severity":"warning","class":"warning","offset":0,"message":"odd"},` +
		`{"severity":"error","class":"checksum","field":"w",` +
		`"message":"zt: w: checksum mismatch"},` +
		`{"severity":"error","class":"malformed","code":"odd-size",` +
		`"message":"zt: odd-size: malformed"}]}`
	if string(b) != want || err != nil {
		t.Errorf("%s, %v", b, err)
	}
}

func TestDepthsAreOrdered(t *testing.T) {
	var o VerifyOptions
	if o.Depth != VerifyDigests || VerifyStructure >= VerifyDigests ||
		VerifyDigests >= VerifyCanonical {
		t.Error(VerifyStructure, VerifyDigests, VerifyCanonical)
	}
}
