package naming

import (
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Quote returns a name from a file in a form that cannot reach a terminal raw:
// quoted like Go source, bytes beyond 80 cut off.
func Quote(name string) string {
	const limit = 80
	if len(name) <= limit {
		return strconv.Quote(name)
	}
	cut := limit
	for cut > limit-utf8.UTFMax && !utf8.RuneStart(name[cut]) {
		cut--
	}
	return strconv.Quote(name[:cut]) + fmt.Sprintf("… (%d bytes)", len(name))
}
