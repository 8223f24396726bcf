package quant_test

import (
	"math/rand/v2"
	"testing"

	"github.com/tensorfile/tensorfile/quant"
	"github.com/tensorfile/tensorfile/tensor"
)

// FuzzValues compares the values of all layouts with the values of a plain
// implementation, at random sizes, whole and in parts.
func FuzzValues(f *testing.F) {
	for i := range uint64(20) {
		f.Add(i, uint8(1+i*7), uint8(1+i*13), uint8(i))
	}
	f.Fuzz(func(t *testing.T, seed uint64, n, k, g uint8) {
		r := rand.New(rand.NewPCG(seed, 1))
		for _, s := range samples(r, 1+int64(n), 1+int64(k), 1+int64(g%64)) {
			w, want := s.find(t), s.values()
			got, err := tensor.Convert[float32](w.Tensor)
			if err != nil {
				t.Fatalf("%s: %v", s.name, err)
			}
			compare(t, s.name, got, want)
			cols := s.shape[len(s.shape)-1]
			rows := int64(len(want)) / cols
			flat := *w.Tensor
			flat.Shape = tensor.Shape{rows, cols}
			r0, c0 := r.Int64N(rows), r.Int64N(cols)
			r1, c1 := r0+1+r.Int64N(rows-r0), c0+1+r.Int64N(cols-c0)
			part, err := tensor.Slice(&flat, tensor.Range{Start: r0, Stop: r1},
				tensor.Range{Start: c0, Stop: c1})
			if err != nil {
				t.Fatal(err)
			}
			if got, err = tensor.Convert[float32](part); err != nil {
				t.Fatal(err)
			}
			var cut []float32
			for row := r0; row < r1; row++ {
				cut = append(cut, want[row*cols+c0:row*cols+c1]...)
			}
			compare(t, s.name+", a part", got, cut)
		}
	})
}

// FuzzFind damages names, dtypes, shapes and data of parts: what comes out has a
// finding or values, and reads no more than there is.
func FuzzFind(f *testing.F) {
	for i := range uint64(40) {
		f.Add(i, []byte{byte(i), 3, byte(7 * i), 1, byte(13 * i), 9})
	}
	f.Fuzz(func(t *testing.T, seed uint64, edits []byte) {
		r := rand.New(rand.NewPCG(seed, 2))
		for _, s := range samples(r, 1+int64(r.IntN(40)), 1+int64(r.IntN(80)),
			1+int64(r.IntN(32))) {
			for i := 0; i+1 < min(len(edits), 16) && len(s.tensors) > 0; i += 2 {
				at := int(edits[i]) % len(s.tensors)
				x := *s.tensors[at]
				switch edits[i+1] % 9 {
				case 0:
					s.tensors = append(s.tensors[:at:at], s.tensors[at+1:]...)
					continue
				case 1:
					x.DType = tensor.DTypes()[int(edits[i+1]/9)%len(tensor.DTypes())]
				case 2:
					x.Shape = append(tensor.Shape{int64(edits[i]) - 100}, x.Shape...)
				case 3:
					x.Shape = append(tensor.Shape{}, x.Shape...)
					for d := range x.Shape {
						x.Shape[d] = []int64{0, 1, -1, 1 << 62, x.Shape[d] * 2,
							x.Shape[d] / 2}[r.IntN(6)]
					}
				case 4:
					x.Name = []string{"", ".weight", "weight", x.Name + "_scale", "m.weight",
						"m.scales", "m.scale"}[r.IntN(7)]
				case 5:
					b := append([]byte{}, bytesOf(&x)...)
					for j := range b {
						if r.IntN(4) == 0 {
							b[j] = byte(r.Uint32())
						}
					}
					x.Data = tensor.BlobOf(b)
				case 6:
					b := bytesOf(&x)
					x.Data = tensor.BlobOf(b[:r.IntN(len(b)+1)])
				case 7: // another shape of as many elements
					n, _ := x.Shape.Elements()
					x.Shape = tensor.Shape{n, 1}
				case 8:
					s.config = ""
				}
				s.tensors[at] = &x
			}
			set := quant.Find(&model{s.tensors, s.attributes}, config(t, s.config))
			stored := 0
			for _, w := range set.Weights {
				stored += max(1, len(w.Parts))
				if w.Scheme == "" {
					continue
				}
				if n, ok := w.Tensor.Shape.Elements(); !ok || n > 1<<24 {
					if w.Err == nil {
						t.Errorf("%s of %v has values", w.Scheme, w.Tensor.Shape)
					}
					continue
				}
				got, err := tensor.Convert[float32](w.Tensor)
				if w.Err != nil && (err == nil && len(got) > 0 || err == nil &&
					w.Tensor.Data.Size() > 0) {
					t.Errorf("%d values of a weight with the error %v", len(got), w.Err)
				}
				if _, err := w.Check(t.Context()); err != nil && w.Err == nil && got != nil {
					_ = err // a reader that fails
				}
			}
			if stored != len(s.tensors) {
				t.Errorf("%d of %d tensors", stored, len(s.tensors))
			}
		}
	})
}
