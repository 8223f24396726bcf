package cbor

import (
	"bytes"
	"testing"
	"unicode/utf8"
)

// Text of every length, with every kind of byte at every place of it, and others around.
func TestTextIsUTF8(t *testing.T) {
	for n := range 40 {
		for at := range n + 1 { // n: all of it is ASCII
			for _, other := range []string{"\xff", "\x80", "\xe9", "é", "€", "\x7f"} {
				s := bytes.Repeat([]byte("a"), n)
				copy(s[at:], other)
				whole := AppendText(nil, string(s))
				half := AppendText([]byte{Text<<5 | 31}, string(s[:at]))
				half = append(AppendText(half, string(s[at:])), 0xff)
				for _, b := range [][]byte{whole, half} {
					for _, before := range []int{0, 1, 7, 8, 50} {
						file := append(bytes.Repeat([]byte{0xff}, before), b...)
						c := Cursor{B: append(file, 0xff, 0xff), Pos: before, DepthLeft: 1}
						have := c.Text()
						if valid := utf8.Valid(s); valid != (c.Err == nil) ||
							valid && (!bytes.Equal(have, s) || c.Pos != len(file)) {
							t.Fatalf("%d bytes, %q at %d, after %d: %q, %v", n, other, at, before,
								have, c.Err)
						}
					}
				}
			}
		}
	}
}
