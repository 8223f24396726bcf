package tensor_test

import (
	"errors"
	"fmt"

	"github.com/tensorfile/tensorfile/tensor"
)

// Weights without a copy where that works, with one where it must be.
func ExampleView() {
	w := tensor.New("layers.0.weight", tensor.Shape{2, 2}, []float32{1, 2, 3, 4})
	xs, err := tensor.View[float32](w)    // borrowed
	if errors.Is(err, tensor.ErrNoView) { // compressed, misaligned, other byte order, not mapped
		xs, err = tensor.Load[float32](w) // copied
	}
	fmt.Println(xs, err)
	// Output: [1 2 3 4] <nil>
}

// Into memory that the caller owns.
func ExampleLoadInto() {
	w := tensor.New("w", tensor.Shape{3}, []tensor.BFloat16{0x3f80, 0x4000, 0x4040})
	n, _ := w.Shape.Elements()
	dst := make([]tensor.BFloat16, n)
	err := tensor.LoadInto(dst, w)
	fmt.Println(dst[2].Float32(), err)
	// Output: 3 <nil>
}

func ExampleLoad() {
	w := tensor.New("ids", tensor.Shape{3}, []int64{7, 8, 9})
	_, err := tensor.Load[int32](w)
	ids, _ := tensor.Load[int64](w)
	fmt.Println(err)
	fmt.Println(ids)
	// Output:
	// dtype mismatch: tensor "ids" is int64, not int32
	// [7 8 9]
}

func ExampleConvert() {
	w := tensor.New("w", tensor.Shape{2}, []int8{-1, 1})
	fmt.Println(tensor.Convert[float32](w))
	// Output: [-1 1] <nil>
}

// A column-major tensor, as primitiv keeps them, as a row-major copy.
func ExampleReordered() {
	w := tensor.New("w", tensor.Shape{2, 3}, []float32{1, 4, 2, 5, 3, 6})
	w.Order = tensor.ColumnMajor(2)
	r, err := tensor.Reordered(w, nil)
	if err != nil {
		panic(err)
	}
	fmt.Println(tensor.Load[float32](r))
	// Output: [1 2 3 4 5 6] <nil>
}

// A Verify returns a report with all that it found, and an error if any of it is damage.
func ExampleReport() {
	report := &tensor.Report{Findings: []tensor.Finding{
		tensor.FindingOf(&tensor.FormatError{Format: "ztensor", Offset: 64,
			Field: `objects["w"].digest`,
			Err:   fmt.Errorf("%w: stored 0x1a2b3c4d", tensor.ErrChecksum)}),
	}}
	for _, f := range report.Findings {
		fmt.Println(f.Severity, f.Class, f.Offset, f.Field)
	}
	fmt.Println(errors.Is(report.Err(), tensor.ErrChecksum))
	// Output:
	// error checksum 64 objects["w"].digest
	// true
}

func ExampleParseDType() {
	d, err := tensor.ParseDType("bf16")
	fmt.Println(d, d.Bits(), err)
	// Output: bfloat16 16 <nil>
}

// Rows 1 and 2 of a tensor into memory that is used again; nothing else is read.
func ExampleConvertInto() {
	w := tensor.New("w", tensor.Shape{4, 2},
		[]tensor.Float16{0, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0, 0})
	part, err := tensor.Slice(w, tensor.Range{Start: 1, Stop: 3}, tensor.All)
	if err != nil {
		panic(err)
	}
	dst := make([]float32, 4)
	err = tensor.ConvertInto(dst, part)
	fmt.Println(dst, err)
	// Output: [2 3 4 5] <nil>
}

// The elements of any tensor in pieces, without a slice of all of them.
func ExampleValues() {
	w := tensor.New("w", tensor.Shape{3}, []int16{1, 2, 3})
	sum := 0.0
	for piece, err := range tensor.Values[float64](w) {
		if err != nil {
			panic(err)
		}
		for _, v := range piece {
			sum += v
		}
	}
	fmt.Println(sum)
	// Output: 6
}

// A tensor of another dtype, converted when it is read, for a Writer.
func ExampleAs() {
	w := tensor.New("w", tensor.Shape{2}, []float32{1, 0.1})
	b, err := tensor.As(w, tensor.BF16)
	if err != nil {
		panic(err)
	}
	xs, err := tensor.Load[tensor.BFloat16](b)
	fmt.Println(b.DType, b.Size(), xs[1].Float32(), err)
	// Output: bfloat16 4 0.100097656 <nil>
}

// A part of a tensor is a tensor: w[1:3, -1].
func ExampleSlice() {
	w := tensor.New("w", tensor.Shape{3, 4}, []int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})
	part, err := tensor.Slice(w, tensor.Range{Start: 1, Stop: 3}, tensor.At(-1))
	if err != nil {
		panic(err)
	}
	values, err := tensor.Convert[float32](part)
	fmt.Println(part.Shape, values, err)
	// Output: [2] [7 11] <nil>
}
