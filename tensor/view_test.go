package tensor

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"slices"
	"testing"

	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/readtest"
)

func roundTrip[T Element](t *testing.T, data []T, wire []byte) {
	t.Helper()
	x := New("x", Shape{int64(len(data))}, data)
	if got, _ := x.Data.ReadAll(); !bytes.Equal(got, wire) {
		t.Errorf("%v: file bytes %x, want %x", x.DType, got, wire)
	}
	stored := &Tensor{Name: "x", DType: x.DType, Shape: x.Shape,
		Data: plainOf(wire)}
	if _, err := View[T](stored); !errors.Is(err, ErrNoView) {
		t.Errorf("%v: a view of unmapped bytes: %v", x.DType, err)
	}
	for _, y := range []*Tensor{x, stored} {
		got, err := Load[T](y)
		if err != nil || !slices.Equal(got, data) {
			t.Errorf("%v: Load %v, %v", x.DType, got, err)
		}
		dst := make([]T, len(data))
		if err := LoadInto(dst, y); err != nil || !slices.Equal(dst, data) {
			t.Errorf("%v: LoadInto %v, %v", x.DType, dst, err)
		}
		if err := LoadInto(dst[:1], y); !errors.Is(err, io.ErrShortBuffer) {
			t.Errorf("%v: LoadInto a slice that is too short: %v", x.DType, err)
		}
	}
	v, err := View[T](x)
	if le.HostIsLittle || x.DType.Align() == 1 {
		if err != nil || &v[0] != &data[0] || cap(v) != len(data) {
			t.Errorf("%v: View must borrow: %v", x.DType, err)
		}
	} else if !errors.Is(err, ErrNoView) {
		t.Errorf("%v: a view on a big-endian machine: %v", x.DType, err)
	}
}

func TestViewLoadAndNewOfEveryElement(t *testing.T) {
	roundTrip(t, []bool{true, false, true}, []byte{1, 0, 1})
	roundTrip(t, []int8{-1, 2}, []byte{255, 2})
	roundTrip(t, []int16{-2, 1}, []byte{254, 255, 1, 0})
	roundTrip(t, []int32{-2, 1}, []byte{254, 255, 255, 255, 1, 0, 0, 0})
	roundTrip(t, []int64{1, 2}, []byte{1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0})
	roundTrip(t, []uint8{1, 2, 3}, []byte{1, 2, 3})
	roundTrip(t, []uint16{0x102, 3}, []byte{2, 1, 3, 0})
	roundTrip(t, []uint32{0x1020304, 5}, []byte{4, 3, 2, 1, 5, 0, 0, 0})
	roundTrip(t, []uint64{0x102030405060708, 9},
		[]byte{8, 7, 6, 5, 4, 3, 2, 1, 9, 0, 0, 0, 0, 0, 0, 0})
	roundTrip(t, []float32{1, -2}, []byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0})
	roundTrip(t, []float64{1, -2}, []byte{0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0xc0})
	roundTrip(t, []complex64{complex(1, -2), 0},
		[]byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0})
	roundTrip(t, []complex128{complex(1, -2), 0},
		append([]byte{0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0xc0},
			make([]byte, 16)...))
	roundTrip(t, []Float16{0x3c00, 1}, []byte{0, 0x3c, 1, 0})
	roundTrip(t, []BFloat16{0x3f80, 1}, []byte{0x80, 0x3f, 1, 0})
	roundTrip(t, []Float8E4M3FN{0x38, 2}, []byte{0x38, 2})
	roundTrip(t, []Float8E5M2{0x38, 2}, []byte{0x38, 2})
	roundTrip(t, []Float8E4M3FNUZ{0x38, 2}, []byte{0x38, 2})
	roundTrip(t, []Float8E5M2FNUZ{0x38, 2}, []byte{0x38, 2})
	roundTrip(t, []Float8E8M0FNU{0x38, 2}, []byte{0x38, 2})
}

