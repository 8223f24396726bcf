package command

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tensorfile/tensorfile/inspect"
	"github.com/tensorfile/tensorfile/quant"
	"github.com/tensorfile/tensorfile/tensor"
)

// A lister has the flags that choose, fold and sort the rows of a file.
type lister struct {
	filter globs
	sort   order[row]
	fold   bool
	parts  bool
}

func lsCommand(a *app) *cobra.Command {
	var l lister
	cmd := &cobra.Command{
		Use:     "ls FILE...",
		Aliases: []string{"list"},
		Short:   "List tensors and blobs: dtype, shape, bytes, offset, encoding",
		Long: `List tensors and blobs, one per line. DTYPE also shows the type of quantised
blocks, and in brackets the layout of a tensor that is not dense. On a terminal, or if the
variable COLUMNS is set, a table is made to fit: first the parts that all names share are
left out, then columns at the right, then names are shortened in the middle, but stay
distinct.`,
		Example: `  tensorfile ls model.safetensors
  tensorfile ls --fold --sort bytes model.gguf
  tensorfile ls --filter '*.weight' --json model.zt`,
		Args: cobra.MinimumNArgs(1),
	}
	many := a.many(cmd, a.inputs, true)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		err := many.run(args, opened(func(a *app, in *input) (document, error) {
			l.noteNames(a, in)
			if a.json {
				return l.document(in), nil
			}
			return l.listing(a, in), nil
		}))
		return l.unmatched(a, err)
	}
	f := cmd.Flags()
	dequantizeFlag(f, &a.dequantize)
	l.filterFlag(f)
	sortFlag(f, &l.sort, map[string]order[row]{
		"name":   func(a, b *row) int { return inspect.CompareNames(a.name, b.name) },
		"dtype":  func(a, b *row) int { return cmp.Compare(a.typeName(), b.typeName()) },
		"shape":  func(a, b *row) int { return slices.Compare(a.tensor.Shape, b.tensor.Shape) },
		"bytes":  compareBytes,
		"size":   compareBytes,
		"offset": func(a, b *row) int { return cmp.Compare(a.offset(), b.offset()) },
		"encoding": func(a, b *row) int {
			return cmp.Compare(a.stored.Encoding, b.stored.Encoding)
		},
	}, "bytes", "size")
	f.BoolVar(&l.parts, "parts", false, "also list the parts of tensors that are not dense")
	f.BoolVar(&l.fold, "fold", false, "list tensors that differ only in layer numbers, and the "+
		"parts of a weight, in one line; {3-31/4} is 3, 7, … 31")
	return cmd
}

func compareBytes(a, b *row) int { return cmp.Compare(a.bytes, b.bytes) }

func (l *lister) filterFlag(f *pflag.FlagSet) {
	f.Var(&l.filter, "filter",
		"only names that match `GLOB` (* ? [a-z]; may repeat; !GLOB excludes)")
}

// noteNames records whether a name of a file passes the filters.
func (l *lister) noteNames(a *app, in *input) {
	for name := range in.names() {
		if a.matched {
			return
		}
		a.matched = l.passes(name)
	}
}

// unmatched returns err, or if it is nil the error of filters that no name passed.
func (l *lister) unmatched(a *app, err error) error {
	if err != nil || a.matched || len(l.filter) == 0 || a.status != statusOK ||
		a.ctx.Err() != nil {
		return err
	}
	return l.filter.noMatch("--filter")
}

// passes reports whether a name passes the filters.
func (l *lister) passes(name string) bool { return l.filter.match(name) }

// choose returns the rows that pass the filters and, if there are names or patterns,
// match one of them.
func (l *lister) choose(in *input, names []string) (rows []row, err error) {
	used := make([]bool, len(names))
	for r := range in.eachRow() {
		i := slices.IndexFunc(names, func(n string) bool {
			ok, _ := glob(n, r.name)
			return ok || n == r.name
		})
		if i >= 0 {
			used[i] = true
		}
		if l.passes(r.name) && (i >= 0 || len(names) == 0) {
			rows = append(rows, *r)
		}
	}
	if i := slices.Index(used, false); i >= 0 {
		return nil, noTensor(in, names[i])
	}
	return rows, nil
}

func (l *lister) apply(rows []row) []row {
	if len(l.filter) > 0 {
		rows = slices.DeleteFunc(rows, func(r row) bool { return !l.passes(r.name) })
	}
	if l.fold {
		rows = foldRows(rows)
	}
	l.sort.sort(rows)
	return rows
}

// offset returns the offset of a tensor or of its first part; -1 if it is not in the
// file.
func (r *row) offset() int64 {
	if r.inFile {
		return r.stored.Offset
	}
	first := int64(-1)
	for i := range r.tensor.Parts {
		if st, ok := r.tensor.Parts[i].Data.Stored(); ok && (first < 0 || st.Offset < first) {
			first = st.Offset
		}
	}
	return first
}

// each yields the rows that pass the filters, folded and sorted. Without these flags it
// holds one row at a time.
func (l *lister) each(in *input) iter.Seq[*row] {
	if l.sort == nil && !l.fold && len(l.filter) == 0 {
		return in.eachRow()
	}
	return func(yield func(*row) bool) {
		rows := in.rows()
		if l.fold {
			rows = joinParts(rows, quant.Find(in.File, in.config()))
		}
		rows = l.apply(rows)
		for i := range rows {
			if !yield(&rows[i]) {
				return
			}
		}
	}
}

