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

// A nameField is a name from a file. If it is not UTF-8, NameHex has its bytes.
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

// marshal is json.Marshal without escapes of <, > and &.
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

// oneLine is the indent for JSON on one line.
const oneLine = -1

func (a *app) indent(n int) int {
	if a.jsonLines {
		return oneLine
	}
	return n
}

// appendJSON appends JSON with a space after each comma and colon. Unless indent is
// oneLine, each field of the outer object is on a line of its own, and so is each element
// of a field that is a list of objects. Strings are safe on a terminal and in a web page.
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

// stringEnd returns the position after the closing quote; text begins after the opening
// quote.
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

// appendSafe appends a JSON string. It escapes < and > and what is not printable.
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

// appendRune appends a character as one \u escape, or as two if it is above U+FFFF.
func appendRune(b []byte, r rune) []byte {
	for _, unit := range utf16.AppendRune(nil, r) {
		b = fmt.Appendf(b, `\u%04x`, unit)
	}
	return b
}
