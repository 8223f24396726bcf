package command

import (
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tensorfile/tensorfile/internal/page"
	"github.com/tensorfile/tensorfile/internal/page/web"
)

func reportCommand(a *app) *cobra.Command {
	var o outputs
	var quick bool
	cmd := &cobra.Command{
		Use:     "report FILE REPORT.html",
		Short:   "Write one self-contained page: sizes, dtypes, findings, program",
		Example: `  tensorfile report model.pte model.html`,
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			args, out, err := a.beginFile(&o, args, 1)
			if err != nil {
				return err
			}
			if ext := strings.ToLower(filepath.Ext(out)); out != "-" && ext != ".html" &&
				ext != ".htm" {
				return wrong("REPORT.html",
					"a report is a page, and the extension of %s is not .html", quote(out))
			}
			return a.with(args[0], func(in *input) error {
				text, err := a.report(in, !quick)
				if err != nil {
					return err
				}
				if err := a.writeText(out, &o, text); err != nil {
					return err
				}
				return a.wrote(&writtenDocument{File: in.name, Output: out, Written: !o.dryRun})
			})
		},
	}
	f := cmd.Flags()
	o.flags(f, "FILE")
	f.BoolVar(&quick, "quick", false, "do not verify")
	return cmd
}

// report returns the page, with its data in it.
func (a *app) report(in *input, verify bool) ([]byte, error) {
	progress, end := a.progress(in.name)
	defer end()
	return page.NewSession(a.source(in)).Report(a.ctx, web.Files, verify, progress)
}

// source returns the input as a source for a page. Its Name is the title of the page.
func (a *app) source(in *input) page.Source {
	out := page.Source{Name: in.name, File: in.File, Model: in.dir, Config: in.config(),
		External: a.findExternal, Strict: a.strict, Limits: a.limits,
		Remote: isAddress(in.name)}
	switch path, err := filepath.Abs(in.name); {
	case in.name == "-":
		out.Name = "standard input"
	case out.Remote || err != nil:
		out.Name = baseName(in.name)
	default:
		out.Name = filepath.Base(path) // also of . and ..
	}
	if out.Name != in.name {
		out.Path = in.name
	}
	return out
}
