package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tensorfile/tensorfile/inspect"
)

func detectCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "detect FILE...",
		Short: "Print the format and the version of each file",
		Example: `  tensorfile detect downloads/*
  tensorfile detect -r --jsonl models`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.eachName(args, false, func(name string) (document, error) {
				in, err := a.open(name)
				if err != nil {
					return nil, err
				}
				defer in.Close()
				shards := inspect.Shards(in.File)
				d := detectDocument{name, inspect.FormatName(in.File), in.Version(), shards}
				if a.json {
					return d, nil
				}
				line := display(name) + ": " + in.Format().String()
				if v := in.Version(); v != "" {
					line += " " + escape(v)
				}
				if shards != nil {
					line += ", " + count(len(shards), "shard")
				}
				_, err = fmt.Fprintln(a.out, line)
				return nil, err
			})
		},
	}
}

// A detectDocument is detect --json.
type detectDocument struct {
	File    string   `json:"file"`
	Format  string   `json:"format"`
	Version string   `json:"version"`
	Shards  []string `json:"shards,omitempty"`
}
