package format

import (
	"errors"
	"fmt"
	"testing"
)

func TestWarningsAreBounded(t *testing.T) {
	w := Warnings{Format: "ptd"}
	for i := range maxWarnings + 10 {
		if full := w.Full(); full != (i > maxWarnings) {
			t.Fatalf("with %d warnings: full is %v", i, full)
		}
		if err := w.Add(fmt.Errorf("warning %d", i)); err != nil {
			t.Fatal(err)
		}
	}
	l := w.All()
	if len(l) != maxWarnings+1 || l[maxWarnings-1].Error() != "warning 999" ||
		l[maxWarnings].Error() != "ptd: more than 1000 warnings, the rest is not listed" {
		t.Errorf("%d warnings, the last %v", len(l), l[len(l)-2:])
	}
}

func TestStrictWarningsAreErrors(t *testing.T) {
	w := Warnings{Strict: true}
	err := errors.New("deviation")
	if got := w.Add(err); got != err || len(w.All()) > 0 {
		t.Errorf("%v, listed %v", got, w.All())
	}
}
