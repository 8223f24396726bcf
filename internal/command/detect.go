package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tensorfile/tensorfile/inspect"
)

func detectCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "detect FILE...",
		Short: "Print the format and the version of each file",
		Example: `  tensorfile detect downloads/*
  tensorfile detect -r --jsonl models`,
		Args: cobra.MinimumNArgs(1),
	}
	many := a.many(cmd, a.inputs, false)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		return many.run(args, opened(func(_ *app, in *input) (document, error) {
			return &detectDocument{File: in.name, Format: inspect.FormatName(in.File),
				Version: in.Version(), Shards: inspect.Shards(in.File),
				format: in.Format().String()}, nil
		}))
	}
	return cmd
}

// A detectDocument is detect --json.
type detectDocument struct {
	File    string   `json:"file"`
	Format  string   `json:"format"`
	Version string   `json:"version"`
	Shards  []string `json:"shards,omitempty"`
	outcome
	format string // its name as text
}

func (d *detectDocument) print(a *app) {
	line := string(display(d.File)) + ": " + d.format
	if d.Version != "" {
		line += " " + escape(d.Version)
	}
	if d.Shards != nil {
		line += ", " + count(len(d.Shards), "shard")
	}
	fmt.Fprintln(a.out, line)
}
