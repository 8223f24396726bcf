package sparse

import (
	"bufio"
	"context"
	"fmt"
	"io"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/tensor"
)

// Densify returns the dense tensor that a sparse one stands for. It reads the indices, checks
// them as [Check] does, and keeps them, 8 bytes for each value. The dense bytes are made in a
// stream each time that they are read, so that a large shape costs nothing; values that are in
// order are read anew for that, others are kept as well.
func Densify(ctx context.Context, t *tensor.Tensor, opts *Options) (*tensor.Tensor, error) {
	if t == nil {
		return nil, errNil
	}
	d, err := newDense(ctx, t, opts.of(t))
	if err != nil {
		return nil, failed(t, err)
	}
	out := &tensor.Tensor{Name: t.Name, DType: t.Part("values").DType, Shape: t.Shape}
	out.Data = tensor.BlobFunc(d.size, func() (io.ReadCloser, error) { return d.open(context.Background()) })
	return out, nil
}

// Open streams the bytes of the tensor that [Densify] returns, until ctx ends, and holds the
// indices no longer than the stream is open.
func Open(ctx context.Context, t *tensor.Tensor, opts *Options) (io.ReadCloser, error) {
	if t == nil {
		return nil, errNil
	}
	d, err := newDense(ctx, t, opts.of(t))
	if err != nil {
		return nil, failed(t, err)
	}
	return d.open(ctx)
}

// A dense is what the dense bytes are made of. It does not change.
type dense struct {
	t      *tensor.Tensor
	at     []uint64 // units, which ascend
	values []byte   // of all units; nil where they are streamed
	width  int64    // bytes of a unit: an element, or a byte with two elements of four bits
	size   int64
}

func newDense(ctx context.Context, t *tensor.Tensor, o Options) (*dense, error) {
	x, values, err := load(ctx, t, o)
	if err != nil {
		return nil, err
	}
	d := &dense{t: t, at: x.at, values: values}
	kind := t.Part("values").DType
	elements, _ := t.Shape.Elements()
	if kind == tensor.F4E2M1FN {
		d.width, d.size = 1, elements/2+elements%2
		d.joinNibbles()
		return d, nil
	}
	d.width = int64(kind.Size())
	var ok bool
	if d.size, ok = align.Mul(elements, d.width); !ok {
		return nil, fmt.Errorf("%w: %d elements of %v", tensor.ErrLimit, elements, kind)
	}
	return d, nil
}

// joinNibbles makes bytes of values of four bits.
func (d *dense) joinNibbles() {
	n := 0
	for i, at := range d.at {
		v := d.values[i] << (4 * (at & 1))
		if n > 0 && d.at[n-1] == at/2 {
			d.values[n-1] |= v
			continue
		}
		d.at[n], d.values[n] = at/2, v
		n++
	}
	d.at, d.values = d.at[:n], d.values[:n]
}

func (d *dense) open(ctx context.Context) (io.ReadCloser, error) {
	s := &denseStream{dense: d, ctx: ctx, value: make([]byte, d.width)}
	if d.values == nil {
		values, err := d.t.Part("values").Data.Open()
		if err != nil {
			return nil, failed(d.t, err)
		}
		s.in, s.buffered = values, bufio.NewReaderSize(values, int(min(max(d.width, d.width*int64(len(d.at))), 64<<10)))
	}
	return s, nil
}

// A denseStream makes the dense bytes.
type denseStream struct {
	*dense
	ctx      context.Context
	in       io.Closer     // of the values; nil where they are in memory
	buffered *bufio.Reader // likewise
	next     int           // in at
	value    []byte
	rest     []byte // of value, which the last read cut
	off      int64
	err      error
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
		if err := s.fetch(); err != nil {
			s.err = failed(s.t, err)
			return 0, s.err
		}
		s.rest = s.value[copy(p[from:], s.value):]
	}
	s.off += int64(len(p))
	return len(p), nil
}

// fetch puts the next value into value.
func (s *denseStream) fetch() error {
	i := int64(s.next)
	s.next++
	if s.buffered == nil {
		copy(s.value, s.values[i*s.width:])
		return nil
	}
	_, err := io.ReadFull(s.buffered, s.value)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = fmt.Errorf("%w: fewer than %d values", tensor.ErrMalformed, len(s.at))
	}
	return err
}

// end reads the values to their end, where a digest is checked.
func (s *denseStream) end() error {
	if s.buffered == nil {
		return io.EOF
	}
	n, err := io.Copy(io.Discard, s.buffered)
	if err == nil && n > 0 {
		err = fmt.Errorf("%w: more than %d values", tensor.ErrMalformed, len(s.at))
	}
	if err != nil {
		return failed(s.t, err)
	}
	return io.EOF
}

func (s *denseStream) Close() error {
	if s.err == nil {
		s.err = fmt.Errorf("sparse: read of a closed stream")
	}
	if s.in == nil {
		return nil
	}
	in := s.in
	s.in = nil
	return in.Close()
}
