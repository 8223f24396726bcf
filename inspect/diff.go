package inspect

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/pte"
	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/torch"
)

// DiffOptions are options of [Diff]; nil is the zero value.
type DiffOptions struct {
	// Tolerance, Relative, Numeric and Figures are as in CompareOptions.
	Tolerance, Relative float64
	Numeric, Figures    bool
	// IgnoreDType compares values even if the dtypes differ.
	IgnoreDType bool
	// IgnoreBlobs, IgnoreAttributes and IgnorePrograms say what is not compared.
	IgnoreBlobs, IgnoreAttributes, IgnorePrograms bool
	// RenameA, if not nil, returns the name under which a tensor or blob of a is
	// compared, filtered and reported.
	RenameA func(name string) string
	// Filter, if not nil, reports which tensors and blobs are compared. Attributes and
	// programs are not compared then.
	Filter func(name string) bool
	// External, if not nil, returns the tensor with the elements of a tensor whose data
	// is in another file, or nil.
	External func(name string) *tensor.Tensor
	// Progress, if not nil, is called with the bytes of both sides read so far and in
	// all, from one goroutine at a time; the last call has done = total.
	Progress func(done, total int64)
}

// A DiffReport says what differs between two files.
type DiffReport struct {
	Equal   bool `json:"equal"`
	Tensors int  `json:"tensors"` // pairs of tensors, and tensors that are in one file
	Blobs   int  `json:"blobs"`   // as Tensors
	// Differ counts tensors of both files that differ, OnlyA and OnlyB tensors of one
	// file, NotCompared tensors of which something could not be compared.
	Differ      int          `json:"differ"`
	OnlyA       int          `json:"only_a"`
	OnlyB       int          `json:"only_b"`
	NotCompared int          `json:"not_compared"`
	Differences []Difference `json:"differences"`
}