func TestViewAndLoadReportWhatTheyCannotDo(t *testing.T) {
	f := func(name string, tt *Tensor, view, load error) {
		t.Helper()
		if _, err := View[float32](tt); !errors.Is(err, view) {
			t.Errorf("%s: View: %v, want %v", name, err, view)
		}
		_, err := Load[float32](tt)
		if load == nil && err != nil || load != nil && !errors.Is(err, load) {
			t.Errorf("%s: Load: %v, want %v", name, err, load)
		}
		if tt != nil && load != nil {
			if _, err := Convert[float32](tt); !errors.Is(err, load) &&
				!errors.Is(load, ErrDType) {
				t.Errorf("%s: Convert: %v, want %v", name, err, load)
			}
		}
	}
	eight := BlobOf(make([]byte, 8))
	f("nil", nil, ErrNoTensor, ErrNoTensor)
	f("another dtype", &Tensor{DType: I32, Shape: Shape{2}, Data: eight}, ErrDType, ErrDType)
	f("unknown dtype", &Tensor{Shape: Shape{2}, Data: eight}, ErrDType, ErrDType)
	f("sparse", &Tensor{DType: F32, Shape: Shape{2}, Scheme: "sparse_csr"}, errors.ErrUnsupported,
		errors.ErrUnsupported)
	f("external", &Tensor{DType: F32, Shape: Shape{2}, External: true}, errors.ErrUnsupported,
		errors.ErrUnsupported)
	f("too few bytes", &Tensor{DType: F32, Shape: Shape{3}, Data: eight}, ErrMalformed,
		ErrMalformed)
	f("too many bytes", &Tensor{DType: F32, Shape: Shape{1}, Data: eight}, ErrMalformed,
		ErrMalformed)
	f("wrapping shape", &Tensor{DType: F32, Shape: Shape{1 << 62, 1 << 62}, Data: eight},
		ErrMalformed, ErrMalformed)
	f("wrapping bytes", &Tensor{DType: F32, Shape: Shape{1 << 62}, Data: eight}, ErrMalformed,
		ErrMalformed)
	f("bad order", &Tensor{DType: F32, Shape: Shape{2}, Order: Order{1}, Data: eight},
		ErrMalformed, ErrMalformed)
	odd, _ := BlobOf(le.Bytes(make([]uint64, 2))).Section(1, 8)
	f("misaligned", &Tensor{DType: F32, Shape: Shape{2}, Data: odd}, ErrNoView, nil)
	f("early end", &Tensor{DType: F32, Shape: Shape{2}, Data: BlobFunc(8, opener("1234"))},
		ErrNoView, io.ErrUnexpectedEOF)
	f("zero elements", &Tensor{DType: F32, Shape: Shape{0, 1 << 62, 1 << 62},
		Data: plainOf(nil)}, ErrNoView, nil)
	if s, err := View[float32](&Tensor{DType: F32, Shape: Shape{0}}); le.HostIsLittle &&
		(err != nil || s == nil) {
		t.Errorf("an empty tensor: %v, %v", s, err)
	}
	if _, err := View[uint8](New("i", Shape{1}, []int8{1})); !errors.Is(err, ErrDType) {
		t.Error("[]byte is a view of uint8 only")
	}
}

func TestBoolsAreScanned(t *testing.T) {
	for _, data := range []Blob{BlobOf([]byte{1, 2, 0}),
		plainOf([]byte{1, 2, 0}), codedOf([]byte{1, 2, 0}, 3, 1)} {
		x := &Tensor{Name: "b", DType: Bool, Shape: Shape{3}, Data: data}
		if _, err := Load[bool](x); !errors.Is(err, ErrMalformed) {
			t.Error(err)
		}
		dst := []bool{true, true, true}
		if err := LoadInto(dst, x); !errors.Is(err, ErrMalformed) || dst[1] {
			t.Error(err, dst)
		}
		if _, err := View[bool](x); !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrNoView) {
			t.Error(err)
		}
	}
}

type checked struct {
	inMemory
	err error
}

func (c *checked) Bytes() ([]byte, bool) { return c.inMemory, c.err == nil }

func (c *checked) ReadAt(p []byte, off int64) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	return c.inMemory.ReadAt(p, off)
}

func TestAViewAsksTheSourceFirst(t *testing.T) {
	x := &Tensor{DType: U8, Shape: Shape{1}, Data: NewBlob(&checked{inMemory{7}, ErrChecksum})}
	if _, err := View[uint8](x); !errors.Is(err, ErrChecksum) {
		t.Error(err)
	}
	x.Data = NewBlob(&checked{inMemory{7}, nil})
	if v, err := View[uint8](x); err != nil || v[0] != 7 {
		t.Error(v, err)
	}
}

