package command

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/convert"
)

func completionCommand(a *app) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:       "completion SHELL",
		Short:     "Print the completion script for bash, zsh, fish or powershell",
		Long:      "Print a completion script. For bash, this session only: source <(tensorfile completion bash)",
		Example:   `  source <(tensorfile completion bash)`,
		ValidArgs: shells,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && slices.Contains(shells, args[0]) {
				return nil
			}
			return fmt.Errorf("completion takes the name of a shell: %s", strings.Join(shells, ", "))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(a.out, true)
			case "zsh":
				return root.GenZshCompletion(a.out)
			case "fish":
				return root.GenFishCompletion(a.out, true)
			}
			return root.GenPowerShellCompletionWithDesc(a.out)
		},
	}
}

// completions tells the shell what flags and arguments may be. It is asked for
// only when a shell asks.
func (a *app) completions(root *cobra.Command) {
	var formats, targets []string
	for _, f := range tensorfile.Formats() {
		formats = append(formats, f.String())
		for i, v := range f.Writes() {
			if i == 0 {
				targets = append(targets, f.String())
			}
			if len(f.Writes()) > 1 {
				targets = append(targets, f.String()+"@"+v)
			}
		}
	}
	words := map[string][]string{
		"format": formats,
		"to":     targets,
		"allow":  append(strings.Split(convert.LossAll.String(), ","), "all"),
		"sort":   sortKeys,
		"depth":  verifyDepths,
		"digest": {"crc32c", "sha256"},
		"sparse": {"sparse_csr", "sparse_coo"},

		"duplicates": {"sum", "first"},
		"ignore":     {"blobs", "attributes"},
	}
	for _, c := range append(root.Commands(), root) {
		for flag, w := range words {
			if c.Flags().Lookup(flag) != nil || c.PersistentFlags().Lookup(flag) != nil {
				c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(w, cobra.ShellCompDirectiveNoFileComp))
			}
		}
		if c.Name() == "cat" || c.Name() == "stats" {
			c.ValidArgsFunction = a.completeNames
		}
	}
}

// completeNames gives the names of the tensors of the file that is there
// already.
func (a *app) completeNames(_ *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	if _, err := os.Stat(args[0]); err != nil { // nothing is fetched, and nothing is typed
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	in, err := a.open(args[0])
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer in.Close()
	var names []string
	for t := range in.Tensors() {
		if strings.HasPrefix(t.Name, begun) && harmless(t.Name) {
			names = append(names, t.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