// Summary returns in one line how many things differ.
func (r *DiffReport) Summary() string {
	number := func(n int, noun string) string {
		if n != 1 {
			noun += "s"
		}
		return fmt.Sprintf("%d %s", n, noun)
	}
	line := fmt.Sprintf("%d of %s differ, %d only in a, %d only in b", r.Differ,
		number(r.Tensors, "tensor"), r.OnlyA, r.OnlyB)
	other := map[string]int{}
	for _, d := range r.Differences {
		if d.Kind != "tensor" {
			other[d.Kind]++
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(other)) {
		if n := other[kind]; kind == "program" {
			line += fmt.Sprintf(", %s in the program", number(n, "difference"))
		} else {
			line += ", " + number(n, kind)
		}
	}
	if r.NotCompared > 0 {
		line += fmt.Sprintf(", %d not compared", r.NotCompared)
	}
	return line
}

// count counts a tensor with its differences.
func (r *DiffReport) count(p *pair[*tensor.Tensor], list []Difference) {
	isError := func(d Difference) bool { return d.Err != nil }
	switch {
	case !p.inB:
		r.OnlyA++
		return
	case !p.inA:
		r.OnlyB++
		return
	}
	if slices.ContainsFunc(list, isError) {
		r.NotCompared++
	}
	if slices.ContainsFunc(list, func(d Difference) bool { return !isError(d) }) {
		r.Differ++
	}
}

// A Difference is a difference of two tensors, blobs, attributes or programs.
type Difference struct {
	Kind   string `json:"kind"` // "tensor", "blob", "attribute" or "program"
	Name   string `json:"name"` // "NAME:ROLE" for a part of a tensor
	Change string `json:"change"`
	// A and B are what differs in a and b; for ChangeValues the first values that differ,
	// as Value returns them.
	A any `json:"a,omitempty"`
	B any `json:"b,omitempty"`
	// Comparison is not nil if Change is ChangeValues.
	*Comparison
	// Err is not nil if Change is ChangeError.
	Err   error  `json:"-"`
	Error string `json:"error,omitempty"`
}

// Values of Difference.Change. Others name what differs: "value", "dtype", "shape",
// "scheme", "external", "initial value".
const (
	ChangeOnlyA  = "only_a"
	ChangeOnlyB  = "only_b"
	ChangeValues = "values"
	ChangeError  = "error" // could not be compared
)

// Largest returns the n tensors whose values differ most: by their relative RMS if there
// are figures, else by the largest distance. First are tensors of which an element that
// differs is NaN or infinite in one file.
func (r *DiffReport) Largest(n int) []Difference {
	var all []Difference
	for _, d := range r.Differences {
		if d.Kind == "tensor" && d.Comparison != nil {
			all = append(all, d)
		}
	}
	measure := func(d Difference) float64 {
		v := float64(d.Comparison.Largest)
		if d.Figures != nil {
			v = float64(d.RelativeRMS)
		}
		switch {
		case d.NotFinite > 0:
			return math.Inf(1)
		case v != v:
			return math.Inf(-1)
		}
		return v
	}
	sort.SliceStable(all, func(i, j int) bool { return measure(all[j]) < measure(all[i]) })
	return all[:min(n, len(all))]
}

// Diff compares the content of two files: tensors and blobs by name, attributes, and
// programs if the formats are the same. It ignores the order of tensors, their order in
// memory, and the formats. Sparse tensors of different schemes are compared as dense
// ones. A tensor that cannot be read is a Difference. Diff fails only for invalid options
// and when ctx ends.
func Diff(ctx context.Context, a, b *tensorfile.File, opts *DiffOptions) (*DiffReport, error) {
	d := differ{a: a, b: b}
	if opts != nil {
		d.DiffOptions = *opts
	}
	if !(d.Tolerance >= 0) || !(d.Relative >= 0) {
		return nil, errors.New("inspect: a tolerance is negative or NaN")
	}
	report := &DiffReport{Differences: []Difference{}}
	pairs := pairsOf(d.tensors(a, true), d.tensors(b, false),
		func(t *tensor.Tensor) string { return t.Name })
	report.Tensors = len(pairs)
	var blobs []pair[namedBlob]
	total := int64(0)
	for _, p := range pairs {
		if p.both() {
			total += sizeStored(d.resolve(p.a)) + sizeStored(d.resolve(p.b))
		}
	}
	if !d.IgnoreBlobs {
		blobs = pairsOf(d.blobs(a, true), d.blobs(b, false),
			func(b namedBlob) string { return b.name })
		report.Blobs = len(blobs)
	}
	for _, p := range blobs {
		if p.both() {
			total += 2 * max(0, min(p.a.data.Size(), p.b.data.Size()))
		}
	}
	m := format.NewMeter(d.Progress, total)
	size := func(p pair[*tensor.Tensor]) int64 {
		if !p.both() {
			return 0
		}
		return max(sizeOrMax(p.a), sizeOrMax(p.b))
	}
	i := 0
	for list, err := range inOrder(ctx, slices.Values(pairs), size, d.compareTensors, m.Add) {
		if err != nil {
			return nil, err
		}
		report.count(&pairs[i], list)
		i++
		report.Differences = append(report.Differences, list...)
	}
	if !d.IgnoreBlobs {
		size := func(p pair[namedBlob]) int64 { return p.a.data.Size() }
		for list, err := range inOrder(ctx, slices.Values(blobs), size, d.compareBlobs,
			m.Add) {
			if err != nil {
				return nil, err
			}
			report.Differences = append(report.Differences, list...)
		}
	}
	if d.Filter == nil {
		report.Differences = append(report.Differences, d.compareAttributes()...)
	}
	report.Equal = len(report.Differences) == 0
	m.End()
	return report, nil
}

type differ struct {
	DiffOptions
	a, b *tensorfile.File
}

// A pair has the items of one name in both files, or the item of one file.
type pair[T any] struct {
	name     string
	a, b     T
	inA, inB bool
}

func (p *pair[T]) both() bool { return p.inA && p.inB }

// pairsOf joins two lists by name: in the order of the first list, then the rest of the
// second. Items of duplicate names are joined in order.
func pairsOf[T any](as, bs []T, name func(T) string) []pair[T] {
	rest := map[string][]int{}
	for i, b := range bs {
		rest[name(b)] = append(rest[name(b)], i)
	}
	var all []pair[T]
	taken := make([]bool, len(bs))
	for _, a := range as {
		p := pair[T]{name: name(a), a: a, inA: true}
		if list := rest[p.name]; len(list) > 0 {
			p.b, p.inB, taken[list[0]] = bs[list[0]], true, true
			rest[p.name] = list[1:]
		}
		all = append(all, p)
	}
	for i, b := range bs {
		if !taken[i] {
			all = append(all, pair[T]{name: name(b), b: b, inB: true})
		}
	}
	return all
}

// nameOf returns the name under which an item of a or b is compared.
func (d *differ) nameOf(name string, inA bool) string {
	if inA && d.RenameA != nil {
		return d.RenameA(name)
	}
	return name
}

func (d *differ) isWanted(name string) bool { return d.Filter == nil || d.Filter(name) }

func (d *differ) tensors(f *tensorfile.File, inA bool) []*tensor.Tensor {
	return slices.Collect(func(yield func(*tensor.Tensor) bool) {
		for t := range f.Tensors() {
			if name := d.nameOf(t.Name, inA); name != t.Name {
				x := *d.resolve(t)
				x.Name, t = name, &x
			}
			if d.isWanted(t.Name) && !yield(t) {
				return
			}
		}
	})
}

type namedBlob struct {
	name string
	data tensor.Blob
}

func (d *differ) blobs(f *tensorfile.File, inA bool) (all []namedBlob) {
	for name, b := range f.Blobs() {
		if name = d.nameOf(name, inA); d.isWanted(name) {
			all = append(all, namedBlob{name, b})
		}
	}
	return all
}

// differences collects the differences of one pair.
type differences struct {
	kind string
	list []Difference
}

func (d *differences) change(name, what string, a, b any) {
	d.add(name, Difference{Change: what, A: a, B: b})
}

func (d *differences) add(name string, x Difference) {
	x.Kind, x.Name = d.kind, name
	d.list = append(d.list, x)
}

// oneSided adds the difference of an item that only one file has.
func (d *differences) oneSided(name string, inA bool) {
	what := ChangeOnlyB
	if inA {
		what = ChangeOnlyA
	}
	d.change(name, what, nil, nil)
}

// addComparison adds a comparison if it is not equal, or the error of comparing.
func (d *differences) addComparison(name string, c *Comparison, err error) {
	switch {
	case err != nil:
		d.add(name, Difference{Change: ChangeError, Err: err, Error: err.Error()})
	case !c.Equal():
		d.add(name, Difference{Change: ChangeValues, A: c.A, B: c.B, Comparison: c})
	}
}

// resolve returns the tensor that has the elements: the result of External, or t.
func (d *differ) resolve(t *tensor.Tensor) *tensor.Tensor {
	if t.External && d.External != nil {
		if e := d.External(t.Name); e != nil {
			return e
		}
	}
	return t
}

func (d *differ) compareTensors(ctx context.Context, p pair[*tensor.Tensor],
	read counter) []Difference {
	out := &differences{kind: "tensor"}
	if !p.both() {
		out.oneSided(p.name, p.inA)
		return out.list
	}
	p.a, p.b = normalizeBlocks(p.a), normalizeBlocks(p.b)
	u, v := dtypeName(p.a.DType, p.a.Data), dtypeName(p.b.DType, p.b.Data)
	ofParts := !p.a.Dense() && !p.b.Dense() && (u == "" || v == "") // and compared there
	if u != v && !ofParts && !d.IgnoreDType {
		out.change(p.name, "dtype", u, v)
	}
	if !p.a.Shape.Equal(p.b.Shape) {
		out.change(p.name, "shape", p.a.Shape, p.b.Shape)
	}
	hasValue := func(t *tensor.Tensor) bool { return !lacksData(t) && !pte.Uninitialized(t) }
	if x, y := hasValue(p.a), hasValue(p.b); x != y {
		out.change(p.name, "initial value", x, y)
	}
	x, y := d.resolve(p.a), d.resolve(p.b)
	switch {
	case len(out.list) > 0, !hasValue(p.a):
		return out.list
	case x.External || y.External:
		if x.External != y.External {
			out.change(p.name, "external", x.External, y.External)
		}
		return out.list
	}
	if x.Scheme != y.Scheme {
		u, err := densify(ctx, x)
		if err == nil {
			x = u
			u, err = densify(ctx, y)
			y = cmp.Or(u, y)
		}
		if err != nil {
			out.change(p.name, "scheme", scheme(p.a), scheme(p.b))
			return out.list
		}
	}
	if x.Dense() {
		c, err := d.values(ctx, x, y, read)
		out.addComparison(p.name, c, err)
	}
	d.compareParts(ctx, out, p.name, x, y, read)
	return out.list
}

func densify(ctx context.Context, t *tensor.Tensor) (*tensor.Tensor, error) {
	if t.Dense() {
		return t, nil
	}
	if _, ok := format.BlocksOf(t); ok {
		return tensor.As(t, tensor.F32)
	}
	return sparse.Densify(ctx, t, nil)
}

func scheme(t *tensor.Tensor) string {
	if t.Dense() {
		return "dense"
	}
	return t.Scheme
}

// dtypeName returns the name of a dtype; the file's name for an unknown one.
func dtypeName(d tensor.DType, b tensor.Blob) string {
	if d.Known() {
		return d.String()
	}
	st, _ := b.Stored()
	return st.Type
}

// compareParts compares the parts of two tensors.
func (d *differ) compareParts(ctx context.Context, out *differences, name string, x,
	y *tensor.Tensor, read counter) {
	for _, q := range pairsOf(x.Parts, y.Parts, func(p tensor.Part) string { return p.Role }) {
		name := name + ":" + q.name
		if !q.both() {
			out.oneSided(name, q.inA)
			continue
		}
		tx, err := Part(ctx, x, &q.a)
		var ty *tensor.Tensor
		if err == nil {
			ty, err = Part(ctx, y, &q.b)
		}
		if err != nil {
			out.addComparison(name, nil, err)
			continue
		}
		// Indices are numbers: their width differs from format to format.
		isIndex := q.name != "values" && tx.DType.IsInt() && ty.DType.IsInt()
		switch {
		case !tx.Shape.Equal(ty.Shape):
			out.change(name, "shape", tx.Shape, ty.Shape)
		case tx.DType != ty.DType && !isIndex && !d.IgnoreDType:
			out.change(name, "dtype", tx.DType, ty.DType)
		default:
			c, err := d.values(ctx, tx, ty, read)
			out.addComparison(name, c, err)
		}
	}
}

// values compares dense tensors of one shape; if both dtypes are unknown, their bytes.
func (d *differ) values(ctx context.Context, x, y *tensor.Tensor,
	read counter) (*Comparison, error) {
	for _, t := range []*tensor.Tensor{x, y} {
		if err := t.Check(); err != nil {
			return nil, err
		}
	}
	if !x.DType.Known() && !y.DType.Known() {
		return compareBytes(ctx, x.Data, y.Data, read)
	}
	return compare(ctx, x, y, CompareOptions{Tolerance: d.Tolerance, Relative: d.Relative,
		Numeric: d.Numeric, Figures: d.Figures}, read)
}

func (d *differ) compareBlobs(ctx context.Context, p pair[namedBlob],
	read counter) []Difference {
	out := &differences{kind: "blob"}
	if !p.both() {
		out.oneSided(p.name, p.inA)
		return out.list
	}
	c, err := compareBytes(ctx, p.a.data, p.b.data, read)
	out.addComparison(p.name, c, err)
	return out.list
}

// compareBytes compares blobs. Bytes that only the longer one has differ.
func compareBytes(ctx context.Context, x, y tensor.Blob, read counter) (*Comparison, error) {
	n, m := x.Size(), y.Size()
	if n < 0 || m < 0 { // known only after decoding
		var both [2]tensor.Blob
		for i, b := range []tensor.Blob{x, y} {
			all, err := b.ReadAll()
			if err != nil {
				return nil, err
			}
			both[i] = tensor.BlobOf(all)
		}
		return compareBytes(ctx, both[0], both[1], read)
	}
	c := &Comparison{Of: max(n, m), Different: max(n, m) - min(n, m), Largest: Float(math.NaN())}
	if n != m {
		var err error
		if x, err = x.Section(0, min(n, m)); err != nil {
			return nil, err
		}
		if y, err = y.Section(0, min(n, m)); err != nil {
			return nil, err
		}
	}
	err := eachPiece(ctx, []tensor.Blob{x, y}, read,
		func(_ int64, ps [][]byte, r *int64) error {
			if *r = 0; bytes.Equal(ps[0], ps[1]) {
				return nil
			}
			for i, v := range ps[0] {
				if v != ps[1][i] {
					*r++
				}
			}
			return nil
		}, func(r *int64) error {
			c.Different += *r
			return nil
		})
	return c, err
}

// compareAttributes compares attributes and programs.
func (d *differ) compareAttributes() []Difference {
	var all []Difference
	inA, inB := modulesOf(d.a), modulesOf(d.b)
	add := func(kind string, x, y []Attribute) {
		out := &differences{kind: kind}
		for _, p := range pairsOf(x, y, func(a Attribute) string { return a.Key }) {
			if !p.both() {
				if inModule(p.name, inA) == inModule(p.name, inB) {
					out.oneSided(p.name, p.inA)
				}
			} else if !sameJSON(p.a.Value, p.b.Value) {
				out.change(p.name, "value", p.a.Value, p.b.Value)
			}
		}
		all = append(all, out.list...)
	}
	if !d.IgnoreAttributes {
		x, y := contentAttributes(d.a), contentAttributes(d.b)
		if d.a.Format() != d.b.Format() {
			x, y = withoutLibrary(d, x), withoutLibrary(d, y)
		}
		add("attribute", x, y)
	}
	if !d.IgnorePrograms && d.a.Format() == d.b.Format() {
		add("program", Program(d.a), Program(d.b))
	}
	return all
}

// modulesOf returns the names of the modules that are pickled in a checkpoint.
func modulesOf(f *tensorfile.File) map[string]bool {
	names := map[string]bool{}
	if r, ok := f.Sys().(*torch.Reader); ok {
		for name := range r.Modules() {
			names[name] = true
		}
	}
	return names
}

// inModule reports whether an attribute is of a pickled module. A state_dict with the
// same tensors does not have it.
func inModule(key string, modules map[string]bool) bool {
	for i := range len(key) {
		if key[i] == '.' && modules[key[:i]] {
			return true
		}
	}
	return modules[""]
}

// withoutLibrary leaves out the attribute format of a safetensors file, which names a
// library for readers of that format.
func withoutLibrary(d *differ, all []Attribute) []Attribute {
	if d.a.Format() != tensorfile.Safetensors && d.b.Format() != tensorfile.Safetensors {
		return all
	}
	return slices.DeleteFunc(all, func(a Attribute) bool { return a.Key == "format" })
}

func sameJSON(a, b any) bool {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}
