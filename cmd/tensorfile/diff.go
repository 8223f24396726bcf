package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tensorfile/tensorfile/bridge/safetensors"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
)

// A differ compares two files by what is in them: neither the order of tensors,
// nor where and how they are stored, nor the format counts.
type differ struct {
	tolerance, relative float64
	numeric             bool // a tolerance was given
	ignoreDType         bool
	ignore              []string
	bar                 *bar
	lister
}

func diffCommand(a *app) *cobra.Command {
	var d differ
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Compare two files by content, also of different formats",
		Long: `Compare two files by content, also of different formats: tensors and blobs by their names,
values in whatever order they are stored, attributes, and programs where both files have one
format. What one file has and the format of the other cannot hold is listed too; --ignore
leaves it out. The exit status is 1 when something differs.

Without a tolerance values are equal when all their bits are; with one NaN equals NaN.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			d.numeric = cmd.Flags().Changed("tolerance") || cmd.Flags().Changed("relative")
			if !(d.tolerance >= 0) || !(d.relative >= 0) {
				return errors.New("a tolerance is not negative")
			}
			for _, kind := range d.ignore {
				if kind != "blobs" && kind != "attributes" {
					return fmt.Errorf("--ignore: %s is neither blobs nor attributes", quote(kind))
				}
			}
			if err := d.check(); err != nil {
				return err
			}
			if err := a.begin(); err != nil {
				return err
			}
			var files [2]*input
			for i, name := range args {
				in, err := a.open(name)
				if err != nil {
					a.fail(name, err)
					return nil
				}
				defer in.Close()
				files[i] = in
			}
			return a.diff(files[0], files[1], &d)
		},
	}
	f := cmd.Flags()
	f.Float64Var(&d.tolerance, "tolerance", 0, "values may differ by `T`")
	f.Float64Var(&d.relative, "relative", 0, "values may differ by `R` times the one in B")
	f.BoolVar(&d.ignoreDType, "ignore-dtype", false, "compare values of different element types")
	f.StringSliceVar(&d.ignore, "ignore", nil, "leave out `KINDS`: blobs, attributes")
	f.StringArrayVar(&d.filter, "filter", nil, "only names that match `GLOB`")
	return cmd
}

// A difference is a line of the result. what is an object of fields for JSON;
// the text is for people.
type difference struct {
	kind, name, change string
	more               object
	text               string
}

func (d *difference) object() object {
	o := object{{"kind", d.kind}}
	o = appendName(o, d.name)
	o.set("change", d.change)
	return append(o, d.more...)
}

// A pair is what has the same name in both files; one side may be missing.
type pair[T any] struct {
	name string
	a, b *T
}

// pairs joins two lists by name, in the order of the first, then what only the
// second has. Of names that repeat the first goes with the first.
func pairs[T any](as, bs []T, name func(*T) string) []pair[T] {
	rest := map[string][]*T{}
	for i := range bs {
		n := name(&bs[i])
		rest[n] = append(rest[n], &bs[i])
	}
	var all []pair[T]
	for i := range as {
		n := name(&as[i])
		p := pair[T]{name: n, a: &as[i]}
		if list := rest[n]; len(list) > 0 {
			p.b, rest[n] = list[0], list[1:]
		}
		all = append(all, p)
	}
	for i := range bs {
		n := name(&bs[i])
		if list := rest[n]; len(list) > 0 && list[0] == &bs[i] {
			all = append(all, pair[T]{name: n, b: &bs[i]})
			rest[n] = list[1:]
		}
	}
	return all
}

type namedBlob struct {
	name string
	data tensor.Blob
}

func (l *lister) blobs(in *input) []namedBlob {
	var all []namedBlob
	for name, b := range in.Blobs() {
		if l.wants(name) {
			all = append(all, namedBlob{name, b})
		}
	}
	return all
}

func (a *app) diff(x, y *input, d *differ) error {
	for _, in := range []*input{x, y} {
		if err := a.checkDecodedTotal(in, &d.lister); err != nil {
			a.fail(in.name, err)
			return nil
		}
	}
	tensors := pairs(d.apply(x.rows()), d.apply(y.rows()), func(r *row) string { return r.name })
	same := x.Format() == y.Format()
	var blobs []pair[namedBlob]
	if !slices.Contains(d.ignore, "blobs") {
		blobs = pairs(d.blobs(x), d.blobs(y), func(b *namedBlob) string { return b.name })
	}
	var found []difference
	failed := false
	note := func(list []difference, name string, err error) {
		if err != nil {
			failed = true
			if !isInterrupt(err) {
				a.fail(x.name+", "+y.name, fmt.Errorf("%s: %w", escape(name), err))
			}
			return
		}
		found = append(found, list...)
	}
	type result struct {
		list []difference
		err  error
	}
	d.bar = a.bar(x.name, x.payload())
	defer d.bar.done()
	inOrder(a.ctx, upTo(len(tensors)+len(blobs)), func(i int) result {
		if i < len(tensors) {
			p := tensors[i]
			list, err := d.tensors(a, p)
			return result{list, err}
		}
		list, err := d.blob(a.ctx, blobs[i-len(tensors)])
		return result{list, err}
	}, func(i int, r result) {
		name := ""
		if i < len(tensors) {
			name = tensors[i].name
		} else {
			name = blobs[i-len(tensors)].name
		}
		note(r.list, name, r.err)
	})
	d.bar.done()
	if a.ctx.Err() != nil {
		return nil
	}
	if len(d.filter) == 0 {
		if !slices.Contains(d.ignore, "attributes") {
			found = append(found, diffObjects("attribute", x.content(), y.content())...)
		}
		if same && x.view.content != nil {
			found = append(found, diffObjects("program", x.view.content(), y.view.content())...)
		} else if same && x.view.graph != nil {
			found = append(found, diffGraphs(x.view.graph(), y.view.graph())...)
		}
		if same {
			found = append(found, diffObjects("program", x.testCases(), y.testCases())...)
		}
	}
	if len(found) > 0 {
		a.status = worse(a.status, statusFound)
	}
	if a.json {
		list := []object{}
		for i := range found {
			list = append(list, found[i].object())
		}
		w := &jsonWriter{w: a.out}
		w.value(object{{"a", x.name}, {"b", y.name}, {"equal", len(found) == 0 && !failed}, {"tensors", len(tensors)}, {"blobs", len(blobs)}, {"differences", list}})
		w.end()
		return nil
	}
	for _, f := range found {
		fmt.Fprintln(a.out, f.text)
	}
	if len(found) == 0 && !failed {
		line := "the same: " + count(len(tensors), "tensor")
		if len(blobs) > 0 {
			line += ", " + count(len(blobs), "blob")
		}
		fmt.Fprintln(a.out, line)
	}
	return nil
}

func oneSided(kind, name string, inA bool) []difference {
	side := "b"
	if inA {
		side = "a"
	}
	return []difference{{kind: kind, name: name, change: "only_" + side, text: fmt.Sprintf("%s %s: only in %s", kind, escape(name), side)}}
}

func (d *differ) tensors(a *app, p pair[row]) ([]difference, error) {
	if p.a == nil || p.b == nil {
		return oneSided("tensor", p.name, p.a != nil), nil
	}
	var out []difference
	change := func(what string, x, y any) {
		out = append(out, difference{"tensor", p.name, what, object{{"a", x}, {"b", y}},
			fmt.Sprintf("tensor %s: %s %s, %s", escape(p.name), what, plain(x), plain(y))})
	}
	if p.a.dtype != p.b.dtype && !d.ignoreDType {
		change("dtype", p.a.dtype, p.b.dtype)
	}
	if !p.a.tensor.Shape.Equal(p.b.tensor.Shape) {
		change("shape", p.a.tensor.Shape, p.b.tensor.Shape)
	}
	if p.a.empty != p.b.empty {
		change("initial value", !p.a.empty, !p.b.empty)
	}
	if len(out) > 0 || p.a.empty {
		return out, nil
	}
	x, y := a.resolve(p.a.tensor), a.resolve(p.b.tensor)
	if x.External || y.External {
		if x.External != y.External {
			change("external", x.External, y.External)
		}
		return out, nil
	}
	// Of two layouts that mean the same, the dense one is compared.
	if x.Scheme != y.Scheme {
		var err error
		if x, err = densify(a.ctx, x); err == nil {
			y, err = densify(a.ctx, y)
		}
		if err != nil || !x.Dense() || !y.Dense() {
			change("scheme", p.a.scheme(), p.b.scheme())
			return out, nil
		}
	}
	if x.Dense() {
		n, err := d.values(a.ctx, x, y)
		if err != nil {
			return nil, err
		}
		if n.different > 0 {
			out = append(out, n.difference(p.name, x.Shape))
		}
	}
	parts := pairs(x.Parts, y.Parts, func(p *tensor.Part) string { return p.Role })
	for _, q := range parts {
		name := p.name + ":" + q.name
		if q.a == nil || q.b == nil {
			out = append(out, oneSided("tensor", name, q.a != nil)...)
			continue
		}
		tx, err := partTensor(a.ctx, x, q.a)
		if err != nil {
			return nil, err
		}
		ty, err := partTensor(a.ctx, y, q.b)
		if err != nil {
			return nil, err
		}
		// Indices are numbers: of which width differs from format to format.
		index := q.name != "values" && tx.DType.IsInt() && ty.DType.IsInt()
		if !tx.Shape.Equal(ty.Shape) || tx.DType != ty.DType && !index {
			out = append(out, difference{"tensor", name, "values", nil, fmt.Sprintf("tensor %s: %v %v, %v %v", escape(name), tx.DType, tx.Shape, ty.DType, ty.Shape)})
			continue
		}
		n, err := d.values(a.ctx, tx, ty)
		if err != nil {
			return nil, err
		}
		if n.different > 0 {
			out = append(out, n.difference(name, tx.Shape))
		}
	}
	return out, nil
}

func densify(ctx context.Context, t *tensor.Tensor) (*tensor.Tensor, error) {
	if t.Dense() {
		return t, nil
	}
	return sparse.Densify(ctx, t, nil)
}

// numbers is how the values of two tensors differ.
type numbers struct {
	different, of int64
	first         int64 // row-major index
	a, b          string
	ja, jb        json.RawMessage
	largest       float64 // distance, NaN where there is none
	bytes         bool    // counted in bytes, because the type has no values
}

func (n *numbers) difference(name string, s tensor.Shape) difference {
	what := "elements"
	more := object{{"different", n.different}, {"of", n.of}}
	text := ""
	if n.bytes {
		what = "bytes"
	} else {
		index := unravel(n.first, s)
		more.set("first", index)
		more.set("a", n.ja)
		more.set("b", n.jb)
		text = fmt.Sprintf(", first at %s: %s, %s", string(appendInts(nil, index)), n.a, n.b)
		if !math.IsNaN(n.largest) {
			more.set("largest", n.largest)
			text += fmt.Sprintf("; largest difference %.6g", n.largest)
		}
	}
	return difference{"tensor", name, "values", more, fmt.Sprintf("tensor %s: %d of %d %s differ%s", escape(name), n.different, n.of, what, text)}
}

func unravel(i int64, s tensor.Shape) []int64 {
	index := make([]int64, len(s))
	for d := len(s) - 1; d >= 0; d-- {
		if s[d] > 0 {
			index[d], i = i%s[d], i/s[d]
		}
	}
	return index
}

// values compares two dense tensors of the same shape, element by element in
// row-major order, however each is stored.
func (d *differ) values(ctx context.Context, x, y *tensor.Tensor) (*numbers, error) {
	for _, t := range []*tensor.Tensor{x, y} {
		if err := t.Check(); err != nil {
			return nil, err
		}
	}
	ex, errX := elementOf(x.DType)
	ey, errY := elementOf(y.DType)
	sameStore := slices.Equal(x.Order, y.Order) || x.Order.RowMajor() && y.Order.RowMajor()
	if x.DType == y.DType && sameStore {
		// Mostly nothing differs: look at the bytes first.
		n, err := sameBytes(ctx, x.Data, y.Data, d.bar)
		if err != nil || n.different == 0 || errX != nil {
			return n, err
		}
	}
	if errX != nil || errY != nil {
		return nil, cmp.Or(errX, errY)
	}
	wx, wy := newWindow(ctx, x.Data, ex.bits), newWindow(ctx, y.Data, ey.bits)
	defer wx.close()
	defer wy.close()
	n := &numbers{largest: math.NaN()}
	places, err := whole(y.Shape).places(y)
	if err != nil {
		return nil, err
	}
	err = whole(x.Shape).walk(x, func(at int64) error {
		if n.of&0xffff == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		px, i, err := wx.at(at)
		if err != nil {
			return err
		}
		py, j, err := wy.at(places())
		if err != nil {
			return err
		}
		if err := cmp.Or(ex.check(px, i), ey.check(py, j)); err != nil {
			return err
		}
		n.of++
		if d.equal(&ex, &ey, px, i, py, j, n) {
			return nil
		}
		if n.different++; n.different == 1 {
			n.first = n.of - 1
			n.a, n.b = string(ex.append(nil, px, i, false)), string(ey.append(nil, py, j, false))
			n.ja, n.jb = ex.append(nil, px, i, true), ey.append(nil, py, j, true)
		}
		return nil
	})
	return n, err
}

// equal compares one element, and notes how far apart the two are.
func (d *differ) equal(ex, ey *element, px []byte, i int, py []byte, j int, n *numbers) bool {
	if ex.complex != nil || ey.complex != nil {
		if ex.complex == nil || ey.complex == nil {
			return false
		}
		return d.close(real(ex.complex(px, i)), real(ey.complex(py, j)), n) && d.close(imag(ex.complex(px, i)), imag(ey.complex(py, j)), n)
	}
	if ex.real == nil && ey.real == nil {
		// Beyond 2^53 a float64 would not tell two integers apart.
		away := distance(ex, px, i, ey, py, j)
		n.apart(away)
		return away == 0 || d.numeric && away <= d.tolerance+d.relative*math.Abs(ey.value(py, j))
	}
	u, v := ex.value(px, i), ey.value(py, j)
	if !d.numeric && ex.bits == ey.bits && ex.bits%8 == 0 {
		w := ex.bits / 8
		n.apart(math.Abs(u - v))
		return bytes.Equal(px[i*w:(i+1)*w], py[j*w:(j+1)*w])
	}
	return d.close(u, v, n)
}

func (d *differ) close(u, v float64, n *numbers) bool {
	n.apart(math.Abs(u - v))
	if u == v || math.IsNaN(u) && math.IsNaN(v) {
		return true
	}
	return math.Abs(u-v) <= d.tolerance+d.relative*math.Abs(v) && !math.IsInf(u, 0) && !math.IsInf(v, 0)
}

// distance is how far two integers of whatever types are apart, rounded once.
func distance(ex *element, px []byte, i int, ey *element, py []byte, j int) float64 {
	below := func(e *element, p []byte, i int) (negative bool, magnitude uint64) {
		if e.unsigned != nil {
			return false, e.unsigned(p, i)
		}
		v := e.integer(p, i)
		if v < 0 {
			return true, -uint64(v)
		}
		return false, uint64(v)
	}
	nu, u := below(ex, px, i)
	nv, v := below(ey, py, j)
	if nu != nv {
		return float64(u) + float64(v)
	}
	return float64(max(u, v) - min(u, v))
}

func (n *numbers) apart(away float64) {
	if away > 0 && !(away <= n.largest) {
		n.largest = away
	}
}

// sameBytes compares two blobs.
func sameBytes(ctx context.Context, x, y tensor.Blob, bar *bar) (*numbers, error) {
	n := &numbers{bytes: true, largest: math.NaN()}
	r, err := y.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var other []byte
	var failed error
	err = stream(ctx, x, bar, func(p []byte) {
		if failed != nil {
			return
		}
		if len(other) < len(p) {
			other = make([]byte, len(p))
		}
		k, e := source.ReadPiece(ctxReader{ctx, r}, other[:len(p)])
		if e != nil && e != io.EOF {
			failed = e
			return
		}
		n.of += int64(len(p))
		n.different += int64(len(p) - k)
		if !bytes.Equal(p[:k], other[:k]) {
			for i := range k {
				if p[i] != other[i] {
					n.different++
				}
			}
		}
	})
	if err = cmp.Or(failed, err); err != nil {
		return nil, err
	}
	more, err := io.Copy(io.Discard, ctxReader{ctx, r}) // also so that a digest at its end is checked
	n.different += more
	n.of += more
	return n, err
}

func (d *differ) blob(ctx context.Context, p pair[namedBlob]) ([]difference, error) {
	if p.a == nil || p.b == nil {
		return oneSided("blob", p.name, p.a != nil), nil
	}
	n, err := sameBytes(ctx, p.a.data, p.b.data, d.bar)
	if err != nil || n.different == 0 {
		return nil, err
	}
	out := n.difference(p.name, nil)
	out.kind = "blob"
	out.text = fmt.Sprintf("blob %s: %d of %d bytes differ", escape(p.name), n.different, n.of)
	return []difference{out}, nil
}

// testCases describes those around a program.
func (in *input) testCases() object {
	if in.view.cases == nil {
		return nil
	}
	return in.view.cases()
}

// content is the attributes less what an index says about its shards.
func (in *input) content() object {
	o := in.attributes()
	if _, ok := in.Sys().(*safetensors.Reader); ok && in.sharded() {
		o = slices.DeleteFunc(o, func(f field) bool { return f.key == "total_size" })
	}
	return o
}

// diffObjects compares attributes.
func diffObjects(kind string, x, y object) []difference {
	var out []difference
	for _, p := range pairs(x, y, func(f *field) string { return f.key }) {
		if p.a == nil || p.b == nil {
			out = append(out, oneSided(kind, p.name, p.a != nil)...)
			continue
		}
		u, v := plain(p.a.value), plain(p.b.value)
		if u != v {
			out = append(out, difference{kind, p.name, "value", object{{"a", p.a.value}, {"b", p.b.value}}, fmt.Sprintf("%s %s: %s, %s", kind, escape(p.name), u, v)})
		}
	}
	return out
}

// diffGraphs compares programs: groups by name, nodes and edges by their place.
func diffGraphs(x, y *graph) []difference {
	var out []difference
	for _, p := range pairs(x.groups, y.groups, func(g *graphGroup) string { return g.name }) {
		if p.a == nil || p.b == nil {
			out = append(out, oneSided("program", p.name, p.a != nil)...)
			continue
		}
		add := func(change string, u, v any) {
			out = append(out, difference{"program", p.name, change, object{{"a", u}, {"b", v}},
				fmt.Sprintf("program %s: %s %s, %s", escape(p.name), change, plain(u), plain(v))})
		}
		if len(p.a.nodes) != len(p.b.nodes) {
			add("number of nodes", len(p.a.nodes), len(p.b.nodes))
		}
		node := func(n graphNode) string {
			s := string(n.kind) + " " + n.label
			if n.detail != "" {
				s += " " + n.detail
			}
			return s
		}
		const most = 20
		told := 0
		for i := range min(len(p.a.nodes), len(p.b.nodes)) {
			if p.a.nodes[i] != p.b.nodes[i] && told < most {
				told++
				add(fmt.Sprintf("node %d", i), node(p.a.nodes[i]), node(p.b.nodes[i]))
			}
		}
		if told == 0 && len(p.a.nodes) == len(p.b.nodes) && !slices.Equal(p.a.edges, p.b.edges) {
			add("data flow", count(len(p.a.edges), "edge"), count(len(p.b.edges), "edge"))
		}
	}
	return out
}
