package sparse_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
)

func u64(v ...uint64) tensor.Blob {
	return tensor.New("", tensor.Shape{int64(len(v))}, v).Data
}

// coo makes a tensor of coordinates; at has the coordinates of dimension 0 first.
func coo[T tensor.Element](shape tensor.Shape, values []T, at ...uint64) *tensor.Tensor {
	d := tensor.New("", tensor.Shape{int64(len(values))}, values)
	return &tensor.Tensor{Name: "x", DType: d.DType, Shape: shape, Scheme: sparse.COO,
		Parts: []tensor.Part{
			{Role: "values", DType: d.DType, Data: d.Data},
			{Role: "coords", DType: tensor.U64, Data: u64(at...)}}}
}

func csr[T tensor.Element](shape tensor.Shape, values []T, columns, rows []uint64) *tensor.Tensor {
	d := tensor.New("", tensor.Shape{int64(len(values))}, values)
	return &tensor.Tensor{Name: "x", DType: d.DType, Shape: shape, Scheme: sparse.CSR,
		Parts: []tensor.Part{
			{Role: "values", DType: d.DType, Data: d.Data},
			{Role: "indices", DType: tensor.U64, Data: u64(columns...)},
			{Role: "indptr", DType: tensor.U64, Data: u64(rows...)}}}
}

func TestDenseAndSparseComeBack(t *testing.T) {
	for _, c := range []struct {
		scheme string
		shape  tensor.Shape
	}{
		{sparse.CSR, tensor.Shape{30, 20}}, {sparse.CSR, tensor.Shape{0, 20}},
		{sparse.CSR, tensor.Shape{20, 0}}, {sparse.CSR, tensor.Shape{300, 400}},
		{sparse.COO, tensor.Shape{}}, {sparse.COO, tensor.Shape{3, 2, 5, 7}},
		{sparse.COO, tensor.Shape{10, 30, 200}},
	} {
		n, _ := c.shape.Elements()
		rng := rand.New(rand.NewPCG(1, uint64(n)))
		values := make([]float32, n)
		for i := range values {
			if rng.IntN(10) < 7 {
				values[i] = rng.Float32() + 1
			}
		}
		x := tensor.New("x", c.shape, values)
		want, err := x.Data.ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		made, err := sparse.Sparsify(t.Context(), x, c.scheme, nil)
		if err != nil {
			t.Fatal(c, err)
		}
		if err := sparse.Check(t.Context(), made, &sparse.Options{Ordered: true}); err != nil {
			t.Errorf("%v: %v", c, err)
		}
		if got := denseOf(t, made, nil); !bytes.Equal(got, want) {
			t.Errorf("%v: other bytes", c)
		}
		if sorted, err := sparse.Sort(t.Context(), made, nil); err != nil || sorted != made {
			t.Errorf("%v: sorted is not the same tensor: %v", c, err)
		}
	}
}

