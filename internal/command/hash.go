package command

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tensorfile/tensorfile/inspect"
	"github.com/tensorfile/tensorfile/tensor"
)

func hashCommand(a *app) *cobra.Command {
	var l lister
	var whole, content bool
	cmd := &cobra.Command{
		Use:   "hash FILE...",
		Short: "Print the SHA-256 of every tensor, of the file, or of its content",
		Long: `Print the SHA-256 of every tensor's decoded bytes, in storage order.
--file prints the SHA-256 of the file. --content prints one digest of the names, dtypes,
shapes and values of all tensors, which does not depend on the format, the order of tensors
or the shards. State of a program without an initial value counts with its name, dtype and
shape.`,
		Example: `  tensorfile hash model.zt
  tensorfile hash --content model.safetensors model.zt`,
		Args: cobra.MinimumNArgs(1),
	}
	many := a.many(cmd, a.inputs, true)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if whole && content {
			return fmt.Errorf("--file and --content exclude each other")
		}
		if whole && a.dequantize != tensor.Unknown {
			return wrong("--content", "the bytes of the file have no weights")
		}
		if whole && len(l.filter) > 0 {
			return wrong("--content", "the bytes of the file are not chosen by --filter")
		}
		many.heading, a.single = !whole && !content, whole
		err := many.run(args, opened(func(a *app, in *input) (document, error) {
			if !whole {
				a.notePart(in)
			}
			l.noteNames(a, in)
			switch {
			case whole && in.isDirectory():
				return nil, advise("--content, or hash --file of each file in it",
					errors.New("is a directory"))
			case whole:
				return a.hashOne(in, false, func(p progress) (inspect.Sum, error) {
					return inspect.Hash(a.ctx, tensor.NewBlob(fileSource{in: in}), p)
				})
			case content:
				if err := a.checkDecodedTotal(in, &l); err != nil {
					return nil, err
				}
				all, err := a.resolved(in, &l)
				if err != nil {
					return nil, err
				}
				return a.hashOne(in, true, func(p progress) (inspect.Sum, error) {
					return inspect.Content(a.ctx, all, p)
				})
			}
			return a.hash(in, &l)
		}))
		return l.unmatched(a, err)
	}
	f := cmd.Flags()
	dequantizeFlag(f, &a.dequantize)
	l.filterFlag(f)
	f.BoolVar(&whole, "file", false, "print the SHA-256 of the file")
	f.BoolVar(&content, "content", false,
		"print one digest of names, dtypes, shapes and values")
	return cmd
}

// A fileHash is hash --json with --file or --content.
type fileHash struct {
	File    string       `json:"file"`
	SHA256  *inspect.Sum `json:"sha256,omitempty"`
	Content *inspect.Sum `json:"content,omitempty"`
	outcome
}

func (d *fileHash) print(a *app) {
	fmt.Fprintf(a.out, "%s  %s\n", cmp.Or(d.SHA256, d.Content), display(d.File))
}

// hashOne makes one hash of a file.
func (a *app) hashOne(in *input, content bool,
	sum func(progress) (inspect.Sum, error)) (document, error) {
	show, end := a.progress(in.name)
	s, err := sum(show)
	end()
	if err != nil {
		return nil, err
	}
	if content {
		return &fileHash{File: in.name, Content: &s}, nil
	}
	return &fileHash{File: in.name, SHA256: &s}, nil
}

// resolved returns the tensors of a file that pass the filters. External tensors are from
// the files of --external.
func (a *app) resolved(in *input, l *lister) (all []*tensor.Tensor, err error) {
	for t := range in.Tensors() {
		if !l.passes(t.Name) {
			continue
		}
		if t = a.resolve(t); t.External {
			return nil, fmt.Errorf("tensor %s: %w", quote(t.Name), errExternal)
		}
		all = append(all, t)
	}
	return all, nil
}

// A fileSource is the bytes of the file itself.
type fileSource struct {
	tensor.Computed
	in *input
}

func (f fileSource) Size() int64                             { return f.in.Size() }
func (f fileSource) ReadInto(p []byte) error                 { return tensor.ReadFull(f, p) }
func (f fileSource) Open() (io.ReadCloser, error)            { return tensor.Stream(f), nil }
func (f fileSource) ReadAt(p []byte, off int64) (int, error) { return f.in.readAt(p, off) }

