package ztensor

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// Densify returns the dense tensor that a sparse_csr or sparse_coo tensor, of any
// version, stands for. It reads the indices and checks them as [CheckSparse]
// does; the dense bytes are made each time that they are read, in a stream,
// so that a shape without bounds costs nothing. Of up to 32,768 values it keeps
// them and their places. Of more the stream of [OpenDense] reads the parts of t
// anew. Two values at one place are errors.ErrUnsupported: the format does not say
// what they mean.
func Densify(ctx context.Context, t *tensor.Tensor) (*tensor.Tensor, error) {
	if t == nil {
		return nil, errNil
	}
	const few = 32 << 10
	s, err := openSparse(ctx, t, indexRoles...)
	if err != nil {
		return nil, sparseError(t, err)
	}
	defer s.release()
	var all []place
	ascending, err := s.ascends(ctx, func(p place) {
		if p.value < few {
			all = append(all, p)
		} else {
			all = nil
		}
	})
	if err != nil {
		return nil, sparseError(t, err)
	}
	width, size, err := denseSize(t)
	if err != nil {
		return nil, sparseError(t, err)
	}
	out := &tensor.Tensor{Name: t.Name, DType: t.Part("values").DType, Shape: t.Shape}
	if int64(len(all)) == s.nnz {
		values, err := readChecked(s.Part("values").Data, s.nnz*width)
		if err != nil {
			return nil, sparseError(t, err)
		}
		if !ascending {
			slices.SortStableFunc(all, func(a, b place) int { return cmp.Compare(a.at, b.at) })
		}
		for i := 1; i < len(all); i++ {
			if all[i-1].at == all[i].at {
				return nil, sparseError(t, &repeated{all[i].at})
			}
		}
		out.Data = tensor.BlobFunc(size, func() (io.ReadCloser, error) {
			return &dense{places: all, values: values, width: width, size: size}, nil
		})
		return out, nil
	}
	if !ascending {
		if err := s.inOrder(ctx, 0, false, func(uint64, []byte) error { return nil }); err != nil {
			return nil, sparseError(t, err)
		}
	}
	whole := s.counted(t)
	out.Data = tensor.BlobFunc(size, func() (io.ReadCloser, error) { return OpenDense(context.Background(), whole) })
	return out, nil
}

// denseSize is how many bytes a value and the dense tensor have.
func denseSize(t *tensor.Tensor) (width, size int64, err error) {
	d := t.Part("values").DType
	if width = int64(d.Size()); width == 0 {
		return 0, 0, fmt.Errorf("%w: values of %v", tensor.ErrDType, d)
	}
	elements, _ := t.Shape.Elements()
	size, ok := align.Mul(elements, width)
	if !ok {
		return 0, 0, fmt.Errorf("%w: %d elements of %v", tensor.ErrLimit, elements, d)
	}
	return width, size, nil
}

// OpenDense streams the bytes of the tensor that [Densify] returns, as long as
// ctx. Before the first it checks the indices. It holds some MiB, and of the parts
// that are compressed one window: what else it needs, which is indices of which
// two parts are compressed, and values whose indices are not in order, lies in a
// temporary file until the stream is closed. Digests are checked on the way.
func OpenDense(ctx context.Context, t *tensor.Tensor) (io.ReadCloser, error) {
	if t == nil {
		return nil, errNil
	}
	elements, _ := t.Shape.Elements()
	return piped(ctx, elements, func(ctx context.Context, w *bufio.Writer) error {
		if err := streamDense(ctx, w, t); err != nil {
			return sparseError(t, err)
		}
		return nil
	}), nil
}

// readChecked reads n bytes, all that b has, through the stream, which checks a
// digest.
func readChecked(b tensor.Blob, n int64) ([]byte, error) {
	in, err := b.Open()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	p := make([]byte, n)
	if _, err := io.ReadFull(in, p); err != nil {
		return nil, err
	}
	more, err := io.Copy(io.Discard, in)
	if err == nil && more > 0 {
		err = fmt.Errorf("%w: %d bytes of values, not %d", tensor.ErrMalformed, n+more, n)
	}
	return p, err
}

// piped streams what produce writes, some size bytes, on a goroutine that has ended
// when the stream is closed.
func piped(ctx context.Context, size int64, produce func(ctx context.Context, w *bufio.Writer) error) io.ReadCloser {
	ctx, cancel := context.WithCancel(ctx)
	pr, pw := io.Pipe()
	p := &pipe{PipeReader: pr, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		w := bufio.NewWriterSize(pw, int(min(max(size, 1<<10), 256<<10)))
		err := p.caught.during(func() error { return produce(ctx, w) })
		if err == nil {
			err = w.Flush()
		}
		pw.CloseWithError(err)
	}()
	return p
}

type pipe struct {
	*io.PipeReader
	cancel context.CancelFunc
	ended  chan struct{}
	caught caught
}

func (p *pipe) Read(b []byte) (int, error) {
	n, err := p.PipeReader.Read(b)
	if err != nil && err != io.ErrClosedPipe { // which Close says, while the other goroutine runs
		p.caught.rethrow()
	}
	return n, err
}

