package command

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A printer is standard output. Its Write is for text, and escapes what a terminal would
// not print. Its embedded Writer is for output of bytes.
type printer struct {
	*bufio.Writer
	colour bool // style sequences pass
}

// screen is standard output. If it is a terminal that shows a bar, Write removes the bar
// first.
type screen struct {
	p *invocation
	w io.Writer
}

func (s *screen) Write(p []byte) (n int, err error) {
	s.p.answered = true
	s.p.withoutBar(func() { n, err = s.w.Write(p) })
	return n, err
}

// Write writes text. A call must not end within a character.
func (p *printer) Write(text []byte) (int, error) {
	for rest := text; len(rest) > 0; {
		n := max(plainPrefix(rest), p.styled(rest))
		shown := rest[:n]
		if n == 0 {
			_, n = utf8.DecodeRune(rest)
			shown = appendEscape(nil, rest[:n])
		}
		if _, err := p.Writer.Write(shown); err != nil {
			return 0, err
		}
		rest = rest[n:]
	}
	return len(text), nil
}

// WriteString writes text.
func (p *printer) WriteString(s string) (int, error) { return p.Write([]byte(s)) }

// styled returns the length of a style sequence that text begins with, 0 for none.
func (p *printer) styled(text []byte) int {
	if p.colour && text[0] == 0x1b {
		for _, s := range []string{styleNone, styleHead, styleError, styleWarning} {
			if bytes.HasPrefix(text, []byte(s)) {
				return len(s)
			}
		}
	}
	return 0
}

// plainPrefix returns how many bytes at the start of text are printable characters,
// line ends and tabs.
func plainPrefix(text []byte) int {
	for i := 0; i < len(text); {
		if c := text[i]; c < utf8.RuneSelf {
			if c < ' ' && c != '\n' && c != '\t' || c == 0x7f {
				return i
			}
			i++
			continue
		}
		r, n := utf8.DecodeRune(text[i:])
		if !printable(r) {
			return i
		}
		i += n
	}
	return len(text)
}

// appendEscape appends one character as Go writes it in a string, without quotes.
func appendEscape(b, char []byte) []byte {
	quoted := strconv.AppendQuote(nil, string(char))
	return append(b, quoted[1:len(quoted)-1]...)
}

func printable(r rune) bool { return r != utf8.RuneError && unicode.IsPrint(r) }

func quote(s string) string { return strconv.Quote(s) }

// visible returns text as one line, with escapes for what a terminal would not print.
func visible(text string) string {
	var b []byte
	for rest := []byte(text); len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		if printable(r) {
			b = append(b, rest[:n]...)
		} else {
			b = appendEscape(b, rest[:n])
		}
		rest = rest[n:]
	}
	return string(b)
}

// message writes lines to standard error that fit its terminal. Arguments are made
// visible, so line ends come only from format. No line is broken within the name of a
// file or a quoted name, so that it can be copied.
func (a *invocation) message(format string, args ...any) {
	shown := make([]any, len(args))
	for i, v := range args {
		switch v := v.(type) {
		case shownName:
			shown[i] = v.word()
		case string:
			shown[i] = visible(v)
		case error:
			shown[i] = visible(describe(v))
		case fmt.Stringer:
			shown[i] = visible(v.String())
		default:
			shown[i] = v
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.out.Flush() // so that both streams are in order
	lines := strings.Split(fmt.Sprintf("tensorfile: "+format, shown...), "\n")
	for i, line := range lines {
		lines[i] = fill(line, a.widthOf(a.stderr), "  ")
	}
	a.withoutBar(func() { fmt.Fprintln(a.stderr, strings.Join(lines, "\n")) })
}

// note is a message that --quiet leaves out.
func (a *invocation) note(format string, args ...any) {
	if !a.quiet {
		a.message(format, args...)
	}
}

// describe returns the text of an error on one line. It leaves out the name of the file
// in an fs.PathError: the message has it.
func describe(err error) string {
	if known, ok := err.(advised); ok {
		return describe(known.error)
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		var texts, lines []string
		for _, e := range many.Unwrap() {
			texts, lines = append(texts, describe(e)), append(lines, e.Error())
		}
		if err.Error() == strings.Join(lines, "\n") { // errors.Join
			return strings.Join(texts, "; ")
		}
	}
	var pe *fs.PathError
	if errors.As(err, &pe) && err == error(pe) {
		return pe.Err.Error()
	}
	return err.Error()
}

// A shownName is the name of a file as a terminal shows it.
type shownName string

// unbroken stands for a space at which fill does not break a line. No text has it.
const unbroken = "\x00"

// word returns the name for a text that fill does not break within the name.
func (n shownName) word() string { return strings.ReplaceAll(string(n), " ", unbroken) }

// display returns the name of a file for a terminal.
func display(name string) shownName {
	if name == "-" {
		return "standard input"
	}
	return shownName(escape(name))
}

// escape returns a name unchanged if a terminal prints it safely, else quoted.
func escape(name string) string {
	if isPrintable(name) {
		return name
	}
	return quote(name)
}

func appendEscaped(b []byte, name string) []byte {
	if isPrintable(name) {
		return append(b, name...)
	}
	return strconv.AppendQuote(b, name)
}

func isPrintable(name string) bool {
	if name == "" || name[0] == '"' || name[0] == ' ' || name[len(name)-1] == ' ' {
		return false
	}
	for i := 0; i < len(name); i++ {
		if c := name[i]; c >= utf8.RuneSelf {
			return !strings.ContainsFunc(name[i:], func(r rune) bool { return !printable(r) })
		} else if c < ' ' || c == 0x7f {
			return false
		}
	}
	return true
}
