package command

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/tensorfile/tensorfile"
)

func cleanCommand(a *app) *cobra.Command {
	var yes, dryRun bool
	cmd := &cobra.Command{
		Use:   "clean DIR...",
		Short: "List, and with --yes remove, what killed writers have left",
		Long: `List the files that killed writers have left in directories, with -r also
in the directories below.

A file NAME is first written as .NAME.tensorfile-tmp-..., which stays if the writer is
killed. --yes removes such a file if it was last written more than an hour ago and no
writer uses it. A writer that is killed while it replaces a set of shards also leaves
.INDEX.tensorfile-journal, a list of the renames and removals that are still to be done.
--yes does them; the output lists each file that this writes or removes. Temporary files
that a journal names are not removed.`,
		Example: `  tensorfile clean -r models
  tensorfile clean --yes models`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			all := []cleanDirectory{}
			for _, name := range args {
				name, err := onDisk(name)
				if err != nil {
					return err
				}
				dirs, err := a.directories(name)
				if err != nil {
					a.fail(name, err)
				}
				for _, dir := range dirs {
					d, err := a.clean(dir, yes && !dryRun)
					if err != nil {
						a.fail(dir, err)
						d.Error = describe(err)
					}
					if len(d.Leftovers) > 0 || d.Error != "" || !a.recursive {
						all = append(all, d)
					}
				}
			}
			if a.json {
				return a.printJSON(cleanDocument{all})
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "remove the files, and finish sets of shards")
	cmd.Flags().BoolVarP(&dryRun, "dry-run", "n", false, "only list, even with --yes")
	return cmd
}

// directories returns a directory and, with -r, the directories below it. It does not
// follow links.
func (a *app) directories(name string) (dirs []string, err error) {
	if !a.recursive {
		return []string{name}, nil
	}
	err = filepath.WalkDir(name, func(path string, d fs.DirEntry, err error) error {
		if err = errors.Join(err, a.ctx.Err()); err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	return dirs, err
}

// A cleanDocument is clean --json.
type cleanDocument struct {
	Directories []cleanDirectory `json:"directories"`
}

type cleanDirectory struct {
	Directory string        `json:"directory"`
	Leftovers []leftoverRow `json:"leftovers"`
	Error     string        `json:"error,omitempty"`
}

type leftoverRow struct {
	Path     string `json:"path"`
	Bytes    int64  `json:"bytes"`
	Modified string `json:"modified"`
	State    string `json:"state"`
	Journal  bool   `json:"journal,omitempty"`
	// The files that finishing the set of a journal changes, or has changed.
	Writes  []string `json:"writes,omitempty"`
	Removes []string `json:"removes,omitempty"`
	Error   string   `json:"error,omitempty"`
}

func (a *app) clean(dir string, yes bool) (cleanDirectory, error) {
	d := cleanDirectory{Directory: dir, Leftovers: []leftoverRow{}}
	found, err := tensorfile.Clean(a.ctx, dir, &tensorfile.CleanOptions{Remove: yes})
	if err != nil {
		return d, err
	}
	stale := false
	for _, l := range found {
		row := leftoverRow{Path: l.Path, Bytes: l.Size,
			Modified: l.ModTime.UTC().Format(time.RFC3339),
			State:    fmt.Sprint(l.State), Journal: l.Journal,
			Writes: l.Writes, Removes: l.Removes}
		if l.Err != nil {
			a.fail(l.Path, l.Err)
			row.Error = describe(l.Err)
		}
		d.Leftovers = append(d.Leftovers, row)
		stale = stale || row.State == "stale" && l.Err == nil
		if !a.json && !a.quiet {
			kind := ""
			if l.Journal {
				kind = ", journal of a set"
			}
			fmt.Fprintf(a.out, "%s: %s, %s%s\n", display(l.Path), row.State, human(l.Size), kind)
			for _, name := range l.Writes {
				fmt.Fprintf(a.out, "  writes %s\n", display(name))
			}
			for _, name := range l.Removes {
				fmt.Fprintf(a.out, "  removes %s\n", display(name))
			}
		}
	}
	if stale && !yes {
		a.note("%s: nothing was removed\n  try: --yes", display(dir))
	}
	return d, nil
}
