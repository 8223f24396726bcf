package tensor

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestFormatErrorNamesFormatFieldAndOffset(t *testing.T) {
	inner := fmt.Errorf("%w: 9 bytes exceed the file", ErrMalformed)
	for _, c := range []struct {
		e    FormatError
		want string
	}{
		{FormatError{"ptd", 0x1c8, "segments[3].size", inner}, "ptd: segments[3].size at byte 0x1c8: malformed: 9 bytes exceed the file"},
		{FormatError{"ptd", -1, "segments[3].size", inner}, "ptd: segments[3].size: malformed: 9 bytes exceed the file"},
		{FormatError{"zt", 0, "", inner}, "zt: at byte 0x0: malformed: 9 bytes exceed the file"},
		{FormatError{"zt", -1, "", inner}, "zt: malformed: 9 bytes exceed the file"},
	} {
		if got := c.e.Error(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
		if !errors.Is(&c.e, ErrMalformed) {
			t.Error("the class is hidden")
		}
	}
}

func TestClassOf(t *testing.T) {
	for err, want := range map[error]Class{
		ErrMalformed: ClassMalformed, ErrChecksum: ClassChecksum, ErrLimit: ClassLimit, errors.ErrUnsupported: ClassUnsupported,
		io.ErrUnexpectedEOF: ClassTruncated, fs.ErrClosed: ClassIO, ErrNoTensor: ClassMalformed, ErrDuplicate: ClassMalformed, ErrDType: ClassUnsupported,
	} {
		if got := ClassOf(&FormatError{"x", -1, "", fmt.Errorf("a: %w", err)}); got != want {
			t.Errorf("ClassOf(%v) = %v, want %v", err, got, want)
		}
	}
}

func TestQuoteCannotReachATerminal(t *testing.T) {
	for _, s := range []string{"\x1b[2J", "a\nb", "\xff", "\u202egpj.exe", strings.Repeat("é", 100), strings.Repeat("\x80", 200)} {
		q := Quote(s)
		if strings.ContainsAny(q, "\x1b\n\u202e") || !utf8.ValidString(q) || len(q) > 400 {
			t.Errorf("Quote(%q) = %s", s, q)
		}
	}
	if q := Quote(strings.Repeat("é", 100)); !strings.HasSuffix(q, `é"… (200 bytes)`) {
		t.Error(q)
	}
	if Quote("w") != `"w"` {
		t.Error("a plain name is changed")
	}
}

func TestFindings(t *testing.T) {
	var reported []Finding
	l := NewFindingList(&VerifyOptions{Report: func(f Finding) { reported = append(reported, f) }})
	l.Error(nil)
	l.Warn(&FormatError{"zt", 8, "padding", ErrMalformed})
	if l.Err() != nil || len(l.All()) != 1 {
		t.Fatal("a warning alone is no error")
	}
	first := &FormatError{"zt", 64, "w", ErrChecksum}
	l.Error(fmt.Errorf("while verifying: %w", first))
	l.Error(&FormatError{"zt", -1, "v", fmt.Errorf("%w: too many", ErrLimit)})
	err := l.Err()
	if !errors.Is(err, ErrChecksum) || !errors.Is(err, ErrLimit) || errors.Is(err, ErrMalformed) {
		t.Errorf("%v does not show its classes", err)
	}
	if !strings.Contains(err.Error(), "checksum") || !strings.Contains(err.Error(), "1 more") {
		t.Errorf("%q", err)
	}
	got := Findings(fmt.Errorf("file: %w", err))
	if len(got) != 3 || !slices.Equal(got, reported) {
		t.Fatalf("%v, reported %v", got, reported)
	}
	w := got[0]
	if w.Severity != SeverityWarning || w.Class != ClassWarning || w.Offset != 8 || w.Field != "padding" || w.Severity.String() != "warning" {
		t.Errorf("%+v", w)
	}
	if c := got[1]; c.Severity != SeverityError || c.Class != ClassChecksum || c.Offset != 64 || c.Field != "w" {
		t.Errorf("%+v", c)
	}

	outer := NewFindingList(nil)
	outer.Error(err) // a file inside a file
	if len(outer.All()) != 3 || outer.All()[0].Severity != SeverityWarning || outer.Err() == nil {
		t.Errorf("%v", outer.All())
	}
	strict := NewFindingList(&VerifyOptions{Strict: true})
	strict.Warn(ErrMalformed)
	if !errors.Is(strict.Err(), ErrMalformed) {
		t.Error("Strict makes warnings errors")
	}
	if len(Findings(nil)) != 0 || Findings(io.ErrUnexpectedEOF)[0].Class != ClassTruncated {
		t.Error("Findings of plain errors")
	}
}

func TestFindingsAreBounded(t *testing.T) {
	l := NewFindingList(nil)
	for range maxFindings {
		l.Error(ErrMalformed)
	}
	if l.Full() {
		t.Fatal("full too early")
	}
	for range 10 {
		l.Error(ErrMalformed)
	}
	if !l.Full() || len(l.All()) != maxFindings+1 || l.All()[maxFindings].Class != ClassLimit {
		t.Fatalf("%d findings", len(l.All()))
	}
}

// Warnings are no damage in whatever number, and the error after them is still told.
func TestWarningsAreBoundedByThemselves(t *testing.T) {
	l := NewFindingList(nil)
	for range 2 * maxFindings {
		l.Warn(ErrMalformed)
	}
	if l.Full() || l.Err() != nil || len(l.All()) != maxFindings+1 || l.All()[maxFindings].Class != ClassWarning {
		t.Fatalf("%d findings, %v", len(l.All()), l.Err())
	}
	l.Error(ErrChecksum)
	if !errors.Is(l.Err(), ErrChecksum) {
		t.Error(l.Err())
	}
	strict := NewFindingList(&VerifyOptions{Strict: true})
	for range 2 * maxFindings {
		strict.Warn(ErrMalformed)
	}
	if !strict.Full() || !errors.Is(strict.Err(), ErrLimit) {
		t.Error(strict.Err())
	}
}

func TestLimits(t *testing.T) {
	if (Limits{}).WithDefaults().MaxMetadata != 1<<30 || (Limits{MaxTensors: 5}).WithDefaults().MaxTensors != 5 {
		t.Error("defaults")
	}
	if (Limits{}).Check() != nil || (Limits{MaxRank: -1}).Check() == nil {
		t.Error("Check")
	}
}
