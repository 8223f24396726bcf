package torch

import (
	"io"
	"slices"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/tensor"
)

// A chunked is the data of a tensor that is assembled from chunks.
type chunked struct {
	tensor.Computed
	name   string
	dtype  dtype
	shape  tensor.Shape
	chunks []chunk
	size   int64 // bytes
}

// A chunk has the elements of a box of the tensor, in row-major order: in each dimension
// sizes elements from offsets on.
type chunk struct {
	offsets, sizes []int64
	data           tensor.Blob
}

// tensor returns the tensor. It fails unless the chunks cover each element once.
func (c *chunked) tensor() (tensor.Tensor, error) {
	t := tensor.Tensor{Name: c.name, DType: c.dtype.d}
	n, _ := c.shape.Elements()
	size, fits := align.Mul(n, c.dtype.size*c.dtype.packed)
	shape, ok := c.dtype.unpacked(c.shape)
	if !ok || !fits {
		return t, shardError("", c.name, "%v of %s", c.shape, c.dtype.name)
	}
	t.Shape, c.size = shape, size/c.dtype.packed
	c.chunks = slices.DeleteFunc(c.chunks, func(k chunk) bool {
		return slices.Contains(k.sizes, 0)
	})
	if n == 0 {
		return t, nil
	}
	if err := c.covered(n); err != nil {
		return t, err
	}
	if len(c.chunks) == 1 {
		t.Data = c.chunks[0].data
		return t, nil
	}
	t.Data = tensor.NewBlob(c)
	return t, nil
}

// covered fails unless each of the n elements is in one chunk. The edges of chunks divide
// the tensor into cells. No cell may be in two chunks, and all chunks together must have
// n elements.
func (c *chunked) covered(n int64) error {
	rank := len(c.shape)
	edges := make([][]int64, rank)
	for d := range rank {
		for _, k := range c.chunks {
			edges[d] = append(edges[d], k.offsets[d], k.offsets[d]+k.sizes[d])
		}
		slices.Sort(edges[d])
		edges[d] = slices.Compact(edges[d])
	}
	cells, ok := int64(1), true
	for d := range rank {
		if cells, ok = align.Mul(cells, max(int64(len(edges[d]))-1, 0)); !ok {
			break
		}
	}
	sum := int64(0)
	for _, k := range c.chunks {
		size, _ := tensor.Shape(k.sizes).Elements()
		sum, _ = align.Add(sum, size) // 0 where it overflows: not n
	}
	if sum != n {
		return shardError("", c.name, "chunks of %d elements for the %d of %v", sum, n, c.shape)
	}
	if !ok || cells > 1<<12+64*int64(len(c.chunks)) {
		return errs.At(-1, printable(c.name), tensor.ErrLimit,
			"chunks divide it into too many cells")
	}
	taken := make([]bool, cells)
	for _, k := range c.chunks {
		if !mark(taken, edges, k) {
			return shardError("", c.name, "the chunk at %v overlaps another", k.offsets)
		}
	}
	return nil
}

// mark marks the cells of a chunk as taken. It reports false if one was taken before.
func mark(taken []bool, edges [][]int64, k chunk) bool {
	rank := len(edges)
	from, count, at := make([]int, rank), make([]int, rank), make([]int, rank)
	for d := range rank {
		from[d], _ = slices.BinarySearch(edges[d], k.offsets[d])
		end, _ := slices.BinarySearch(edges[d], k.offsets[d]+k.sizes[d])
		count[d] = end - from[d]
	}
	for {
		cell := 0
		for d := range rank {
			cell = cell*(len(edges[d])-1) + from[d] + at[d]
		}
		if taken[cell] {
			return false
		}
		taken[cell] = true
		d := rank - 1
		for ; d >= 0; d-- {
			if at[d]++; at[d] < count[d] {
				break
			}
			at[d] = 0
		}
		if d < 0 {
			return true
		}
	}
}

func (c *chunked) Size() int64    { return c.size }
func (c *chunked) Seekable() bool { return true }

func (c *chunked) ReadInto(p []byte) error      { return tensor.ReadFull(c, p) }
func (c *chunked) Open() (io.ReadCloser, error) { return tensor.Stream(c), nil }

func (c *chunked) Stored() (tensor.Stored, bool) {
	s := tensor.Stored{Offset: -1, Encoding: "chunks"}
	for _, k := range c.chunks {
		st, _ := k.data.Stored()
		s.Size += st.Size
	}
	return s, true
}

// ReadAt reads the runs of each chunk that are in the range.
func (c *chunked) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off > c.size {
		return 0, io.EOF
	}
	short := int64(len(p)) > c.size-off
	if short {
		p = p[:c.size-off]
	}
	for i := range c.chunks {
		if err := c.readChunk(&c.chunks[i], p, off); err != nil {
			return 0, err
		}
	}
	if short {
		return len(p), io.EOF
	}
	return len(p), nil
}

// readChunk copies the bytes of a chunk to p, which has the bytes of the tensor from off
// on.
func (c *chunked) readChunk(k *chunk, p []byte, off int64) error {
	// A run is contiguous both in the chunk and in the tensor. It has the dimensions from
	// split on: in those after split, the chunk is as wide as the tensor.
	split, run := len(c.shape), c.dtype.size
	for split > 0 {
		split--
		run *= k.sizes[split]
		if k.sizes[split] != c.shape[split] {
			break
		}
	}
	runs := int64(1)
	for _, n := range k.sizes[:split] {
		runs *= n
	}
	end := off + int64(len(p))
	first := int64(0) // the first run that ends after off
	for last := runs; first < last; {
		if i := first + (last-first)/2; c.place(k, split, i)+run > off {
			last = i
		} else {
			first = i + 1
		}
	}
	for i := first; i < runs; i++ {
		at := c.place(k, split, i)
		if at >= end {
			break
		}
		skip := max(off-at, 0)
		n := min(run, end-at) - skip
		to := p[at+skip-off:][:n]
		if m, err := k.data.ReadAt(to, i*run+skip); int64(m) < n {
			if err == nil || err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

// place returns where in the tensor, in bytes, a run of the chunk begins.
func (c *chunked) place(k *chunk, split int, i int64) int64 {
	at, step := int64(0), c.dtype.size
	for d := len(c.shape) - 1; d >= 0; d-- {
		index := k.offsets[d]
		if d < split {
			index += i % k.sizes[d]
			i /= k.sizes[d]
		}
		at += index * step
		step *= c.shape[d]
	}
	return at
}