func TestConvertTakesEveryNumericType(t *testing.T) {
	for d, x := range map[DType]*Tensor{
		Bool:       New("", Shape{2}, []bool{true, false}),
		I8:         New("", Shape{2}, []int8{1, 0}),
		I16:        New("", Shape{2}, []int16{1, 0}),
		I32:        New("", Shape{2}, []int32{1, 0}),
		I64:        New("", Shape{2}, []int64{1, 0}),
		U8:         New("", Shape{2}, []uint8{1, 0}),
		U16:        New("", Shape{2}, []uint16{1, 0}),
		U32:        New("", Shape{2}, []uint32{1, 0}),
		U64:        New("", Shape{2}, []uint64{1, 0}),
		F16:        New("", Shape{2}, []Float16{NewFloat16(1), 0}),
		BF16:       New("", Shape{2}, []BFloat16{NewBFloat16(1), 0}),
		F32:        New("", Shape{2}, []float32{1, 0}),
		F64:        New("", Shape{2}, []float64{1, 0}),
		F8E4M3FN:   New("", Shape{2}, []Float8E4M3FN{NewFloat8E4M3FN(1), 0}),
		F8E5M2:     New("", Shape{2}, []Float8E5M2{NewFloat8E5M2(1), 0}),
		F8E4M3FNUZ: New("", Shape{2}, []Float8E4M3FNUZ{NewFloat8E4M3FNUZ(1), 0}),
		F8E5M2FNUZ: New("", Shape{2}, []Float8E5M2FNUZ{NewFloat8E5M2FNUZ(1), 0}),
	} {
		if x.DType != d {
			t.Fatalf("New made a %v of a %v", x.DType, d)
		}
		if got, err := Convert[float32](x); err != nil || !slices.Equal(got, []float32{1, 0}) {
			t.Errorf("%v: %v, %v", d, got, err)
		}
	}
	if got, err := Convert[float32](New("", Shape{2}, []Float8E8M0FNU{127, 0})); err != nil ||
		got[0] != 1 || got[1] != 0x1p-127 {
		t.Error(got, err)
	}
	if got, err := Convert[float32](New("", Shape{1}, []uint64{math.MaxUint64})); err != nil ||
		got[0] != 0x1p64 {
		t.Error(got, err)
	}
	// Rounded once: each is just above the middle between two float32.
	if got, err := Convert[float32](New("", Shape{2},
		[]int64{1<<62 + 1<<38 + 1, -(1<<62 + 1<<38 + 1)})); err != nil || got[0] != 1<<62+1<<39 ||
		got[1] != -(1<<62+1<<39) {
		t.Error(got, err)
	}
	if got, err := Convert[float32](New("", Shape{1}, []uint64{1<<63 + 1<<39 + 1})); err != nil ||
		got[0] != 1<<63+1<<40 {
		t.Error(got, err)
	}
	if _, err := Convert[float32](New("", Shape{1}, []complex64{1})); !errors.Is(err, ErrDType) {
		t.Error(err)
	}
	column := New("", Shape{2, 3}, []uint16{1, 4, 2, 5, 3, 6})
	column.Order = ColumnMajor(2)
	if got, err := Convert[float32](column); err != nil ||
		!slices.Equal(got, []float32{1, 2, 3, 4, 5, 6}) {
		t.Errorf("column-major: %v, %v", got, err)
	}
}

func TestReorderedAgreesWithStrides(t *testing.T) {
	shapes := []Shape{nil, {1}, {5}, {2, 3}, {3, 1, 2}, {2, 3, 4}, {70, 41}, {2, 33, 5, 3}, {0, 3},
		{4, 0, 2}}
	for _, s := range shapes {
		n, _ := s.Elements()
		for _, width := range []DType{U8, U16, U32, U64, C128} {
			var raw []byte
			for i := range n {
				raw = append(binary.LittleEndian.AppendUint32(raw, uint32(i)),
					make([]byte, 12)...)[:(i+1)*int64(width.Size())]
			}
			if width == U8 {
				for i := range raw {
					raw[i] = byte(i)
				}
			}
			base := &Tensor{Name: "x", DType: width, Shape: s, Data: BlobOf(raw)}
			for _, from := range orders(len(s)) {
				x, err := Reordered(base, from)
				if err != nil {
					t.Fatal(err)
				}
				for _, to := range orders(len(s)) {
					y, err := Reordered(x, to)
					if err != nil {
						t.Fatal(err)
					}
					if err := y.Check(); err != nil {
						t.Fatal(err)
					}
					compareElements(t, x, y)
				}
				back, err := Reordered(x, nil)
				if err != nil || back.Order != nil {
					t.Fatal(err)
				}
				if got, _ := back.Data.ReadAll(); !bytes.Equal(got, raw) {
					t.Fatalf("%v from %v does not come back", s, from)
				}
			}
		}
	}
}

