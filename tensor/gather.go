package tensor

import (
	"fmt"
	"io"

	"github.com/tensorfile/tensorfile/internal/align"
)

// Gather returns the elements of a strided array in row-major order. data has the
// elements, width bytes each; the array has that shape and those strides. Strides and
// first, the index of the first element, count elements and are not negative; every
// element must be inside data. A contiguous array is a section of data. Otherwise nothing
// is copied until the result is read, and reading more than maxBytes fails with ErrLimit:
// with strides of 0 an array can be far larger than its data.
func Gather(data Blob, width int64, shape Shape, strides []int64, first, maxBytes int64) (Blob,
	error) {
	n, ok := shape.Elements()
	if !ok || len(strides) != len(shape) || width <= 0 || first < 0 {
		return Blob{}, fmt.Errorf("%w: shape %v with strides %v", ErrMalformed, shape, strides)
	}
	if n == 0 {
		return Blob{}, nil
	}
	size, ok := align.Mul(n, width)
	if !ok {
		return Blob{}, fmt.Errorf("%w: %v elements of %d bytes", ErrMalformed, shape, width)
	}
	last := first
	for d, count := range shape {
		var step int64
		if step, ok = align.Mul(count-1, strides[d]); ok {
			last, ok = align.Add(last, step)
		}
		if !ok {
			break
		}
	}
	if !ok || last >= data.Size()/width {
		return Blob{}, fmt.Errorf(
			"%w: shape %v with strides %v from element %d is outside of %d elements",
			ErrMalformed, shape, strides, first, data.Size()/width)
	}
	g := &gathered{part: part{data: data, bits: width * 8, first: first, size: size},
		max: maxBytes}
	for d, count := range shape {
		g.add(count, 1, 0, strides[d])
	}
	if g.contiguous() {
		return data.Section(first*width, size)
	}
	return NewBlob(g), nil
}

// gathered is a part that can be larger than its data.
type gathered struct {
	part
	max int64
}

// Stored reports that the elements are not at one place of the file.
func (g *gathered) Stored() (Stored, bool) {
	st := Stored{Offset: -1, Size: min(g.size, g.data.Size()), Encoding: "strided"}
	if in, ok := g.data.Stored(); ok {
		st.File = in.File
	}
	return st, true
}

func (g *gathered) check() error {
	if g.size > g.max {
		return fmt.Errorf("%w: %d bytes gathered from %d, the limit is %d", ErrLimit, g.size,
			g.data.Size(), g.max)
	}
	return nil
}

// Open is for Blob.Open.
func (g *gathered) Open() (io.ReadCloser, error) {
	if err := g.check(); err != nil {
		return nil, err
	}
	return g.part.Open()
}

func (g *gathered) ReadAt(p []byte, off int64) (int, error) {
	if err := g.check(); err != nil {
		return 0, err
	}
	return g.part.ReadAt(p, off)
}

// ReadInto is for Blob.ReadInto.
func (g *gathered) ReadInto(p []byte) error {
	if err := g.check(); err != nil {
		return err
	}
	return g.part.ReadInto(p)
}
