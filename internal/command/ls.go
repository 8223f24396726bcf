package command

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tensorfile/tensorfile/inspect"
)

// A lister is what the flags of ls make of the rows of a file.
type lister struct {
	filter  []string
	sort    string
	fold    bool
	matched bool // something did, in one of the files
}

func lsCommand(a *app) *cobra.Command {
	var l lister
	cmd := &cobra.Command{
		Use:     "ls FILE...",
		Aliases: []string{"list"},
		Short:   "List tensors and blobs: name, dtype, shape, bytes, offset, encoding",
		Long: `List tensors and blobs. On a terminal the table is made to fit: columns at the right are
left out first, then names are shortened in their middle.`,
		Example: `  tensorfile ls model.safetensors
  tensorfile ls --fold --sort -bytes model.gguf
  tensorfile ls --filter '*.weight' --json model.zt`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := l.check(); err != nil {
				return err
			}
			err := a.each(args, func(in *input) (document, error) {
				l.note(in)
				if a.json {
					return l.document(in), nil
				}
				l.print(a, in)
				return nil, nil
			})
			return l.unmatched(a, err)
		},
	}
	f := cmd.Flags()
	l.filterFlag(f)
	f.StringVar(&l.sort, "sort", "", "order by `KEY`: "+strings.Join(sortKeys, ", ")+"; -KEY for the reverse")
	f.BoolVar(&l.fold, "fold", false, "layer numbers into one line")
	return cmd
}

var sortKeys = []string{"name", "dtype", "shape", "bytes", "offset"}

func (l *lister) filterFlag(f *pflag.FlagSet) {
	f.StringArrayVar(&l.filter, "filter", nil, "only names that match `GLOB` (* ? [a-z]; again for more)")
}

func (l *lister) check() error {
	if key := strings.TrimPrefix(l.sort, "-"); key != "" && !slices.Contains(sortKeys, key) {
		return unknownWord("--sort", "key", key, sortKeys)
	}
	for _, g := range l.filter {
		if err := checkGlob(g); err != nil {
			return fmt.Errorf("--filter: %w", err)
		}
	}
	return nil
}

// note remembers whether a name of a file passes the filters.
func (l *lister) note(in *input) {
	for name := range in.names() {
		if l.matched {
			return
		}
		l.matched = l.wants(name)
	}
}

// unmatched is err, or the error of filters that nothing passed.
func (l *lister) unmatched(a *app, err error) error {
	if err != nil || l.matched || len(l.filter) == 0 || a.status != statusOK || a.ctx.Err() != nil {
		return err
	}
	return wrong(tryNames, "--filter: no tensor or blob is named %s", quote(strings.Join(l.filter, " or ")))
}

// wants tells whether a name passes the filters.
func (l *lister) wants(name string) bool { return len(l.filter) == 0 || matchAny(l.filter, name) }

func matchAny(globs []string, name string) bool {
	for _, g := range globs {
		if ok, _ := glob(g, name); ok {
			return true
		}
	}
	return false
}

func (l *lister) apply(rows []row) []row {
	if len(l.filter) > 0 {
		rows = slices.DeleteFunc(rows, func(r row) bool { return !l.wants(r.name) })
	}
	if l.fold {
		rows = foldRows(rows)
	}
	key, reverse := strings.CutPrefix(l.sort, "-")
	compare := map[string]func(a, b *row) int{
		"name":   func(a, b *row) int { return compareNames(a.name, b.name) },
		"dtype":  func(a, b *row) int { return cmp.Compare(a.dtype, b.dtype) },
		"shape":  func(a, b *row) int { return slices.Compare(a.tensor.Shape, b.tensor.Shape) },
		"bytes":  func(a, b *row) int { return cmp.Compare(a.bytes, b.bytes) },
		"offset": func(a, b *row) int { return cmp.Compare(a.offset(), b.offset()) },
	}[key]
	if compare != nil {
		slices.SortStableFunc(rows, func(a, b row) int {
			if reverse {
				return compare(&b, &a)
			}
			return compare(&a, &b)
		})
	}
	return rows
}

// offset is where a tensor begins, or its first part; -1 outside of the file.
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