func (p *pipe) Close() error {
	p.cancel()
	err := p.PipeReader.Close()
	<-p.ended
	return err
}

// streamDense writes the dense form of t.
func streamDense(ctx context.Context, w *bufio.Writer, t *tensor.Tensor) error {
	s, err := openSparse(ctx, t, indexRoles...)
	if err != nil {
		return err
	}
	defer s.release()
	ascending, err := s.ascends(ctx, nil)
	if err != nil {
		return err
	}
	width, size, err := denseSize(t)
	if err != nil {
		return err
	}
	end := int64(0) // of what is written
	if err := s.inOrder(ctx, int(width), ascending, func(at uint64, value []byte) error {
		to := int64(at) * width // fits: below size
		if to >= size {
			return fmt.Errorf("%w: the indices were in the shape before", tensor.ErrMalformed)
		}
		if err := zeros(w, to-end); err != nil {
			return err
		}
		end = to + width
		_, err := w.Write(value)
		return err
	}); err != nil {
		return err
	}
	return zeros(w, size-end)
}

var noBytes [4 << 10]byte

// zeros writes n zeros.
func zeros(w *bufio.Writer, n int64) error {
	for n > 0 {
		k, err := w.Write(noBytes[:min(n, int64(len(noBytes)))])
		if err != nil {
			return err
		}
		n -= int64(k)
	}
	return nil
}

func sparseError(t *tensor.Tensor, err error) error {
	return fmt.Errorf("ztensor: tensor %s: %w", tensor.Quote(t.Name), err)
}

// dense streams zeros with values in between.
type dense struct {
	places []place // still to come
	values []byte
	width  int64
	off    int64
	size   int64
}

func (d *dense) Read(p []byte) (int, error) {
	p = p[:min(int64(len(p)), d.size-d.off)]
	if len(p) == 0 {
		return 0, io.EOF
	}
	clear(p)
	end := d.off + int64(len(p))
	for len(d.places) > 0 {
		from := int64(d.places[0].at) * d.width // fits: below size
		if from >= end {
			break
		}
		v := d.values[int64(d.places[0].value)*d.width:][:d.width]
		if from < d.off { // the beginning went before
			copy(p, v[d.off-from:])
		} else {
			copy(p[from-d.off:], v)
		}
		if from+d.width > end {
			break // the rest comes with the next read
		}
		d.places = d.places[1:]
	}
	d.off = end
	return len(p), nil
}

func (d *dense) Close() error { return nil }

