package command

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/model"
	"github.com/tensorfile/tensorfile/pte"
	"github.com/tensorfile/tensorfile/tensor"
)

func verifyCommand(a *app) *cobra.Command {
	opts := tensor.VerifyOptions{}
	depths := map[string]tensor.Depth{"structure": tensor.VerifyStructure,
		"digests": tensor.VerifyDigests, "canonical": tensor.VerifyCanonical}
	cmd := &cobra.Command{
		Use:   "verify FILE...",
		Short: "Check structure, digests, padding, overlaps; list every finding",
		Long: `Check structure, digests, padding and overlaps, and list every finding
with its offset. The exit status is 0 if there are only warnings, 1 if the file is damaged
or ends early, 3 if it could not be read or has no known format. --strict makes every
deviation from the specification of the format an error. The whole file is checked; to read
chosen tensors only, use hash --filter.`,
		Example: `  tensorfile verify model.zt
  tensorfile verify -r --strict models
  tensorfile verify --depth canonical --json model.zt`,
		Args: cobra.MinimumNArgs(1),
	}
	many, log := a.many(cmd, a.inputs, false), a.sarif(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		opts.Strict = a.strict
		return log.run(many, args, func(a *app, name string) (document, error) {
			return a.verify(name, opts)
		})
	}
	choices(cmd.Flags(), &opts.Depth, "depth", "depth", depths,
		"check as deep as `DEPTH`: structure (headers only), digests (also the data), "+
			"canonical (also the form)")
	return cmd
}

// A verifyDocument is verify --json.
type verifyDocument struct {
	File     string       `json:"file"`
	OK       bool         `json:"ok"`
	Digests  *int64       `json:"digests,omitempty"` // nil if the file was not opened
	Findings []findingRow `json:"findings"`
	outcome
	isCounted bool // digests were checked
}

// A findingRow is an element of findings.
type findingRow struct {
	Severity string    `json:"severity"`
	Class    string    `json:"class"`
	Code     string    `json:"code,omitempty"`
	File     string    `json:"file,omitempty"`
	Offset   knownSize `json:"offset,omitzero"`
	Field    string    `json:"field,omitempty"`
	Message  string    `json:"message"`
}

func findingRows(findings []tensor.Finding) []findingRow {
	all := []findingRow{}
	for _, f := range findings {
		all = append(all, findingRow{f.Severity.String(), string(f.Class), f.Code, f.File,
			knownSize(f.Offset), f.Field, describe(f.Err)})
	}
	return all
}

// verify opens a file and checks it. A damaged file that cannot be opened has findings.
// It fails if the file cannot be read, or the command is interrupted.
func (a *app) verify(name string, opts tensor.VerifyOptions) (document, error) {
	o := a.options()
	o.Strict = false // so that the file opens, and every deviation is a finding
	in, err := a.openWith(name, o)
	if err != nil {
		d := &verifyDocument{File: name, Findings: findingRows(findingsOf(err))}
		if !isDamage(err) {
			return d, err
		}
		d.status = statusFound
		return d, nil
	}
	defer in.Close()
	found, err := a.findings(in, opts)
	if err != nil {
		return nil, err
	}
	d := &verifyDocument{File: name, OK: true, Digests: new(int64), Findings: findingRows(found),
		isCounted: opts.Depth != tensor.VerifyStructure}
	for _, f := range found {
		if f.Severity != tensor.SeverityError {
			continue
		}
		d.OK = false
		status := statusFound
		switch f.Class {
		case tensor.ClassLimit:
			status = statusLimit
		case tensor.ClassIO:
			status = statusUnreadable
		}
		d.status = worse(d.status, status)
	}
	count := func(b tensor.Blob) {
		if st, ok := b.Stored(); ok && st.Digest != "" {
			*d.Digests++
		}
	}
	for t := range in.Tensors() {
		count(t.Data)
		for i := range t.Parts {
			count(t.Parts[i].Data)
		}
	}
	for _, b := range in.Blobs() {
		count(b)
	}
	return d, nil
}

// findingsOf returns the findings of a file, or of a directory, that could not be opened.
func findingsOf(err error) (all []tensor.Finding) {
	var damage *model.DamageError
	if !errors.As(err, &damage) {
		return []tensor.Finding{tensor.FindingOf(err)}
	}
	for _, f := range damage.Findings {
		all = append(all, findingOf(f))
	}
	return all
}

