package command

import (
	"fmt"
	"strings"
)

// A renameRule is one OLD=NEW.
type renameRule struct {
	old, new string
	pattern  bool // there is one * in both
}

// apply returns the new name of what is named name, and whether the rule is for it.
func (r renameRule) apply(name string) (string, bool) {
	if !r.pattern {
		return r.new, name == r.old
	}
	before, after, _ := strings.Cut(r.old, "*")
	rest, ok := strings.CutPrefix(name, before)
	if !ok {
		return "", false
	}
	if rest, ok = strings.CutSuffix(rest, after); !ok {
		return "", false
	}
	return strings.Replace(r.new, "*", rest, 1), true
}

// renames is the flag --rename, which may repeat. Of several rules for a name the last one
// counts.
type renames struct {
	rules    []renameRule
	exact    map[string]int // by the name of rules without a *: place of the last
	patterns []int          // places of the others
}

func (rs *renames) String() string { return "" }
func (rs *renames) Type() string   { return "string" }

func (rs *renames) Set(text string) error {
	old, new, ok := strings.Cut(text, "=")
	stars := strings.Count(old, "*")
	if !ok || stars != strings.Count(new, "*") || stars > 1 {
		return fmt.Errorf("%s is not OLD=NEW, with one * in both or in none", quote(text))
	}
	if stars == 0 {
		if rs.exact == nil {
			rs.exact = map[string]int{}
		}
		rs.exact[old] = len(rs.rules)
	} else {
		rs.patterns = append(rs.patterns, len(rs.rules))
	}
	rs.rules = append(rs.rules, renameRule{old, new, stars == 1})
	return nil
}

// newName returns the name that what is named name gets, which may be the same.
func (rs *renames) newName(name string) string {
	last, found := rs.exact[name]
	for i := len(rs.patterns) - 1; i >= 0; i-- {
		k := rs.patterns[i]
		if found && k < last {
			break
		}
		if to, ok := rs.rules[k].apply(name); ok {
			return to
		}
	}
	if found {
		return rs.rules[last].new
	}
	return name
}
