package digest

import (
	"regexp"
	"testing"
)

func TestDigestsAreWords(t *testing.T) {
	form := regexp.MustCompile(`^[0-9a-z]+:[0-9a-f]+$`)
	for c := range 256 {
		for _, text := range []string{"?:0", "a?:0", "?a:0", "a:?", "a:0?", "a:?0", "a?", "?"} {
			b := []byte(text)
			for i := range b {
				if b[i] == '?' {
					b[i] = byte(c)
				}
			}
			if want := form.Match(b); IsWellFormed(b) != want {
				t.Errorf("%q: not %v", b, want)
			}
		}
	}
}
