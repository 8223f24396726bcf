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
		Use:   "completion SHELL",
		Short: "Print the completion script for bash, zsh, fish or powershell",
		Long: "Print a completion script for SHELL: bash, zsh, fish or powershell. The example\n" +
			"is for one session of bash; it does not need the package bash-completion.",
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
				fmt.Fprint(a.out, bashWords)
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

// bashWords defines the function of the package bash-completion that the script calls, if
// the package is not loaded. bash also splits words at = and :; the function joins the
// parts that have no space between them.
const bashWords = `if ! declare -F _get_comp_words_by_ref >/dev/null; then
_get_comp_words_by_ref() {
    local i word rest line=$COMP_LINE
    words=() cword=0
    for ((i = 0; i < ${#COMP_WORDS[@]}; i++)); do
        word=${COMP_WORDS[i]} rest=${line#"${line%%[![:space:]]*}"}
        if ((i)) && [[ $rest == "$line" && ($word == [=:]* || ${words[cword]} == *[=:]) ]]; then
            words[cword]+=$word
        else
            cword=${#words[@]}
            words+=("$word")
        fi
        line=${rest#"$word"}
        ((i < COMP_CWORD)) || break
    done
    cur=${words[cword]} prev=${words[cword > 0 ? cword - 1 : 0]}
}
fi
`

// addCompletions declares the values that a shell completes for flags and arguments.
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

// completeNames returns the names of the tensors of the file that is the first argument.
func (a *app) completeNames(_ *cobra.Command, args []string, begun string) ([]string,
	cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	if _, err := os.Stat(args[0]); err != nil { // no address, and not standard input
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	in, err := a.open(args[0])
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer in.Close()
	var names []string
	for t := range in.Tensors() {
		if strings.HasPrefix(t.Name, begun) && isPrintable(t.Name) {
			names = append(names, t.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
