package convert

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/pte"
	"github.com/tensorfile/tensorfile/tensor"
)

// harmless are the losses after which all elements are still there, as they were.
const harmless = LossReorder | LossGraph | LossAttributes | LossNames

// Every ordered pair of formats that can hold a tensor, every type that both have, in
// several shapes and orders: there and back, bytes equal. A type that the second does not
// have is a loss that is named.
func TestValuesSurviveConversionAndBack(t *testing.T) {
	shapes := []tensor.Shape{{2, 3, 4}, {}, {5}, {0, 3}}
	for i, from := range forms() {
		for j, to := range forms() {
			if testing.Short() && (i+j)%3 != 0 {
				continue
			}
			t.Run(from.String()+" to "+to.String(), func(t *testing.T) {
				both := 0
				for _, d := range from.caps().DTypes {
					for i, shape := range shapes {
						// half a byte is no element
						if !from.caps().ZeroDims && i == 3 || d.Size() == 0 && i < 3 && i > 0 {
							continue
						}
						// which becomes [1] in .gguf:
						// TestBFloat16ScalarsGetADimensionInGGUF
						if d == tensor.BF16 && len(shape) == 0 &&
							(from.format == tensorfile.GGUF ||
								to.format == tensorfile.GGUF) {
							continue
						}
						column := i == 0 && d.Size() > 0 &&
							from.caps().Orders.Hold(tensor.ColumnMajor(3), 3)
						for _, reversed := range []bool{false, true} {
							if reversed && !column {
								continue
							}
							x := sample(d, shape)
							if reversed {
								x.Order = tensor.ColumnMajor(3)
							}
							src := write(t, from, []*tensor.Tensor{x}, nil)
							if !to.caps().Holds(d) || !to.caps().ZeroDims && i == 3 {
								named(t, src, to)
								continue
							}
							both++
							thereAndBack(t, src, from, to)
						}
					}
				}
				if both == 0 {
					t.Errorf("%v and %v have no type in common", from, to)
				}
			})
		}
	}
}

// named requires a loss of the one tensor of src.
func named(t *testing.T, src *tensorfile.File, to form) {
	t.Helper()
	p, err := NewPlan(t.Context(), src, to.format, to.options())
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range p.Losses() {
		if l.Kind&(LossWiden|LossNarrow|LossTensors) != 0 && p.Err() != nil {
			return
		}
	}
	x := first(t, src)
	t.Errorf("%v %v to %v: %v", x.DType, x.Shape, to, p.Losses())
}

func thereAndBack(t *testing.T, src *tensorfile.File, from, to form) {
	t.Helper()
	o, back := to.options(), from.options()
	o.Allow, back.Allow = harmless, harmless
	mid, _ := run(t, src, to, o)
	end, p := run(t, mid, from, back)
	if mid.Format() != to.format || end.Format() != from.format {
		t.Fatalf("it became %v and %v", mid.Format(), end.Format())
	}
	a, b := first(t, src), first(t, end)
	if a.DType != b.DType || !a.Shape.Equal(b.Shape) {
		t.Fatalf("%v %v came back as %v %v", a.DType, a.Shape, b.DType, b.Shape)
	}
	if x, y := rowMajor(t, a), rowMajor(t, b); !bytes.Equal(x, y) {
		t.Fatalf("%v came back with other bytes (%v)", a.DType, p.Losses())
	}
}

// arrives requires every dense tensor of src that the target can hold in a file of that
// form, with the same elements.
func arrives(t *testing.T, src *tensorfile.File, to form, want int) {
	t.Helper()
	seen := 0
	for x := range src.Tensors() {
		if !x.Dense() || !to.caps().Holds(x.DType) {
			continue
		}
		o := to.options()
		o.Allow = harmless | LossShape
		o.Map = only(func(y *tensor.Tensor) bool { return y == x || y.Name == x.Name })
		end, _ := run(t, src, to, o)
		if y := first(t, end); y.DType != x.DType || !bytes.Equal(rowMajor(t, x), rowMajor(t, y)) {
			t.Errorf("%s, %v, is %v in %v, with other bytes", x.Name, x.DType, y.DType, to)
		}
		seen++
	}
	if seen < want {
		t.Errorf("%d tensors arrived in %v, want %d", seen, to, want)
	}
}

// A format that is only read, and one that is only a part of a program, goes into every
// format that has its type.
func TestTensorsOfProgramsGoIntoEveryFormat(t *testing.T) {
	b := pte.NewBuilder()
	m := b.Method("forward")
	n := map[tensor.DType]bool{}
	for _, d := range (form{tensorfile.PTD, ""}).caps().DTypes {
		x := sample(d, tensor.Shape{2, 4})
		x.Name = d.String()
		m.Constant(x)
		n[d] = true
	}
	m.Return()
	var out bytes.Buffer
	if err := b.Write(t.Context(), &out, nil); err != nil {
		t.Fatal(err)
	}
	program := open(t, out.Bytes())
	gguf, err := os.ReadFile("../testdata/gguf/types.gguf")
	if err != nil {
		t.Fatal(err)
	}
	blocks := open(t, gguf)
	for _, to := range forms() {
		want, simple := 0, 0
		for _, d := range to.caps().DTypes {
			if n[d] {
				want++
			}
			switch d {
			case tensor.F32, tensor.F16, tensor.BF16, tensor.F64, tensor.I8, tensor.I16,
				tensor.I32, tensor.I64:
				simple++
			}
		}
		t.Run("pte to "+to.String(), func(t *testing.T) { arrives(t, program, to, want) })
		t.Run("gguf to "+to.String(), func(t *testing.T) { arrives(t, blocks, to, simple) })
	}
}

// A .ptd keeps a key that is empty, which no other format's name becomes.
func TestAnEmptyKeyStays(t *testing.T) {
	var file bytes.Buffer
	w := ptd.NewWriter(&file, nil)
	x := tensor.New("", tensor.Shape{2}, []float32{1, 2})
	l, err := ptd.LayoutOf(x)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.AddEntry(ptd.Entry{Layout: l, Data: x.Data}),
		w.AddBlob("b", tensor.BlobOf([]byte{3})), w.Close()); err != nil {
		t.Fatal(err)
	}
	end, p := run(t, open(t, file.Bytes()), form{tensorfile.PTD, ""}, nil)
	if len(p.Losses()) > 0 {
		t.Errorf("losses: %v", p.Losses())
	}
	if got, err := tensor.Load[float32](end.Tensor("")); err != nil ||
		!slices.Equal(got, []float32{1, 2}) {
		t.Errorf("%v, %v", got, err)
	}
	from := write(t, form{tensorfile.ZTensor, "1.0"}, []*tensor.Tensor{x}, nil)
	if p, err = NewPlan(t.Context(), from, tensorfile.PTD, nil); err != nil ||
		len(p.Losses()) != 1 || p.Losses()[0].Kind != LossNames {
		t.Errorf("of a .zt: %v, %v", p.Losses(), err)
	}
}
