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
	var yes bool
	cmd := &cobra.Command{
		Use:   "clean DIR...",
		Short: "List, and remove with --yes, what writers that were killed have left",
		Long: `List what writers that were killed have left in directories, with -r also in those below.

A file NAME is written as .NAME.tmp-..., which stays when the writer is killed; --yes
removes those that were last written more than an hour ago and that no writer holds. A
writer that is killed while it replaces a set of shards leaves .INDEX.journal, which lists
the renames; --yes finishes them. What a journal names is not removed.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			all := []object{}
			for _, name := range args {
				dirs, err := a.directories(name)
				if err != nil {
					a.fail(name, err)
				}
				for _, dir := range dirs {
					o, err := a.clean(dir, yes)
					if err != nil {
						a.fail(dir, err)
						o = errorObject(dir, err)
					}
					if o != nil || !a.recursive {
						all = append(all, o)
					}
				}
			}
			if a.json {
				w := &jsonWriter{w: a.out}
				w.value(object{{"directories", all}})
				w.end()
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "finish and remove, not only list")
	return cmd
}

// directories lists a directory and, with -r, those below, links not followed.
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

// clean returns nil where a directory below another one has no leftovers.
func (a *app) clean(dir string, yes bool) (object, error) {
	list, err := tensorfile.Clean(a.ctx, dir, &tensorfile.CleanOptions{Remove: yes})
	if err != nil {
		return nil, err
	}
	rows := []object{}
	stale := false
	for _, l := range list {
		o := object{{"path", l.Path}, {"bytes", l.Size},
			{"modified", l.ModTime.UTC().Format(time.RFC3339)}, {"state", l.State}}
		if l.Journal {
			o.set("journal", true)
		}
		if l.Err != nil {
			a.fail(l.Path, l.Err)
			o.set("error", describe(l.Err))
		}
		rows = append(rows, o)
		stale = stale || l.State == "stale" && l.Err == nil
		if !a.json {
			kind := ""
			if l.Journal {
				kind = ", journal of a set"
			}
			fmt.Fprintf(a.out, "%s: %s, %s%s\n", display(l.Path), l.State, human(l.Size), kind)
		}
	}
	if stale && !yes {
		a.message("%s: nothing was removed\n  try: --yes", display(dir))
	}
	if len(rows) == 0 && a.recursive {
		return nil, nil
	}
	return object{{"directory", dir}, {"leftovers", rows}}, nil
}
