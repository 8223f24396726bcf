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
		Long: `Undo an append to a .zt file of version 2 that was interrupted: the bytes
after the last complete revision are cut off. A file that can be opened stays as it is.`,
		Example: `  tensorfile recover model.zt`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.each(args, false, func(_ *app, name string) (document, error) {
				recover := ztensor.Recover
				if dryRun {
					recover = ztensor.Recoverable
				}
				path, err := onDisk(name)
				if err != nil {
					return nil, err
				}
				cut, err := recover(path)
				if err != nil {
					return nil, err
				}
				return &recoverDocument{File: name, Removed: cut, dryRun: dryRun}, nil
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
	outcome
	dryRun bool
}

func (d *recoverDocument) print(a *app) {
	switch {
	case a.quiet:
	case d.Removed == 0:
		fmt.Fprintf(a.out, "%s: complete, nothing to recover\n", display(d.File))
	case d.dryRun:
		fmt.Fprintf(a.out, "%s: %d bytes to be cut off\n", display(d.File), d.Removed)
	default:
		fmt.Fprintf(a.out, "%s: %d bytes cut off\n", display(d.File), d.Removed)
	}
}
