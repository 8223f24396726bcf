package command

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/tensorfile/tensorfile"
)

func versionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of the program, and the formats that it reads and writes",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if a.json {
				var list []object
				for _, f := range tensorfile.Formats() {
					list = append(list, object{{"format", f.String()}, {"reads", f.Reads()}, {"writes", f.Writes()}})
				}
				w := &jsonWriter{w: a.out}
				w.value(object{{"version", a.version}, {"go", runtime.Version()}, {"formats", list}})
				w.end()
				return nil
			}
			fmt.Fprintf(a.out, "tensorfile %s (%s %s/%s)\n\n", a.version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			t := newTable("FORMAT", "READS", "WRITES", "USUAL ENDING", "")
			for _, f := range tensorfile.Formats() {
				t.add(f.String(), versions(f.Reads()), versions(f.Writes()), f.Ext(), f.Title())
			}
			t.print(a)
			return nil
		},
	}
}

// versions are for people, who are told yes where a format has none.
func versions(list []string) string {
	if len(list) == 1 && list[0] == "" {
		return "yes"
	}
	return plain(list)
}

// programVersion is that of the main, or what the module system knows about this build.
func programVersion(version string) string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
