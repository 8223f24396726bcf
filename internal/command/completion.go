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
		Long: "Print a completion script. The example is for one session of bash; the package\n" +
			"bash-completion is not needed.",
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

// bashWords is the function of the package bash-completion that the script calls, for
// shells that have not loaded the package. bash ends words at = and : too; the function
// joins what the command line has without a space between.
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
