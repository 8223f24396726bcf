package torch

import (
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
)

// decimal parses the line of INT, where 00 and 01 are bools, or of LONG, which may end in
// L.
func (m *machine) decimal(line string) any {
	if m.in[m.at] == 'I' && (line == "00" || line == "01") {
		return line == "01"
	}
	text := strings.TrimSuffix(line, "L")
	v, err := strconv.ParseInt(text, 10, 64)
	if err == nil {
		return v
	}
	digits := strings.TrimPrefix(text, "-")
	if len(digits) > maxLong || strings.Trim(digits, "0123456789") != "" || digits == "" {
		m.fail("not an integer")
	}
	return bigInt(text)
}

// maxLong is the maximum number of bytes of an integer.
const maxLong = 4 << 10

// longOf decodes a little-endian integer in two's complement.
func longOf(b string) any {
	n := len(b)
	for n > 8 && (b[n-1] == 0 && b[n-2] < 0x80 || b[n-1] == 0xff && b[n-2] >= 0x80) {
		n--
	}
	var v uint64
	for i := min(n, 8) - 1; i >= 0; i-- {
		v = v<<8 | uint64(b[i])
	}
	switch {
	case n == 9 && b[8] == 0:
		return bigInt(strconv.FormatUint(v, 10))
	case n > 8:
		return bigInt(hexOf(b[:n]))
	case n > 0 && b[n-1] >= 0x80:
		v -= 1 << (8 * n) // 0 where n is 8
	}
	return int64(v)
}

// hexOf returns an integer of more than eight bytes in hexadecimal.
func hexOf(b string) string {
	digits, sign := []byte(b), ""
	if b[len(b)-1] >= 0x80 {
		sign = "-"
		negate(digits)
	}
	slices.Reverse(digits)
	return sign + "0x" + strings.TrimLeft(hex.EncodeToString(digits), "0")
}

// quoted parses a string of protocol 0, as Python 2's repr writes it.
func (m *machine) quoted(line string) string {
	if n := len(line); n < 2 || line[0] != line[n-1] || line[0] != '\'' && line[0] != '"' {
		m.fail("a string without quotes")
		return ""
	}
	return m.unescape(line[1:len(line)-1], `\'"nrtx`)
}

// escaped parses Unicode of protocol 0: bytes are Latin-1, other characters \u or \U.
func (m *machine) escaped(line string) string {
	utf8 := make([]rune, 0, len(line))
	for _, b := range []byte(line) {
		utf8 = append(utf8, rune(b))
	}
	return m.unescape(string(utf8), "uU")
}

// unescape replaces escape sequences: a backslash and one of the letters of known.
func (m *machine) unescape(s, known string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) || strings.IndexByte(known, s[i+1]) < 0 {
			b = append(b, s[i])
			continue
		}
		i++
		digits := 0
		switch c := s[i]; c {
		case 'n':
			b = append(b, '\n')
		case 'r':
			b = append(b, '\r')
		case 't':
			b = append(b, '\t')
		case 'x':
			digits = 2
		case 'u':
			digits = 4
		case 'U':
			digits = 8
		default:
			b = append(b, c)
		}
		if digits == 0 {
			continue
		}
		v, err := strconv.ParseUint(s[i+1:min(i+1+digits, len(s))], 16, 32)
		if err != nil {
			m.fail("an escape without its digits")
			return ""
		}
		if digits == 2 {
			b = append(b, byte(v))
		} else {
			b = append(b, string(rune(v))...)
		}
		i += digits
	}
	return string(b)
}