func orders(rank int) []Order {
	all := []Order{nil, ColumnMajor(rank)}
	if rank == 4 {
		all = append(all, Order{0, 2, 3, 1}, Order{3, 1, 0, 2})
	}
	if rank == 3 {
		all = append(all, Order{1, 0, 2}, Order{1, 2, 0}, Order{0, 1, 2})
	}
	return all
}

// compareElements looks at every index of both tensors through their strides.
func compareElements(t *testing.T, x, y *Tensor) {
	t.Helper()
	a, _ := x.Order.Strides(x.Shape)
	b, _ := y.Order.Strides(y.Shape)
	p, _ := x.Data.ReadAll()
	q, _ := y.Data.ReadAll()
	w := int64(x.DType.Size())
	n, _ := x.Shape.Elements()
	for i := range n {
		var ao, bo int64
		rest := i
		for d := len(x.Shape) - 1; d >= 0; d-- {
			k := rest % x.Shape[d]
			rest /= x.Shape[d]
			ao += k * a[d]
			bo += k * b[d]
		}
		if !bytes.Equal(p[ao*w:ao*w+w], q[bo*w:bo*w+w]) {
			t.Fatalf("%v of %v, %v to %v: element %d differs", x.Shape, x.DType, x.Order, y.Order,
				i)
		}
	}
}

func TestReorderedRefusesWhatHasNoOrder(t *testing.T) {
	for name, c := range map[string]struct {
		x     *Tensor
		order Order
		want  error
	}{
		"nil": {nil, nil, ErrNoTensor},
		"sub-byte": {&Tensor{DType: F4E2M1FN, Shape: Shape{2, 2}, Data: BlobOf(make([]byte, 2))},
			Order{1, 0}, ErrDType},
		"unknown": {&Tensor{Shape: Shape{2, 2}, Data: BlobOf(make([]byte, 2))}, Order{1, 0},
			errors.ErrUnsupported},
		"sparse":    {&Tensor{Scheme: "x"}, nil, errors.ErrUnsupported},
		"bad order": {New("", Shape{1}, []int8{1}), Order{1}, ErrMalformed},
		"bad data": {&Tensor{DType: U8, Shape: Shape{3}, Data: BlobOf([]byte{1})}, nil,
			ErrMalformed},
	} {
		if _, err := Reordered(c.x, c.order); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if y, err := Reordered(&Tensor{DType: U8, Shape: Shape{0, 1 << 62, 1 << 62}},
		ColumnMajor(3)); err != nil || y.Size() != 0 {
		t.Error(err)
	}
}

func TestSizeAddsUpParts(t *testing.T) {
	x := &Tensor{Scheme: "sparse_coo",
		Parts: []Part{{"values", F32, BlobOf(make([]byte, 8))},
			{"coords", U64, BlobOf(make([]byte, 32))}}}
	if x.Size() != 40 || x.Part("coords").DType != U64 || x.Part("indptr") != nil || x.Dense() ||
		x.Check() != nil {
		t.Errorf("%d, %v", x.Size(), x.Check())
	}
	x.Parts[0].Data = codedOf(nil, -1, 1)
	if x.Size() != -1 {
		t.Error("a part of unknown size")
	}
	if err := (*Tensor)(nil).Check(); !errors.Is(err, ErrNoTensor) {
		t.Error(err)
	}
}

func TestLoadIntoAllocatesNothing(t *testing.T) {
	x := &Tensor{Name: "w", DType: F32, Shape: Shape{256},
		Data: plainOf(make([]byte, 1024))}
	dst := make([]float32, 256)
	readtest.AllocatesNothing(t, func() {
		if err := LoadInto(dst, x); err != nil {
			t.Fatal(err)
		}
	})
	y := New("w", Shape{256}, dst)
	if !le.HostIsLittle {
		return // the error is allocated
	}
	readtest.AllocatesNothing(t, func() {
		if _, err := View[float32](y); err != nil {
			t.Fatal(err)
		}
	})
}
