// Command tensorfile shows, checks, compares, edits and converts tensor files of every
// format that the library reads. README.md shows what it does, docs/json.md every field
// that --json prints.
package main

import (
	"os"

	"github.com/tensorfile/tensorfile/internal/command"
)

// version is set by the linker, and never changes.
var version string

func main() { os.Exit(command.Main(&command.Options{Version: version})) }
