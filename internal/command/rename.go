package command

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/pflag"
)

// A rename is one OLD=NEW.
type rename struct {
	old, new string
	pattern  *regexp.Regexp // of --rename-regex, in place of old
}

// apply returns the new name for name, and whether the rename applies. Each * matches the
// shortest text, the last * the rest.
func (r rename) apply(name string) (string, bool) {
	if r.pattern != nil {
		return r.pattern.ReplaceAllString(name, r.new), r.pattern.MatchString(name)
	}
	old, to := strings.Split(r.old, "*"), strings.Split(r.new, "*")
	last := len(old) - 1
	if last == 0 {
		return r.new, name == r.old
	}
	rest, hasPrefix := strings.CutPrefix(name, old[0])
	rest, hasSuffix := strings.CutSuffix(rest, old[last])
	if !hasPrefix || !hasSuffix {
		return "", false
	}
	out := to[0]
	for i := 1; i < last; i++ {
		matched, after, found := strings.Cut(rest, old[i])
		if !found {
			return "", false
		}
		out, rest = out+matched+to[i], after
	}
	return out + rest + to[last], true
}

// renames are the flags --rename and --rename-regex, which may repeat: each applies to
// the names as those before it left them.
type renames []rename

func (rs *renames) String() string { return "" }
func (rs *renames) Type() string   { return "string" }

func (rs *renames) Set(text string) error {
	old, new, ok := strings.Cut(text, "=")
	if !ok || strings.Count(old, "*") != strings.Count(new, "*") {
		return fmt.Errorf("%s is not OLD=NEW, with as many * in both", quote(text))
	}
	*rs = append(*rs, rename{old: old, new: new})
	return nil
}

// regexRenames is --rename-regex.
type regexRenames struct{ *renames }

func (rs regexRenames) Set(text string) error {
	old, new, ok := strings.Cut(text, "=")
	if !ok {
		return fmt.Errorf("%s is not A=B", quote(text))
	}
	pattern, err := regexp.Compile(old)
	if err == nil {
		*rs.renames = append(*rs.renames, rename{old, new, pattern})
	}
	return err
}

func (rs *renames) flags(f *pflag.FlagSet) {
	f.Var(rs, "rename", "`OLD=NEW`: rename OLD to NEW; the text that each * in OLD matches "+
		"replaces the same * in NEW; applies after the renames before it")
	f.Var(regexRenames{rs}, "rename-regex", "`A=B`: replace each match of the regular "+
		"expression A with B, in which $1 is its first group")
}

// newName returns the new name for name, which may be the same. If used is not nil, it
// records the renames that apply.
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

// unused returns an error if a rename applied to no name.
func (rs renames) unused(used []bool) error {
	for i, r := range rs {
		if !used[i] {
			return wrong(tryNames, "--rename: no tensor or blob is named %s", quote(r.old))
		}
	}
	return nil
}