// findingOf returns a finding of a directory as a finding of a file.
func findingOf(f model.Finding) tensor.Finding {
	return tensor.Finding{Severity: f.Severity, Class: f.Class(), Code: string(f.Code),
		File: f.File, Offset: f.Offset, Field: f.Field,
		Err: &model.DamageError{Findings: []model.Finding{f}}}
}

// isDamage reports whether an error of opening is about the content of a file of a known
// format.
func isDamage(err error) bool {
	switch tensor.ClassOf(err) {
	case tensor.ClassMalformed, tensor.ClassTruncated, tensor.ClassChecksum,
		tensor.ClassUnfinished:
		return !errors.Is(err, tensorfile.ErrUnknownFormat) && !errors.Is(err, model.ErrNoModel) &&
			!errors.As(err, new(usageError))
	}
	return false
}

// findings verifies an open file. It fails only if it is interrupted.
func (a *app) findings(in *input, opts tensor.VerifyOptions) ([]tensor.Finding, error) {
	if len(a.externals) > 0 {
		opts.External = a.findExternal
	}
	var end func()
	opts.Progress, end = a.progress(in.name)
	report, _ := in.Verify(a.ctx, &opts)
	end()
	if a.ctx.Err() != nil {
		return nil, a.ctx.Err()
	}
	if in.dir != nil && opts.External == nil {
		for _, f := range in.dir.Findings() {
			if f.Code == model.MissingWeights || f.Code == model.WeightsMismatch {
				report.Findings = append(report.Findings, findingOf(f))
			}
		}
	}
	if in.part != "" {
		report.Findings = append(report.Findings, tensor.Finding{Severity: tensor.SeverityNote,
			Class: tensor.ClassNote, Offset: -1, Err: errors.New(in.part)})
	}
	if r, ok := in.Sys().(*pte.Reader); ok && in.dir == nil && opts.External == nil {
		report.Findings = append(report.Findings, noteExternal(r)...)
	}
	return report.Findings, nil
}

// noteExternal returns a note that the external tensors of a program are not checked, if
// it has some.
func noteExternal(r *pte.Reader) (notes []tensor.Finding) {
	names := map[string]bool{}
	for e := range r.Entries() {
		if e.External {
			names[e.Name] = true
		}
	}
	if len(names) > 0 {
		notes = append(notes, tensor.Finding{Severity: tensor.SeverityNote,
			Class: tensor.ClassNote, Offset: -1, Err: fmt.Errorf("%s in other files, such as %s, "+
				"not checked: give them by --external FILE.ptd, or verify the directory",
				count(len(names), "external tensor"), quote(slices.Min(slices.Collect(
					maps.Keys(names)))))})
	}
	return notes
}

// countFindings counts findings by severity, and returns the counts as text too.
func countFindings(rows []findingRow) (words []string, n map[string]int) {
	n = map[string]int{}
	for _, f := range rows {
		n[f.Severity]++
	}
	for _, s := range []tensor.Severity{tensor.SeverityError, tensor.SeverityWarning,
		tensor.SeverityNote} {
		if n := n[s.String()]; n > 0 {
			words = append(words, count(n, s.String()))
		}
	}
	return words, n
}

func (d *verifyDocument) print(a *app) {
	parts, n := countFindings(d.Findings)
	errs := n[tensor.SeverityError.String()]
	if errs == 0 {
		parts = slices.Insert(parts, 0, "ok")
	}
	if d.isCounted && errs == 0 {
		if *d.Digests == 0 {
			parts = append(parts, "no digests of tensors to check")
		} else {
			parts = append(parts, count(*d.Digests, "digest")+" checked")
		}
	}
	if !a.quiet || errs > 0 {
		a.printLine(display(d.File).word() + ": " + strings.Join(parts, ", "))
	}
	for _, f := range d.Findings {
		colour := styleWarning
		if f.Severity == tensor.SeverityError.String() {
			colour = styleError
		} else if a.quiet {
			continue
		}
		a.printFinding("  ", colour, f.Severity, f.Message)
	}
}
