package naming

import (
	"strconv"
	"strings"
	"testing"
)

// Names of tensors become names of files.
func TestFileNamesAreSafeAndDistinct(t *testing.T) {
	var f Files
	seen := map[string]bool{}
	for _, name := range []string{
		"w", "W", "w~2", "../../etc/passwd", "/abs", `C:\x`, "", ".", "..", ".hidden", "CON",
		"con.txt", "nul", "COM1", "lpt9.x", "a b", "é", "e\u0301",
		"trailing.", "a\x00b", "\x1b[31m", strings.Repeat("x", 5000), strings.Repeat("x",
			5000), strings.Repeat("é", 5000), "aux.b", "CONIN$", "\xff",
		"-rf", "-", "--output=x",
	} {
		got := f.New(name, ".npy")
		low := strings.ToLower(got)
		switch {
		case seen[low]:
			t.Errorf("%q: %s is there already", name, got)
		case strings.ContainsAny(got, `/\: `+"\x00\x1b"), strings.HasPrefix(got,
			"."), strings.HasPrefix(got, "-"), strings.HasSuffix(got, "."), len(got) > 255:
			t.Errorf("%q: %s", name, got)
		case reserved(strings.ToUpper(strings.SplitN(got, ".", 2)[0])):
			t.Errorf("%q: %s is a device", name, got)
		}
		seen[low] = true
	}
}

// Files that are equal as far as a file name goes cost no more than others.
func TestFileNamesThatCollideCostNoMore(t *testing.T) {
	f := Files{}
	prefix := strings.Repeat("x", 300)
	for i := range 10_000 {
		f.New(prefix+strconv.Itoa(i), ".npy")
	}
	if f.tries > 30_000 {
		t.Errorf("%d names were tried for 10,000", f.tries)
	}
}

func TestFileNamesAreSafeOnWindows(t *testing.T) {
	for name, want := range map[string]string{`C:\models\x`: "C%3A%5Cmodels%5Cx", "con": "_con",
		"a:b": "a%3Ab"} {
		if got := SafeFile(name); got != want {
			t.Errorf("%s becomes %s", name, got)
		}
	}
}
