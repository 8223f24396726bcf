package command

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"
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
