package tensor

import (
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/tensorfile/tensorfile/internal/le"
)

func TestDstTakesElementsAndBytes(t *testing.T) {
	x := New("x", Shape{2, 2}, []float32{1, 2, 3, 4})
	plain := func(d Dst, t *Tensor) bool {
		p, ok, err := d.Plain(t)
		return ok && err == nil && int64(len(p)) == t.Data.Size()
	}
	same, wider, raw := make([]float32, 4), make([]float64, 4), make([]byte, 16)
	for _, d := range []Dst{Into(same), Into(wider), IntoBytes(raw)} {
		if err := d.Load(x); err != nil {
			t.Error(err)
		}
	}
	b, _ := x.Data.Bytes()
	if !slices.Equal(same, []float32{1, 2, 3, 4}) || !slices.Equal(wider, []float64{1, 2, 3, 4}) ||
		string(raw) != string(b) {
		t.Error(same, wider, raw)
	}
	column := New("c", Shape{2, 2}, []float32{1, 2, 3, 4})
	column.Order = ColumnMajor(2)
	if err := Into(same).Load(column); err != nil || !slices.Equal(same, []float32{1, 3, 2, 4}) {
		t.Error(same, err)
	}
	q, _ := quantised(1)
	for name, c := range map[string]struct{ got, want bool }{
		"the same dtype": {plain(Into(same), x), le.HostIsLittle},
		"another one":    {plain(Into(wider), x), false},
		"bytes":          {plain(IntoBytes(raw), x), true},
		"another order":  {plain(Into(same), column), false},
		"bytes in order": {plain(IntoBytes(raw), column), true},
		"bools": {plain(Into(make([]bool, 2)), New("b", Shape{2}, []bool{true, false})),
			false},
		"quantised blocks": {plain(Into(make([]float32, 64)), q), false},
	} {
		if c.got != c.want {
			t.Errorf("%s: Plain is %v", name, c.got)
		}
	}
	if _, _, err := IntoBytes(raw[:15]).Plain(x); !errors.Is(err, io.ErrShortBuffer) {
		t.Error(err)
	}
	if err := IntoBytes(raw).Load(q); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	if err := (Dst{}).Load(x); err == nil || !(Dst{}).IsZero() || Into([]int8(nil)).IsZero() {
		t.Error("the zero Dst", err)
	}
}
