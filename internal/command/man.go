package command

import (
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/tensorfile/tensorfile/internal/atomicfile"
)

func manCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Write the manual pages into a directory",
		Args:    cobra.ExactArgs(1),
		Example: `  tensorfile man /usr/local/share/man/man1`,
		Hidden:  true, // for packagers of the program
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := atomicfile.MakeDir(args[0]); err != nil {
				return onFile(args[0], err)
			}
			root := cmd.Root()
			for _, c := range append([]*cobra.Command{root}, root.Commands()...) {
				if c.Hidden {
					continue
				}
				name := filepath.Join(args[0], strings.ReplaceAll(c.CommandPath(), " ", "-")+".1")
				if err := a.writeText(name, &outputs{force: true},
					manPage(c, a.version)); err != nil {
					return onFile(name, err)
				}
			}
			return nil
		},
	}
}

// manPage returns the help of a command as a manual page.
func manPage(c *cobra.Command, version string) []byte {
	var b []byte
	add := func(format string, args ...any) { b = fmt.Appendf(b, format+"\n", args...) }
	title := strings.ReplaceAll(c.CommandPath(), " ", "-")
	add(`.TH "%s" 1 "" "tensorfile %s" "tensorfile"`, strings.ToUpper(title), roff(version))
	add(".SH NAME\n%s \\- %s", roff(title), roff(c.Short))
	add(".SH SYNOPSIS\n.B %s", roff(c.UseLine()))
	if c.Long != "" {
		add(".SH DESCRIPTION\n%s", roff(strings.ReplaceAll(c.Long, "\n\n", "\n.PP\n")))
	}
	if !c.HasParent() {
		add(".SH COMMANDS")
		for _, s := range c.Commands() {
			if !s.Hidden {
				add(".TP\n.B %s\n%s", roff(s.Name()), roff(s.Short))
			}
		}
	}
	if u := c.LocalNonPersistentFlags().FlagUsages(); c.HasParent() && u != "" {
		add(".SH OPTIONS\n.nf\n%s.fi", roff(u))
	}
	add(".SH GLOBAL OPTIONS\n.nf\n%s.fi", roff(c.Root().PersistentFlags().FlagUsages()))
	add(`.SH EXIT STATUS
0 success; 1 something was found (damage, a difference); 2 wrong usage; 3 a file could not be read
or written; 4 a limit was exceeded; 130 interrupted; 143 terminated.`)
	see := "https://github.com/tensorfile/tensorfile"
	if c.HasParent() {
		see = "tensorfile(1), " + see
	}
	add(".SH SEE ALSO\n%s", see)
	return b
}

// roff escapes text for a manual page: backslashes, dashes, and dots and quotes at the
// start of a line, except the paragraphs (.PP) of manPage. Characters that are not ASCII
// get groff's names.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if l != ".PP" && (strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'")) {
			lines[i] = `\&` + l
		}
	}
	var b strings.Builder
	for _, r := range strings.Join(lines, "\n") {
		if r < utf8.RuneSelf {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\[u%04X]`, r)
		}
	}
	return b.String()
}
