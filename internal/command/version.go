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
		Short: "Print the version, and the formats that are read and written",
		Example: `  tensorfile version
  tensorfile --version`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return a.printFormats() },
	}
}

// A versionDocument is version --json.
type versionDocument struct {
	Version string      `json:"version"`
	Go      string      `json:"go"`
	Formats []formatRow `json:"formats,omitempty"`
}

type formatRow struct {
	Format string   `json:"format"`
	Reads  []string `json:"reads"`
	Writes []string `json:"writes"`
}

func (a *app) printVersion() error {
	if a.json {
		return a.printJSON(versionDocument{Version: a.version, Go: runtime.Version()})
	}
	fmt.Fprintf(a.out, "tensorfile %s\n", a.version)
	return nil
}

func (a *app) printFormats() error {
	if a.json {
		d := versionDocument{Version: a.version, Go: runtime.Version()}
		for _, f := range tensorfile.Formats() {
			d.Formats = append(d.Formats,
				formatRow{f.String(), append([]string{}, f.Reads()...),
					append([]string{}, f.Writes()...)})
		}
		return a.printJSON(d)
	}
	fmt.Fprintf(a.out, "tensorfile %s (%s %s/%s)\n\n", a.version, runtime.Version(), runtime.GOOS,
		runtime.GOARCH)
	t := newTable("FORMAT", "READS", "WRITES", "EXTENSION", "NAME")
	t.spare = []int{4}
	for _, f := range tensorfile.Formats() {
		t.add(f.String(), versions(f.Reads()), versions(f.Writes()), f.Ext(), f.Title())
	}
	t.print(a)
	return nil
}

// versions returns versions as text: yes if a format has none, a range if there are many.
func versions(list []string) string {
	const maxShown = 6
	switch {
	case len(list) == 1 && list[0] == "":
		return "yes"
	case len(list) > maxShown:
		return list[0] + " to " + list[len(list)-1]
	}
	return plain(list)
}

// programVersion returns the version of the main package, or the version of the module.
func programVersion(version string) string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
