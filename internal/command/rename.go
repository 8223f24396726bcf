package command

import (
	"fmt"
	"strings"
)

// A rename is one OLD=NEW.
type rename struct{ old, new string }

// apply returns the new name of what is named name, and whether there is one.
func (r rename) apply(name string) (string, bool) {
	before, after, isPattern := strings.Cut(r.old, "*")
	if !isPattern {
		return r.new, name == r.old
	}
	rest, hasPrefix := strings.CutPrefix(name, before)
	rest, hasSuffix := strings.CutSuffix(rest, after)
	if !hasPrefix || !hasSuffix {
		return "", false
	}
	return strings.Replace(r.new, "*", rest, 1), true
}

const renameUsage = "`OLD=NEW`: another name, with a * in both for each that matches; " +
	"applies to what flags before it left"

// renames is the flag --rename, which may repeat: each applies to the names as those
// before it left them.
type renames []rename

func (rs *renames) String() string { return "" }
func (rs *renames) Type() string   { return "string" }

func (rs *renames) Set(text string) error {
	old, new, ok := strings.Cut(text, "=")
	stars := strings.Count(old, "*")
	if !ok || stars != strings.Count(new, "*") || stars > 1 {
		return fmt.Errorf("%s is not OLD=NEW, with one * in both or in none", quote(text))
	}
	*rs = append(*rs, rename{old, new})
	return nil
}

// newName returns the name that what is named name gets, which may be the same. Where
// used is not nil it notes the renames that apply.
func (rs renames) newName(name string, used []bool) string {
	for i, r := range rs {
		if to, ok := r.apply(name); ok {
			name = to
			if used != nil {
				used[i] = true
			}
		}
	}
	return name
}

// unused is the error of a rename that applied to nothing.
func (rs renames) unused(used []bool) error {
	for i, r := range rs {
		if !used[i] {
			return wrong(tryNames, "--rename: no tensor or blob is named %s", quote(r.old))
		}
	}
	return nil
}
