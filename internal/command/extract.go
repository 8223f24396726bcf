package command

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tensorfile/tensorfile/convert"
	"github.com/tensorfile/tensorfile/inspect"
	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/tensor"
)

func extractCommand(a *app) *cobra.Command {
	x := extraction{app: a}
	cmd := &cobra.Command{
		Use:   "extract FILE DIR",
		Short: "Write tensors as .npy files and blobs as they are into a directory",
		Long: `Write tensors as .npy files and blobs as they are into a directory, and
never outside it. Names are changed to safe file names; the output lists the file of each
name. Dtypes that NumPy does not have are written as integers of the same bits. --dtype
converts to another dtype, also quantised blocks. Each file appears whole or not at all. If
the command is interrupted, or a file cannot be written, the files that it made are removed,
and nothing is listed.`,
		Example: `  tensorfile extract model.npz arrays
  tensorfile extract model.pte parts --filter 'delegate/*'`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, dir, err := a.beginDirectory(&x.outputs, args)
			if err != nil {
				return err
			}
			x.dir = dir
			err = a.with(name, x.run)
			return x.unmatched(a, err)
		},
	}
	x.outputs.flags(cmd.Flags(), "DIR")
	x.filterFlag(cmd.Flags())
	dtypeFlag(cmd.Flags(), &x.dtype)
	return cmd
}

// An extraction is a call of extract.
type extraction struct {
	*app
	outputs
	lister
	dtype tensor.DType // to convert to; Unknown: as stored
	dir   string
	to    *convert.Extractor
}

func (x *extraction) run(in *input) error {
	x.notePart(in)
	x.noteNames(x.app, in)
	if err := x.checkDecodedTotal(in, &x.lister); err != nil {
		return err
	}
	total, err := in.payload(), error(nil)
	show, end := x.progress(in.name)
	defer end()
	x.to, err = convert.NewExtractor(x.dir, &convert.ExtractOptions{Replace: x.force,
		DryRun: x.dryRun, Progress: func(done int64) { show(done, max(total, done)) }})
	if err != nil {
		return err
	}
	defer x.to.Close()
	d := &extractDocument{File: in.name, Tensors: []extractRow{}, Blobs: []extractRow{}}
	err = x.tensors(in, d)
	if err == nil {
		err = x.blobs(in, d)
	}
	switch {
	case errors.Is(err, errStop):
		x.to.Abort()
		if !x.dryRun {
			x.message("%s: not extracted: files that were not there before are removed",
				display(in.name))
		}
		return nil
	case err != nil:
		x.to.Abort()
		return err
	case x.json:
		return x.printJSON(d)
	}
	x.list(d.Tensors)
	x.list(d.Blobs)
	return nil
}

// list prints the name of each tensor or blob and the file that has it.
func (x *extraction) list(rows []extractRow) {
	for _, r := range rows {
		if r.Path == "" || x.quiet {
			continue
		}
		note := ""
		if r.As != "" {
			note = " (as " + r.As + ")"
		}
		fmt.Fprintf(x.out, "%s -> %s%s\n", escape(r.Name), r.Path, note)
	}
}

func (x *extraction) tensors(in *input, d *extractDocument) error {
	for r := range in.eachRow() {
		if !x.passes(r.name) {
			continue
		}
		t := x.resolve(r.tensor)
		row := extractRow{rowName: r.rowName(), External: t.External}
		if t.External || r.empty {
			d.Tensors = append(d.Tensors, row)
			continue
		}
		values, err := t, error(nil)
		if x.dtype != tensor.Unknown {
			if values, err = tensor.As(t, x.dtype); err != nil && !t.Dense() {
				values, err = t, nil // its parts are written instead
			}
		}
		if t.Dense() || values != t {
			if err == nil {
				row.Path, row.As, err = x.to.Tensor(x.ctx, t.Name, values)
			}
			if err := x.add(in, &d.Tensors, &row, err); err != nil {
				return err
			}
		}
		for i := range t.Parts {
			if !t.Dense() && values != t { // quantised blocks
				break
			}
			row := extractRow{rowName: r.rowName(), Role: t.Parts[i].Role}
			p, err := inspect.Part(x.ctx, t, &t.Parts[i])
			if err == nil {
				row.Path, row.As, err = x.to.Tensor(x.ctx, t.Name+"."+row.Role, p)
			}
			if err := x.add(in, &d.Tensors, &row, err); err != nil {
				return err
			}
		}
	}
	return nil
}

func (x *extraction) blobs(in *input, d *extractDocument) error {
	for name, b := range in.Blobs() {
		if !x.passes(name) {
			continue
		}
		row := extractRow{rowName: &rowName{nameField: nameOf(name)}}
		var err error
		row.Path, err = x.to.Blob(x.ctx, name, b)
		if err := x.add(in, &d.Blobs, &row, err); err != nil {
			return err
		}
	}
	return nil
}

// add adds the row of a file that was written, or of the error. An error of one tensor
// does not stop the others; add returns errStop for an error of the directory.
func (x *extraction) add(in *input, list *[]extractRow, r *extractRow, err error) error {
	switch {
	case isInterrupt(err):
		return err
	case err != nil:
		x.fail(in.name, fmt.Errorf("%s: %w", escape(r.Name), err))
		r.Path, r.As, r.Error = "", "", describe(err)
		if errors.As(err, new(*atomicfile.Error)) {
			return errStop
		}
	}
	*list = append(*list, *r)
	return nil
}

// An extractDocument is extract --json.
type extractDocument struct {
	File    string       `json:"file"`
	Tensors []extractRow `json:"tensors"`
	Blobs   []extractRow `json:"blobs"`
}

type extractRow struct {
	*rowName
	External bool   `json:"external,omitempty"`
	Role     string `json:"role,omitempty"`
	Path     string `json:"path,omitempty"`
	As       string `json:"as,omitempty"` // the dtype in the .npy, if it is another
	Error    string `json:"error,omitempty"`
}

// errStop ends an extraction whose error was already reported.
var errStop = errors.New("stop")
