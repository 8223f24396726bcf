package convert

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/memory"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// panelSize is how much of a reordered tensor is made at a time.
const panelSize = 4 << 20

// reordered changes the order of dimensions; the data is made as it is read. Where
// the source is in memory or mapped it is gathered from there, panel by panel, once
// its digest was checked; otherwise the whole tensor is read first, a large one into
// a temporary file.
func reordered(order tensor.Order) step {
	return func(ctx context.Context, t *tensor.Tensor) (*tensor.Tensor, error) {
		data, err := reorderedData(ctx, t, order)
		if err != nil {
			return nil, err
		}
		out := *t
		out.Order, out.Data = order, data
		return &out, nil
	}
}

func reorderedData(
	ctx context.Context, t *tensor.Tensor, order tensor.Order,
) (tensor.Blob, error) {
	from, ok1 := t.Order.Strides(t.Shape)
	_, ok2 := order.Strides(t.Shape)
	width := int64(t.DType.Size())
	if width == 0 {
		return tensor.Blob{}, fmt.Errorf("%w: the order of %v cannot be changed", tensor.ErrDType,
			t.DType)
	}
	n, _ := t.Shape.Elements()
	if n == 0 || !ok1 || !ok2 {
		return t.Data, nil
	}
	src := t.Data
	size, _ := t.DType.Bytes(n)
	return tensor.BlobFunc(src.Size(), func() (io.ReadCloser, error) {
		b, ok := src.Bytes()
		release := func() {}
		var err error
		if st, _ := src.Stored(); ok && st.Digest != "" {
			err = checkDigest(ctx, src)
		}
		if err != nil {
			return nil, err
		}
		if !ok {
			if b, release, err = readChecked(ctx, src); err != nil {
				return nil, err
			}
			if int64(len(b)) != size { // which a source of unknown size shows only here
				release()
				return nil, fmt.Errorf("%w: %d bytes of data where %v of %v takes %d",
					tensor.ErrMalformed,
					len(b), t.Shape, t.DType, size)
			}
		}
		return &gatherer{src: b, release: release, shape: t.Shape, from: from, order: order,
			width: width}, nil
	}), nil
}

// checkDigest reads all of b for the digest that its stream checks.
func checkDigest(ctx context.Context, b tensor.Blob) error {
	_, err := b.WriteTo(format.Until(ctx, io.Discard))
	return err
}

// readChecked reads all through the stream, which checks a digest.
func readChecked(ctx context.Context, b tensor.Blob) (all []byte, release func(), err error) {
	in, err := b.Open()
	if err != nil {
		return nil, nil, err
	}
	defer in.Close()
	s, release, err := source.Hold(ctx, in)
	if err != nil {
		return nil, nil, err
	}
	all, ok := s.Bytes(0, s.Size())
	if !ok { // the platform maps nothing
		defer release()
		all, err = s.Metadata(0, s.Size())
		return all, func() {}, err
	}
	return all, release, nil
}

// A gatherer streams the elements of src in another order. A panel is a range of
// one dimension, and all of those that are faster than it in the new order; the
// slower ones stand still.
type gatherer struct {
	src     []byte
	release func() // of src
	shape   tensor.Shape
	from    []int64 // strides in src
	order   tensor.Order
	width   int64

	dims  []int   // the dimensions from slowest to fastest, new order
	split int     // dims[split] is the one that panels are ranges of
	rows  int64   // of it in a panel
	inner int64   // elements for each of those
	index []int64 // where the next panel begins, by place in dims
	buf   []byte
	have  []byte
	done  bool
}

func (g *gatherer) plan() {
	rank := len(g.shape)
	g.dims = make([]int, rank)
	for i := range g.dims {
		g.dims[i] = i
		if g.order != nil {
			g.dims[i] = g.order[i]
		}
	}
	g.index = make([]int64, rank)
	g.inner, g.split = 1, rank-1
	for g.split > 0 {
		grown, ok := align.Mul(g.inner, g.shape[g.dims[g.split]])
		if !ok || grown > panelSize/g.width {
			break
		}
		g.inner = grown
		g.split--
	}
	g.rows = max(1, panelSize/g.width/g.inner)
	if rank > 0 {
		g.rows = min(g.rows, g.shape[g.dims[g.split]])
	}
	g.buf = make([]byte, g.rows*g.inner*g.width)
}

func (g *gatherer) Read(p []byte) (int, error) {
	if len(g.have) == 0 {
		if g.done {
			return 0, io.EOF
		}
		if err := memory.Guard(g.src, func() error { g.panel(); return nil }); err != nil {
			return 0, err
		}
	}
	n := copy(p, g.have)
	g.have = g.have[n:]
	return n, nil
}

// panel makes the next panel and moves on.
func (g *gatherer) panel() {
	if g.dims == nil {
		g.plan()
	}
	rank := len(g.dims)
	if rank == 0 {
		g.have, g.done = bytes.Clone(g.src), true
		return
	}
	d := g.dims[g.split]
	rows := min(g.rows, g.shape[d]-g.index[g.split])
	base := int64(0)
	for i, at := range g.index[:g.split+1] {
		base += at * g.from[g.dims[i]]
	}
	shape := make([]int64, rank)
	to := make([]int64, rank)
	step := int64(1)
	for i := rank - 1; i >= 0; i-- {
		shape[g.dims[i]], to[g.dims[i]] = 1, step
		switch {
		case i > g.split:
			shape[g.dims[i]] = g.shape[g.dims[i]]
		case i == g.split:
			shape[d] = rows
		}
		step *= shape[g.dims[i]]
	}
	g.have = g.buf[:rows*g.inner*g.width]
	memory.CopyStrided(g.have, to, g.src[base*g.width:], g.from, shape, g.width)
	g.index[g.split] += rows
	for i := g.split; g.index[i] == g.shape[g.dims[i]]; i-- {
		if i == 0 {
			g.done = true
			return
		}
		g.index[i] = 0
		g.index[i-1]++
	}
}

func (g *gatherer) Close() error {
	if g.src != nil {
		g.release()
	}
	g.src, g.have, g.done = nil, nil, true
	return nil
}
