package command

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/tensorfile/tensorfile/inspect"
	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/pte"
	"github.com/tensorfile/tensorfile/tensor"
)

func extractCommand(a *app) *cobra.Command {
	var x extraction
	var l lister
	cmd := &cobra.Command{
		Use:   "extract FILE -o DIR",
		Short: "Write tensors as .npy files and blobs as they are into a directory",
		Long: `Write tensors as .npy files and blobs as they are into a directory, and never outside of
it. Names become safe file names; the list that is printed says which is which. Dtypes
that NumPy does not have are written as integers of the same bits. Each file appears
whole or not at all.`,
		Example: `  tensorfile extract model.npz -o arrays
  tensorfile extract model.pte -o parts --filter 'delegate/*'`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if x.dir == "" {
				return errors.New("extract needs -o DIR")
			}
			if err := l.check(); err != nil {
				return err
			}
			err := a.each(args, func(in *input) (document, error) {
				l.note(in)
				return a.extract(in, &x, &l)
			})
			return l.unmatched(a, err)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&x.dir, "output", "o", "", "the `DIR` to write into; it is made if it is not there")
	f.BoolVar(&x.force, "force", false, "replace files that are there")
	l.filterFlag(f)
	return cmd
}

type extraction struct {
	dir   string
	force bool
	names fileNames
}

func (a *app) extract(in *input, x *extraction, l *lister) (document, error) {
	if err := makeDir(x.dir); err != nil {
		return nil, err
	}
	if err := a.checkDecodedTotal(in, l); err != nil {
		return nil, err
	}
	d := &extractDocument{File: in.name, Tensors: []extractRow{}, Blobs: []extractRow{}}
	// done notes a file that is written, or why not. Failures of single tensors do
	// not stop the rest; those of the directory do.
	done := func(list *[]extractRow, r extractRow, err error) error {
		switch {
		case isInterrupt(err):
			return err
		case err != nil:
			a.fail(in.name, fmt.Errorf("%s: %w", escape(r.Name), err))
			r.Path, r.As, r.Error = "", "", describe(err)
			if errors.As(err, new(*atomicfile.Error)) {
				return errStop
			}
		case !a.json && !a.quiet:
			note := ""
			if r.As != "" {
				note = " (as " + r.As + ")"
			}
			fmt.Fprintf(a.out, "%s -> %s%s\n", escape(r.Name), r.Path, note)
		}
		*list = append(*list, r)
		return nil
	}
	bar := a.bar(in.name, in.payload())
	defer bar.done()
	err := func() error {
		for r := range in.eachRow() {
			if !l.wants(r.name) {
				continue
			}
			t := a.resolve(r.tensor)
			row := extractRow{rowName: r.rowName(), External: t.External}
			if t.External || r.empty {
				d.Tensors = append(d.Tensors, row)
				continue
			}
			if t.Dense() {
				var err error
				row.Path, row.As, err = x.tensor(a, t, t.Name)
				if err := done(&d.Tensors, row, err); err != nil {
					return err
				}
			}
			for i := range t.Parts {
				row := extractRow{rowName: r.rowName(), Role: t.Parts[i].Role}
				p, err := inspect.Part(a.ctx, t, &t.Parts[i])
				if err == nil {
					row.Path, row.As, err = x.tensor(a, p, t.Name+"."+t.Parts[i].Role)
				}
				if err := done(&d.Tensors, row, err); err != nil {
					return err
				}
			}
			bar.add(max(t.Size(), 0))
		}
		for name, b := range in.Blobs() {
			if !l.wants(name) {
				continue
			}
			ext := blobExt(b)
			row := extractRow{rowName: &rowName{nameField: nameOf(name)}}
			var err error
			row.Path, err = x.blob(a, name, b, ext)
			if err := done(&d.Blobs, row, err); err != nil {
				return err
			}
		}
		return nil
	}()
	if err != nil && err != errStop {
		return nil, err
	}
	return d, nil
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
	As       string `json:"as,omitempty"` // the dtype that NumPy has, or bytes
	Error    string `json:"error,omitempty"`
}

// blobExt returns the extension of a file of a blob, of which its start shows what it is.
func blobExt(b tensor.Blob) string {
	head := make([]byte, min(max(b.Size(), 0), 16))
	n, _ := b.ReadAt(head, 0)
	if _, ext := pte.Recognize(head[:n]); ext != "" {
		return "." + ext
	}
	return ".bin"
}

// errStop ends an extraction whose reason was reported.
var errStop = errors.New("stop")

// tensor writes one tensor and says as what, where NumPy does not have its type.
// A type without whole bytes, or unknown, is written as its bytes.
func (x *extraction) tensor(a *app, t *tensor.Tensor, name string) (file, note string, err error) {
	_, note, ok := numpyType(t.DType)
	if !ok {
		file, err := x.blob(a, name, t.Data, ".bin")
		return file, "bytes", err
	}
	if err := t.Check(); err != nil {
		return "", "", err
	}
	file, err = x.create(name, ".npy", func(w io.Writer) error { return writeNPY(a.ctx, w, t) })
	return file, note, err
}

func (x *extraction) blob(a *app, name string, b tensor.Blob, ext string) (string, error) {
	return x.create(name, ext, func(w io.Writer) error { return copyBlob(a.ctx, w, b) })
}

// create writes a file into the directory, which appears when it is complete. Without
// --force nothing that exists is replaced; with it a link is replaced, not followed.
func (x *extraction) create(name, ext string, write func(w io.Writer) error) (string, error) {
	file := x.names.name(name, ext)
	full := filepath.Join(x.dir, file)
	if err := mayWriteOut(full, x.force); err != nil {
		return "", err
	}
	f, err := atomicfile.CreateNoFollow(full)
	if err != nil {
		return "", err
	}
	f.NoSync() // there may be many; the system has them on the disk soon
	defer f.Abort()
	if err := write(f); err != nil {
		return "", err
	}
	return file, f.Close()
}
