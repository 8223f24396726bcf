package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tensorfile/tensorfile/ztensor"
)

func recoverCommand(a *app) *cobra.Command {
	dryRun := false
	cmd := &cobra.Command{
		Use:   "recover FILE",
		Short: "Undo an append to a zTensor 2 file that was interrupted",
		Long: `Undo an append to a .zt file of version 2 that was interrupted: what
follows the last complete edition is cut off. A file that can be opened stays as it is.`,
		Example: `  tensorfile recover model.zt`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.eachName(args, false, func(name string) (document, error) {
				recover, done := ztensor.Recover, "cut off"
				if dryRun {
					recover, done = ztensor.Recoverable, "to be cut off"
				}
				path, err := onDisk(name)
				if err != nil {
					return nil, err
				}
				cut, err := recover(path)
				switch {
				case err != nil || a.json || a.quiet:
				case cut == 0:
					fmt.Fprintf(a.out, "%s: complete, nothing to recover\n", display(name))
				default:
					fmt.Fprintf(a.out, "%s: %d bytes %s\n", display(name), cut, done)
				}
				return recoverDocument{name, cut}, err
			})
		},
	}
	cmd.Flags().BoolVarP(&dryRun, "dry-run", "n", false, "check, and write nothing")
	return cmd
}

// A recoverDocument is recover --json.
type recoverDocument struct {
	File    string `json:"file"`
	Removed int64  `json:"removed"`
}
