package quant

import (
	"errors"
	"fmt"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// An area is a rectangle of one matrix of a batch, in the order of the file.
type area struct{ batch, r0, r1, c0, c1 int64 }

func (a area) elements() int64 { return (a.r1 - a.r0) * (a.c1 - a.c0) }

// A matrix is a batch of matrices of numbers: stored codes, and the operations that turn
// codes into numbers. Every operation is in float32, rounded once.
type matrix struct {
	batch, rows, cols int64
	codes             codes
	ops               []operation
}

// codes are numbers as they are stored.
type codes interface {
	// load reads the bytes of the elements of a. It uses buf if that is large enough.
	load(a area, read partReader, buf []byte) ([]byte, error)
	// decode sets dst to the elements of row r from column c on, which are in a. in is
	// the result of load for a.
	decode(dst []float32, in []byte, a area, r, c int64)
	// inputs returns the blobs that load reads.
	inputs() []*input
}

type operator uint8

const (
	multiply operator = iota
	divide
	add
	subtract
)

// An operation combines each element of a matrix with an element of the grid.
type operation struct {
	operator operator
	grid     *matrix
	// rowSize rows and colSize columns share an element of the grid.
	rowSize, colSize int64
	// groups, if not nil, has the row of the grid for each row, in place of rowSize; with
	// byColumn the column of the grid for each column, in place of colSize.
	groups   *groups
	byColumn bool
}

// groups has the group of each row or column. It is read before the first values.
type groups struct {
	tensor *tensor.Tensor // I32
	limit  int64          // the number of groups
	of     []int32        // nil before read, and if the file does not use groups
}

// read reads the groups. If all are -1, the file does not use groups.
func (g *groups) read() error {
	all, err := tensor.Load[int32](g.tensor)
	if err != nil {
		return err
	}
	unused := 0
	for i, v := range all {
		if v == -1 {
			unused++
		} else if v < 0 || int64(v) >= g.limit {
			return fmt.Errorf("%w: tensor %s: element %d is %d, of %d groups",
				tensor.ErrMalformed, naming.Quote(g.tensor.Name), i, v, g.limit)
		}
	}
	switch unused {
	case 0:
		g.of = all
	case len(all):
	default:
		return fmt.Errorf("%w: tensor %s: %d of %d groups are -1", tensor.ErrMalformed,
			naming.Quote(g.tensor.Name), unused, len(all))
	}
	return nil
}

// each returns an operation in which rowSize rows and colSize columns share an element of
// the grid.
func each(op operator, grid *matrix, rowSize, colSize int64) operation {
	return operation{operator: op, grid: grid, rowSize: rowSize, colSize: colSize}
}

// all returns an operation with one number for all elements of a matrix.
func all(op operator, number *matrix, rows, cols int64) operation {
	return each(op, number, max(rows, 1), max(cols, 1))
}

// indices returns the group of each row, or of each column; nil if sizes are used.
func (o *operation) indices() (rows, cols []int32) {
	switch {
	case o.groups == nil:
		return nil, nil
	case o.byColumn:
		return nil, o.groups.of
	}
	return o.groups.of, nil
}

// area returns the part of the grid that the elements of a need.
func (o *operation) area(a area) area {
	g := area{a.batch, a.r0 / o.rowSize, (a.r1-1)/o.rowSize + 1,
		a.c0 / o.colSize, (a.c1-1)/o.colSize + 1}
	if o.grid.batch == 1 {
		g.batch = 0
	}
	if rows, _ := o.indices(); rows != nil {
		g.r0, g.r1 = 0, o.grid.rows
	}
	if _, cols := o.indices(); cols != nil {
		g.c0, g.c1 = 0, o.grid.cols
	}
	return g
}

// A panel has the bytes that were read for an area of a matrix. Its memory is reused.
type panel struct {
	area   area
	in     []byte
	grids  []*panel  // of the operations
	values []float32 // of a grid: all elements of the area
}

// errDivisor is the error of a division by zero.
var errDivisor = errors.New("a scale that is divided by is 0")

// load reads the bytes of the elements of a into p. a is not empty.
func (m *matrix) load(p *panel, a area, read partReader) (err error) {
	p.area = a
	if p.in, err = m.codes.load(a, read, p.in); err != nil {
		return err
	}
	for len(p.grids) < len(m.ops) {
		p.grids = append(p.grids, new(panel))
	}
	for i := range m.ops {
		o, g := &m.ops[i], p.grids[i]
		if err := o.grid.load(g, o.area(a), read); err != nil {
			return err
		}
		n, width := int(g.area.elements()), int(g.area.c1-g.area.c0)
		if cap(g.values) < n {
			g.values = make([]float32, n)
		}
		g.values = g.values[:n]
		for r := g.area.r0; r < g.area.r1; r++ {
			at := int(r-g.area.r0) * width
			o.grid.decode(g.values[at:at+width], g, r, g.area.c0)
		}
		if o.operator == divide {
			for _, v := range g.values {
				if v == 0 {
					return fmt.Errorf("%w: %w", tensor.ErrMalformed, errDivisor)
				}
			}
		}
	}
	return nil
}

// decode sets dst to the elements of row r from column c on, which are in the area of p.
func (m *matrix) decode(dst []float32, p *panel, r, c int64) {
	m.codes.decode(dst, p.in, p.area, r, c)
	for i := range m.ops {
		m.ops[i].apply(dst, p.grids[i], r, c)
	}
}

// apply combines the elements of row r from column c on with the elements of the grid.
func (o *operation) apply(dst []float32, g *panel, r, c int64) {
	row := r / o.rowSize
	rows, cols := o.indices()
	if rows != nil {
		row = int64(rows[r])
	}
	width := g.area.c1 - g.area.c0
	values := g.values[(row-g.area.r0)*width:][:width]
	switch {
	case cols != nil:
		var block [256]float32
		index := cols[c:]
		for len(dst) > 0 {
			n := min(len(dst), len(block))
			for i, k := range index[:n] {
				block[i] = values[k]
			}
			o.vector(dst[:n], block[:n])
			dst, index = dst[n:], index[n:]
		}
	case o.colSize == 1:
		o.vector(dst, values[c-g.area.c0:])
	default:
		k := c / o.colSize
		n := min(int((k+1)*o.colSize-c), len(dst))
		k -= g.area.c0
		for len(dst) > 0 {
			o.scalar(dst[:n], values[k])
			dst, k = dst[n:], k+1
			n = min(int(o.colSize), len(dst))
		}
	}
}

func (o *operation) scalar(dst []float32, v float32) {
	switch o.operator {
	case multiply:
		for i := range dst {
			dst[i] *= v
		}
	case divide:
		for i := range dst {
			dst[i] /= v
		}
	case add:
		for i := range dst {
			dst[i] += v
		}
	case subtract:
		for i := range dst {
			dst[i] -= v
		}
	}
}

func (o *operation) vector(dst, v []float32) {
	v = v[:len(dst)]
	switch o.operator {
	case multiply:
		for i := range dst {
			dst[i] *= v[i]
		}
	case divide:
		for i := range dst {
			dst[i] /= v[i]
		}
	case add:
		for i := range dst {
			dst[i] += v[i]
		}
	case subtract:
		for i := range dst {
			dst[i] -= v[i]
		}
	}
}

// inputs calls f with every blob that m and its grids read.
func (m *matrix) inputs(f func(*input)) {
	for _, in := range m.codes.inputs() {
		f(in)
	}
	for i := range m.ops {
		m.ops[i].grid.inputs(f)
	}
}
