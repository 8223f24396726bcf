package command

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func completionCommand(a *app) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:       "completion SHELL",
		Short:     "Print the completion script for bash, zsh, fish or powershell",
		Long:      "Print a completion script. The example is for one session of bash.",
		Example:   `  source <(tensorfile completion bash)`,
		ValidArgs: shells,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && slices.Contains(shells, args[0]) {
				return nil
			}
			return fmt.Errorf("completion takes the name of a shell: %s",
				strings.Join(shells, ", "))
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

// addCompletions declares what flags and arguments may be, where a shell asks.
func (a *app) addCompletions(root *cobra.Command) {
	for _, c := range append(root.Commands(), root) {
		add := func(f *pflag.Flag) {
			if words, ok := f.Value.(*choice); ok {
				c.RegisterFlagCompletionFunc(f.Name,
					cobra.FixedCompletions(words.known, cobra.ShellCompDirectiveNoFileComp))
			}
		}
		c.Flags().VisitAll(add)
		c.PersistentFlags().VisitAll(add)
		if c.Name() == "cat" || c.Name() == "stats" {
			c.ValidArgsFunction = a.completeNames
		}
	}
}

// completeNames gives the names of the tensors of the file that is there
// already.
func (a *app) completeNames(_ *cobra.Command, args []string, begun string) ([]string,
	cobra.ShellCompDirective) {
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
