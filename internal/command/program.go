package command

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/convert"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/pte"
	"github.com/tensorfile/tensorfile/tensor"
)

const bundleExt = ".bpte" // of a program with its test cases

// convertProgram rewrites a .pte: constants moved out or in, data aligned anew.
func (a *app) convertProgram(r *pte.Reader, from, out string, c *conversion) error {
	e := pte.NewEdit(r)
	var moved []*tensor.Tensor
	var err error
	if c.externalize != "" {
		moved, err = e.Externalize(func(x *pte.Entry) string {
			if x.Role != pte.RoleConstant || !c.passes(x.Name) {
				return ""
			}
			return x.Name
		})
	}
	if err == nil && c.internalize {
		var n int
		if n, err = e.Internalize(a.findExternal); err == nil && n == 0 {
			err = fmt.Errorf("%w: --external has none of the external tensors", errExternal)
		}
	}
	if err != nil {
		return err
	}
	var losses []convert.Loss
	if b := r.Bundle(); b == nil {
		e.Unwrap()
	} else if !strings.EqualFold(filepath.Ext(out), bundleExt) {
		losses = append(losses, convert.LoseTestCases(b, tensorfile.PTE))
		if c.opts.Allow&losses[0].Kind == 0 {
			return a.refused(from, c, losses,
				&convert.LossError{Target: tensorfile.PTE, Losses: losses})
		}
		a.printLosses(from, losses, c)
		e.Unwrap()
	}
	switch {
	case c.externalize == "":
	case len(moved) == 0:
		a.note("%s: nothing to externalize: %s is not written", display(from),
			display(c.externalize))
	default:
		if err := a.mayWrite(c.externalize, &c.outputs); err != nil {
			return err
		}
		if c.dryRun {
			break
		}
		// The weights first: the program does not run without them.
		if err := ptd.WriteFile(a.ctx, c.externalize, tensor.Of(moved...), nil); err != nil {
			return err
		}
	}
	return a.writeConverted(from, out, c, losses, r.Size(), func(w io.Writer) error {
		return e.Write(a.ctx, w, &pte.WriterOptions{SegmentAlignment: c.align})
	})
}
