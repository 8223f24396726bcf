package naming

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestNameCannotReachATerminal(t *testing.T) {
	for _, s := range []string{"\x1b[2J", "a\nb", "\xff", "\u202egpj.exe",
		strings.Repeat("é", 100), strings.Repeat("\x80", 200)} {
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
