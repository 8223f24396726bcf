package main

import (
	"fmt"
	"strings"
)

// maxFileName is what every file system takes, with room for an ending and a
// number.
const maxFileName = 200

// fileNames gives names from a file names on disk: what is not a letter, a
// digit, a dot, a dash or an underscore becomes %XX, no name begins with a dot
// or is a device of Windows, and none equals another one on a file system that
// does not tell upper from lower case.
type fileNames struct {
	taken map[string]bool
}

// name gives the file name for a tensor's or blob's name and an ending such as
// .npy.
func (f *fileNames) name(name, ext string) string {
	if f.taken == nil {
		f.taken = map[string]bool{}
	}
	base := safeName(name)
	out := base + ext
	for i := 2; f.taken[strings.ToLower(out)]; i++ {
		out = fmt.Sprintf("%s~%d%s", base, i, ext)
	}
	f.taken[strings.ToLower(out)] = true
	return out
}

func safeName(name string) string {
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		ok := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_' ||
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
	// Windows takes CON.txt for CON, and drops dots at the end.
	stem, _, _ := strings.Cut(s, ".")
	if reserved(stem) || s == "" {
		s = "_" + s
	}
	if strings.HasSuffix(s, ".") {
		s = s[:len(s)-1] + "%2E"
	}
	return s
}

// reserved tells the device names of Windows.
func reserved(stem string) bool {
	s := strings.ToUpper(stem)
	switch s {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$":
		return true
	}
	return len(s) == 4 && (strings.HasPrefix(s, "COM") || strings.HasPrefix(s, "LPT")) && '0' <= s[3] && s[3] <= '9'
}