// The dense bytes are the same however they are read: byte by byte, in odd pieces, at
// once.
func TestDenseStreamsInPieces(t *testing.T) {
	x := csr(tensor.Shape{3, 5}, []uint32{0x01020304, 0x05060708, 0x090a0b0c}, []uint64{1, 4, 0},
		[]uint64{0, 2, 2, 3})
	want := denseOf(t, x, nil)
	if len(want) != 60 || want[4] != 4 || want[16] != 8 || want[40] != 0x0c {
		t.Fatalf("% x", want)
	}
	for _, n := range []int{1, 2, 3, 7, 59, 60, 61} {
		in, err := sparse.Open(t.Context(), x, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []byte
		p := make([]byte, n)
		for {
			k, err := in.Read(p)
			got = append(got, p[:k]...)
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(got, want) {
			t.Errorf("in pieces of %d: % x", n, got)
		}
		in.Close()
	}
}

// A shape that no memory has costs nothing.
func TestDenseStreamOfAHugeShapeTakesLittleMemory(t *testing.T) {
	x := coo(tensor.Shape{1 << 30, 1 << 30}, []uint8{7, 8}, 0, 1<<30-1, 3, 1<<30-1)
	in, err := sparse.Open(t.Context(), x, &sparse.Options{MaxMemory: 64})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	head := make([]byte, 1<<16)
	if _, err := io.ReadFull(in, head); err != nil || head[3] != 7 ||
		bytes.Count(head, []byte{0}) != len(head)-1 {
		t.Errorf("%v, % x", err, head[:8])
	}
}

func TestSortPutsElementsInRowMajorOrder(t *testing.T) {
	for _, x := range []*tensor.Tensor{
		csr(tensor.Shape{3, 5}, []int16{1, 2, 3, 4}, []uint64{4, 0, 3, 1}, []uint64{0, 2, 2, 4}),
		coo(tensor.Shape{3, 5}, []int16{1, 2, 3, 4}, 2, 0, 2, 0, 1, 4, 3, 0),
	} {
		if err := sparse.Check(t.Context(), x, nil); err != nil {
			t.Fatal(err)
		}
		sorted, err := sparse.Sort(t.Context(), x, nil)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := sparse.Sort(t.Context(), sorted, nil); err != nil || again != sorted {
			t.Errorf("%s: sorted twice: %v", x.Scheme, err)
		}
		if got, want := denseOf(t, sorted, nil), denseOf(t, x, nil); !bytes.Equal(got, want) {
			t.Errorf("%s: % x, not % x", x.Scheme, got, want)
		}
	}
	x := csr(tensor.Shape{3, 5}, []int16{1, 2}, []uint64{4, 0}, []uint64{0, 2, 2, 2})
	if err := sparse.Check(t.Context(), x, nil); err != nil {
		t.Error(err)
	}
	if err := sparse.Check(t.Context(), x, &sparse.Options{Ordered: true}); !errors.Is(err,
		tensor.ErrMalformed) {
		t.Error(err)
	}
}

// The indices of ONNX, which has the coordinates of a value together, or the number of
// its element.
func TestIndicesOfONNXAreRead(t *testing.T) {
	onnx := func(indices ...int64) *tensor.Tensor {
		return &tensor.Tensor{Name: "s", DType: tensor.I16, Shape: tensor.Shape{3, 5},
			Scheme: sparse.COO,
			Parts: []tensor.Part{
				{Role: "values", DType: tensor.I16, Data: tensor.New("", tensor.Shape{3},
					[]int16{1, 2, 3}).Data},
				{Role: "indices", DType: tensor.I64, Data: tensor.New("",
					tensor.Shape{int64(len(indices))}, indices).Data}}}
	}
	want := denseOf(t, coo(tensor.Shape{3, 5}, []int16{1, 2, 3}, 0, 0, 2, 1, 4, 3), nil)
	rows, linear := onnx(0, 1, 0, 4, 2, 3), onnx(1, 4, 13)
	for _, x := range []*tensor.Tensor{rows, linear} {
		if err := sparse.Check(t.Context(), x, &sparse.Options{Ordered: true}); err != nil {
			t.Fatal(err)
		}
		if got := denseOf(t, x, nil); !bytes.Equal(got, want) {
			t.Errorf("% x, not % x", got, want)
		}
		sorted, err := sparse.Sort(t.Context(), x, nil)
		if err != nil || sorted.Part("indices") != nil || len(sorted.Parts) != 2 {
			t.Fatal(sorted, err)
		}
		coords, err := tensor.Load[uint64](&tensor.Tensor{DType: tensor.U64,
			Shape: tensor.Shape{6},
			Data:  sorted.Part("coords").Data})
		if err != nil || !slices.Equal(coords, []uint64{0, 0, 2, 1, 4, 3}) {
			t.Error(coords, err)
		}
		if got := denseOf(t, sorted, nil); !bytes.Equal(got, want) {
			t.Errorf("% x, not % x", got, want)
		}
	}
	unsorted := onnx(0, 4, 0, 1, 2, 3)
	if err := sparse.Check(t.Context(), unsorted, nil); err != nil {
		t.Error(err)
	}
	for _, x := range []*tensor.Tensor{unsorted, onnx(1, 1, 2), onnx(1, 2, 15), onnx(0, 0, 0,
		1, 3, 0),
		onnx(0, 0, 0, 1, 0, 5), onnx(1, 2), onnx(1, 2, 3, 4), onnx(-1, 2, 3)} {
		if err := sparse.Check(t.Context(), x, &sparse.Options{Ordered: true}); !errors.Is(err,
			tensor.ErrMalformed) {
			t.Error(err)
		}
	}
}

func TestDuplicatesAreAddedOrRefused(t *testing.T) {
	twice := csr(tensor.Shape{2, 3}, []float32{1, 2, 4, 8}, []uint64{2, 0, 2, 1},
		[]uint64{0, 3, 4})
	for _, x := range []*tensor.Tensor{twice,
		coo(tensor.Shape{2, 3}, []float32{1, 2, 4, 8}, 0, 0, 0, 1, 2, 0, 2, 1)} {
		var duplicate *sparse.DuplicateError
		if _, err := sparse.Densify(t.Context(), x, nil); !errors.As(err, &duplicate) ||
			duplicate.Element != 2 || !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v", x.Scheme, err)
		}
		if err := sparse.Check(t.Context(), x, nil); err != nil {
			t.Errorf("%s: %v", x.Scheme, err)
		}
		if err := sparse.Check(t.Context(), x, &sparse.Options{Ordered: true}); err == nil {
			t.Errorf("%s: no error", x.Scheme)
		}
		for d, want := range map[sparse.Duplicates][]float32{sparse.First: {2, 0, 1, 0, 8, 0},
			sparse.Sum: {2, 0, 5, 0, 8, 0}} {
			o := &sparse.Options{Duplicates: d}
			dense, _ := tensor.New("", tensor.Shape{6}, want).Data.ReadAll()
			if got := denseOf(t, x, o); !bytes.Equal(got, dense) {
				t.Errorf("%s, %d: % x", x.Scheme, d, got)
			}
			sorted, err := sparse.Sort(t.Context(), x, o)
			if err != nil {
				t.Fatal(err)
			}
			if err := sparse.Check(t.Context(), sorted,
				&sparse.Options{Ordered: true}); err != nil {
				t.Errorf("%s, %d: %v", x.Scheme, d, err)
			}
			if got := denseOf(t, sorted, nil); !bytes.Equal(got, dense) {
				t.Errorf("%s, %d, sorted: % x", x.Scheme, d, got)
			}
		}
	}
}

// Every value of a tensor without dimensions is for its only element.
func TestDuplicatesOfAScalarAreCombined(t *testing.T) {
	x := coo(tensor.Shape{}, []uint8{3, 4})
	for d, want := range map[sparse.Duplicates]byte{sparse.First: 3, sparse.Sum: 7} {
		if got := denseOf(t, x, &sparse.Options{Duplicates: d}); !bytes.Equal(got, []byte{want}) {
			t.Errorf("%d: % x", d, got)
		}
	}
}

// Sums have the precision of the dtype.
func TestSumsHaveThePrecisionOfTheDType(t *testing.T) {
	le := binary.LittleEndian
	for _, c := range []struct {
		d       tensor.DType
		a, b, c []byte
	}{
		{tensor.U8, []byte{200}, []byte{100}, []byte{44}},
		{tensor.I16, le.AppendUint16(nil, 0xffff), le.AppendUint16(nil, 3),
			le.AppendUint16(nil, 2)},
		{tensor.U32, le.AppendUint32(nil, 1<<31), le.AppendUint32(nil, 1<<31), make([]byte, 4)},
		{tensor.I64, le.AppendUint64(nil, 5), le.AppendUint64(nil, 1<<40),
			le.AppendUint64(nil, 5+1<<40)},
		{tensor.F16, []byte{0, 0x3c}, []byte{0, 0x3c}, []byte{0, 0x40}},
		{tensor.BF16, []byte{0x80, 0x3f}, []byte{0x80, 0x3f}, []byte{0, 0x40}},
		{tensor.F64, le.AppendUint64(nil, 0x3ff0000000000000),
			le.AppendUint64(nil, 0x3ff0000000000000), le.AppendUint64(nil, 0x4000000000000000)},
		{tensor.C64, le.AppendUint64(nil, 0x3f80000000000000),
			le.AppendUint64(nil, 0x3f8000003f800000), le.AppendUint64(nil, 0x400000003f800000)},
		{tensor.C128, make([]byte, 16), bytes.Repeat([]byte{0x3f}, 16),
			bytes.Repeat([]byte{0x3f}, 16)},
	} {
		x := &tensor.Tensor{Name: "x", DType: c.d, Shape: tensor.Shape{1, 1}, Scheme: sparse.COO,
			Parts: []tensor.Part{
				{Role: "values", DType: c.d, Data: tensor.BlobOf(slices.Concat(c.a, c.b))},
				{Role: "coords", DType: tensor.U64, Data: u64(0, 0, 0, 0)}}}
		if got := denseOf(t, x, &sparse.Options{Duplicates: sparse.Sum}); !bytes.Equal(got, c.c) {
			t.Errorf("%v: % x, not % x", c.d, got, c.c)
		}
		x.Parts[0].DType = tensor.F8E5M2
		if c.d == tensor.U8 {
			if _, err := sparse.Densify(t.Context(), x,
				&sparse.Options{Duplicates: sparse.Sum}); !errors.Is(err, tensor.ErrDType) {
				t.Errorf("a sum of float8: %v", err)
			}
		}
	}
}

func TestIndicesOfFourBitsAreRead(t *testing.T) {
	x := csr(tensor.Shape{1, 3}, []uint8{0}, []uint64{1, 2}, []uint64{0, 2})
	x.DType = tensor.F4E2M1FN
	x.Parts[0] = tensor.Part{Role: "values", DType: x.DType, Data: tensor.BlobOf([]byte{0x21})}
	if _, err := sparse.Densify(t.Context(), x, nil); !errors.Is(err, tensor.ErrDType) {
		t.Error(err)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	const n = 1000
	at := make([]uint64, 2*n)
	for i := range at {
		at[i] = uint64(i % n)
	}
	x := coo(tensor.Shape{n, n}, make([]uint16, n), at...)
	if _, err := sparse.Densify(t.Context(), x, &sparse.Options{MaxMemory: 16 * n}); err != nil {
		t.Error("in order:", err)
	}
	swapped := slices.Clone(at)
	swapped[0], swapped[1] = 1, 0
	unordered := coo(tensor.Shape{n, n}, make([]uint16, n), swapped...)
	dense := tensor.New("x", tensor.Shape{n, 1}, at[:n])
	for what, do := range map[string]func(limit int64) error{
		"Densify": func(limit int64) error {
			_, err := sparse.Densify(t.Context(), unordered, &sparse.Options{MaxMemory: limit})
			return err
		},
		"Sort": func(limit int64) error {
			_, err := sparse.Sort(t.Context(), unordered, &sparse.Options{MaxMemory: limit})
			return err
		},
		"Check": func(limit int64) error {
			return sparse.Check(t.Context(), x,
				&sparse.Options{MaxMemory: limit - 1, Ordered: true})
		},
		"Sparsify": func(limit int64) error {
			_, err := sparse.Sparsify(t.Context(), dense, sparse.CSR,
				&sparse.Options{MaxMemory: limit})
			return err
		},
	} {
		if err := do(8 * n); !errors.Is(err, tensor.ErrLimit) {
			t.Errorf("%s: %v", what, err)
		}
		if err := do(64 * n); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A part that decodes to more than a file of its size can hold is refused before memory
// is full.
func TestMemoryIsBoundedByDefault(t *testing.T) {
	const n = 1 << 30
	zeros := func(size int64) tensor.Blob { return tensor.NewBlob(bomb{size: size}) }
	x := &tensor.Tensor{Name: "x", DType: tensor.U8, Shape: tensor.Shape{n}, Scheme: sparse.COO,
		Parts: []tensor.Part{
			{Role: "values", DType: tensor.U8, Data: zeros(n)},
			{Role: "coords", DType: tensor.U64, Data: zeros(8 * n)}}}
	if err := sparse.Check(t.Context(), x, &sparse.Options{Ordered: true}); !errors.Is(err,
		tensor.ErrLimit) {
		t.Error("Check:", err)
	}
	if _, err := sparse.Densify(t.Context(), x, nil); !errors.Is(err, tensor.ErrLimit) {
		t.Error("Densify:", err)
	}
}

// A bomb takes 100 bytes in its file and decodes to zeros.
type bomb struct {
	tensor.Computed
	size int64
}

func (b bomb) Size() int64                  { return b.size }
func (b bomb) Open() (io.ReadCloser, error) { return tensor.Stream(b), nil }
func (b bomb) Stored() (tensor.Stored, bool) {
	return tensor.Stored{Size: 100, Encoding: "zstd"}, true
}
func (b bomb) ReadInto(p []byte) error {
	clear(p)
	return nil
}
func (b bomb) ReadAt(p []byte, off int64) (int, error) {
	n := min(int64(len(p)), b.size-off)
	clear(p[:n])
	if n < int64(len(p)) {
		return int(n), io.EOF
	}
	return int(n), nil
}

func TestMalformedIndicesAreErrors(t *testing.T) {
	one := []uint8{1, 2}
	for name, x := range map[string]*tensor.Tensor{
		"a column outside": csr(tensor.Shape{2, 2}, one, []uint64{0, 2}, []uint64{0, 1, 2}),
		"rows that fall":   csr(tensor.Shape{2, 2}, one, []uint64{0, 1}, []uint64{0, 2, 1}),
		"too few rows":     csr(tensor.Shape{2, 2}, one, []uint64{0, 1}, []uint64{0, 2}),
		"too many rows": csr(tensor.Shape{2, 2}, one, []uint64{0, 1},
			[]uint64{0, 1, 2, 2}),
		"rows do not begin at 0": csr(tensor.Shape{2, 2}, one, []uint64{0, 1}, []uint64{1, 1, 2}),
		"too few indices":        csr(tensor.Shape{2, 2}, one, []uint64{0}, []uint64{0, 1, 2}),
		"too many indices": csr(tensor.Shape{2, 2}, one, []uint64{0, 1, 0},
			[]uint64{0, 1, 2}),
		"other number of values": csr(tensor.Shape{2, 2}, []uint8{1}, []uint64{0, 1},
			[]uint64{0, 1, 2}),
		"three dimensions": csr(tensor.Shape{2, 2, 1}, one, []uint64{0, 1},
			[]uint64{0, 1, 2}),
		"a coordinate outside": coo(tensor.Shape{2, 2}, one, 0, 1, 0, 2),
		"too few coordinates":  coo(tensor.Shape{2, 2}, one, 0, 1, 0),
		"too many coordinates": coo(tensor.Shape{2, 2}, one, 0, 1, 0, 1, 0),
		"no coordinates": {Name: "x", Shape: tensor.Shape{2}, Scheme: sparse.COO,
			Parts: []tensor.Part{{Role: "values", DType: tensor.U8}}},
	} {
		var named *sparse.Error
		if err := sparse.Check(t.Context(), x, nil); !errors.Is(err, tensor.ErrMalformed) ||
			!errors.As(err, &named) || named.Tensor != "x" {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := sparse.Densify(t.Context(), x, nil); !errors.Is(err, tensor.ErrMalformed) {
			t.Errorf("%s: Densify: %v", name, err)
		}
	}
	negative := coo(tensor.Shape{2}, one, 0, 1)
	negative.Parts[1] = tensor.Part{Role: "coords", DType: tensor.I8,
		Data: tensor.BlobOf([]byte{0, 0xff})}
	if err := sparse.Check(t.Context(), negative, nil); !errors.Is(err, tensor.ErrMalformed) {
		t.Error("a negative index:", err)
	}
	for _, d := range []tensor.DType{tensor.F32, tensor.Bool, tensor.F4E2M1FN} {
		x := coo(tensor.Shape{2, 2}, one, 0, 1, 0, 1)
		x.Parts[1].DType = d
		if err := sparse.Check(t.Context(), x, nil); !errors.Is(err, tensor.ErrDType) {
			t.Errorf("indices of %v: %v", d, err)
		}
	}
	scalar := coo(tensor.Shape{}, one)
	if _, err := sparse.Densify(t.Context(), scalar, nil); err == nil {
		t.Error("two values of a scalar: no error")
	}
}

// Index parts of every integer type mean the same.
func TestIndexTypesMeanTheSame(t *testing.T) {
	want := denseOf(t, coo(tensor.Shape{3, 4}, []uint8{5, 6}, 0, 2, 3, 1), nil)
	for _, d := range []tensor.DType{tensor.U8, tensor.I8, tensor.U16, tensor.I16, tensor.U32,
		tensor.I32, tensor.U64, tensor.I64, tensor.Unknown} {
		x := coo(tensor.Shape{3, 4}, []uint8{5, 6}, 0, 2, 3, 1)
		width := max(1, d.Size())
		if d == tensor.Unknown {
			width = 8
		}
		var b []byte
		for _, v := range []uint64{0, 2, 3, 1} {
			b = append(b, binary.LittleEndian.AppendUint64(nil, v)[:width]...)
		}
		x.Parts[1] = tensor.Part{Role: "coords", DType: d, Data: tensor.BlobOf(b)}
		if got := denseOf(t, x, nil); !bytes.Equal(got, want) {
			t.Errorf("%v: % x", d, got)
		}
		wide := sparse.Widen(t.Context(), x.Parts[1])
		got, err := wide.Data.ReadAll()
		if all, _ := u64(0, 2, 3, 1).ReadAll(); err != nil || wide.DType != tensor.U64 ||
			wide.Data.Size() != 32 || !bytes.Equal(got, all) {
			t.Errorf("%v widened: %v, % x, %v", d, wide.DType, got, err)
		}
	}
}

// A blob that does not say its size may hold more or less than the shape: nothing is
// made of it.
func TestSparsifyRefusesDataOfAnotherSize(t *testing.T) {
	for _, n := range []int{0, 7, 796, 801, 1 << 20} {
		x := &tensor.Tensor{Name: "x", DType: tensor.F32, Shape: tensor.Shape{10, 20},
			Data: tensor.BlobFunc(-1, func() (io.ReadCloser, error) {
				return io.NopCloser(bytes.NewReader(bytes.Repeat([]byte{1}, n))), nil
			})}
		for _, scheme := range []string{sparse.CSR, sparse.COO} {
			if _, err := sparse.Sparsify(t.Context(), x, scheme, nil); !errors.Is(err,
				tensor.ErrMalformed) {
				t.Errorf("%d bytes, %s: %v", n, scheme, err)
			}
		}
	}
}

func TestCancelledReadsEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	x := coo(tensor.Shape{2, 2}, []uint8{1, 2}, 0, 1, 0, 1)
	in, err := sparse.Open(ctx, x, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	cancel()
	if _, err := in.Read(make([]byte, 1)); !errors.Is(err, context.Canceled) {
		t.Error("Read:", err)
	}
	if err := sparse.Check(ctx, x, nil); !errors.Is(err, context.Canceled) {
		t.Error("Check:", err)
	}
	if _, err := sparse.Sparsify(ctx, tensor.New("x", tensor.Shape{1 << 20}, make([]byte, 1<<20)),
		sparse.COO, nil); !errors.Is(err, context.Canceled) {
		t.Error("Sparsify:", err)
	}
}
