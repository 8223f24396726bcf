package naming

import (
	"fmt"
	"strings"
)

// maxFileName is what every file system takes, less what an extension and a number
// need.
const maxFileName = 200

// Files gives names from a file names on disk: what is not a letter, a
// digit, a dot, a dash or an underscore becomes %XX, no name begins with a dot or
// a dash or is a device of Windows, and none equals another one on a file system that
// does not distinguish upper and lower case.
type Files struct {
	taken map[string]bool
	next  map[string]int // the number to try first for a name that was taken
	tries int
}

// New returns the file name for a tensor's or blob's name and an extension such as
// .npy.
func (f *Files) New(name, ext string) string {
	if f.taken == nil {
		f.taken, f.next = map[string]bool{}, map[string]int{}
	}
	base := SafeFile(name)
	out := base + ext
	first := strings.ToLower(out)
	for f.tries++; f.taken[strings.ToLower(out)]; f.tries++ {
		i := max(f.next[first], 2)
		f.next[first] = i + 1
		out = fmt.Sprintf("%s~%d%s", base, i, ext)
	}
	f.taken[strings.ToLower(out)] = true
	return out
}

// SafeFile returns a name as the name of a file on every system.
func SafeFile(name string) string {
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		ok := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' ||
			c == '_' ||
			c == '.' && i > 0
		if !ok {
			if b.Len()+3 > maxFileName {
				break
			}
			fmt.Fprintf(&b, "%%%02X", c)
			continue
		}
		if b.Len() == maxFileName {
			break
		}
		b.WriteByte(c)
	}
	s := b.String()
	// Windows takes CON.txt for CON, and drops dots at the end. Programs take a dash
	// for an option.
	stem, _, _ := strings.Cut(s, ".")
	if reserved(stem) || s == "" || s[0] == '-' {
		s = "_" + s
	}
	if strings.HasSuffix(s, ".") {
		s = s[:len(s)-1] + "%2E"
	}
	return s
}

// reserved reports whether Windows has a device of that name.
func reserved(stem string) bool {
	s := strings.ToUpper(stem)
	switch s {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$":
		return true
	}
	return len(s) == 4 && (strings.HasPrefix(s, "COM") || strings.HasPrefix(s, "LPT")) &&
		'0' <= s[3] && s[3] <= '9'
}
