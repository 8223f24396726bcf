package command

import (
	"errors"
	"slices"

	"github.com/tensorfile/tensorfile/convert"
)

// printLosses lists those that are allowed.
func (a *app) printLosses(from string, losses []convert.Loss, c *conversion) {
	a.listLosses(a.note, from, "allowed",
		slices.DeleteFunc(slices.Clone(losses),
			func(l convert.Loss) bool { return c.opts.Allow&l.Kind == 0 }))
}

// listLosses lists losses, those of one kind and reason together, the first hundred.
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

// refused lists what would be lost and is not allowed.
func (a *app) refused(from string, c *conversion, losses []convert.Loss, err error) error {
	var le *convert.LossError
	if !errors.As(err, &le) {
		return advise("another target", err)
	}
	a.status = worse(a.status, statusUnreadable)
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
	for _, option := range options {
		try += ", or " + flagOf(&convert.OptionError{Option: option})
	}
	a.message("%s: nothing was written\n  try: %s", display(from), try)
	if a.json {
		return a.printJSON(c.result(from, "", losses, false))
	}
	return nil
}

// A convertDocument is convert --json.
type convertDocument struct {
	File    string    `json:"file,omitempty"`
	Output  string    `json:"output"`
	Format  string    `json:"format"`
	Version string    `json:"version"`
	Written bool      `json:"written"`
	Losses  []lossRow `json:"losses"`
}

type lossRow struct {
	Kind    string `json:"kind"`
	Field   string `json:"field"`
	Reason  string `json:"reason"`
	Allowed bool   `json:"allowed"`
}

func (c *conversion) result(from, out string, losses []convert.Loss,
	written bool) *convertDocument {
	if from == theInputs {
		from = ""
	}
	d := &convertDocument{from, out, c.target.String(), c.version, written, []lossRow{}}
	if c.version == "" {
		d.Version = c.target.Writes()[0]
	}
	for _, l := range losses {
		d.Losses = append(d.Losses, lossRow{l.Kind.String(), l.Field, l.Reason,
			c.opts.Allow&l.Kind != 0})
	}
	return d
}
