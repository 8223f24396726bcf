package tensorfile

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/tensor"
)

// A Summary is what fits on a line about a file.
type Summary struct {
	Format     Format
	Version    string
	Size       int64 // of the file
	Tensors    int64
	Parameters int64 // elements of all tensors, at most math.MaxInt64
	Bytes      int64 // decoded, of all tensors whose size is known
	ByDType    map[tensor.DType]Total
	Blobs      int64
	Attributes map[string]string
}

// A Total sums up the tensors of one dtype.
type Total struct{ Tensors, Parameters, Bytes int64 }

// Summary walks the metadata once.
func (f *File) Summary() Summary {
	s := Summary{
		Format: f.format, Version: f.Version(), Size: f.size,
		ByDType: map[tensor.DType]Total{}, Attributes: maps.Collect(f.Attributes()),
	}
	var all Total
	for t := range f.Tensors() {
		n, _ := t.Shape.Elements()
		size := t.Size()
		if t.External {
			size, _ = t.DType.Bytes(n)
		}
		one := Total{1, n, max(size, 0)}
		all = all.plus(one)
		s.ByDType[t.DType] = s.ByDType[t.DType].plus(one)
	}
	s.Tensors, s.Parameters, s.Bytes = all.Tensors, all.Parameters, all.Bytes
	for range f.Blobs() {
		s.Blobs++
	}
	return s
}

func (t Total) plus(u Total) Total {
	sum := func(a, b int64) int64 {
		if c, ok := align.Add(a, b); ok {
			return c
		}
		return math.MaxInt64
	}
	return Total{t.Tensors + u.Tensors, sum(t.Parameters, u.Parameters), sum(t.Bytes, u.Bytes)}
}

// String writes the summary on one line.
func (s Summary) String() string {
	line := s.Format.String()
	if s.Version != "" {
		line += " " + s.Version
	}
	line += fmt.Sprintf(": %d tensors, %d parameters, %d bytes", s.Tensors, s.Parameters, s.Bytes)
	for _, d := range slices.Sorted(maps.Keys(s.ByDType)) {
		line += fmt.Sprintf(", %v %d", d, s.ByDType[d].Bytes)
	}
	return line
}