// each yields the rows that are wanted, in the order that is. Only sorting and
// folding need all of them at once.
func (l *lister) each(in *input) iter.Seq[*row] {
	if l.sort == "" && !l.fold && len(l.filter) == 0 {
		return in.eachRow()
	}
	return func(yield func(*row) bool) {
		rows := l.apply(in.rows())
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
}

func (l *lister) document(in *input) *lsDocument {
	d := &lsDocument{in.name, in.Format().String(), in.Version(), in.Size(), inspect.Attributes(in.File),
		[]tensorRow{}, []blobRow{}, in.warnings()}
	for r := range l.each(in) {
		d.Tensors = append(d.Tensors, r.document())
	}
	for name, b := range in.Blobs() {
		if l.wants(name) {
			d.Blobs = append(d.Blobs, blobDocument(name, b))
		}
	}
	return d
}

func (l *lister) print(a *app, in *input) {
	t := newTable("NAME", "DTYPE", "SHAPE", ">BYTES", ">OFFSET", "ENCODING", "DIGEST")
	t.spare = []int{6, 4, 5}
	t.grow(in.Len())
	tensors, blobs, bytes := 0, 0, int64(0)
	for r := range l.each(in) {
		r.print(a, t)
		tensors += max(r.entries, 1)
		bytes += max(r.bytes, 0)
		if r.entries > 0 {
			continue
		}
		for j := range r.tensor.Parts {
			p := &r.tensor.Parts[j]
			a.printPayload(t, "  ", p.Role, dtypeOf(p.DType, p.Data), p.Data)
		}
	}
	for name, b := range in.Blobs() {
		if l.wants(name) {
			a.printPayload(t, "", name, "(blob)", b)
			blobs++
			bytes += max(b.Size(), 0)
		}
	}
	t.print(a)
	line := count(tensors, "tensor")
	if blobs > 0 {
		line += ", " + count(blobs, "blob")
	}
	fmt.Fprintf(a.out, "%s, %s\n", line, a.appendSize(nil, bytes))
	a.printWarnings(in.warnings())
}

// foldRows joins rows whose names differ in numbers only and that are alike
// otherwise. The name has {0-31} where the numbers were.
func foldRows(rows []row) []row {
	type group struct {
		at      int
		numbers [][]int64 // by place in the name
	}
	groups := map[string]*group{}
	var out []row
	for _, r := range rows {
		pattern, numbers := cutNumbers(r.name)
		key := fmt.Sprintf("%q %s %v %v %s %q", pattern, r.dtype, r.tensor.Shape, []int(r.tensor.Order), r.scheme(), r.stored.Encoding)
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
			f.method, f.value, f.buffer, f.mutable, f.path, f.attributes = nil, nil, 0, false, nil, nil
		}
		g.numbers = append(g.numbers, numbers)
	}
	for _, g := range groups {
		f := &out[g.at]
		if f.entries == 1 {
			f.entries = 0 // a row of its own
			continue
		}
		pattern, _ := cutNumbers(f.name)
		f.name = fillNumbers(pattern, g.numbers)
	}
	return out
}

// cutNumbers splits a name at its runs of digits.
func cutNumbers(name string) (pattern []string, numbers []int64) {
	start := 0
	for i := 0; i < len(name); {
		j := i
		for j < len(name) && name[j] >= '0' && name[j] <= '9' {
			j++
		}
		// A leading zero, or more digits than fit, is a name and no number.
		if j == i || j-i > 9 || (name[i] == '0' && j-i > 1) {
			i = max(j, i+1)
			continue
		}
		n := int64(0)
		for _, c := range name[i:j] {
			n = 10*n + int64(c-'0')
		}
		pattern = append(pattern, name[start:i])
		numbers = append(numbers, n)
		start, i = j, j
	}
	return append(pattern, name[start:]), numbers
}

func fillNumbers(pattern []string, all [][]int64) string {
	var b strings.Builder
	for i, text := range pattern {
		b.WriteString(text)
		if i == len(pattern)-1 {
			break
		}
		values := make([]int64, len(all))
		for j := range all {
			values[j] = all[j][i]
		}
		slices.Sort(values)
		values = slices.Compact(values)
		if len(values) == 1 {
			fmt.Fprint(&b, values[0])
			continue
		}
		b.WriteByte('{')
		for j := 0; j < len(values); {
			k := j
			for k+1 < len(values) && values[k+1] == values[k]+1 {
				k++
			}
			if j > 0 {
				b.WriteByte(',')
			}
			fmt.Fprint(&b, values[j])
			if k > j {
				fmt.Fprintf(&b, "-%d", values[k])
			}
			j = k + 1
		}
		b.WriteByte('}')
	}
	return b.String()
}

// compareNames orders names as people do: layer 9 before layer 10.
func compareNames(a, b string) int {
	pa, na := cutNumbers(a)
	pb, nb := cutNumbers(b)
	for i := range min(len(pa), len(pb)) {
		if c := cmp.Compare(pa[i], pb[i]); c != 0 {
			return c
		}
		if i < len(na) && i < len(nb) {
			if c := cmp.Compare(na[i], nb[i]); c != 0 {
				return c
			}
		}
	}
	return cmp.Or(cmp.Compare(len(pa), len(pb)), cmp.Compare(a, b))
}
