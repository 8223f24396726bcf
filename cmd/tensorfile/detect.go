package main

import (
	"github.com/spf13/cobra"
)

func detectCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "detect FILE...",
		Short: "Print the format and the version of each file",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.eachLine(args, func(name string) (object, string, error) {
				in, err := a.open(name)
				if err != nil {
					return nil, "", err
				}
				defer in.Close()
				o := object{{"file", name}, {"format", in.Format().String()}, {"version", in.Version()}}
				line := display(name) + ": " + in.Format().String()
				if v := in.Version(); v != "" {
					line += " " + escape(v)
				}
				return o, line, nil
			})
		},
	}
}
