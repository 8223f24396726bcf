package command

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/schollz/progressbar/v3"
)

// Progress is shown of what takes a while, however many bytes it has.
func TestProgressIsShownAfterAWhile(t *testing.T) {
	var stderr bytes.Buffer
	a := newApp(t.Context(), nil, &stderr, &stderr, os.Getenv)
	if a.bar("x", 10) != nil {
		t.Error("a bar where standard error is no terminal")
	}
	a.bars = true
	b := a.bar("dir/model.zt", 4)
	b.begin = time.Now().Add(time.Hour)
	if b.add(2); stderr.Len() > 0 {
		t.Errorf("%q is shown at once", stderr.String())
	}
	b.begin = time.Now().Add(-time.Hour)
	b.tick() // though nothing was done since
	if text := stderr.String(); !strings.Contains(text, "\rmodel.zt ") {
		t.Errorf("%q", text)
	}
	b.set(5, 10)
	if b.add(15); b.total != 20 || b.p.GetMax64() != 20 {
		t.Errorf("%d in all", b.total)
	}
	b.end()
	stderr.Reset()
	b.tick()
	b.end()
	if stderr.Len() > 0 {
		t.Errorf("%q after the end", stderr.String())
	}
	if a.shown.Load() != nil {
		t.Error("the bar stays")
	}
}

// Progress stays on one line of the terminal, with the rate and the time left where they
// fit, whatever the name.
func TestProgressFitsTheTerminal(t *testing.T) {
	for width, want := range map[int]string{
		30: "mo…ensors  50% |█████     |", 60: "/s) [", 80: "/s) [", 120: "/s) [",
	} {
		var stderr bytes.Buffer
		a := newApp(t.Context(), nil, &stderr, &stderr, os.Getenv)
		p, _ := a.draw("models/model-00001-of-00001.safetensors", 4096, width)
		progressbar.OptionSetVisibility(true)(p)
		p.Set64(2048)
		drawn := false
		for frame := range strings.SplitSeq(stderr.String(), "\r") {
			drawn = drawn || strings.Contains(frame, " 50% |") && strings.Contains(frame, want)
			if n := columns([]byte(frame)); n > width {
				t.Errorf("%d columns of %d: %q", n, width, frame)
			}
		}
		if !drawn {
			t.Errorf("%d columns: no %q in %q", width, want, stderr.String())
		}
	}
}