// Sparsify returns a sparse tensor of the elements of t that are not zero, in
// row-major order. scheme is "sparse_csr", for two dimensions, or "sparse_coo".
// Zero is what has no bit set: -0 stays. t must be dense, row-major and of whole
// bytes an element. A result of up to 2 MiB is in memory, and t is read once;
// of a larger one each part reads t again whenever it is read, coords once for
// every dimension.
func Sparsify(ctx context.Context, t *tensor.Tensor, scheme string) (*tensor.Tensor, error) {
	if t == nil {
		return nil, errNil
	}
	if err := t.Check(); err != nil {
		return nil, err
	}
	width := t.DType.Size()
	switch {
	case scheme != schemeCSR && scheme != schemeCOO:
		return nil, fmt.Errorf("ztensor: %w: %s is not a sparse format", errors.ErrUnsupported, tensor.Quote(scheme))
	case !t.Dense() || t.External || !t.Order.RowMajor():
		return nil, fmt.Errorf("ztensor: %w: tensor %s is not dense and row-major", errors.ErrUnsupported, tensor.Quote(t.Name))
	case width == 0:
		return nil, fmt.Errorf("ztensor: %w: tensor %s is %v", tensor.ErrDType, tensor.Quote(t.Name), t.DType)
	case scheme == schemeCSR && len(t.Shape) != 2:
		return nil, fmt.Errorf("ztensor: %w: tensor %s has %d dimensions, sparse_csr two", errors.ErrUnsupported, tensor.Quote(t.Name), len(t.Shape))
	}
	elements, _ := t.Shape.Elements()
	rank := len(t.Shape)
	if scheme == schemeCSR {
		rank = 1 // of indices
		if rows := t.Shape[0]; rows > max(elements, math.MaxInt32/8) {
			return nil, fmt.Errorf("ztensor: %w: tensor %s has %d rows of nothing", tensor.ErrLimit, tensor.Quote(t.Name), rows)
		}
	}
	const inMemory = 2 << 20
	var values []byte
	var at []uint64 // elements with a value
	nnz := int64(0)
	if err := eachElement(ctx, t.Data, elements, width, func(i uint64, v []byte) {
		if nnz++; nnz*int64(width+8*rank) > inMemory {
			values, at = nil, nil
			return
		}
		values = append(values, v...)
		at = append(at, i)
	}); err != nil {
		return nil, err
	}
	if _, ok := align.Mul(nnz, 8*int64(rank)); !ok {
		return nil, fmt.Errorf("ztensor: %w: tensor %s has %d values of %d coordinates", tensor.ErrLimit, tensor.Quote(t.Name), nnz, rank)
	}
	// each calls f with the elements that have a value, in order.
	each := func(_ context.Context, f func(i uint64, v []byte)) error {
		for k, i := range at {
			f(i, values[k*width:][:width])
		}
		return nil
	}
	held := int64(len(at)) == nnz
	if !held {
		dense := t.Data
		each = func(ctx context.Context, f func(i uint64, v []byte)) error {
			return eachElement(ctx, dense, elements, width, f)
		}
	}

	out := &tensor.Tensor{Name: t.Name, DType: t.DType, Shape: t.Shape, Scheme: scheme}
	var failed error
	add := func(role string, d tensor.DType, size int64, produce func(ctx context.Context, w *bufio.Writer) error) {
		data := tensor.BlobFunc(size, func() (io.ReadCloser, error) { return piped(context.Background(), size, produce), nil })
		if held && size <= inMemory && failed == nil {
			var b []byte
			b, failed = data.ReadAll()
			data = tensor.BlobOf(b)
		}
		out.Parts = append(out.Parts, tensor.Part{Role: role, DType: d, Data: data})
	}
	number := func(w *bufio.Writer, v uint64) error {
		_, err := w.Write(binary.LittleEndian.AppendUint64(w.AvailableBuffer(), v))
		return err
	}
	// of writes what f makes of each element with a value.
	of := func(f func(w *bufio.Writer, i uint64, v []byte) error) func(context.Context, *bufio.Writer) error {
		return func(ctx context.Context, w *bufio.Writer) error {
			var failed error
			err := each(ctx, func(i uint64, v []byte) {
				if failed == nil {
					failed = f(w, i, v)
				}
			})
			return cmp.Or(err, failed)
		}
	}
	add("values", t.DType, nnz*int64(width), of(func(w *bufio.Writer, _ uint64, v []byte) error {
		_, err := w.Write(v)
		return err
	}))
	if scheme == schemeCOO {
		add("coords", tensor.U64, 8*nnz*int64(rank), func(ctx context.Context, w *bufio.Writer) error {
			for d := range t.Shape {
				slower := uint64(1) // elements for each coordinate of dimension d
				for _, dim := range t.Shape[d+1:] {
					slower *= uint64(dim)
				}
				if err := of(func(w *bufio.Writer, i uint64, _ []byte) error {
					return number(w, i/slower%uint64(t.Shape[d]))
				})(ctx, w); err != nil {
					return err
				}
			}
			return nil
		})
		return out, failed
	}
	rows, cols := uint64(t.Shape[0]), uint64(t.Shape[1])
	add("indices", tensor.U64, 8*nnz, of(func(w *bufio.Writer, i uint64, _ []byte) error { return number(w, i%cols) }))
	add("indptr", tensor.U64, 8*(t.Shape[0]+1), func(ctx context.Context, w *bufio.Writer) error {
		row, n := uint64(0), uint64(0) // the row whose beginning comes next, and values before it
		err := of(func(w *bufio.Writer, i uint64, _ []byte) error {
			for ; row <= i/cols; row++ {
				if err := number(w, n); err != nil {
					return err
				}
			}
			n++
			return nil
		})(ctx, w)
		for ; err == nil && row <= rows; row++ {
			err = number(w, n)
		}
		return err
	})
	return out, failed
}

// eachElement calls f with every one of n elements that has a bit set. A blob of
// unknown size shows only here whether it has as many.
func eachElement(ctx context.Context, b tensor.Blob, n int64, width int, f func(i uint64, v []byte)) error {
	in, err := b.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	buf := make([]byte, (64<<10)/width*width)
	for i, have := uint64(0), int64(0); ; {
		k, err := source.ReadPiece(in, buf)
		have += int64(k)
		last := err == io.EOF
		if err != nil && !last {
			return err
		}
		if have > n*int64(width) || last && have != n*int64(width) {
			return fmt.Errorf("%w: %d bytes where %d elements of %d bytes are declared", tensor.ErrMalformed, have, n, width)
		}
		for p := buf[:k]; len(p) > 0; p = p[width:] {
			v := p[:width]
			for _, x := range v {
				if x != 0 {
					f(i, v)
					break
				}
			}
			i++
		}
		if last {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// caught holds the first panic of goroutines that run foreign code, a source of
// data or an io.ReaderAt, so that it can go on in the goroutine of the caller,
// who may know what to do with it. Otherwise it would end the process.
type caught struct {
	once  sync.Once
	value any
}

// during calls f and turns a panic of it into an error.
func (c *caught) during(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			c.once.Do(func() { c.value = p })
			err = fmt.Errorf("ztensor: a panic: %v", p)
		}
	}()
	return f()
}

// rethrow lets a panic go on. The goroutines have ended.
func (c *caught) rethrow() {
	if c.value != nil {
		panic(c.value)
	}
}
