package sparse

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"io/fs"

	"github.com/tensorfile/tensorfile/tensor"
)

// Densify returns t as a dense tensor. It reads and checks the indices as [Check] does,
// and keeps them, 8 bytes each; values that are not in order it keeps too. The dense
// bytes are computed each time that they are read, from values of t that are read again.
// It fails with errors.ErrUnsupported for other schemes, with a [DuplicateError] as opts
// say.
func Densify(ctx context.Context, t *tensor.Tensor, opts *Options) (*tensor.Tensor, error) {
	d, err := newDense(ctx, t, opts)
	if err != nil {
		return nil, tensorError(t, err)
	}
	out := &tensor.Tensor{Name: t.Name, DType: t.Part("values").DType, Shape: t.Shape}
	out.Data = tensor.BlobFunc(d.size,
		func() (io.ReadCloser, error) { return d.open(context.Background()) })
	return out, nil
}

// Open streams the bytes of the tensor that [Densify] returns, until ctx ends. It holds
// the indices while the stream is open.
func Open(ctx context.Context, t *tensor.Tensor, opts *Options) (io.ReadCloser, error) {
	d, err := newDense(ctx, t, opts)
	if err != nil {
		return nil, tensorError(t, err)
	}
	return d.open(ctx)
}

// A dense has what a denseStream reads. It is immutable.
type dense struct {
	t      *tensor.Tensor
	at     []uint64    // the element of each value; they ascend
	values tensor.Blob // one value for each element in at
	width  int64       // bytes of an element
	size   int64
}

func newDense(ctx context.Context, t *tensor.Tensor, opts *Options) (*dense, error) {
	x, values, err := load(ctx, t, opts)
	if err != nil {
		return nil, err
	}
	p := t.Part("values")
	elements, _ := t.Shape.Elements()
	size, ok := p.DType.Bytes(elements)
	if !ok {
		return nil, fmt.Errorf("%w: %d elements of %v", tensor.ErrLimit, elements, p.DType)
	}
	d := &dense{t: t, at: x.at, values: p.Data, width: int64(p.DType.Size()), size: size}
	if values != nil {
		d.values = tensor.BlobOf(values)
	}
	return d, nil
}

func (d *dense) open(ctx context.Context) (io.ReadCloser, error) {
	in, err := d.values.Open()
	if err != nil {
		return nil, tensorError(d.t, err)
	}
	size := min(max(d.width, d.width*int64(len(d.at))), 64<<10)
	return &denseStream{dense: d, ctx: ctx, in: in, values: bufio.NewReaderSize(in, int(size)),
		value: make([]byte, d.width)}, nil
}

// A denseStream computes the dense bytes.
type denseStream struct {
	*dense
	ctx    context.Context
	in     io.Closer // of values
	values *bufio.Reader
	next   int // index in at
	value  []byte
	rest   []byte // bytes of value for the next Read
	off    int64
	err    error
}

func (s *denseStream) Read(p []byte) (int, error) {
	if s.err == nil {
		s.err = s.ctx.Err()
	}
	if s.err != nil || len(p) == 0 {
		return 0, s.err
	}
	p = p[:min(int64(len(p)), s.size-s.off, 1<<20)]
	if len(p) == 0 {
		s.err = s.end()
		return 0, s.err
	}
	clear(p)
	s.rest = s.rest[copy(p, s.rest):]
	for s.next < len(s.at) && len(s.rest) == 0 {
		from := int64(s.at[s.next])*s.width - s.off // fits: below size
		if from >= int64(len(p)) {
			break
		}
		if _, err := io.ReadFull(s.values, s.value); err != nil {
			if err == io.EOF || err == io.ErrUnexpectedEOF {
				err = malformed("fewer than %d values", len(s.at))
			}
			s.err = tensorError(s.t, err)
			return 0, s.err
		}
		s.next++
		s.rest = s.value[copy(p[from:], s.value):]
	}
	s.off += int64(len(p))
	return len(p), nil
}

// end fails if there are more values. It reads to their end, which checks a digest.
func (s *denseStream) end() error {
	n, err := io.Copy(io.Discard, s.values)
	if err == nil && n > 0 {
		err = malformed("more than %d values", len(s.at))
	}
	if err != nil {
		return tensorError(s.t, err)
	}
	return io.EOF
}

// Close may be called twice.
func (s *denseStream) Close() error {
	if s.err == fs.ErrClosed {
		return nil
	}
	s.err = fs.ErrClosed
	return s.in.Close()
}
