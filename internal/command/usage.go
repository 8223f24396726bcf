package command

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpOf prints the help of a command.
func (a *app) helpOf(c *cobra.Command, _ []string) {
	text := strings.TrimSpace(cmp.Or(c.Long, c.Short))
	fmt.Fprintf(c.OutOrStdout(), "%s\n\n", wrap(text, a.helpWidth()))
	if c.Runnable() || c.HasSubCommands() {
		a.usageOf(c)
	}
}

// usageOf prints the usage of a command as cobra does, but within the width of help. It
// does not use a template: with text/template, which calls methods by name, the linker
// keeps every exported method of every type, which adds 2.5 MB.
func (a *app) usageOf(c *cobra.Command) error {
	w := c.OutOrStderr()
	fmt.Fprint(w, "Usage:")
	if c.Runnable() {
		fmt.Fprintf(w, "\n  %s", c.UseLine())
	} else if c.HasAvailableSubCommands() {
		fmt.Fprintf(w, "\n  %s [command]", c.CommandPath())
	}
	if len(c.Aliases) > 0 {
		fmt.Fprintf(w, "\n\nAliases:\n  %s", c.NameAndAliases())
	}
	if c.HasExample() {
		fmt.Fprintf(w, "\n\nExamples:\n%s", c.Example)
	}
	list := func(title string, wanted func(*cobra.Command) bool) {
		for _, sub := range c.Commands() {
			if wanted(sub) {
				fmt.Fprint(w, title)
				title = ""
				name, width := sub.Name(), sub.NamePadding()
				if sub.IsAdditionalHelpTopicCommand() {
					name, width = sub.CommandPath(), sub.CommandPathPadding()
				}
				short := fill(strings.Repeat(" ", width+3)+sub.Short, a.helpWidth(), "")
				fmt.Fprintf(w, "\n  %-*s %s", width, name, strings.TrimLeft(short, " "))
			}
		}
	}
	inGroup := func(id string) func(*cobra.Command) bool {
		return func(sub *cobra.Command) bool {
			return sub.GroupID == id && (sub.IsAvailableCommand() || sub.Name() == "help")
		}
	}
	for _, g := range c.Groups() {
		list("\n\n"+g.Title, inGroup(g.ID))
	}
	list("\n\nAdditional Commands:", inGroup(""))
	flags := func(title string, f *pflag.FlagSet) {
		if f.HasAvailableFlags() {
			usages := f.FlagUsagesWrapped(a.helpWidth())
			fmt.Fprintf(w, "\n\n%s:\n%s", title, strings.TrimRight(usages, "\n"))
		}
	}
	flags("Flags", c.LocalFlags())
	flags("Global Flags", c.InheritedFlags())
	list("\n\nAdditional help topics:", (*cobra.Command).IsAdditionalHelpTopicCommand)
	if c.HasAvailableSubCommands() {
		fmt.Fprint(w, "\n\n", fill("Use \""+c.CommandPath()+
			" [command] --help\" for more information about a command.", a.helpWidth(), ""))
	}
	fmt.Fprintln(w)
	return nil
}
