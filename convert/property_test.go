package convert

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/tensor"
)

// randomTensor returns a tensor that the form can hold.
func randomTensor(r *rand.Rand, f form, name string) *tensor.Tensor {
	types := f.caps().DTypes
	for {
		shape := make(tensor.Shape, r.IntN(5))
		for i := range shape {
			shape[i] = []int64{1, 1, 2, 3, 5, 8, 0}[r.IntN(7)]
		}
		d := types[r.IntN(len(types))]
		n, _ := shape.Elements()
		if n == 0 && !f.caps().ZeroDims || d.Size() == 0 && n%8 != 0 {
			continue
		}
		x := sample(d, shape)
		b, _ := x.Data.ReadAll()
		if d.IsInt() {
			r.Shuffle(len(b), func(i, j int) { b[i], b[j] = b[j], b[i] })
			if w := d.Size(); r.IntN(2) == 0 { // small values, which narrower integers hold
				for i := range b {
					if i%w > 0 {
						b[i] = 0
					}
				}
			}
		}
		x.Name, x.Data = name, tensor.BlobOf(b)
		if order := r.Perm(len(shape)); d.Size() > 0 && f.caps().Orders.Hold(order, len(shape)) {
			x.Order = order
		}
		return x
	}
}

// randomName returns a name, which may be one that some formats cannot represent.
func randomName(r *rand.Rand, f form, i int) string {
	name := fmt.Sprintf("t%d", i)
	switch r.IntN(8) {
	case 0:
		name = "a." + name + ".é"
	case 1:
		name = name + "..x"
	case 2:
		if nameFor(f.format, f.version, name+"\x00b") == name+"\x00b" {
			name += "\x00b"
		}
	case 3:
		if i == 0 && nameFor(f.format, f.version, "__metadata__") == "__metadata__" && f.caps().Names != tensorfile.Paths {
			name = "__metadata__"
		}
	}
	if good := nameFor(f.format, f.version, name); good != name {
		return fmt.Sprintf("t%d", i)
	}
	return name
}

// What comes back of random tensors is what went in, but for the losses that were
// named, by field and kind; and a loss is named only where something differs.
func TestEveryDifferenceIsANamedLoss(t *testing.T) {
	const rounds = 40
	for _, from := range forms() {
		for _, to := range forms() {
			t.Run(from.String()+" to "+to.String(), func(t *testing.T) {
				r := rand.New(rand.NewPCG(7, uint64(from.format)<<8|uint64(to.format)))
				for range rounds {
					ts := []*tensor.Tensor{randomTensor(r, from, randomName(r, from, 0))}
					if from.caps().MaxTensors != 1 && to.caps().MaxTensors != 1 {
						for i := range 2 {
							if x := randomTensor(r, from, randomName(r, from, i+1)); x.Name != ts[0].Name {
								ts = append(ts, x)
							}
						}
					}
					checkNamed(t, write(t, from, ts, nil), to)
					if t.Failed() {
						return
					}
				}
			})
		}
	}
}

// values returns the elements in row-major order, as numbers where another tensor has
// another dtype.
func values(t *testing.T, x *tensor.Tensor, other tensor.DType) []byte {
	t.Helper()
	if x.DType == other {
		return rowMajor(t, x)
	}
	to := tensor.F64
	if x.DType.IsComplex() {
		to = tensor.C128
	}
	same := *x
	if x.DType != to {
		as, err := tensor.As(x, to)
		if err != nil {
			t.Fatal(err)
		}
		same = *as
	}
	return rowMajor(t, &same)
}

func checkNamed(t *testing.T, src *tensorfile.File, to form) {
	t.Helper()
	o := to.options()
	o.Allow = LossAll
	p, err := NewPlan(t.Context(), src, to.format, o)
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]LossKind{}
	for _, l := range p.Losses() {
		named[l.Field] |= l.Kind
	}
	var out bytes.Buffer
	if err := p.Write(t.Context(), &out); err != nil {
		if to.format == tensorfile.NPY && len(p.items) == 0 {
			return // nothing to write is an error
		}
		t.Fatalf("%v: losses %v", err, p.Losses())
	}
	end := open(t, out.Bytes())
	arrived := map[string]*tensor.Tensor{}
	i := 0
	for x := range p.Tensors() {
		y := end.Tensor(x.Name)
		if to.caps().Names == tensorfile.OneName {
			y = first(t, end)
		}
		if y == nil {
			t.Fatalf("%s is not in the file", quote.Name(x.Name))
		}
		arrived[p.items[i].src.Name] = y
		i++
	}
	for x := range src.Tensors() {
		y, differs := arrived[x.Name], LossKind(0)
		if y == nil {
			differs = LossTensors
		} else {
			if x.Name != y.Name {
				differs |= LossNames
			}
			if !x.Shape.Equal(y.Shape) {
				differs |= LossShape
			} else if !sameStorage(x.Shape, x.Order, y.Order) {
				differs |= LossReorder
			}
			if x.DType != y.DType {
				differs |= named[fieldOf(x)] & (LossWiden | LossNarrow)
			}
		}
		got := named[fieldOf(x)]
		if differs&LossShape != 0 { // dimensions of 1 hide whether elements moved
			got &^= LossReorder
		}
		if got != differs || y != nil && x.DType != y.DType && got&(LossWiden|LossNarrow) == 0 {
			t.Errorf("%v became %v: the losses are %q, the differences %q", x, y, named[fieldOf(x)], differs)
			continue
		}
		if y == nil || got&LossNarrow != 0 {
			continue
		}
		if !bytes.Equal(values(t, x, y.DType), values(t, y, x.DType)) {
			t.Errorf("%v became %v with other values", x, y)
		}
	}
}
