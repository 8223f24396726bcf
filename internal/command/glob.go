package command

import (
	"fmt"
	"path"
	"strings"
)

// glob matches a whole name as path.Match does, except that * and ? match slashes too.
func glob(pattern, name string) (bool, error) {
	const slash = "\x1f" // names rarely have it, and then it matches itself
	ok, err := path.Match(strings.ReplaceAll(pattern, "/", slash),
		strings.ReplaceAll(name, "/", slash))
	if err != nil {
		return false, fmt.Errorf("%q is not a pattern: an unfinished [ or \\", pattern)
	}
	return ok, nil
}