// A lsDocument is ls --json.
type lsDocument struct {
	File       string                `json:"file"`
	Format     string                `json:"format"`
	Version    string                `json:"version"`
	Size       int64                 `json:"size"`
	Attributes inspect.AttributeList `json:"attributes"`
	Tensors    []tensorRow           `json:"tensors"`
	Blobs      []blobRow             `json:"blobs"`
	Warnings   []string              `json:"warnings"`
	outcome

	table *table // in place of Tensors and Blobs, as text
	total string
}

func (l *lister) document(in *input) *lsDocument {
	d := &lsDocument{File: in.name, Format: inspect.FormatName(in.File), Version: in.Version(),
		Size: in.TotalSize(), Attributes: inspect.Attributes(in.File),
		Tensors: []tensorRow{}, Blobs: []blobRow{}, Warnings: in.warnings()}
	for r := range l.each(in) {
		d.Tensors = append(d.Tensors, r.document())
	}
	weights := inspect.BlobTensors(in.File)
	for name, b := range in.Blobs() {
		if l.passes(name) {
			d.Blobs = append(d.Blobs, blobDocument(name, b, weights[name]))
		}
	}
	return d
}

// listing is document for text: it has a table, which takes less memory than the rows.
func (l *lister) listing(a *app, in *input) *lsDocument {
	t := newTable("NAME", "DTYPE", "SHAPE", ">BYTES", ">OFFSET", "ENCODING", "DIGEST")
	t.spare = []int{6, 4, 5}
	t.grow(in.Len())
	tensors, blobs, bytes := 0, 0, int64(0)
	for r := range l.each(in) {
		r.print(a, t)
		tensors += max(r.entries, 1)
		bytes += max(r.bytes, 0)
		if r.entries > 0 || !l.parts {
			continue
		}
		for j := range r.tensor.Parts {
			p := &r.tensor.Parts[j]
			a.printPayload(t, "  ", p.Role, dtypeOf(p.DType, p.Data), p.Data)
		}
	}
	weights := inspect.BlobTensors(in.File)
	for name, b := range in.Blobs() {
		if l.passes(name) {
			if w := weights[name]; w != nil {
				r := row{tensor: w, name: name, dtype: w.DType.String() + " (blob)",
					bytes: b.Size()}
				r.stored, r.inFile = b.Stored()
				r.print(a, t)
			} else {
				a.printPayload(t, "", name, "(blob)", b)
			}
			blobs++
			bytes += max(b.Size(), 0)
		}
	}
	d := &lsDocument{table: t, Warnings: in.warnings(), total: count(tensors, "tensor")}
	if tensors+blobs == 0 && len(l.filter) > 0 {
		return &lsDocument{} // unmatched reports it
	}
	if blobs > 0 {
		d.total += ", " + count(blobs, "blob")
	}
	d.total += ", " + a.size(bytes)
	return d
}

func (d *lsDocument) print(a *app) {
	if d.table != nil {
		d.table.print(a)
		fmt.Fprintln(a.out, d.total)
	}
	a.printWarnings(d.Warnings)
}

// joinParts replaces the rows of the parts of each quantised weight with one row.
func joinParts(rows []row, set *quant.Set) []row {
	of := map[string]*quant.Weight{} // by names of parts
	for _, w := range set.Weights {
		for _, p := range w.Parts {
			of[p.Tensor.Name] = w
		}
	}
	var out []row
	for _, r := range rows {
		w := of[r.name]
		switch {
		case w == nil:
			out = append(out, r)
		case w.Parts[0].Tensor.Name == r.name:
			made := &tensor.Tensor{Name: w.Name, DType: w.DType, Shape: w.Tensor.Shape,
				Scheme: w.Scheme}
			joined := row{tensor: made, name: w.Name, dtype: w.DType.String()}
			for _, p := range w.Parts {
				joined.bytes += max(inspect.DecodedSize(p.Tensor), 0)
				data := p.Tensor.Data
				if !p.Tensor.Dense() && len(p.Tensor.Parts) == 1 { // blocks
					data = p.Tensor.Parts[0].Data
				}
				made.Parts = append(made.Parts, tensor.Part{Role: p.Role, DType: p.Tensor.DType,
					Data: data})
			}
			out = append(out, joined)
		}
	}
	return out
}

// foldRows joins rows that are alike except for numbers in their names. The joined name
// has a range such as {0-31} in place of the numbers.
func foldRows(rows []row) []row {
	type group struct {
		at      int
		numbers [][]int64 // by place in the name
	}
	groups := map[string]*group{}
	var out []row
	for _, r := range rows {
		pattern, numbers := inspect.CutNumbers(r.name)
		key := fmt.Sprintf("%q %s %v %v %s %q", pattern, r.dtype, r.tensor.Shape,
			[]int(r.tensor.Order), r.scheme(), r.stored.Encoding)
		g := groups[key]
		if g == nil {
			g = &group{at: len(out)}
			groups[key] = g
			r.entries = 0
			out = append(out, r)
		}
		f := &out[g.at]
		if f.entries++; f.entries > 1 {
			if f.bytes >= 0 && r.bytes >= 0 {
				f.bytes += r.bytes
			} else {
				f.bytes = -1
			}
			f.method, f.value, f.buffer, f.mutable = nil, nil, 0, false
			f.path, f.attributes, f.aliasOf = nil, nil, ""
		}
		g.numbers = append(g.numbers, numbers)
	}
	for _, g := range groups {
		f := &out[g.at]
		if f.entries == 1 {
			f.entries = 0 // a row of its own
			continue
		}
		pattern, _ := inspect.CutNumbers(f.name)
		f.name = inspect.JoinNumbers(pattern, g.numbers)
	}
	return out
}
