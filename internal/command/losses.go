package command

import (
	"cmp"
	"errors"
	"slices"

	"github.com/tensorfile/tensorfile/convert"
)

// printLosses notes the losses that are requested, and then the losses that are allowed.
func (a *app) printLosses(from string, losses []convert.Loss, c *conversion) {
	for _, requested := range []bool{true, false} {
		what := map[bool]string{true: "requested", false: "allowed"}[requested]
		a.listLosses(a.note, from, what, slices.DeleteFunc(slices.Clone(losses),
			func(l convert.Loss) bool {
				return l.Requested != requested || !requested && c.opts.Allow&l.Kind == 0
			}))
	}
}

// summaryOf returns a summary of the losses of a conversion that may be done.
func summaryOf(losses []convert.Loss) string {
	switch {
	case len(losses) == 0:
		return "nothing is lost"
	case slices.ContainsFunc(losses, func(l convert.Loss) bool { return !l.Requested }):
		return "what is lost is allowed"
	}
	return "what is lost was asked for"
}

// listLosses prints losses, grouped by kind and reason, at most a hundred groups.
func (a *app) listLosses(print func(format string, args ...any), from, what string,
	losses []convert.Loss) {
	const maxGroups = 100
	groups := convert.GroupLosses(losses)
	for i, g := range groups {
		if i == maxGroups && len(groups) > maxGroups+1 {
			print("%s: %s: and %d more", display(from), what, len(groups)-maxGroups)
			return
		}
		print("%s: %s: %s", display(from), what, g)
	}
}

// refused prints the losses that are not allowed, and the flags that would allow them.
func (a *app) refused(from string, c *conversion, losses []convert.Loss, err error) (document,
	error) {
	var le *convert.LossError
	if !errors.As(err, &le) {
		return nil, advise("another target", err)
	}
	var kinds convert.LossKind
	var options []string
	for _, l := range le.Losses {
		kinds |= l.Kind
		if l.Option != "" && !slices.Contains(options, l.Option) {
			options = append(options, l.Option)
		}
	}
	a.listLosses(a.message, from, "would be lost", le.Losses)
	try := "--allow " + kinds.String()
	if slices.ContainsFunc(le.Losses, func(l convert.Loss) bool { return l.Field == "shards" }) {
		try = "the directory of the model, its index or its first shard, or " + try
	}
	for _, option := range options {
		try = flagOf(&convert.OptionError{Option: option}, 0) + ", or " + try
	}
	a.message("%s: nothing was written\n  try: %s", display(from), try)
	d := c.result(from, "", losses, false)
	d.status = statusUnreadable
	return d, nil
}

// A convertDocument is convert --json.
type convertDocument struct {
	File    string    `json:"file,omitempty"`
	Output  string    `json:"output"`
	Format  string    `json:"format"`
	Version string    `json:"version"`
	Written bool      `json:"written"`
	Losses  []lossRow `json:"losses"`
	Files   []string  `json:"files,omitempty"` // of a directory
	outcome
	summary string // of a dry run
}

func (d *convertDocument) print(a *app) {
	if d.summary != "" && !a.quiet {
		a.printLine(display(cmp.Or(d.File, theInputs)).word() + " to " + d.Format + ": " +
			d.summary)
	}
}

type lossRow struct {
	Kind      string `json:"kind"`
	Field     string `json:"field"`
	Reason    string `json:"reason"`
	Requested bool   `json:"requested,omitempty"`
	Allowed   bool   `json:"allowed"`
}

func (c *conversion) result(from, out string, losses []convert.Loss,
	written bool) *convertDocument {
	if from == theInputs {
		from = ""
	}
	d := &convertDocument{File: from, Output: out, Format: c.target.String(), Version: c.version,
		Written: written, Losses: []lossRow{}}
	if c.dryRun && out != "" {
		d.summary = summaryOf(losses)
	}
	if c.version == "" {
		d.Version = c.target.Writes()[0]
	}
	for _, l := range losses {
		d.Losses = append(d.Losses, lossRow{l.Kind.String(), l.Field, l.Why(), l.Requested,
			l.Requested || c.opts.Allow&l.Kind != 0})
	}
	return d
}
