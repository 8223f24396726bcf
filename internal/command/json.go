package command

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

// A nameField is a name from a file; one that is not UTF-8 has its bytes next to it.
type nameField struct {
	Name    string `json:"name"`
	NameHex string `json:"name_hex,omitempty"`
}

func nameOf(name string) nameField {
	if utf8.ValidString(name) {
		return nameField{Name: name}
	}
	return nameField{name, hex.EncodeToString([]byte(name))}
}

// marshal is json.Marshal with & as it is.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// printJSON writes a struct that is the whole output, or a line of it.
func (a *app) printJSON(d any) error { return a.writeJSON(a.out, d) }

func (a *app) writeJSON(w io.Writer, d any) error {
	text, err := marshal(d)
	if err != nil {
		return err
	}
	_, err = w.Write(append(appendJSON(nil, text, a.indent(0)), '\n'))
	return err
}

// oneLine in place of an indent leaves JSON on one line.
const oneLine = -1

func (a *app) indent(n int) int {
	if a.jsonLines {
		return oneLine
	}
	return n
}

// appendJSON writes JSON with a space after each comma and colon and, unless indent is
// oneLine, each field of the outer object on a line of its own, and so each element of
// a field that is a list of objects. Strings become safe on a terminal and in a web
// page.
func appendJSON(b, text []byte, indent int) []byte {
	var broken [2]bool // the outer object, and the list in it, are on lines of their own
	depth := 0
	isBroken := func() bool { return 0 < depth && depth <= len(broken) && broken[depth-1] }
	newLine := func() {
		b = appendSpaces(append(b, '\n'), indent+2*depth)
	}
	for i := 0; i < len(text); {
		c := text[i]
		i++
		switch c {
		case '"':
			n := stringEnd(text[i:])
			b = appendSafe(append(b, c), text[i:i+n])
			i += n
			continue
		case '{', '[':
			if depth < len(broken) {
				isList := depth == 1 && c == '[' && text[i] == '{'
				broken[depth] = indent >= 0 && (isList || depth == 0 && text[i] != '}')
			}
			b = append(b, c)
			if depth++; isBroken() {
				newLine()
			}
		case '}', ']':
			wasBroken := isBroken()
			if depth--; wasBroken {
				newLine()
			}
			b = append(b, c)
		case ',':
			if b = append(b, c); isBroken() {
				newLine()
			} else {
				b = append(b, ' ')
			}
		case ':':
			b = append(b, c, ' ')
		default:
			b = append(b, c)
		}
	}
	return b
}

// stringEnd returns where the string ends that text begins within, after its quote.
func stringEnd(text []byte) int {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

// appendSafe writes a string of JSON: what is not printable, < and > become escapes.
func appendSafe(b, text []byte) []byte {
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRune(text[i:])
			if printable(r) {
				b = append(b, text[i:i+n]...)
			} else {
				b = appendRune(b, r)
			}
			i += n
			continue
		case c == '<' || c == '>' || c == 0x7f:
			b = appendRune(b, rune(c))
		default:
			b = append(b, c)
		}
		i++
	}
	return b
}

// appendRune writes a character as one escape, or two beyond U+FFFF.
func appendRune(b []byte, r rune) []byte {
	for _, unit := range utf16.AppendRune(nil, r) {
		b = fmt.Appendf(b, `\u%04x`, unit)
	}
	return b
}
