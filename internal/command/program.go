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

// checkProgram fails if a flag is not for .pte to .pte.
func (c *conversion) checkProgram(out string) error {
	if by := tensorfile.ByName(c.externalize); c.externalize != "" && by != tensorfile.PTD &&
		(by != 0 || filepath.Clean(c.externalize) == filepath.Clean(out)) {
		return wrong("--externalize FILE.ptd", "%s cannot be the name of the .ptd",
			quote(c.externalize))
	}
	for _, f := range []struct {
		name  string
		given bool
	}{
		{"rename", len(c.rename) > 0},
		{"filter", len(c.filter) > 0 && c.externalize == ""},
		{"attributes", len(c.keep) > 0},
		{"dtype", len(c.dtypes) > 0 || len(c.blocks) > 0},
		{"dequantize", c.opts.Dequantize != tensor.Unknown},
		{"dense", c.opts.Dense},
		{"row-major", c.opts.RowMajor},
	} {
		if f.given {
			return wrong("tensorfile edit, which changes names and attributes",
				"--%s is not for .pte to .pte", f.name)
		}
	}
	return nil
}

// convertProgram converts a .pte to a .pte: it moves constants to or from a .ptd, and
// aligns data.
func (a *app) convertProgram(r *pte.Reader, from, out string, c *conversion) (document, error) {
	if err := c.checkProgram(out); err != nil {
		return nil, err
	}
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
		return nil, err
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
		// The .ptd first: the program does not run without it.
		if err := a.write(c.externalize, &c.outputs, 0, func(w io.Writer) error {
			p := ptd.NewWriter(w, nil)
			if err := p.AddAll(a.ctx, tensor.Of(moved...)); err != nil {
				return err
			}
			return p.Close()
		}); err != nil {
			return nil, err
		}
	}
	return a.writeConverted(from, out, c, losses, func(w io.Writer) error {
		return e.Write(a.ctx, w, &pte.WriterOptions{SegmentAlignment: c.align})
	})
}
