// Command tensorfile is the command of the main module that reads addresses of object
// stores too: s3://, gs:// and az://.
package main

import (
	"os"

	"github.com/tensorfile/tensorfile/cloud/az"
	"github.com/tensorfile/tensorfile/cloud/gs"
	"github.com/tensorfile/tensorfile/cloud/s3"
	"github.com/tensorfile/tensorfile/internal/command"
	"github.com/tensorfile/tensorfile/remote"
)

// version is set by the linker, and never changes.
var version string

func main() {
	os.Exit(command.Main(&command.Options{
		Version: version,
		Openers: map[string]func(*remote.Options) (remote.Opener, error){
			"s3": func(o *remote.Options) (remote.Opener, error) { return s3.FromEnv(o) },
			"gs": func(o *remote.Options) (remote.Opener, error) { return gs.FromEnv(o) },
			"az": func(o *remote.Options) (remote.Opener, error) { return az.FromEnv(o) },
		},
	}))
}
