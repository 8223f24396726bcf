package command

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/tensor"
)

func verifyCommand(a *app) *cobra.Command {
	depth := "digests"
	cmd := &cobra.Command{
		Use:   "verify FILE...",
		Short: "Check structure, digests, padding and overlaps; list every finding with its offset",
		Long: `Check structure, digests, padding and overlaps, and list every finding with its offset.
The exit status is 1 when there is an error, 0 when there are warnings only; --strict
makes every departure from the format's document an error.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts := tensor.VerifyOptions{Strict: a.strict}
			switch depth {
			case "structure":
				opts.Depth = tensor.VerifyStructure
			case "digests":
			case "canonical":
				opts.Depth = tensor.VerifyCanonical
			default:
				return fmt.Errorf("--depth: no depth is called %q: structure, digests, canonical", depth)
			}
			return a.eachUnder(args, false, func(name string) (jsonValue, error) {
				findings, err := a.verify(name, opts)
				if err != nil {
					return nil, err
				}
				if !a.json {
					a.printFindings(name, findings)
				}
				o := verdict(name, findings)
				return func(w *jsonWriter) { w.value(o) }, nil
			})
		},
	}
	cmd.Flags().StringVar(&depth, "depth", depth, "how `DEEP` to look: structure (no payload), digests, canonical (also the one way to write it)")
	return cmd
}

// verify opens a file and checks it. A file that cannot be opened has one
// finding. The error is only that of being interrupted.
func (a *app) verify(name string, opts tensor.VerifyOptions) ([]tensor.Finding, error) {
	o, err := a.options()
	if err != nil {
		return nil, err
	}
	o.Strict = false // so that the file opens, and every departure is a finding
	in, err := a.openWith(name, o)
	if err != nil {
		told := err
		var system *fs.PathError // has an advice of its own
		if !errors.As(err, &system) && tensor.ClassOf(err) == tensor.ClassMalformed && statusOf(err) == statusUnreadable && !errors.Is(err, tensorfile.ErrUnknownFormat) && !errors.Is(err, errFolder) {
			told = advise("fetching the file again", err) // not verify
		}
		a.fail(name, told)
		return []tensor.Finding{tensor.FindingOf(err)}, nil
	}
	defer in.Close()
	found, err := a.findings(in, opts)
	if err != nil {
		return nil, err
	}
	for _, f := range found {
		if f.Severity != tensor.SeverityError {
			continue
		}
		a.status = worse(a.status, statusFound)
		if f.Class == tensor.ClassLimit {
			a.status = worse(a.status, statusLimit)
		}
	}
	return found, nil
}

// findings verifies an open file. The error is only that of being interrupted.
func (a *app) findings(in *input, opts tensor.VerifyOptions) ([]tensor.Finding, error) {
	if len(a.externals) > 0 {
		opts.External = a.findExternal
	}
	bar := a.bar(in.name, in.Size())
	opts.Progress = func(done, total int64) { bar.set(done) }
	report, _ := in.Verify(a.ctx, &opts)
	bar.done()
	if a.ctx.Err() != nil {
		return nil, a.ctx.Err()
	}
	return report.Findings, nil
}

// verdict is the object of verify --json.
func verdict(name string, findings []tensor.Finding) object {
	ok := true
	list := make([]object, 0, len(findings))
	for _, f := range findings {
		ok = ok && f.Severity != tensor.SeverityError
		list = append(list, findingObject(f))
	}
	return object{{"file", name}, {"ok", ok}, {"findings", list}}
}

func findingObject(f tensor.Finding) object {
	o := object{{"severity", f.Severity.String()}, {"class", string(f.Class)}}
	if f.Offset >= 0 {
		o.set("offset", f.Offset)
	}
	if f.Field != "" {
		o.set("field", f.Field)
	}
	o.set("message", describe(f.Err))
	return o
}

func (a *app) printFindings(name string, findings []tensor.Finding) {
	errs, warnings := 0, 0
	for _, f := range findings {
		if f.Severity == tensor.SeverityError {
			errs++
		} else {
			warnings++
		}
	}
	result := "ok"
	switch {
	case errs > 0 && warnings > 0:
		result = count(errs, "error") + ", " + count(warnings, "warning")
	case errs > 0:
		result = count(errs, "error")
	case warnings > 0:
		result = "ok, " + count(warnings, "warning")
	}
	fmt.Fprintf(a.out, "%s: %s\n", display(name), result)
	for _, f := range findings {
		colour := styleError
		if f.Severity != tensor.SeverityError {
			colour = styleWarning
		}
		class := string(f.Class)
		if f.Class != tensor.ClassWarning {
			class = "error, " + class
		}
		fmt.Fprintf(a.out, "  %s%s:%s %s\n", a.style(colour), class, a.style(styleNone), visible(describe(f.Err)))
	}
}
