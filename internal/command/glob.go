package command

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// glob matches a whole name: * is any run of characters, dots and slashes
// included, ? one character, [a-z] one of a set, [^a-z] one outside of it, and \
// takes the next character as it is. It takes time proportional to the product of
// both lengths at most.
func glob(pattern, name string) (bool, error) {
	if err := checkGlob(pattern); err != nil {
		return false, err
	}
	// Where a * stands, try again one character later when the rest fails: only
	// the last * needs to be remembered.
	p, n, starP, starN := pattern, name, "", ""
	star := false
	for len(n) > 0 {
		if strings.HasPrefix(p, "*") {
			p = p[1:]
			starP, starN, star = p, n, true
			continue
		}
		if rest, ok := globOne(p, n); ok {
			_, w := utf8.DecodeRuneInString(n)
			p, n = rest, n[w:]
			continue
		}
		if !star {
			return false, nil
		}
		_, w := utf8.DecodeRuneInString(starN)
		starN = starN[w:]
		p, n = starP, starN
	}
	return strings.Trim(p, "*") == "", nil
}

// globOne matches the first character of name and returns the rest of the
// pattern.
func globOne(p, name string) (rest string, ok bool) {
	if p == "" {
		return "", false
	}
	r, w := utf8.DecodeRuneInString(name)
	switch p[0] {
	case '?':
		return p[1:], true
	case '[':
		end := setEnd(p)
		set := p[1:end]
		set, not := strings.CutPrefix(set, "^")
		in := false
		for set != "" {
			lo, n := utf8.DecodeRuneInString(set)
			set = set[n:]
			hi := lo
			if strings.HasPrefix(set, "-") && len(set) > 1 {
				hi, n = utf8.DecodeRuneInString(set[1:])
				set = set[1+n:]
			}
			in = in || lo <= r && r <= hi
		}
		return p[end+1:], in != not
	case '\\':
		p = p[1:]
	}
	return strings.CutPrefix(p, name[:w])
}

// setEnd is where the set that p begins with ends. A ] right at its start is one
// of the set.
func setEnd(p string) int {
	first := 2
	if strings.HasPrefix(p, "[^") {
		first = 3
	}
	if first > len(p) {
		return -1
	}
	if i := strings.IndexByte(p[first:], ']'); i >= 0 {
		return first + i
	}
	return -1
}

func checkGlob(p string) error {
	for i := 0; i < len(p); i++ {
		switch p[i] {
		case '\\':
			if i++; i == len(p) {
				return fmt.Errorf("%q ends in a backslash", p)
			}
		case '[':
			end := setEnd(p[i:])
			if end < 0 {
				return fmt.Errorf("%q has a [ without its ]", p)
			}
			i += end
		}
	}
	return nil
}