// A hashRow is an element of tensors or blobs in hash --json, and of their parts.
type hashRow struct {
	*rowName
	Role     string       `json:"role,omitempty"`
	SHA256   *inspect.Sum `json:"sha256,omitempty"`
	Error    string       `json:"error,omitempty"`
	Parts    []hashRow    `json:"parts,omitempty"`
	External bool         `json:"external,omitempty"`

	label string
	empty bool
}

// A hashDocument is hash --json.
type hashDocument struct {
	File    string    `json:"file"`
	Tensors []hashRow `json:"tensors"`
	Blobs   []hashRow `json:"blobs"`
	outcome
}

func (d *hashDocument) print(a *app) {
	for _, rows := range [][]hashRow{d.Tensors, d.Blobs} {
		for i := range rows {
			rows[i].print(a)
			for k := range rows[i].Parts {
				rows[i].Parts[k].print(a)
			}
		}
	}
}

func (r *hashRow) print(a *app) {
	sum := ""
	switch {
	case r.empty:
		sum = "(state without an initial value)"
	case r.External:
		sum = "(in another file: --external FILE)"
	case r.SHA256 == nil:
		return
	default:
		sum = r.SHA256.String()
	}
	fmt.Fprintf(a.out, "%-64s  %s\n", sum, r.label)
}

func (a *app) hash(in *input, l *lister) (document, error) {
	if err := a.checkDecodedTotal(in, l); err != nil {
		return nil, err
	}
	doc := &hashDocument{File: in.name, Tensors: []hashRow{}, Blobs: []hashRow{}}
	var rows []row
	var ts []*tensor.Tensor
	for r := range in.eachRow() {
		if !l.passes(r.name) {
			continue
		}
		rows = append(rows, *r)
		if t := a.resolve(r.tensor); !r.empty && !t.External {
			ts = append(ts, t)
		}
	}
	var blobs []string
	for name, b := range in.Blobs() {
		if l.passes(name) {
			blobs = append(blobs, name)
			ts = append(ts, &tensor.Tensor{Name: name, DType: tensor.U8,
				Shape: tensor.Shape{max(b.Size(), 0)}, Data: b})
		}
	}
	show, end := a.progress(in.name)
	defer end()
	next, stop := iter.Pull2(inspect.HashEach(a.ctx, slices.Values(ts), show))
	defer stop()
	for i := range rows {
		r, t := &rows[i], a.resolve(rows[i].tensor)
		line := hashRow{rowName: r.rowName(), label: r.label(), empty: r.empty,
			External: t.External && !r.empty}
		if !r.empty && !t.External {
			list, err, _ := next()
			if err != nil {
				return nil, err
			}
			for _, h := range list {
				if h.Role == "" {
					a.setHash(in, &line, h)
					continue
				}
				part := hashRow{Role: h.Role, label: r.label() + ":" + escape(h.Role)}
				a.setHash(in, &part, h)
				line.Parts = append(line.Parts, part)
			}
		}
		doc.Tensors = append(doc.Tensors, line)
	}
	for _, name := range blobs {
		list, err, _ := next()
		if err != nil {
			return nil, err
		}
		line := hashRow{rowName: &rowName{nameField: nameOf(name)}, label: escape(name)}
		a.setHash(in, &line, list[0])
		doc.Blobs = append(doc.Blobs, line)
	}
	return doc, nil
}

// setHash sets the hash of a row, or its error.
func (a *app) setHash(in *input, line *hashRow, h inspect.PayloadHash) {
	if h.Err != nil {
		line.Error = describe(h.Err)
		a.fail(in.name, fmt.Errorf("%s: %w", line.label, h.Err))
		return
	}
	line.SHA256 = &h.Sum
}

// resolve returns the tensor of --external for an external tensor, if there is one, else
// t.
func (a *app) resolve(t *tensor.Tensor) *tensor.Tensor {
	if !t.External {
		return t
	}
	if e := a.findExternal(t.Name); e != nil {
		return e
	}
	return t
}

// findExternal returns the tensor with that name in the files of --external, or nil.
func (a *app) findExternal(name string) *tensor.Tensor {
	for _, in := range a.externals {
		if t := in.Tensor(name); t != nil {
			return t
		}
	}
	return nil
}

// errExternal is the error of reading an external tensor without its file.
var errExternal = advise("--external FILE",
	fmt.Errorf("%w: the elements are in another file", errors.ErrUnsupported))
