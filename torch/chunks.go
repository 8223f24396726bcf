package torch

import (
	"io"
	"slices"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/tensor"
)

// A chunked tensor is assembled from boxes of its elements.
type chunked struct {
	tensor.Computed
	name   string
	dtype  dtype
	shape  tensor.Shape
	chunks []chunk
	size   int64 // bytes
}

// A chunk is the elements from offsets on, sizes of them in each dimension, in row-major
// order.
type chunk struct {
	offsets, sizes []int64
	data           tensor.Blob
}

// tensor checks that the chunks cover the tensor, each element once.
func (c *chunked) tensor() (tensor.Tensor, error) {
	t := tensor.Tensor{Name: c.name, DType: c.dtype.d}
	n, _ := c.shape.Elements()
	size, fits := align.Mul(n, c.dtype.size*c.dtype.packed)
	shape, ok := c.dtype.unpacked(c.shape)
	if !ok || !fits {
		return t, shardError("", c.name, "%v of %s", c.shape, c.dtype.word)
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

// covered reports an error unless each of the n elements is in one chunk. The edges of
// chunks divide the tensor into cells; each chunk must have cells of its own, and all of
// them together every cell.
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
	return nil // no cell is in two chunks, and the chunks have as many elements as the tensor
}

// mark marks the cells of a chunk, and reports whether none was marked before.
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

// readChunk copies to p, the bytes of the tensor at off, those that are of the chunk.
func (c *chunked) readChunk(k *chunk, p []byte, off int64) error {
	// A run is the elements of the chunk that are contiguous in the tensor, too: of the
	// dimensions from split on, after which the chunk is as wide as the tensor.
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
	first := int64(0) // run that ends after off
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
